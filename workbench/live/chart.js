// The convergence view: the chart with its cursor and its zoom, and the table of the runs below it.

const KEYS = { // steps along a curve, and from curve to curve
  ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1],
  Home: [-Infinity, 0], End: [Infinity, 0], Escape: [0, 0],
};
// By these keys: by how much the axes grow, and what fraction of the width they move.
const VIEWS = { "+": [0.5, 0], "-": [2, 0], PageUp: [1, -0.25], PageDown: [1, 0.25] };
const CLICK = 6; // pixels: a pointer that moves less does not drag
const WHEEL = 250; // pixels of a wheel that make axes e times as long
const LONG = 1; // s: what takes longer is said to be in progress
const LATE = 300; // ms: an answer that takes longer is said to be waited for

const CONDITIONS = {
  gone: `the kernel has stopped or restarted: ${
    document.body.dataset.voila ? "reload this page" : "run this cell again"}`,
  "cut off": "the connection to the kernel is lost; the runs may go on there",
  silent: "no word from the kernel: it runs another cell, or the connection is lost",
};

const choice = (name, title, choices) => `<label>${title} <select class="${name}">
  ${Object.keys(choices).map((title) => `<option>${title}</option>`).join("")}</select></label>`;
// The canvas is an application: of an img, screen readers keep the arrow keys to themselves.
const PAGE = `<style>
  .live { ${TEXT} }
  .live p { margin: 0.2em 0; overflow-wrap: anywhere; }
  .live :is(p:empty, [hidden], .help) { display: none; }
  .live-page { container-type: inline-size; }
  .live-page, .live-page :is(.live-body, .widget-vbox) { overflow: visible; }
  .live-page .live-body { display: grid; grid-template-columns: 25em minmax(0, 1fr);
    gap: 0 1.5em; align-items: start; }
  .live-body .live { display: contents; }
  .live-body .live .help { display: block; }
  .live-body :is(.runs, .help) { grid-column: 1 / -1; order: 2; }
  .live-page .live-parameters { grid-column: 1 / -1; order: 1; display: grid; gap: 0 1.5em;
    grid-template-columns: repeat(auto-fill, minmax(min(21em, 100%), 1fr)); }
  .live-parameters > :first-child { grid-column: 1 / -1; }
  .live-page :is(.widget-html, .widget-html-content) { height: auto; min-height: 0;
    line-height: 1.3; }
  .live-page .live-help .widget-html-content { font-size: 0.85em; opacity: 0.8; margin-left: 0.3em; }
  @container (max-width: 54em) {
    .live-page .live-body { grid-template-columns: minmax(0, 1fr); }
    .live-body > .live-controls { order: 1; }
  }
  .live .state { display: flex; gap: 1em; align-items: center; height: 1.6em; overflow: hidden; }
  .live .doing { flex: 1; white-space: nowrap; }
  .live progress { min-width: 3em; }
  .live-page .told { height: 3em; overflow: auto; }
  .live .told p { margin: 0; }
  .live .runs { overflow-x: auto; cursor: default; }
  .live table { width: 100%; border-collapse: collapse; font: inherit;
    font-variant-numeric: tabular-nums; }
  .live :is(th, td) { padding: 0.1em 0.5em; text-align: right; vertical-align: top;
    font-weight: normal; white-space: nowrap; }
  .live thead th { border-bottom: 1px solid; white-space: normal; }
  .live :is(.title, .more, caption) { text-align: left; white-space: normal; }
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
  .live .more { padding: 0 0.5em 0.3em 3.1em; font-size: 0.92em; }
  .live tbody.hidden :is(.swatch, .name, td:not(.more), .rest) { opacity: 0.35; }
  .live :is(td, .choices) button { font: inherit; color: inherit; opacity: 0.75; border: 0;
    padding: 0 0.3em; background: none; cursor: pointer; text-decoration: underline; }
  .live-page.jupyter-widgets-disconnected::before,
  .live-page .jupyter-widgets-disconnected::before { content: none; }
  .live-controls[inert] { opacity: 0.4; }
  </style>
  <div class="chart"><p class="state"><b class="status" role="status"></b>
    <span class="doing"></span><progress aria-label="time used" max="1"></progress></p>
  <div class="told"><p class="error" role="alert"></p><p class="pending" role="status"></p>
    <p class="note"></p><p class="hint"></p></div>
  <div class="stage">
    <canvas tabindex="0" role="application" data-lm-suppress-shortcuts="true" aria-label="Chart of
      bounds, and of gaps or errors. Left and right move a cursor along a curve, up and down
      choose the curve, plus and minus zoom at the cursor, page up and page down move along the
      horizontal axis, escape removes the cursor and the zoom. The latest values are listed
      below."></canvas>
    <div class="readout" aria-live="polite"></div>
  </div>
  <p class="choices">${choice("above", "upper chart", ABOVE)}
    ${choice("below", "lower chart", BELOW)} ${choice("over", "horizontal axis", OVER)}
    <label><input type="checkbox"> logarithmic horizontal axis</label>
    <button class="undo">undo reset or remove</button></p></div>
  <details class="help"><summary>How to use this page</summary><ul>
    <li>Move a slider and press <b>run</b>: a branch of the curve starts from the same iterate if
      the solver can change that parameter in mid-run, else a new run starts. The old curve stays.
      After a change of data, old runs turn grey, as their bounds are not comparable.</li>
    <li>Only the solver is timed. At full speed only some rounds are evaluated; dots mark them.</li>
    <li>Drag on the chart to zoom, Shift and drag to move, use the wheel after a click or with
      Ctrl, double-click to reset. By keyboard, arrows walk along a curve, + and - zoom, Page Up
      and Page Down move, Escape resets.</li></ul></details>
  <div class="runs"><table><caption></caption>
    <thead><tr><th class="title">run, and its own settings</th>
    ${COLUMNS.map((title) => `<th>${title}</th>`).join("")}</tr></thead></table></div>`;

function take(message, buffers, said) {
  const stage = ({ status, doing, curves }) =>
    [BUSY.includes(status), doing, curves.map(({ numbers }) => numbers.round)].join();
  message.since = stage(message) === stage(said) ? said.since : Date.now();
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
  const chosen = {}; // until then the panels are those that suit the curves
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
    const { key, ctrlKey, altKey, metaKey } = event;
    if (ctrlKey || altKey || metaKey || !(key in KEYS || key in VIEWS)) return;
    event.preventDefault();
    event.stopPropagation(); // or the notebook would choose another cell
    if (key in VIEWS) {
      const [factor, along] = VIEWS[key];
      const { x, bands } = scene.axes;
      const { x: at = (x.from + x.to) / 2, ys } = scene.marked ?? {};
      const up = Number.isFinite(ys?.[1]) ? ys[1] : (bands.from + bands.to) / 2;
      return enlarge(seen([at, up], factor, [along * (x.to - x.from), 0], scene.axes));
    }
    if (key === "Escape") zoom = {};
    put(key === "Escape" ? null : move(scene.lines, cursor, key, event.shiftKey));
  }

  function enlarge(ends) {
    zoom = { ...zoom, ...ends };
    show();
  }

  function point({ offsetX, offsetY }) {
    if (drag) drag[1] = [offsetX, offsetY];
    if (drag?.axes) enlarge(seen(drag[0], 1, [0, 1].map((k) => drag[0][k] - drag[1][k]), drag.axes));
    put(nearest(scene.lines, offsetX, offsetY));
  }

  function grasp(event) {
    drag = [[event.offsetX, event.offsetY], [event.offsetX, event.offsetY]];
    if (event.shiftKey) drag.axes = scene.axes; // which move with the pointer
    canvas.setPointerCapture(event.pointerId);
    point(event);
  }

  function release() {
    const [from, to] = drag ?? [[0], [0]];
    const zooms = !drag?.axes && Math.abs(to[0] - from[0]) >= CLICK;
    drag = null;
    enlarge(zooms ? within([from, to], scene.axes) : {});
  }

  function wheel(event) {
    if (!event.ctrlKey && canvas !== document.activeElement) return; // then the page scrolls
    event.preventDefault();
    const much = Math.min(Math.max(event.deltaY * (event.deltaMode ? 30 : 1), -WHEEL), WHEEL);
    enlarge(seen([event.offsetX, event.offsetY], Math.exp(much / WHEEL), [0, 0], scene.axes));
  }

  const acts = { pointermove: point, pointerdown: grasp, pointerup: release, wheel, keydown: press,
    pointercancel: () => (drag = null), // the page scrolls instead
    pointerleave: () => canvas === document.activeElement || put(null),
    dblclick: () => show((zoom = {})), blur: () => put(null) };
  for (const type in acts) canvas.addEventListener(type, acts[type], { passive: false });
  for (const type of ["pointerover", "pointerleave", "focusin", "focusout"]) {
    part("table").addEventListener(type, show); // a line makes its curve stand out
  }
  part(".choices").addEventListener("change", ({ target }) => {
    chosen[target.className || "logarithmic"] = target.className ? target.value : target.checked;
    show((zoom = {})); // the axes are others
  });
  part(".undo").addEventListener("click", () => send({ undo: true }));
  part("table").addEventListener("click", ({ target }) => {
    const number = Number(target.closest("tbody")?.dataset.number);
    if (target.matches(".remove")) send({ remove: number });
    if (target.matches(".hide")) hidden.delete(number) || hidden.add(number);
    show();
  });

  let naming = null; // what keeps the sliders' names
  let before = null; // what the kernel said last
  let pressed = 0; // when a button was pressed that the kernel has not answered yet

  // Reads the layout first and writes to the page last, so that it is laid out once.
  return (said, kernel) => {
    const { curves } = said;
    const lost = kernel === "gone";
    if (said !== before) pressed = 0; // the kernel has answered
    before = said;
    const above = chosen.above ?? said.main ?? "objective";
    const below = chosen.below ?? usual(curves, above);
    const logarithmic = chosen.logarithmic ?? said.main === "test error";
    const lit = Number((part("tbody:hover") ?? part("tbody:focus-visible"))?.dataset.number);
    for (const curve of curves) curve.dashes = dash(curve, curves);
    const drawn = curves.filter(({ number }) => !hidden.has(number));
    const look = theme(canvas);
    const width = canvas.clientWidth;
    const pen = clean(canvas, width, EDGE.end * look.em, look, LETTERS);
    scene = draw(pen, look, width, drawn, { over: part(".over").value, above, below, logarithmic,
      zoom, cursor, lit, drag: drag?.axes ? null : drag });
    const { marked } = scene;
    cursor = marked && { number: marked.curve.number, i: marked.i }; // the run may have gone back
    Object.assign(part("input"), { checked: logarithmic });
    for (const [key, value] of Object.entries({ above, below })) part(`.${key}`).value = value;
    const told = { ...said, doing: doing(said) };
    if (pressed) Object.assign(told, { status: "waiting for the kernel", doing: long(pressed) });
    if (kernel) Object.assign(told, { status: CONDITIONS[kernel], doing: "" });
    if (lost) for (const key of ["pending", "note", "error"]) told[key] = "";
    const words = ["status", "doing", "pending", "note", "error"];
    for (const key of words) write(part(`.${key}`), told[key] ?? "");
    part(".state").hidden = !told.status;
    part("progress").value = used(said);
    const shown = { progress: used(said), ".undo": said.gone && !lost };
    for (const key in shown) part(key).style.visibility = shown[key] ? "visible" : "hidden";
    const page = el.closest(".live-page");
    const controls = page?.querySelectorAll(".live-controls") ?? [];
    controls.forEach((part) => (part.inert = lost)); // a press of a button would be an error
    if (page && !naming) {
      const own = ({ target }) => (target.dataset.lmSuppressShortcuts = true);
      page.addEventListener("focusin", own); // or x would cut the notebook's cell
      page.addEventListener("click", ({ target }) => {
        if (!target.closest(".live-controls button")) return;
        pressed = Date.now();
        send({ pong: true }); // is answered after the press
        setTimeout(show, LATE);
        const waiting = setInterval(() => {
          if (!pressed) clearInterval(waiting);
          show();
        }, 1000);
      });
      naming = new MutationObserver(() => name(page));
      const what = { subtree: true, childList: true, attributeFilter: ["aria-valuetext", "title"] };
      controls.forEach((part) => naming.observe(part, what));
      name(page);
    }
    const idle = !lost && !curves.length && !BUSY.includes(said.status);
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

// What is done at the moment, if that takes long.
function doing({ status, doing, since, curves }) {
  const time = long(since);
  if (!time || !BUSY.includes(status)) return "";
  const begun = curves.every(({ live, numbers }) => !live || "round" in numbers);
  return `${doing || (begun ? "round in progress" : "set-up (the first run compiles)")}, ${time}`;
}

// The seconds since then in words, if they are worth a word.
function long(since) {
  const s = Math.floor((Date.now() - since) / 1000);
  return s < LONG ? "" : `${s} s`;
}

// The fraction of the budget that the live runs have used.
function used({ budget, curves }) {
  const live = curves.filter((curve) => curve.live && curve.points.length);
  const share = (curve) => (curve.ended ? 1 : Math.min(1, curve.points[last(curve)] / budget));
  return live.reduce((sum, curve) => sum + share(curve) / live.length, 0);
}

// Tells screen readers what a slider is, and its value; the widgets say the value's index.
function name(page) {
  const set = (part, key, text) => part.getAttribute(key) === text || part.setAttribute(key, text);
  for (const handle of page.querySelectorAll(".noUi-handle")) {
    const row = handle.closest(".widget-inline-hbox");
    set(handle, "aria-label", row.querySelector(".widget-label").textContent);
    set(handle, "aria-valuetext", row.querySelector(".widget-readout").textContent);
  }
  page.querySelectorAll("[title=null]").forEach((part) => part.removeAttribute("title"));
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

// The ends of axes after they have grown by a factor around a spot, or moved by so many pixels: of
// the level axis, and of the upright one at the spot. They stay within those of all values.
function seen([px, py], factor, [right, down], { x, bands, gaps }) {
  const panel = py < (bands.from + gaps.to) / 2 ? "bands" : "gaps";
  const ends = ({ from, to, of, all }, at, by) => {
    const span = (by) => [from, to].map((end) => of(at + (end - at) * factor + by))
      .sort((a, b) => a - b);
    const beyond = ([low, high]) => low < all[0] || high > all[1];
    const [low, high] = factor === 1 && beyond(span(by)) ? span(0) : span(by);
    const held = [Math.max(low, all[0]), Math.min(high, all[1])];
    return held.every((end, i) => Math.abs(end - all[i]) <= 1e-9 * all[1]) ? null : held;
  };
  return { x: ends(x, px, right), [panel]: ends({ bands, gaps }[panel], py, down) };
}
