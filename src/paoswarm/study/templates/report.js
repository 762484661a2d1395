"use strict";

// Names come from users. They are set as text only; for Plotly, which parses some HTML, `plain` escapes them.
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const data = JSON.parse(find("#data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const picker = find("#picker");
  const aim = find("#aim");
  const runtimePicker = find("#runtime-picker");

  // JSON has no infinity and no NaN: they arrive as strings.
  const numbers = (list) => list.map(Number);
  const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const percent = (share) => `${Math.round(1000 * share) / 10} %`;

  function short(value) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    return value === 0 ? "0" : value.toExponential(2).replace("e+", "e");
  }

  function plain(text) {
    const cut = text.length > 48 ? `${text.slice(0, 47)}…` : text;
    return cut.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  // ---- Charts ----

  let printing = false;
  const colourOf = (method) => (dark.matches && !printing ? method.dark : method.light);
  const styleOf = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const legendOf = (form) => find(".legend", form);
  const checkedIn = (form) => all("input:checked", legendOf(form)).map((box) => Number(box.value));

  const lineOf = (method) => ({
    type: "scatter",
    mode: "lines",
    name: plain(method.name),
    line: { color: colourOf(method), dash: method.dash || "solid", width: method.width },
    zorder: method.width,
    hovertemplate: "%{fullData.name}  %{customdata}<extra></extra>",
  });

  const logAxis = (text) => ({ type: "log", dtick: "D2", title: { text }, unifiedhovertitle: { text: `%{x} ${text}` } });

  // Uses the colours of the page. `x` and `y` are settings of the axes, `more` of the layout.
  function draw(node, traces, x, y, more = {}) {
    const [ink, paper, rule] = ["--ink", "--paper", "--rule"].map(styleOf);
    const narrow = node.clientWidth < 600;
    const axis = { gridcolor: rule, linecolor: rule, zeroline: false, automargin: true, exponentformat: "power" };
    const layout = {
      font: { family: styleOf("font-family"), size: 13, color: ink },
      paper_bgcolor: paper,
      plot_bgcolor: paper,
      margin: { l: narrow ? 48 : 64, r: 12, t: 28, b: 48 },
      showlegend: false,
      hovermode: narrow ? "closest" : "x unified",
      hoverlabel: { bgcolor: paper, bordercolor: rule, font: { color: ink } },
      dragmode: narrow ? false : "zoom",
      xaxis: { ...axis, ...x },
      yaxis: { ...axis, ...y },
      ...more,
    };
    // Buttons by name: Plotly's default includes one that uploads the chart.
    const buttons = [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
    const config = { responsive: true, displaylogo: false, typesetMath: false, plotlyServerURL: "" };
    Plotly.react(node, traces, layout, { ...config, modeBarButtons: buttons });
  }

  // ---- Convergence ----

  const picked = () => ({
    problem: Number(picker.elements.problem.value),
    dim: Number(picker.elements.dim.value),
    show: picker.elements.show.value,
    target: Number(aim.elements.target.value),
    methods: checkedIn(picker),
  });

  const titleOf = ({ problem, dim }) => `${data.problems[problem].title} in ${plural(data.dims[dim], "dimension")}`;

  function cellOf(choice, method) {
    const cell = data.cells[choice.dim][choice.problem][method];
    const lists = ["mean", "median", "low", "high"].map((key) => [key, numbers(cell[key])]);
    return { ...cell, ...Object.fromEntries(lists), x: data.grids[cell.grid], method: data.methods[method] };
  }

  // Where zeros are drawn: a decade below the smallest visible error; null if there are none.
  function heightOfZero(values) {
    if (!values.some((value) => value < data.floor)) return null;
    const smallest = values.reduce((least, v) => (v >= data.floor && v < least ? v : least), Infinity);
    return 10 ** (Math.floor(Math.log10(Number.isFinite(smallest) ? smallest : 1)) - 1);
  }

  function markZero(height) {
    const line = { width: 1, dash: "dot", color: styleOf("--ink") };
    const label = { text: "0", showarrow: false };
    return {
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: height, y1: height, line }],
      annotations: [{ ...label, xref: "paper", x: 0, y: Math.log10(height), xanchor: "right", xshift: -6 }],
    };
  }

  function tracesOf(cell, show, zero) {
    const lift = (value) => (value < data.floor ? zero : Number.isFinite(value) ? value : null);
    const there = cell.x.map((_, i) => i).filter((i) => lift(cell.low[i]) !== null && lift(cell.high[i]) !== null);
    const back = [...there].reverse();
    const line = lineOf(cell.method);
    const band = {
      ...line,
      x: [...there, ...back].map((i) => cell.x[i]),
      y: [...there.map((i) => lift(cell.high[i])), ...back.map((i) => lift(cell.low[i]))],
      fill: "toself",
      fillcolor: `${colourOf(cell.method)}26`,
      line: { width: 0 },
      hoverinfo: "skip",
      hovertemplate: null,
    };
    const read = cell.x.map((_, i) => `${short(cell[show][i])}  (${short(cell.low[i])} to ${short(cell.high[i])})`);
    return [band, { ...line, x: cell.x, y: cell[show].map(lift), customdata: read }];
  }

  function drawConvergence(choice) {
    const cells = choice.methods.map((method) => cellOf(choice, method));
    const zero = heightOfZero(cells.flatMap((cell) => [...cell[choice.show], ...cell.low, ...cell.high]));
    const pairs = cells.map((cell) => tracesOf(cell, choice.show, zero));
    const traces = [...pairs.map(([band]) => band), ...pairs.map(([, line]) => line)]; // no band hides a line
    const error = { type: "log", title: { text: `${choice.show} error` } };
    draw(find("#convergence-chart"), traces, logAxis("evaluations"), error, zero === null ? {} : markZero(zero));
    find("#picked").textContent = `${titleOf(choice)}, ${choice.show} error`;
  }

  function cellWith(text, value) {
    const cell = document.createElement("td");
    cell.textContent = text;
    cell.dataset.value = value;
    return cell;
  }

  function finalRow(choice, method) {
    const { final, success, method: { name } } = cellOf(choice, method);
    const [mean, ...others] = numbers(["mean", "median", "low", "high", "best", "worst"].map((key) => final[key]));
    const [from, to] = numbers(final.interval);
    const [solved, ert] = numbers(success[choice.target]);
    const head = document.createElement("th");
    head.scope = "row";
    head.append(all(".swatch", legendOf(picker))[method].cloneNode(true), ` ${name}`);
    const row = document.createElement("tr");
    row.append(head, cellWith(short(mean), mean), cellWith(`${short(from)} to ${short(to)}`, to));
    row.append(...others.map((value) => cellWith(short(value), value)));
    row.append(cellWith(percent(solved), solved), cellWith(short(ert), ert));
    return row;
  }

  function fillFinal(choice) {
    const table = find("#final");
    const about = `${titleOf(choice)}; solved and ERT for the target ${data.targets[choice.target]}`;
    find("caption span", table).textContent = `Final errors: ${about}.`;
    find("tbody", table).replaceChildren(...choice.methods.map((method) => finalRow(choice, method)));
    sortAgain(table);
  }

  function show() {
    drawConvergence(picked());
    fillFinal(picked());
  }

  function checkOnly(wanted) {
    for (const box of all("input", legendOf(picker))) box.checked = wanted(Number(box.value));
  }

  // The group that has exactly the checked methods, or "custom".
  function nameGroup() {
    const { methods } = picked();
    const same = (group) => group.length === methods.length && group.every((method) => methods.includes(method));
    const index = data.groups.findIndex(same);
    picker.elements.group.value = index < 0 ? "" : index;
  }

  // ---- The selection in the address ----

  function remember() {
    const { problem, dim, show: line, target, methods } = picked();
    const words = new URLSearchParams({ problem: data.problems[problem].name, dim: data.dims[dim], show: line });
    words.append("target", data.targets[target]);
    const names = methods.map((method) => data.methods[method].name);
    for (const name of names.length ? names : [""]) words.append("method", name);
    history.replaceState(null, "", `#${words}`);
  }

  function pick(select, labels, wanted) {
    const index = labels.map(String).indexOf(wanted);
    if (index >= 0) select.value = index;
  }

  // Applies the selection in the address. Missing or invalid parts keep their present value.
  function recall() {
    const words = new URLSearchParams(window.location.hash.slice(1));
    pick(picker.elements.problem, data.problems.map((problem) => problem.name), words.get("problem"));
    pick(picker.elements.dim, data.dims, words.get("dim"));
    pick(aim.elements.target, data.targets, words.get("target"));
    if (["mean", "median"].includes(words.get("show"))) picker.elements.show.value = words.get("show");
    const names = words.getAll("method");
    if (names.length) checkOnly((method) => names.includes(data.methods[method].name));
    nameGroup();
    show();
    if (words.has("problem")) find("#convergence").scrollIntoView();
  }

  // ---- Runtime distributions ----

  function drawRuntimes() {
    const curves = data.runtimes[Number(runtimePicker.elements.dim.value)];
    const traces = checkedIn(runtimePicker).map((method) => {
      const { x, y } = curves[method];
      const line = lineOf(data.methods[method]);
      return { ...line, x, y, customdata: y.map(percent), line: { ...line.line, shape: "hv" } };
    });
    const share = { range: [0, 1.02], tickformat: ".0%", title: { text: "share of (run, target) pairs solved" } };
    draw(find("#runtime-chart"), traces, logAxis("evaluations per unknown"), share);
  }

  // ---- Tables ----

  function valueOf(row, column, table) {
    const { dataset, textContent } = row.cells[column];
    const number = dataset[table.dataset.show] ?? dataset.value;
    return number === undefined ? textContent.trim() : Number(number);
  }

  // Sorts by value. Infinity is above every number; NaN comes last in both directions.
  function inOrder(a, b, sign) {
    if (typeof a === "string") return sign * a.localeCompare(b, "en", { numeric: true });
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return a === b ? 0 : sign * (a < b ? -1 : 1);
  }

  function sortAgain(table) {
    const heads = all("thead th", table);
    const column = heads.findIndex((head) => head.ariaSort !== "none");
    if (column < 0) return;
    const sign = heads[column].ariaSort === "ascending" ? 1 : -1;
    const body = find("tbody", table);
    const keyed = all("tr", body).map((row) => [valueOf(row, column, table), row]);
    body.append(...keyed.sort(([a], [b]) => inOrder(a, b, sign)).map(([, row]) => row));
  }

  function makeSortable(table) {
    const heads = all("thead th", table);
    for (const head of heads) {
      find("button", head).addEventListener("click", () => {
        const next = head.ariaSort === "ascending" ? "descending" : "ascending";
        for (const other of heads) other.ariaSort = other === head ? next : "none";
        sortAgain(table);
      });
    }
  }

  function makeFilter(form) {
    const table = document.getElementById(form.dataset.filters);
    const rows = all("tbody tr", table);
    const filter = () => {
      const { dim, text, show: statistic } = form.elements;
      const wanted = text.value.trim().toLowerCase();
      for (const row of rows) {
        row.hidden = !["", row.dataset.dim].includes(dim.value) || !row.dataset.search.toLowerCase().includes(wanted);
      }
      const left = rows.filter((row) => !row.hidden).length;
      find("output", form).textContent = `${left} of ${plural(rows.length, form.dataset.noun)}`;
      if (statistic) table.dataset.show = statistic.value;
      sortAgain(table);
    };
    for (const event of ["input", "change"]) form.addEventListener(event, filter);
    filter();
  }

  // ---- Start ----

  function redraw() {
    drawConvergence(picked());
    drawRuntimes();
  }

  function setPrinting(now) {
    printing = now;
    for (const node of all(".chart")) node.style.width = now ? "680px" : "";
    redraw();
    all(".chart").forEach((node) => Plotly.Plots.resize(node));
  }

  picker.addEventListener("change", ({ target }) => {
    const group = target === picker.elements.group && data.groups[target.value];
    if (group) checkOnly((method) => group.includes(method));
    nameGroup();
    show();
    remember();
  });
  aim.addEventListener("change", () => {
    fillFinal(picked());
    remember();
  });
  runtimePicker.addEventListener("change", drawRuntimes);
  window.addEventListener("hashchange", recall);
  window.addEventListener("beforeprint", () => setPrinting(true));
  window.addEventListener("afterprint", () => setPrinting(false));
  dark.addEventListener("change", redraw);
  for (const form of all("form")) form.addEventListener("submit", (event) => event.preventDefault());
  all("table.sortable").forEach(makeSortable);
  all("[data-filters]").forEach(makeFilter);
  recall();
  drawRuntimes();
})();
