// Reads a proof and its rows, and refuses all that sections 1 and 2 of FORMAT.md do not allow.
"use strict";

class Refused extends Error {}
const need = (truth, message) => { if (!truth) throw new Refused(message.slice(0, 300)); };
const finite = (x, name) => (need(Number.isFinite(x), `${name}: not finite (${x})`), x);

// ---- Section 1: npz, npy, JSON

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});
const crc32 = (bytes) => ~bytes.reduce((crc, byte) => CRC[(crc ^ byte) & 255] ^ (crc >>> 8), ~0) >>> 0;
const ascii = (bytes) => String.fromCharCode(...bytes);

async function inflate(packed, size) {
  const data = new Uint8Array(size);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  for (let used = 0, reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read().catch(() => need(false, "a member is not deflated data"));
    if (done) return data.subarray(0, used);
    need(used + value.length <= size, "a member is longer than it says");
    data.set(value, used);
    used += value.length;
  }
}

async function readNpz(bytes, wanted) { // the arrays by name; a proof has no `wanted` ones: all are read
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), end = bytes.length - 22;
  const u16 = (at) => view.getUint16(at, true), u32 = (at) => view.getUint32(at, true);
  need(end >= 0 && u32(end) === 0x06054b50, "not a zip archive that ends with its end record");
  const arrays = new Map(), directory = u32(end + 16);
  need(wanted || bytes.length <= 2 ** 28, "more than 256 MiB");
  let at = directory, place = 0, count = 0, total = 0;
  for (; at < end; count++) { // each member begins where the one before it ends
    need(u32(at) === 0x02014b50 && (wanted || u16(at + 8) === 0), "the zip directory is damaged, or its flags are not 0");
    const method = u16(at + 10), [crc, packed, size, start] = [16, 20, 24, 42].map((o) => u32(at + o));
    const file = ascii(bytes.subarray(at + 46, at + 46 + u16(at + 28))), name = file.slice(0, -4);
    need(u32(start) === 0x04034b50 && start === place
      && ascii(bytes.subarray(start + 30, start + 30 + u16(start + 26))) === file, `${file}: not where it should be`);
    const from = start + 30 + u16(start + 26) + u16(start + 28);
    place = from + packed;
    at += 46 + u16(at + 28) + u16(at + 30) + u16(at + 32);
    need(place <= directory, `${file}: damaged`);
    need(file.endsWith(".npy") && !arrays.has(name), `${file}: not an npy file, or it appears twice`);
    if (wanted && !wanted.includes(name)) continue;
    need(method === 0 || (method === 8 && wanted), `${file}: must be stored, not compressed`);
    total += size;
    need(!wanted || total <= 2 ** 31, `${file}: the members are too large together`);
    const stored = bytes.subarray(from, place), data = method ? await inflate(stored, size) : stored;
    need(data.length === size && crc32(data) === crc, `${file}: damaged (length or CRC-32)`);
    arrays.set(name, readNpy(data, name));
  }
  need(place === directory && at === end, "the members, the directory and the end record must follow each other");
  need([4, 6, 20].every((o) => u16(end + o) === 0) && [8, 10].every((o) => u16(end + o) === count)
    && u32(end + 12) === end - directory, "the end record is damaged");
  return arrays;
}

const TYPES = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, f2: Uint16Array,
  i4: Int32Array, u4: Uint32Array, f4: Float32Array, i8: BigInt64Array, u8: BigUint64Array, f8: Float64Array };
const SIZE = String.raw`(?:0|[1-9]\d*)`;
const NPY = new RegExp(String.raw`^\{'descr': '([<>|])([fiu][1248])', 'fortran_order': (True|False), `
  + String.raw`'shape': \((|${SIZE},|${SIZE}, ${SIZE})\), \} *\n$`);

function half(h) { // the number of a float16
  const exponent = (h >> 10) & 31, fraction = (h & 1023) / 1024;
  const size = exponent === 31 ? (fraction ? NaN : Infinity)
    : exponent ? (1 + fraction) * 2 ** (exponent - 15) : fraction * 2 ** -14;
  return h >> 15 ? -size : size;
}

function readNpy(bytes, name) {
  const at = 10 + bytes[8] + 256 * bytes[9];
  need(ascii(bytes.subarray(0, 8)) === "\x93NUMPY\x01\x00", `${name}: not an npy file of version 1.0`);
  const [, order, type, fortran, sizes] = NPY.exec(ascii(bytes.subarray(10, at))) ?? [];
  need(type in TYPES && (order !== "|" || type[1] === "1"), `${name}: an npy header of another kind`);
  const shape = sizes.split(",").filter(Boolean).map(Number), width = Number(type[1]);
  const count = shape.reduce((all, size) => all * size, 1), raw = bytes.slice(at);
  need(raw.length === count * width, `${name}: ${raw.length} bytes, not ${count} numbers of ${width}`);
  if (order === ">") for (let i = 0; i < raw.length; i += width) raw.subarray(i, i + width).reverse();
  let data = new TYPES[type](raw.buffer);
  if (type === "f2") data = Float64Array.from(data, half);
  if (/[iu]8/.test(type)) data = Float64Array.from(data, Number); // beyond 2^53 nothing is in range
  if (fortran === "True" && shape.length === 2) {
    const columns = data.slice(), [height, width] = shape;
    for (let e = 0; e < count; e++) data[(e % height) * width + Math.floor(e / height)] = columns[e];
  }
  need(type[0] !== "f" || data.every(Number.isFinite), `${name}: NaN or infinity`);
  return { kind: type[0] === "f" ? "floats" : "integers", type, shape, data };
}

class Numeral { constructor(text) { this.text = text; } } // a number of JSON, as it is written
const TOKEN = /[ \t\n\r]*([{}[\],:"]|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y;
const SPACE = /[ \t\n\r]*$/y;

function parseJson(text) { // objects become Maps; JSON.parse takes a name that appears twice
  const bad = () => need(false, "header: not JSON");
  let at = 0;
  need((text.match(/[[{]/g) ?? []).length <= 256, "header: more than 256 brackets [ and {");
  function next() { // a string is returned with its quotes
    TOKEN.lastIndex = at;
    const word = (TOKEN.exec(text) ?? bad())[1], start = TOKEN.lastIndex - 1;
    at = TOKEN.lastIndex;
    if (word !== '"') return word;
    while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    return text.slice(start, ++at);
  }
  function string(word) {
    try { return JSON.parse(word); } catch { bad(); }
  }
  function items(end, read) {
    let word = next();
    if (word === end) return;
    for (read(word); (word = next()) !== end; read(next())) if (word !== ",") bad();
  }
  function value(word) {
    const list = [], object = new Map();
    if (word === "[") return items("]", (item) => list.push(value(item))), list;
    if (word === "{") return items("}", (key) => {
      const name = key[0] === '"' ? string(key) : bad();
      if (next() !== ":") bad();
      need(!object.has(name), `header: ${key} appears twice`);
      object.set(name, value(next()));
    }), object;
    if (/^[-\d]/.test(word)) return new Numeral(word);
    return /^["tfn]/.test(word) ? string(word) : bad();
  }
  const all = value(next());
  SPACE.lastIndex = at;
  return SPACE.test(text) ? all : bad();
}

// ---- Section 1: what is stated, and the points

const WITH_D = ["hinge", "crammer_singer", "weston_watkins"]; // the other losses make their dual point from scores
const WITH_OWN_CLASS = ["crammer_singer", "weston_watkins", "softmax"]; // these need one output per class
const LOSSES_KNOWN = [...WITH_D, "squared_hinge", "logistic", "softmax", "squared"];
const FIELDS = { // needed, and may be given
  linear: [["loss", "over", "C", "alpha"], ["l1", "intercept"]],
  kernel: [["loss", "over", "C", "alpha", "kernel"], ["l1", "intercept"]],
  mrc: [["lambda0"], []],
};

function number(value, name, isPositive) {
  need(value instanceof Numeral && value.text[0] !== "-", `${name}: must be a number, at least 0`);
  const x = finite(Number(value.text), name);
  need(/[.eE]/.test(value.text) || BigInt(value.text) === BigInt(x), `${name}: not exactly a double`);
  need(!isPositive || x > 0, `${name}: must be positive`);
  need(x <= 2 ** 500, `${name}: must be at most 2^500`);
  return x;
}

const withoutNull = (object) => new Map([...object].filter(([, value]) => value !== null));

function readHeader({ type, shape, data }) {
  need(type === "u1" && shape.length === 1, "header: must be a list of bytes");
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch { need(false, "header: not UTF-8"); }
  const header = parseJson(text);
  need(header instanceof Map, "header: not an object");
  return withoutNull(header);
}

function readStatement(arrays, rows) {
  const header = readHeader(arrays.get("header") ?? need(false, "header: missing"));
  const field = (name) => header.get(name), family = field("family"), { n, k } = rows;
  need(typeof family === "string" && Object.hasOwn(FIELDS, family), "family: must be linear, kernel or mrc");
  const needed = ["format", "family", "outputs", "checksum", ...FIELDS[family][0]];
  for (const name of needed) need(header.has(name), `${name}: missing`);
  const known = [...needed, ...FIELDS[family][1], "recipe", "text"];
  for (const name of header.keys()) need(known.includes(name), `${name}: not a field of this family`);
  need(field("format").text === "1", "format: must be 1");
  need(field("checksum") === rows.checksum, "checksum: the proof is about other rows");
  const { loss, over, intercept } = Object.fromEntries(header), single = field("outputs").text === "1";
  need(family === "mrc" || LOSSES_KNOWN.includes(loss), "loss: unknown");
  need(field("outputs").text === `${k}` || (single && k === 2 && family !== "mrc" && !WITH_OWN_CLASS.includes(loss)),
    `outputs: must be ${k}`);
  const problem = { family, header, K: single ? 1 : k };
  if (family === "mrc") return { ...problem, lambda0: number(field("lambda0"), "lambda0", true) };
  need(over === "sum" || over === "mean", "over: must be sum or mean");
  const C = Array.isArray(field("C")) ? field("C") : Array(k).fill(field("C"));
  need(C.length === k, `C: must be one number or ${k} of them`);
  const alpha = number(field("alpha"), "alpha"), l1 = header.has("l1") ? number(field("l1"), "l1") : 0;
  need(family === "kernel" ? alpha > 0 && l1 === 0 : alpha > 0 || l1 > 0, "alpha, l1: one must be positive");
  Object.assign(problem, { loss, alpha, l1, N: over === "sum" ? 1 : n, free: intercept === "free", s: 0 });
  if (header.has("intercept") && !problem.free) problem.s = number(intercept, "intercept", true);
  problem.C = C.map((weight) => number(weight, "C", true));
  if (family === "kernel") {
    need(field("kernel") instanceof Map, "kernel: must be an object");
    const kernel = withoutNull(field("kernel")), name = kernel.get("name");
    need((name === "linear" && kernel.size === 1) || (name === "rbf" && kernel.size === 2), "kernel: unknown");
    problem.gamma = name === "rbf" ? number(kernel.get("gamma"), "gamma", true) : null;
  }
  return problem;
}

const increasing = (list, from, to) => list.slice(from, to).every((x, e, part) => e === 0 || x > part[e - 1]);
const inRange = (list, end, name) => need(list.every((x) => x >= 0 && x < end), `${name}: out of range`);

function readPoints(arrays, { family, K, loss, alpha, s, free }, { n, d }) {
  const left = new Set(arrays.keys()), points = {};
  left.delete("header");
  function take(name, kind, ...shape) { // null in a shape: any
    if (!left.delete(name)) return null;
    const array = arrays.get(name);
    need(array.kind === kind, `${name}: must be ${kind}`);
    need(array.shape.length === shape.length && array.shape.every((size, axis) => size === (shape[axis] ?? size)),
      `${name}: must have shape (${shape.map((size) => size ?? "any")}), has (${array.shape})`);
    return array.data;
  }
  if (family === "mrc") points.M = take("M", "floats", K, d + 1) ?? need(false, "M: missing");
  else {
    const basis = points.basis = family === "kernel" ? take("basis", "integers", null) : null;
    need(family !== "kernel" || !basis === !left.has("W"), "basis: must be given exactly if W is");
    if (basis) inRange(basis, n, "basis");
    need(!basis || (basis.length > 0 && increasing(basis)), "basis: must be increasing, and not empty");
    points.W = take("W", "floats", basis ? basis.length : d, K);
    points.b = free || (s && family === "linear") ? take("b", "floats", K) : null;
    need(points.W || (WITH_D.includes(loss) && alpha > 0 && !(s && points.b)), "W: missing");
  }
  if (family === "mrc" || WITH_D.includes(loss)) points.D = readD(take, n, K);
  need(!left.size, `${[...left]}: not an array of this statement`);
  return points;
}

function readD(take, n, K) { // { columns, values } of the rows that have entries
  const rows = take("rows", "integers", null), ends = take("ends", "integers", rows?.length ?? null);
  const columns = take("columns", "integers", null), values = take("values", "floats", columns?.length ?? null);
  need(rows && ends && columns && values, "rows, ends, columns, values: one is missing");
  inRange(rows, n, "rows");
  inRange(columns, K, "columns");
  need(increasing(rows), "rows: not increasing");
  need(values.length > 0 && ends.at(-1) === values.length, "ends: the last must be the number of values, at least 1");
  need(values.every((value) => value >= 0), "values: negative");
  const D = Array(n).fill(null);
  rows.forEach((row, j) => {
    const from = j ? ends[j - 1] : 0, to = ends[j];
    need(from >= 0 && to >= from && increasing(columns, from, to), "ends, columns: not increasing");
    D[row] = { columns: columns.subarray(from, to), values: values.subarray(from, to) };
  });
  return D;
}

// ---- Section 2: the rows, and their checksum

const CELL = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

function readCsv(bytes) {
  const lines = new TextDecoder().decode(bytes).replace(/\r?\n$/, "").split(/\r?\n/).map((line) => line.split(","));
  const d = lines[0].length - 1, data = new Float64Array(lines.length * d), y = new Float64Array(lines.length);
  lines.forEach((cells, i) => {
    need(cells.length === d + 1 && cells.every((cell) => CELL.test(cell)), `line ${i + 1}: not ${d + 1} numbers`);
    cells.slice(0, d).forEach((cell, j) => (data[i * d + j] = Number(cell)));
    y[i] = Number(cells[d]);
  });
  return { X: { type: "f8", shape: [y.length, d], data }, y: { kind: "integers", shape: [y.length], data: y } };
}

function canonical(n, d, data, indices, indptr) { // sorted, and no place twice; stored zeros stay
  need(indices.length === data.length && indptr.length === n + 1 && indptr[0] === 0 && indptr[n] === data.length
    && indptr.every((at, i) => i === 0 || at >= indptr[i - 1]), "indptr: must be the row pointers of data");
  inRange(indices, d, "indices");
  const starts = new Float64Array(n + 1), columns = new Float64Array(data.length), values = data.slice();
  for (let i = 0, used = 0; i < n; i++) {
    const places = Array.from({ length: indptr[i + 1] - indptr[i] }, (_, e) => indptr[i] + e);
    for (const e of places.sort((a, b) => indices[a] - indices[b])) {
      if (used > starts[i] && columns[used - 1] === indices[e]) values[used - 1] += data[e];
      else [columns[used], values[used]] = [indices[e], data[e]], used++;
    }
    starts[i + 1] = used;
  }
  return { indices: columns.slice(0, starts[n]), indptr: starts, data: values.slice(0, starts[n]) };
}

async function sha256(...parts) {
  const crypto = globalThis.crypto ?? require("node:crypto").webcrypto;
  need(crypto.subtle, "SHA-256 is available only on a page opened from disk or over https");
  const digest = await crypto.subtle.digest("SHA-256", await new Blob(parts).arrayBuffer());
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
const int64 = (values) => BigInt64Array.from({ length: values.length }, (_, i) => BigInt(values[i]));

const CSR = ["indices", "indptr", "shape"];

async function readRows(bytes) { // the entries of row i: data[e] in column(e, i), start(i) <= e < start(i + 1)
  const isZip = bytes[0] === 0x50 && bytes[1] === 0x4b;
  const arrays = isZip ? Object.fromEntries(await readNpz(bytes, ["X", "y", "data", ...CSR])) : readCsv(bytes);
  const isDense = "X" in arrays;
  for (const name of isDense ? ["y"] : ["y", "data", ...CSR]) need(arrays[name], `rows: ${name} is missing`);
  for (const name of isDense ? [] : CSR)
    need(arrays[name].kind !== "floats" && arrays[name].shape.length === 1, `${name}: must be a list of integers`);
  const values = isDense ? arrays.X : arrays.data, shape = isDense ? values.shape : arrays.shape.data;
  need(shape.length === 2 && values.shape.length === (isDense ? 2 : 1), "X: must have two axes");
  need(shape[0] > 0 && shape[1] > 0, "X: has no rows or no columns");
  const [n, d] = shape, isSingle = values.type === "f4", { kind, shape: labels, data: y } = arrays.y;
  need(labels.length === 1 && labels[0] === n && kind !== "floats", "y: must have one integer per row");
  need(y.every((label) => Number.isInteger(label) && label >= 0 && label < n), "y: must be 0..k-1");
  const counts = [];
  for (const label of y) counts[label] = (counts[label] ?? 0) + 1;
  const k = counts.length;
  need(k >= 2 && Object.keys(counts).length === k, "y: must contain each of 0..k-1, and k must be at least 2");
  let data = isSingle ? values.data : Float64Array.from(values.data), indices, indptr;
  if (!isDense) ({ data, indices, indptr } = canonical(n, d, data, arrays.indices.data, arrays.indptr.data));
  const start = isDense ? (i) => i * d : (i) => indptr[i];
  const column = isDense ? (e, i) => e - i * d : (e) => indices[e];
  let most = 0; // entries in a row
  const squares = Float64Array.from({ length: n }, (_, i) => {
    let total = 0;
    for (let e = start(i); e < start(i + 1); e++) total += data[e] * data[e];
    most = Math.max(most, start(i + 1) - start(i));
    return finite(total, "the squares of X");
  });
  const title = `${isDense ? "dense" : "csr"} ${isSingle ? "float32" : "float64"} ${n} ${d}\n`;
  const checksum = await sha256(title, ...(isDense ? [] : [int64(indptr), int64(indices)]), data, int64(y));
  return { n, d, k, y, counts, isDense, data, start, column, squares, r: most + 1, checksum };
}

if (typeof module !== "undefined") module.exports = { Refused, need, finite, readNpz, readRows, readStatement, readPoints };
