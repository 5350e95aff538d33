// What a page saves: the picture as svg or png, the points as csv. The traces and the code come from
// the kernel.

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

// A pen with the part of a canvas's pen that this module uses, which writes SVG.
function vector(width, height, { em, font, ink, paper }) {
  const parts = [];
  let clips = 0;
  let dashes = [];
  let box = "";
  const measure = document.createElement("canvas").getContext("2d");
  const add = (tag, filled, stroked, inner = "") => {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha } = pen;
    const paint = [filled ? `fill="${fillStyle}"` : `fill="none"`, `opacity="${globalAlpha}"`];
    if (stroked) {
      paint.push(`stroke="${strokeStyle}" stroke-width="${lineWidth}" stroke-linejoin="round"`);
      if (dashes.length) paint.push(`stroke-dasharray="${dashes.join(" ")}"`);
    }
    parts.push(`<${tag} ${paint.join(" ")}>${inner}</${tag.split(" ")[0]}>`);
  };
  const write = (text, x, y, outlined) => {
    const anchor = { left: "start", center: "middle", right: "end" }[pen.textAlign];
    add(`text x="${x}" y="${y}" text-anchor="${anchor}"`, !outlined, outlined, escaped(text));
  };
  const rect = (x, y, w, h) => `rect x="${x}" y="${y}" width="${w}" height="${h}"`;
  let drawn = "";
  const pen = {
    fillStyle: ink, strokeStyle: ink, lineWidth: 1, globalAlpha: 1, textAlign: "left",
    measureText: (text) => {
      measure.font = `${LETTERS * em}px ${font}`;
      return measure.measureText(text);
    },
    setLineDash: (lengths) => (dashes = lengths),
    fillText: (...words) => write(...words, false),
    strokeText: (...words) => write(...words, true),
    fillRect: (...sides) => add(rect(...sides), true, false),
    strokeRect: (...sides) => add(rect(...sides), false, true),
    beginPath: () => (drawn = ""),
    arc: (x, y, r) => (drawn = `circle cx="${x}" cy="${y}" r="${r}"`),
    rect: (...sides) => (box = rect(...sides)),
    fill: (line) => add(line ? `path d="${line.words}"` : drawn, true, false),
    stroke: (line) => add(line ? `path d="${line.words}"` : drawn, false, true),
    save: () => {},
    clip: () => parts.push(`<clipPath id="clip${(clips += 1)}"><${box}/></clipPath>` +
      `<g clip-path="url(#clip${clips})">`),
    restore: () => parts.push("</g>"),
    text: () => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" ` +
      `width="${width}" height="${height}" font-family="${escaped(font)}" ` +
      `font-size="${LETTERS * em}"><rect width="100%" height="100%" fill="rgb(${paper})"/>\n` +
      `${parts.join("\n")}\n</svg>\n`,
  };
  return pen;
}

// One line per point that is kept: the best bounds up to it.
function asCsv(curves) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const head = "run,solver,settings,seconds,round,lower,upper,test_error";
  const lines = curves.flatMap(({ number, name, settings, points }) => {
    const rows = Array.from({ length: points.length / SIZE }, (_, i) =>
      points.slice(i * SIZE, (i + 1) * SIZE).map((v) => (Number.isFinite(v) ? v : "")).join());
    const own = rows.filter((row, i) => row.split(",")[1] && row !== rows[i - 1]);
    return own.map((row) => `${number},${quoted(name)},${quoted(settings.join("; "))},${row}`);
  });
  return `${[head, ...lines].join("\n")}\n`;
}

function download(name, content, type = "text/plain") {
  const link = document.createElement("a");
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
