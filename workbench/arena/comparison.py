"""Your own data in one line: check it, run a sensible set of solvers, show how they did.

>>> compare("rows.csv", "species", seconds=30)                    # doctest: +SKIP
"""

from __future__ import annotations

import html
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib.figure import Figure

from workbench.arena import rivals
from workbench.arena.contest import Contest, plan
from workbench.arena.own_data import Inspected, inspected, prepared, thinned
from workbench.arena.rivals import RIVALS, answer
from workbench.core.problem import as_problem
from workbench.data.formats import write_npz
from workbench.data.panels import listed
from workbench.figures.saved import METADATA
from workbench.figures.style import STYLE, look
from workbench.runs.progress import Say
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits

# Fast methods come first, so that an early end still shows something.
SENSIBLE = listed(
    "random_forest, extra_trees, boosting, centroid, ridge, logistic_lbfgs, liblinear_l2_dual, "
    "ww_walrus_fast, ls_accelerated, mrc_splitting, cs_working_set, libsvm, cuts_nystroem, "
    "ls_stagewise"
)
# The simplest to store and to explain first; what is not among them comes last.
SIMPLEST = listed(
    "centroid, ridge, logistic_lbfgs, liblinear_l2_dual, liblinear_cs, ww_walrus_fast, ww_walrus, "
    "ls_accelerated, cs_working_set, memoir_l2, mrc_splitting, mrc_interior_point, ls_stagewise, "
    "boosting, random_forest, extra_trees, cuts_nystroem, libsvm"
)
PASSES = 1e7  # numbers of a dense row times classes for which a second of budget is enough
MIN_ROWS = 1000  # kept in any case
# Fraction of the time given that solvers are timed for; the rest loads, compiles, evaluates, and
# fits peers.
SOLVER_TIME_FRACTION = 0.2
CODE = """from workbench.arena import prepared
from workbench.core.measures import predictions
from workbench.core.stream import rounds
from workbench.runs.run import run

problem = {problem}
parameters = {parameters!r}
trace, state = run({solver!r}, problem, rounds({rounds}), parameters=parameters)
predicted = problem.classes[predictions(state, problem.X_test, problem.k)]
test_error = (predicted != problem.classes[problem.y_test]).mean()
print(f"test error: {{100 * test_error:.2f}} %")
"""


@dataclass(frozen=True)
class Comparison:
    """The results of a set of solvers on one's own data; a notebook shows a table and a figure.

    Attributes
    ----------
    data : the rows and the notes on what was done to them
    done : the contest
    trees : the rows of the table on trees, see :mod:`workbench.arena.rivals`
    rows : the expression that makes the problem again
    test : fraction of test rows
    interrupted : whether Ctrl-C ended it; the same call resumes it
    """

    data: Inspected
    done: Contest
    trees: Sequence[Mapping[str, Any]]
    rows: str
    test: float
    interrupted: bool = False

    def table(self) -> pd.DataFrame:
        """Return a row for each entry that ended, by test error; the others at the end.

        ``within_noise`` says whether the error is less than two standard errors (of the
        difference, as if the errors were independent) from the least.
        """
        frame = pd.DataFrame([*self.trees, *self.done.frame().to_dict("records")])
        frame = frame.sort_values(["test_error", "fit_cpu"], kind="stable")
        least = frame.iloc[0]
        noise = 2 * np.hypot(frame["standard_error"], least["standard_error"])
        frame["within_noise"] = frame["test_error"] - least["test_error"] <= noise
        names = ["entry", "label", "family", "status", "reason", "test_error", "standard_error"]
        names += ["within_noise", "cut", "fit_cpu", "memory_mb", "settings"]
        return frame[names].reset_index(drop=True)

    @property
    def ended(self) -> pd.DataFrame:
        """The rows of the table whose entries have ended."""
        return self.table().query("status == 'done'")

    @property
    def best(self) -> str:
        """The entry with the least test error.

        Raises
        ------
        RuntimeError
            If none has ended.
        """
        if self.ended.empty:
            raise RuntimeError(f"compare: no entry has ended; {self._unfinished()}")
        return self.ended["entry"].iloc[0]

    @property
    def recommended(self) -> str:
        """The simplest entry whose test error is within noise of the least."""
        near = self.ended["entry"][self.ended["within_noise"].astype(bool)]
        return min(near, key=lambda name: (*SIMPLEST, name).index(name))

    def code(self, name: str | None = None) -> str:
        """Return some lines of Python that fit an entry and score it, by default the recommended.

        Raises
        ------
        ValueError
            If this entry has not ended.
        """
        name = name or self.recommended
        if name not in set(self.ended["entry"]):
            raise ValueError(f"code: {name!r} has not ended; {', '.join(self.ended['entry'])} have")
        if name in RIVALS:
            return rivals.CODE.format(problem=self.rows, model=RIVALS[name].model)
        (trace,) = self.done.traces(entry=name)
        entry = next(m.entry for m in self.done.matches if m.name == name)
        own = {*entry.fixed, *entry.ranges, "seed"}
        parameters = {p: v for p, v in trace.header["parameters"].items() if p in own}
        rounds = trace.header["contest"]["rounds"]
        given = {"parameters": parameters, "solver": entry.solver, "rounds": rounds}
        return CODE.format(problem=self.rows, **given)

    def figure(self) -> Figure:
        """Draw test error over the CPU seconds of the fit, with the entries' names in a legend."""
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        ax = figure.subplots()
        for place, row in enumerate(self.ended.itertuples()):
            _, colour, marker = look(row.entry, place)
            style = {"color": colour, "marker": marker, "linestyle": "none"}
            at, error, spread = row.fit_cpu, 100 * row.test_error, 100 * row.standard_error
            face = "white" if row.cut else colour
            ax.errorbar(at, error, spread, elinewidth=0.8, mfc=face, **style)
            ax.plot([], [], label=row.label, **style)
        ax.set(xscale="log", xlabel="CPU time of the fit (s)", ylabel="test error (%)")
        ax.set_ylim(bottom=0)
        figure.legend(loc="outside right upper", fontsize=7)
        return figure

    def save(self, folder: str | os.PathLike) -> Path:
        """Write ``compare.csv``, ``compare.py``, and the figure as png, svg and pdf to a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(STYLE | {"svg.hashsalt": "workbench", "pdf.fonttype": 42}):
            figure = self.figure()
            for kind, metadata in METADATA.items():
                figure.savefig(folder / f"compare.{kind}", metadata=metadata, dpi=160)
        self.table().to_csv(folder / "compare.csv", index=False)
        (folder / "compare.py").write_text(self.code(), encoding="utf-8")
        return folder

    def __str__(self) -> str:
        table = self._in_words().to_string(index=False) if len(self.ended) else "nothing has ended"
        lines = [*self._sentences(), "", table, "", self._unfinished()]
        if len(self.ended):
            label = self.ended.set_index("entry").loc[self.recommended, "label"]
            lines += [f"\nThe code that repeats {label}:\n", self.code()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{html.escape(line)}</li>" for line in self._sentences())
        end = f"<p>{html.escape(self._unfinished())}</p>"
        if self.ended.empty:
            return f"<ul>{said}</ul>{end}"
        sink = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self.figure().savefig(sink, format="svg", metadata=METADATA["svg"])
        picture = sink.getvalue().partition("<svg")[2]
        table = self._in_words().to_html(index=False, border=0)
        return f"<ul>{said}</ul>{table}<svg{picture}{end}<pre>{html.escape(self.code())}</pre>"

    def _sentences(self) -> list[str]:
        """Return the changes to the data, and the conclusions that the table supports."""
        sentences = [f"{self.data.name}: {note}." for note in self.data.notes]
        done = self.ended
        if len(done):
            first = done.iloc[0]
            near = list(done["label"][done["within_noise"].astype(bool)])[1:]
            alike = f"tied with it: {', '.join(near)}" if near else "all others have more"
            sentences.append(
                f"Least test error: {first.label}, {100 * first.test_error:.2f} % "
                f"(standard error {100 * first.standard_error:.2f}); {alike}."
            )
            simple = done.set_index("entry").loc[self.recommended]
            memory = f" and {simple.memory_mb:.3g} MB" if simple.memory_mb > 0 else ""
            sentences.append(
                f"Recommended, {'the simplest of these' if near else 'as it stands alone'}: "
                f"{simple.label}, {100 * simple.test_error:.2f} %, "
                f"{simple.fit_cpu:.2g} s of CPU time{memory} for a fit."
            )
        if len(cut := list(done["label"][done["cut"].astype(bool)])):
            sentences.append(
                "Cut by the clock, hollow in the figure, and perhaps better with more time: "
                f"{', '.join(cut)}."
            )
        defaults = ", trees have scikit-learn's" * bool(self.trees)
        sentences.append(
            f"One random split, {100 * self.test:g} % of the rows for the test; every solver had "
            f"{self.done.matches[0].budget:.2g} s of CPU time to choose its settings on validation "
            f"rows{defaults}. The least of several test errors is a little optimistic for new rows."
        )
        return sentences

    def _unfinished(self) -> str:
        left = self.table().query("status != 'done'")
        reasons = left["reason"].str.removeprefix("RuntimeError: ")
        said = zip(left["label"], left["status"], reasons)
        return "\n".join(f"{label}: {', '.join(filter(None, rest))}" for label, *rest in said)

    def _in_words(self) -> pd.DataFrame:
        """Return the table as people read it."""
        done = self.ended
        memory = done["memory_mb"].astype(float)
        return pd.DataFrame(
            {
                "": done["within_noise"].map({True: "*", False: ""}),
                "solver": done["label"],
                "test error %": (100 * done["test_error"]).map("{:.2f}".format),
                "±": (100 * done["standard_error"]).map("{:.2f}".format),
                "fit, CPU s": done["fit_cpu"].map("{:.2g}".format),
                "memory, MB": memory.map("{:.1f}".format).where(memory.notna(), ""),
                "chosen": done["settings"],
            }
        )


def compare(
    data,
    target: str | None = None,
    *,
    seconds: float = 60.0,
    entries: Sequence[str] | None = None,
    test: float = 0.3,
    jobs: int | None = None,
    folder: str | os.PathLike | None = None,
    say: Say = print,
) -> Comparison:
    """Run a sensible set of solvers on one's own data, on equal terms, and return how they did.

    Ctrl-C ends it early and keeps what has ended. What has ended is not run again.

    Parameters
    ----------
    data, target : a file, frame or pair, see :func:`workbench.arena.own_data.inspected`
    seconds : about how long it may take; too many rows for it are thinned, with a note
    entries : names of entries, solvers or trees; by default :data:`SENSIBLE`
    test : random fraction of test rows
    jobs : worker processes, by default half of the cores
    folder : where traces are kept, by default ``runs/arena`` of the checkout
    say : receives the progress, line by line

    Raises
    ------
    ValueError
        In plain words, for data or an argument that cannot be used.
    FileNotFoundError
        For a missing file.
    """
    if not 0 < seconds < np.inf:
        raise ValueError(f"seconds: must be positive and finite, got {seconds!r}")
    jobs = max(1, (os.cpu_count() or 1) // 2) if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs!r}")
    whole, asked = inspected(data, target), list(entries or SENSIBLE)
    names = [name for name in asked if name not in RIVALS]
    if not names:
        raise ValueError(f"entries: name a solver besides trees; got {', '.join(asked)}")
    budget = SOLVER_TIME_FRACTION * seconds * jobs / len(names)
    n, d = whole.X.shape
    width = whole.X.nnz / n if sp.issparse(whole.X) else d
    most = max(MIN_ROWS, round(budget * PASSES / (width * len(np.unique(whole.y)))))
    kept = thinned(whole, most)
    for note in kept.notes:
        say(f"{kept.name}: {note}")
    folder = Path(folder or runs_folder() / "arena").absolute()
    checksum = as_problem(kept.X, kept.y, features=kept.features).checksum
    name = re.sub(r"[^\w-]+", "_", kept.name)[:40] or "data"
    path = folder / "data" / f"{name}-{checksum}.npz"
    if not path.exists():
        write_npz(path, kept.rows)
    done = plan([path], names, partitions=1, budget=budget, test=test, folder=folder)
    left = done.frame()["status"].eq("not run").sum()
    if left:
        say(
            f"solvers: {left}, {jobs} at a time, about {seconds * left / len(names):.2g} s; the "
            "first time on this machine minutes more to compile them, which is not timed"
        )
    thin = f", most={most}" if len(kept.y) < n else ""
    rows = f"prepared({_expression(data, target)}, test={test}{thin})"
    interrupted, trees = False, []
    try:  # with a distant limit: compiling takes its time too
        for name in filter(RIVALS.get, asked):
            trees.append(answer(name, prepared(data, target, test=test, most=most)))
            say(_first_answer(trees[-1]))
        done = done.run(jobs=jobs, limits=Limits(max(60.0, seconds)), say=say)
    except KeyboardInterrupt:
        interrupted = True
    return Comparison(kept, done, trees, rows, test, interrupted)


def _first_answer(row: Mapping[str, Any]) -> str:
    if row["status"] != "done":
        return f"{row['label']}: {row['status']}, {row['reason']}"
    error, spread = 100 * row["test_error"], 200 * row["standard_error"]
    low, high = max(0.0, error - spread), min(100.0, error + spread)
    return (
        f"{row['label']}, default settings: test error {error:.2f} %, between {low:.2f} and "
        f"{high:.2f} (two standard errors), {row['fit_cpu']:.2g} s"
    )


def _expression(data, target: str | None) -> str:
    """Return the data as an argument in the code, a file by its absolute path."""
    named = f", target={target!r}" if target is not None else ""
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        return repr(str(path.absolute()) if path.is_file() else os.fspath(data)) + named
    return ("(X, y)" if isinstance(data, tuple) else "frame") + named
