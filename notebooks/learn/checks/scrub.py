"""A plot with a slider over the values of a parameter, in the notebook and on the
course's page.

The plot is drawn once for each value; moving the slider needs no kernel.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
from PIL import Image

from workbench.live.replay import Replay

DPI = 110
COLOURS = 128  # of a picture: a third of the bytes


class Scrub(Replay):
    """The plots that ``draw(value)`` makes, behind a slider that starts in the middle.

    Parameters
    ----------
    name : the parameter, as the slider's label
    values : of the parameter, in the order of the slider
    draw : makes one figure of pyplot, with the same axes for every value
    """

    def __init__(self, name: str, values: Sequence[Any], draw: Callable[[Any], object]):
        words = [value if isinstance(value, str) else f"{value:g}" for value in values]
        pictures = []
        for value in values:
            draw(value)
            png = io.BytesIO()
            # without a tight box, which would jump from value to value
            plt.savefig(png, dpi=DPI)
            plt.close()
            small = io.BytesIO()
            Image.open(png).convert("RGB").quantize(COLOURS).save(
                small, "PNG", optimize=True
            )
            pictures.append(base64.b64encode(small.getvalue()).decode())
        self.data = {"name": name, "values": words, "pictures": pictures}
        self.data["start"] = len(words) // 2
