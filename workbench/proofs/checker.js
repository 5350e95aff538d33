// Checks a proof from the format alone, without dependencies. Bracketed numbers are sections of FORMAT.md.
//   node checker.js PROOF ROWS [PROOF ROWS ...]    prints a line of JSON per pair
// In a page, after files.js: await check(proof, rows) of two Uint8Arrays returns the interval, or throws Refused.
"use strict";

if (typeof require !== "undefined") Object.assign(globalThis, require("./files.js"));

// ---- [5] Rounding

const TINY = 2 ** -900, BLOCK = 1024;
const g = (m) => m * Number.EPSILON; // m 2^-52
const bits = new BigInt64Array(1), double = new Float64Array(bits.buffer);

function above(x) { // the next double: pays for the rounding of one operation
  if (!Number.isFinite(x)) return x;
  double[0] = x + 0; // -0 becomes 0
  bits[0] += x >= 0 ? 1n : -1n;
  return double[0];
}
const below = (x) => -above(-x);
const low = (x) => Math.max(0, below(x)); // of numbers that are not negative
const productAbove = (...factors) => factors.reduce((all, factor) => above(all * factor));

class Sum { // sum*: correctly rounded (Shewchuk 1997)
  parts = [];
  add(x) {
    let used = 0;
    for (let y of this.parts) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y, rest = y - (high - x);
      if (rest !== 0) this.parts[used++] = rest;
      x = high;
    }
    this.parts.length = used;
    this.parts.push(x);
  }
  get value() {
    let i = this.parts.length, high = i ? this.parts[--i] : 0, rest = 0;
    while (i && rest === 0) {
      const x = high, y = this.parts[--i];
      high = x + y;
      rest = y - (high - x);
    }
    const next = high + 2 * rest; // halfway between two doubles, the smaller parts decide
    return i && rest * this.parts[i - 1] > 0 && next - high === 2 * rest ? next : high;
  }
}

function sum(values, term = (x) => x) {
  const total = new Sum();
  for (let i = 0; i < values.length; i++) total.add(term(values[i], i));
  return total.value;
}
const over = (F, term) => F.reduce((total, f, c) => total + term(f, c), 0); // a plain sum over classes
const square = (x) => x * x;
const up = (S, m) => S * (1 + g(m + 4)) + TINY;
const root = (v) => Math.sqrt(v) * (1 + g(8)) + TINY;
const len = (squares) => Math.sqrt(squares) + 2 ** -480;

function inBlocks(n, size, add) { // sums over rows: never more than BLOCK + blocks additions in a chain
  const total = new Float64Array(size);
  for (let start = 0; start < n; start += BLOCK) {
    const block = new Float64Array(size);
    for (let i = start; i < Math.min(n, start + BLOCK); i++) add(block, i);
    for (let j = 0; j < size; j++) total[j] += block[j];
  }
  return total;
}
const chain = (n) => BLOCK + Math.ceil(n / BLOCK);

// ---- [3] Losses and dual points. `own` is the row's own column: -1 for class 0 if K = 1.

const ownColumn = (K, label) => (K > 1 ? label : label - 1);
const side = (c, own) => (c === own ? 1 : -1); // s_c
const unit = (c, own) => (c === own ? 1 : 0); // e_y
const log1pExp = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const margin = (F, own, z) => F.map((f, c) => side(c, own) * f - z[c]);
const difference = (F, own, z) => F.map((f, c) => (c === own ? 0 : f - F[own] + z[c] + z[own]));

const LOSSES = { // from above, at scores F that are wrong by at most z
  hinge: (F, own, z) => over(margin(F, own, z), (m) => Math.max(0, 1 - m)),
  squared_hinge: (F, own, z) => over(margin(F, own, z), (m) => square(Math.max(0, 1 - m))),
  logistic: (F, own, z) => over(margin(F, own, z), (m) => log1pExp(-m)),
  squared: (F, own, z) => over(F, (f, c) => square(Math.abs(f - unit(c, own)) + z[c])) / 2,
  crammer_singer: (F, own, z) =>
    difference(F, own, z).reduce((most, x, c) => (c === own ? most : Math.max(most, 1 + x)), 0),
  weston_watkins: (F, own, z) => over(difference(F, own, z), (x, c) => (c === own ? 0 : Math.max(0, 1 + x))),
  softmax(F, own, z) {
    const raised = difference(F, own, z), most = Math.max(...raised), first = raised.indexOf(most);
    return most + Math.log1p(over(raised, (x, c) => (c === first ? 0 : Math.exp(x - most))));
  },
};

const POINTS = { // A, gain and size of a row with weight w, from its scores
  squared_hinge(F, own, w) {
    const h = F.map((f, c) => 2 * Math.max(0, 1 - side(c, own) * f));
    return { A: h.map((x, c) => w * side(c, own) * x), gain: w * over(h, (x) => x * (1 - x / 4)),
      size: w * over(h, (x) => x * (1 + x / 4)) };
  },
  logistic(F, own, w) {
    const p = F.map((f, c) => 1 / (1 + Math.exp(side(c, own) * f)))
      .map((x) => Math.min(Math.max(x, 1e-300), 1 - Number.EPSILON / 2));
    const gain = -w * over(p, (x) => x * Math.log(x) + (1 - x) * Math.log1p(-x));
    return { A: p.map((x, c) => w * side(c, own) * x), gain, size: gain };
  },
  softmax(F, own, w) {
    const most = Math.max(...F), q = F.map((f) => Math.max(Math.exp(f - most), 1e-300)), T = over(q, (x) => x);
    const entropy = (x) => (x / T) * Math.log(T / x);
    return { A: q.map((x, c) => w * (unit(c, own) - x / T)), gain: w * over(q, entropy),
      size: w * over(q, (x) => entropy(x) + x / T) };
  },
  squared(F, own, w) {
    const r = F.map((f, c) => unit(c, own) - f);
    return { A: r.map((x) => w * x), gain: w * over(r, (x, c) => x * unit(c, own) - square(x) / 2),
      size: w * over(r, (x) => Math.abs(x) + square(x) / 2) };
  },
};

function pointFromD({ loss, K }, { columns, values }, own, w) {
  const B = new Float64Array(K);
  columns.forEach((c, e) => {
    need(c !== own || loss === "hinge", "columns: an entry of the row's own class");
    B[c] = Math.min(values[e], w);
  });
  if (loss === "crammer_singer") {
    const total = sum(B), fits = (T) => T * (1 + g(K + 2)) <= w;
    if (!fits(total)) B.forEach((x, c) => (B[c] = x * (w / total) * (1 - g(4 * K + 32))));
    if (!fits(sum(B))) B.fill(0);
  }
  const gain = over(B, (x) => x);
  const A = B.map((x, c) => (loss === "hinge" ? side(c, own) * x : c === own ? gain : -x));
  return { A, gain, size: gain };
}

function dualPoint(problem, rows, model, b, D) { // the point of row i
  const { loss, K, C, free } = problem, F = new Float64Array(K);
  const nothing = { A: new Float64Array(K), gain: 0, size: 0 };
  return function (i) {
    const own = ownColumn(K, rows.y[i]), w = C[rows.y[i]];
    if (D) return D[i] ? pointFromD(problem, D[i], own, w) : nothing;
    model.score(i, F);
    if (free) b.forEach((x, c) => (F[c] += x));
    return POINTS[loss](F, own, w);
  };
}

// ---- [3, 5] Models: scores, their errors e_ic, and |W|² and |W|_1 from above

const lengthsOf = (rows, s) => rows.squares.map((x) => (s ? Math.sqrt(square(len(x)) + s * s) : len(x)));

function linearModel(rows, W, K, s) { // W has a last row for the constant column s, if there is one
  const lengths = lengthsOf(rows, s), columns = new Float64Array(K);
  W.forEach((x, j) => (columns[j % K] += x * x));
  return {
    score(i, F) {
      F.fill(0);
      for (let e = rows.start(i); e < rows.start(i + 1); e++)
        for (let c = 0, x = rows.data[e], j = rows.column(e, i) * K; c < K; c++) F[c] += x * W[j + c];
      if (s) for (let c = 0; c < K; c++) F[c] += s * W[rows.d * K + c];
    },
    error: (i, c) => g(rows.r + 10) * lengths[i] * len(columns[c]),
    squares: up(sum(W, square), K),
    absolute: up(sum(W, Math.abs), K),
  };
}

function kernelOf(rows, { gamma, s }) { // k(x_i, x_j), and its error E(m) in a sum over `size` rows
  let { data, squares } = rows;
  const { n, d, isDense, start, column, r } = rows, isRbf = gamma !== null;
  if (isRbf && isDense) { // distances stay as they are
    const mean = new Float64Array(d);
    data.forEach((x, e) => (mean[e % d] += x / n));
    data = Float64Array.from(data, (x, e) => x - mean[e % d]);
    squares = squares.map((_, i) => over(data.subarray(i * d, (i + 1) * d), square));
  }
  function dot(i, j) {
    let total = 0;
    for (let e = start(i), f = start(j); e < start(i + 1) && f < start(j + 1); ) {
      const apart = column(e, i) - column(f, j);
      if (apart === 0) total += data[e] * data[f];
      if (apart <= 0) e++;
      if (apart >= 0) f++;
    }
    return total;
  }
  const rbf = (i, j) => Math.exp(-gamma * Math.max(0, squares[i] + squares[j] - 2 * dot(i, j)));
  const R = squares.reduce((most, x) => Math.max(most, x), 0), top = (isRbf ? 1 : R) + s * s;
  const off = (isRbf ? 32 * gamma * g(r + 15) * R + g(32) : 2 * g(r + 7) * R) + g(2) * top + TINY;
  return { top, value: (i, j) => (isRbf ? rbf(i, j) : dot(i, j)) + s * s,
    E: (m, size) => off + g(chain(size) + m + 16) * top };
}

function kernelModel(kernel, basis, W, K) {
  const absolute = Array.from({ length: K }, (_, c) => sum(basis, (_, j) => Math.abs(W[j * K + c])));
  const score = (i, F) => F.set(inBlocks(basis.length, K, (block, j) => {
    for (let c = 0, k = kernel.value(i, basis[j]); c < K; c++) block[c] += k * W[j * K + c];
  }));
  const form = new Sum(), F = new Float64Array(K);
  basis.forEach((i, j) => (score(i, F), F.forEach((f, c) => form.add(f * W[j * K + c]))));
  return { score, error: (i, c) => kernel.E(0, basis.length) * absolute[c], absolute: 0, form: form.value,
    squares: form.value + 2 * kernel.E(K, basis.length) * over(absolute, square) + TINY };
}

// ---- [3, 5] The bounds

function primalAbove({ loss, K, N, C, alpha, l1, free }, rows, model, b) { // P
  const total = new Sum(), F = new Float64Array(K), z = new Float64Array(K);
  for (let i = 0; i < rows.n; i++) {
    model.score(i, F);
    for (let c = 0; c < K; c++) {
      z[c] = 2 * (model.error(i, c) + g(10) * ((free ? Math.abs(b[c]) : 0) + 1)) + TINY;
      if (free) F[c] += b[c];
    }
    total.add(C[rows.y[i]] * LOSSES[loss](F, ownColumn(K, rows.y[i]), z));
  }
  const penalty = above(productAbove(alpha, 0.5, model.squares) + productAbove(l1, model.absolute));
  return above(above(up(total.value, 2 * K + 256) / N) + penalty);
}

// G, the column sums o of A, and v = X'A: `put` adds a row to v and returns its share of the radius.
function dualSums({ loss, K, C }, rows, point, fromScores, size, put) {
  const gain = new Sum(), spread = new Sum(), radius = new Sum(), weights = new Sum();
  const sums = Array.from({ length: K }, () => new Sum()), absolute = sums.map(() => new Sum());
  const v = inBlocks(rows.n, size, (block, i) => {
    const one = point(i), q = fromScores ? C[rows.y[i]] : 0;
    gain.add(one.gain);
    spread.add(one.size);
    weights.add(q);
    one.A.forEach((x, c) => (sums[c].add(x), absolute[c].add(Math.abs(x))));
    radius.add(put(block, i, one.A, q));
  });
  const Q = weights.value, error = above(g(2 * K + 256) * spread.value);
  const G = Math.max(0, below(below(gain.value - error) - TINY));
  const o = sums.map((all, c) => Math.abs(all.value) * (1 + g(4)) + TINY
    + (loss === "hinge" ? 0 : 2 * g(K + 16) * (absolute[c].value + Q)));
  return { v, G, Q, o: Math.max(...o), absolute: absolute.map((all) => all.value), radius: radius.value };
}

// A free intercept: mix A with a feasible point that has the opposite column sums.
function freeIntercept({ K, C, free }, rows, { G, o }, lengths) {
  if (!free) return { G, more: 0 };
  const L = Math.min(...C.map((weight, c) => low(weight * rows.counts[c])));
  const share = Math.min(1, above(above(4 * o) / L));
  const norms = up(sum(rows.y, (label, i) => C[label] * lengths[i]), 0);
  return { G: low(low(1 - share) * G), more: productAbove(4, above(Math.sqrt(K)), share, norms) };
}

// tA is feasible with a gain of at least t G for any t in [0, 1], so the t taken may be rounded.
function weakDuality({ alpha, N }, G, norm) {
  const t = Math.min(1, (alpha / finite(norm, "the dual norm")) * (N * G / norm)), pull = above(t * norm);
  const cost = productAbove(above(pull / finite(low(2 * alpha * N), "alpha")), above(pull / N));
  return below(low(low(t * G) / N) - finite(cost, "the lower bound"));
}

function weakDualityL1({ l1, N }, G, most) { // alpha = 0: no |tv| may exceed N l1
  return low(low(Math.min(1, low(low(N * l1) / most)) * G) / N);
}

function checkLinear(problem, rows, { W, b, D }) {
  const { K, N, alpha, l1, s } = problem, width = (rows.d + (s ? 1 : 0)) * K, lengths = lengthsOf(rows, s);
  const soft = (x, m) => Math.sign(x) * Math.max(0, Math.abs(x) - m);
  const intercept = b ?? new Float64Array(K), all = new Float64Array(width);
  if (W) all.set(W);
  if (s) all.set(intercept, width - K);
  const given = W && linearModel(rows, all, K, s), point = dualPoint(problem, rows, given, intercept, D);
  const sums = dualSums(problem, rows, point, !D, width, (v, i, A, q) => {
    for (let e = rows.start(i); e < rows.start(i + 1); e++)
      for (let c = 0, x = rows.data[e], j = rows.column(e, i) * K; c < K; c++) v[j + c] += x * A[c];
    if (s) A.forEach((a, c) => (v[width - K + c] += s * a));
    return lengths[i] * (len(over(A, square)) + q);
  });
  const { G, more } = freeIntercept(problem, rows, sums, lengths);
  const radius = 2 * g(chain(rows.n) + K + 16) * sums.radius + TINY;
  const most = sums.v.reduce((all, x) => Math.max(all, Math.abs(x)), 0);
  const norm = root(up(sum(sums.v, (x) => square(soft(x, N * l1 * (1 - g(4))))), K));
  const lower = alpha > 0 ? weakDuality(problem, G, above(above(norm + radius) + more))
    : weakDualityL1(problem, G, above(above(most + radius) + more));
  const best = given ?? linearModel(rows, sums.v.map((x) => soft(x, N * l1) / (alpha * N)), K, s);
  return [lower, primalAbove(problem, rows, best, intercept)];
}

function checkKernel(problem, rows, { W, b, basis, D }) {
  const { K, N, alpha } = problem, kernel = kernelOf(rows, problem), used = [], A = [];
  const intercept = b ?? new Float64Array(K), given = W && kernelModel(kernel, basis, W, K);
  const sums = dualSums(problem, rows, dualPoint(problem, rows, given, intercept, D), !D, 0, (_, i, a) => {
    if (!D || D[i]) used.push(i), A.push(...a);
    return 0;
  });
  const { G, more } = freeIntercept(problem, rows, sums, Array(rows.n).fill(Math.sqrt(kernel.top)));
  const error = 2 * kernel.E(K, used.length) * over(sums.absolute, (x) => square(x + sums.Q)) + TINY;
  const lower = weakDuality(problem, G, above(root(kernelModel(kernel, used, A, K).form + error) + more));
  const best = given ?? kernelModel(kernel, used, A.map((a) => a / (alpha * N)), K);
  return [lower, primalAbove(problem, rows, best, intercept)];
}

// ---- [4, 5] Minimax risk

function psi(v) { // max over sets S of (sum_S v - 1)/|S|
  let total = -1, most = -Infinity;
  v.slice().sort((a, b) => b - a).forEach((x, j) => (most = Math.max(most, (total += x) / (j + 1))));
  return most;
}

function checkMinimax({ K: k, lambda0 }, rows, { M, D }) {
  const { n, d, y, counts } = rows, size = (d + 1) * k, rel = g(chain(n) + 16);
  // Sums of p f(Phi) over the rows i and classes c that `visit` gives with a p; entry j is of class j % k.
  const sumPhi = (f, visit) => inBlocks(n, size, (block, i) => visit(i, (c, p) => {
    for (let e = rows.start(i); e < rows.start(i + 1); e++) block[rows.column(e, i) * k + c] += p * f(rows.data[e]);
    block[d * k + c] += p;
  }));
  const sums = (f) => sumPhi(f, (i, take) => take(y[i], 1)), absolute = sums(Math.abs), squares = sums(square);
  const isUsed = absolute.map((x) => (x > 0 ? 1 : 0)); // the others are zero in all rows of their class
  const tau = sums((x) => x).map((x) => x / n), tauError = absolute.map((x) => rel * x / n);
  const lamError = counts.map((n_c) => 8 * rel * n / (n - n_c));
  const lam = squares.map((x, j) => lambda0 * Math.sqrt(Math.max(0, x / n - tau[j] * tau[j])));
  need(lamError.every((x) => x < 0.1), "a class is too large: lambda is lost in rounding");
  need(isUsed.every((one, j) => !one || Math.min(lam[j], squares[j]) > TINY), "lambda or a sum of squares underflows");

  const all = sum(D.flatMap((row) => Array.from(row?.values ?? [])));
  need(finite(all, "the dual point") > TINY, "values: their sum must be more than 2^-900");
  const p = (i, take) => D[i]?.columns.forEach((c, e) => take(c, D[i].values[e])); // to be divided by `all`
  return [minimaxBelow(), minimaxAbove()];

  function minimaxAbove() { // U(M)
    const W = isUsed.map((one, j) => one * M[(j % k) * (d + 1) + Math.floor(j / k)]);
    const model = linearModel(rows, W, k, 1), F = new Float64Array(k), value = new Sum(), error = new Sum();
    let worst = -Infinity;
    for (let i = 0; i < n; i++) {
      model.score(i, F);
      const wrong = Math.max(...F.map((_, c) => model.error(i, c)));
      worst = Math.max(worst, psi(F) + 2 * (wrong + g(k + 4) * (Math.max(...F.map(Math.abs)) + 1)) + TINY);
    }
    W.forEach((x, j) => {
      value.add(lam[j] * Math.abs(x) - tau[j] * x);
      error.add(Math.abs(x) * (lam[j] * (lamError[j % k] + g(k + 8)) + Math.abs(tau[j]) * g(k + 8) + tauError[j]));
    });
    return above(above(above(above(1 + value.value) + 2 * error.value) + TINY) + worst);
  }

  function minimaxBelow() { // (1 - sum_i max_y p_iy) / rho
    const expected = sumPhi((x) => x, p), expectedAbsolute = sumPhi(Math.abs, p);
    const rho = isUsed.reduce((most, one, j) => {
      const apart = Math.abs(expected[j] / all - tau[j]) + TINY + 2 * (rel * expectedAbsolute[j] / all + tauError[j]);
      return one ? Math.max(most, apart / (lam[j] * (1 - lamError[j % k])) * (1 + g(8))) : most;
    }, 1);
    const right = above(sum(D, (row) => (row?.values ?? []).reduce((most, x) => Math.max(most, x), 0)) / all);
    return below(below(1 - productAbove(right, 1 + g(4))) / finite(rho, "rho"));
  }
}

// ---- All of it

const CHECKS = { linear: checkLinear, kernel: checkKernel, mrc: checkMinimax };

async function check(proof, rowsFile) { // { lower, upper, header }
  try {
    const rows = await readRows(rowsFile), arrays = await readNpz(proof), problem = readStatement(arrays, rows);
    const [lower, upper] = CHECKS[problem.family](problem, rows, readPoints(arrays, problem, rows));
    for (const bound of [lower, upper]) finite(bound, "the interval");
    need(Math.max(0, lower) <= upper, `the lower bound ${lower} is above the upper bound ${upper}`);
    return { lower: Math.max(0, lower), upper, header: problem.header };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // reading past the end; stack; memory
    throw new Refused(`damaged, too deep or too large (${error.message})`);
  }
}

async function main(files) {
  const { readFile } = require("node:fs/promises"), read = async (file) => new Uint8Array(await readFile(file));
  for (let i = 0; i + 1 < files.length; i += 2) {
    const { lower, upper, refused } = await check(await read(files[i]), await read(files[i + 1])).catch((error) => {
      if (error instanceof Refused) return { refused: error.message };
      throw error;
    });
    console.log(JSON.stringify({ lower, upper, refused }));
  }
}
if (typeof module !== "undefined" && require.main === module) main(process.argv.slice(2));
