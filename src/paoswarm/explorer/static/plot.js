// Small plots on a canvas: scales, axes, lines, bands and dots. Colours come from the style sheet.

const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const SHADES = 50;
const colours = {}, shades = new Map();

export function readColours() {
  shades.clear();
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "card", "ink", "soft", "faint", "line", "accent", "best", "fail", "good", "warn", "good-soft", "warn-soft", "low", "high", "worse", "middle"])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
}

export function colour(name, alpha = 1) {
  const hex = colours[name] || "#888888";
  if (alpha === 1) return hex;
  return hex + Math.round(255 * alpha).toString(16).padStart(2, "0");
}

export function rgb(name) {
  const hex = colour(name);
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// From the best (0) to the worst (1).
export function ramp(share, alpha = 1) {
  const step = Math.round(Math.min(Math.max(share, 0), 1) * SHADES), key = 1000 * step + Math.round(100 * alpha);
  if (!shades.has(key)) {
    const stops = [rgb("best"), rgb("middle"), rgb("worse")], at = (2 * step) / SHADES, i = Math.min(Math.floor(at), 1);
    const mixed = stops[i].map((c, k) => Math.round(c + (at - i) * (stops[i + 1][k] - c)));
    shades.set(key, `rgb(${mixed.join(" ")} / ${alpha})`);
  }
  return shades.get(key);
}

// Draw what can be seen; the rest when it is scrolled into view.
const waiting = new Map(), seen = new Set(), watched = new WeakSet();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) { seen.delete(target); continue; }
    seen.add(target);
    const draw = waiting.get(target);
    waiting.delete(target);
    if (draw) draw();
  }
}, { rootMargin: "120px" });

export function whenSeen(canvas, draw) {
  if (!watched.has(canvas)) { watched.add(canvas); watcher.observe(canvas); }
  if (seen.has(canvas)) draw(); else waiting.set(canvas, draw);
}

export function show(number, digits = 4) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e6 || size < 1e-4) return number.toExponential(Math.max(digits - 2, 1)).replace("e+", "e");
  return String(Number(number.toPrecision(digits)));
}

export function seconds(t) {
  if (!Number.isFinite(t)) return "–";
  if (t < 1e-3) return `${show(t * 1e6, 2)} µs`;
  if (t < 1) return `${show(t * 1e3, 3)} ms`;
  if (t < 120) return `${show(t, 3)} s`;
  if (t < 7200) return `${show(t / 60, 3)} min`;
  return `${show(t / 3600, 3)} h`;
}

export function ticks(low, high, count, isLog) {
  const found = [];
  if (isLog) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / count));
    for (let p = first; p <= last; p += every) found.push(10 ** p);
    if (found.length >= 2) { found.arePowers = true; return found; }
    found.length = 0;
  }
  const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
  const step = size * ([1, 2, 5, 10].find((f) => f * size >= raw) || 10);
  if (!(step > 0) || !Number.isFinite(step)) return [low];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9) && found.length < 50; i++) found.push(i * step);
  return found;
}

function tickText(value, step) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 9.99e-4) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  const digits = Math.min(8, Math.max(0, -Math.floor(Math.log10(step || size) + 1e-9)));
  return Number(value.toFixed(digits)).toString();
}

// Entries of a choice inside a range, as many as there is room for.
function places([low, high], entries, most) {
  const first = Math.max(0, Math.ceil(low)), last = Math.min(entries.length - 1, Math.floor(high)), found = [];
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(most, 1)));
  for (let k = first; k <= last; k += every) found.push(k);
  return found;
}

export function shortened(text, letters) {
  return text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text;
}

export class Plot {
  constructor(canvas, pad = [8, 10, 30, 46]) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.pad = pad; // top, right, bottom, left
  }

  // Start a drawing; false while the canvas is not visible.
  begin(x, y, { logX = false, logY = false, entriesX = null, entriesY = null } = {}) {
    const { canvas, context } = this, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return false;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    Object.assign(this, { width, height, x: fix(x), y: fix(y), logX, logY, entriesX, entriesY, hits: [] });
    const [top, right, bottom, left] = this.pad;
    this.box = [left, top, width - right, height - bottom];
    const fx = logX ? Math.log10 : (v) => v, fy = logY ? Math.log10 : (v) => v;
    const [x0, x1] = this.x.map(fx), [y0, y1] = this.y.map(fy), [l, t, r, b] = this.box;
    this.X = (v) => l + ((fx(v) - x0) / (x1 - x0)) * (r - l);
    this.Y = (v) => b - ((fy(v) - y0) / (y1 - y0)) * (b - t);
    this.inverseX = (p) => { const v = x0 + ((p - l) / (r - l)) * (x1 - x0); return logX ? 10 ** v : v; };
    this.inverseY = (p) => { const v = y0 + ((b - p) / (b - t)) * (y1 - y0); return logY ? 10 ** v : v; };
    return true;
  }

  axes(xLabel = "", yLabel = "", marks = 2) {
    const { context: c, box: [l, t, r, b] } = this;
    c.lineWidth = 1;
    c.textAlign = "center";
    c.textBaseline = "top";
    const most = Math.max(2, Math.floor((r - l) / 70)), namesX = this.entriesX;
    const across = namesX ? places(this.x, namesX, Math.floor((r - l) / 34)) : ticks(...this.x, most, this.logX);
    const letters = Math.max(3, Math.floor((r - l) / across.length / 6.5));
    for (const v of across) {
      this.segment(this.X(v), t, this.X(v), b, colour("faint"));
      c.fillStyle = colour("soft");
      const text = namesX ? shortened(namesX[v], letters) : tickText(v, across.arePowers ? v : across[1] - across[0]);
      const half = c.measureText(text).width / 2;
      c.fillText(text, Math.min(Math.max(this.X(v), half), this.width - half), b + 4);
    }
    c.textAlign = "right";
    c.textBaseline = "middle";
    const namesY = this.entriesY;
    const up = namesY ? places(this.y, namesY, Math.floor((b - t) / 14)) : ticks(...this.y, Math.max(marks, Math.floor((b - t) / 38)), this.logY);
    for (const v of up) {
      this.segment(l, this.Y(v), r, this.Y(v), colour("faint"));
      c.fillStyle = colour("soft");
      const text = namesY ? shortened(namesY[v], Math.floor((l - 5) / 6.5)) : tickText(v, up.arePowers ? v : up[1] - up[0]);
      c.fillText(text, l - 5, this.Y(v));
    }
    c.fillStyle = colour("soft");
    if (xLabel) { c.textAlign = "right"; c.textBaseline = "bottom"; c.fillText(xLabel, r, this.height - 1); }
    if (yLabel) { c.textAlign = "left"; c.textBaseline = "bottom"; c.fillText(yLabel, l, t - 3); }
  }

  segment(x0, y0, x1, y1, style, dash = [], width = 1) {
    const c = this.context;
    c.strokeStyle = style;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
    c.setLineDash([]);
  }

  clip(draw) {
    const { context: c, box: [l, t, r, b] } = this;
    c.save();
    c.beginPath();
    c.rect(l, t, r - l, b - t);
    c.clip();
    draw(c);
    c.restore();
  }

  line(xs, ys, style, width = 1.6, dash = []) {
    const c = this.context;
    c.strokeStyle = style;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.lineJoin = "round";
    c.beginPath();
    let pen = false;
    for (let i = 0; i < xs.length; i++) {
      const px = this.X(xs[i]), py = this.Y(ys[i]);
      if (!Number.isFinite(px) || !Number.isFinite(py)) { pen = false; continue; }
      if (pen) c.lineTo(px, py); else c.moveTo(px, py);
      pen = true;
    }
    c.stroke();
    c.setLineDash([]);
  }

  band(xs, low, high, style) {
    const c = this.context;
    c.fillStyle = style;
    c.beginPath();
    for (let i = 0; i < xs.length; i++) c.lineTo(this.X(xs[i]), this.Y(high[i]));
    for (let i = xs.length - 1; i >= 0; i--) c.lineTo(this.X(xs[i]), this.Y(low[i]));
    c.fill();
  }

  dot(px, py, radius, style) {
    const c = this.context;
    c.fillStyle = style;
    c.beginPath();
    c.arc(px, py, radius, 0, 2 * Math.PI);
    c.fill();
  }

  text(text, px, py, { style = colour("soft"), align = "left", base = "middle" } = {}) {
    const c = this.context;
    c.font = FONT;
    c.fillStyle = style;
    c.textAlign = align;
    c.textBaseline = base;
    c.fillText(text, px, py);
  }

  // What the pointer finds near a place of the drawing: a point for `tell`, or a function that makes a text.
  hit(px, py, what) {
    this.hits.push([px, py, what]);
  }

  // Many small dots; those that come later lie on top.
  specks(points, across, up) {
    const c = this.context;
    let style = "";
    for (const p of points) {
      if (!(p.loss < Infinity)) continue;
      const px = this.X(across(p)), py = this.Y(up(p)), wanted = ramp(p.rank, 0.55);
      if (wanted !== style) c.fillStyle = style = wanted;
      c.fillRect(px - 1.2, py - 1.2, 2.4, 2.4);
      this.hit(px, py, p);
    }
  }
}

function fix([low, high]) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  return low < high ? [low, high] : [low - (Math.abs(low) * 0.1 || 0.5), low + (Math.abs(low) * 0.1 || 0.5)];
}

const tip = document.getElementById("tip");

export function withTip(plot, reach = 14) {
  plot.canvas.addEventListener("pointermove", (event) => {
    const frame = plot.canvas.getBoundingClientRect();
    const px = event.clientX - frame.left, py = event.clientY - frame.top;
    let near = null, best = reach * reach;
    for (const [x, y, what] of plot.hits || []) {
      const apart = (x - px) ** 2 + (y - py) ** 2;
      if (apart < best) { best = apart; near = what; }
    }
    tip.hidden = !near;
    if (!near) return;
    tip.textContent = typeof near === "function" ? near() : plot.tell(near);
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${Math.max(4, event.clientY - box.height - 12)}px`;
  });
  for (const away of ["pointerleave", "pointercancel"]) plot.canvas.addEventListener(away, () => { tip.hidden = true; });
  return plot;
}
