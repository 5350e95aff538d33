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

let asked = ""; // what this page has asked the kernel to save

function take(message, buffers, said) {
  if (message.runs) {
    hand(message);
    Object.assign(message, { ...said, runs: null });
    return true;
  }
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
  const sorted = {}; // the table's column, and whether it descends
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
  part(".chart").addEventListener("change", ({ target }) => {
    chosen[target.className || "logarithmic"] = target.className ? target.value : target.checked;
    show((zoom = {})); // the axes are others
  });
  part(".undo").addEventListener("click", () => send({ undo: true }));
  part("table").addEventListener("click", ({ target }) => {
    const line = target.closest("tbody");
    const number = Number(line?.dataset.number);
    if (target.matches(".remove")) {
      send({ remove: number });
      (line.nextElementSibling ?? line.previousElementSibling ?? part(".undo")).focus();
    }
    if (target.matches(".hide")) hidden.delete(number) || hidden.add(number);
    const column = [...part("thead tr").children].indexOf(target.closest("thead th"));
    if (column >= 0) {
      Object.assign(sorted, { column, down: sorted.column === column && !sorted.down });
    }
    show();
  });

  // Saves what the page has, or asks the kernel for what it has.
  function save(what) {
    const { curves } = before ?? { curves: [] };
    if (what === "csv") return download("points.csv", asCsv(curves), "text/csv");
    if (!["svg", "png"].includes(what)) {
      asked = what;
      return send({ save: what });
    }
    const look = theme(canvas);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight + EDGE.title * look.em];
    if (what === "svg") {
      const pen = vector(width, height, look);
      draw(pen, look, width, height, ...titled());
      return download("chart.svg", pen.text(), "image/svg+xml");
    }
    const sheet = document.createElement("canvas");
    const pen = clean(sheet, width, height, look, LETTERS, 2);
    pen.fillStyle = `rgb(${look.paper})`;
    pen.fillRect(0, 0, width, height);
    pen.fillStyle = look.ink;
    draw(pen, look, width, height, ...titled());
    return sheet.toBlob((blob) => download("chart.png", blob));
  }
  const titled = () =>
    [scene.curves, { ...scene.view, cursor: null, lit: 0, drag: null, titled: true }];
  part(".menu").addEventListener("click", ({ target }) => {
    if (!target.matches("button")) return;
    save(target.className);
    part(".menu").open = false;
    part(".menu summary").focus();
  });
  part(".menu").addEventListener("keydown", (event) => {
    if (event.key === "Escape") part(".menu").open = false;
  });
  part(".menu").addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !part(".menu").contains(relatedTarget)) part(".menu").open = false;
  });
  part(".bar").addEventListener("click", ({ target }) => {
    const name = target.closest("button")?.className;
    if (!name || part(".bar").inert) return;
    pressed = Date.now();
    send({ press: name });
    setTimeout(show, LATE);
    const waiting = setInterval(() => {
      if (!pressed) clearInterval(waiting);
      show();
    }, 1000);
  });

  new ResizeObserver(show).observe(part(".bar")); // the grid has a row of its height
  let guarded = false; // whether keys are kept from the notebook
  let before = null; // what the kernel said last
  let pressed = 0; // when a button was pressed that the kernel has not answered yet

  // Reads the layout first and writes to the page last, so that it is laid out once.
  return (said, kernel) => {
    const { curves } = said;
    const tall = part(".bar").offsetHeight;
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
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const pen = clean(canvas, width, height, look, LETTERS);
    const view = { over: part(".over").value, above, below, logarithmic,
      zoom, cursor, lit, drag: drag?.axes ? null : drag };
    scene = { ...draw(pen, look, width, height, drawn, view), curves: drawn, view };
    part(".stage label:nth-child(2)").style.top = `${scene.axes.gaps.to - 1.9 * look.em}px`;
    const { marked } = scene;
    cursor = marked && { number: marked.curve.number, i: marked.i }; // the run may have gone back
    Object.assign(part("input"), { checked: logarithmic });
    for (const [key, value] of Object.entries({ above, below })) part(`.${key}`).value = value;
    const told = { ...said, doing: waiting(said) || doing(said) };
    if (pressed) Object.assign(told, { status: "waiting for the kernel", doing: long(pressed) });
    if (kernel) Object.assign(told, { status: CONDITIONS[kernel], doing: "" });
    if (lost) for (const key of ["pending", "note", "error"]) told[key] = "";
    const words = ["status", "doing", "pending", "note", "error"];
    for (const key of words) write(part(`.${key}`), told[key] ?? "");
    part(".state").hidden = !told.status;
    part("progress").value = used(said);
    const shown = { progress: used(said), ".undo": said.gone && !lost };
    for (const key in shown) part(key).style.visibility = shown[key] ? "visible" : "hidden";
    part(".undo").title = `Bring back what reset or remove took last; ${said.gone} in all`;
    const page = el.closest(".live-page");
    // A press of a button would be an error.
    for (const each of [part(".bar"), page?.querySelector(".live-controls")]) {
      if (each) each.inert = lost;
    }
    page?.style.setProperty("--bar", `${tall}px`);
    for (const each of [el, page]) each?.style.setProperty("--page-paper", `rgb(${look.paper})`);
    page?.querySelectorAll("[title=null]").forEach((part) => part.removeAttribute("title"));
    if (page && !guarded) {
      const own = ({ target }) => (target.dataset.lmSuppressShortcuts = true);
      page.addEventListener("focusin", own); // or x would cut the notebook's cell
      guarded = true;
    }
    const busy = pressed || BUSY.includes(said.status);
    const live = curves.some((curve) => curve.live && curve.points.length);
    const useful = { pause: busy, stop: busy || live, back: live, reset: busy || curves.length };
    for (const key in useful) part(`.bar .${key}`).ariaDisabled = String(!useful[key]);
    const idle = !lost && !curves.length && !busy;
    write(part(".hint"), idle ? "press run or step" : "");
    part(".runs").hidden = !curves.length;
    for (const key of ["traces", "code"]) part(`.menu .${key}`).hidden = !page || lost;
    tabulate(part("table"), curves, look, hidden, sorted);
    const readout = part(".readout");
    write(readout, marked ? `${title(marked.curve, curves)}\n${tell(marked.curve, marked.i)}` : "");
    if (!marked) return;
    const size = [readout.offsetWidth, readout.offsetHeight];
    const [left, top] = clearest(scene, size, width, look.em);
    Object.assign(readout.style, { left: `${left}px`, top: `${top}px` });
  };
}

export default panel({ status: "", error: "", pending: "", note: "", curves: [] }, take, open);

// Where a box of this size, next to the cursor, covers the least of the curves: first of the one
// that it is about.
function clearest({ lines, marked, axes: { x, bands, gaps } }, [wide, high], width, em) {
  const sides = [marked.x + em, marked.x - em - wide];
  if (2 * marked.x > width) sides.reverse(); // then there is more room on the left
  const lefts = sides.filter((left) => left >= 0 && left + wide <= width);
  const tops = [bands.to, bands.from - high, gaps.to, gaps.from - high, (bands.to + bands.from - high) / 2]
    .map((top) => Math.max(0, top));
  const hit = ({ curve, spots }, left, top) => spots.reduce((sum, { x: from, ys }, i) => {
    const to = spots[i + 1]?.x ?? from;
    const across = Math.min(to, left + wide) - Math.max(from, left);
    if (across < 0) return sum;
    const [floor, roof, gap] = ys;
    const spans = [[roof, Number.isFinite(floor) ? floor : roof], [gap, gap]];
    const covered = spans.filter(([a, b]) => a <= top + high && b >= top).length;
    return sum + covered * (1 + across) * (curve === marked.curve ? 10 : 1);
  }, 0);
  const all = tops.flatMap((top) => [...lefts, 0].map((left) =>
    ({ at: [left, top], hits: lines.reduce((sum, line) => sum + hit(line, left, top), 0) })));
  return all.reduce((a, b) => (b.hits < a.hits ? b : a)).at;
}

// What is done at the moment, if that takes long.
function doing({ status, doing, since, curves }) {
  const time = long(since);
  if (!time || !BUSY.includes(status)) return "";
  const live = curves.filter((curve) => curve.live && !curve.ended);
  const begun = live.every(({ numbers }) => "round" in numbers);
  return `${doing || (begun ? "round in progress" : "set-up (the first run compiles)")}, ${time}`;
}

// The runs that wait until those with less solver time have caught up.
function waiting({ status, curves }) {
  const live = curves.filter((curve) => curve.live && !curve.ended);
  const times = live.map(({ points }) => points[points.length - SIZE] ?? 0);
  const most = Math.max(...times);
  const ahead = live.filter((_, i) => times[i] > Math.min(...times) + LONG);
  if (status !== "running" || !ahead.length) return "";
  const those = ahead.map(({ number }) => number).join(" and ");
  return `${those} wait${ahead.length > 1 ? "" : "s"} until the others reach ${short(most, 2)} s`;
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

// Saves what the kernel was asked for, on the page that has asked for it.
function hand({ data, runs }) {
  if (asked === "code") {
    const lines = runs.map(([number, , , words]) => `run_${number} = ${words}\n`);
    navigator.clipboard.writeText(code(data) + lines.join(""));
  }
  if (asked === "traces") {
    for (const [number, solver, text] of runs) download(`${number}_${solver}.jsonl`, text);
  }
  asked = "";
}

// The beginning of Python that repeats runs.
const code = (data) => `from workbench import load
from workbench.live.lane import Lane


def until(lane, last):
    while lane.last.get("round", -1) < last and lane.advance():
        pass
    return lane


problem = ${data ? `load(${JSON.stringify(data)})` : "...  # the Problem that explore was given"}
`;

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
