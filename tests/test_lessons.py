"""The lessons: a check prints and never raises, and every lesson runs from top to bottom."""

import io
import re
import tomllib
from contextlib import redirect_stdout
from itertools import islice
from pathlib import Path

import nbformat
import numpy as np
import pytest
from test_player import wait

from checks import answers, chains, stagewise, verifier
from checks import mrc as teach
from checks.exercise import Hint, Unfinished, array, ask, credit, exercise, number
from workbench.core.problem import as_problem
from workbench.core.stream import rounds
from workbench.data import load
from workbench.data.synthetic import checkers
from workbench.least_squares.generalized import ls_generalized
from workbench.least_squares.simplex import project
from workbench.live.replay import Replay, embedded
from workbench.mrc.risk import minimax_risk, psi
from workbench.runs.run import run
from workbench.sampled_cuts.tasks import Binary, Multiclass
from workbench.weston_watkins.walrus import sweep

ROOT = Path(__file__).parents[1]
LESSONS = sorted((ROOT / "notebooks" / "learn").glob("*.ipynb"))
NOTEBOOKS = [ROOT / "notebooks" / "00_start_here.ipynb", *LESSONS]
LESSON = {path.stem: path for path in LESSONS}
SLIPS = tomllib.loads((ROOT / "tests" / "slips.toml").read_text(encoding="utf-8"))
KINDS = {"derive", "code", "predict", "break"}


def near(*pairs):
    """Return whether all these pairs agree to about a per cent."""
    return all(value == pytest.approx(said, rel=0.02) for value, said in pairs)


PLAYED = {  # what is said below the recorded runs of a lesson, of their latest rows
    "mrc_1_minimax_risk": lambda *runs: (
        near(*zip((run["upper"] for run in runs), (0.253, 0.359, 0.531)))
        and max(run["test_error"] for run in runs) < 1.5 / 53
    ),
    "mrc_2_cutting_planes": lambda *runs: [run["round"] for run in runs] == [32, 16, 9],
    "mrc_4_how_large_lambda0": lambda paper, ours: near(
        (paper["upper"], 0.43), (paper["test_error"], 0.47), (ours["upper"], 2 / 3)
    ),
    "mrc_5_which_feature": lambda *runs: (
        [runs[0]["round"], runs[1]["round"]] == [5, 17]
        and [runs[0]["features"], runs[1]["features"]] == [340, 169]
        and max(abs(runs[2][count] - 120) for count in ("round", "features")) < 10
        and near(*((run["upper"], runs[0]["lower"]) for run in runs))
    ),
    "mrc_3_certificates": lambda cuts, steps, inner: (
        cuts["gap"] < 0.01 and 0.009 < steps["gap"] < 0.01 and inner["gap"] <= 1e-3
    ),
    "ww_1_the_loss": lambda small, large: (small["round"], large["round"]) == (5, 184),
    "ww_2_the_subproblem": lambda run: run["updates"] < 0.3,
    "ww_3_coordinate_descent": lambda walrus, shark, fast: (
        max(abs(walrus["round"] - 240), abs(shark["round"] - 240)) < 10
        and (fast["round"], round(walrus["visits"] / fast["visits"])) == (28, 5)
    ),
    "ww_4_how_good_can_C_be": lambda small, large: (
        [round(75 * run["test_error"]) for run in (small, large)] == [5, 3]
    ),
    "ls_1_second_order": lambda plain, fast: plain["round"] > 5 * fast["round"],
    "ls_2_calibration": lambda run: "upper" not in run,
    "ls_3_stagewise": lambda narrow, middle, wide: (
        middle["primal"] < min(narrow["primal"], wide["primal"])
        and wide["test_error"] < min(narrow["test_error"], middle["test_error"])
    ),
    "ls_3b_links": lambda square, softmax, hinge: (
        hinge["primal"] < softmax["primal"]
        and softmax["test_error"] < min(square["test_error"], hinge["test_error"])
    ),
    "ls_4_recipe": lambda one, three, twelve: one["primal"] > three["primal"] > twelve["primal"],
    "cuts_1_one_slack": lambda plain, line: (plain["round"], line["round"]) == (36, 23),
    "cuts_1b_labels_and_kernels": lambda wide, narrow: (
        abs(wide["round"] - narrow["round"]) < 4
        and wide["kernel_values"] > 2 * narrow["kernel_values"]
        and wide["test_error"] > 0.35
    ),
    "cuts_2_sampling": lambda few, many: (
        many["round"] < 60
        and 1.06 < few["primal"] / many["primal"] < 1.12
        and many["test_error"] < few["test_error"]
    ),
    "memoir_1_inexact_margin": lambda exact, random: (
        random["recall"] < 0.05 and near((random["test_error"], 0.447), (exact["test_error"], 0.38))
    ),
    "memoir_2_mips": lambda exact, hashes: (
        hashes["recall"] < 0.1 and near((hashes["test_error"], 0.475), (exact["test_error"], 0.38))
    ),
    "memoir_3_details_matter": lambda paper, code: (
        code["primal"] < paper["primal"] and code["test_error"] < paper["test_error"]
    ),
    "five_answers": lambda *runs: (
        ["upper" in run for run in runs] == [True, True, False, True, True]
    ),
    "argmax_or_probabilities": lambda walrus, sets, softmax: (
        walrus["test_error"] in (0.6, 0.65)
        and near((sets["primal"], 100))
        and softmax["test_error"] == 0.6
    ),
}


def outside_twice(a):
    """Return the standard deviations of the averages that some sample misses by 2 lambda."""
    return a["size"][(a["off"] > 2 * a["narrow"]).any(axis=0)]


def above_the_error(found, sizes):
    """Return whether R* is above the error on new rows where mrc_4 says so."""
    paper, ours = ([found[name, size] for size in sizes] for name in ("paper", "ours"))
    means = [rows[:, 0].mean() > rows[:, 1].mean() for rows in paper]
    never_all = all((rows[:, 0] < rows[:, 1]).any() for rows in paper)
    return never_all and means == [0, 0, 0, 1, 1] and all((r[:, 0] > r[:, 1]).all() for r in ours)


def falls_by_columns(found, used, R_star):
    """Return whether column generation goes as mrc_5 says."""
    (one, path), (_, tens), (hundreds, few) = (found[m_max] for m_max in (1, 10, 100))
    falls = all(np.diff([R for _, R in rows]).max() < 1e-9 for rows in (path, tens, few))
    ends = near(*((rows[-1][1], R_star) for rows in (path, tens, few)))
    rests = near((path[1][1], 0.5)) and path[10][1] < 0.38
    sizes = 1.3 < len(one) / used < 1.7 and len(few) < 12 and len(hundreds) > 300
    return falls and ends and rests and sizes and abs(used - 82) < 5 and len(path) == len(one) + 1


def kept_their_word(digits, found):
    """Return whether the lesson on probabilities says rightly which forecasts keep their word."""
    off = {}
    for name, P in found.items():
        right = P.argmax(axis=1) == digits.y_test
        off[name] = abs(P.max(axis=1).mean() - right.mean())
    half = np.abs(P.max(axis=1) - 0.5) < 0.05  # of the last, the SVM
    return off["softmax"] < 0.03 < 0.2 < min(off["square"], off[name]) and right[half].mean() > 0.99


def worth_its_price(a):
    """Return whether the three methods of ls_1b are where it says, at equal cost."""
    found = []
    for name, rows in a["ways"].items():
        values = a["halved"][name][0]
        irls, price = values - values.min(), a["rounds_per_step"](*rows.shape, 10)
        plain, fast = (a["ours"][each.__name__, name] - values.min() for each in a["solvers"])
        early, late = (irls[int(rounds / price)] for rounds in (500, 1500))
        first = fast[int(price * np.argmax(irls < 1e-4))] < 1e-4
        found.append((first and early > 30 * fast[500], early > plain[500], late / fast[1500]))
    (left, below, level), (right, below_too, done) = found
    return left and right and below and not below_too and 0.2 < level < 5 and done < 1e-4


def rests_after_luck(small, large):
    """Return whether the errors of ww_4's recorded runs come to rest as it says."""
    settled = [{r["test_error"] for r in t.rows if r["gap"] < 0.01} for t in (small, large)]
    wrong = [(round(75 * row["test_error"]), row["gap"]) for row in large.rows[2:]]
    first = next(gap for errors, gap in wrong if errors == 3)
    return [len(each) for each in settled] == [1, 1] and first > 10 and max(wrong)[0] == 6


PREDICTED = {  # what a check says of a run that comes after the prediction, from its variables
    "argmax_or_probabilities/draw-triangles": lambda a: (
        0.24 < a["tied"]["Crammer-Singer"].mean() == a["tied"]["one-vs-rest"].mean() < 0.27
        and 0.6 < a["tied"]["Weston-Watkins"].sum() / a["tied"]["Crammer-Singer"].sum() < 0.7
    ),
    "argmax_or_probabilities/solvers": lambda a: (
        np.ptp(a["learnt"]["Weston-Watkins"][:2]) < 1e-3 > abs(a["learnt"]["Crammer-Singer"]).max()
        and a["learnt"]["Weston-Watkins"][0] > 0.3
        and np.abs(a["softmax"](a["learnt"]["softmax"]) - [0.4, 0.35, 0.25]).max() < 1e-3
    ),
    "argmax_or_probabilities/draw-digits": lambda a: kept_their_word(a["digits"], a["found"]),
    "cuts_1_one_slack/recorded": lambda a: (
        (rises := [np.diff(run.trace.column("primal")) > 0 for run in a["runs"]])[0].mean() > 0.3
        and not rises[1].any()
    ),
    "cuts_1b_labels_and_kernels/rescaled": lambda a: (
        5 < (lost := list(a["new_loss"].values()))[0] / lost[3] < 7
        and max(abs(lost[i] - lost[i + 3]) for i in (1, 2)) < 0.05
    ),
    "cuts_1b_labels_and_kernels/kernel-loop": lambda a: (
        len(a["alpha"]) < 50 and abs(len(a["alpha"]) - a["theirs"].last["round"]) < 9
    ),
    "cuts_1b_labels_and_kernels/draw-cost": lambda a: (
        (3.2 < a["counts"][1:] / a["counts"][:-1]).all()
        and near((a["exact_values"](a["violated"][:15].sum(axis=1), 800), a["counts"][2]))
    ),
    "cuts_2_sampling/above-run": lambda a: max(a["constant"].column("model")) > a["optimum"],
    "cuts_3_chains/pieces-run": lambda a: (
        2 * a["by_length"][1] < a["by_length"][0] + a["by_length"][-1]
    ),
    "cuts_3_chains/draw-sentences": lambda a: 0 < a["strange"](a["chained"]) <= 0.01,
    "cuts_3_chains/zero-one-scales": lambda a: a["zero_one"].argmin() == 0 > a["g"].mean(),
    "five_answers/crossed": lambda a: (
        30 < np.argmax(a["model"] > a["star"]) < 60
        and 1.01 < a["model"][-1] / a["star"] < 1.05
        and near((a["memoir"][-1] / a["star"], 1.12))
    ),
    "five_answers/runs": lambda a: (
        {name for name, rows in a["trails"].items() if "lower" in rows[-1]} == set(a["certified"])
    ),
    "ls_1_second_order/scaled": lambda a: np.abs(a["before"] - a["after"]).max() < 1e-3,
    "ls_1b_newton/valley": lambda a: (
        np.linalg.norm(a["X2"].T @ (1 / (1 + np.exp(-a["X2"] @ a["w"])) - a["y2"])) / len(a["X2"])
        < 1e-12
    ),
    "ls_1b_newton/draw-targets": lambda a: near((a["targets"](-4.0, 1), 51.6)),
    "ls_1b_newton/irls-run": lambda a: (
        (plain := a["plain"]["as they are"])[3] < a["ours"]["ls_generalized", "as they are"][3] / 5
        and plain[4] > 100
        and plain[6:].min() > 1e4
        and 60 < a["ours"]["ls_generalized", (b := "and a constant")][8] / a["plain"][b][8] < 80
    ),
    "ls_1b_newton/halved": lambda a: (
        a["halved"]["as they are"][1][2:4] == [1 / 2, 1 / 2**8]
        and set(a["halved"]["and a constant"][1][:10]) == {1}
    ),
    "ls_1b_newton/draw-price": worth_its_price,
    "ls_2_calibration/bins-see": lambda a: (
        (off := lambda V: max(abs((V - a["Y"])[a["bins"] == b].mean()) for b in range(10)))
        and off(a["refitted"]) < 1e-9 < 0.2 < off(a["cubic"]) < 0.3
        and a["path"][-1] < 1e-9
    ),
    "ls_2_calibration/square": lambda a: (np.diff(a["square"]) > 0).any(),
    "ls_3_stagewise/widths": lambda a: a["train"][1] < 0.1 < a["test"][1],
    "ls_3b_links/draw-steps": lambda a: (
        (once := a["once"])[-1] > once[-2]
        and max(once[-3:]) < 1.05 * min(once)
        and a["residual"] > 2 * once[0]
        and near((min(once) / a["objective"](a["F"], a["Ws"]), 3.2))
    ),
    "ls_3b_links/package-run": lambda a: (
        a["ours"] == pytest.approx(a["trace"].last["primal"], rel=1e-4)
    ),
    "ls_3b_links/average-run": lambda a: near(
        (np.mean(a["losses"][:-1]), 0.136), (a["losses"][-1], 0.09)
    ),
    "ls_3b_links/inner-run": lambda a: (
        a["traces"]["often"].last["primal"] < a["traces"]["once"].last["primal"]
    ),
    "ls_4_recipe/draw-by-hand": lambda a: (
        4 * off["Nyström"] < min(off["waves"], off["poly3"])
        if (off := {name: np.abs(x - y).mean() for name, (x, y) in a["kinds"].items()})
        else False
    ),
    "ls_4_recipe/by-package": lambda a: a["off"] < 1e-3,
    "memoir_1_inexact_margin/train": lambda a: (
        3 / a["texts"].k < a["accuracies"]["random"] < 0.9 * a["accuracies"]["exact"]
    ),
    "memoir_2_mips/lsh": lambda a: a["recalls"]["bits alone"][0] < 0.2,
    "memoir_3_details_matter/data": lambda a: (
        abs(a["steps"]["the paper"]["accuracy"] - a["steps"]["hinge=False"]["accuracy"]) < 0.005
    ),
    "memoir_3_details_matter/by-size": lambda a: (
        a["uneven"][0] < 0.12 and a["uneven"][2] > 0.5 and 25 < (a["answered"] == 0).sum() < 37
    ),
    "memoir_3_details_matter/balanced": lambda a: (
        np.ptp(a["even"]) < 0.06
        and (a["answered_now"] == 0).sum() < 6
        and 0.08 < -np.diff([row["accuracy"] for row in a["steps"].values()])[1] < 0.1
    ),
    "memoir_3_details_matter/course": lambda a: (
        0.12 < min(a["literal"][1:]) < max(a["literal"]) < 0.27
        and abs(np.mean(a["literal"][1:13]) - np.mean(a["literal"][13:])) < 0.02
    ),
    "memoir_3_details_matter/lengths": lambda a: (
        (found := [a["lengths"][third].mean() for third in a["thirds"]]) == sorted(found)[::-1]
        and a["answered"][a["thirds"][0]].sum() > 1.5 * a["of_third"][0].sum()
    ),
    "memoir_3_details_matter/cosine": lambda a: (
        a["after"][2] - a["before"][2] > 0.1 > 0 > a["after"][0] - a["before"][0]
    ),
    "memoir_3_details_matter/first-batch": lambda a: (
        a["lengths"].argmax() == 0 and a["lengths"].max() > 4 * np.median(a["lengths"])
    ),
    "memoir_3_details_matter/with-constant": lambda a: (
        a["biased"]["frozen"] < a["steps"]["empty=True"]["accuracy"] - 0.01
    ),
    "mrc_3_certificates/draw-digits": lambda a: (
        max(a["current"][np.array(a["R"]) > a["R"][-1] - 0.01]) > 10
    ),
    "mrc_4_how_large_lambda0/coverage": lambda a: (
        (a["off"] <= a["tolerance"](10, a["n"], 0.05) * a["spread"])[:, a["shares"]].all(1).mean()
        > 0.9
        > 0.3
        > (a["inside"] | ~a["seen"]).all(1).mean()
    ),
    "mrc_4_how_large_lambda0/draw-rare": lambda a: (
        (a["off"] <= a["wide"]).all() and 0.005 < min(far := outside_twice(a)) < max(far) < 0.05
    ),
    "mrc_4_how_large_lambda0/draw-tomorrow": lambda a: above_the_error(a["found"], a["sizes"]),
    "ww_4_how_good_can_C_be/recorded": lambda a: rests_after_luck(*(r.trace for r in a["runs"])),
    "ww_4_how_good_can_C_be/draw-grid": lambda a: (
        min(map(a["errors"], a["grid"])) == min(map(a["errors"], a["dense"])) == 3
    ),
    "ww_4_how_good_can_C_be/draw-one": lambda a: (
        (decided := a["wrong"] + a["right"])[abs(a["ts"] - 1) < 0.011].min() == 75
        and abs(np.interp(0.41, 0.3 * a["ts"], decided) - 75 / 2) < 2
        and decided[[0, -1]].max() < 10
    ),
    "ww_4_how_good_can_C_be/draw-spacing": lambda a: (
        near((a["ratios"][1], 1.05), (a["radii"][1, 1] / a["radii"][1, 2], 1.2))
        and 7 < a["radii"][1, 0] / a["radii"][1, 1] < 8
        and (a["radii"].T[1] >= a["radii"].T[2]).all()
    ),
    "ww_4_how_good_can_C_be/close": lambda a: (
        60 < len(a["knots"]) < 80
        and min(a["floors"]) == a["fewest"] == 3
        and a["errors"](a["knots"][0]) > 10
    ),
    "ww_4_how_good_can_C_be/package": lambda a: (
        (a["state"].fewest, a["state"].achieved) == (3, 0) and 60 < a["state"].round < 80
    ),
    "mrc_5_which_feature/draw-off": lambda a: (
        ((a["off"](a["first"]) > 1).sum(), near((a["R_forty"], 0.5))) == (260, True)
        and (a["off"](a["second"]) > 1 + 1e-6).sum() > 260
        and near((a["off"](a["first"]).max(), 35))
        and a["off"](a["second"]).max() < 25
        and np.allclose(a["first"].reshape(2, -1)[:, :-1], a["texts"].X[0].toarray() / 2)
    ),
    "mrc_5_which_feature/recorded": lambda a: all(
        next(row for row in run.trace.rows if row["round"] == run.trace.last["round"] // 2)["lower"]
        < 0.6 * run.trace.last["lower"]
        for run in a["runs"][1:]
    ),
    "mrc_5_which_feature/paths": lambda a: falls_by_columns(a["found"], a["used"], a["R_star"]),
    "mrc_5_which_feature/draw-bound": lambda a: (
        a["high"][len(a["high"]) * 2 // 3] < 1.02 * a["R_star"]
        and a["low"][9] < 0.5 * a["R_star"]
        and near((a["low"][-1], a["R_star"]))
    ),
    "mrc_5_which_feature/package": lambda a: (
        a["last"]["features"] < 200 and near((a["last"]["lower"], a["R_star"]))
    ),
    "sum_over_rows/draw-sample": lambda a: (
        (a["bounds"][:-1] > 100 * a["gaps"][:-1]).all()
        and near((a["errors"][2], 0.113), (a["errors"][-1], 0.074))
    ),
    "sum_over_rows/package": lambda a: np.array_equal(a["here"].W, a["there"].W),
    "verify_the_solver/print-use": lambda a: (
        0.02 < a["theirs"][:, 1].sum() / a["best"][:, 0].sum() - 1 < 0.1
    ),
    "verify_the_solver/draw-use": lambda a: (
        a["above"][2] > 3 * a["above"][3] and max(a["above"][4:]) < 1e-3 and a["said"] == 0
    ),
    "ww_3_coordinate_descent/draw-package": lambda a: (
        np.ptp([a["runs"][name][0].last["round"] for name in ("ww_shark", "ww_walrus")]) < 17
    ),
    "verify_the_solver/rounded": lambda a: 3e-8 < 1 - a["half"] / a["lower"] < 3e-5,
}

PRINTED = {  # what a lesson says of the text that a cell prints
    "mrc_1_minimax_risk/coverage": lambda text: (
        lambda at_1, at_28: at_1 < 20 and 93 <= at_28 <= 97
    )(*map(float, re.findall(r"(\d+)%", text))),
    "mrc_1_minimax_risk/more-wines": lambda text: (
        lambda ours, every: ours == pytest.approx(0.482, abs=1e-3) and every > ours + 0.02
    )(*map(float, re.findall(r"wines: (.*)", text))),
    # One-vs-rest depends on more than margins.
    "ww_1_the_loss/same-margins": lambda text: (
        re.findall(r"\[.*\]", text) == ["[0. 0.]", "[0. 0.]", "[0.   0.67]"]
    ),
}


# The machinery of a check.


@exercise
def check_half(answer):
    """A check to check the checks with."""
    if number(answer) != 0.5:
        raise Hint("heads and tails are equally likely")
    return "a fair coin"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (0.5, "right: a fair coin"),
        (0.4, "try again: heads and tails are equally likely"),
        (..., "not yet: "),
        (None, "not yet: "),
        ([0.5, ...], "not yet: "),
        ("half", "try again: a number is asked for, got 'half'"),
    ],
)
def test_a_check_prints_and_never_raises(answer, told, capsys):
    assert check_half(answer) is None
    assert capsys.readouterr().out.startswith(told)


@pytest.mark.parametrize(
    ("printed", "share"),
    [
        ("right: certainly within 4.0e-04 of the optimum, all 3 decades", 1.0),
        ("try again: within 3.0e-02 of the optimum: 1.5 of 3 decades. Most of the loss", 0.5),
        ("try again: the largest hinge is not the sum", 0.0),
        ("not yet: put your answer where the ... is, then run the cell again", 0.0),
    ],
)
def test_the_credit_of_an_exercise_is_what_its_check_prints(printed, share, capsys):
    assert credit(lambda: print(printed)) == share
    assert capsys.readouterr().out == f"{printed}\n"


def test_a_check_survives_the_students_errors(capsys):
    teach.check_two_labels(lambda a, b: 1 / 0)
    assert capsys.readouterr().out.startswith("try again: your answer raised ZeroDivisionError")
    with pytest.raises(Unfinished):
        ask(lambda: (1, ...))
    with pytest.raises(Hint, match=r"M should have the shape \(2,\), has \(3,\)"):
        array([1, 2, 3], (2,), "M")


# The notebooks.


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_have_names_and_most_are_short(path):
    cells = read(path).cells
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z0-9-]+", name) for name in ids)
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert np.mean([len(source.splitlines()) <= 12 for source in code]) > 0.6


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_exercise_has_its_check_and_a_hidden_solution(path):
    kinds, cells = [], read(path).cells
    waiting = False  # for the cells of the last exercise announced
    for cell, after in zip(cells, [*cells[1:], None]):
        announced = re.findall(r"^### Exercise (\d+) · (\w+)$", cell.source, flags=re.M)
        tags = cell.metadata.get("tags", ())
        if cell.cell_type == "markdown" and announced:
            assert not waiting and len(announced) == 1
            (at, kind), waiting = announced[0], True
            kinds.append(kind)
            assert int(at) == len(kinds)
        elif "exercise" in tags:
            (check,) = re.findall(r"^teach\.check_\w+\(.*\)$", cell.source, flags=re.M)
            assert waiting and "..." in cell.source and after.metadata.tags == ["solution"]
            assert after.metadata.jupyter.source_hidden and after.source.endswith(check)
            waiting = False
    assert not waiting and len(kinds) >= 4 and set(kinds) == KINDS


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_its_checks_tell_right_from_wrong(path, execute, monkeypatch):
    monkeypatch.chdir(ROOT)
    mistakes = {f"{cell}-solution": made for cell, made in SLIPS.get(path.stem, {}).items()}
    own = f"{path.stem}/"
    predicted, printed = (
        {key.removeprefix(own): said[key] for key in said if own in key}
        for said in (PREDICTED, PRINTED)
    )

    def make_mistakes(cell, namespace):
        for text, other, hint in mistakes.pop(cell.id, ()):
            assert text in cell.source
            with redirect_stdout(io.StringIO()) as told:
                exec(cell.source.replace(text, other), dict(namespace))
            answer = told.getvalue().splitlines()[-1]
            assert answer.startswith(("try again: ", "not yet: ")) and hint in answer, (text, other)
            assert "raised" not in answer or "raised" in hint, (text, other)

    def look(cell, namespace):
        make_mistakes(cell, namespace)
        assert predicted.pop(cell.id, lambda _: True)(namespace), cell.id
        if cell.id == "recorded":  # what is said below the recorded runs is true of them
            runs = namespace["runs"]
            assert PLAYED[path.stem](*[run.trace.last for run in runs])
            assert len(embedded(Replay(*runs).data)) < 500_000
        if live := namespace.pop("live", None):  # the start page's chart, which moves by itself
            wait(lambda: live.chart.curves and live.chart.curves[0].seen > 2)
            live.retire()
            wait(lambda: live.player.status == "stopped" and not live.chart._timer)

    pictures = 0
    for cell, text, figures, _ in execute(path, after=look):
        tags = cell.metadata.get("tags", ())
        expected = {"exercise": "not yet:", "solution": "right:"}
        for tag in set(tags) & set(expected):
            assert text.startswith(expected[tag]), cell.source
        assert "try again" not in text
        assert printed.pop(cell.id, lambda _: True)(text), cell.id
        pictures += figures
    assert pictures and not mistakes and not predicted and not printed


# What the lessons say of the package, in the words of their solutions.


def solution(lesson, cell):
    """Return the definitions of a solution's cell, by name."""
    cells = {c.id: c.source for c in read(ROOT / "notebooks/learn" / f"{lesson}.ipynb").cells}
    defined = {"np": np, "moves_of": None}
    exec(cells[f"{cell}-solution"].partition("\nteach.")[0], defined)
    return defined


def test_the_certificate_of_mrc_3_holds_where_pixels_never_change():
    lower = solution("mrc_3_certificates", "lower")["lower"]
    risk = minimax_risk(load("digits", test=0.2, scale="standard"), 0.01)
    coin = np.full((risk.n, risk.k), 1 / (risk.n * risk.k))
    assert (risk.lam == 0).any() and risk.lower(coin) < 0.1
    assert lower(coin, risk.X, risk.tau, risk.lam) == pytest.approx(risk.lower(coin))


def test_psi_of_mrc_2_is_the_threshold_of_the_projection_and_gamma_has_a_box():
    V = np.random.default_rng(0).normal(size=(200, 6))
    level, on_simplex = psi(V), V.copy()
    project(on_simplex)
    np.testing.assert_allclose(on_simplex, np.maximum(V - level[:, None], 0), atol=1e-12)
    gamma = np.array([sweep(v, 0.5) for v in V])
    np.testing.assert_allclose(np.clip(V - gamma[:, None], 0, 0.5).sum(axis=1), gamma, atol=1e-12)


def test_the_number_of_cuts_keeps_the_bounds_of_cuts_1():
    derived = solution("cuts_1_one_slack", "faster")["cuts_until"]
    Cn, rho, eps = 5.0, 0.8, 0.02
    delta, cuts = Cn, 0  # as slowly as the recursion of the lesson allows
    while delta > Cn * eps:
        delta, cuts = delta - delta**2 / (8 * rho**2 * Cn**2), cuts + 1
    assert 0.9 * derived(Cn, eps, rho) < cuts <= np.ceil(derived(Cn, eps, rho))
    one = as_problem(np.array([[1.0], [-1.0]]), np.array([1, 0]))  # twice the row x = y = 1
    for Cn, eps in ((0.01, 0.5), (0.1, 0.5), (10, 1e-2), (0.3, 1e-4)):
        chosen = {"kernel": "linear", "C": Cn / 2, "eps": eps, "stabilised": False}
        made = run("cuts_exact", one, parameters=chosen)[0].last["round"]
        assert 1 <= made < 2 * derived(Cn, eps, 1) + np.log2(1 / eps) + 3
        assert made <= max(8 * Cn / eps**2, 2 / eps)
        assert Cn > 0.01 or made == 1 > 8 * Cn / eps**2  # as the lesson says of the paper's theorem


OUTLIER = [-2, -1, 1, 2, 100], [0, 0, 1, 1, 1]
MASKED = [-2, -1.8, -0.1, 0.1, 1.8, 2], [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("x", "y"), [OUTLIER, MASKED])
def test_a_softmax_gets_right_what_least_squares_gets_wrong(x, y, capsys):
    answers.check_too_right(x, y)
    assert capsys.readouterr().out.startswith("right")
    rows = as_problem(np.c_[x, np.ones(len(x))].astype(float), np.array(y))
    *_, state = islice(ls_generalized(rows, alpha=1e-6), 500)
    assert state.scores(rows.X).argmax(axis=1).tolist() == y


@pytest.mark.parametrize("K", [2, 3])
def test_the_cuts_of_the_lessons_are_the_packages(K):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 3)), np.arange(40) % K
    if K == 2:
        y, w = 2 * codes - 1, rng.normal(size=3)
        task, F = Binary(np.arange(40), y), (X @ w)[:, None]
        value, slope = solution("cuts_1_one_slack", "cut")["cut"](w, X, y)
    else:
        w = rng.normal(size=9)
        task, F = Multiclass(np.arange(40), codes, 3), X @ w.reshape(3, 3)
        value, slope = solution("cuts_1b_labels_and_kernels", "many")["cut_many"](w, X, codes, 3)
    answers = task.answers(F, np.zeros(0))
    cut = task.cut(answers, np.arange(40), 1 / 40)
    assert answers.losses.mean() == pytest.approx(value)
    np.testing.assert_allclose(-X[cut.parts].T @ cut.B, slope.reshape(3, -1), atol=1e-12)


def test_kernel_values_stay_below_what_lesson_2_derives():
    n, T, r = 500, 8, 30
    derived = solution("cuts_2_sampling", "values")
    limits = {"cuts_linear_time": derived["linear_values"](T, n, r)}
    limits["cuts_constant_time"] = derived["constant_values"](T, r)
    for name, limit in limits.items():
        chosen = {"gamma": 30.0, "r": r, "p": T + 1}
        trace, _ = run(name, checkers(n), rounds(T), parameters=chosen)
        assert trace.last["round"] == T
        assert 0.3 * limit < trace.last["kernel_values"] <= limit


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (chains.check_augmented, lambda F, y: F - np.eye(3)[y] / len(y)),
        (
            stagewise.check_predict,
            lambda X, Ws, make: sum(map(np.matmul, map(make, 3 * [X], range(3)), Ws)),
        ),
        (
            verifier.check_outward,
            lambda *given: np.nextafter(np.array(verifier.exact(*given), float), [-np.inf, np.inf]),
        ),
    ],
)
def test_another_right_answer_is_right(check, answer, capsys):
    check(answer)
    assert capsys.readouterr().out.startswith("right")
