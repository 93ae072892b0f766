// The attention map: one canvas for all cells, drawn at the screen's own resolution.

const GAMMA = 0.6; // weak attention stays visible; the numbers beside it are exact
const map = { left: 0, top: 0, cell: 1, ratio: 1 };
const colours = {};

/** Colours of the theme in force, as [red, green, blue], read from the style sheet. */
function readColours() {
  const probe = document.body.appendChild(make("span"));
  for (const name of ["write", "read", "rewrite", "mix", "cache", "other", "ink", "soft", "line", "card", "focus"]) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  }
  probe.remove();
}

const rgb = (name, alpha = 1) => `rgb(${colours[name].join(" ")} / ${alpha})`;

/** Whether a colour of this strength on a card is a ground for white text. */
function isDark(name, strength) {
  const light = colours[name].map((part, at) => ((strength * part + (1 - strength) * colours.card[at]) / 255) ** 2.2);
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] < 0.18;
}

/** One head as a picture of one pixel per cell. */
function raster(segment, layer, head) {
  const [keys, rows] = [keysOf(segment), rowsOf(segment)];
  const weights = mapOf(segment, layer, head);
  const picture = Object.assign(document.createElement("canvas"), { width: keys, height: rows });
  const context = picture.getContext("2d");
  const image = context.createImageData(keys, rows);
  const columns = Array.from({ length: keys }, (_, index) => keyAt(segment, index).span);
  for (let row = 0; row < rows; row++) {
    const query = columns[row + segment.spans[0]];
    for (let column = 0; column < keys; column++) {
      const cell = row * keys + column;
      image.data.set(colours[operationOf(query, columns[column])], 4 * cell);
      image.data[4 * cell + 3] = Math.round(255 * weights[cell] ** GAMMA);
    }
  }
  context.putImageData(image, 0, 0);
  return picture;
}

/** Sizes that fit the frame; a map with too many keys for it becomes wider and scrolls. */
function measure(segment) {
  const frame = byId("frame").clientWidth;
  const left = frame < 420 ? 26 : 44;
  const cell = Math.min(Math.max((frame - left - 1) / keysOf(segment), 5), 34);
  Object.assign(map, { left, top: 40, cell, ratio: window.devicePixelRatio || 1 });
  const canvas = byId("map");
  const [width, height] = [left + cell * keysOf(segment) + 1, map.top + cell * rowsOf(segment) + 1];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * map.ratio);
  canvas.height = Math.round(height * map.ratio);
}

/** Draw the whole map; rows below `until` have not happened yet while it plays. */
function drawMap(until = Infinity) {
  const segment = current();
  measure(segment);
  const context = byId("map").getContext("2d");
  const [keys, rows] = [keysOf(segment), rowsOf(segment)];
  context.scale(map.ratio, map.ratio);
  context.imageSmoothingEnabled = false;
  const seen = Math.min(rows, until + 1);
  context.drawImage(raster(segment, place.layer, place.head), 0, 0, keys, seen,
    map.left, map.top, keys * map.cell, seen * map.cell);
  drawSelection(context, segment);
  drawBorders(context, segment);
  drawLabels(context, segment);
}

/** The chosen row and its cell are framed; while the reader is at it, the other rows fade. */
function drawSelection(context, segment) {
  const { left, top, cell } = map;
  const [width, height] = [keysOf(segment) * cell, rowsOf(segment) * cell];
  context.fillStyle = rgb("card", byId("map").matches(":hover, :focus-visible") ? 0.5 : 0);
  context.fillRect(left, top, width, place.row * cell);
  context.fillRect(left, top + (place.row + 1) * cell, width, height - (place.row + 1) * cell);
  context.strokeStyle = rgb("ink");
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, top + place.row * cell + 0.5, width - 1, cell - 1);
  context.strokeStyle = rgb("focus");
  context.lineWidth = 2;
  context.strokeRect(left + place.column * cell, top + place.row * cell, cell, cell);
}

/** Lines between the spans, and a bar in each span's colour along both axes. */
function drawBorders(context, segment) {
  const { left, top, cell } = map;
  const [width, height] = [keysOf(segment) * cell, rowsOf(segment) * cell];
  let start = 0;
  const cache = segment.spans[0];
  for (const [which, size] of segment.spans.entries()) {
    if (size) {
      const colour = { cache: "cache", read: "read", tokens: "mix", write: "write" }[SPANS[which]];
      context.fillStyle = rgb(colour);
      context.fillRect(left + start * cell + 0.5, top - 5, size * cell - 1, 3);
      if (which) context.fillRect(left - 5, top + (start - cache) * cell + 0.5, 3, size * cell - 1);
      context.fillStyle = rgb("soft", 0.55);
      if (start) context.fillRect(left + start * cell, top, 1, height);
      if (start > cache) context.fillRect(left, top + (start - cache) * cell, width, 1);
      title(context, SPANS[which], left + (start + size / 2) * cell, size * cell, colour);
    }
    start += size;
  }
  context.strokeStyle = rgb("line");
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
}

function title(context, text, middle, space, colour) {
  context.font = "600 11px " + getComputedStyle(document.body).fontFamily;
  if (context.measureText(text).width > space + 4) return;
  context.fillStyle = rgb(colour);
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  context.fillText(text, middle, 11);
}

/** As much of a text as fits, at least a letter; the brackets of a special token go first. */
function shortened(text, fits) {
  const letters = [...text.replace(/^[[<](.+)[\]>]$/, "$1")];
  while (letters.length > 1 && !fits(letters.join(""))) letters.pop();
  return letters.join("");
}

/** Labels of rows and columns, as far as there is room for them. */
function drawLabels(context, segment) {
  const { left, top, cell } = map;
  if (cell < 9) return;
  const size = Math.min(12, Math.max(9, cell * 0.7));
  context.font = `${size}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace`;
  const fits = (text, room) => context.measureText(text).width <= room;
  const fitted = (text, room) => (fits(text, room) ? text : shortened(text, (part) => fits(part, room)));
  context.textBaseline = "middle";
  for (let key = 0; key < keysOf(segment); key++) {
    context.fillStyle = rgb(key === place.column ? "ink" : "soft");
    context.textAlign = "center";
    context.fillText(fitted(keyAt(segment, key).label, cell), left + (key + 0.5) * cell, top - 6 - size * 0.75);
  }
  for (let row = 0; row < rowsOf(segment); row++) {
    context.fillStyle = rgb(row === place.row ? "ink" : "soft");
    context.textAlign = "right";
    context.fillText(fitted(queryAt(segment, row).label, left - 10), left - 8, top + (row + 0.5) * cell);
  }
}

/** The cell under a point of the page, if there is one. */
function cellAt(event) {
  const box = byId("map").getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - map.left) / map.cell);
  const row = Math.floor((event.clientY - box.top - map.top) / map.cell);
  const segment = current();
  if (row < 0 || column < 0 || row >= rowsOf(segment) || column >= keysOf(segment)) return null;
  return { row, column };
}
