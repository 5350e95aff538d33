// The chart as a picture to keep: SVG, and PNG for the clipboard.

// A pen that writes SVG instead of painting: what `draw` of the chart asks of a pen, no more.
function scribe({ ink, font, paper }, width, height, size) {
  const written = [];
  let [dashes, held, at, clips] = ["", "", "", 0];
  const safe = (text) => String(text).replace(/[<&"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const put = (tag, attributes, text = "") => {
    const known = Object.entries({ ...attributes, opacity: pen.globalAlpha, "clip-path": held });
    const words = known.filter(([, v]) => v !== "").map(([key, v]) => ` ${key}="${safe(v)}"`);
    written.push(`<${tag}${words.join("")}>${safe(text)}</${tag}>`);
  };
  const round = (v) => Math.round(100 * v) / 100;
  const shape = (line) => (line ? line.corners.map((xy) => xy.map(round)).join("L") : at);
  const filled = () => ({ fill: pen.fillStyle });
  const stroked = () => ({ fill: "none", stroke: pen.strokeStyle, "stroke-width": pen.lineWidth,
    "stroke-dasharray": dashes });
  const letters = (paint) => (text, x, y) => put("text", { ...paint(), x: round(x), y: round(y),
    "text-anchor": { left: "start", center: "middle", right: "end" }[pen.textAlign] }, text);
  const box = (paint) => (x, y, w, h) =>
    put("path", { ...paint(), d: `M${[x, y].map(round)}h${round(w)}v${round(h)}h${round(-w)}z` });
  const pen = {
    fillStyle: ink, strokeStyle: ink, lineWidth: 1, textAlign: "left", globalAlpha: 1,
    fillText: letters(filled), strokeText: letters(stroked),
    fillRect: box(filled), strokeRect: box(stroked),
    fill: (line) => put("path", { ...filled(), d: `M${shape(line)}` }),
    stroke: (line) => shape(line) && put("path", { ...stroked(), d: `M${shape(line)}` }),
    setLineDash: (lengths) => (dashes = lengths.join(" ")),
    beginPath: () => (at = ""),
    rect: (x, y, w, h) => (at = `${[x, y]}h${w}v${h}h${-w}z`),
    arc: (x, y, r) => (at = `${[x - r, y]}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`),
    clip() {
      clips += 1;
      written.push(`<clipPath id="clip${clips}"><path d="M${at}"/></clipPath>`);
      held = `url(#clip${clips})`;
    },
    save() {},
    restore: () => (held = ""),
    text: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"
      font-family="${safe(font)}" font-size="${size}"><rect width="100%" height="100%"
      fill="rgb(${paper})"/>${written.join("\n")}</svg>`,
  };
  return pen;
}

// A picture in SVG as a promise of a PNG, twice as fine.
async function pixels(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(2 * image.width, 2 * image.height);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob();
}

function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
