// What the page shows: the captured attention, unpacked, and where the reader is in it.

const data = JSON.parse(document.getElementById("data").textContent);
const SPANS = ["cache", "read", "tokens", "write"];
const place = { example: 0, segment: 0, layer: 0, head: 0, row: 0, column: 0, ...data.examples[0].findings[0].to };

const byId = (id) => document.getElementById(id);
const current = () => data.examples[place.example].segments[place.segment];

/** An element with text; text is never read as markup. */
function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== "") element.textContent = text;
  return element;
}

/** Weights of all heads as numbers from 0 to 1, unpacked when first asked for. */
function weightsOf(segment) {
  if (!segment.unpacked) {
    const bytes = Uint8Array.from(atob(segment.weights), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    segment.unpacked = Float32Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true) / 65535);
  }
  return segment.unpacked;
}

const keysOf = (segment) => segment.spans.reduce((sum, size) => sum + size, 0);
const rowsOf = (segment) => keysOf(segment) - segment.spans[0];

/** The map of one head: rows × keys numbers, row after row. */
function mapOf(segment, layer, head) {
  const size = rowsOf(segment) * keysOf(segment);
  const start = (layer * data.heads + head) * size;
  return weightsOf(segment).subarray(start, start + size);
}

/** Which span a key is in, its number there and its label. */
function keyAt(segment, index) {
  let number = index;
  for (const [which, size] of segment.spans.entries()) {
    if (number < size) return { span: SPANS[which], number, label: labelOf(segment, SPANS[which], number) };
    number -= size;
  }
  throw new RangeError(`no key ${index}`);
}

const queryAt = (segment, index) => keyAt(segment, index + segment.spans[0]);

function labelOf(segment, span, number) {
  if (span === "tokens") return segment.tokens[number];
  if (span === "cache") return segment.cache[number];
  return String(number + 1);
}

/** A row or column in words, such as “write 3” or “token 2 ‘7’”. */
function named({ span, number, label }) {
  if (span === "tokens") return `token ${number + 1} ‘${label}’`;
  if (span === "cache") return label ? `cache ‘${label}’` : "empty cache";
  return `${span} ${number + 1}`;
}

/** The operation of a row that looks at a key, which gives a cell its colour. */
function operationOf(query, key) {
  for (const [name, [who, whom]] of Object.entries(data.operations)) if (who === query && whom === key) return name;
  return "other";
}

const className = (operation) => (operation === "read" ? "read-op" : operation);
const percent = (share) => `${Math.round(100 * share)} %`;
const MEANING = {
  write: "tokens go into memory",
  read: "memory goes to the tokens",
  rewrite: "memory is handed on",
  mix: "tokens go to tokens",
  cache: "cached states go to the tokens",
};
const ORDERS = { straight: "↘", reversed: "↙", mixed: "" };
