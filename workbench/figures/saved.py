"""Save figures with a record of their making, for figure notebooks.

>>> figures = Figures("mrc_convergence", globals())            # doctest: +SKIP
>>> figures.save(fig, "gap", "Certified gap over time.", runs)  # doctest: +SKIP
"""

import os
import re
import shutil
import textwrap
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from io import BytesIO
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from IPython.display import Image, display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image as Picture

from workbench.core.files import digest, whole
from workbench.core.kinds import PathLike, Record, Steps, Values
from workbench.core.problem import Problem
from workbench.core.stream import Measure, Rule, State
from workbench.core.trace import Trace, read_trace, write_trace
from workbench.figures.plots import ENDED, ended_by_clock
from workbench.figures.provenance import as_json, in_words, made_by, regenerated_by
from workbench.figures.style import (
    PAPER_SIZES,
    hide_minor_ticks,
    mark_minor_ticks,
    use_style,
)
from workbench.runs.engine import key, place_of
from workbench.runs.mill import notebook_key, timed
from workbench.runs.notebooks import FOLDER, Notebook, read
from workbench.runs.results import recalled, write_results
from workbench.runs.run import run as run_solver
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import one_thread, timed_alone

# The time of day, which matplotlib would write, is left out, so that equal figures give
# equal files.
METADATA = {
    "png": {},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
CAPTION_POINTS = 7
# A longer caption is shortened in the picture; the sidecar and the report have all of
# it.
MAX_LINES = 4
# Matches the space between sentences, some of which begin with a data set's name in
# lower case.
SENTENCES = re.compile(r"(?<=[.!?]) ")


class Figures:
    """The figures of a notebook; each picture is saved with a record of its making.

    Creating an instance sets matplotlib to the house style. Pictures are png files; the
    profile ``paper``, the style of a paper and the folder ``figures/`` also get svg and
    pdf files.

    Parameters
    ----------
    notebook : str
        The notebook's name, as in ``notebooks/figures/<notebook>.ipynb``.
    namespace : dict
        The notebook's ``globals()``, which contain its parameters.
    folder : path, optional
        The folder of all figures. The default is the environment variable
        ``WORKBENCH_FIGURES``, which `workbench figures` sets, or ``by_hand/`` in the
        runs' folder for a notebook that is run by hand.
    notebooks : path
        The folder of the notebook file, which may also be in the current folder
        (default: ``notebooks/figures`` of the checkout).

    Attributes
    ----------
    measured : list of Trace
        The traces of :meth:`kept` functions, to which a notebook adds traces of a sweep
        that no figure shows. For figures in ``figures/``, they and the traces of the
        figures are written to ``results/``.
    timed : bool
        Whether the seconds of the notebook's own runs are timings: its parameter
        ``timing`` is true, and no other notebook runs at the same time.

    Raises
    ------
    ValueError
        If a parameter of the notebook is not in `namespace`, or is refused.
    """

    def __init__(
        self,
        notebook: str,
        namespace: Values,
        *,
        folder: PathLike | None = None,
        notebooks: PathLike = FOLDER,
    ):
        name = f"{notebook}.ipynb"
        paths = [path for path in (Path(notebooks, name), Path(name)) if path.is_file()]
        # A copy that is run by hand in another folder cannot be found, so it may save
        # any figure.
        self.notebook = read(paths[0]) if paths else Notebook(Path(name), {}, {}, ())
        names = self.notebook.parameters
        if missing := [name for name in names if name not in namespace]:
            raise ValueError(
                f"{notebook}: parameters {missing} are not set; run their cell first"
            )
        self.parameters = self.notebook.check({name: namespace[name] for name in names})
        # If `workbench figures` runs the notebook, it has computed the key.
        handed_on = os.environ.get("WORKBENCH_KEY")
        self.key = handed_on or notebook_key(self.notebook, self.parameters)
        # A key of PAPER_SIZES, or None.
        self.style = os.environ.get("WORKBENCH_STYLE")
        use_style()
        folder = (
            folder or os.environ.get("WORKBENCH_FIGURES") or runs_folder() / "by_hand"
        )
        self.folder = Path(folder) / notebook
        self.started = time.perf_counter()
        self.measured: list[Trace] = []
        self.timed = timed_alone(timed(self.parameters))

    def run(
        self,
        solver: str | Steps,
        problem: Problem,
        *rules: Rule,
        judge: Measure | None = None,
        seed: int | None = None,
        ends: bool = False,
        **options,
    ) -> tuple[Trace, State | None]:
        """Run a solver, evaluate its last state, and record how the run was made.

        Parameters
        ----------
        solver, problem, rules
            The arguments of :func:`workbench.runs.run.run`.
        judge : function, optional
            A measure such as :func:`workbench.core.measures.errors` of the problem. Its
            result for the last state is added to the last row of the trace. It is not
            timed.
        seed : int, optional
            The seed that distinguishes this run from its repetitions, for the record.
        ends : bool
            Whether only the first and the last row are kept, for a figure of the ends
            of runs (default: False).
        options
            The other arguments of :func:`workbench.runs.run.run`, such as
            ``parameters``.

        Returns
        -------
        trace : Trace
            Its header has the seed, and whether the run was timed.
        state : State or None
            The last state, or None if the run was interrupted within a round.
        """
        trace, state = run_solver(solver, problem, *rules, **options)
        if judge and state:
            trace.last.update(judge(state))
        trace.header |= {"timed": self.timed, "seed": seed}
        if ends:
            del trace.rows[1:-1]
        return trace, state

    def kept(self, run: Callable[..., Trace]) -> Callable[..., Trace]:
        """Return the function with stored runs, so that a stopped notebook can resume.

        Parameters
        ----------
        run : function
            A function that takes plain values, the first of which describes the data,
            and returns a trace. Everything else that it reads must follow from the
            notebook's cells and parameters. It runs on one thread, and on one core if
            the notebook is timed.

        Returns
        -------
        run : function
            The same function, except that it returns a stored trace of the same code,
            parameters and values, if there is one. With ``--from results`` it returns
            the trace of the same notebook and values, or raises a FileNotFoundError.
        """

        @wraps(run)
        def once(*values: object) -> Trace:
            call = f"{self.notebook.name}: {run.__name__}{values}"
            if (known := recalled()) is not None:
                if call not in known:
                    raise FileNotFoundError(
                        f"results: do not contain the run {call}; leave out --from to "
                        "make it"
                    )
                return known[call]
            own = key(call=call, notebook=self.key, timed=self.timed)
            path = runs_folder() / "points" / place_of(own)
            trace = _whole(path)
            if trace is None:
                with one_thread(self.timed):
                    trace = run(*values)
                rows = len(trace.rows)
                trace.header |= {"key": own, "call": call, "data": values[0]}
                trace.header["rows"] = rows
                if trace.stopped_by != "interrupted":
                    write_trace(path, trace)
            self.measured.append(trace)
            return trace

        return once

    def save(
        self,
        figure,
        name: str,
        caption: str,
        traces: Iterable[Trace] = (),
        numbers: list[Record] | None = None,
        proofs: Iterable[PathLike] = (),
    ) -> None:
        """Write ``<name>.png``, ``<name>.json`` and, for final figures, svg and pdf.

        Each file is written whole or not at all.

        Parameters
        ----------
        figure : matplotlib Figure
            The figure, below which the caption is written unless it is for a paper. The
            notebook shows the saved picture, and the figure is closed.
        name : str
            The name of a figure that the notebook's metadata declare.
        caption : str
            Sentences on the figure; the first sentence says what it shows. Sentences on
            the data, the machine and the runs that the clock ended are appended. The
            picture shows the first sentences that fit in four lines, up to an empty
            line, and the appended sentences in brief.
        traces : iterable of Trace
            The runs that the figure shows.
        numbers : list of dict, optional
            The rows of a table or the points of a curve, for the report.
        proofs : iterable of paths
            Files of proofs (:mod:`workbench.proofs`) of the results in the figure. They
            are copied to ``<name>.proofs/``, and the report verifies them.

        Raises
        ------
        ValueError
            If the notebook does not declare this figure.
        """
        if self.notebook.figures and name not in self.notebook.figures:
            raise ValueError(
                f"figure: {self.notebook.name} does not declare {name!r} in its "
                f"metadata; it declares {', '.join(self.notebook.figures)}"
            )
        traces = list(traces)
        record = self._record(figure, name, caption, traces)
        if numbers is not None:
            record["numbers"] = numbers
        copies = self.folder / f"{name}.proofs"
        files = [Path(proof) for proof in proofs]
        if recalled() is not None:  # results have no proofs: keep the folder's
            files = sorted(copies.glob("*.npz"))
        if files:
            record["proofs"] = [f"{name}.proofs/{file.name}" for file in files]
        record["labels"] = _labels(figure)
        record["files"] = self._pictures(figure, name, record)
        if recalled() is None:
            _copy(files, copies)
        with whole(self.folder / f"{name}.json") as part:
            part.write_text(as_json(record), encoding="utf-8")
        self._keep(traces)
        plt.close(figure)  # the notebook shows the saved picture, with its caption
        width = 100 * figure.get_size_inches()[0]
        display(Image(f"{self.folder / name}.png", width=width))

    def _record(self, figure, name: str, caption: str, traces: list[Trace]) -> Record:
        """Return the record of a figure: its notebook, parameters, runs and caption."""
        made = made_by(traces)
        when = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "key": self.key,
            "seconds": round(time.perf_counter() - self.started, 1),
        }
        known = [t.header for t in traces or self.measured if "started" in t.header]
        if known and recalled() is not None:
            # Equal results give equal files, on any machine.
            last = max(known, key=lambda header: header["started"])
            when = {"date": last["started"], "key": "results", "seconds": None}
            made |= {"versions": last["versions"], "commit": last["versions"]["commit"]}
        profile, command = regenerated_by(self.notebook, self.parameters)
        times = timed(self.notebook.values("quick")) or timed(self.parameters)
        cut = ended_by_clock(traces)
        beneath = [f"{ENDED}."] * bool(cut) + in_words(made, times, brief=True)
        paragraphs = caption.split("\n\n")
        width = figure.get_size_inches()[0]
        record = {
            "figure": name,
            "notebook": f"notebooks/figures/{self.notebook.name}.ipynb",
            "profile": profile,
            "command": command,
            "parameters": self.parameters,
            "caption": " ".join(
                filter(None, [*paragraphs, cut, *in_words(made, times)])
            ),
            "beneath": _lines(paragraphs[0], " ".join(beneath), width),
            **when,
            **made,
        }
        if self.style:
            # Another key makes the next run draw the caption again.
            record |= {"beneath": [], "key": f"{record['key']}, {self.style}"}
        return record

    def _pictures(self, figure, name: str, record: Record) -> dict[str, str]:
        """Write the pictures of a figure, and return their digests by kind."""
        stem = self.folder / name
        final = self.style or record["profile"] == "paper" or self._is_kept()
        kinds = [*METADATA] if final else ["png"]
        with matplotlib.rc_context():
            use_style()
            _draw(figure, stem, record["beneath"], self.style, kinds)
        for kind in METADATA.keys() - kinds:  # files of an earlier picture
            Path(f"{stem}.{kind}").unlink(missing_ok=True)
        return {kind: digest(Path(f"{stem}.{kind}")) for kind in kinds}

    def _is_kept(self) -> bool:
        """Return whether the figures go to ``figures/``, as in the profile paper."""
        return self.folder.parent.name == "figures"

    def _keep(self, traces: list[Trace]) -> None:
        """Write the traces of figures in figures/ to results/, unless they come from
        there."""
        if not self._is_kept() or recalled() is not None:
            return
        self.measured += [
            trace for trace in traces if trace.header.keys() & {"stop", "call"}
        ]
        if self.measured:
            path = self.folder.parents[1] / "results" / f"{self.notebook.name}.parquet"
            write_results(path, self.measured, self.parameters)


def _whole(path: Path) -> Trace | None:
    """Return a stored trace, or None if there is none or it is damaged."""
    with suppress(ValueError, FileNotFoundError):
        trace = read_trace(path)
        if trace.header.get("rows") == len(trace.rows):
            return trace
    return None


def _lines(caption: str, end: str, width: float) -> list[str]:
    """Return lines with the first sentences that fit below a figure, at least one, and
    `end`."""
    sentences = SENTENCES.split(caption)
    for kept in range(len(sentences), 0, -1):
        text = " ".join([*sentences[:kept], end])
        lines = textwrap.wrap(text, int(width * 72 / (0.54 * CAPTION_POINTS)))
        if len(lines) <= MAX_LINES:
            break
    return lines


def _labels(figure) -> list[str]:
    """Return the titles and labels of a figure's axes, without duplicates."""
    texts: list[str] = []
    for ax in figure.axes:
        texts += ax.get_title("left"), ax.get_xlabel(), ax.get_ylabel()
    return [*dict.fromkeys(filter(None, texts))]


def _copy(files: Iterable[Path], folder: Path) -> None:
    """Replace a folder by copies of these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for file in files:
        with whole(folder / file.name) as part:
            shutil.copyfile(file, part)


def _draw(
    figure, stem: Path, lines: list[str], paper: str | None, kinds: Iterable[str]
) -> None:
    height, canvas = figure.get_size_inches()[1], figure.canvas
    FigureCanvasAgg(figure)  # other backends measure texts differently
    if paper:
        width, scale = PAPER_SIZES[paper]
        figure.set_size_inches(width, scale * height)
        _narrow(figure)
    text = figure.text(0.01, -6 / 72 / height, "\n".join(lines), in_layout=True)
    text.set(fontsize=CAPTION_POINTS, color="#444444", linespacing=1.35, va="top")
    # The layout and its border are computed once, instead of once per format.
    hidden = hide_minor_ticks(figure)
    figure.draw_without_rendering()
    mark_minor_ticks(hidden)
    layout = figure.get_layout_engine()
    border = figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
    border = None if paper else border  # a paper's width is exact
    fixed: dict = {"figure.constrained_layout.use": False}
    fixed |= {"svg.hashsalt": "workbench", "pdf.fonttype": 42}
    try:
        with matplotlib.rc_context(fixed):
            figure.set_layout_engine(None)
            for kind in kinds:
                sink = BytesIO()
                how: dict = {"format": kind, "metadata": METADATA[kind], "dpi": 160}
                figure.savefig(sink, bbox_inches=border, **how)
                content = _palette(sink) if kind == "png" else sink.getvalue()
                with whole(f"{stem}.{kind}") as part:
                    part.write_bytes(content)
    finally:
        figure.set_layout_engine(layout)
        figure.set_canvas(canvas)
        text.remove()


def _narrow(figure) -> None:
    """Wrap wide labels, and give wide legends as many columns as fit."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        for text in (ax.title, ax._left_title, ax.xaxis.label):
            letters = int(
                ax.bbox.width * 72 / figure.dpi / (0.52 * text.get_fontsize())
            )
            if "$" not in (words := text.get_text().replace(" = ", "\u00a0=\u00a0")):
                lines = (textwrap.fill(line, letters) for line in words.splitlines())
                text.set_text("\n".join(lines))
    for part in (figure, *figure.subfigs):
        for old in part.legends[:]:
            if (wide := old.get_window_extent().width / part.bbox.width) > 1.0:
                labels = [text.get_text() for text in old.texts]
                old.remove()
                columns = max(1, int(old._ncols / wide))
                place: dict = {"loc": "outside upper center", "ncols": columns}
                part.legend(old.legend_handles, labels, **place)


def _palette(png: BytesIO) -> bytes:
    """Return the picture with 256 colours, which has a third of the size."""
    sink = BytesIO()
    picture = Picture.open(png).convert("RGB").quantize(256, dither=Picture.Dither.NONE)
    picture.save(sink, format="png", optimize=True)
    return sink.getvalue()
