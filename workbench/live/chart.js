// The canvas of the convergence view: certified bands over solver seconds or rounds, and below
// them the gap, the gap relative to the upper bound, or the test error, on a log scale. Objectives
// without a lower bound are lines. Where the upper bounds fall far, as those of an objective do,
// the bands are on one too. Nothing is animated.

const SIZE = 5; // numbers of a point: seconds, round, lower, upper, test error
const FLOOR = 1e-9; // gaps below it are drawn at it: a logarithmic axis has no 0
const FEWEST = 1e-3; // and test errors below this one
const FAR = 30; // from the highest upper bound down to the lowest: no linear axis shows both
const FEW = 80; // test errors of a curve: up to here each has a dot
const DEEP = 1e-5; // of the highest upper bound: a fit without an error must not squeeze the rest
const EDGE = { left: 3.8, right: 1.8, top: 1.9, middle: 17.4, next: 20.4, bottom: 28.6, end: 32 };

const lower = (points, i) => points[i + 2];
const upper = (points, i) => points[i + 3];
const gap = (points, i) => Math.max(points[i + 3] - points[i + 2], FLOOR); // NaN stays NaN
const relative = (points, i) => Math.max(gap(points, i) / Math.abs(upper(points, i)), FLOOR);
const error = (points, i) => Math.max(points[i + 4], FEWEST);
const BELOW = { "certified gap": gap, "gap / |upper bound|": relative, "test error": error };
const OVER = { "solver seconds": (points, i) => points[i], rounds: (points, i) => points[i + 1] };
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
  .live p, .live ol { margin: 0.2em 0; padding: 0; list-style: none;
    font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
  .live p:empty { display: none; }
  .live ol { display: grid; gap: 0 1em; cursor: default; max-height: 15em; overflow-y: auto;
    grid-template-columns: repeat(auto-fit, minmax(min(24em, 100%), 1fr)); }
  .live .error { color: var(--jp-error-color1, #d32f2f); white-space: pre-wrap; font-weight: 600; }
  .live .note, .live .hint, .live .numbers { opacity: 0.75; }
  .live .stage { position: relative; }
  .live canvas { display: block; width: 100%; height: ${EDGE.end}em; touch-action: pan-y; }
  .live li { position: relative; padding-left: 3em; }
  .live :is(canvas, li):focus-visible { outline: 0.15em solid; outline-offset: 0.1em; }
  .live .readout { position: absolute; top: ${EDGE.top}em; z-index: 1; box-sizing: border-box;
    max-width: 48%; line-height: 1.35; white-space: pre-line; overflow-wrap: anywhere;
    pointer-events: none; }
  .live .readout:not(:empty) { padding: 0.3em 0.6em; border: 1px solid; border-radius: 0.3em; }
  .live .readout, .live select { background: var(--jp-layout-color1, Canvas); }
  .live .choices { display: flex; flex-wrap: wrap; gap: 0.3em 1.2em; }
  .live select { font: inherit; color: inherit; border: 1px solid; border-radius: 0.2em;
    min-height: 1.9em; }
  .live .swatch { position: absolute; left: 0; width: 2.5em; height: 1.45em; }
  .live .numbers { display: block; }
  .live li.hidden :is(.swatch, .title, .numbers) { opacity: 0.35; }
  .live li button { font: inherit; color: inherit; opacity: 0.75; border: 0; padding: 0 0.3em;
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
  <ol></ol>`;

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
    part("ol").addEventListener(type, show); // an entry makes its curve stand out
  }
  el.addEventListener("change", () => show((zoom = {}))); // the axes are others
  part("ol").addEventListener("click", ({ target }) => {
    const number = Number(target.closest("li")?.dataset.number);
    if (target.matches(".remove")) send({ remove: number });
    if (target.matches(".hide")) hidden.delete(number) || hidden.add(number);
    show();
  });

  // Reads the layout first and writes to the page last, so that it is laid out once.
  return (said, lost) => {
    const { curves } = said;
    const below = chosen || usual(curves);
    const lit = Number((part("li:hover") ?? part("li:focus-visible"))?.dataset.number);
    for (const curve of curves) curve.dashes = dash(curve, curves);
    const seen = curves.filter(({ number }) => !hidden.has(number));
    scene = draw(canvas, seen, part(".over").value, below, part("input").checked, cursor, lit,
      zoom, drag);
    const { look, marked, width } = scene;
    cursor = marked && { number: marked.curve.number, i: marked.i }; // it may have turned back
    part(".below").value = below;
    const told = lost ? { status: LOST } : said;
    for (const key of ["status", "pending", "note", "error"]) write(part(`.${key}`), told[key] ?? "");
    const controls = el.closest(".live-page")?.querySelectorAll(".live-controls") ?? [];
    controls.forEach((part) => (part.inert = lost)); // a press of a button would be an error
    const idle = !lost && !curves.length && !["starting", "running"].includes(said.status);
    write(part(".hint"), idle ? "press run or step" : "");
    const entries = part("ol").children;
    while (entries.length > curves.length) entries[curves.length].remove();
    while (entries.length < curves.length) part("ol").append(entry());
    curves.forEach((curve, i) => tag(entries[i], curve, look, hidden));
    const readout = part(".readout");
    write(readout, marked ? `${name(marked.curve)}\n${tell(marked.curve, marked.i, "\n")}` : "");
    const right = 2 * marked?.x > width; // then there is more room on the left
    readout.style.left = right ? "auto" : `calc(${marked?.x}px + 1em)`;
    readout.style.right = right ? `calc(${width - marked.x}px + 1em)` : "auto";
  };
}

export default panel({ status: "", error: "", pending: "", note: "", curves: [] }, take, open);

function append(points, at, news) {
  points.length = at; // the last point was the latest row, not for good
  for (const value of news) points.push(value);
}

const last = ({ points }) => points.length - SIZE;
const has = (value) => (curve) => Number.isFinite(value(curve.points, last(curve)));
const name = ({ number, label }) => `${number} · ${label}`;
const usual = (curves) =>
  curves.every(has(gap)) || !curves.some((curve) => evaluated(curve.points, last(curve)) >= 0)
    ? "certified gap" : "test error";

// The last point up to this one that has a test error: not every row is evaluated.
function evaluated(points, i) {
  while (i >= 0 && !Number.isFinite(points[i + 4])) i -= SIZE;
  return i;
}

function tell({ points }, i, between) {
  const [seconds, round, low, high] = points.slice(i, i + SIZE);
  const best = Number.isFinite(low) ? "upper" : "objective";
  const then = evaluated(points, i);
  const wrong = points[then + 4];
  const values = { seconds, lower: low, [best]: high, gap: high - low, "test error": wrong };
  const known = Object.entries(values).filter(([, value]) => Number.isFinite(value));
  const words = known.map(([key, value]) => `${key} ${Number(value.toPrecision(4))}`);
  const since = then >= 0 && points[then + 1] !== round ? ` (at round ${points[then + 1]})` : "";
  return round === undefined ? "" : [`round ${round}`, ...words].join(between) + since;
}

function entry() {
  const line = document.createElement("li");
  line.tabIndex = 0;
  line.innerHTML = `<svg class="swatch" aria-hidden="true">
    <line x2="100%" y1="50%" y2="50%" stroke-width="0.22em" /></svg>
    <span class="title"></span><button class="hide"></button><button class="remove">remove</button>
    <span class="numbers"></span>`;
  return line;
}

function tag(line, curve, look, hidden) {
  const [swatch, title, hide, remove, numbers] = line.children;
  line.dataset.number = curve.number;
  line.classList.toggle("hidden", hidden.has(curve.number));
  write(hide, hidden.has(curve.number) ? "show" : "hide");
  remove.hidden = curve.live; // until it is stopped, or another run has taken its place
  swatch.style.stroke = paint(curve, look);
  swatch.style.strokeDasharray = curve.dashes.map((length) => `${length}em`).join(" ") || "none";
  write(title, name(curve) + (curve.ended ? `: ${curve.ended}` : ""));
  write(numbers, (curve.live && curve.numbers) || tell(curve, last(curve), " · "));
}

// A solver's runs have one colour: what tells them apart.
function dash(curve, curves) {
  const alike = curves.filter(({ colour }) => colour === curve.colour);
  return DASHES[alike.indexOf(curve) % DASHES.length];
}

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

function draw(canvas, curves, over, below, logarithmic, cursor, lit, zoom, drag) {
  const look = theme(canvas);
  const { em } = look;
  const width = canvas.clientWidth;
  const [left, right, top, middle, next, bottom, end] = Object.values(EDGE).map((v) => v * em);
  const pen = clean(canvas, width, end, look, 0.92);

  const begun = curves.filter(({ points }) => points.length);
  const ends = begun.map((curve) => ({ curve, kept: [0, SIZE, last(curve)] }));
  const along = reach(ends, [OVER[over]], logarithmic);
  const x = axis(along, left, width - right, logarithmic, 5 * em, false, zoom.x);
  const place = (points, i) => x.at(OVER[over](points, i));
  const lines = begun.map((curve) => ({ curve, kept: thin(curve.points, place, x) }));
  const [least, most] = extent(reach(lines, [upper], true), true);
  const far = most > FAR * least && !(zoom.bands?.[0] <= 0);
  const held = (share) => (points, i) => Math.max(upper(points, i), DEEP * most) * share;
  const shown = reach(lines, far ? [held(1), held(0.1)] : [lower, upper], far);
  const bands = axis(shown, middle, top, far, 2 * em, true, zoom.bands);
  const relevant = reach(lines, [BELOW[below]], true);
  const gaps = axis(relevant, bottom, next, true, 1.6 * em, true, zoom.gaps);
  rule(pen, x, bands, curves.every(has(gap)) ? "lower and upper bound" : "objective, bounds", em);
  rule(pen, x, gaps, below, em);
  foot(pen, x, gaps, over, em);

  const spot = (points, i) => ({
    i,
    x: place(points, i),
    ys: [bands.at(lower(points, i)), bands.at(upper(points, i)), gaps.at(BELOW[below](points, i))],
  });
  // The live curves and the newest are strong, and above the others; or the one pointed at is.
  const strong = ({ curve }) => lit ? curve.number === lit : curve.live || curve === curves.at(-1);
  const numbers = [];
  for (const line of lines.toSorted((a, b) => strong(a) - strong(b))) {
    const drawn = line.spots = line.kept.map((i) => spot(line.curve.points, i));
    const certain = drawn.filter(({ ys }) => Number.isFinite(ys[0]));
    const [floor, roof] = [0, 1].map((k) => steps(certain, k));
    const [high, under] = [1, 2].map((k) => steps(drawn, k));
    pen.fillStyle = pen.strokeStyle = paint(line.curve, look);
    const pale = lit && !strong(line) ? 0.4 : 1;
    const seen = below === "test error" ? drawn.filter(({ ys }) => Number.isFinite(ys[2])) : [];
    const few = seen.length < FEW ? seen.map((spot) => [spot.x, spot.ys[2]]) : [];
    for (const [panel, strokes, dots] of [[bands, [floor, high], []], [gaps, [under], few]]) {
      inside(pen, x, panel, em, () => {
        pen.globalAlpha = strong(line) ? 0.22 : 0.06;
        if (panel === bands) pen.fill(path([...floor, ...roof.toReversed()]));
        // The others are thinner: paler ones would stand out only next to one that is pointed at.
        pen.globalAlpha = pale;
        pen.lineWidth = strong(line) ? 2 : 1;
        pen.setLineDash(line.curve.dashes.map((length) => length * em));
        strokes.forEach((corners) => pen.stroke(path(corners)));
        pen.setLineDash([]);
        const ends = strokes.flatMap((corners) => corners.slice(-1));
        for (const [at, y] of dots) dot(pen, at, y, 0.1 * em);
        for (const [at, y] of ends) dot(pen, at, y, 0.16 * em);
      });
      const end = strokes.at(-1).findLast(([at]) => at < x.to + 1);
      const there = end && end[0] >= x.from && end[1] < panel.from + 1 && end[1] > panel.to - 1;
      if (there) numbers.push([...end, line.curve.number]);
    }
  }
  pen.globalAlpha = 1;
  inscribe(pen, numbers, look);
  const curve = begun.find(({ number }) => number === cursor?.number);
  const marked = curve && { curve, ...spot(curve.points, Math.min(cursor.i, last(curve))) };
  if (marked && marked.x >= x.from && marked.x <= x.to) mark(pen, marked, [bands, gaps], look);
  if (drag) pen.strokeRect(...drag[0], drag[1][0] - drag[0][0], drag[1][1] - drag[0][1]);
  return { look, lines, marked, width, axes: { x, bands, gaps } };
}

function mark(pen, { curve, x, ys }, [bands, gaps], look) {
  Object.assign(pen, { fillStyle: paint(curve, look), strokeStyle: look.ink, lineWidth: 1.2 });
  pen.stroke(path([[x, bands.to], [x, gaps.from]]));
  ys.forEach((y, k) => {
    const { from, to } = k < 2 ? bands : gaps;
    if (y <= from && y >= to) dot(pen, x, y, 0.3 * look.em);
  });
}

// Draws between the ends of two axes only, and what is half beyond them.
function inside(pen, x, y, em, work) {
  pen.save();
  pen.beginPath();
  pen.rect(x.from - 0.3 * em, y.to - 0.3 * em, x.to - x.from + 0.6 * em, y.from - y.to + 0.6 * em);
  pen.clip();
  work();
  pen.restore();
}

// A pixel's last point and its last evaluated one: a step has two corners, no more can be seen.
// What lies beyond an end of the axis is one pixel.
function thin(points, place, { from, to }) {
  const columns = [[], []];
  for (let i = 0; i < points.length; i += SIZE) {
    const column = Math.min(Math.max(Math.round(place(points, i)), Math.floor(from) - 1), to + 1);
    columns[Number.isFinite(points[i + 4]) ? 1 : 0][Math.round(column)] = i;
  }
  return columns.flat(2).sort((a, b) => a - b); // without the empty ones
}

// These values of all curves, and 0 where an axis is to begin at it.
function reach(lines, values, logarithmic) {
  const all = lines.flatMap(({ curve: { points }, kept }) =>
    values.flatMap((value) => kept.map((i) => value(points, i))));
  return logarithmic ? all : [0, ...all];
}

// A curve's colour, made to stand out. Black is the ink itself.
const paint = ({ colour }, look) =>
  css(colour === "#000000" ? look.text : stand(hex(colour), look));
