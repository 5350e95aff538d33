"""Images given as rows of pixels, made upright and centred."""

from __future__ import annotations

import numpy as np

from workbench.kernels.compiled import njit


@njit(cache=True, nogil=True)
def upright(X, side, out):
    """Put (m, side * side) images, pixels from 0 up, into `out`, sheared by their own moments.

    Their centre of mass comes to the middle, and row y moves by -a y from there, a = mu_xy / mu_yy,
    after which x and y are uncorrelated but for the edges. Between pixels it is linear, beyond 0.
    """
    middle = side // 2  # a pixel: an image that is centred on one stays as sharp as it is
    for i in range(X.shape[0]):
        image, new = X[i], out[i]
        mass = across = down = 0.0
        for q in range(side * side):
            mass += image[q]
            across += image[q] * (q % side)
            down += image[q] * (q // side)
            new[q] = 0
        if mass == 0.0:
            continue
        across, down = across / mass, down / mass
        together = spread = 0.0
        for q in range(side * side):
            off = q // side - down
            together += image[q] * off * (q % side - across)
            spread += image[q] * off * off
        slope = together / spread if spread > 0.0 else 0.0
        top = int(np.floor(down - middle))
        share = (down - middle) - top
        for y in range(side):
            left = slope * (y - middle) + across - middle
            first = int(np.floor(left))
            part = left - first
            for r, height in ((y + top, 1 - share), (y + top + 1, share)):
                if 0 <= r < side:
                    for x in range(max(0, -first), min(side, side - first)):
                        new[y * side + x] += height * (1 - part) * image[r * side + x + first]
                    for x in range(max(0, -first - 1), min(side, side - first - 1)):
                        new[y * side + x] += height * part * image[r * side + x + first + 1]
