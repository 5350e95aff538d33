"""Make images upright before anything is learnt from them, for `ls_recipe`."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.ndimage import affine_transform

from workbench.core.checks import Matrix
from workbench.core.problem import Problem
from workbench.data.features import in_blocks, mapped, refuse_negative


def deskewed(problem: Problem) -> Problem:
    """Return square grey images, each made upright and centred by its own moments;
    dense.

    The centre of mass moves to the middle pixel, and row y is shifted by -a y with
    a = mu_xy / mu_yy, after which x and y are uncorrelated except at the edges. Values
    between pixels are interpolated linearly; outside the image they are 0. This step
    learns nothing, but it knows which pixels are neighbours, so models of such rows are
    not invariant to permutations of the columns.

    Raises
    ------
    ValueError
        For rows whose number of entries is not a square, or negative entries.
    """
    side = math.isqrt(problem.d)
    if side * side != problem.d:
        raise ValueError(
            f"X: square images have side * side pixels, got rows of {problem.d}"
        )
    refuse_negative(problem, "deskewing is for pixels from 0 up")
    places = np.indices((side, side)).astype(float)

    def upright(image: np.ndarray) -> np.ndarray:
        if not image.any():
            return image
        share = image.reshape(side, side) / image.sum(dtype=float)
        centre = (places * share).sum(axis=(1, 2))
        down, across = places - centre[:, None, None]
        spread = (share * down**2).sum()
        shear = np.array(
            [[1.0, 0.0], [(share * down * across).sum() / (spread or 1.0), 1.0]]
        )
        # where the first pixel comes from
        first = centre - shear @ np.full(2, side // 2)
        given = image.reshape(side, side)
        return affine_transform(
            given, shear, first, order=1, mode="grid-constant"
        ).ravel()

    def transform(X: Matrix) -> np.ndarray:
        images = X.toarray() if sp.issparse(X) else X
        return np.stack([upright(image) for image in images])

    name = f"{problem.name}, deskewed"
    return mapped(problem, lambda X: in_blocks(transform, X, problem.d), name)
