"""Values of the Gaussian kernel, a Mercer kernel, from inner products.

They are powers of two, computed by loops that the compiler can vectorise.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from workbench.kernels.compiled import njit

LN2 = math.log(2.0)
FAST = {"contract", "reassoc", "nsz"}
# The coefficients of polynomials for 2^r with |r| <= 1/2, the highest power first: the
# interpolant at Chebyshev points in single, Taylor's polynomial in double precision.
SINGLE = 0.0013390863364698205, 0.009676031918298474, 0.055503571142190296
SINGLE += 0.24022107485309188, 0.6931471880262294, 1.0000000754548972
SINGLE = tuple(map(np.float32, SINGLE))
DOUBLE = tuple(LN2**k / math.factorial(k) for k in range(13, -1, -1))
# Smaller exponents are replaced by these. They are well above the exponents of the
# smallest normal numbers, -126 and -1022, so that products with small weights stay
# normal: sums of denormal numbers are many times slower.
LEAST = np.float32(-90.0)
LEAST_DOUBLE = -900.0
HALF = np.float32(0.5)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def gaussian_of_products(K, half, others):
    """Replace the products x.z in `K` by 2^(x.z - |x|^2 / 2 - |z|^2 / 2)."""
    for i in range(np.uint64(K.shape[0])):
        row = K[i]
        half_norm = half[i]
        for j in range(np.uint64(row.shape[0])):
            row[j] = power(row[j] - half_norm - others[j])


def power(t):
    """Return 2^t for t <= 0.

    The error is about 3e-7 in single precision and 3e-16 in double precision. The
    result is two to the power of the nearest integer, times a polynomial of the
    remainder. Unlike the library's function, this can be vectorised.
    """


@overload(power, jit_options={"fastmath": FAST, "error_model": "numpy"})
def _power(t):
    def single(t):
        t = min(max(t, LEAST), np.float32(0.0))
        m = np.int32(t - HALF)  # rounded towards zero: the nearest integer
        r = t - np.float32(m)
        p = SINGLE[0]
        for c in SINGLE[1:]:
            p = p * r + c
        return p * np.int32((m + 127) << 23).view(np.float32)  # these bits are 2^m

    def double(t):
        t = min(max(t, LEAST_DOUBLE), 0.0)
        m = np.int32(t - 0.5)
        r = t - m
        p = DOUBLE[0]
        for c in DOUBLE[1:]:
            p = p * r + c
        return p * np.int64((np.int64(m) + 1023) << 52).view(np.float64)

    return single if t == types.float32 else double
