// What the two panels of the live view share: a widget's life, and paper, ink, axes and steps to
// draw with. It stands before each of them in one module. Every colour is fitted to the page's own
// and every length is in the em of its text, so that light, dark and enlarged pages all work.

const BUSY = ["starting", "running", "pausing", "stopping"]; // else nothing moves
const SILENCE = 9000; // ms: a busy kernel says something every few seconds
const CONTRAST = 3; // to the page, at least: what WCAG asks of graphics
const TEXT = `color: var(--jp-content-font-color1, var(--vscode-editor-foreground, CanvasText));
    font: var(--jp-ui-font-size1, 0.875rem)/1.45 var(--jp-ui-font-family, sans-serif);
    padding: 0 0.5em; min-width: 0;`;
// Of lines, in em: solid, dashed, dotted, dash-dot, long dashes, dash-dot-dot.
const DASHES = [[], [0.6, 0.3], [0.15, 0.25], [0.6, 0.25, 0.15, 0.25], [1.4, 0.4],
  [0.6, 0.2, 0.15, 0.2, 0.15, 0.2]];
const NOUGHT = 1e-12; // of the size, or of 1: less than this apart is rounding
const FINE = 9; // digits of a tick, as zoomed axes need
const SINGLE = 1e-6; // decades: 0.01 in single precision is below 0.01, but begins no new decade

// One model, any number of views: each asks for everything when it opens. `take` reads a message
// into itself, given the one before, and returns whether it could; `open` fills a view, may send
// words to the kernel, and returns what draws it. That also reads how the kernel is: "gone" if it was
// restarted or shut down, "cut off" while there is no connection to it, "silent" if it has said
// nothing for a while although it is busy, and "" otherwise.
const panel = (nothing, take, open) => () => {
  let said = nothing;
  let heard = Date.now(); // when the kernel said it
  let kernel; // as JupyterLab and Voilà have it
  const views = new Set();
  const ask = (model) => model.send({ wants: "everything" });
  const showAll = () => views.forEach((show) => show());

  function initialize({ model }) {
    kernel = model.widget_manager?.kernel;
    kernel?.disposed.connect(showAll);
    kernel?.connectionStatusChanged?.connect((_, status) => {
      if (status === "connected" && views.size) ask(model); // for all that was missed
      showAll();
    });
    model.on("comm_live_update", showAll);
    model.on("msg:custom", (message, buffers) => {
      if (message.ping !== said.ping && views.size) model.send({ pong: true });
      if (!take(message, buffers, said)) ask(model);
      said = message;
      heard = Date.now();
      showAll();
    });
  }

  function condition(el) {
    if (kernel?.isDisposed || el.closest(".jupyter-widgets-disconnected")) return "gone";
    if ((kernel?.connectionStatus ?? "connected") !== "connected") return "cut off";
    return BUSY.includes(said.status) && Date.now() - heard > SILENCE ? "silent" : "";
  }

  function render({ model, el }) {
    let frame = 0;
    const show = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (!el.isConnected) return; // off the page it has neither a size nor colours
        refresh(said, condition(el));
      });
    };
    const refresh = open(el, show, (words) => model.send(words));
    const forget = watch(el.querySelector(".stage") ?? el, show);
    const clock = setInterval(() => BUSY.includes(said.status) && show(), 1000);
    views.add(show);
    ask(model);
    return () => {
      views.delete(show);
      forget();
      clearInterval(clock);
      cancelAnimationFrame(frame);
    };
  }

  return { initialize, render };
};

// Calls `show` when the size, the resolution or the theme of the page changes.
function watch(element, show) {
  const over = new AbortController();
  const rescale = () => {
    const same = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    same.addEventListener("change", rescale, { once: true, signal: over.signal });
    show();
  };
  const observers = [new ResizeObserver(show), new MutationObserver(show)];
  observers[0].observe(element);
  observers[1].observe(document.body, { attributes: true }); // JupyterLab's theme is one
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", show, { signal: over.signal });
  rescale();
  return () => [over.abort(), ...observers.map((observer) => observer.disconnect())];
}

function floats({ buffer, byteOffset, byteLength }, Kind) {
  return [...new Kind(buffer.slice(byteOffset, byteOffset + byteLength))];
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text; // or it would be read out again
}

// The page's text size and font, its ink, and its paper: the first background that is not clear.
function theme(element) {
  const { color: ink, fontSize, fontFamily: font } = getComputedStyle(element);
  const rgb = (colour) => colour.match(/[\d.]+/g).map(Number);
  const behind = (page) => page && rgb(getComputedStyle(page).backgroundColor);
  let page = element;
  while (behind(page)?.[3] === 0) page = page.parentElement;
  const text = rgb(ink).slice(0, 3);
  const paper = behind(page)?.slice(0, 3) ?? text.map((v) => 255 - v);
  return { em: parseFloat(fontSize), font, ink, text, paper };
}

const hex = (text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
const css = (colour) => `rgb(${colour.map(Math.round)})`;
const mix = (from, to, share) => from.map((v, i) => v + share * (to[i] - v));

// Of red, green and blue, as WCAG defines it.
function luminance(colour) {
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = colour.map((v) => linear(v / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// The colour, moved towards the ink until it has this contrast to the paper.
function stand(colour, { text, paper }, contrast = CONTRAST) {
  for (let tenth = 0; ; tenth += 1) {
    const mixed = mix(colour, text, tenth / 10);
    const [dark, light] = [mixed, paper].map(luminance).sort((a, b) => a - b);
    if (tenth === 10 || (light + 0.05) / (dark + 0.05) >= contrast) return mixed;
  }
}

// Clears the canvas and gives a pen for it, in pixels of the page, with letters of `size` em.
function clean(canvas, width, height, { em, font, ink }, size, ratio = devicePixelRatio) {
  const [w, h] = [width, height].map((length) => Math.round(length * ratio));
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const fresh = { fillStyle: ink, strokeStyle: ink, lineWidth: 1, textAlign: "left" };
  return Object.assign(pen, fresh, { font: `${size * em}px ${font}` });
}

function dot(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
}

// Writes the curves' names next to their ends, in their colours: each as near to its end as the
// others leave room, within its panel.
function inscribe(pen, names, { em, paper }) {
  const done = [];
  const line = 1.05 * em;
  Object.assign(pen, { textAlign: "left", strokeStyle: `rgb(${paper})`, lineWidth: 0.35 * em,
    lineJoin: "round" });
  for (const { x, y, text, colour, panel } of names.toSorted((a, b) => b.y - a.y)) {
    const wide = pen.measureText(text).width + 0.7 * em;
    const free = (at) => at > panel.to - em && at < panel.from + em && !done.some((other) =>
      Math.abs(other.at - at) < line && other.x < x + wide && x < other.x + other.wide);
    const off = Array.from({ length: 40 }, (_, i) => line * Math.ceil(i / 2) * (i % 2 ? -1 : 1));
    const at = off.map((by) => y + by).find(free) ?? y;
    done.push({ x, at, wide });
    pen.fillStyle = colour;
    pen.strokeText(text, x + 0.7 * em, at + 0.3 * em);
    pen.fillText(text, x + 0.7 * em, at + 0.3 * em);
  }
}

const widest = (pen, texts) => Math.max(0, ...texts.map((text) => pen.measureText(text).width));

// The text, as much of it as there is room for.
function fit(pen, text, room) {
  let short = text;
  while (short.length > 1 && pen.measureText(short).width > room) {
    short = `${short.slice(0, -2).trimEnd()}…`;
  }
  return short;
}

// A run is a step function: between two rows it keeps the value of the first.
function steps(spots, k) {
  const corners = [];
  for (const { x, ys } of spots) {
    if (!Number.isFinite(x + ys[k])) continue;
    const before = corners.at(-1);
    if (before) corners.push([x, before[1]]);
    if (!before || Math.abs(ys[k] - before[1]) > 0.2) corners.push([x, ys[k]]);
    else if (corners.length > 2 && corners.at(-3)[1] === before[1]) corners.splice(-2, 1);
  }
  return corners;
}

function path(corners) {
  const place = (corner) => corner.map((v) => v.toFixed(2)).join(" ");
  const words = corners.map((corner, i) => `${i ? "L" : "M"}${place(corner)}`).join("");
  return Object.assign(new Path2D(words), { words });
}

function short(v, digits = 4) {
  if (Number.isInteger(v) && Math.abs(v) < 1e5) return String(v); // counts are exact
  const long = Math.abs(v) < 1e-3 || Math.abs(v) >= 1e5;
  const rounded = Number(v.toPrecision(digits));
  return long ? rounded.toExponential().replace("+", "") : String(rounded);
}

// Says so if there is nothing to see.
function nought(values, size = NOUGHT) {
  if (!values.length || !values.every((v) => Math.abs(v) <= size)) return "";
  return values.some(Boolean) ? "0 up to rounding" : "all 0";
}

// The least and the most of these values, of the positive ones where `logarithmic`.
function extent(values, logarithmic) {
  const fit = values.filter((v) => Number.isFinite(v) && (!logarithmic || v > 0));
  if (!fit.length) return [logarithmic ? 0.1 : 0, 1];
  return [Math.min, Math.max].map((end) => fit.reduce((a, b) => end(a, b)));
}

// The axis from pixel `from` to pixel `to` that holds these values, with a tick each `room` pixels.
// A logarithmic one begins and ends at whole decades if it is `whole`. With a `zoom` it has these
// ends instead; `all` are those without.
function axis(values, from, to, logarithmic, room, whole = true, zoom = null) {
  const scale = logarithmic ? Math.log10 : (v) => v;
  let [low, high] = extent(values, logarithmic).map(scale);
  if (logarithmic && whole) [low, high] = [Math.floor(low + SINGLE), Math.ceil(high - SINGLE)];
  const constant = high - low < NOUGHT * Math.max(1, Math.abs(low), Math.abs(high));
  const off = !logarithmic && Math.abs(low) >= NOUGHT;
  if (constant) [low, high] = off ? [low - 0.5, low + 0.5] : [low, low + 1];
  const all = [low, high].map((v) => (logarithmic ? 10 ** v : v));
  if (zoom) [low, high] = zoom.map(scale);
  const slope = (to - from) / (high - low);
  const rough = (high - low) / Math.max(Math.abs(to - from) / room, 2);
  const decade = 10 ** Math.floor(Math.log10(rough));
  const tidy = [1, 2, 5, 10].find((m) => m * decade >= rough) * decade;
  const step = logarithmic ? Math.max(tidy, 1) : tidy;
  const firsts = 0.3 * Math.abs(slope) > room ? [1, 2, 5] : [1]; // digits: 2 is at 0.3 of a decade
  const ticks = [];
  const first = logarithmic ? Math.floor(low / step) : Math.ceil(low / step - 1e-9);
  for (let j = first; j * step <= high + 1e-9 * step; j += 1) {
    ticks.push(...(logarithmic ? firsts.map((m) => m * 10 ** (j * step)) : [j * step]));
  }
  const least = 10 ** (zoom ? low - 9 : low); // below a zoomed axis is out of sight
  const above = logarithmic ? (v) => Math.max(v, least) : (v) => v; // NaN stays NaN
  const at = (v) => from + slope * (scale(above(v)) - low);
  const of = (pixel) => {
    const v = low + (pixel - from) / slope;
    return logarithmic ? 10 ** v : v;
  };
  const within = (v) => scale(v) >= low - 1e-9 * step && scale(v) <= high + 1e-9 * step;
  const shown = ticks.filter(within);
  const few = logarithmic && (high - low < 0.7 || shown.length < 2); // or none of these digits
  if (!few) return { from, to, ticks: shown, at, of, all };
  const plain = axis([], from, to, false, room, true, [10 ** low, 10 ** high]);
  return { from, to, ticks: plain.ticks.filter(within), at, of, all };
}

// Draws the grid of two axes, and the ticks and the title of the upright one.
function rule(pen, x, y, title, em) {
  pen.textAlign = "left";
  if (title) pen.fillText(title, 0.2 * em, y.to - 0.7 * em);
  pen.textAlign = "right";
  for (const v of y.ticks) pen.fillText(short(v, FINE), x.from - 0.4 * em, y.at(v) + 0.3 * em);
  pen.globalAlpha = 0.15;
  for (const v of y.ticks) pen.fillRect(x.from, y.at(v), x.to - x.from, 1);
  for (const v of x.ticks) pen.fillRect(x.at(v), y.to, 1, y.from - y.to);
  pen.globalAlpha = 1;
}

// Writes the ticks and the title of the level one below both.
function foot(pen, x, y, title, em) {
  pen.textAlign = "center";
  for (const v of x.ticks) pen.fillText(short(v, FINE), x.at(v), y.from + 1.2 * em);
  if (title) pen.fillText(title, (x.from + x.to) / 2, y.from + 2.4 * em);
}
