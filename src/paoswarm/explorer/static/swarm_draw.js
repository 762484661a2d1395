// Drawings of the swarm room.

import { bytes } from "./net.js";
import { colour, Plot, rgb, show } from "./plot.js";

const plots = new Map();

function plotOn(canvas, pad) {
  if (!plots.has(canvas)) plots.set(canvas, new Plot(canvas, pad));
  return plots.get(canvas);
}

// The swarm over the contours of its function.
export class Stage {
  constructor(canvas) {
    this.plot = new Plot(canvas, [6, 6, 22, 40]);
    this.frame = this.before = this.map = null;
    this.start = 0;
    this.length = 1;
    this.pending = false;
  }

  show(frame, before, length) {
    Object.assign(this, { frame, before, length, start: performance.now() });
  }

  contours(found) {
    const size = found.size, shades = bytes(found.shades);
    this.map = { ...found, shades, lines: isolines(shades, size), image: null };
  }

  // The part of the plane that holds the swarm and its ellipses: a square with some room.
  around(frame) {
    let box = [Infinity, -Infinity, Infinity, -Infinity];
    const take = (x, y, r = 0) => { box = [Math.min(box[0], x - r), Math.max(box[1], x + r), Math.min(box[2], y - r), Math.max(box[3], y + r)]; };
    for (const [x, y] of frame.position) take(x, y);
    for (const [x, y] of frame.best_position) take(x, y);
    const whole = Math.max(frame.upper[0] - frame.lower[0], frame.upper[1] - frame.lower[1]);
    const size = Math.min(whole, Math.max(1.15 * (box[1] - box[0]), 1.15 * (box[3] - box[2]), whole * 1e-9)) / 2;
    const x = (box[0] + box[1]) / 2, y = (box[2] + box[3]) / 2;
    return [x - size, x + size, y - size, y + size];
  }

  paint() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
      if (this.before && performance.now() < this.start + this.length) this.paint();
    });
  }

  draw() {
    const { plot, frame, map } = this;
    if (!frame || !map) return;
    const [left, right, bottom, top] = map.view;
    if (!plot.begin([left, right], [bottom, top])) return;
    plot.clip((c) => this.drawMap(c));
    const done = this.before ? Math.min(1, (performance.now() - this.start) / this.length) : 1;
    plot.clip((c) => this.drawSwarm(c, done));
    plot.canvas.setAttribute("aria-label", `Swarm of ${frame.position.length} particles; best value ${show(frame.global_value, 6)} at ${show(frame.global_best[0])}, ${show(frame.global_best[1])}`);
    const [l, t, r, b] = plot.box;
    plot.context.strokeStyle = colour("line");
    plot.context.strokeRect(l, t, r - l, b - t);
    const size = right - left, short = (v) => (size < 0.01 ? v.toExponential(2) : show(v, 4));
    plot.text(short(left), l, b + 12);
    plot.text(short(right), r, b + 12, { align: "right" });
    plot.text(size < 0.01 ? `width ${show(size, 2)}` : "x0", (l + r) / 2, b + 12, { align: "center" });
    if (size >= 0.01) {
      plot.text(show(top, 3), l - 5, t + 6, { align: "right" });
      plot.text(show(bottom, 3), l - 5, b - 6, { align: "right" });
      plot.text("x1", l - 5, (t + b) / 2, { align: "right" });
    }
  }

  drawMap(c) {
    const { plot, map } = this, [left, right, bottom, top] = map.view, low = rgb("low"), high = rgb("high");
    const key = low.join() + high.join();
    if (!map.image || map.key !== key) {
      map.image = new OffscreenCanvas(map.size, map.size);
      const paper = map.image.getContext("2d"), pixels = paper.createImageData(map.size, map.size);
      for (let i = 0; i < map.size; i++)
        for (let j = 0; j < map.size; j++) {
          const s = map.shades[i * map.size + j] / 255, at = 4 * ((map.size - 1 - i) * map.size + j);
          for (let k = 0; k < 3; k++) pixels.data[at + k] = low[k] + s * (high[k] - low[k]);
          pixels.data[at + 3] = 255;
        }
      paper.putImageData(pixels, 0, 0);
      map.key = key;
    }
    const l = plot.X(left), r = plot.X(right), t = plot.Y(top), b = plot.Y(bottom);
    c.imageSmoothingQuality = "high";
    c.drawImage(map.image, l, t, r - l, b - t);
    const n = map.size - 1, lines = new Path2D();
    lines.addPath(map.lines, new DOMMatrix([(r - l) / n, 0, 0, (t - b) / n, l, b]));
    c.strokeStyle = colour("soft", 0.28);
    c.lineWidth = 0.8;
    c.stroke(lines);
    const [x, y] = map.optimum.map((v, k) => (k ? plot.Y(v) : plot.X(v)));
    plot.segment(x - 5, y - 5, x + 5, y + 5, colour("ink", 0.7), [], 1.4);
    plot.segment(x - 5, y + 5, x + 5, y - 5, colour("ink", 0.7), [], 1.4);
  }

  drawSwarm(c, done) {
    const { plot, frame, before } = this, ease = done * done * (3 - 2 * done);
    const at = (name, i, k) => (before && before[name].length === frame[name].length ? before[name][i][k] + ease * (frame[name][i][k] - before[name][i][k]) : frame[name][i][k]);
    const perX = plot.X(1) - plot.X(0), perY = plot.Y(0) - plot.Y(1);
    if (done > 0.5) {
      c.strokeStyle = colour("accent", 0.55 * (2 * done - 1));
      c.fillStyle = colour("accent", 0.05 * (2 * done - 1));
      c.lineWidth = 1;
      for (let i = 0; i < frame.centre.length; i++) {
        c.save();
        c.translate(plot.X(frame.centre[i][0]), plot.Y(frame.centre[i][1]));
        c.scale(perX, -perY);
        c.rotate(frame.angle[i]);
        c.beginPath();
        c.ellipse(0, 0, frame.half_axes[i][0], frame.half_axes[i][1], 0, 0, 2 * Math.PI);
        c.restore();
        c.fill();
        c.stroke();
      }
    }
    for (let i = 0; i < frame.best_position.length; i++) plot.dot(plot.X(at("best_position", i, 0)), plot.Y(at("best_position", i, 1)), 2.2, colour("best", 0.85));
    if (before && before.position.length === frame.position.length) {
      c.lineWidth = 1;
      c.strokeStyle = colour("accent", 0.35);
      c.beginPath();
      for (let i = 0; i < frame.position.length; i++) {
        c.moveTo(plot.X(before.position[i][0]), plot.Y(before.position[i][1]));
        c.lineTo(plot.X(at("position", i, 0)), plot.Y(at("position", i, 1)));
      }
      c.stroke();
    }
    for (let i = 0; i < frame.position.length; i++) {
      const x = plot.X(at("position", i, 0)), y = plot.Y(at("position", i, 1));
      plot.dot(x, y, 4.4, colour("card"));
      plot.dot(x, y, 3.4, colour("accent"));
    }
    const [x, y] = [plot.X(frame.global_best[0]), plot.Y(frame.global_best[1])];
    plot.dot(x, y, 7.5, colour("best"));
    plot.dot(x, y, 5.5, colour("card"));
    plot.dot(x, y, 3.8, colour("best"));
  }
}

// Lines of equal shade through a grid, as one path in units of cells.
function isolines(shades, size, count = 14) {
  const path = new Path2D();
  for (let level = 1; level < count; level++) {
    const wanted = (255 * level) / count;
    for (let i = 0; i < size - 1; i++)
      for (let j = 0; j < size - 1; j++) {
        const a = shades[i * size + j], b = shades[i * size + j + 1], d = shades[(i + 1) * size + j], e = shades[(i + 1) * size + j + 1];
        const sides = (a > wanted) + (b > wanted) + (d > wanted) + (e > wanted);
        if (sides === 0 || sides === 4) continue;
        const cut = (p, q) => (wanted - p) / (q - p), found = [];
        if (a > wanted !== b > wanted) found.push([j + cut(a, b), i]);
        if (b > wanted !== e > wanted) found.push([j + 1, i + cut(b, e)]);
        if (d > wanted !== e > wanted) found.push([j + cut(d, e), i + 1]);
        if (a > wanted !== d > wanted) found.push([j, i + cut(a, d)]);
        for (let k = 0; k + 1 < found.length; k += 2) {
          path.moveTo(...found[k]);
          path.lineTo(...found[k + 1]);
        }
      }
  }
  return path;
}

export function drawFall(answer, canvas) {
  const best = answer.best, positive = [...best].filter((v) => v > 0), n = Math.max(20, best.length - 1);
  const plot = plotOn(canvas, [6, 6, 14, 46]);
  const low = positive.length ? Math.max(Math.min(...positive), 1e-300) : 1e-16, high = positive.length ? Math.max(...positive) : 1;
  const room = 10 ** (0.06 * Math.max(1, Math.log10(high / low)));
  if (!plot.begin([0, n], [low / room, high * room], { logY: true })) return;
  plot.axes();
  const steps = Float64Array.from(best, (_, i) => i);
  plot.line(steps, best, colour("best"), 1.8);
  const last = best.length - 1;
  if (best[last] > 0) plot.dot(plot.X(last), plot.Y(best[last]), 3, colour("best"));
  plot.text(`best value ${show(best[last], 4)}`, plot.box[2], plot.box[1] + 5, { align: "right" });
  canvas.setAttribute("aria-label", `Best value ${show(best[last], 6)} after ${last} steps`);
}

export function drawResponse(answer, canvas) {
  const { time, mean, sd, dots, at_dots: heights, sigmas } = answer.response, plot = plotOn(canvas);
  const low = mean.map((m, i) => m - sigmas * sd[i]), high = mean.map((m, i) => m + sigmas * sd[i]);
  const most = Math.max(1.2, ...high, ...low.map(Math.abs));
  const reach = [1.5, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 100, 1e3, 1e4, 1e6].find((r) => r >= most) || most;
  if (!plot.begin([0, time[time.length - 1]], [-reach, reach])) return;
  plot.axes("time");
  plot.clip(() => {
    plot.band(time, low, high, colour("accent", 0.16));
    const rho = answer.behaviour.stationary_spread, [l, , r] = plot.box;
    if (Number.isFinite(rho)) for (const side of [-1, 1]) plot.segment(l, plot.Y(side * sigmas * rho), r, plot.Y(side * sigmas * rho), colour("best", 0.9), [2, 4], 1.2);
    plot.segment(l, plot.Y(0), r, plot.Y(0), colour("line"));
    plot.line(time, mean, colour("accent"), 2);
    if (dots.length <= 120) for (let i = 0; i < dots.length; i++) {
      plot.dot(plot.X(dots[i]), plot.Y(heights[i]), 3.6, colour("card"));
      plot.dot(plot.X(dots[i]), plot.Y(heights[i]), 2.7, colour("accent"));
    }
  });
}

export function drawPlanes(answer, time, step) {
  const { s, z } = answer.poles, size = Math.max(...s.map(([a, b]) => Math.hypot(a, b)));
  const reach = [0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 100].find((r) => r >= 1.1 * size) || 1.1 * size;
  plane(plotOn(time, [6, 6, 16, 6]), reach, size, s, "time", true);
  plane(plotOn(step, [6, 6, 16, 6]), 1.25, 1, z, "per step", false);
  const text = (poles) => poles.map(([a, b]) => `${show(a, 4)} ${b < 0 ? "−" : "+"} ${show(Math.abs(b), 4)}i`).join(" and ");
  time.setAttribute("aria-label", `Poles in continuous time: ${text(s)}`);
  step.setAttribute("aria-label", `Poles of one step: ${text(z)}`);
}

function plane(plot, reach, circle, poles, label, isHalf) {
  if (!plot.begin([-reach, reach], [-reach, reach])) return;
  const { context: c, box: [l, t, r, b] } = plot;
  c.fillStyle = colour("good-soft", 0.8);
  if (isHalf) c.fillRect(l, t, plot.X(0) - l, b - t);
  c.beginPath();
  c.ellipse(plot.X(0), plot.Y(0), plot.X(circle) - plot.X(0), plot.Y(0) - plot.Y(circle), 0, 0, 2 * Math.PI);
  if (!isHalf) c.fill();
  c.strokeStyle = colour("soft", 0.4);
  c.lineWidth = 1;
  c.setLineDash([3, 3]);
  c.stroke();
  c.setLineDash([]);
  plot.segment(plot.X(0), t, plot.X(0), b, colour("line"));
  plot.segment(l, plot.Y(0), r, plot.Y(0), colour("line"));
  for (const [x, y] of poles) {
    const px = plot.X(x), py = plot.Y(y);
    plot.segment(px - 5, py - 5, px + 5, py + 5, colour("best"), [], 2.4);
    plot.segment(px - 5, py + 5, px + 5, py - 5, colour("best"), [], 2.4);
  }
  plot.text(label, (l + r) / 2, b + 9, { align: "center" });
  plot.text(show(circle, 3), plot.X(circle) - 3, plot.Y(0) + 9, { align: "right" });
}

export function drawBehaviour(answer, canvas) {
  const [stagnates, slow, scatters] = answer.health, rho = answer.behaviour.stationary_spread;
  const plot = plotOn(canvas, [16, 4, 18, 4]), low = 0.1, high = 6;
  if (!plot.begin([low, high], [0, 1], { logX: true })) return;
  const { context: c, box: [, t, , b] } = plot;
  const zones = [[low, stagnates, "warn-soft", "stagnates"], [stagnates, slow, "good-soft", "healthy"], [slow, scatters, "warn-soft", "slow"], [scatters, high, "warn-soft", "scatters"]];
  for (const [from, to, style, word] of zones) {
    const x0 = plot.X(from) + 1, x1 = plot.X(to) - 1;
    c.fillStyle = colour(style);
    c.beginPath();
    c.roundRect(x0, t, x1 - x0, b - t, 4);
    c.fill();
    plot.text(word, (x0 + x1) / 2, (t + b) / 2, { align: "center", style: colour(style.split("-")[0]) });
    if (to < high) plot.text(show(to, 2), plot.X(to), b + 10, { align: "center" });
  }
  const px = plot.X(Math.min(Math.max(Number.isFinite(rho) ? rho : high, low), high));
  c.fillStyle = colour("ink");
  c.beginPath();
  c.moveTo(px, t + 1);
  c.lineTo(px - 6, t - 11);
  c.lineTo(px + 6, t - 11);
  c.fill();
  canvas.setAttribute("aria-label", `Stationary spread ${show(rho, 3)}; healthy from ${stagnates} to ${slow}`);
}
