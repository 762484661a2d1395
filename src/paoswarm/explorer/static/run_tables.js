// Tables of a stored run, and the charts of its times. Names and messages are always text, never markup.

import { colour, Plot, seconds, shortened, show } from "./plot.js";
import { say, shareOf } from "./unknowns.js";

const SVG = "http://www.w3.org/2000/svg";
const FIRST_ROWS = 20;
const plots = new Map();

export function table(node, head, rows) {
  const thead = document.createElement("thead"), tbody = document.createElement("tbody"), top = document.createElement("tr");
  head.forEach((text, i) => {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = text;
    if (rows.length && rows[0][i].text !== undefined) cell.className = "text";
    top.append(cell);
  });
  thead.append(top);
  for (const cells of rows) {
    const row = document.createElement("tr");
    for (const content of cells) {
      const cell = document.createElement("td");
      const isText = content.text !== undefined && !(content instanceof Node);
      cell.append(isText ? content.text : content);
      if (isText) cell.className = "text";
      row.append(cell);
    }
    tbody.append(row);
  }
  node.replaceChildren(thead, tbody);
}

// A box from bound to bound, with the range of the evaluations that are shown and the best point.
function bar(label, at, from, to, best) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 14");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  const part = (name, x, width, y, height) => {
    const box = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries({ class: name, x, width, y, height, rx: 1 })) box.setAttribute(key, value);
    svg.append(box);
  };
  part("mark-box", 0, 100, 4, 6);
  part("mark-range", at(from), Math.max(0.8, at(to) - at(from)), 4, 6);
  if (Number.isFinite(best)) part("mark-best", Math.max(0, at(best) - 0.9), 1.8, 0, 14);
  return svg;
}

export function showUnknowns(view, node) {
  const best = view.state.where;
  const rows = view.names.slice(0, 60).map((name, j) => {
    const share = (v) => shareOf(view.is_log[j], v, view.lower[j], view.upper[j]), place = best.length ? share(best[j]) : NaN;
    const wall = view.sign < 0 || view.entries[j] ? "" : place <= 1e-6 ? " (lower bound)" : place >= 1 - 1e-6 ? " (upper bound)" : "";
    const [from, to] = [view.range[0][j], view.range[1][j]], [first, last] = [from, to].map((v) => shortened(say(view, j, v, 3), 10));
    const at = (v) => Math.min(100, Math.max(0, 100 * share(v)));
    return [name, shortened(say(view, j, best[j], 7), 20) + wall, first, bar(`from ${first} to ${last}`, at, from, to, best[j]), last];
  });
  table(node, ["", "best", "from", "", "to"], rows);
}

export function showFailures(view, element) {
  const { failures } = view, place = element("failures");
  element("failed-count").textContent = failures.count.toLocaleString("en");
  if (!failures.count) {
    const text = document.createElement("p");
    text.className = "hint";
    text.textContent = "No evaluation has failed.";
    place.replaceChildren(text);
    return;
  }
  const kinds = document.createElement("table"), latest = document.createElement("table"), title = document.createElement("p");
  table(kinds, ["why", "count"], failures.kinds.map(([, count, example]) => [{ text: example }, count.toLocaleString("en")]));
  title.className = "hint";
  title.textContent = "The latest:";
  const rows = failures.why.slice(0, FIRST_ROWS).map((why, i) => [
    failures.number[i], { text: why }, { text: Array.from(failures.x[i].slice(0, 6), (v, j) => say(view, j, v, 4)).join(", ") + (failures.x[i].length > 6 ? ", …" : "") },
  ]);
  table(latest, ["number", "why", "where"], rows);
  const scroll = document.createElement("div");
  scroll.className = "scroll short";
  scroll.tabIndex = 0;
  scroll.append(latest);
  place.replaceChildren(kinds, title, scroll);
}

function bars(canvas, edges, heights, { xLabel, yLabel, style = "accent", logX = false, line = null, most = 0 }) {
  if (!plots.has(canvas)) plots.set(canvas, new Plot(canvas, [18, 10, 32, 46]));
  const plot = plots.get(canvas), top = Math.max(...heights, most, 1e-12);
  if (!plot.begin([edges[0], edges[edges.length - 1]], [0, 1.08 * top], { logX })) return;
  plot.axes(xLabel, yLabel);
  const c = plot.context;
  c.fillStyle = colour(style, 0.65);
  for (let i = 0; i < heights.length; i++) {
    const x0 = plot.X(edges[i]), x1 = plot.X(edges[i + 1]);
    c.fillRect(x0, plot.Y(heights[i]), Math.max(1, x1 - x0 - 1), plot.box[3] - plot.Y(heights[i]));
  }
  if (line !== null) plot.segment(plot.box[0], plot.Y(line), plot.box[2], plot.Y(line), colour("best"), [4, 3], 1.4);
}

export function showTime(view, element) {
  const { timing } = view, isFlight = timing.flight.length > 0;
  const unit = timing.active > 7200 ? [3600, "h"] : timing.active > 180 ? [60, "min"] : [1, "s"];
  const edges = timing.edges.map((t) => t / unit[0]);
  if (isFlight) bars(element("rate"), edges, timing.flight, { xLabel: `active time, ${unit[1]}`, yLabel: "points under way", line: timing.workers > 0 ? timing.workers : null, most: timing.workers || 0 });
  else bars(element("rate"), edges, timing.rate, { xLabel: `active time, ${unit[1]}`, yLabel: "evaluations per second" });
  const isKnown = timing.histogram.edges !== undefined && timing.durations[2] >= 0.002; // times are recorded in milliseconds
  element("durations").hidden = !isKnown;
  if (isKnown) bars(element("durations"), timing.histogram.edges, timing.histogram.count, { xLabel: "time per evaluation, s", yLabel: "evaluations", style: "middle", logX: true });
  element("time-hint").textContent = `active for ${seconds(timing.active)}`;
  const said = [];
  if (isKnown) {
    const [, low, middle, high, most] = timing.durations;
    said.push(`An evaluation took ${seconds(middle)} (median), 80 % took ${seconds(low)} to ${seconds(high)}, the longest ${seconds(most)}: ${timing.how}.`);
  } else if (timing.how) said.push("Evaluations are too short for their times, which are recorded in milliseconds.");
  if (timing.use > 0) said.push(`The ${timing.workers} workers were busy for ${show(100 * timing.use, 3)} % of the time.`);
  if (timing.limit > 0) said.push(`With ${timing.workers} workers an evaluation took at most ${seconds(timing.limit)} on average. The store does not record when each one began.`);
  element("time-text").textContent = said.join(" ");
  if (view.sessions.length === 1) {
    const [only] = view.sessions, text = document.createElement("p");
    text.className = "hint";
    text.textContent = `Written by process ${only.pid} on ${only.host} since ${moment(only.start)}.`;
    element("sessions").replaceChildren(text);
    return;
  }
  const list = document.createElement("table");
  table(list, ["started", "process", "evaluations", "how it ended"], view.sessions.slice(-6).map((session, i, shown) => {
    const next = shown[i + 1] ? shown[i + 1].row : view.total;
    return [moment(session.start), { text: `${session.pid} on ${session.host}` }, (next - session.row).toLocaleString("en"), { text: session.message || "–" }];
  }));
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.append(list);
  element("sessions").replaceChildren(scroll);
}

function moment(t) {
  return new Date(1000 * t).toLocaleString("sv");
}

export function showDescription(view, path, element) {
  const { limits, how, versions } = view.state;
  const entries = [...Object.entries(limits), ...Object.entries(how), ...Object.entries(versions)].filter(([name]) => name !== "expected");
  element("description").replaceChildren(...entries.map(([name, text]) => {
    const box = document.createElement("div"), label = document.createElement("span");
    label.textContent = name;
    box.append(label, text);
    return box;
  }));
  element("read-snippet").textContent = `import paoswarm as ps\n\nx, f = ps.Store(${JSON.stringify(path)}).read()`;
}
