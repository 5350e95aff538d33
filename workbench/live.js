// The canvas of LiveView: certified bands over seconds, and below them the gaps on a log scale,
// or the test errors where they are measured. Objectives without a lower bound are lines.
// Where the upper bounds fall far, as those of an objective do, the bands are on one too.
// Every colour but the curves' is the page's text colour, so that light and dark themes both work.

const HEIGHT = 420;
const EDGE = { left: 58, right: 24, top: 24, middle: 240, next: 272, bottom: 382 }; // of two panels
const FLOOR = 1e-9; // gaps below it are drawn at it: a logarithmic axis has no 0
const FEWEST = 1e-3; // and test errors below this one
const SIZE = 4; // numbers of a point: seconds, lower, upper, test error
const FAR = 30; // from the highest upper bound down to the lowest: no linear axis shows both
const DEEP = 1e-5; // of the highest upper bound: a fit without an error must not squeeze the rest
const STYLE = `
  .live { color: var(--jp-content-font-color1, var(--vscode-editor-foreground, CanvasText));
    font: 13px/1.5 var(--jp-ui-font-family, sans-serif); padding-left: 1em; min-width: 18em; }
  .live canvas { display: block; width: 100%; height: ${HEIGHT}px; }
  .live p, .live ol { margin: 0.2em 0; padding: 0; list-style: none;
    font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
  .live .error { color: var(--jp-error-color1, #c62828); white-space: pre-wrap; font-weight: 600; }
  .live .error:empty { display: none; }
  .live .swatch { display: inline-block; width: 1.4em; height: 0.7em; margin-right: 0.5em; }`;

// One model, any number of views. A page that is opened later asks for the curves so far.
export default () => {
  let said = { status: "", numbers: "", error: "", curves: [] };
  const views = new Set();

  function initialize({ model }) {
    model.on("msg:custom", (message, buffers) => {
      const known = new Map(said.curves.map((curve) => [curve.number, curve.points]));
      message.curves.forEach((curve, i) => {
        const points = known.get(curve.number) ?? [];
        if (SIZE * curve.at > points.length) model.send({ wants: "everything" }); // some were lost
        curve.points = append(points, SIZE * curve.at, buffers[i]);
      });
      said = message;
      views.forEach((show) => show());
    });
    model.send({ wants: "everything" });
  }

  function render({ el }) {
    el.classList.add("live");
    el.innerHTML = `<style>${STYLE}</style>
      <p><b class="status" role="status"></b> <span class="numbers"></span></p>
      <p class="error" role="alert"></p>
      <canvas role="img" aria-label="Bounds, and gaps or errors, over seconds; the latest are above"></canvas>
      <label><input type="checkbox"> logarithmic time</label>
      <ol></ol>`;
    const part = (selector) => el.querySelector(selector);
    const canvas = part("canvas");
    let frame = 0;

    function show() {
      if (frame) return;
      frame = requestAnimationFrame(() => {
        frame = 0;
        for (const name of ["status", "numbers", "error"]) write(part(`.${name}`), said[name]);
        part("ol").replaceChildren(...said.curves.map(entry));
        draw(canvas, said.curves, part("input").checked);
      });
    }

    part("input").addEventListener("change", show);
    const observers = [new ResizeObserver(show), new MutationObserver(show)];
    observers[0].observe(canvas);
    observers[1].observe(document.body, { attributes: true }); // JupyterLab's theme is one
    views.add(show);
    return () => {
      views.delete(show);
      observers.forEach((observer) => observer.disconnect());
      cancelAnimationFrame(frame);
    };
  }

  return { initialize, render };
};

function append(points, at, buffer) {
  points.length = Math.min(points.length, at); // the last point was the latest row, not for good
  const bytes = buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength);
  for (const value of new Float64Array(bytes)) points.push(value);
  return points;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text; // or it would be read out again
}

function entry(curve) {
  const [seconds, lower, upper, error] = curve.points.slice(-SIZE);
  const swatch = document.createElement("span");
  swatch.className = "swatch";
  swatch.style.background = paint(curve);
  const certified = Number.isFinite(upper - lower);
  const words = [
    certified ? `gap ${(upper - lower).toExponential(1)}` : `objective ${upper.toPrecision(3)}`,
    ...(Number.isFinite(error) ? [`test error ${error.toPrecision(3)}`] : []),
  ];
  const end = `${words.join(", ")} after ${seconds.toPrecision(3)} s`;
  const line = document.createElement("li");
  line.append(swatch, `${curve.number} · ${curve.label}: ${end}`);
  return line;
}

// Black is the text's colour, or it would be lost on dark pages.
const paint = (curve) => (curve.colour === "#000000" ? "currentColor" : curve.colour);

const time = (points, i) => points[i];
const lower = (points, i) => points[i + 1];
const upper = (points, i) => points[i + 2];
const tenth = (points, i) => points[i + 2] / 10; // as far as a logarithmic axis looks below
const gap = (points, i) => Math.max(points[i + 2] - points[i + 1], FLOOR); // NaN stays NaN
const error = (points, i) => Math.max(points[i + 3], FEWEST);

function draw(canvas, curves, logarithmic) {
  const width = canvas.clientWidth;
  const ratio = window.devicePixelRatio || 1;
  const pen = canvas.getContext("2d");
  canvas.width = width * ratio;
  canvas.height = HEIGHT * ratio;
  pen.scale(ratio, ratio);
  pen.font = "12px sans-serif";
  const ink = getComputedStyle(canvas).color;

  const { left, right, top, middle, next, bottom } = EDGE;
  const x = axis(curves, [time], left, width - right, logarithmic);
  const [nearest, farthest] = extent(curves, [upper], true);
  const far = farthest > FAR * nearest;
  const held = (value) => (points, i) => Math.max(value(points, i), DEEP * farthest);
  const shown = far ? [held(upper), held(tenth)] : [lower, upper];
  const bands = axis(curves, shown, middle, top, far);
  const has = (value) => (curve) => Number.isFinite(value(curve.points, curve.points.length - SIZE));
  const judged = curves.some(has(error));
  const below = judged ? error : gap;
  const gaps = axis(curves, [below], bottom, next, true);
  pen.fillStyle = pen.strokeStyle = ink;
  const all = curves.every(has(gap));
  frame(pen, x, bands, all ? "lower and upper bound" : "objective, and its lower bound if known");
  frame(pen, x, gaps, judged ? "test error" : "certified gap");
  pen.textAlign = "center";
  for (const [value, label] of x.ticks) pen.fillText(label, x.at(value), bottom + 16);
  pen.fillText("solver time (s)", (left + width - right) / 2, HEIGHT - 4);

  curves.forEach((curve, i) => {
    const newest = i === curves.length - 1;
    const colour = paint(curve) === "currentColor" ? ink : paint(curve);
    const [low, high] = [lower, upper].map((edge) => steps(curve.points, x, edge, bands));
    const distance = steps(curve.points, x, below, gaps);
    pen.fillStyle = pen.strokeStyle = colour;
    pen.globalAlpha = newest ? 0.22 : 0.06;
    if (low.length) pen.fill(path([...low, ...high.toReversed()]));
    pen.globalAlpha = newest ? 1 : 0.7;
    pen.lineWidth = newest ? 1.8 : 1.2;
    [low, high, distance].forEach((line) => pen.stroke(path(line)));
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    for (const end of [high.at(-1), distance.at(-1)]) {
      if (end) pen.fillText(curve.number, end[0] + 8, end[1] + 4);
    }
  });
}

// The least and the most of these values of all curves, of the positive ones where `logarithmic`.
function extent(curves, values, logarithmic) {
  let [least, most] = logarithmic ? [Infinity, 0] : [0, 0];
  for (const { points } of curves) {
    for (let i = 0; i < points.length; i += SIZE) {
      for (const value of values) {
        const v = value(points, i);
        if (!Number.isFinite(v) || (logarithmic && v <= 0)) continue;
        [least, most] = [Math.min(least, v), Math.max(most, v)];
      }
    }
  }
  return [least, most];
}

// The axis from pixel `from` to pixel `to` that holds these values of all curves.
function axis(curves, values, from, to, logarithmic) {
  let [least, most] = extent(curves, values, logarithmic);
  if (least >= most) [least, most] = logarithmic ? [most || 1e-3, most || 1] : [0, 1];
  const scale = logarithmic ? Math.log10 : (v) => v;
  if (logarithmic) least = 10 ** Math.floor(scale(least)); // whole decades
  if (logarithmic) most = 10 ** Math.max(Math.ceil(scale(most)), scale(least) + 1);
  const rough = (scale(most) - scale(least)) / 6;
  const decade = 10 ** Math.floor(Math.log10(rough));
  const tidy = [1, 2, 5, 10].find((m) => m * decade >= rough) * decade;
  const step = logarithmic ? Math.max(tidy, 1) : tidy;
  const ticks = [];
  for (let j = Math.ceil(scale(least) / step); j * step <= scale(most) + 1e-9 * step; j += 1) {
    const place = Number((j * step).toPrecision(6));
    ticks.push(logarithmic ? [10 ** place, `1e${place}`] : [place, String(place)]);
  }
  const slope = (to - from) / (scale(most) - scale(least));
  const above = logarithmic ? (v) => Math.max(v, least) : (v) => v; // NaN stays NaN
  return { from, to, ticks, at: (v) => from + slope * (scale(above(v)) - scale(least)) };
}

function frame(pen, x, y, title) {
  pen.textAlign = "left";
  pen.fillText(title, x.from, y.to - 9);
  pen.textAlign = "right";
  for (const [value, label] of y.ticks) pen.fillText(label, x.from - 6, y.at(value) + 4);
  pen.lineWidth = 1;
  pen.globalAlpha = 0.15;
  for (const [value] of y.ticks) pen.stroke(path([[x.from, y.at(value)], [x.to, y.at(value)]]));
  for (const [value] of x.ticks) pen.stroke(path([[x.at(value), y.from], [x.at(value), y.to]]));
  pen.globalAlpha = 1;
}

// A run is a step function: between two rows it keeps the value of the first.
function steps(points, x, value, y) {
  const corners = [];
  for (let i = 0; i < points.length; i += SIZE) {
    const [across, down] = [x.at(time(points, i)), y.at(value(points, i))];
    if (!Number.isFinite(across + down)) continue;
    if (corners.length) corners.push([across, corners.at(-1)[1]]);
    corners.push([across, down]);
  }
  return corners;
}

function path(corners) {
  const line = new Path2D();
  corners.forEach(([across, down], i) => (i ? line.lineTo(across, down) : line.moveTo(across, down)));
  return line;
}
