// The swarm room: controls, play, and the address. Every number that is drawn comes from the server.

import { ask, latest } from "./net.js";
import { show } from "./plot.js";
import { drawBehaviour, drawFall, drawPlanes, drawResponse, Stage } from "./swarm_draw.js";

const PACE = 220; // milliseconds of a step
const EXAMPLES = [
  ["Default", {}],
  ["Swinging", { damping: 0.05, noise: 0.25 }],
  ["Critical", { damping: 1, noise: 5 }],
  ["Stagnates", { damping: 0.7 }],
  ["Scatters", { damping: 0.05, noise: 3 }],
  ["Short steps", { dt: 0.1 }],
  ["Heavy", { mass: 6, noise: 0.1, dt: 1.5 }],
];
const WORDS = [
  ["regime", "Regime", ""], ["natural_frequency", "Natural frequency", " rad per unit of time"], ["phase", "Phase", " rad per step"],
  ["period", "Period", " steps"], ["half_life", "Half-life", " steps"],
];
const element = (id) => document.getElementById(id);

export function swarmRoom(controls, query, onAddress) {
  const form = element("controls"), stage = new Stage(element("stage")), step = element("step");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let settings = { ...controls.defaults }, answer = null, playing = false, address = "", timer = 0, visible = false;

  buildSliders();
  fill(form.elements.scale, controls.scales.map((name) => [name, name.replaceAll("_", " ")]));
  fill(form.elements.walls, controls.walls.map((name) => [name, name]));
  fill(element("function"), controls.functions);
  form.elements.particles.max = controls.most_particles;
  step.max = controls.most_steps;

  const send = latest("swarm", (found) => {
    const before = answer;
    answer = found;
    if (!before || before.settings.fun !== found.settings.fun) askContours();
    element("snippet").textContent = found.snippet;
    address = found.link ? `?${found.link}` : "";
    clearTimeout(timer);
    timer = setTimeout(() => onAddress(address), 250); // browsers limit how often an address may change
    const moves = before && found.settings.step === before.settings.step + 1 && !calm.matches;
    stage.show(found.frame, moves ? before.frame : null, playing ? PACE : 160);
    if (element("follow").checked) askContours();
    draw();
    if (playing) setTimeout(advance, PACE);
  });
  const contours = latest("contours", (found) => { stage.contours(found); stage.paint(); });

  function askContours() {
    contours({ fun: settings.fun, view: element("follow").checked && answer ? stage.around(answer.frame) : null });
  }

  function change(changes) {
    settings = { ...settings, ...changes };
    sync();
    send(settings);
  }

  function advance() {
    if (!playing) return;
    if (settings.step >= controls.most_steps || !visible) { play(false); return; }
    change({ step: settings.step + 1 });
  }

  function play(on) {
    playing = on;
    element("play").textContent = on ? "Pause" : "Play";
    element("play").setAttribute("aria-pressed", String(on));
    if (on) advance();
  }

  function buildSliders() {
    for (const one of controls.parameters) {
      const row = document.createElement("div"), label = document.createElement("label"), hint = document.createElement("p");
      const number = document.createElement("input"), range = document.createElement("input");
      row.className = "slider";
      label.textContent = one.label;
      label.htmlFor = `number-${one.name}`;
      hint.textContent = one.meaning;
      hint.className = "hint";
      Object.assign(number, { type: "number", id: `number-${one.name}`, min: one.low, max: one.high, step: "any" });
      Object.assign(range, { type: "range", id: `range-${one.name}`, min: 0, max: 1000, step: 1 });
      range.setAttribute("aria-label", one.label);
      row.append(label, number, range, hint);
      element("sliders").append(row);
      range.addEventListener("input", () => change({ [one.name]: place(one, range.value / 1000) }));
      number.addEventListener("input", () => {
        if (number.value !== "" && number.checkValidity()) change({ [one.name]: Number(number.value) });
      });
      number.addEventListener("blur", sync);
    }
  }

  function place(one, share) {
    const value = one.is_logarithmic ? one.low * (one.high / one.low) ** share : one.low + share * (one.high - one.low);
    return Number(value.toPrecision(3));
  }

  function share(one, value) {
    return one.is_logarithmic ? Math.log(value / one.low) / Math.log(one.high / one.low) : (value - one.low) / (one.high - one.low);
  }

  // Show the settings in the controls, except in the one that is being typed into.
  function sync() {
    const active = document.activeElement;
    for (const one of controls.parameters) {
      const number = element(`number-${one.name}`), range = element(`range-${one.name}`);
      if (number !== active) number.value = settings[one.name];
      if (range !== active) range.value = Math.round(1000 * share(one, settings[one.name]));
      range.setAttribute("aria-valuetext", show(settings[one.name]));
    }
    for (const name of ["scale", "walls", "particles", "seed"])
      if (form.elements[name] !== active) form.elements[name].value = settings[name];
    const [name, ...changes] = settings.fun.split("-");
    element("function").value = name;
    element("shifted").checked = changes.includes("shifted1");
    element("rotated").checked = changes.includes("rotated1");
    if (step !== active) step.value = settings.step;
    element("where").textContent = `step ${settings.step}`;
    for (const [i, chip] of [...element("presets").children].entries()) {
      const wanted = { ...controls.defaults, ...EXAMPLES[i][1] };
      chip.setAttribute("aria-pressed", String(controls.parameters.every((one) => wanted[one.name] === settings[one.name])));
    }
  }

  function pickFunction() {
    const changes = ["shifted", "rotated"].filter((name) => element(name).checked).map((name) => `-${name}1`);
    change({ fun: element("function").value + changes.join("") });
  }

  for (const [name, values] of EXAMPLES) {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = name;
    chip.addEventListener("click", () => {
      const numbers = Object.fromEntries(controls.parameters.map((one) => [one.name, one.default]));
      change({ ...numbers, ...values });
    });
    element("presets").append(chip);
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const name of ["scale", "walls"]) form.elements[name].addEventListener("change", (event) => change({ [name]: event.target.value }));
  for (const name of ["particles", "seed"])
    form.elements[name].addEventListener("input", (event) => {
      if (event.target.value !== "" && event.target.checkValidity()) change({ [name]: Number(event.target.value) });
    });
  for (const id of ["function", "shifted", "rotated"]) element(id).addEventListener("change", pickFunction);
  element("follow").addEventListener("change", askContours);
  element("reseed").addEventListener("click", () => change({ seed: Math.floor(Math.random() * 1e6) }));
  element("defaults").addEventListener("click", () => { play(false); change({ ...controls.defaults }); });
  element("play").addEventListener("click", () => play(!playing));
  element("forward").addEventListener("click", () => { play(false); change({ step: Math.min(settings.step + 1, controls.most_steps) }); });
  element("back").addEventListener("click", () => { play(false); change({ step: Math.max(settings.step - 1, 0) }); });
  element("restart").addEventListener("click", () => { play(false); change({ step: 0 }); });
  step.addEventListener("input", () => { play(false); change({ step: Number(step.value) }); });
  copies("copy-code", () => element("snippet").textContent);
  copies("copy-link", () => `${location.origin}/#swarm${address || "?"}`); // without the token

  function copies(id, text) {
    const button = element(id), label = button.textContent;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text());
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }

  function draw() {
    if (!answer || !visible) return;
    stage.paint();
    drawFall(answer, element("fall"));
    drawResponse(answer, element("response"));
    drawPlanes(answer, element("s-plane"), element("z-plane"));
    drawBehaviour(answer, element("gauge"));
    element("spread").textContent = show(answer.behaviour.stationary_spread, 3);
    const concern = element("concern"), bad = answer.concerns.length > 0;
    concern.classList.toggle("bad", bad);
    const first = bad ? answer.concerns.join(" ") : "";
    const healthy = answer.settings.scale === "spread" ? "The swarm should contract at a healthy pace." : "Measured limits are for the noise scale “spread”.";
    concern.textContent = bad ? `${first[0].toUpperCase()}${first.slice(1)}.` : healthy;
    const facts = element("behaviour");
    facts.replaceChildren(...WORDS.flatMap(([name, label, unit]) => {
      const term = document.createElement("dt"), value = document.createElement("dd"), raw = answer.behaviour[name];
      term.textContent = label;
      value.textContent = typeof raw === "string" ? raw : show(raw, 4) + unit;
      return [term, value];
    }));
  }

  // What a link says is read by the server, which clamps it.
  function load(text) {
    settings = { ...controls.defaults, ...Object.fromEntries(new URLSearchParams(text)) };
    ask("swarm", settings).then((found) => { settings = found.settings; sync(); send(settings); }, () => change(controls.defaults));
  }

  load(query);
  return {
    draw,
    load,
    query: () => address,
    shown(on) { visible = on; if (on) draw(); else play(false); },
  };
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
}
