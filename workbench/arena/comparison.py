"""Your own data in one line: look at it, run a sensible set of solvers, show how they did.

>>> compare("rows.csv", "species", seconds=30)                    # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib.figure import Figure

from workbench.arena.contest import Contest, planned
from workbench.arena.own_data import Inspected, inspected, thinned
from workbench.arena.recipe import recipe
from workbench.data.formats import write_npz
from workbench.figures.provenance import as_json, in_words, made_by
from workbench.figures.saved import METADATA
from workbench.figures.style import STYLE, look
from workbench.runs.engine import Say, execute
from workbench.runs.sweep import runs_folder
from workbench.runs.worker import Limits

# Those that end first come first: an early end still shows something.
SENSIBLE = (
    "centroid",
    "ridge",
    "logistic_lbfgs",
    "liblinear_l2_dual",
    "ww_walrus_fast",
    "ls_accelerated",
    "mrc_splitting",
    "cs_working_set",
    "libsvm",
    "cuts_nystroem",
    "ls_stagewise",
)
PASSES = 1e7  # numbers of a dense row times classes for which a second of budget is enough
FEW = 1000  # rows that are kept in any case
SHARE = 0.2  # of the time given that is solver clock: the rest loads, compiles, judges, fits peers


@dataclass(frozen=True)
class Comparison:
    """How a set of solvers did on one's own data; a notebook shows it as a table and a figure.

    Attributes
    ----------
    data : the rows and the notes on what was done to them
    done : the contest
    rows : the expression that makes the problem again
    test : share of test rows
    interrupted : whether Ctrl-C ended it; the same call goes on with the rest
    """

    data: Inspected
    done: Contest
    rows: str
    test: float
    interrupted: bool = False

    def table(self) -> pd.DataFrame:
        """Return a row for each entry that ended, by test error; the others at the end.

        ``within_noise`` tells whether the error is less than two standard errors (of the
        difference, as if the errors were independent) from the least.
        """
        frame = self.done.frame()
        frame = frame.sort_values(["test_error", "fit_cpu"], kind="stable")
        least = frame.iloc[0]
        noise = 2 * np.hypot(frame["standard_error"], least["standard_error"])
        frame["within_noise"] = frame["test_error"] - least["test_error"] <= noise
        names = ["entry", "label", "family", "status", "reason", "test_error", "standard_error"]
        names += ["within_noise", "cut", "fit_cpu", "memory_mb", "settings"]
        return frame[names].reset_index(drop=True)

    @property
    def ended(self) -> bool:
        """Whether any entry has ended."""
        return bool((self.table()["status"] == "done").any())

    @property
    def best(self) -> str:
        """The entry with the least test error.

        Raises
        ------
        RuntimeError
            When none has ended.
        """
        if not self.ended:
            raise RuntimeError(f"compare: no entry has ended; {self._unfinished()}")
        return self.table()["entry"].iloc[0]

    def code(self, name: str | None = None) -> str:
        """Return a few lines of Python that fit an entry, by default the best, and score it."""
        (trace,) = self.done.traces(entry=name or self.best)
        entry = next(m.entry for m in self.done.matches if m.name == (name or self.best))
        used, about = trace.header["parameters"], trace.header["contest"]
        chosen = {*entry.fixed, *entry.ranges, "seed"} & set(used)
        own = {p: v for p, v in used.items() if p in chosen}
        return recipe(self.rows, entry, own, about["rounds"], about["n"])

    def figure(self) -> Figure:
        """Draw test error over the CPU seconds of the fit, both with their labels."""
        done = self.table().query("status == 'done'")
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        ax = figure.subplots()
        for row in done.itertuples():
            _, colour, marker = look(row.entry)
            style = {"color": colour, "marker": marker, "linestyle": "none"}
            at, error, spread = row.fit_cpu, 100 * row.test_error, 100 * row.standard_error
            face = "white" if row.cut else colour
            ax.errorbar(at, error, spread, elinewidth=0.8, mfc=face, **style)
            ax.plot([], [], label=row.label, **style)
        ax.set(xscale="log", xlabel="processor time of the fit (s)", ylabel="test error (%)")
        ax.set_ylim(bottom=0)
        figure.legend(loc="outside right upper", fontsize=7)
        return figure

    def save(self, folder: str | os.PathLike) -> Path:
        """Write the table, the code, and the figure as png, svg and pdf with a json of how.

        Returns
        -------
        folder : where ``compare.*`` are
        """
        import matplotlib

        folder, table, made = Path(folder), self.table(), made_by(self.done.traces())
        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(STYLE | {"svg.hashsalt": "workbench", "pdf.fonttype": 42}):
            figure = self.figure()
            for kind, metadata in METADATA.items():
                figure.savefig(folder / f"compare.{kind}", metadata=metadata, dpi=160)
        caption = " ".join([*self._sentences(), *in_words(made)])
        record = {"figure": "compare", "caption": caption, "code": self.code(), **made}
        record["numbers"] = table.to_dict("records")
        (folder / "compare.json").write_text(as_json(record), encoding="utf-8")
        table.to_csv(folder / "compare.csv", index=False)
        (folder / "compare.py").write_text(self.code(), encoding="utf-8")
        return folder

    def __str__(self) -> str:
        table = self.table()
        done = table[table["status"] == "done"]
        shown = _in_words(done).to_string(index=False) if len(done) else "nothing has ended"
        code = (
            [f"\nThe code that repeats {look(self.best).label}:\n", self.code()]
            if len(done)
            else []
        )
        return "\n".join([*self._sentences(), "", shown, "", self._unfinished(), *code])

    def _repr_html_(self) -> str:
        import io

        import matplotlib

        said = "".join(f"<li>{html.escape(line)}</li>" for line in self._sentences())
        done = self.table().query("status == 'done'")
        if not len(done):
            return f"<ul>{said}</ul><p>{html.escape(self._unfinished())}</p>"
        sink = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self.figure().savefig(sink, format="svg", metadata=METADATA["svg"])
        picture = sink.getvalue()[sink.getvalue().index("<svg") :]
        table = _in_words(done).to_html(index=False, border=0)
        end = f"<p>{html.escape(self._unfinished())}</p><pre>{html.escape(self.code())}</pre>"
        return f"<ul>{said}</ul>{table}{picture}{end}"

    def _sentences(self) -> list[str]:
        """Return what was done to the data, and what the table can carry."""
        about = self.done.matches[0]
        sentences = [f"{self.data.name}: {note}." for note in self.data.notes]
        done = self.table().query("status == 'done'")
        if len(done):
            first = done.iloc[0]
            near = [label for label, n in zip(done["label"], done["within_noise"]) if n][1:]
            alike = f"within noise of it: {', '.join(near)}" if near else "all others err more"
            sentences.append(
                f"Least test error: {first.label}, {100 * first.test_error:.2f} % "
                f"(standard error {100 * first.standard_error:.2f}); {alike}."
            )
        if len(cut := list(done["label"][done["cut"].astype(bool)])):
            sentences.append(
                f"Cut by the clock, hollow in the figure, and perhaps better with more time: "
                f"{', '.join(cut)}."
            )
        sentences.append(
            f"One random split, {100 * self.test:g} % of the rows for the test; every entry had "
            f"{about.budget:.2g} s of CPU time to choose its settings on validation rows. The "
            "least of several test errors is a little too good to be true of new rows."
        )
        return sentences

    def _unfinished(self) -> str:
        table = self.table()
        left = table[table["status"] != "done"]
        rows = [
            f"{r.label}: {r.status}{', ' * bool(r.reason)}{r.reason}" for r in left.itertuples()
        ]
        return "\n".join(rows)


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
    """Run a sensible set of solvers on one's own data, on equal terms, and say how they did.

    Ctrl-C ends it early and keeps what has ended. What has ended is not run again.

    Parameters
    ----------
    data, target : a file, frame or pair, see :func:`workbench.arena.own_data.inspected`
    seconds : about how long all may take; too many rows for it are thinned, with a note
    entries : names of entries or solvers; by default :data:`SENSIBLE`
    test : random share of test rows
    jobs : worker processes, by default half of the cores
    folder : where traces are kept, by default ``runs/arena`` of the checkout
    say : receives the progress, line by line

    Raises
    ------
    ValueError
        Saying in plain words what is wrong with the data or an argument.
    FileNotFoundError
        For a file that there is not.
    """
    if not 0 < seconds < np.inf:
        raise ValueError(f"seconds: must be positive and finite, got {seconds!r}")
    jobs = max(1, (os.cpu_count() or 1) // 2) if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs!r}")
    whole, names = inspected(data, target), list(entries or SENSIBLE)
    budget = SHARE * seconds * jobs / len(names)
    most = max(FEW, round(budget * PASSES / (_width(whole) * len(np.unique(whole.y)))))
    kept = thinned(whole, most)
    for note in kept.notes:
        say(f"{kept.name}: {note}")
    folder = Path(folder or runs_folder() / "arena").absolute()
    path = folder / "data" / f"{_plain(kept.name)}-{_digest(kept)}.npz"
    if not path.exists():
        write_npz(path, kept.rows)
    settings = {"partitions": 1, "budget": budget, "fit": None, "test": test, "timing": False}
    done = planned([path], names, **settings, folder=folder)
    running = [match for match in done.matches if match.key not in done.refused]
    if left := sum(not match.path(folder).exists() for match in running):
        say(
            f"solvers: {left}, {jobs} at a time, about {seconds * left / len(names):.2g} s; the "
            "first time on this machine minutes more, to compile them, on nobody's clock"
        )
    interrupted = False
    try:
        limits = Limits(max(60.0, seconds))  # far off: compiling takes its time too
        failures = execute(running, folder, jobs=jobs, limits=limits, say=say)
        done = replace(done, failures=failures)
    except KeyboardInterrupt:
        interrupted = True
    thin = f", most={most}" if len(kept.y) < len(whole.y) else ""
    rows = f"prepared({_expression(data, target)}, test={test}{thin})"
    return Comparison(kept, done, rows, test, interrupted)


def _width(data: Inspected) -> float:
    """Return the mean number of values in a row that is not zero everywhere."""
    return data.X.nnz / data.X.shape[0] if sp.issparse(data.X) else data.X.shape[1]


def _expression(data, target: str | None) -> str:
    """Return how the data are called in the code, a file so that it is found from any folder."""
    named = f", target={target!r}" if target is not None else ""
    if isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        return repr(str(path.absolute()) if path.is_file() else os.fspath(data)) + named
    return ("(X, y)" if isinstance(data, tuple) else "frame") + named


def _digest(data: Inspected) -> str:
    parts = (data.X.data, data.X.indices, data.X.indptr) if sp.issparse(data.X) else (data.X,)
    digest = hashlib.sha256(repr((data.X.shape, data.features)).encode())
    for part in (*parts, data.y.astype(str)):
        digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()[:12]


def _plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "_", name)[:40] or "data"


def _in_words(done: pd.DataFrame) -> pd.DataFrame:
    """Return the table as people read it."""
    best = done["within_noise"].map({True: "*", False: ""})
    memory = done["memory_mb"].astype(float)
    return pd.DataFrame(
        {
            "": best,
            "solver": done["label"],
            "test error %": (100 * done["test_error"]).map("{:.2f}".format),
            "±": (100 * done["standard_error"]).map("{:.2f}".format),
            "fit, CPU s": done["fit_cpu"].map("{:.2g}".format),
            "memory, MB": memory.map("{:.1f}".format).where(memory.notna(), ""),
            "chosen": done["settings"],
        }
    )
