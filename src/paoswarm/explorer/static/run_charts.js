// Charts of a stored run: convergence, slices, parallel coordinates, a pair of unknowns.

import { latest } from "./net.js";
import { rank } from "./rank.js";
import { Parallel } from "./parallel.js";
import { colour, Plot, ramp, seconds, show, whenSeen, withTip } from "./plot.js";
import { numberAt, say } from "./unknowns.js";

const FIRST_SLICES = 12;

export class Charts {
  constructor(element, redraw) {
    this.element = element;
    this.convergence = withTip(new Plot(element("convergence"), [18, 12, 32, 56]));
    this.pairPlot = withTip(new Plot(element("pair"), [18, 10, 32, 56]));
    this.parallel = new Parallel(element("parallel"), element("clear-brush"), redraw);
    this.slices = [];
    this.allSlices = false;
    this.pair = null;
    this.sendPair = latest("pair", (found) => { this.pair = found; if (this.view) whenSeen(this.pairPlot.canvas, () => this.drawPair(this.view)); });
    for (const id of ["pair-across", "pair-up"]) element(id).addEventListener("change", () => this.askPair(this.run));
    element("more-slices").addEventListener("click", () => { this.allSlices = true; this.makeSlices(this.view); redraw(); });
  }

  forget() {
    this.view = this.pair = null;
    this.parallel.clear();
  }

  // The first look at a run: which values to choose.
  start(view) {
    this.view = view;
    this.allSlices = false;
    const { element } = this, options = view.names.map((name, j) => [name, j]);
    for (const [id, chosen] of [["pair-across", 0], ["pair-up", 1]]) {
      element(id).replaceChildren(...options.map(([name, j]) => new Option(name, j)));
      element(id).value = Math.min(chosen, view.names.length - 1);
    }
    element("pair").closest(".card").hidden = view.names.length < 2;
    this.makeSlices(view);
    const line = view.lines[0].value, losses = view.losses, best = losses[0];
    const isPositive = view.sign > 0 && best > 0 && losses[losses.length - 1] / best > 100;
    const first = Math.abs(line[0] - line[line.length - 1]), last = Math.abs(line[line.length - 2] - line[line.length - 1]);
    const hasSettled = line.length > 4 && first > 1e3 * last && !(isPositive && best < 1e-4 * first); // and not at zero
    element("y-mode").value = hasSettled ? "gap" : isPositive ? "log" : "linear";
    element("y-mode").options[1].disabled = !(best > 0 && view.sign > 0);
  }

  makeSlices(view) {
    const { element } = this, count = this.allSlices ? view.names.length : Math.min(FIRST_SLICES, view.names.length);
    this.slices = [];
    const figures = [];
    for (let j = 0; j < count; j++) {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption"), canvas = document.createElement("canvas");
      caption.textContent = view.names[j];
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${view.names[j]} against value`);
      figure.append(caption, canvas);
      figures.push(figure);
      this.slices.push(withTip(new Plot(canvas, [6, 6, 18, 44])));
    }
    element("slices").replaceChildren(...figures);
    element("more-slices").hidden = count === view.names.length;
    element("more-slices").textContent = `Show all ${view.names.length}`;
  }

  // How values are drawn: their height, its range, and whether the axis is logarithmic.
  heights(view) {
    const mode = this.element("y-mode").value, { losses, sign } = view;
    const best = losses[0], worst = view.share < 1 ? sign * view.threshold : losses[Math.min(95, losses.length - 1)];
    if (mode === "gap") {
      const line = view.lines.flatMap((l) => Array.from(l.value, (v) => sign * v - best)).filter((g) => g > 0);
      const floor = Math.max(Math.min(...line, worst - best || 1) / 3, Number.MIN_VALUE);
      return { of: (f) => Math.max(sign * f - best, floor), range: [floor, Math.max(worst - best, 10 * floor)], log: true, label: "distance to the best" };
    }
    const room = mode === "log" ? 0 : 0.04 * (worst - best), label = sign > 0 ? "value" : "log likelihood";
    if (mode === "log") return { of: (f) => f, range: [best, Math.max(worst, best * 2)], log: true, label };
    return { of: (f) => f, range: sign > 0 ? [best - room, worst + room] : [-worst - room, -best + room], log: false, label };
  }

  draw(view) {
    this.view = view;
    const limit = view.sign * view.threshold;
    view.isShown = (p) => p.loss <= limit && this.parallel.accepts(p, view);
    view.shown = view.points.filter(view.isShown);
    for (const plot of [this.convergence, this.pairPlot, ...this.slices]) plot.tell = (p) => this.tell(view, p);
    whenSeen(this.convergence.canvas, () => this.drawConvergence(view));
    this.slices.forEach((plot, j) => whenSeen(plot.canvas, () => this.drawSlice(view, plot, j)));
    whenSeen(this.parallel.plot.canvas, () => this.parallel.draw(view, limit));
    whenSeen(this.pairPlot.canvas, () => this.drawPair(view));
  }

  tell(view, p) {
    const lines = view.names.slice(0, 8).map((name, j) => `${name} = ${say(view, j, p.x[j], 6)}`);
    if (view.names.length > 8) lines.push("…");
    return [`evaluation ${p.number}`, Number.isNaN(p.f) ? "failed" : `value ${show(p.f, 8)}`, ...lines].join("\n");
  }

  drawConvergence(view) {
    const plot = this.convergence, { element } = this, mode = element("x-mode").value, y = this.heights(view);
    const isTime = mode === "elapsed", end = isTime ? view.timing.active : Math.max(view.total - 1, 1);
    const tops = view.lines.map((l) => y.of(l.value[0])).filter(Number.isFinite);
    const range = [...y.range];
    if (view.share === 1 && tops.length) { range[0] = Math.min(range[0], ...tops); range[1] = Math.max(range[1], ...tops); }
    if (!plot.begin([0, end], range, { logY: y.log })) return;
    plot.axes(isTime ? "active time, s" : "evaluations", y.label);
    plot.clip((c) => {
      c.fillStyle = colour("soft", 0.1);
      for (const p of view.points)
        if (p.loss < Infinity && !view.isShown(p)) c.fillRect(plot.X(p[mode]) - 1.2, plot.Y(y.of(p.f)) - 1.2, 2.4, 2.4);
      plot.specks(view.shown, (p) => p[mode], (p) => y.of(p.f));
      for (const p of view.points)
        if (Number.isNaN(p.f)) plot.segment(plot.X(p[mode]), plot.box[3] - 7, plot.X(p[mode]), plot.box[3], colour("fail", 0.8), [], 1.2);
      view.lines.forEach((line, i) => {
        const xs = [], ys = [], at = isTime ? line.elapsed : line.row;
        for (let k = 0; k < at.length; k++) {
          if (k) { xs.push(at[k]); ys.push(ys[ys.length - 1]); }
          xs.push(at[k]);
          ys.push(y.of(line.value[k]));
        }
        if (xs.length) { xs.push(isTime ? end : Math.max(line.last, at[at.length - 1])); ys.push(ys[ys.length - 1]); }
        plot.line(xs, ys, colour("accent", view.lines.length > 1 ? 0.65 : 1), view.lines.length > 1 ? 1.3 : 2.2);
        for (let k = 0; k < at.length; k++)
          plot.hit(plot.X(at[k]), plot.Y(y.of(line.value[k])), () => `${view.lines.length > 1 ? `run ${i}, ` : ""}best value ${show(line.value[k], 8)}\nafter ${isTime ? seconds(at[k]) : `${at[k] + 1} evaluations`}`);
      });
    });
    const thinned = view.stride > 1 ? `every ${view.stride}th evaluation and the best 200 as dots` : "every evaluation as a dot";
    element("convergence-hint").textContent = `line: best so far; ${thinned}${view.failures.count ? "; red: failures" : ""}`;
    plot.canvas.setAttribute("aria-label", `Convergence: best value ${show(view.state.best, 8)} after ${view.total} evaluations`);
  }

  drawSlice(view, plot, j) {
    const y = this.heights(view), low = view.window[0][j], high = view.window[1][j];
    if (y.log) y.range = [Math.max(y.range[0], 1e-4 * y.range[1]), y.range[1]]; // four decades: else a valley is a line
    const logX = view.is_log[j];
    if (!plot.begin([low, high], y.range, { logX, logY: y.log, entriesX: view.entries[j] })) return;
    plot.axes();
    plot.clip(() => {
      plot.specks(view.shown, (p) => p.x[j], (p) => y.of(p.f));
      const profile = view.profiles[j], xs = [], ys = [], edge = (k) => numberAt(logX, k / profile.length, low, high);
      profile.forEach((v, k) => { xs.push(edge(k), edge(k + 1)); ys.push(y.of(v), y.of(v)); });
      plot.line(xs, ys, colour("accent"), 1.4);
      for (let k = 0; k < view.failures.row.length; k++) {
        const px = plot.X(view.failures.x[k][j]);
        plot.segment(px, plot.box[1], px, plot.box[1] + 5, colour("fail", 0.7));
      }
      if (view.state.where.length) this.star(plot, plot.X(view.state.where[j]), Math.min(plot.Y(y.of(view.state.best)), plot.box[3] - 4));
    });
  }

  star(plot, px, py) {
    plot.dot(px, py, 5.5, colour("card"));
    plot.dot(px, py, 4, colour("best"));
  }

  askPair(run, share = this.share) {
    Object.assign(this, { run, share });
    if (!this.view || this.view.names.length < 2) return;
    this.sendPair({ run, share, across: Number(this.element("pair-across").value), up: Number(this.element("pair-up").value) });
  }

  drawPair(view) {
    const { pair, pairPlot: plot } = this;
    if (!pair || pair.across >= view.names.length || pair.up >= view.names.length) return;
    const [a, b] = [pair.across, pair.up];
    const scales = { logX: view.is_log[a], logY: view.is_log[b], entriesX: view.entries[a], entriesY: view.entries[b] };
    if (!plot.begin([pair.lower[0], pair.upper[0]], [pair.lower[1], pair.upper[1]], scales)) return;
    plot.axes(view.names[a], view.names[b]);
    plot.clip((c) => {
      const size = pair.best.length, [l, t, r, bottom] = plot.box, w = (r - l) / size, h = (bottom - t) / size;
      for (let i = 0; i < size; i++)
        for (let j = 0; j < size; j++) {
          const f = pair.best[i][j];
          if (Number.isNaN(f)) continue;
          const loss = view.sign * f;
          c.fillStyle = ramp(rank(view.losses, loss), 0.8);
          c.fillRect(l + j * w, bottom - (i + 1) * h, w - 0.5, h - 0.5);
        }
      for (const p of view.shown) {
        const px = plot.X(p.x[a]), py = plot.Y(p.x[b]);
        if (view.share < 1 || this.parallel.isOn) plot.dot(px, py, 1.6, colour("ink", 0.7));
        plot.hit(px, py, p);
      }
      for (let k = 0; k < view.failures.row.length; k++) {
        const px = plot.X(view.failures.x[k][a]), py = plot.Y(view.failures.x[k][b]);
        plot.segment(px - 3, py - 3, px + 3, py + 3, colour("fail", 0.9), [], 1.3);
        plot.segment(px - 3, py + 3, px + 3, py - 3, colour("fail", 0.9), [], 1.3);
      }
      if (view.state.where.length) this.star(plot, plot.X(view.state.where[a]), plot.Y(view.state.where[b]));
    });
  }
}
