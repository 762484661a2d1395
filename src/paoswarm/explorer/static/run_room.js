// The run room: what the page knows about a stored run, and when it asks for more.

import { FitPanel } from "./fit.js";
import { ask, complain, latest } from "./net.js";
import { seconds, show } from "./plot.js";
import { rank } from "./rank.js";
import { Charts } from "./run_charts.js";
import { showPosterior } from "./posterior.js";
import { showDescription, showFailures, showTime, showUnknowns } from "./run_tables.js";

const QUICK = 1000, SLOW = 4000; // milliseconds between questions while a run goes on, and after it has ended
const WORDS = { running: "running", ended: "ended", stopped: "stopped", empty: "not started" };
const element = (id) => document.getElementById(id);

export function runRoom(runs) {
  let visible = false, timer = 0, number = 0, view = null, posterior = null;
  let known = { epoch: -1, since: 0, had_share: -1 };
  const charts = new Charts(element, () => draw());
  const fit = new FitPanel(element);
  element("no-run").hidden = runs.length > 0;
  element("run-view").hidden = runs.length === 0;
  if (runs.length > 1) {
    element("run-picker").hidden = false;
    element("run-file").replaceChildren(...runs.map((run, i) => new Option(run.name, i)));
    element("run-file").addEventListener("change", (event) => {
      number = Number(event.target.value);
      known = { epoch: -1, since: 0, had_share: -1 };
      view = posterior = null;
      charts.forget();
      fit.forget();
      refresh();
    });
  }

  const send = latest("run", (answer, asked) => {
    if (asked.run !== number) return;
    if (answer.names) take(answer, asked);
    showHead(answer.state, answer.total);
    view = { ...view, state: answer.state, total: answer.total, threshold: answer.threshold, share: asked.share };
    if (answer.total) known = { epoch: answer.epoch, since: answer.total, had_share: asked.share };
    if (answer.range) {
      Object.assign(view, { range: answer.range, window: answer.window, profiles: answer.profiles });
      draw();
      charts.askPair(number, asked.share);
    }
    if (answer.state.trouble) complain(answer.state.trouble);
    askPosterior();
    if (answer.state.function === "fit" && answer.total) fit.refresh(number, () => asked.run === number);
  });

  function take(answer, asked) {
    const isNew = !view || !view.points || answer.epoch !== known.epoch;
    const old = isNew ? [] : view.points.filter((p) => p.row < asked.since && p.row % answer.stride === 0 && !p.isTop);
    const points = [...old, ...unrolled(answer.rows, false)];
    const have = new Set(points.map((p) => p.row));
    for (const p of unrolled(answer.top, true)) if (!have.has(p.row)) points.push(p);
    const losses = answer.quantiles.map((q) => answer.sign * q);
    for (const p of points) {
      p.loss = Number.isNaN(p.f) ? Infinity : answer.sign * p.f;
      p.rank = rank(losses, p.loss);
    }
    points.sort((a, b) => b.loss - a.loss); // the best are drawn last
    view = { ...view, ...answer, points, losses };
    if (isNew) charts.start(view);
  }

  function unrolled(rows, isTop) {
    return Array.from(rows.row, (row, i) => ({ row, isTop, number: rows.number[i], elapsed: rows.elapsed[i], f: rows.f[i], x: rows.x[i] }));
  }

  function share() {
    const at = Number(element("share").value) / 100; // 0.1 % to 100 %, logarithmic
    return at === 1 ? 1 : 10 ** (-3 * (1 - at));
  }

  function refresh() {
    clearTimeout(timer);
    if (!runs.length || !visible) return;
    const isOver = view && view.state && view.state.word === "ended" && !(posterior && posterior.busy) && !fit.busy;
    timer = setTimeout(refresh, isOver ? SLOW : QUICK);
    if (!document.hidden) send({ run: number, ...known, share: share() });
  }

  async function askPosterior() {
    const isSample = view.state.function === "sample";
    element("posterior-card").hidden = !isSample;
    if (!isSample || !view.total) return;
    try {
      const asked = number, found = await ask("posterior", { run: number });
      if (asked !== number) return;
      const isNew = !posterior || found.evaluations !== posterior.evaluations || found.busy !== posterior.busy;
      posterior = found;
      if (isNew) showPosterior(posterior, view.state.message, element);
    } catch (error) {
      element("posterior-message").textContent = error.message;
    }
  }

  function showHead(state, total) {
    const word = element("run-word");
    word.textContent = WORDS[state.word];
    word.className = `pill ${state.word}`;
    element("run-title").textContent = `${state.file} · ${state.function || "empty"} ${state.method}`.trim();
    const expected = state.expected, isKnown = expected && state.evaluations <= expected;
    const facts = [
      ["evaluations", `${state.evaluations.toLocaleString("en")}${isKnown ? ` of ${expected.toLocaleString("en")}` : ""}`],
      [state.function === "sample" ? "highest log likelihood" : "best value", show(state.best, 8)],
      ["failed", state.failed.toLocaleString("en")],
      ["rate", state.rate > 0 ? (state.rate >= 1 ? `${show(state.rate, 3)} per second` : `one in ${seconds(1 / state.rate)}`) : "–"],
    ];
    if (Number.isFinite(state.remaining) && state.remaining !== null) facts.push(["left at most", seconds(state.remaining)]);
    element("metrics").replaceChildren(...facts.map(([label, text]) => {
      const box = document.createElement("div"), small = document.createElement("span"), big = document.createElement("b");
      small.textContent = label;
      big.textContent = text;
      box.append(small, big);
      return box;
    }));
    const bar = element("bar");
    bar.hidden = !isKnown;
    if (isKnown) {
      const percent = Math.round((100 * state.evaluations) / expected);
      bar.firstElementChild.style.width = `${percent}%`;
      bar.setAttribute("aria-valuenow", percent);
    }
    const gone = state.word === "stopped" ? "The process that wrote it is gone. The same call continues from here." : "";
    element("run-message").textContent = total ? state.message || gone : state.message || gone || "No evaluation is recorded yet.";
  }

  function draw() {
    if (!visible || !view || !view.points) return;
    charts.draw(view);
    showUnknowns(view, element("unknowns"));
    showFailures(view, element);
    showTime(view, element);
    showDescription(view, runs[number].path, element);
    if (posterior) showPosterior(posterior, view.state.message, element);
    fit.draw();
  }

  element("share").addEventListener("input", () => {
    const percent = 100 * share();
    element("share-text").textContent = `${show(percent, 2)} %`;
    send({ run: number, ...known, share: share() });
  });
  for (const id of ["y-mode", "x-mode"]) element(id).addEventListener("change", draw);
  document.addEventListener("visibilitychange", refresh);

  return {
    draw,
    query: () => "",
    shown(on) {
      visible = on;
      if (on) { draw(); refresh(); }
    },
  };
}
