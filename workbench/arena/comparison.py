"""Your own data in one line: check it, run a sensible set of solvers, show how they did.

>>> compare("rows.csv", "species", seconds=30)                    # doctest: +SKIP
"""

from __future__ import annotations

import html
import io
import os
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib.figure import Figure

from workbench.arena.contest import Contest, wrong_rows
from workbench.arena.own_data import Inspected
from workbench.core.trace import read_trace
from workbench.core.watched import LEVEL, unequal
from workbench.data.panels import listed
from workbench.figures.saved import METADATA
from workbench.figures.style import STYLE, look

# The simplest to store and to explain first; what is not among them comes last.
SIMPLEST = listed(
    "centroid, ridge, logistic_lbfgs, liblinear_l2_dual, liblinear_cs, ww_walrus_fast, ww_walrus, "
    "ls_accelerated, cs_working_set, memoir_l2, mrc_splitting, mrc_interior_point, mrc_fourier, "
    "ls_stagewise, boosting, random_forest, extra_trees, cuts_nystroem, libsvm"
)
NEARLY = 0.02  # fraction of the least error that a simpler method may add to it
CODE = """from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from workbench.arena import inspected
from workbench.estimators import SolverClassifier

data = inspected({data})
X, y, X_test, y_test = data.split({split})
model = make_pipeline(
    {steps}SolverClassifier({model}),
)
model.fit(X, y)
print(f"test error: {{100 * (1 - model.score(X_test, y_test)):.2f}} %")

model.fit(data.X, data.y)  # on all rows, to predict new ones:
# model.predict(data.encode("new rows.csv")), a table with the same columns
"""


@dataclass(frozen=True)
class Comparison:
    """The results of a set of solvers on one's own data; a notebook shows a table and a figure.

    Attributes
    ----------
    data : the rows and the notes on what was done to them
    contests : of longer and longer searches, each without the entries that were surely worse than
        the best after the last
    given : the expression of the data in the code
    test : fraction of test rows
    most : rows that were kept, None for all
    interrupted : whether Ctrl-C ended it; the same call resumes it
    early : why it ended before its time, if it did
    """

    data: Inspected
    contests: tuple[Contest, ...]
    given: str
    test: float
    most: int | None = None
    interrupted: bool = False
    early: str = ""

    def table(self) -> pd.DataFrame:
        """Return a row for each entry that ended, by test error; the others at the end.

        ``excess`` is the error above the least, and ``excess_error`` the standard error of this
        difference on the same test rows, as McNemar's test has it: b rows that only this entry has
        wrong and c that only the best has wrong give sqrt(b + c) over the number of rows.
        ``tied`` entries take part in the last contest and are not surely worse than the best: of
        all comparisons, the entry that is in truth the best is called worse in at most
        :data:`LEVEL`, though it is looked at after every search. An entry has the row of the
        contest in which its validation error was least.
        """
        frame = pd.concat([c.frame() for c in reversed(self.contests)], ignore_index=True)
        frame = frame.sort_values("validation_error", kind="stable").drop_duplicates("entry")
        frame = frame.sort_values(["test_error", "fit_cpu"], kind="stable", ignore_index=True)
        ended = frame["status"] == "done"
        wrong = [wrong_rows(row) for row in frame[ended].itertuples()]
        apart = [(int((w & ~wrong[0]).sum()), int((wrong[0] & ~w).sum()), len(w)) for w in wrong]
        frame.loc[ended, "excess"] = [(b - c) / m for b, c, m in apart]
        frame.loc[ended, "excess_error"] = [max(b + c, 1) ** 0.5 / m for b, c, m in apart]
        within = frame["entry"].isin([match.name for match in self.contests[-1].matches])
        rivals, look = max(1, len(self.contests[0].matches) - 1), len(self.contests)
        worse = [b > c and bool(unequal(b, c, look, rivals)) for b, c, _ in apart]
        frame["tied"] = ended & within
        frame.loc[ended, "tied"] &= ~np.array(worse, dtype=bool)
        names = ["entry", "label", "family", "status", "reason", "test_error", "standard_error"]
        names += ["excess", "excess_error", "tied", "cut", "fit_cpu", "memory_mb", "worst_case"]
        return frame[[*names, "n_test", "settings", "key"]]

    @property
    def ended(self) -> pd.DataFrame:
        """The rows of the table whose entries have ended."""
        return self.table().query("status == 'done'")

    @property
    def left(self) -> list[str]:
        """The entries that are still in the race, the best first."""
        return list(self.table().query("tied")["entry"])

    @property
    def recommended(self) -> str:
        """The simplest entry that is nearly as good as the best; "" if none has ended.

        Within one standard error of the difference, as in Breiman's rule for trees, and with at
        most :data:`NEARLY` more errors: with few test rows a standard error alone is too much.
        """
        ended = self.ended
        most = np.minimum(ended["excess_error"], NEARLY * ended["test_error"].min())
        near = ended["entry"][ended["excess"] <= most]
        return min(near, key=lambda name: (*SIMPLEST, name).index(name), default="")

    def code(self, name: str | None = None) -> str:
        """Return some lines of Python that fit and test an entry, by default the recommended one.

        Raises
        ------
        ValueError
            If this entry has not ended.
        """
        ended, name = self.ended.set_index("entry"), name or self.recommended
        if name not in ended.index:
            there = ", ".join(ended.index) or "none"
            raise ValueError(f"code: {name!r} has not finished; finished: {there}")
        contests = [(c, m) for c in self.contests for m in c.matches]
        contest, match = next((c, m) for c, m in contests if m.key == ended.loc[name, "key"])
        trace = read_trace(match.path(contest.folder))
        own = {*match.entry.fixed, *match.entry.ranges, "seed"}
        parameters = {p: v for p, v in trace.header["parameters"].items() if p in own}
        model = f"{match.entry.solver!r}, {trace.header['contest']['rounds']}, {parameters!r}"
        model += f", fourier={match.entry.fourier}" * bool(match.entry.fourier)
        scaler = (
            "StandardScaler(with_mean=False)" if sp.issparse(self.data.X) else "StandardScaler()"
        )
        given = {"data": self.given, "model": model, "steps": f"{scaler},\n    "}
        given["split"] = f"{self.test}, most={self.most}" if self.most else f"{self.test}"
        if not self.given.endswith(", fill=True"):
            return CODE.format(**given)
        fill = 'SimpleImputer(strategy="median", keep_empty_features=True)'
        given["steps"] = f"{fill},\n    {given['steps']}"
        return f"from sklearn.impute import SimpleImputer\n{CODE.format(**given)}"

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
        table = self._in_words().to_string(index=False) if len(self.ended) else "no solver finished"
        lines = [*self._sentences(), "", table, "", self._unfinished()]
        if name := self.recommended:
            label = self.ended.set_index("entry").loc[name, "label"]
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
            first, others = done.iloc[0], done.iloc[1:]
            tied = others[others["tied"]]
            alike = f"tied with it: {', '.join(tied['label'])}" if len(tied) else "no other is tied"
            sentences.append(
                f"Lowest test error: {first.label}, {100 * first.test_error:.2f} % "
                f"(standard error {100 * first.standard_error:.2f}); {alike}."
            )
            simple = done.set_index("entry").loc[self.recommended]
            cost = (
                f"{100 * simple.excess:.2f} points more, with a standard error of "
                f"{100 * simple.excess_error:.2f}, "
            )
            sentences.append(
                f"Recommended, the simplest that is nearly as good: {simple.label}, "
                f"{100 * simple.test_error:.2f} %, {cost if simple.excess > 0 else ''}"
                f"{simple.fit_cpu:.2g} s of CPU time{_memory(simple.memory_mb)} for a fit."
            )
            if 2 * len(tied) > len(others) > 0:
                least = 200 * tied["excess_error"].median()
                sentences.append(
                    f"{first.n_test:.0f} test rows cannot tell most of these methods apart: "
                    f"differences below about {least:.2g} points are within the noise."
                )
        if done["worst_case"].notna().any():
            sentences.append(
                "A certified worst case bounds the error of the randomised rule for every "
                "distribution whose class means of the features differ from those of the training "
                "rows by no more than lambda0 allows."
            )
        if len(cut := list(done["label"][done["cut"].astype(bool)])):
            sentences.append(
                "Stopped at the time limit, hollow in the figure, perhaps better with more time: "
                f"{', '.join(cut)}."
            )
        budgets = [f"{contest.matches[0].budget:.2g} s" for contest in self.contests]
        fields = [{match.name for match in contest.matches} for contest in self.contests]
        for budget, before, after in zip(budgets, fields, fields[1:]):
            if len(out := done["label"][done["entry"].isin(before - after)]):
                sentences.append(
                    f"Out after searches of {budget}, surely worse than the best with as much "
                    f"time: {', '.join(out)}. The best is put out in at most {100 * LEVEL:g} % of "
                    "comparisons."
                )
        sentences += [self.early] * bool(self.early)
        sentences.append(
            f"One random split, {100 * self.test:g} % of the rows for the test; every solver had "
            f"{', then '.join(budgets)} of CPU time, as long as it was not out, to choose its "
            "settings on validation rows. The smallest of several test errors is a little "
            "optimistic for new rows."
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
        memory, worst = done["memory_mb"].astype(float), 100 * done["worst_case"].astype(float)
        return pd.DataFrame(
            {
                "": done["tied"].map({True: "*", False: ""}),
                "solver": done["label"],
                "test error %": (100 * done["test_error"]).map("{:.2f}".format),
                "±": (100 * done["standard_error"]).map("{:.2f}".format),
                "fit, CPU s": done["fit_cpu"].map("{:.2g}".format),
                "worst case %": worst.map("{:.1f}".format).where(worst.notna(), ""),
                "memory, MB": memory.map("{:.1f}".format).where(memory.notna(), ""),
                "chosen": done["settings"].replace("", "defaults"),
            }
        )


def _memory(megabytes: float) -> str:
    return f" and {megabytes:.3g} MB" if megabytes > 0 else ""
