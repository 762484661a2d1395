// The posterior of a stored `sample`: a table and a corner plot.

import { colour, Plot, show } from "./plot.js";
import { table } from "./run_tables.js";
import { shareOf } from "./unknowns.js";

const plots = new Map();

export function showPosterior(found, said, element) {
  const state = element("posterior-state"), message = element("posterior-message"), corner = element("corner");
  const isReady = found.state === "ready";
  corner.hidden = element("posterior-table").hidden = !isReady;
  if (!isReady) {
    state.textContent = found.busy || found.state === "computing" ? "repeating the run from its recorded values …" : "";
    message.textContent = found.message || "";
    return;
  }
  const error = Number.isFinite(found.log_evidence_error) ? ` ± ${show(found.log_evidence_error, 2)}` : ", error not stated";
  state.textContent = `log evidence ${show(found.log_evidence, 5)}${error} · ${Math.round(found.effective_size).toLocaleString("en")} effective draws · ${found.method}${found.busy ? " · updating …" : ""}`;
  message.textContent = found.message === said ? "" : found.message; // the run may have ended with the same words
  const rows = found.names.map((name, j) => [name, show(found.mean[j], 4), show(found.sd[j], 2), ...[0, 1, 2].map((k) => show(found.quantiles[k][j], 4))]);
  table(element("posterior-table"), ["", "mean", "sd", "2.5 %", "median", "97.5 %"], rows);
  drawCorner(found, corner);
}

function drawCorner(found, canvas) {
  if (!plots.has(canvas)) plots.set(canvas, new Plot(canvas, [4, 4, 4, 4]));
  const plot = plots.get(canvas), d = found.marginals.length;
  if (!plot.begin([0, d], [0, d])) return;
  const { context: c } = plot, left = 34, bottom = 30, size = (plot.width - left - 4) / d, height = (plot.height - bottom - 4) / d;
  const cell = (column, row) => [left + column * size + 3, 4 + row * height + 3, size - 6, height - 6];
  found.marginals.forEach(({ edges, density }, j) => {
    const [x, y, w, h] = cell(j, j), most = Math.max(...density), low = edges[0], high = edges[edges.length - 1];
    c.fillStyle = colour("accent", 0.55);
    const width = w / density.length;
    density.forEach((p, k) => c.fillRect(x + k * width, y + h - (0.94 * h * p) / most, Math.max(1, width - 0.5), (0.94 * h * p) / most));
    const [from, middle, to] = [0, 1, 2].map((k) => x + w * shareOf(found.is_log[j], found.quantiles[k][j], low, high));
    for (const px of [from, to]) plot.segment(px, y, px, y + h, colour("best", 0.9), [3, 3], 1.2);
    plot.segment(middle, y, middle, y + h, colour("best"), [], 1.4);
    frame(c, x, y, w, h);
    const letters = Math.max(3, Math.floor(w / 6.5)), name = found.names[j];
    plot.text(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, x + w / 2, plot.height - 5, { align: "center", style: colour("ink") });
    plot.text(show(low, 2), x, plot.height - bottom + 8);
    plot.text(show(high, 2), x + w, plot.height - bottom + 8, { align: "right" });
  });
  for (const { across, up, share } of found.pairs) {
    const [x, y, w, h] = cell(across, up), n = share.length;
    let most = 0;
    for (const row of share) for (const v of row) most = Math.max(most, v);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        if (!(share[i][j] > 0)) continue;
        c.fillStyle = colour("accent", Math.min(1, 0.06 + 0.94 * (share[i][j] / most) ** 0.7));
        c.fillRect(x + (j * w) / n, y + h - ((i + 1) * h) / n, w / n + 0.4, h / n + 0.4);
      }
    frame(c, x, y, w, h);
    if (across === 0) {
      const name = found.names[up];
      c.save();
      c.translate(10, y + h / 2);
      c.rotate(-Math.PI / 2);
      plot.text(name.length > 14 ? `${name.slice(0, 13)}…` : name, 0, 0, { align: "center", style: colour("ink") });
      c.restore();
    }
  }
  canvas.setAttribute("aria-label", `Corner plot of ${found.names.slice(0, d).join(", ")}`);
}

function frame(c, x, y, w, h) {
  c.strokeStyle = colour("line");
  c.lineWidth = 1;
  c.strokeRect(x, y, w, h);
}
