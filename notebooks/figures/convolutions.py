"""Convolutional features of images given as rows, for `ls_cifar`: masks and pooled
responses.

Importing this module adds them to the kinds of
:mod:`workbench.least_squares.generators`, so that `stagewise.stages` goes on from
:func:`start`. They are the features of Coates, Lee and Ng (2011) without their contrast
normalisation, as "Least squares revisited" takes them for CIFAR-10; the masks are
random or the centroids of k-means.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_limits

from workbench.core.problem import Problem
from workbench.kernels.compiled import njit
from workbench.least_squares import stagewise
from workbench.least_squares.generators import KINDS, Generator, Map

POOL = 2  # cells along a side, so that a filter has 2 * POOL**2 features
PER_FILTER = 2 * POOL**2
PATCH = 6
PATCHES = 50_000  # sampled for whitening and k-means
RIDGE = 0.03  # added to the spectrum that whitens, relative to its mean
THRESHOLD = 0.25  # in standard deviations of a response
# patch entries and responses held at a time, 4 MB: the cache, not the memory
CHUNK = 2**20


def image_shape(d: int) -> tuple[int, int, int]:
    """Return height, width and number of channels of images whose rows have `d`
    entries.

    Entries are in C order of (side, side, channels): grey where `d` is a square, three
    channels, pixel by pixel, where d / 3 is one.

    Raises
    ------
    ValueError
        For another `d`.
    """
    for channels in (1, 3):
        side = math.isqrt(d // channels)
        if side * side * channels == d:
            return side, side, channels
    raise ValueError(
        "features: filters need rows that are square images, of s * s entries in grey "
        f"or s * s * 3 in colour; the rows have {d}"
    )


def filters(
    X: np.ndarray, n_filters: int, how: str = "kmeans", seed: int = 0
) -> np.ndarray:
    """Return masks with their offsets: the response of a patch x to a row (m, o) is x'm
    - o.

    Patches of the rows are whitened, x -> A(x - mean) with a ridge on their spectrum;
    masks of equal length there, w, make m = Aw and o = m'mean, scaled so that responses
    have mean square one.

    Parameters
    ----------
    X : (n, d) training rows, dense, see :func:`image_shape`
    how : "random" for Gaussian w, "kmeans" for the centroids of whitened patches
        (Coates, Lee and Ng, 2011)

    Returns
    -------
    (n_filters, patch * patch * channels + 1) float32; the side of a patch is 6, or a
    third of a
        smaller image's side

    Raises
    ------
    ValueError
        For rows that are not images, colour images plane by plane, or another `how`.
    """
    side = _images(X)[0]
    if side < 2:
        raise ValueError("features: filters need images of at least 2 x 2 pixels")
    patch = max(2, min(PATCH, round(side / 3)))
    if n_filters < 1:
        raise ValueError(f"n_filters: must be at least 1, got {n_filters!r}")
    if how not in ("random", "kmeans"):
        raise ValueError(f"how: must be 'random' or 'kmeans', got {how!r}")
    rng = np.random.default_rng(seed)
    # the last digits of sums depend on the number of threads
    with threadpool_limits(1):
        patches = _sampled(X, patch, rng)
        mean = patches.mean(axis=0, dtype=np.float64)
        patches -= mean.astype(np.float32)
        values, vectors = np.linalg.eigh(
            (patches.T @ patches).astype(np.float64) / len(patches)
        )
        values = np.maximum(values, 0) + max(
            RIDGE * values.mean(), np.finfo(np.float32).tiny
        )
        whiten = (vectors / np.sqrt(values)) @ vectors.T
        if how == "random":
            masks = rng.standard_normal((n_filters, len(mean)))
        else:
            masks = _centroids(patches @ whiten.astype(np.float32), n_filters, rng)
        masks /= np.maximum(np.linalg.norm(masks, axis=1, keepdims=True), 1e-12)
        masks = (masks @ whiten).astype(np.float32)
        power = np.mean(np.square(patches[::10] @ masks.T))
        masks /= np.sqrt(max(power, np.finfo(np.float32).tiny))
    return np.hstack([masks, (masks @ mean)[:, None]]).astype(np.float32)


def convolve(
    X: np.ndarray, filters: np.ndarray, Z: np.ndarray | None = None
) -> np.ndarray:
    """Return the pooled responses of all patches.

    Responses z become max(0, z - t) and max(0, -z - t), averaged over 2 x 2 cells and
    scaled to a mean square of about one.

    Both signs, as least squares can then weigh them apart; t = 0.25 standard
    deviations, and 0 to 0.5 do about as well on validation rows of CIFAR-10. Cells
    overlap in the middle where the number of positions is odd.

    Parameters
    ----------
    X : (n, d) rows, dense, see :func:`image_shape`
    filters : of :func:`filters`, fitted on training rows of that shape
    Z : (n, n_filters * 8) float32 where the features go, by default a new array

    Returns
    -------
    Z : in the order filter, cell, sign: the features of some filters are columns of
        those of all
    """
    side, _, _ = _images(X)
    patch = check_filters(filters, X.shape[1])
    if Z is None:
        Z = np.empty((X.shape[0], len(filters) * PER_FILTER), np.float32)
    positions = side - patch + 1
    masks, offsets = np.ascontiguousarray(filters[:, :-1].T), filters[:, -1].copy()
    steps = np.arange(POOL) * positions
    cells = np.stack([steps // POOL, -(-(steps + positions) // POOL)], axis=1)
    pooled = Z.reshape(len(Z), len(filters), POOL**2, 2)
    rows = max(1, CHUNK // (positions**2 * sum(filters.shape)))
    for start in range(0, len(Z), rows):
        windows = _windows(X[start : start + rows], patch)
        # One product per image: its digits do not depend on which images come with it.
        R = windows.reshape(len(windows), positions**2, -1) @ masks
        _pool(
            R,
            offsets,
            np.float32(THRESHOLD),
            positions,
            cells,
            pooled[start : start + rows],
        )
    return Z


def start(
    problem: Problem, n_features: int, block: int, how: str, seed: int
) -> stagewise.StagewiseState:
    """Return the state of stagewise regression on filters of the training rows, without
    weights.

    `n_features` and `block` are multiples of 8, the features of one filter.
    """
    for name, value in (("n_features", n_features), ("block", block)):
        if value % PER_FILTER:
            raise ValueError(
                f"{name}: must be a multiple of {PER_FILTER}, got {value!r}"
            )
    bank = filters(problem.X, n_features // PER_FILTER, how, seed)
    block = min(block, n_features)
    generator = Generator("filters", problem.d, n_features, block, seed, 1.0, bank)
    return stagewise.start(generator, problem)


def masks(generator: Generator, b: int) -> Map:
    """Return the map to the pooled responses to the masks of block `b`."""
    part = generator.part(b)
    own = generator.anchors[part.start // PER_FILTER : part.stop // PER_FILTER]
    return lambda X, Z: convolve(X, own, Z)


KINDS["filters"] = masks


def check_filters(filters: np.ndarray, d: int) -> int:
    """Return the side of masks with their offsets; a ValueError unless they fit rows of
    `d`."""
    side, _, channels = image_shape(d)
    weights = filters.shape[1] - 1
    patch = math.isqrt(max(weights, 0) // channels)
    if not 1 <= patch <= side or patch * patch * channels != weights:
        raise ValueError(
            f"filters: {weights} weights per mask do not fit images of {side} x "
            f"{side} pixels and {channels} channels"
        )
    return patch


def _images(X: np.ndarray) -> tuple[int, int, int]:
    if sp.issparse(X):
        raise ValueError("features: filters need dense rows, which are images")
    return image_shape(X.shape[1])


def _windows(X: np.ndarray, patch: int) -> np.ndarray:
    """Return every patch of every image, (n, positions, positions, patch, patch,
    channels)."""
    images = X.astype(np.float32, copy=False).reshape(len(X), *image_shape(X.shape[1]))
    return sliding_window_view(images, (patch, patch), axis=(1, 2)).transpose(
        0, 1, 2, 4, 5, 3
    )


def _sampled(X: np.ndarray, patch: int, rng: np.random.Generator) -> np.ndarray:
    """Return patches of random rows at random places, each of them a row."""
    side, _, channels = image_shape(X.shape[1])
    some = X[np.sort(rng.permutation(len(X))[:500])]
    if channels == 3:
        # One pixel below in a plane of one colour, and where the channels of a pixel
        # lie together.
        below = {
            step: np.abs(some[:, step:] - some[:, :-step]).mean()
            for step in (side, 3 * side)
        }
        # 1 for noise, 0.4 to 0.7 for planes of photos
        if below[side] < 0.8 * below[3 * side]:
            raise ValueError(
                "features: these colour images are given plane by plane; filters need "
                "the channels of a pixel together, X.reshape(n, 3, s, s).transpose(0, "
                "2, 3, 1)"
            )
    count = min(PATCHES, len(X) * (side - patch + 1) ** 2)
    rows = np.sort(rng.integers(len(X), size=count))
    top, left = rng.integers(side - patch + 1, size=(2, count))
    patches = np.empty((count, patch * patch * channels), np.float32)
    # neighbours in X: no copy of it in another type
    for start in range(0, count, 5000):
        part = slice(start, start + 5000)
        first, last = rows[part][0], rows[part][-1] + 1
        chosen = _windows(X[first:last], patch)[
            rows[part] - first, top[part], left[part]
        ]
        patches[part] = chosen.reshape(len(chosen), -1)
    return patches


def _centroids(patches: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    if len(patches) < n:  # every patch is its own centroid, and some serve twice
        return patches[rng.integers(len(patches), size=n)].astype(np.float64)
    model = MiniBatchKMeans(
        n,
        init="random",
        max_iter=10,
        batch_size=4096,
        n_init=1,
        reassignment_ratio=0.0,
        random_state=int(rng.integers(2**31)),
    )
    return model.fit(patches).cluster_centers_.astype(np.float64)


@njit(cache=True, nogil=True)
def _pool(R, offsets, t, positions, cells, Z):
    """Average both signs' soft thresholds of responses R (n, positions**2, filters)
    into Z."""
    none = np.float32(0)
    up, down = np.empty((2, len(offsets)), np.float32)
    for i in range(len(R)):
        for c in range(len(cells) ** 2):
            up[:], down[:] = none, none
            top, bottom = cells[c // len(cells)]
            left, right = cells[c % len(cells)]
            for y in range(top, bottom):
                for x in range(left, right):
                    r = R[i, y * positions + x]
                    for f in range(len(offsets)):
                        z = r[f] - offsets[f]
                        up[f] += z - t if z > t else none
                        down[f] += -z - t if -z > t else none
            # A standard normal response has the mean 0.286 beyond 0.25.
            scale = np.float32(1 / (0.286 * (bottom - top) * (right - left)))
            for f in range(len(offsets)):
                Z[i, f, c, 0], Z[i, f, c, 1] = up[f] * scale, down[f] * scale
