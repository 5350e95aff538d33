// The canvas of the convergence view: certified bands, or test errors, over solver time or rounds,
// and below them the gap, the gap relative to the upper bound, or the test error, on a log scale.
// Objectives without a lower bound are lines. Where the upper bounds fall far, as those of an
// objective do, the bands are on one too. Nothing is animated.

const SIZE = 5; // numbers of a point: seconds, round, lower, upper, test error
const FLOOR = 1e-9; // gaps below it are drawn at it: a logarithmic axis has no 0
const FEWEST = 1e-3; // and test errors below this one
const FAR = 30; // from the highest upper bound down to the lowest: no linear axis shows both
const LETTERS = 0.92; // em
const FEW = 80; // test errors of a curve: up to here each has a dot, and later lone ones
const NEAR = 1.2; // em between two of them: closer ones are joined by a whole line
const LATE_START = 0.1; // of the axis: curves that all begin later do not need its beginning
const DEEP = 1e-5; // of the highest upper bound: a fit without an error must not squeeze the rest
// Of the two panels, in em: from the left, below the upper one, and below both.
const EDGE = { left: 3.8, top: 2, between: 2.6, foot: 1.6, title: 1.2 };
const UPPER = 0.64; // of the height that both panels have
const NAMES = 0.34; // of the width, at most

const lower = (points, i) => points[i + 2];
const upper = (points, i) => points[i + 3];
const gap = (points, i) => Math.max(points[i + 3] - points[i + 2], FLOOR); // NaN stays NaN
const relative = (points, i) => Math.max(gap(points, i) / Math.abs(upper(points, i)), FLOOR);
const error = (points, i) => Math.max(points[i + 4], FEWEST);
const ABOVE = { objective: [lower, upper], "test error": [() => NaN, error] };
const BELOW = { "certified gap": gap, "gap / |upper bound|": relative, "test error": error };
const OVER = { "solver time (s)": (points, i) => points[i], rounds: (points, i) => points[i + 1] };

function append(points, at, news) {
  points.length = at; // the last point was the latest row, not for good
  for (const value of news) points.push(value);
}

const last = ({ points }) => points.length - SIZE;
const has = (value) => (curve) => Number.isFinite(value(curve.points, last(curve)));
const label = ({ number, name, settings }) => `${number} · ${[name, ...settings].join(", ")}`;

// A curve's name at its end: the solver, and what tells it from that solver's other runs.
function title({ number, name, settings }, curves) {
  const alike = curves.filter((other) => other.name === name);
  const own = settings.filter((word) => !alike.every((other) => other.settings.includes(word)));
  const shown = alike.length === curves.length && own.length ? [] : [name.replace(" (ours)", "")];
  return `${number} ${[...shown, ...own].join(", ")}`;
}
// A replay has all of its runs from the start, so that neither axes nor panels change as it plays.
const whole = (curve) => (curve.whole ? { points: curve.whole } : curve);
const usual = (curves, above) => {
  if (above === "test error") return "gap / |upper bound|";
  const all = curves.map(whole);
  const judged = all.some((curve) => evaluated(curve.points, last(curve)) >= 0);
  return all.every(has(gap)) || !judged ? "certified gap" : "test error";
};

// The last point up to this one that has a test error: not every row is evaluated.
function evaluated(points, i) {
  while (i >= 0 && !Number.isFinite(points[i + 4])) i -= SIZE;
  return i;
}

// Runs of one solver differ by their dashes alone, and those of several by dashes and colours.
function dash(curve, curves) {
  const colours = [...new Set(curves.map(({ colour }) => colour))];
  const alike = curves.filter(({ colour }) => colour === curve.colour);
  return DASHES[(colours.indexOf(curve.colour) + alike.indexOf(curve)) % DASHES.length];
}

function draw(pen, look, width, height, curves, view) {
  const { above, over, below, logarithmic, zoom, cursor, lit, drag, titled } = view;
  const { em } = look;
  const begun = curves.filter(({ points }) => points.length && Number.isFinite(points[1]));
  const names = new Map(curves.map((curve) =>
    [curve.number, fit(pen, title(curve, curves), NAMES * width)]));
  const [left, top] = [EDGE.left * em, EDGE.top * em];
  const right = em + Math.max(0.8 * em, widest(pen, [...names.values()]));
  const bottom = height - (EDGE.foot + (titled ? EDGE.title : 0)) * em;
  const middle = top + UPPER * (bottom - top - EDGE.between * em);
  const next = middle + EDGE.between * em;
  const wholes = curves.map(whole).filter(({ points }) => points.length);
  const ends = wholes.map((curve) => ({ curve, kept: [0, SIZE, last(curve)] }));
  const starts = wholes.map(({ points }) => OVER[over](points, 0)).filter(Number.isFinite);
  const late = Math.min(...starts) > LATE_START * extent(reach(ends, [OVER[over]], true), false)[1];
  const along = reach(ends, [OVER[over]], logarithmic || late);
  const x = axis(along, left, width - right, logarithmic, 5 * em, false, zoom.x);
  const place = (points, i) => x.at(OVER[over](points, i));
  const lines = begun.map((curve) => ({ curve, kept: thin(curve.points, place, x) }));
  const all = wholes.map((curve) => ({ curve, kept: thin(curve.points, place, x) }));
  const [under, upmost] = ABOVE[above];
  const errors = above === "test error";
  const [least, most] = extent(reach(all, [upmost], true), true);
  const far = (errors || most > FAR * least) && !(zoom.bands?.[0] <= 0);
  const held = (share) => (points, i) => Math.max(upmost(points, i), DEEP * most) * share;
  const logs = errors ? [upmost] : [held(1), held(0.1)];
  const shown = reach(all, far ? logs : [lower, upper], far);
  const bands = axis(shown, middle, top, far, 2 * em, true, zoom.bands);
  const relevant = reach(all, [BELOW[below]], true);
  const gaps = axis(relevant, bottom, next, true, 1.6 * em, true, zoom.gaps);
  rule(pen, x, bands, titled && above, em);
  rule(pen, x, gaps, titled && below, em);
  foot(pen, x, gaps, titled && over, em);

  const spot = (points, i) => ({
    i,
    x: place(points, i),
    ys: [bands.at(under(points, i)), bands.at(upmost(points, i)), gaps.at(BELOW[below](points, i))],
  });
  // The live curves and the newest are strong, and above the others; or the one pointed at is.
  const strong = ({ curve }) => lit ? curve.number === lit
    : curve.live || curve.whole || curve === curves.at(-1);
  const written = [];
  for (const line of lines.toSorted((a, b) => strong(a) - strong(b))) {
    const drawn = line.spots = line.kept.map((i) => spot(line.curve.points, i));
    const certain = drawn.filter(({ ys }) => Number.isFinite(ys[0]));
    const [floor, roof] = [0, 1].map((k) => steps(certain, k));
    const stroked = (title, k) => title === "test error" ? measured(drawn, k) : steps(drawn, k);
    const [high, low] = [stroked(above, 1), stroked(below, 2)];
    pen.fillStyle = pen.strokeStyle = paint(line.curve, look);
    const pale = lit && !strong(line) ? 0.4 : 1;
    const few = (title, k) => {
      const seen = title === "test error" ? measured(drawn, k) : [];
      const apart = (a, b) => a && b && b[0] - a[0] > NEAR * em;
      return seen.filter((each, i) =>
        seen.length < FEW || apart(seen[i - 1], each) || apart(each, seen[i + 1]));
    };
    const panels = [[bands, [floor, high], few(above, 1)], [gaps, [low], few(below, 2)]];
    for (const [panel, strokes, dots] of panels) {
      inside(pen, x, panel, em, () => {
        pen.globalAlpha = strong(line) ? 0.22 : 0.06;
        if (panel === bands) pen.fill(path([...floor, ...roof.toReversed()]));
        // The others are thinner: paler ones would stand out only next to one that is pointed at.
        pen.globalAlpha = pale;
        pen.lineWidth = strong(line) ? 2 : 1;
        pen.setLineDash(line.curve.dashes.map((length) => length * em));
        for (const corners of strokes) {
          if (corners.joined) join(pen, corners, pale, NEAR * em);
          else pen.stroke(path(corners));
        }
        pen.setLineDash([]);
        const ends = strokes.flatMap((corners) => corners.slice(-1));
        for (const [at, y] of dots) dot(pen, at, y, 0.1 * em);
        for (const [at, y] of ends) dot(pen, at, y, 0.16 * em);
        if (line.curve.settings.some((word) => word.startsWith("from round"))) {
          const parent = lines.find((other) => begets(other.curve, line.curve));
          const end = parent && spot(parent.curve.points, last(parent.curve));
          for (const [[at, y]] of strokes.filter(({ length }) => length)) {
            ring(pen, at, y, em);
            if (end) link(pen, [end.x, end.ys[panel === bands ? 1 : 2]], [at, y], em);
          }
        }
      });
      const end = strokes.at(-1).findLast(([at]) => at < x.to + 1);
      const there = end && end[0] >= x.from && end[1] < panel.from + 1 && end[1] > panel.to - 1;
      const text = String(panel === bands ? names.get(line.curve.number) : line.curve.number);
      const y = end?.[1] - (end?.[0] < x.to - 2 * em ? 0.9 * em : 0); // above curves that go on
      if (there) written.push({ x: end[0], y, text, colour: pen.fillStyle, panel });
    }
  }
  pen.globalAlpha = 1;
  inscribe(pen, written, look);
  const curve = begun.find(({ number }) => number === cursor?.number);
  const marked = curve && { curve, ...spot(curve.points, Math.min(cursor.i, last(curve))) };
  if (marked && marked.x >= x.from && marked.x <= x.to) mark(pen, marked, [bands, gaps], look);
  if (drag) pen.strokeRect(...drag[0], drag[1][0] - drag[0][0], drag[1][1] - drag[0][1]);
  return { lines, marked, axes: { x, bands, gaps } };
}

// Whether a run is the branch of another one: it begins where that one has ended.
function begets(parent, { name, number, points }) {
  const end = last(parent);
  return parent.number < number && parent.name === name && points[1] === parent.points[end + 1] &&
    Math.abs(points[0] - parent.points[end]) <= 1e-9;
}

// Joins a branch to the run that it comes from.
function link(pen, from, to, em) {
  pen.lineWidth = 1.2;
  pen.setLineDash([0.1 * em, 0.3 * em]);
  pen.stroke(path([from, to].filter((end) => end.every(Number.isFinite))));
  pen.setLineDash([]);
}

// Measured points. Between two that are far apart nothing is known, so their line is pale.
function measured(spots, k) {
  const known = spots.filter(({ x, ys }) => Number.isFinite(x + ys[k]));
  return Object.assign(known.map(({ x, ys }) => [x, ys[k]]), { joined: true });
}

function join(pen, corners, alpha, near) {
  const parts = [[], []]; // near, and far
  let piece = [];
  corners.forEach((corner, i) => {
    const far = i && corner[0] - corners[i - 1][0] > near;
    if (far) {
      parts[0].push(piece);
      parts[1].push([corners[i - 1], corner]);
      piece = [];
    }
    piece.push(corner);
  });
  parts[0].push(piece);
  parts.forEach((pieces, far) => {
    pen.globalAlpha = far ? 0.45 * alpha : alpha;
    for (const each of pieces) if (each.length > 1) pen.stroke(path(each));
  });
  pen.globalAlpha = alpha;
}

// Marks where a branch begins: at the iterate of another run.
function ring(pen, x, y, em) {
  pen.beginPath();
  pen.arc(x, y, 0.3 * em, 0, 2 * Math.PI);
  pen.stroke();
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
