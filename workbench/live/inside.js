// The second panel: a solver's own state in small pictures, those of pictures.py, side by side.

// Okabe's and Ito's, then two of Tol's and grey: apart for colour-blind readers, and used again
// from the eleventh class on.
const CYCLE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442",
  "#332288", "#882255", "#888888"].map(hex);
const [COLD, WARM] = [CYCLE[0], CYCLE[4]]; // bars, and marked ones; shades above 0, and below
const PALE = 0.4; // of a class's colour in its region
const SHADE = 7; // contrast of an image's darkest shade
// Of pictures, in em: their height if there is one row of them, and if there are several; the most
// that a plane may have; and their width, at least.
const [SINGLE_ROW, ROW, TALLEST, ROOM] = [11, 9, 13.5, 9.2];
const MANY = 30; // marked points: more of them have thin rings
const SPOKEN = { bars: 12, lines: 4 }; // more than these are too many to be read out
const PAGE = `<style>
  .inside { ${TEXT} }
  .inside p { margin: 0.2em 0; overflow-wrap: anywhere; }
  .inside p:empty, .inside [hidden] { display: none; }
  .inside .title { font-weight: 600; }
  .inside .none { opacity: 0.75; }
  .inside .grid { display: flex; flex-wrap: wrap; gap: 0.3em 1em; }
  .inside figure { margin: 0; min-width: 0; position: relative; padding-bottom: 1.4em;
    display: flex; flex-direction: column; justify-content: end; }
  .inside figcaption { flex: 1; }
  .inside :is(figcaption, .legend) { font-size: 0.85em; line-height: 1.3; overflow-wrap: anywhere; }
  .inside canvas { display: block; width: 100%; }
  .inside .legend span { display: inline-block; margin-right: 1em; }
  .inside .legend i { display: inline-block; width: 1.4em; margin-right: 0.4em;
    border-top: 0.25em solid; vertical-align: 0.25em; }
  .inside .readout { position: absolute; bottom: 0.1em; right: 0; padding: 0 0.4em;
    pointer-events: none;
    background: var(--jp-layout-color1, Canvas); border: 1px solid; border-radius: 0.3em; }
  </style><p class="title"></p><p class="none"></p><div class="grid"></div>`;

function take(message, buffers) {
  let next = 0;
  for (const picture of message.pictures) {
    picture.shape = picture.arrays[0][1];
    for (const [name] of picture.arrays) picture[name] = floats(buffers[next++], Float32Array);
  }
  return true;
}

function open(el) {
  el.classList.add("inside");
  el.innerHTML = PAGE;
  const [title, none, grid] = [...el.children].slice(1);
  let kinds = null; // of the figures in the grid

  // Reads the layout before it writes to the page, so that it is laid out once.
  return (said) => {
    const { pictures } = said;
    if (kinds !== (kinds = pictures.map(({ kind }) => kind).join())) {
      grid.replaceChildren(...pictures.map(figure));
    }
    const look = theme(el);
    // As many columns as there is room for, and as even rows as that leaves.
    const rows = Math.ceil((pictures.length * ROOM * look.em) / grid.clientWidth);
    const columns = Math.ceil(pictures.length / rows) || 1;
    const line = (i) => pictures.slice(i - (i % columns), i - (i % columns) + columns);
    pictures.forEach((picture, i) => { // a row is full, whatever it holds
      const all = line(i).reduce((sum, each) => sum + breadth(each), 0);
      grid.children[i].style.width =
        `calc((100% - ${line(i).length - 1}em) * ${breadth(picture) / all} - 0.5px)`;
    });
    const hues = CYCLE.map((hue) => stand(hue, look));
    look.cycle = (k) => hues[k % hues.length];
    const widths = [...grid.children].map(({ children }) => children[1].clientWidth);
    const least = (rows > 1 ? ROW : SINGLE_ROW) * look.em;
    const heights = pictures.map((picture, i) => suitable(picture, widths[i], least, look.em));
    pictures.forEach((picture, i) => {
      const high = Math.max(...line(i).map((each) => heights[pictures.indexOf(each)]));
      fill(grid.children[i], picture, widths[i], high, look);
    });
    write(title, said.title);
    write(none, pictures.length ? "" : "nothing to see yet");
  };
}

const between = (v, low, high) => Math.min(Math.max(v, low), high);

// The share of a row that a picture takes, and a height that suits it.
const breadth = ({ kind, shape: [h, w] }) => (kind === "image" ? between(w / h, 0.75, 1.4) : 1);
const suitable = ({ extent: [left, right, bottom, top] = [0, 1, 0, 0] }, width, least, em) =>
  between(((width - 4.1 * em) * (top - bottom)) / (right - left) + 2.1 * em, least,
    Math.max(least, TALLEST * em));

export default panel({ title: "", pictures: [] }, take, open);

function figure({ kind }) {
  const parts = document.createElement("figure");
  parts.className = kind;
  parts.innerHTML = `<figcaption></figcaption><canvas role="img"></canvas>
    <p class="legend"></p><div class="readout" hidden></div>`;
  const [, canvas, , readout] = parts.children;
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    write(readout, parts.tell(offsetX, offsetY) ?? "");
    readout.hidden = !readout.textContent;
  });
  canvas.addEventListener("pointerleave", () => (readout.hidden = true));
  return parts;
}

// Draws a picture. Its drawing returns words to read out, names of its colours, and what tells the
// value at a place.
function fill(parts, picture, width, height, look) {
  const [caption, canvas, legend] = parts.children;
  canvas.style.height = `${height}px`;
  const pen = clean(canvas, width, height, look, 0.85);
  const { words, names = [], tell } = KINDS[picture.kind](pen, width, height, picture, look);
  parts.tell = tell;
  canvas.ariaLabel = words ? `${picture.title}: ${words}` : picture.title;
  write(caption, picture.title);
  const key = [...names, look.paper].join();
  if (legend.dataset.key !== key) legend.replaceChildren(...names.map(entry(look)));
  legend.dataset.key = key;
}

const entry = (look) => (name, i) => {
  const item = document.createElement("span");
  const swatch = item.appendChild(document.createElement("i"));
  swatch.style.borderTopColor = css(look.cycle(i));
  if (i >= CYCLE.length) swatch.style.borderTopStyle = "dashed";
  item.append(name);
  return item;
};

function bars(pen, width, height, { values, labels, unit, across, logarithmic, marked }, look) {
  const { em, ink } = look;
  const [left, right] = [3.6 * em, width - 0.3 * em];
  const slot = (right - left) / values.length;
  const bottom = height - (labels.length ? 2.6 : 0.5) * em;
  const bases = logarithmic ? values.map((value) => value / 2) : [0]; // the least bar has a height
  const y = axis([...values, ...bases], bottom, 1.8 * em, logarithmic, 1.8 * em);
  rule(pen, { from: left, to: right, ticks: [] }, y, unit, em);
  pen.textAlign = "center";
  const zero = logarithmic ? bottom : y.at(0);
  values.forEach((value, i) => {
    const [up, middle] = [y.at(value) - zero, left + (i + 0.5) * slot];
    const bar = Math.max(0.8 * slot, 1);
    const box = [middle - bar / 2, zero, bar, up];
    pen.fillStyle = css(stand(marked[i] ? WARM : COLD, look));
    pen.fillRect(...box);
    if (marked[i] && up && slot > 4) pen.strokeRect(...box); // a mark is more than a hue
    pen.fillStyle = ink;
  });
  const x = { from: left, to: right, ...(labels.length ? named(pen, labels, across, left, slot) : {}) };
  if (x.ticks) {
    const fits = (v) => x.at(v) + pen.measureText(short(v, FINE)).width / 2 <= width;
    foot(pen, { ...x, ticks: x.ticks.filter(fits) }, y, across, em);
  }
  pen.fillText(nought(values, logarithmic ? 0 : NOUGHT), (left + right) / 2, height / 2);
  const say = (i, of = "") =>
    `${labels[i] ?? i}: ${short(values[i])}${of}${marked[i] ? ", marked" : ""}`;
  const at = (x) => Math.floor((x - left) / slot);
  const tell = (x) => (at(x) in values ? say(at(x), ` ${unit}`) : "");
  const words = values.length <= SPOKEN.bars && values.map((_, i) => say(i)).join("; ");
  return { tell, words };
}

// The level axis of bars that are named by their ranks, or by the lower ends of their intervals.
function named(pen, labels, across, left, slot) {
  const numbers = labels.map((label) => Number(label.replaceAll(",", "")));
  const ranked = across === "rank";
  const ends = [numbers[0], numbers.at(-1) + (labels.length < 2)];
  const [from, to] = [0, labels.length < 2 ? 1 : labels.length - 1].map((i) =>
    left + (i + (ranked ? 0.5 : 0)) * slot);
  const { ticks, at } = axis([], from, to, false, widest(pen, labels) + 12, true, ends);
  return { ticks: ranked ? ticks.filter(Number.isInteger) : ticks, at };
}

function image(pen, width, height, picture, look) {
  const { values, shape: [h, w], low, high, rows, columns } = picture;
  const { em, ink, paper } = look;
  const names = [rows && `${rows} ↓`, columns && `${columns} →`].filter(Boolean).join("   ");
  const top = (names ? 1.5 : 0.3) * em;
  const cell = Math.min((width - 2) / w, (height - top - 1.8 * em) / h);
  const left = (width - cell * w) / 2;
  const bottom = top + cell * h;
  const none = nought(values);
  const [more, less] = [COLD, WARM].map((hue) => stand(hue, look, SHADE));
  const shade = (v) => {
    const share = low < 0 ? v / (v < 0 ? low : high) : (v - low) / (high - low);
    if (none) return paper;
    return mix(paper, low < 0 && v < 0 ? less : more, Math.min(Math.max(share || 0, 0), 1));
  };
  const colours = values.map(shade);
  paste(pen, w, h, colours, [left, top, cell * w, cell * h]);
  pen.fillText(names, Math.max(0, Math.min(left, width - widest(pen, [names]))), 1.1 * em);

  const tell = (x, y) => {
    const [j, i] = [Math.floor((x - left) / cell), Math.floor((y - top) / cell)];
    if (j < 0 || j >= w || i < 0 || i >= h) return "";
    return `${rows || "row"} ${i}, ${columns || "column"} ${j}: ${short(values[w * i + j])}`;
  };
  Object.assign(pen, { fillStyle: ink, textAlign: "center" });
  if (none) {
    pen.fillText(none, width / 2, (top + bottom) / 2);
    return { tell };
  }
  const long = Math.min(6 * em, width - 6.5 * em);
  const key = [(width - long) / 2, bottom + 0.6 * em, long, 0.8 * em];
  const steps = Array.from({ length: 64 }, (_, i) => shade(low + (i / 63) * (high - low)));
  paste(pen, 64, 1, steps, key);
  pen.textAlign = "right";
  pen.fillText(short(low, 2), key[0] - 0.4 * em, bottom + 1.3 * em);
  pen.textAlign = "left";
  pen.fillText(short(high, 2), key[0] + long + 0.4 * em, bottom + 1.3 * em);
  return { tell };
}

function lines(pen, width, height, picture, look) {
  const { x, ys, labels, across, up, points } = picture;
  const { em, ink, paper } = look;
  const dots = pairs(points);
  const rows = Array.from({ length: ys.length / (x.length || 1) }, (_, i) =>
    ys.slice(i * x.length, (i + 1) * x.length));
  const [us, vs] = [[...x, ...dots.map(([u]) => u)], [...ys, ...dots.map(([, v]) => v)]];
  const along = axis(us, 3.6 * em, width - 0.8 * em, false, 4 * em);
  const y = axis(vs, height - 2.8 * em, 1.8 * em, false, 1.8 * em);
  rule(pen, along, y, up, em);
  foot(pen, along, y, across, em);
  const corners = rows.map((row) => [...row].map((v, j) => [along.at(x[j]), y.at(v)]));
  corners.forEach((line, i) => {
    pen.strokeStyle = css(look.cycle(i));
    pen.lineWidth = 1.8;
    pen.setLineDash(i < CYCLE.length ? [] : [0.5 * em, 0.3 * em]);
    pen.stroke(path(line));
  });
  pen.setLineDash([]);
  Object.assign(pen, { fillStyle: ink, strokeStyle: css(paper) });
  const size = em * Math.min(0.3, 2.5 / Math.sqrt(dots.length));
  for (const [u, v] of dots) dot(pen, along.at(u), y.at(v), size);
  const name = (i) => labels[i] ?? "value";
  const tell = (px, py) => {
    const j = least(x, (u) => Math.abs(along.at(u) - px));
    const i = least(rows, (row) => Math.abs(y.at(row[j]) - py));
    return rows[i] ? `${name(i)} ${short(rows[i][j])} at ${short(x[j])}` : "";
  };
  const say = (row, i) => `${name(i)} from ${short(row[0])} at ${short(x[0])} to ` +
    `${short(row.at(-1))} at ${short(x.at(-1))}`;
  return { tell, names: labels, words: rows.length <= SPOKEN.lines && rows.map(say).join("; ") };
}

function plane(pen, width, height, picture, look) {
  const { regions, shape: [h, w], extent, points, classes, marked } = picture;
  const { em, ink, paper } = look;
  const [left, right, bottom, top] = extent;
  const room = { wide: width - 4.1 * em, high: height - 2.1 * em };
  const scale = Math.min(room.wide / (right - left), room.high / (top - bottom));
  const [wide, high] = [scale * (right - left), scale * (top - bottom)];
  const [from, roof] = [3.6 * em + (room.wide - wide) / 2, 0.5 * em];
  const x = axis([left, right], from, from + wide, false, 4 * em);
  const y = axis([bottom, top], roof + high, roof, false, 2 * em);
  const pale = regions.map((_, i) => {
    const k = regions[(h - 1 - Math.floor(i / w)) * w + (i % w)]; // their first row is the lowest
    return mix(paper, look.cycle(k), PALE);
  });
  paste(pen, w, h, pale, [from, roof, wide, high]);
  rule(pen, x, y, "", em);
  foot(pen, x, y, "", em);
  const rows = pairs(points);
  const size = em * Math.min(0.32, 2.5 / Math.sqrt(rows.length));
  const many = marked.filter(Boolean).length > MANY;
  const [thick, ring] = many ? [0.8, size + 0.12 * em] : [1.8, size + 0.3 * em];
  pen.strokeStyle = ink;
  rows.forEach(([u, v], i) => {
    Object.assign(pen, { fillStyle: css(look.cycle(classes[i])), lineWidth: 0.6 });
    dot(pen, x.at(u), y.at(v), size);
    Object.assign(pen, { fillStyle: "transparent", lineWidth: thick });
    if (marked[i]) dot(pen, x.at(u), y.at(v), ring);
  });
  const count = [...regions, ...classes].reduce((a, b) => Math.max(a, b), -1) + 1;
  const tell = (px, py) => {
    const [j, i] = [((px - from) / wide) * w, ((roof + high - py) / high) * h].map(Math.floor);
    return j >= 0 && j < w && i >= 0 && i < h ? `class ${regions[i * w + j]}` : "";
  };
  const names = Array.from({ length: Math.min(count, CYCLE.length) }, (_, k) => `class ${k}`);
  return { tell, names };
}

const KINDS = { bars, image, lines, plane };

const pairs = (flat) => flat.flatMap((u, i) => (i % 2 ? [] : [[u, flat[i + 1]]]));
const least = (items, far) => items.reduce((a, b, i) => (far(b) < far(items[a]) ? i : a), 0);

// Paints a matrix of colours with sharp cells.
const tile = document.createElement("canvas");
function paste(pen, w, h, colours, box) {
  [tile.width, tile.height] = [w, h];
  const cells = new ImageData(w, h);
  colours.forEach((colour, i) => cells.data.set([...colour, 255], 4 * i));
  tile.getContext("2d").putImageData(cells, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(tile, ...box);
  pen.strokeRect(...box);
}
