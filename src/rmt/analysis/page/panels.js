// Everything beside the map: pickers, timeline, the chosen row, predictions, heads and their scores.

const MANY_HEADS = 24;

function fillPickers() {
  const example = data.examples[place.example];
  const options = {
    example: data.examples.map((one) => one.name),
    segment: example.segments.map((_, number) => `${number + 1} of ${example.segments.length}`),
    layer: Array.from({ length: data.layers }, (_, number) => `${number + 1} of ${data.layers}`),
    head: Array.from({ length: data.heads }, (_, number) => `${number + 1} of ${data.heads}`),
  };
  for (const [name, texts] of Object.entries(options)) {
    const select = byId(name);
    select.replaceChildren(...texts.map((text, value) => Object.assign(make("option", "", text), { value })));
    select.value = place[name];
  }
}

function showTimeline() {
  const segments = data.examples[place.example].segments;
  const items = segments.map((segment, number) => {
    const item = make("li");
    if (number) item.append(carried(segments[number - 1], number));
    const button = make("button");
    button.type = "button";
    button.setAttribute("aria-current", String(number === place.segment));
    button.append(make("span", "name", `segment ${number + 1}`), make("span", "text", segment.tokens.join(" ")));
    button.addEventListener("click", () => go({ segment: number }));
    item.append(button);
    return item;
  });
  byId("timeline").replaceChildren(...items);
  const chosen = items[place.segment].getBoundingClientRect();
  const frame = byId("timeline").getBoundingClientRect();
  byId("timeline").scrollLeft += chosen.left + chosen.width / 2 - frame.left - frame.width / 2;
}

/** What is handed from one segment to the next: a dot for every memory slot or cached position. */
function carried(segment, after) {
  const [cache, read, , write] = segment.spans;
  const used = after === place.segment ? " looked" : after === place.segment + 1 ? " written" : "";
  const element = make("span", `carried${used}`);
  element.setAttribute("aria-hidden", "true");
  const dots = make("i");
  dots.append(...Array.from({ length: Math.min(write || read || cache, 16) }, () => make("b")));
  element.append(dots, "→");
  return element;
}

function showReadout() {
  const segment = current();
  const [query, key] = [queryAt(segment, place.row), keyAt(segment, place.column)];
  const weight = mapOf(segment, place.layer, place.head)[place.row * keysOf(segment) + place.column];
  byId("map-title").textContent = `Segment ${place.segment + 1}, layer ${place.layer + 1}, head ${place.head + 1}`;
  byId("readout").replaceChildren(`${named(query)} looks at ${named(key)}: `, make("strong", "", weight.toFixed(3)));
  byId("map").setAttribute("aria-label",
    `Attention map of ${byId("map-title").textContent}: ${rowsOf(segment)} rows, ${keysOf(segment)} columns`);
}

/** Where the chosen row looks, span by span. */
function showRow() {
  const segment = current();
  const keys = keysOf(segment);
  const row = mapOf(segment, place.layer, place.head).subarray(place.row * keys, (place.row + 1) * keys);
  const query = queryAt(segment, place.row);
  byId("row-title").textContent = `Where ${named(query)} looks`;
  const parts = [];
  let start = 0;
  for (const [which, size] of segment.spans.entries()) {
    const weights = row.subarray(start, (start += size));
    if (size) parts.push(spanOf(segment, SPANS[which], weights, operationOf(query.span, SPANS[which])));
  }
  byId("row").replaceChildren(...parts);
}

function spanOf(segment, span, weights, operation) {
  const element = make("div", `span ${className(operation)}`);
  const share = weights.reduce((sum, weight) => sum + weight, 0);
  const line = make("p");
  line.append(make("span", "label", span), meter(share), make("span", "number", percent(share)));
  const chips = make("ul", "chips");
  for (const [number, weight] of weights.entries()) {
    const label = labelOf(segment, span, number);
    const shade = weight ** GAMMA;
    const chip = make("li", isDark(operation, shade) ? "dark" : "");
    chip.style.setProperty("--weight", shade.toFixed(3));
    chip.title = `${named({ span, number, label })}: ${weight.toFixed(3)}`;
    chip.append(make("span", "", label || "·"));
    chips.append(chip);
  }
  element.append(line, chips);
  return element;
}

function meter(share) {
  const element = make("span", "meter");
  const bar = make("i");
  bar.style.width = `${100 * share}%`;
  element.append(bar);
  return element;
}

function showAnswers() {
  const segment = current();
  const isAsked = ({ wanted }) => wanted.some(Boolean);
  byId("answers").closest("section").hidden = !data.examples[place.example].segments.some(isAsked);
  const lines = { input: segment.tokens, predicted: segment.predicted, target: segment.targets };
  const rows = Object.entries(lines).map(([name, words]) => {
    const row = make("tr");
    row.append(Object.assign(make("th", "", name), { scope: "row" }));
    row.append(...words.map((word, at) => make("td", name === "input" ? "" : verdict(segment, at), word || "·")));
    return row;
  });
  const marks = make("tr");
  marks.append(make("th"), ...segment.tokens.map((_, at) => {
    const mark = { right: "✓", wrong: "✗", unasked: "" }[verdict(segment, at)];
    return make("td", verdict(segment, at), mark);
  }));
  byId("answers").replaceChildren(...rows, marks);
  const right = segment.tokens.filter((_, at) => verdict(segment, at) === "right").length;
  byId("answers-hint").textContent = isAsked(segment)
    ? `${right} of ${segment.wanted.filter(Boolean).length} right in this segment.`
    : "Nothing is asked of the model in this segment.";
}

function verdict(segment, at) {
  if (!segment.wanted[at]) return "unasked";
  return segment.predicted[at] === segment.targets[at] ? "right" : "wrong";
}

/** The layers whose heads are shown: all, or where heads are many, the chosen one. */
function shownLayers() {
  if (data.layers * data.heads > MANY_HEADS) return [place.layer];
  return Array.from({ length: data.layers }, (_, layer) => layer);
}

function showThumbnails() {
  const segment = current();
  const buttons = [];
  const layers = shownLayers();
  byId("heads-title").textContent = layers.length < data.layers
    ? `Heads of layer ${place.layer + 1} of ${data.layers} in this segment` : "All heads in this segment";
  for (const layer of layers) {
    for (let head = 0; head < data.heads; head++) {
      const button = make("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(layer === place.layer && head === place.head));
      button.setAttribute("aria-label", `Layer ${layer + 1}, head ${head + 1}`);
      const picture = raster(segment, layer, head);
      picture.style.aspectRatio = `${picture.width} / ${picture.height}`;
      button.append(picture, `layer ${layer + 1} · ${head + 1}`);
      button.addEventListener("click", () => go({ layer, head }));
      buttons.push(button);
    }
  }
  byId("thumbnails").replaceChildren(...buttons);
}

/** The clearest head of every operation, as a place to jump to. */
function showFindings() {
  const buttons = data.examples[place.example].findings.map((found) => {
    const button = make("button", `swatch ${className(found.operation)}`);
    button.type = "button";
    const { segment, layer, head } = found.to;
    const order = found.order === "mixed" ? "in no order" : found.order;
    const where = `segment ${segment + 1}, layer ${layer + 1}, head ${head + 1}: ${percent(found.mass)}, ${order}`;
    button.append(make("strong", "label", found.operation), make("span", "label", ` ${where}`));
    button.addEventListener("click", () => go(found.to));
    return button;
  });
  byId("findings").replaceChildren(...buttons);
}

function showScores() {
  const segment = current();
  const names = Object.keys(segment.scores);
  const top = make("tr");
  top.append(Object.assign(make("th", "", "head"), { scope: "col" }));
  for (const name of names) {
    const heading = make("th", `swatch ${className(name)}`);
    heading.scope = "col";
    heading.append(make("span", "label", name));
    heading.title = MEANING[name];
    top.append(heading);
  }
  const body = make("tbody");
  for (const layer of shownLayers())
    for (let head = 0; head < data.heads; head++) body.append(scoreRow(segment, names, layer, head));
  const head = make("thead");
  head.append(top);
  byId("scores").replaceChildren(head, body);
  const { name, segments } = data.examples[place.example];
  const heads = shownLayers().length < data.layers ? `the heads of layer ${place.layer + 1}, ` : "";
  byId("scores-hint").textContent = `The table is over ${heads}segment ${place.segment + 1} of ${segments.length} of ${name} alone; ` +
    "the buttons are the clearest heads of all its segments: most attention along one diagonal.";
}

function scoreRow(segment, names, layer, head) {
  const row = make("tr");
  row.setAttribute("aria-current", String(layer === place.layer && head === place.head));
  const button = make("button", "", `layer ${layer + 1}, head ${head + 1}`);
  button.type = "button";
  button.addEventListener("click", () => go({ layer, head }));
  const heading = Object.assign(make("th"), { scope: "row" });
  heading.append(button);
  row.append(heading);
  for (const name of names) {
    const [mass, straight, reversed, compression] = segment.scores[name][layer * data.heads + head];
    const order = Math.max(straight, reversed) < data.diagonal ? "mixed" : straight >= reversed ? "straight" : "reversed";
    const cell = make("td", className(name));
    cell.dataset.name = name;
    const line = make("p");
    line.append(meter(mass), make("span", "number", mass.toFixed(2)), make("span", "number", ORDERS[order]));
    cell.title = `diagonal ${straight.toFixed(2)}, anti-diagonal ${reversed.toFixed(2)}, columns per row ${compression.toFixed(2)}`;
    cell.append(line);
    row.append(cell);
  }
  return row;
}

function showLegend() {
  const present = Object.keys(current().scores);
  byId("legend").replaceChildren(...present.map((name) => {
    const item = make("li", className(name));
    item.append(make("span", "", `${name}: ${MEANING[name]}`));
    return item;
  }));
}
