// Performance profiles after Dolan and Moré, and how they are drawn. report.js says of what.

const TAUS = [1, 2, 5, 10, Infinity];
const PLOT = { width: 760, height: 340, left: 52, right: 14, top: 14, bottom: 46 };
const POWERS = "⁰¹²³⁴⁵⁶";
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4"]; // of one solver's settings

// Black is the text's colour, or it would be lost on dark pages.
const paint = (colour) => (colour === "#000000" ? "currentColor" : colour);
const percent = (part) => `${Math.round(100 * part)} %`;

// Dolan and Moré: times over the best of the entries shown, on what all of them ran on.
function profile(scope, tolerance, shown) {
  const times = scope.times[tolerance].filter((_, i) => shown[i]);
  const problems = [...(times[0] ?? []).keys()].filter((p) => times.every((t) => t[p] !== null));
  const solved = (time) => time >= 0;
  const best = problems.map((p) => Math.min(...times.map((t) => t[p]).filter(solved)));
  return {
    count: problems.length,
    left: (times[0] ?? []).length - problems.length,
    ratios: times.map((t) =>
      problems.map((p, i) => (solved(t[p]) ? t[p] / best[i] : Infinity)).filter(Number.isFinite)
        .sort((a, b) => a - b),
    ),
  };
}

function share(ratios, count, tau) {
  return count ? ratios.filter((ratio) => ratio <= tau * (1 + 1e-12)).length / count : 0;
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function swatch(entry) {
  const line = drawing("svg", { width: 26, height: 8, "aria-hidden": "true" });
  line.style.cssText = "display:inline; width:26px; vertical-align:middle; margin:0 4px";
  line.append(drawing("path", { d: "M0 4H26", stroke: paint(entry.colour),
    "stroke-dasharray": DASHES[entry.dash % DASHES.length] }));
  return line;
}

function curves(entries, { ratios, count }) {
  const { width, height, left, right, top, bottom } = PLOT;
  const largest = Math.max(2, ...ratios.map((r) => r.at(-1) ?? 1)) * 1.15;
  const base = largest > 70 ? 10 : 2;
  const across = (tau) => left + ((width - left - right) * Math.log(tau)) / Math.log(largest);
  const up = (part) => height - bottom - (height - top - bottom) * part;
  const named = entries.map((entry, i) => `${entry.label} ${percent(share(ratios[i], count, 1))}`);
  const svg = drawing("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `Performance profile; the fastest on: ${named.join(", ")} of the problems`,
  });
  const steps = base === 10 && largest < 1000 ? [1, 2, 5] : [1];
  for (let decade = 1; decade <= largest; decade *= base) {
    for (const tau of steps.map((step) => step * decade).filter((t) => t <= largest)) {
      const x = across(tau);
      svg.append(drawing("line", { class: "grid", x1: x, x2: x, y1: up(0), y2: up(1) }));
      svg.append(drawing("text", { x, y: up(0) + 17, "text-anchor": "middle" }, tau));
    }
  }
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const y = up(part);
    svg.append(drawing("line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y }));
    svg.append(drawing("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, percent(part)));
  }
  const title = `τ: times the processor time of the fastest solver shown (log${base === 2 ? "₂" : "₁₀"})`;
  const middle = (left + width - right) / 2;
  svg.append(drawing("text", { x: middle, y: height - 8, "text-anchor": "middle" }, title));
  entries.forEach((entry, i) => {
    let line = `M${across(1)} ${up(share(ratios[i], count, 1))}`;
    for (const ratio of ratios[i].filter((r) => r > 1 + 1e-12)) {
      line += `H${across(ratio)}V${up(share(ratios[i], count, ratio))}`;
    }
    const path = drawing("path", { d: `${line}H${width - right}`, stroke: paint(entry.colour),
      "stroke-dasharray": DASHES[entry.dash % DASHES.length] });
    path.append(drawing("title", {}, entry.label));
    svg.append(path);
  });
  return svg;
}

function table(entries, { ratios, count }) {
  const heads = ["solver", ...TAUS.map((tau) => (tau < Infinity ? `τ = ${tau}` : "ever"))];
  const titles = heads.map((name, i) =>
    element("th", i ? { scope: "col", class: "number" } : { scope: "col" }, name),
  );
  const head = element("tr", {}, ...titles);
  const lines = entries.map((entry, i) => {
    const cells = TAUS.map((tau) =>
      element("td", { class: "number" }, percent(share(ratios[i], count, tau))),
    );
    return element("tr", {}, element("th", { scope: "row" }, swatch(entry), entry.label), ...cells);
  });
  const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
  return element("div", { class: "scroll" }, made);
}
