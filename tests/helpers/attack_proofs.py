"""Attack the checker: random problems in exact arithmetic, and damaged or forged
proofs."""

import io
import json
import pickle
from fractions import Fraction as Q
from pathlib import Path

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from helpers import exact
from workbench.core.matrices import as_dense
from workbench.proofs import checker

STORED = "hinge", "crammer_singer", "weston_watkins"
SINGLE = "hinge", "squared_hinge", "logistic", "squared"
LOSSES = *STORED, "squared_hinge", "logistic", "softmax", "squared"


def sparse_arrays(B):
    """Return the arrays of the file for an (n, K) dual point without negative
    entries."""
    rows = np.flatnonzero((B > 0).any(axis=1))
    inside = B[rows] > 0
    return {
        "rows": rows.astype("u2"),
        "ends": inside.sum(axis=1).cumsum().astype("u2"),
        "columns": np.nonzero(inside)[1].astype("u1"),
        "values": B[rows][inside],
    }


def npz(header, arrays):
    file = io.BytesIO()
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    np.savez(file, header=np.frombuffer(text, "u1"), **arrays)
    return file.getvalue()


def draw_rows(rng):
    """Return rows of several scales, offsets and types, and labels that all occur."""
    k = int(rng.integers(2, 4))
    d = int(rng.integers(1, 4))
    n = k + int(rng.integers(2, 6))
    y = rng.permutation(np.concatenate([np.arange(k), rng.integers(0, k, n - k)]))
    X = rng.normal(size=(n, d)) + np.eye(k, d)[y] * 2
    X *= rng.choice([1, 1, 1e-3, 1e4], d)
    X += rng.choice([0, 0, 0, 1e3, 1e6]) * (rng.random() < 0.4)
    if rng.random() < 0.3:
        X = X.astype("f4")
    if rng.random() < 0.3:
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.6))
    return X, y, k


def draw_header(rng, X, y, k):
    size = float(np.sqrt(np.mean(np.square(as_dense(X)).sum(axis=1)))) or 1.0
    loss = str(rng.choice(LOSSES))
    single = k == 2 and loss in SINGLE and rng.random() < 0.5
    C = float(rng.choice([0.1, 1, 7.3]))
    if rng.random() < 0.3:
        C = rng.uniform(0.1, 3, k).tolist()
    header = {
        "format": 1,
        "family": "linear",
        "loss": loss,
        "over": str(rng.choice(["sum", "mean"])),
        "C": C,
        "alpha": float(rng.choice([0.1, 1, 1, 20])) * size**2,
        "l1": 0.0,
        "intercept": [None, None, "free", 1.5][rng.integers(4)],
        "outputs": 1 if single else k,
        "checksum": checker.checksum(X, y),
    }
    chance = rng.random()
    if chance < 0.15:
        header["l1"] = 0.1 * size
    elif chance < 0.25 and loss in STORED:
        header |= {"l1": size, "alpha": 0.0}
    elif chance < 0.6:
        gamma = float(rng.choice([0.1, 1])) / size**2
        kernel = {"name": "linear"}
        if rng.random() < 0.5:
            kernel = {"name": "rbf", "gamma": gamma}
            header["alpha"] /= size**2
        header |= {"family": "kernel", "kernel": kernel}
        del header["l1"]
    return header


def draw_point(rng, header, stated):
    """Return a dual point, balanced up to rounding where the intercept is free."""
    n = stated.n
    K = stated.K
    y = stated.y
    k = stated.k
    loss = header["loss"]
    own = stated.own.astype(bool)
    costs = stated.c.astype(float)[:, None]
    p = rng.random((n, K))
    if header["intercept"] == "free":
        p = stated.balanced(exact.exact(0.1 * rng.random() * p)).astype(float)
    else:
        p *= rng.random((n, K)) < 0.7
        p[rng.integers(n), rng.integers(K)] = 1.0
        p[0, (y[0] + 1) % k if K > 1 else 0] = 0.5
    if loss != "hinge":
        p[own] = 0
        if loss == "crammer_singer":
            p /= np.maximum(1, p.sum(axis=1, keepdims=True) * (1 + 1e-6))
    return p * costs


def check_case(rng):
    """Draw a problem and points, and hold the checker's interval against exact
    arithmetic."""
    X, y, k = draw_rows(rng)
    if rng.random() < 0.15:
        return check_minimax(rng, X, y, k)
    header = draw_header(rng, X, y, k)
    stated = exact.Stated(header, X, y)
    arrays = draw_weights(rng, header, stated, X.shape[1])
    weighed = True
    if header["loss"] in STORED:
        B = draw_point(rng, header, stated)
        arrays |= sparse_arrays(B.astype(rng.choice([np.float32, np.float64])))
        weighed = header["alpha"] == 0 or rng.random() >= 0.3
    elif header["intercept"] == "free":
        arrays["b"] = balanced(header, stated, arrays)
    given = arrays if weighed else {name: arrays[name] for name in checker.DUAL}
    proof = checker.Proof(header, given)
    v = checker.verify(proof, X, y)
    weights, free = exact_weights(header, arrays)
    best = stated.dual(dual_points(header, stated, arrays, weights, free))
    low = Q(v.lower)
    high = Q(v.upper)
    assert low <= best + exact.UNIT, (header, float(low - best), v)
    assert best <= high + exact.UNIT, (header, v)
    if weighed:
        value = stated.primal(weights, free, arrays.get("basis"))
        lower, upper = checker.objective(proof, X, y)
        assert value <= high + exact.UNIT, (header, float(value - high), v)
        assert Q(lower) - exact.UNIT <= value and upper == v.upper, header
        assert high - Q(lower) <= Q(1, 10**5) * (value + 1), (header, v)
    if not low:
        return "vacuous"
    return "close" if best - low <= Q(1, 10**5) * high else "loose"


def draw_weights(rng, header, stated, length):
    """Return W, its basis if it is of a kernel, and b if there is one."""
    n = stated.n
    K = header["outputs"]
    arrays = {}
    scale = np.sqrt(float(stated.gram.diagonal().max())) or 1.0
    unit = scale
    if header["family"] == "kernel":
        basis = np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False))
        arrays["basis"] = basis
        length = len(basis)
        unit = scale**2 * n
    W = rng.normal(size=(length, K)) / unit * rng.choice([0.1, 1])
    arrays["W"] = W.astype(rng.choice([np.float32, np.float64]))
    within = header["family"] == "kernel" and header["intercept"] == 1.5
    if header["intercept"] is not None and not within:
        arrays["b"] = rng.normal(size=K) * 0.1
    return arrays


def balanced(header, stated, arrays):
    """Return the best free intercept of a smooth loss for W, zero if of a kernel."""
    scores = np.zeros((stated.n, stated.K))
    if header["family"] == "kernel":
        arrays["W"] = np.zeros_like(arrays["W"])
    else:
        scores = stated.X.astype(float) @ arrays["W"]
    b = cp.Variable((1, stated.K))
    scores = scores + np.ones((stated.n, 1)) @ b
    losses = exact.smooth(header["loss"])(scores, stated.own.astype(float))
    cp.Problem(cp.Minimize(stated.c.astype(float) @ losses)).solve(cp.CLARABEL)
    return b.value[0]


def exact_weights(header, arrays):
    """Return the exact weights, a constant's among them, and the free intercepts."""
    weights = exact.exact(arrays["W"])
    free = Q(0)
    if header["intercept"] == "free":
        free = exact.exact(arrays["b"])
    elif "b" in arrays:
        weights = np.vstack([weights, exact.exact(arrays["b"])])
    return weights, free


def dual_points(header, stated, arrays, weights, free):
    """Return each row's dual point: the stored one, or that of its scores."""
    if header["loss"] in STORED:
        points = np.zeros((stated.n, stated.K))
        counts = np.diff(arrays["ends"], prepend=0).astype(int)
        filled = np.repeat(arrays["rows"], counts)
        points[filled, arrays["columns"]] = arrays["values"]
        return np.minimum(exact.exact(points) / stated.c[:, None], Q(1))
    kernel = header["family"] == "kernel"
    rows = stated.gram[:, arrays["basis"]] if kernel else stated.X
    return stated.points(rows @ weights + free)


def check_minimax(rng, X, y, k):
    lambda0 = float(rng.choice([0.05, 0.3, 1]))
    header = {"format": 1, "family": "mrc", "lambda0": lambda0, "outputs": k}
    header["checksum"] = checker.checksum(X, y)
    p = np.eye(k)[y] + rng.choice([0.01, 0.3]) * rng.random((len(y), k))
    M = rng.normal(size=(k, X.shape[1] + 1)) / (1 + abs(X).max())
    arrays = {"M": M.astype("f4")} | sparse_arrays(p)
    v = checker.verify(checker.Proof(header, arrays), X, y)
    stated = exact.MinimaxRisk(header, X, y)
    value = stated.primal(exact.exact(arrays["M"]))
    best = stated.dual(exact.exact(p))
    assert 0 <= best + exact.UNIT - Q(v.lower) < Q(1, 10**5), (header, v)
    assert 0 <= Q(v.upper) + exact.UNIT - value < Q(1, 10**5), (header, v)
    return "close" if v.lower else "vacuous"


def base_proofs(rng):
    """Yield rows, header, arrays and the optimum of small problems of all kinds,
    solved."""
    n = 12
    d = 3
    k = 3
    rbf = {"name": "rbf", "gamma": 0.5}
    kinds = [
        *({"loss": loss, "intercept": s} for loss in LOSSES for s in (None, "free")),
        {"loss": "hinge", "intercept": 1.0},
        {"loss": "hinge", "alpha": 0.0, "l1": 0.6},
        {"loss": "weston_watkins", "kernel": rbf},
        {"loss": "crammer_singer", "kernel": rbf},
        {"loss": "hinge", "kernel": rbf, "intercept": "free"},
        {"loss": "softmax", "kernel": rbf},
        {"loss": "squared_hinge", "l1": 0.1},
        {"family": "mrc"},
        {"family": "mrc"},
    ]
    for number, kind in enumerate(kinds):
        classes = 2 if number % 5 == 4 else k
        y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
        X = rng.normal(size=(n, d)) + 1.5 * np.eye(classes, d)[y]
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.7)) if number % 3 == 2 else X
        family = "kernel" if "kernel" in kind else "linear"
        header = {"format": 1, "family": family, "outputs": classes}
        if kind.get("family") == "mrc":
            header |= {"lambda0": 0.2}
        else:
            header |= {"over": "mean" if number % 2 else "sum", "C": 0.5, "alpha": 0.5}
            header |= {"C": [0.5, 1.0, 0.7][:classes]} if number % 4 == 3 else {}
        header |= kind | {"checksum": checker.checksum(X, y)}
        optimum, W, b, dual = exact.solve(header, X, y)
        if header["family"] == "mrc":
            arrays = {"M": W} | sparse_arrays(dual)
        else:
            W, extra = (W[:d], W[d:]) if header["family"] == "linear" else (W, W[:0])
            arrays = {"W": W, "b": extra[0] if len(extra) else b}
            if "kernel" in kind:
                arrays["basis"] = np.arange(n, dtype="u1")
            if header.get("intercept") is None:
                del arrays["b"]
            if dual is not None:
                arrays |= sparse_arrays(np.where(dual > 1e-7, dual, 0))
                if number % 2 and header["alpha"]:
                    arrays = {name: arrays[name] for name in checker.DUAL}
        yield X, y, header, arrays, optimum


class Bomb:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.mkdir, (self.path,)


FACTORS = [0, -1, 0.5, 1 + 1e-15, 1 + 1e-9, 1.001, 2, 1e3, 1e150, 1e300, 1e-300]
TYPES = "f2 f4 f8 i1 i8 u1 u8 c16 ? S8 U4 >f8 >i4 g".split()
INTEGERS = [-1, 0, 11, 12, 13, 2**31, 2**62, -(2**63)]
WORDS = [*LOSSES, "sum", "mean", "free", None, 1, 2, 3, [], {}, "x" * 999, 10**400]
FIELDS = {"more": 1, "l1": 0.2, "intercept": 0.5, "lambda0": 0.1}
FIELDS["kernel"] = {"name": "linear"}
HEADERS = [b"", b"[]", b"null", b"[" * 99999, b"\xff\xfe", b'{"a":' * 5000, b"1" * 9999]


class Forgery:
    """A proof that is damaged or forged: in an array, in its header, or as a file."""

    def __init__(self, rng, header, arrays, trap):
        self.rng = rng
        self.trap = trap
        self.header = dict(header)
        self.arrays = {name: array.copy() for name, array in arrays.items()}
        self.name = self.pick(list(arrays))
        self.array = self.arrays[self.name]
        self.flat = self.array.reshape(-1)
        self.floats = self.array.dtype.kind == "f"
        self.i = int(rng.integers(self.flat.size))

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def put(self, array):
        self.arrays[self.name] = array

    def bits(self):
        raw = bytearray(self.array.tobytes())
        for _ in range(self.rng.integers(1, 4)):
            raw[self.rng.integers(len(raw))] ^= 1 << self.rng.integers(8)
        self.put(np.frombuffer(bytes(raw), self.array.dtype).reshape(self.array.shape))

    def scaled(self):
        factor = np.array(self.pick(FACTORS))
        with np.errstate(all="ignore"):
            self.put((self.array * factor).astype(self.array.dtype))

    def permuted(self):
        self.put(self.rng.permutation(self.flat).reshape(self.array.shape))

    def extreme(self):
        values = [np.nan, np.inf, -np.inf, 1.7e308, 5e-324, -0.0]
        self.flat[self.i] = self.pick(values) if self.floats else 255

    def nearby(self):
        if self.floats:
            self.put(np.nextafter(self.array, self.pick([-np.inf, np.inf])))
        else:
            self.put(self.array + 1)

    def reshaped(self):
        flat = self.flat
        array = self.array
        longer = np.append(flat, flat[-1:])
        self.put(self.pick([flat, flat[:-1], longer, array.T, array[None]]))

    def retyped(self):
        with np.errstate(all="ignore"):
            self.put(self.array.astype(self.pick(TYPES)))

    def repeated(self):
        """Repeat a value elsewhere: rows of the dual point then appear twice."""
        self.flat[self.i] = self.pick(self.flat)

    def out_of_range(self):
        wide = self.flat.astype("i8")
        wide[self.i] = self.pick(INTEGERS)
        self.put(wide.reshape(self.array.shape))

    def swapped(self):
        other = self.pick(list(self.arrays))
        self.arrays[self.name], self.arrays[other] = self.arrays[other], self.array

    def missing(self):
        del self.arrays[self.name]

    def added(self):
        self.name = self.pick("W b basis M extra ../../x header2".split())
        self.put(self.array)

    def field(self):
        field = self.pick([name for name in self.header if name != "checksum"])
        values = WORDS
        if isinstance(self.header[field], float) or self.rng.random() < 0.2:
            values = [0.3, 0.7, 2, 0, -1, 1e-300, 1e300, True, None, "1"]
            values = [*values, [0.5] * self.header["outputs"]]
        self.header[field] = self.pick(values)

    def more_fields(self):
        self.header |= [self.pick(list(FIELDS.items()))]

    def checksum(self):
        own = self.header["checksum"]
        self.header["checksum"] = self.pick([own[::-1], "", 0, None, "0" * 64])

    def text(self):
        self.header = self.pick(HEADERS)

    def bomb(self):
        self.put(np.array([Bomb(self.trap)], dtype=object))

    def file(self):
        return bytearray(npz(self.header, self.arrays))

    def bit_of_the_file(self):
        """Flip a bit anywhere: the check sums of the archive find most of it."""
        file = self.file()
        file[self.rng.integers(len(file))] ^= 1 << self.rng.integers(8)
        return file

    def no_archive(self):
        return pickle.dumps(Bomb(self.trap))


# Those that come twice or more find most.
WAYS = """bits bits scaled scaled permuted extreme nearby reshaped retyped repeated
out_of_range swapped missing added field field field more_fields checksum text bomb
bit_of_the_file no_archive""".split()


def mutate(rng, header, arrays, trap):
    """Return the bytes of a proof that is damaged or forged in one of many ways."""
    forgery = Forgery(rng, header, arrays, trap)
    file = getattr(forgery, forgery.pick(WAYS))()
    return bytes(forgery.file() if file is None else file)


class Attack:
    """Mutants of small proofs, each verdict held against the optimum of what it
    states."""

    def __init__(self, seed, folder):
        self.rng = np.random.default_rng(seed)
        self.file = folder / "p"
        self.trap = folder / "trap"
        self.base = list(base_proofs(self.rng))
        self.optima = {}
        self.judged = []  # files, rows, labels and verdicts, None if refused

    def optimum(self, header, X, y):
        """Return the optimum of a stated problem, None where the oracle finds none."""
        key = json.dumps(header, sort_keys=True)
        if key not in self.optima:
            try:
                self.optima[key] = exact.solve(header, X, y)[0]
            except Exception:  # of cvxpy and Clarabel, for problems of extreme scales
                self.optima[key] = None
        return self.optima[key]

    def one(self):
        X, y, header, arrays, optimum = self.base[self.rng.integers(len(self.base))]
        self.judged.append((mutate(self.rng, header, arrays, self.trap), X, y, None))
        self.file.write_bytes(self.judged[-1][0])
        try:
            proof = checker.read(self.file)
            verdict = checker.verify(proof, X, y)
            self.judged[-1] = *self.judged[-1][:3], verdict
        except checker.ProofError as error:
            assert "\n" not in str(error) and len(str(error)) < 400, str(error)
            assert not self.trap.exists()
            return "refused"
        assert not self.trap.exists() and verdict.lower <= verdict.upper < np.inf
        if proof.header != header:
            optimum = self.optimum(proof.header, X, y)
            if optimum is None:
                return "without an oracle"
        slack = 1e-7 * (1 + abs(optimum)) if optimum > 1e-6 else 1e-7 * optimum + 1e-12
        inside = verdict.lower <= optimum + slack and optimum - slack <= verdict.upper
        assert inside, (proof.header, optimum, verdict)
        return "another problem" if proof.header != header else "true interval"
