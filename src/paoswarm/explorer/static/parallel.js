// Parallel coordinates: one axis for each unknown and one for the value. Dragging along an axis selects.

import { colour, Plot, ramp, shortened } from "./plot.js";
import { say, shareOf } from "./unknowns.js";

const MOST_LINES = 1500, MOST_AXES = 24, MOST_ENTRIES = 12;

export class Parallel {
  constructor(canvas, clearButton, redraw) {
    this.plot = new Plot(canvas, [20, 36, 20, 30]);
    this.brushes = new Map(); // axis -> [low, high], shares of the axis from its lower end
    this.clearButton = clearButton;
    this.redraw = redraw;
    clearButton.addEventListener("click", () => { this.clear(); redraw(); });
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      const found = this.find(event);
      if (!found) return;
      start = found;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!start) return;
      const now = this.find(event, start.axis), low = Math.min(start.share, now.share), high = Math.max(start.share, now.share);
      if (high - low > 0.015) this.brushes.set(start.axis, [low, high]); else this.brushes.delete(start.axis);
      this.later();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (start && Math.abs(this.find(event, start.axis).share - start.share) < 0.015) { this.brushes.delete(start.axis); this.later(); }
      start = null;
    });
  }

  get isOn() {
    return this.brushes.size > 0;
  }

  clear() {
    this.brushes.clear();
    this.clearButton.hidden = true;
  }

  later() {
    this.clearButton.hidden = !this.isOn;
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.redraw(); });
  }

  find(event, axis = null) {
    if (!this.places) return null;
    const frame = this.plot.canvas.getBoundingClientRect(), [, t, , b] = this.plot.box;
    const px = event.clientX - frame.left, py = event.clientY - frame.top;
    if (axis === null) {
      axis = this.places.reduce((near, place, i) => (Math.abs(place - px) < Math.abs(this.places[near] - px) ? i : near), 0);
      if (Math.abs(this.places[axis] - px) > 18) return null;
    }
    return { axis, share: Math.min(1, Math.max(0, (b - py) / (b - t))) };
  }

  share(p, axis, view) {
    const d = this.count(view);
    if (axis === d) return p.rank;
    return shareOf(view.is_log[axis], p.x[axis], view.lower[axis], view.upper[axis]);
  }

  count(view) {
    return Math.min(view.names.length, MOST_AXES);
  }

  accepts(p, view) {
    for (const [axis, [low, high]] of this.brushes) {
      const share = this.share(p, axis, view);
      if (!(share >= low && share <= high)) return false;
    }
    return true;
  }

  draw(view, limit) {
    const { plot } = this, d = this.count(view);
    if (!plot.begin([0, d], [0, 1])) return;
    const { context: c, box: [, t, , b] } = plot;
    this.places = Array.from({ length: d + 1 }, (_, j) => plot.X(j));
    const all = view.points.filter((p) => p.loss < Infinity && p.loss <= limit);
    const every = Math.max(1, Math.ceil(all.length / MOST_LINES));
    const drawn = all.filter((p, i) => i % every === 0 || i >= all.length - 150);
    const alpha = Math.min(0.6, Math.max(0.12, 60 / Math.sqrt(drawn.length) / 10));
    c.lineWidth = 1;
    for (const wanted of [false, true])
      for (const p of drawn) {
        if (view.isShown(p) !== wanted) continue;
        c.strokeStyle = wanted ? ramp(p.rank, p.rank < 0.02 ? 0.9 : alpha) : colour("soft", 0.05);
        c.beginPath();
        for (let j = 0; j <= d; j++) c.lineTo(this.places[j], b - this.share(p, j, view) * (b - t));
        c.stroke();
      }
    const room = this.places[1] - this.places[0], nameEvery = Math.ceil(30 / room);
    const letters = Math.max(3, Math.floor((room * nameEvery) / 6.5));
    for (let j = 0; j <= d; j++) {
      plot.segment(this.places[j], t, this.places[j], b, colour("soft", 0.8), [], 1.2);
      const short = shortened(j === d ? "value" : view.names[j], letters), entries = j < d && view.entries[j];
      if (j === d || (j % nameEvery === 0 && d - j >= nameEvery)) plot.text(short, this.places[j], 8, { align: "center", style: colour("ink") });
      const [low, high] = j === d ? ["best", "worst"] : [view.lower[j], view.upper[j]].map((end) => say(view, j, end, 3));
      if (entries && entries.length <= MOST_ENTRIES && room > 34)
        entries.forEach((entry, k) => plot.text(shortened(entry, letters), this.places[j] + 4, b - shareOf(false, k, view.lower[j], view.upper[j]) * (b - t) - 7));
      else if (room > 34) {
        plot.text(low, this.places[j], b + 10, { align: "center" });
        plot.text(high, this.places[j] + 4, t + 6);
      }
      const brush = this.brushes.get(j);
      if (brush) {
        c.fillStyle = colour("accent", 0.35);
        c.fillRect(this.places[j] - 7, b - brush[1] * (b - t), 14, (brush[1] - brush[0]) * (b - t));
      }
    }
    plot.canvas.setAttribute("aria-label", `Parallel coordinates of ${drawn.length} evaluations${this.isOn ? `, ${view.shown.length} selected` : ""}`);
  }
}
