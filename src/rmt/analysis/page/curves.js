// Learning curves: scales, lines and bands as SVG, and the values at the step that is pointed at.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const hidden = new Set(); // numbers of the labels that are not shown
const MARGIN = { left: 52, right: 24, top: 10, bottom: 26 };
const SVG = "http://www.w3.org/2000/svg";

function node(name, attributes = {}, ...children) {
  const element = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const look = (label) => `c${label % 8} d${Math.floor(label / 8) % 4}`;

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  if (size > 0 && size < 1e-3) return value.toExponential(1);
  return `${+value.toPrecision(4)}`;
}

/** Round numbers between two values, about so many. */
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) values.push(value);
  return values;
}

/** The same where distances are ratios. */
function logTicks(low, high) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of [1, 2, 5]) all.push(factor * 10 ** power);
  const inside = all.filter((value) => value >= low && value <= high);
  const tens = inside.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e9) / 1e9));
  return inside.length > 8 && tens.length > 1 ? tens : inside;
}

class CurveChart {
  constructor(chart) {
    this.chart = chart;
    this.log = false;
    this.step = null; // where the reader points
    this.plot = node("svg:svg", { class: "plot", tabindex: 0, role: "img", "aria-label": `${chart.quantity} over steps` });
    this.readout = node("ul", { class: "readout", role: "status", "aria-live": "polite" });
    this.scale = node("button", { type: "button", class: "scale", "aria-pressed": "false" }, "log scale");
    this.scale.addEventListener("click", () => {
      this.log = !this.log;
      this.scale.setAttribute("aria-pressed", this.log);
      this.draw();
    });
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerdown", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.go(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    const positive = chart.curves.every((curve) => (curve.least || curve.mean).every((value) => value > 0));
    const head = node("header", {}, node("h2", {}, chart.quantity), ...(positive ? [this.scale] : []));
    this.section = node("section", { class: "chart" }, head, this.plot, this.readout);
  }

  shown() {
    return this.chart.curves.filter((curve) => !hidden.has(curve.label));
  }

  /** Where steps and values are on the screen, for the curves that are shown. */
  measure() {
    const curves = this.shown().length ? this.shown() : this.chart.curves;
    const steps = curves.flatMap((curve) => [curve.steps[0], curve.steps.at(-1)]);
    const values = curves.flatMap((curve) => [...(curve.least || curve.mean), ...(curve.most || curve.mean)]);
    const [first, last] = [Math.min(...steps), Math.max(...steps)];
    let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const room = (high - low || 1) * 0.05;
    if (!this.log) [low, high] = low >= 0 && high <= 1 ? [0, 1] : [low - room < 0 && low >= 0 ? 0 : low - room, high + room];
    else if (low === high) [low, high] = [low / 2, high * 2];
    this.width = this.plot.clientWidth || 560;
    this.height = Math.round(Math.min(360, Math.max(220, this.width * 0.6)));
    const across = this.width - MARGIN.left - MARGIN.right, down = this.height - MARGIN.top - MARGIN.bottom;
    const bend = this.log ? Math.log : (value) => value;
    this.x = (step) => MARGIN.left + ((step - first) / (last - first || 1)) * across;
    this.y = (value) => MARGIN.top + (1 - (bend(value) - bend(low)) / (bend(high) - bend(low))) * down;
    this.ticks = { x: ticks(first, last, across / 90), y: this.log ? logTicks(low, high) : ticks(low, high, 5) };
  }

  draw() {
    this.measure();
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.plot.setAttribute("height", this.height);
    const [right, bottom] = [this.width - MARGIN.right, this.height - MARGIN.bottom];
    const grid = this.ticks.y.flatMap((value) => [
      node("svg:line", { class: "grid", x1: MARGIN.left, x2: right, y1: this.y(value), y2: this.y(value) }),
      node("svg:text", { x: MARGIN.left - 8, y: this.y(value) + 4, "text-anchor": "end" }, short(value)),
    ]);
    const steps = this.ticks.x.map((step) =>
      node("svg:text", { x: this.x(step), y: bottom + 18, "text-anchor": "middle" }, short(step)));
    steps.push(node("svg:text", { x: 0, y: bottom + 18 }, "step"));
    const curves = this.shown().flatMap((curve) => this.lines(curve));
    this.cross = node("svg:g");
    this.plot.replaceChildren(...grid, ...steps, ...curves, this.cross);
    this.tell();
  }

  lines(curve) {
    const at = (values) => values.map((value, index) => `${this.x(curve.steps[index]).toFixed(1)} ${this.y(value).toFixed(1)}`);
    const line = node("svg:path", { class: `curve ${look(curve.label)}`, d: `M${at(curve.mean).join("L")}` });
    const parts = curve.steps.length > 1 ? [line] : [this.dot(curve, 0)];
    if (!curve.least) return parts;
    const outline = [...at(curve.most), ...at(curve.least).reverse()].join("L");
    return [node("svg:path", { class: `band ${look(curve.label)}`, d: `M${outline}Z` }), ...parts];
  }

  dot(curve, index) {
    const [cx, cy] = [this.x(curve.steps[index]), this.y(curve.mean[index])];
    return node("svg:circle", { class: `dot ${look(curve.label)}`, cx, cy, r: 4 });
  }

  /** All steps that some shown curve has. */
  steps() {
    return [...new Set(this.shown().flatMap((curve) => curve.steps))].sort((a, b) => a - b);
  }

  point(event) {
    const left = event.clientX - this.plot.getBoundingClientRect().left;
    const steps = this.steps();
    if (!steps.length) return;
    this.go(steps.reduce((best, step) => (Math.abs(this.x(step) - left) < Math.abs(this.x(best) - left) ? step : best)));
  }

  key(event) {
    const steps = this.steps();
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined || !steps.length) return;
    event.preventDefault();
    const index = this.step === null ? (move > 0 ? -1 : steps.length) : steps.indexOf(this.step);
    this.go(steps[Math.min(Math.max(index + move, 0), steps.length - 1)]);
  }

  go(step) {
    this.step = step;
    this.tell();
  }

  /** The values at the step that is pointed at; without one, those at the end of each curve. */
  tell() {
    const named = this.step !== null;
    const entries = this.shown().map((curve) => [curve, named ? curve.steps.indexOf(this.step) : curve.steps.length - 1]);
    const found = entries.filter(([, index]) => index >= 0);
    const heading = node("li", { class: "step" }, named ? `step ${this.step.toLocaleString("en")}` : "at the end");
    this.readout.replaceChildren(heading, ...found.map(([curve, index]) => entry(curve, index)));
    const dots = named ? found.map(([curve, index]) => this.dot(curve, index)) : [];
    const line = { class: "cross", x1: this.x(this.step || 0), x2: this.x(this.step || 0) };
    const ends = { y1: MARGIN.top, y2: this.height - MARGIN.bottom };
    this.cross.replaceChildren(...(named ? [node("svg:line", { ...line, ...ends })] : []), ...dots);
  }
}

/** A curve's value, with its range where runs were averaged. */
function entry(curve, index) {
  const range = curve.least ? ` (${short(curve.least[index])}–${short(curve.most[index])})` : "";
  const few = curve.counts[index] < Math.max(...curve.counts) ? `, ${curve.counts[index]} of ${Math.max(...curve.counts)}` : "";
  const value = node("b", {}, `${short(curve.mean[index])}${range}${few}`);
  return node("li", { class: look(curve.label) }, node("i"), node("span", {}, data.labels[curve.label]), value);
}

function legendButton(text, label) {
  const sample = node("svg:svg", { viewBox: "0 0 22 8", class: look(label), "aria-hidden": "true" },
    node("svg:path", { class: "curve", d: "M1 4L21 4" }));
  const button = node("button", { type: "button", "aria-pressed": "true" }, sample, node("span", {}, text));
  button.addEventListener("click", () => {
    if (!hidden.delete(label)) hidden.add(label);
    button.setAttribute("aria-pressed", !hidden.has(label));
    charts.forEach((chart) => chart.draw());
  });
  return node("li", {}, button);
}

function runRow(run) {
  const cells = { run: run.run, curve: data.labels[run.label], seed: run.seed, steps: run.steps.toLocaleString("en"), test: run.result };
  const row = node("tr", {}, ...Object.entries(cells).map(([name, text]) => node("td", { "data-name": name }, text)));
  const page = run.explorer ? [node("a", { href: run.explorer }, "explorer")] : [];
  row.append(node("td", { "data-name": "memory" }, ...page));
  return row;
}

byId("title").textContent = data.title;
document.title = `${data.title} · learning curves`;
byId("note").textContent = data.note;
byId("legend").append(...data.labels.map(legendButton));
byId("runs").tBodies[0].append(...data.runs.map(runRow));
const charts = data.charts.map((chart) => new CurveChart(chart));
byId("charts").append(...charts.map((chart) => chart.section));
const redraw = () => charts.forEach((chart) => chart.draw());
new ResizeObserver(redraw).observe(byId("charts"));
redraw();
