// The table of the runs below the chart.

const COLUMNS = ["round", "seconds", "lower", "upper", "gap", "test error"];

// A point in words: the values of COLUMNS that it has. The test error may be an earlier round's.
function values({ points }, i) {
  const [seconds, round, low, high] = points.slice(i, i + SIZE);
  const wrong = points[evaluated(points, i) + 4];
  const all = { round, seconds, lower: low, upper: high, gap: high - low, "test error": wrong };
  const known = Object.entries(all).filter(([, value]) => Number.isFinite(value + round));
  return new Map(known.map(([key, v]) => [key, String(key === "round" ? v : +v.toPrecision(4))]));
}

function tell(curve, i) {
  const found = values(curve, i);
  const best = found.has("lower") ? "upper" : "objective";
  const then = curve.points[evaluated(curve.points, i) + 1];
  const since = found.has("test error") && then !== curve.points[i + 1] ? ` (at round ${then})` : "";
  return [...found].map(([key, v]) => `${key === "upper" ? best : key} ${v}`).join("\n") + since;
}

// One line per run: what differs from the others, and the latest values. What all runs share is
// said once above, and a column that no run has a value for is not shown. The lines are in the order
// of the runs, or sorted by a column.
function tabulate(table, curves, look, hidden, { column, down } = {}) {
  const entries = new Map([...table.tBodies].map((each) => [Number(each.dataset.number), each]));
  for (const [number, each] of entries) {
    if (!curves.some((curve) => curve.number === number)) each.remove();
  }
  const shared = (word) => curves.every(({ settings }) => settings.includes(word));
  const common = curves.length > 1 ? curves[0].settings.filter(shared) : [];
  write(table.caption, common.length ? `all runs: ${common.join(", ")}` : "");
  const lines = curves.map((curve) => {
    const found = values(curve, last(curve));
    const differs = curve.settings.filter((word) => !common.includes(word));
    const line = entries.get(curve.number) ?? entry();
    tag(line, curve, differs, found, look, hidden.has(curve.number));
    const key = column ? Number(found.get(COLUMNS[column - 1]) ?? Infinity) : curve.name;
    return { line, found, key, i: curve.number };
  });
  const turn = down ? -1 : 1;
  const compare = (a, b) => (a.key === b.key ? a.i - b.i : a.key < b.key ? -turn : turn);
  if (column !== undefined) lines.sort(compare);
  lines.forEach(({ line }, i) => {
    if (table.tBodies[i] !== line) table.insertBefore(line, table.tBodies[i] ?? null);
  });
  [...table.tHead.rows[0].cells].forEach((cell, j) =>
    (cell.ariaSort = j !== column ? "none" : down ? "descending" : "ascending"));
  COLUMNS.forEach((key, j) => {
    const empty = !lines.some(({ found }) => found.has(key));
    for (const part of [table.tHead, ...table.tBodies]) part.rows[0].cells[j + 1].hidden = empty;
  });
  const best = curves.every(has(gap)) ? "upper" : "upper or objective";
  write(table.rows[0].cells[1 + COLUMNS.indexOf("upper")].firstChild, best);
}

function entry() {
  const lines = document.createElement("tbody");
  lines.tabIndex = 0;
  lines.innerHTML = `<tr><th scope="row" class="title"><svg class="swatch" aria-hidden="true">
    <line x2="100%" y1="50%" y2="50%" stroke-width="0.18em" /></svg> <span class="name"></span></th>
    ${"<td></td>".repeat(COLUMNS.length)}</tr>
    <tr><td class="more" colspan="${COLUMNS.length + 1}"><span class="acts"><button class="hide">
      </button> <button class="remove">remove</button></span> <span class="rest"></span></td></tr>`;
  return lines;
}

function tag(lines, curve, differs, found, look, hidden) {
  const part = (selector) => lines.querySelector(selector);
  lines.dataset.number = curve.number;
  lines.classList.toggle("hidden", hidden);
  write(part(".hide"), hidden ? "show" : "hide");
  part(".remove").hidden = curve.live && !curve.ended; // it may go on
  for (const act of part(".acts").children) {
    act.ariaLabel = `${act.textContent.trim()} run ${curve.number}`;
  }
  part(".swatch").style.stroke = paint(curve, look);
  part(".swatch").style.strokeDasharray =
    curve.dashes.map((length) => `${length}em`).join(" ") || "none";
  write(part(".name"), label({ ...curve, settings: differs }));
  const more = Object.entries(curve.numbers).filter(([key]) => !COLUMNS.includes(key));
  const words = more.map(([key, value]) => `${key} ${value}`);
  // The columns have the best bounds so far, and these are one round's.
  const latest = words.length ? `in round ${curve.numbers.round}: ${words.join(" · ")}` : "";
  write(part(".rest"), [curve.ended, latest].filter(Boolean).join(" · "));
  COLUMNS.forEach((key, j) => write(lines.rows[0].cells[j + 1], found.get(key) ?? ""));
}
