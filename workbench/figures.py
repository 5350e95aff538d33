"""Figures saved with how they were made: what a figure notebook calls.

>>> figures = Figures("mrc_convergence", globals())                        # doctest: +SKIP
>>> figures.save(fig, "gap", "Certified gap over time.", traces=traces)    # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from PIL import Image

from workbench.notebooks import CHECKOUT, FOLDER, PROFILES, Notebook, read
from workbench.run import machine, threads, versions
from workbench.trace import Trace, encode

# matplotlib would write the time of day into them; without it equal figures are equal files.
METADATA = {
    "png": {},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
CAPTION_POINTS = 7


class Figures:
    """The figures of one notebook: saves each as png, svg and pdf, with a json of how it was made.

    Parameters
    ----------
    notebook : its name, as in ``notebooks/figures/<notebook>.ipynb``
    namespace : the notebook's ``globals()``, where its parameters are read
    folder : where figures go; by default the environment variable ``WORKBENCH_FIGURES``, and
        without it ``figures/`` of the checkout
    notebooks : the folder of the notebook itself

    Raises
    ------
    ValueError
        If a parameter is missing or not of its declared type.
    """

    def __init__(
        self,
        notebook: str,
        namespace: Mapping[str, Any],
        *,
        folder: str | os.PathLike | None = None,
        notebooks: str | os.PathLike = FOLDER,
    ):
        self.notebook = read(Path(notebooks) / f"{notebook}.ipynb")
        self.parameters = _parameters(self.notebook, namespace)
        self.folder = Path(folder or figures_folder()) / notebook
        self.started = time.perf_counter()

    def save(
        self,
        figure,
        name: str,
        caption: str,
        traces: Iterable[Trace] = (),
        numbers: list[dict[str, Any]] | None = None,
    ) -> None:
        """Write ``<name>.{png,svg,pdf,json}``, each file whole or not at all.

        Parameters
        ----------
        figure : matplotlib Figure; the caption is written beneath it
        name : one of the figures that the notebook's metadata declare
        caption : what is shown; sentences on the data and the machine are appended
        traces : the runs that the figure shows
        numbers : the rows of a table or the points of a curve, for a report to read

        Raises
        ------
        ValueError
            For a figure that the notebook does not declare.
        """
        if name not in self.notebook.figures:
            raise ValueError(
                f"figure: {self.notebook.name} does not declare {name!r} in its metadata; "
                f"it declares {', '.join(self.notebook.figures)}"
            )
        provenance = made_by(list(traces))
        record = {
            "figure": name,
            "notebook": f"notebooks/figures/{self.notebook.name}.ipynb",
            "profile": next(
                (p for p in PROFILES if self.notebook.values(p) == self.parameters), None
            ),
            "parameters": self.parameters,
            "caption": " ".join([caption, *_sentences(provenance)]),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self.started, 1),
            **provenance,
        }
        if numbers is not None:
            record["numbers"] = numbers
        self.folder.mkdir(parents=True, exist_ok=True)
        _draw(figure, self.folder / name, record["caption"])
        text = json.dumps(encode(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        _replace(self.folder / f"{name}.json", text.encode())
        print(f"saved {self.folder.name}/{name}")


def figures_folder() -> Path:
    """Return where figures go: ``WORKBENCH_FIGURES``, or ``figures/`` of the checkout."""
    return Path(os.environ.get("WORKBENCH_FIGURES") or CHECKOUT / "figures")


def made_by(traces: list[Trace]) -> dict[str, Any]:
    """Return the data, solvers, machine, versions and conditions that lie behind some runs.

    ``wall_over_cpu`` is the ratio of the runs' wall to CPU seconds: near 1 on an idle machine with
    one thread, more where something else had the processor. ``jobs`` is the number of notebooks
    that ran side by side.
    """
    headers = [trace.header for trace in traces]
    wall = sum(trace.last.get("seconds", 0.0) for trace in traces)
    cpu = sum(trace.last.get("cpu", 0.0) for trace in traces)
    loads = [header["load"] for header in headers if header["load"] is not None]
    keys = ("solver", "parameters", "rules")
    return {
        "data": _unique(header["problem"] for header in headers),
        "solvers": _unique({key: header[key] for key in keys} for header in headers),
        "runs": len(traces),
        "machine": machine(),
        "threads": headers[0]["threads"] if headers else threads(),
        "load": max(loads, default=None),
        "wall_over_cpu": round(wall / cpu, 2) if cpu > 0 else None,
        "jobs": int(os.environ.get("WORKBENCH_JOBS", "1")),
        "versions": versions(),
        "commit": versions()["commit"],
    }


def _sentences(made: dict[str, Any]) -> list[str]:
    """Say in words what data and what machine lie behind a figure."""
    sentences = []
    if made["data"]:
        groups: dict[tuple[str, bool], list[dict]] = {}
        for problem in made["data"]:
            # Generators put the size into the name; here one phrase tells the range of sizes.
            name = re.sub(r" \d+x\d+x\d+", "", problem["name"])
            groups.setdefault((name, problem["synthetic"]), []).append(problem)
        described = [
            f"{name} ({'synthetic, ' if synthetic and 'synthetic' not in name else ''}"
            + ", ".join(f"{key} = {_range(p[key] for p in problems)}" for key in "ndk")
            + ")"
            for (name, synthetic), problems in groups.items()
        ]
        sentences.append(f"Data: {'; '.join(described)}.")
    computer = made["machine"]
    most = max(made["threads"].values(), default=1)
    sentences.append(
        f"Machine: {computer['cpu']}, {computer['cores']} cores, "
        f"{most} BLAS thread{'s' if most > 1 else ''}."
    )
    if made["jobs"] > 1:
        sentences.append(f"Not a clean timing: {made['jobs']} notebooks ran side by side.")
    elif (made["wall_over_cpu"] or 1) > 1.2:
        sentences.append(
            "Not a clean timing: the machine was busy "
            f"(wall time was {made['wall_over_cpu']} times CPU time)."
        )
    return sentences


def _parameters(notebook: Notebook, namespace: Mapping[str, Any]) -> dict[str, Any]:
    missing = [name for name in notebook.parameters if name not in namespace]
    if missing:
        raise ValueError(f"{notebook.name}: parameters {missing} are not set; run their cell first")
    values = {name: namespace[name] for name in notebook.parameters}
    for name, parameter in notebook.parameters.items():
        # papermill's `-p grid 1e-2` passes a number where a list of one was meant.
        if parameter.type is str and type(values[name]) in (int, float):
            values[name] = str(values[name])
    return notebook.check(values)


def _draw(figure, stem: Path, caption: str) -> None:
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(caption, int(width * 72 / (0.54 * CAPTION_POINTS)))
    text = figure.text(
        0.01,
        -6 / 72 / height,
        "\n".join(lines),
        va="top",
        fontsize=CAPTION_POINTS,
        color="#444444",
        linespacing=1.35,
        in_layout=True,
    )
    try:
        with matplotlib.rc_context({"svg.hashsalt": "workbench", "pdf.fonttype": 42}):
            for kind, metadata in METADATA.items():
                sink = BytesIO()
                figure.savefig(sink, format=kind, metadata=metadata, bbox_inches="tight", dpi=160)
                content = _palette(sink) if kind == "png" else sink.getvalue()
                _replace(Path(f"{stem}.{kind}"), content)
    finally:
        text.remove()


def _palette(png: BytesIO) -> bytes:
    """Return the picture with 256 colours: a third of the size, and no visible difference."""
    sink = BytesIO()
    picture = Image.open(png).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(sink, format="png", optimize=True)
    return sink.getvalue()


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _unique(items: Iterable[dict]) -> list[dict]:
    return list({json.dumps(item, sort_keys=True, default=str): item for item in items}.values())


def _range(values: Iterable[int]) -> str:
    values = list(values)
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
