// The convergence view: the chart with its cursor and its zoom, and the table of the runs below it.

const KEYS = { // steps along a curve, and from curve to curve
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
  Home: [-Infinity, 0], End: [Infinity, 0], Escape: [0, 0],
};
const CLICK = 6; // pixels: a pointer that moves less does not drag

const LOST = `the kernel has stopped or restarted: ${
  document.body.dataset.voila ? "reload this page" : "run this cell again"}`;

const choice = (name, choices) => `<label>${name} <select class="${name}">
  ${Object.keys(choices).map((title) => `<option>${title}</option>`).join("")}</select></label>`;
// The canvas is an application: of an img, screen readers keep the arrow keys to themselves.
const PAGE = `<style>
  .live { ${TEXT} }
  .live p { margin: 0.2em 0; overflow-wrap: anywhere; }
  .live p:empty { display: none; }
  .live .runs { max-height: 20em; overflow: auto; cursor: default; }
  .live table { border-collapse: collapse; font: inherit; font-variant-numeric: tabular-nums; }
  .live :is(th, td) { padding: 0.1em 0.5em; text-align: right; vertical-align: top;
    font-weight: normal; white-space: nowrap; }
  .live thead th { position: sticky; top: 0; border-bottom: 1px solid; }
  .live :is(.title, .more, caption) { text-align: left; }
  .live :is(.title, .more, thead th) { white-space: normal; }
  .live .title { min-width: 12em; }
  .live .error { color: var(--jp-error-color1, #d32f2f); white-space: pre-wrap; font-weight: 600; }
  .live :is(.note, .hint, .more, caption) { opacity: 0.75; }
  .live .stage { position: relative; }
  .live canvas { display: block; width: 100%; height: ${EDGE.end}em; touch-action: pan-y; }
  .live :is(canvas, tbody):focus-visible { outline: 0.15em solid; outline-offset: 0.1em; }
  .live .readout { position: absolute; top: ${EDGE.top}em; z-index: 1; box-sizing: border-box;
    max-width: 48%; line-height: 1.35; white-space: pre-line; overflow-wrap: anywhere;
    pointer-events: none; }
  .live .readout:not(:empty) { padding: 0.3em 0.6em; border: 1px solid; border-radius: 0.3em; }
  .live :is(.readout, select, thead th) { background: var(--jp-layout-color1, Canvas); }
  .live .choices { display: flex; flex-wrap: wrap; gap: 0.3em 1.2em; }
  .live select { font: inherit; color: inherit; border: 1px solid; border-radius: 0.2em;
    min-height: 1.9em; }
  .live .swatch { width: 2.5em; height: 1em; vertical-align: middle; }
  .live .more { padding: 0 0.5em 0.3em 3.5em; font-size: 0.92em; }
  .live tbody.hidden :is(.swatch, .name, td:not(:last-child)) { opacity: 0.35; }
  .live td button { font: inherit; color: inherit; opacity: 0.75; border: 0; padding: 0 0.3em;
    background: none; cursor: pointer; text-decoration: underline; }
  .live-page.jupyter-widgets-disconnected::before,
  .live-page .jupyter-widgets-disconnected::before { content: none; }
  .live-controls[inert] { opacity: 0.4; }
  </style>
  <p><b class="status" role="status"></b></p><p class="error" role="alert"></p>
  <p class="pending" role="status"></p><p class="note"></p><p class="hint"></p>
  <div class="stage">
    <canvas tabindex="0" role="application" data-lm-suppress-shortcuts="true" aria-label="Chart of
      bounds, and of gaps or errors. Left and right move a cursor along a curve, up and down
      choose the curve, plus zooms in on the cursor, escape removes the cursor and the zoom. The
      latest values are listed below."></canvas>
    <div class="readout" aria-live="polite"></div>
  </div>
  <p class="choices">${choice("below", BELOW)} ${choice("over", OVER)}
    <label><input type="checkbox"> logarithmic</label>
    <span class="note">drag on the chart to zoom, double click to return</span></p>
  <div class="runs"><table><caption></caption>
    <thead><tr><th class="title">run, and what differs</th>${COLUMNS.map((title) => `<th>${title}</th>`).join("")}<th></th></tr></thead></table></div>`;

function take(message, buffers, said) {
  const known = new Map(said.curves.map((curve) => [curve.number, curve.points]));
  let whole = true;
  message.curves.forEach((curve, i) => {
    curve.points = known.get(curve.number) ?? [];
    if (SIZE * curve.at > curve.points.length) whole = false;
    else append(curve.points, SIZE * curve.at, floats(buffers[i], Float64Array));
  });
  return whole;
}

function open(el, show, send) {
  el.classList.add("live");
  el.innerHTML = PAGE;
  const part = (selector) => el.querySelector(selector);
  const canvas = part("canvas");
  let chosen = ""; // until then the lower panel is the one that suits the curves
  let cursor = null; // the number of a curve, and where in it a point begins
  let scene = { lines: [] }; // what is drawn where
  let zoom = {}; // the ends of axes that are not those of their values
  let drag = null; // two corners of what is to be zoomed to
  const hidden = new Set(); // numbers of curves

  function put(place) {
    cursor = place;
    show();
  }

  function press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (!(event.key in KEYS) && event.key !== "+") return;
    event.preventDefault();
    event.stopPropagation(); // or the notebook would choose another cell
    if (event.key === "+") return enlarge(scene.marked && around(scene.marked, scene.axes));
    if (event.key === "Escape") zoom = {};
    put(event.key === "Escape" ? null : move(scene.lines, cursor, event.key, event.shiftKey));
  }

  function enlarge(corners) {
    if (corners) zoom = { ...zoom, ...within(corners, scene.axes) };
    show();
  }

  function point({ offsetX, offsetY }) {
    if (drag) drag[1] = [offsetX, offsetY];
    put(nearest(scene.lines, offsetX, offsetY));
  }

  function grasp(event) {
    drag = [[event.offsetX, event.offsetY], [event.offsetX, event.offsetY]];
    canvas.setPointerCapture(event.pointerId);
    point(event);
  }

  function release() {
    const corners = drag;
    drag = null;
    enlarge(corners && Math.abs(corners[1][0] - corners[0][0]) >= CLICK ? corners : null);
  }

  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", grasp);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", () => (drag = null)); // the page scrolls instead
  canvas.addEventListener("dblclick", () => show((zoom = {})));
  canvas.addEventListener("pointerleave", () => canvas === document.activeElement || put(null));
  canvas.addEventListener("blur", () => put(null));
  canvas.addEventListener("keydown", press);
  part(".below").addEventListener("change", ({ target }) => (chosen = target.value));
  for (const type of ["pointerover", "pointerleave", "focusin", "focusout"]) {
    part("table").addEventListener(type, show); // a line makes its curve stand out
  }
  el.addEventListener("change", () => show((zoom = {}))); // the axes are others
  part("table").addEventListener("click", ({ target }) => {
    const number = Number(target.closest("tbody")?.dataset.number);
    if (target.matches(".remove")) send({ remove: number });
    if (target.matches(".hide")) hidden.delete(number) || hidden.add(number);
    show();
  });

  // Reads the layout first and writes to the page last, so that it is laid out once.
  return (said, lost) => {
    const { curves } = said;
    const below = chosen || usual(curves);
    const lit = Number((part("tbody:hover") ?? part("tbody:focus-visible"))?.dataset.number);
    for (const curve of curves) curve.dashes = dash(curve, curves);
    const seen = curves.filter(({ number }) => !hidden.has(number));
    const look = theme(canvas);
    const width = canvas.clientWidth;
    const pen = clean(canvas, width, EDGE.end * look.em, look, LETTERS);
    scene = draw(pen, look, width, seen, { over: part(".over").value, below,
      logarithmic: part("input").checked, zoom, cursor, lit, drag });
    const { marked } = scene;
    cursor = marked && { number: marked.curve.number, i: marked.i }; // the run may have gone back
    part(".below").value = below;
    const told = lost ? { status: LOST } : said;
    for (const key of ["status", "pending", "note", "error"]) write(part(`.${key}`), told[key] ?? "");
    const controls = el.closest(".live-page")?.querySelectorAll(".live-controls") ?? [];
    controls.forEach((part) => (part.inert = lost)); // a press of a button would be an error
    const idle = !lost && !curves.length && !["starting", "running"].includes(said.status);
    write(part(".hint"), idle ? "press run or step" : "");
    part(".runs").hidden = !curves.length;
    tabulate(part("table"), curves, look, hidden);
    const readout = part(".readout");
    write(readout, marked ? `${label(marked.curve)}\n${tell(marked.curve, marked.i)}` : "");
    const right = 2 * marked?.x > width; // then there is more room on the left
    readout.style.left = right ? "auto" : `calc(${marked?.x}px + 1em)`;
    readout.style.right = right ? `calc(${width - marked.x}px + 1em)` : "auto";
  };
}

export default panel({ status: "", error: "", pending: "", note: "", curves: [] }, take, open);

// Where the cursor goes by one of KEYS. It may go several times before it is drawn again.
function move(lines, cursor, key, fast) {
  const from = lines.findIndex(({ curve }) => curve.number === cursor?.number);
  if (from < 0) {
    const { curve } = lines.findLast((line) => line.curve.live) ?? lines.at(-1) ?? {};
    return curve && { number: curve.number, i: last(curve) };
  }
  const [along, turn] = KEYS[key];
  const to = Math.min(Math.max(from + turn, 0), lines.length - 1);
  const { curve, spots } = lines[to];
  const stride = SIZE * (fast ? Math.ceil(curve.points.length / SIZE / 50) : 1);
  const here = lines[from].spots.find(({ i }) => i >= cursor.i) ?? lines[from].spots.at(-1);
  const round = curve.points[cursor.i + 1];
  let i = to === from ? cursor.i + along * stride : closest(spots, here.x).i;
  while (along && curve.points[i + 1] === round) i += along * SIZE; // some rows come twice
  return { number: curve.number, i: Math.min(Math.max(i, 0), last(curve)) };
}

// The point by the pointer, of the curve that passes the pointer closest.
function nearest(lines, x, y) {
  const off = ({ spots }) => {
    const here = spots.findLast((spot) => spot.x <= x) ?? spots[0];
    const beyond = here === spots.at(-1) || here.x > x ? Math.abs(here.x - x) : 0;
    const known = (k) => spots.findLast((spot) =>
      (spot.x <= x || spot === here) && Number.isFinite(spot.ys[k]))?.ys[k] ?? Infinity;
    return beyond + Math.min(...[0, 1, 2].map((k) => Math.abs(known(k) - y)));
  };
  const line = lines.toSorted((a, b) => off(a) - off(b))[0];
  return line && { number: line.curve.number, i: closest(line.spots, x).i };
}

const closest = (spots, x) =>
  spots.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));

// What lies between two corners, along and in the panel of the first: ends of axes.
function within([[x1, y1], [x2, y2]], { x, bands, gaps }) {
  const panel = y1 < (bands.from + gaps.to) / 2 ? "bands" : "gaps";
  const ends = ({ from, to, of }, ...pixels) => {
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    return pixels.map((v) => of(Math.min(Math.max(v, low), high))).sort((a, b) => a - b);
  };
  const upright = ends({ bands, gaps }[panel], y1, y2);
  const flat = Math.abs(y2 - y1) < CLICK; // a stroke along the axis: the other one stays
  return { x: ends(x, x1, x2), ...(flat ? {} : { [panel]: upright }) };
}

// The corners around a spot of what is shown twice as large then.
function around({ x: at, ys }, { x, bands }) {
  const y = ys[1];
  const [width, height] = [(x.to - x.from) / 4, (bands.from - bands.to) / 4];
  return [[at - width, y - height], [at + width, y + height]];
}
