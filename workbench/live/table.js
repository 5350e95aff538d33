// The table of the runs below the chart.

const COLUMNS = ["round", "seconds", "lower", "upper", "gap", "test error"];

// A point in words: the values of COLUMNS that it has. The test error may be an earlier round's.
function values({ points }, i) {
  const [seconds, round, low, high] = points.slice(i, i + SIZE);
  const wrong = points[evaluated(points, i) + 4];
  const all = { round, seconds, lower: low, upper: high, gap: high - low, "test error": wrong };
  const known = Object.entries(all).filter(([, value]) => Number.isFinite(value));
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
// said once above, and a column that no run has a value for is not shown.
function tabulate(table, curves, look, hidden) {
  const entries = table.tBodies;
  while (entries.length > curves.length) entries[curves.length].remove();
  while (entries.length < curves.length) table.append(entry());
  const shared = (word) => curves.every(({ settings }) => settings.includes(word));
  const common = curves.length > 1 ? curves[0].settings.filter(shared) : [];
  write(table.caption, common.length ? `all runs: ${common.join(", ")}` : "");
  const found = curves.map((curve) => values(curve, last(curve)));
  curves.forEach((curve, i) => {
    const differs = curve.settings.filter((word) => !common.includes(word));
    tag(entries[i], curve, differs, found[i], look, hidden.has(curve.number));
  });
  COLUMNS.forEach((key, j) => {
    const empty = !found.some((each) => each.has(key));
    for (const part of [table.tHead, ...entries]) part.rows[0].cells[j + 1].hidden = empty;
  });
  const best = curves.every(has(gap)) ? "upper" : "upper or objective";
  write(table.rows[0].cells[1 + COLUMNS.indexOf("upper")], best);
}

function entry() {
  const lines = document.createElement("tbody");
  lines.tabIndex = 0;
  lines.innerHTML = `<tr><th scope="row" class="title"><svg class="swatch" aria-hidden="true">
    <line x2="100%" y1="50%" y2="50%" stroke-width="0.22em" /></svg> <span class="name"></span></th>
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
  write(part(".rest"), [curve.ended, ...words].filter(Boolean).join(" · "));
  COLUMNS.forEach((key, j) => write(lines.rows[0].cells[j + 1], found.get(key) ?? ""));
}
