// Moving about: one place in the data, one function that goes there, and the ways a reader asks for it.

const clamp = (value, size) => Math.min(Math.max(value, 0), size - 1);
let playing = 0; // the timer of the next step, or 0
let until = Infinity;

/** Go to another example, segment, layer, head, row or column, and draw what changed. */
function go(change, rowsShown = Infinity) {
  const before = { ...place };
  Object.assign(place, change);
  place.segment = clamp(place.segment, data.examples[place.example].segments.length);
  place.row = clamp(place.row, rowsOf(current()));
  place.column = clamp(place.column, keysOf(current()));
  until = rowsShown;
  const moved = (...names) => names.some((name) => before[name] !== place[name]);
  if (moved("example", "segment", "layer", "head")) showPage();
  else showCell();
}

function showPage() {
  fillPickers();
  showTimeline();
  showAnswers();
  showLegend();
  showThumbnails();
  showFindings();
  showScores();
  showCell();
}

function showCell() {
  drawMap(until);
  showReadout();
  showRow();
}

/** Follow the rows of each segment from top to bottom: memory is read, tokens are read, memory is written. */
function step() {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const last = rowsOf(current()) - 1;
  if (!still && place.row < last) {
    go({ row: place.row + 1, column: peak(place.row + 1) }, place.row + 1);
    playing = setTimeout(step, Math.max(40, 2400 / last));
    return;
  }
  if (place.segment === data.examples[place.example].segments.length - 1) return stop();
  go({ segment: place.segment + 1, row: 0, column: 0 }, still ? Infinity : 0);
  playing = setTimeout(step, still ? 1600 : 500);
}

/** The column that a row looks at most. */
function peak(row) {
  const keys = keysOf(current());
  const weights = mapOf(current(), place.layer, place.head).subarray(row * keys, (row + 1) * keys);
  return weights.indexOf(Math.max(...weights));
}

function play() {
  if (playing) return stop();
  const button = byId("play");
  button.textContent = "❚❚ Pause";
  button.setAttribute("aria-pressed", "true");
  byId("readout").setAttribute("aria-live", "off");
  const ended = place.segment === data.examples[place.example].segments.length - 1;
  go({ segment: ended ? 0 : place.segment, row: 0, column: 0 }, 0);
  playing = setTimeout(step, 300);
}

function stop() {
  clearTimeout(playing);
  playing = 0;
  byId("play").textContent = "▶ Play";
  byId("play").setAttribute("aria-pressed", "false");
  byId("readout").setAttribute("aria-live", "polite");
  until = Infinity;
  showCell();
}

function point(event) {
  const cell = cellAt(event);
  if (!cell || playing) return;
  if (cell.row !== place.row || cell.column !== place.column) go(cell);
}

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function mapKey(event) {
  const move = MOVES[event.key];
  if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
  go({ row: place.row + move[0], column: place.column + move[1] });
}

function pageKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("select, .scroll")) return;
  const next = (name, size) => go({ [name]: (place[name] + 1) % size });
  const actions = {
    ArrowLeft: () => go({ segment: place.segment - 1 }),
    ArrowRight: () => go({ segment: place.segment + 1 }),
    l: () => next("layer", data.layers),
    h: () => next("head", data.heads),
    e: () => next("example", data.examples.length),
    " ": play,
  };
  const action = actions[event.key];
  if (!action || (event.key === " " && event.target.matches("button"))) return;
  event.preventDefault();
  if (playing && event.key !== " ") stop();
  action();
}

const THEMES = { "light dark": "as the system", light: "light", dark: "dark" };

function changeTheme() {
  const names = Object.keys(THEMES);
  const root = document.documentElement.style;
  root.colorScheme = names[(names.indexOf(root.colorScheme || names[0]) + 1) % names.length];
  byId("theme").setAttribute("aria-label", `Colours: ${THEMES[root.colorScheme]}`);
  repaint();
}

function repaint() {
  readColours();
  showThumbnails();
  drawMap(until);
  showRow();
}

function start() {
  byId("run").textContent = [data.title, ...data.facts].join(" · ");
  document.title = `${data.title} · memory explorer`;
  for (const name of ["example", "segment", "layer", "head"])
    byId(name).addEventListener("change", (event) => go({ [name]: Number(event.target.value) }));
  byId("play").addEventListener("click", play);
  byId("theme").addEventListener("click", changeTheme);
  byId("map").addEventListener("pointermove", point);
  byId("map").addEventListener("pointerdown", point);
  byId("map").addEventListener("keydown", mapKey);
  for (const name of ["pointerleave", "focus", "blur"]) byId("map").addEventListener(name, () => drawMap(until));
  document.addEventListener("keydown", pageKey);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new ResizeObserver(() => drawMap(until)).observe(byId("frame"));
  readColours();
  showPage();
}

start();
