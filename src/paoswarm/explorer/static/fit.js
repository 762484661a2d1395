// A stored fit: data with the best prediction of each output, residuals, estimates, and how searches have ended.

import { ask } from "./net.js";
import { colour, Plot, show, whenSeen, withTip } from "./plot.js";
import { table } from "./run_tables.js";

const FIRST_CURVES = 6;
const MOST_DOTS = 600; // with more, dots are small

export class FitPanel {
  constructor(element) {
    this.element = element;
    this.waterfall = withTip(new Plot(element("waterfall"), [18, 12, 32, 56]));
    element("more-curves").addEventListener("click", () => { this.all = true; this.makeFigures(); this.draw(); });
    this.forget();
  }

  forget() {
    this.found = null;
    this.curves = [];
    this.figures = [];
    this.all = false;
    for (const id of ["fit-card", "estimates-card", "searches-card", "more-curves"]) this.element(id).hidden = true;
    this.element("fit-curves").replaceChildren();
  }

  get busy() {
    return Boolean(this.found && this.found.busy);
  }

  // Ask what is new of run `number`; `isStill` says whether it is still the one that is shown.
  async refresh(number, isStill) {
    const asked = this.found ? { had: this.found.had, evaluations: this.found.evaluations } : {};
    let found;
    try {
      found = await ask("fit", { run: number, ...asked });
    } catch (error) {
      found = { state: "none", message: error.message };
    }
    if (!isStill()) return;
    const isNew = !this.found || found.curves || found.state !== this.found.state || found.busy !== this.found.busy || found.message !== this.found.message;
    this.found = found;
    if (found.curves) {
      const names = (curves) => curves.map((curve) => curve.name).join("\n");
      const isOther = names(found.curves) !== names(this.curves) || found.curves.length !== this.curves.length;
      this.curves = found.curves;
      if (isOther) this.makeFigures();
    }
    if (isNew) this.draw();
  }

  makeFigures() {
    const count = this.all ? this.curves.length : Math.min(FIRST_CURVES, this.curves.length);
    this.figures = this.curves.slice(0, count).map((curve) => {
      const figure = document.createElement("figure"), caption = document.createElement("figcaption");
      caption.textContent = curve.name || (curve.prediction.length ? "data" : "residuals");
      const [upper, lower] = ["data and best prediction", "residuals"].map((what) => {
        const canvas = document.createElement("canvas");
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", `${curve.name}: ${what}`.replace(/^: /, ""));
        return canvas;
      });
      lower.className = "residuals";
      if (curve.prediction.length) figure.append(caption, upper, lower); else figure.append(caption, lower);
      return { figure, upper: withTip(new Plot(upper, [18, 10, 20, 52])), lower: withTip(new Plot(lower, [18, 10, 32, 52])) };
    });
    this.element("fit-curves").replaceChildren(...this.figures.map((one) => one.figure));
    this.element("more-curves").hidden = count === this.curves.length;
    this.element("more-curves").textContent = `Show all ${this.curves.length}`;
  }

  draw() {
    const { element, found } = this;
    if (!found) return;
    const isReady = found.state === "ready", hasData = this.curves.some((curve) => curve.prediction.length), hasBand = this.curves.some((curve) => curve.band);
    element("fit-card").hidden = false;
    element("estimates-card").hidden = element("searches-card").hidden = !isReady;
    element("fit-hint").textContent = hasData ? `dots: data; line: best prediction${hasBand ? "; band: 95 %, from the errors of the unknowns" : ""}` : "";
    const wait = found.state === "computing" ? "Errors and searches: repeating the fit from its recorded values …" : "";
    const why = found.message && this.curves.length ? `Errors and searches are not shown. ${found.message}` : found.message;
    element("fit-message").textContent = found.trouble || why || wait;
    this.figures.forEach(({ upper, lower }, k) => {
      const curve = this.curves[k];
      if (curve.prediction.length) whenSeen(upper.canvas, () => drawData(upper, curve));
      whenSeen(lower.canvas, () => drawResiduals(lower, curve));
    });
    if (!isReady) return;
    this.showEstimates();
    this.showSearches();
  }

  showEstimates() {
    const { element, found } = this, [x, error, low, high] = found.estimates;
    const said = (j) => (Number.isNaN(error[j]) ? "on a bound" : error[j] === Infinity ? "not determined" : show(error[j], 2));
    const interval = (j) => (Number.isFinite(error[j]) ? `${show(low[j], 4)} to ${show(high[j], 4)}` : "–");
    table(element("estimates"), ["", "estimate", "std. error", "95 % interval"], found.names.map((name, j) => [name, show(x[j], 6), said(j), interval(j)]));
    element("fit-facts").textContent = found.facts.map(([name, number]) => `${name} ${show(number, 5)}`).join(" · ");
    element("fit-remarks").replaceChildren(...found.remarks.map((text) => {
      const line = document.createElement("li");
      line.textContent = text;
      return line;
    }));
  }

  showSearches() {
    const { element, found: { searches } } = this, ended = searches.filter((one) => Number.isFinite(one.value));
    const places = new Set(ended.filter((one) => one.place).map((one) => one.place)).size;
    element("searches-hint").textContent = ended.length ? `${searches.length} ended, at ${places === 1 ? "one place" : `${places} places`}` : "none has ended yet";
    element("waterfall").hidden = !ended.length;
    const rows = searches.map((one, k) => [k + 1, one.evaluations, show(one.value, 6), { text: one.ending }, one.place || ""]);
    table(element("searches"), ["", "evaluations", "value", "ended", "place"], rows);
    whenSeen(this.waterfall.canvas, () => this.drawWaterfall(ended));
  }

  // The ends by value: a plateau at the left is a minimum that many searches have found.
  drawWaterfall(ended) {
    const plot = this.waterfall, byValue = [...ended].sort((a, b) => a.value - b.value), values = byValue.map((one) => one.value);
    if (!values.length) return;
    const low = values[0], high = values[values.length - 1], logY = low > 0 && high / low > 20, room = 0.06 * (high - low);
    const range = logY ? [low / 1.3, high * 1.3] : [low - room, high + room];
    if (!plot.begin([0.4, values.length + 0.6], range, { logY, entriesX: null })) return;
    plot.axes("searches, the best first", "value");
    plot.line(values.map((_, k) => k + 1), values, colour("line"), 1.2);
    byValue.forEach((one, k) => {
      const px = plot.X(k + 1), py = plot.Y(one.value);
      plot.dot(px, py, 4, one.place === 1 ? colour("best") : one.place ? colour("accent") : colour("soft", 0.6));
      plot.hit(px, py, () => `value ${show(one.value, 8)}\n${one.evaluations} evaluations\n${one.ending}${one.place ? `, place ${one.place}` : ""}`);
    });
    plot.canvas.setAttribute("aria-label", `Ends of ${values.length} searches by value`);
  }
}

function ends(...lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists)
    for (const v of list) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  return [low, high];
}

function wider([low, high], share) {
  const room = share * (high - low);
  return [low - room, high + room];
}

function across(curve) {
  return wider(ends(curve.x), 0.03);
}

function tell(curve, k) {
  return () => [`${curve.label} ${show(curve.x[k], 6)}`, `data ${show(curve.data[k], 6)}`, ...(curve.prediction.length ? [`prediction ${show(curve.prediction[k], 6)}`] : []), `residual ${show(curve.residual[k], 4)}`].join("\n");
}

function drawData(plot, curve) {
  const { x, data, prediction } = curve, size = x.length > MOST_DOTS ? 1.4 : 3;
  if (!plot.begin(across(curve), wider(ends(data, prediction), 0.06))) return;
  plot.axes();
  plot.clip(() => {
    if (curve.band) plot.band(x, curve.band[0], curve.band[1], colour("accent", 0.22));
    plot.line(x, prediction, colour("accent"), 1.8);
    for (let k = 0; k < x.length; k++) {
      if (!Number.isFinite(data[k])) continue;
      const px = plot.X(x[k]), py = plot.Y(data[k]);
      plot.dot(px, py, size, colour("best"));
      plot.hit(px, py, tell(curve, k));
    }
  });
}

function drawResiduals(plot, curve) {
  const { x, residual } = curve, most = Math.max(...ends(residual).map(Math.abs)), size = x.length > MOST_DOTS ? 1.2 : 2.4;
  if (!plot.begin(across(curve), wider([-most, most], 0.1))) return;
  plot.axes(curve.label, curve.prediction.length ? "prediction less data" : "residual", 5);
  plot.segment(plot.box[0], plot.Y(0), plot.box[2], plot.Y(0), colour("soft"));
  plot.clip(() => {
    for (let k = 0; k < x.length; k++) {
      if (!Number.isFinite(residual[k])) continue;
      const px = plot.X(x[k]), py = plot.Y(residual[k]);
      if (x.length <= MOST_DOTS) plot.segment(px, plot.Y(0), px, py, colour("best", 0.5));
      plot.dot(px, py, size, colour("best"));
      plot.hit(px, py, tell(curve, k));
    }
  });
}
