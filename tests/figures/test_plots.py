"""Plots draw what the traces hold, and every solver looks the same everywhere."""

from dataclasses import replace
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from helpers import each
from matplotlib.colors import to_hex, to_rgb
from pytest import approx

import heat_maps
import scaling_plots
from printed_tables import beside
from workbench import SOLVERS, as_problem
from workbench.core.trace import Trace
from workbench.figures import curves, frames, plots, style
from workbench.figures.reference import measured, printed


def trace(**columns):
    """A trace whose rows hold these columns; None stands for a row without the
    value."""
    rows = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        rows.append({key: value for key, value in row.items() if value is not None})
    return Trace({"solver": "mrc_ccg", "parameters": {}}, rows)


def texts(words):
    return [word.get_text() for word in words]


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_every_solver_has_its_own_label_and_colour():
    looks = [style.look(name) for name in SOLVERS]
    assert len({look.label for look in looks}) == len(SOLVERS)
    assert [look.colour for look in looks] == [s.colour for s in SOLVERS.values()]
    count = len(style.PALETTE)
    others = {to_hex(style.look("a data set", i).colour) for i in range(count)}
    assert len(others) == count
    assert not others & {to_hex(look.colour) for look in looks}
    for one, other in combinations(looks, 2):
        assert np.linalg.norm(cielab(one.colour) - cielab(other.colour)) > 9.5


def test_a_curve_is_a_step_function_on_a_common_grid():
    first = (np.array([1.0, 3.0]), np.array([10.0, 30.0]))
    second = (np.array([2.0, 4.0]), np.array([20.0, 40.0]))
    grid, values = curves.on_grid([first, second])
    assert grid[0] == 2.0 and grid[-1] == 4.0
    at = np.searchsorted(grid, [2.0, 2.9999, 3.0, 3.9999, 4.0], side="right") - 1
    assert values[0, at].tolist() == [10, 10, 30, 30, 30]
    assert values[1, at].tolist() == [20, 20, 20, 20, 40]
    x = np.linspace(0.0, 50.0, 5000)  # long curves are thinned, but keep their ends
    grid, values = curves.on_grid([(x, x)])
    assert len(grid) <= 402 and (grid[0], grid[-1], values[0, -1]) == (0.0, 50.0, 50.0)


GAPS = [1e-1, 1e-2, 1e-4]


@pytest.fixture
def drawn(ax):
    """Return three runs of MRC-CCG and their axes."""
    runs = [trace(seconds=[1.0, 2.0], gap=[1.0, gap]) for gap in GAPS]
    plots.convergence(ax, {"mrc_lp": [], "mrc_ccg": runs})
    return runs, ax


def test_convergence_draws_the_median(drawn):
    (line,) = drawn[1].lines  # a label without runs is left out
    assert line.get_label() == SOLVERS["mrc_ccg"].label
    assert to_hex(line.get_color()) == to_hex(SOLVERS["mrc_ccg"].colour)
    assert line.get_ydata()[0] == 1.0 and line.get_ydata()[-1] == 1e-2


def test_convergence_draws_quartiles(drawn):
    (band,) = drawn[1].collections
    corner = band.get_paths()[0].vertices
    ends = corner[corner[:, 0] == 2.0][:, 1]
    assert [ends.min(), ends.max()] == approx(np.quantile(GAPS, [0.25, 0.75]))


def test_the_axes_of_convergence_are_logarithmic_and_named(drawn):
    runs, ax = drawn
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() == "solver time (s), approximate"
    for run in runs:
        run.header["timed"] = True
    plots.convergence(ax, {"mrc_ccg": runs})
    assert ax.get_xlabel() == "solver time (s)"
    ax.figure.draw_without_rendering()  # within a decade the axis has numbers, too
    assert texts(ax.get_xticklabels()).count("2") == 1


def test_convergence_skips_rows_without_a_value_and_lifts_zeros(ax):
    run = trace(round=[0, 1, 2], test_error=[0.5, None, 0.0])
    plots.convergence(ax, {"a label": [run]}, x="round", y="test_error", floor=1e-3)
    (line,) = ax.lines
    assert line.get_label() == "a label" and set(line.get_ydata()) == {0.5, 1e-3}
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 2)


def test_the_certified_band_only_narrows(ax):
    run = trace(seconds=[1, 2, 3], lower=[0.1, 0.05, 0.2], upper=[0.9, 0.4, 0.6])
    plots.certified_band(ax, "mrc_ccg", [run])
    low, high = (line.get_ydata() for line in ax.lines)
    assert (low[0], low[-1], high[0], high[-1]) == (0.1, 0.2, 0.9, 0.4)
    assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all()


def test_a_title_has_sizes_and_says_what_is_synthetic():
    made = as_problem(np.eye(3), [0, 1, 2], name="eye, standardised", synthetic=True)
    assert style.title(made) == "eye, synthetic\nn = 3, d = 3, k = 3"
    assert "synthetic" not in style.title(replace(made, synthetic=False))


def sized(n, seconds, reached=True):
    made = trace(seconds=[seconds], gap=[0.0 if reached else 1.0])
    made.header["problem"] = {"n": n, "d": 2, "k": 2, "checksum": "toy"}
    return made


def size(run):
    return run.header["problem"]["n"]


SIZES = [10, 40, 100, 1000]


def test_scaling_fits_the_exponent_of_the_finished_sizes(ax):
    runs = [sized(n, 1e-3 * n**1.5 * s) for n in SIZES for s in (0.5, 1.0, 2.0)]
    runs += [sized(10_000, 60.0, reached=False)]
    assert not scaling_plots.scaling(ax, {"mrc_ccg": runs[3:]}, size, tolerance=1e-3)
    ax.clear()
    exponents = scaling_plots.scaling(
        ax, {"mrc_ccg": runs}, size, tolerance=1e-3, symbol="k"
    )
    assert exponents == {"mrc_ccg": approx(1.5)}
    label = f"{SOLVERS['mrc_ccg'].label}  ∝ $k^{{1.5}}$"
    assert ax.get_legend_handles_labels()[1] == [label]
    assert hollow(ax) == [(10_000, 60.0)]

    ax.clear()
    done = frames.ends(runs[:-1]).assign(data="a set")
    scaling_plots.over(ax, done, "n", "seconds", by="data")
    assert ax.lines[0].get_xdata().tolist() == SIZES
    assert ax.lines[0].get_ydata() == approx([1e-3 * n**1.5 for n in SIZES])
    assert texts(ax.get_xticklabels()) == ["10", "40", "100", "1,000"]


def hollow(ax):
    """The marks that are hollow, as (x, y)."""
    marks = [line for line in ax.lines if line.get_markerfacecolor() == "white"]
    return [point for line in marks for point in zip(*line.get_data(), strict=True)]


@each("reason", ["2 seconds", "2 processor seconds", "finished", "gap <= 0.1"])
def test_a_run_that_the_clock_ended_is_hollow_and_says_so(ax, reason):
    runs = [trace(seconds=[1.0, 2.0], gap=[0.5, gap], lower=[0, 0], upper=[1, gap])
            for gap in (0.125, 0.25)]  # fmt: skip
    runs[1].last["stopped_by"] = reason
    for run in runs:
        run.header["problem"] = {"n": 7, "d": 2, "k": 2, "checksum": "toy"}
    cut = reason.endswith("seconds")
    assert [run.cut for run in runs] == [False, cut]
    for point, draw, *given in (
        ((2, 0.1875), plots.convergence, {"mrc_ccg": runs}),
        ((2, 0.25), plots.certified_band, "mrc_ccg", runs[1:]),
        ((7, 2), scaling_plots.over, frames.ends(runs), "n", "seconds"),
        ((7, 2), scaling_plots.scaling, {"mrc_ccg": runs[1:]}, size),
    ):
        ax.clear()
        draw(ax, *given)
        assert (point in hollow(ax)) == cut
        (first, *_), _ = ax.get_legend_handles_labels()
        assert first.get_markerfacecolor() != "white" or cut
    said = plots.ended_by_clock(runs)
    limit = reason.replace("processor seconds", "s of CPU time")
    assert said == f"{plots.ENDED} ({limit}): 1 of 2 runs of MRC-CCG." * cut


def test_small_plots_have_no_spare_axes_and_plain_numbers():
    figure, axes = style.small_plots(4)
    assert axes.shape == (2, 3) and len(figure.axes) == 4
    axes[0, 0].set(xscale="log", xlim=(900, 9000))
    style.plain_log(axes[0, 0].xaxis)
    assert {"1,000", "2,000", "5,000"} < {*texts(axes[0, 0].get_xticklabels())}


def test_ours_and_the_papers_are_drawn_side_by_side(ax):
    def times(tables, method, values, **given):
        return measured(
            "mrc", tables, "pulsar", method, "training time", values, "s", **given
        )

    ours = times(["II", "V"], "MRC-CCG", [1.0, 3.0]) + times(["II"], "MRC-LP", [])
    found = [(row["table"], row["value"]) for row in ours]
    assert found == [("II", 2.0), ("V", 2.0), ("II", None)]
    assert ours[0]["spread"] == approx(np.sqrt(2)) and ours[2]["runs"] == 0
    ours += times(["II"], "MRC-SUB", [60.0], cut=1)
    beside(ax, ours, printed("mrc"), "training time")
    drawn = [(line.get_marker(), x) for line in ax.lines for x in line.get_xdata()]
    assert sorted(x for mark, x in drawn if mark == "|") == [7.2, 70.0, 250.0]
    assert [x for mark, x in drawn if mark == style.look("mrc_ccg").marker] == [2.0]
    assert [x for x, _ in hollow(ax)] == [60.0]
    assert [*filter(None, texts(ax.get_yticklabels()))] == ["pulsar"]


def cielab(colour):
    """Return L*, a*, b* of a colour, for the white of D65."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    # none of ours is nearly black
    x, y, z = np.cbrt(to_xyz @ linear / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_runs_become_a_tidy_frame():
    runs = [
        trace(round=[0, 1], lower=[0.0, low], upper=[1.0, 0.5]) for low in (0.1, 0.3)
    ]
    for seed, run in enumerate(runs):
        problem = {"name": "toy", "n": 3, "d": 2, "k": 2, "checksum": "same"}
        run.header |= {"problem": problem, "parameters": {"eps1": 0.1}, "seed": seed}
    frame = frames.ends(runs)
    assert frame["p_eps1"].tolist() == [0.1, 0.1] and frame["seed"].tolist() == [0, 1]
    assert frame["label"].unique() == ["MRC-CCG"] and frame["trace"][1] is runs[1]
    optimum = frames.optima(runs).loc["same"]
    assert optimum.to_dict() == approx(
        {"lower": 0.3, "upper": 0.5, "value": 0.4, "error": 0.1}
    )
    table = frames.spread(frame, "p_eps1", "lower")
    assert table.loc[0.1].tolist() == approx([0.15, 0.2, 0.25])


def test_a_heat_map_brackets_what_the_clock_ended(ax):
    table = pd.DataFrame([[1.0, 1e-9], [20.0, 3.0]], index=[0.1, 0.2], columns=[5, 6])
    heat_maps.heat_map(ax, table, log=True, cut=table > 10, floor=1e-6)
    assert texts(ax.texts) == ["1", "< 1e-06", "(20)", "3"]
    assert texts(ax.get_yticklabels()) == ["0.1", "0.2"]
    assert texts(ax.get_xticklabels()) == ["5", "6"]
    plots.band(ax, pd.DataFrame({"low": [1], "median": [2], "high": [4]}), color="red")
    assert ax.lines[0].get_ydata().tolist() == [2]
    tables = {"time": table, "error": table / 1000}
    assert heat_maps.changes(tables, "C", ["error"]) == (
        "C from 0.1 to 0.2: time × 2.4e+05, error +1.1 points"
    )
