"""Numbers as people write them."""

from __future__ import annotations

import math
import re


def amount(value: float, decimals: int = 0, digits: int = 3) -> str:
    """Return a measured number: rounded to so many digits, but to at least so many decimals."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if not 1e-3 <= abs(value) < 1e6:
        return _power(f"{value:.{digits - 1}e}")
    power = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding: 0.0999 is 0.100
    wanted = max(decimals, digits - 1 - power, 0)
    return f"{value:,.{wanted}f}"


def as_printed(value: float) -> str:
    """Return a paper's number with the digits that it has; zeros at its end are lost."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return _power(f"{value:g}")
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def _power(shown: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), shown)
