"""The lessons: every notebook runs, its checks tell right from wrong, its claims
hold."""

import ast
import io
import re
import tomllib
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import each_path, refuses, slow, wait
from pytest import approx

import course
from checks import mrc as teach
from checks import sum_over_rows
from checks.exercise import (
    SOLVED,
    Hint,
    Near,
    Unfinished,
    array,
    ask,
    credit,
    exercise,
    given,
    need,
    number,
    same,
)
from workbench.live.replay import Replay, embedded

ROOT = Path(__file__).parents[2]
SETS = [path for path in course.lessons() if path.parent.name == course.PROBLEMS]
LESSONS = [path for path in course.lessons() if path not in SETS]
NOTEBOOKS = [ROOT / "notebooks" / "00_start_here.ipynb", *LESSONS]
SLIPS = tomllib.loads((ROOT / "tests/course/slips.toml").read_text("utf-8"))
KINDS = {"derive", "code", "predict", "break"}
near = partial(approx, rel=0.02)
# Whether the last rows of a lesson's recorded runs are as the text below them says.
PLAYED = {
    "mrc_1_minimax_risk": lambda *runs: (
        [run.upper for run in runs] == near([0.253, 0.359, 0.531])
        and max(run.test_error for run in runs) < 1.5 / 53
    ),
    "mrc_2_cutting_planes": lambda *runs: [run.round for run in runs] == [32, 16, 9],
    "mrc_4_how_large_lambda0": lambda paper, ours: (
        [paper.upper, paper.test_error, ours.upper] == near([0.43, 0.47, 2 / 3])
    ),
    "mrc_5_which_feature": lambda *runs: (
        [runs[0].round, runs[1].round] == [5, 17]
        and [runs[0].features, runs[1].features] == [340, 169]
        and max(abs(runs[2].round - 120), abs(runs[2].features - 120)) < 10
        and [run.upper for run in runs] == near([runs[0].lower] * 3)
    ),
    "mrc_3_certificates": lambda cuts, steps, inner: (
        cuts.gap < 0.01 and 0.009 < steps.gap < 0.01 and inner.gap <= 1e-3
    ),
    "ww_1_the_loss": lambda small, large: (small.round, large.round) == (5, 184),
    "ww_2_the_subproblem": lambda run: run.updates < 0.3,
    "ww_3_coordinate_descent": lambda walrus, shark, fast: (
        max(abs(walrus.round - 240), abs(shark.round - 240)) < 10
        and (fast.round, round(walrus.visits / fast.visits)) == (28, 5)
    ),
    "ww_4_how_good_can_C_be": lambda small, large: (
        [round(75 * run.test_error) for run in (small, large)] == [5, 3]
    ),
    "ls_1_second_order": lambda plain, fast: plain.round > 5 * fast.round,
    "ls_2_calibration": lambda run: (
        not hasattr(run, "upper") and 53 * run.test_error == near(1)
    ),
    "ls_3_stagewise": lambda narrow, middle, wide: (
        middle.primal < min(narrow.primal, wide.primal)
        and wide.test_error < min(narrow.test_error, middle.test_error)
    ),
    "ls_3b_links": lambda square, softmax, hinge: (
        hinge.primal < softmax.primal
        and softmax.test_error < min(square.test_error, hinge.test_error)
    ),
    "ls_4_recipe": lambda one, three, twelve: one.primal > three.primal > twelve.primal,
    "cuts_1_one_slack": lambda plain, line: (plain.round, line.round) == (36, 23),
    "cuts_1b_labels_and_kernels": lambda wide, narrow: (
        abs(wide.round - narrow.round) < 4
        and wide.kernel_values > 2 * narrow.kernel_values
        and wide.test_error > 0.35
    ),
    "cuts_2_sampling": lambda few, many: (
        many.round < 60
        and 1.06 < few.primal / many.primal < 1.12
        and many.test_error < few.test_error
    ),
    "memoir_1_inexact_margin": lambda exact, random: (
        random.recall < 0.05
        and [random.test_error, exact.test_error] == near([0.447, 0.38])
    ),
    "memoir_2_mips": lambda exact, hashes: (
        hashes.recall < 0.1
        and [hashes.test_error, exact.test_error] == near([0.475, 0.38])
    ),
    "memoir_3_details_matter": lambda paper, code: (
        code.primal < paper.primal and code.test_error < paper.test_error
    ),
    "five_answers": lambda *runs: (
        [hasattr(run, "upper") for run in runs] == [True, True, False, True, True]
    ),
    "argmax_or_probabilities": lambda walrus, sets, softmax: (
        walrus.test_error in (0.6, 0.65)
        and sets.primal == near(100)
        and softmax.test_error == 0.6
    ),
}
# Whether other runs of the package are as a lesson says, by the variables after a cell.
CLAIMED = {
    "argmax_or_probabilities/solvers": lambda a: (
        np.ptp(a.learnt["Weston-Watkins"][:2])
        < 1e-3
        > abs(a.learnt["Crammer-Singer"]).max()
        and a.learnt["Weston-Watkins"][0] > 0.3
        and abs(a.softmax(a.learnt["softmax"]) - [0.4, 0.35, 0.25]).max() < 1e-3
    ),
    "cuts_1_one_slack/recorded": lambda a: (
        (rises := [np.diff(run.trace.column("primal")) > 0 for run in a.runs])[0].mean()
        > 0.3
        and not rises[1].any()
    ),
    "cuts_1b_labels_and_kernels/kernel-loop": lambda a: (
        len(a.alpha) < 50 and abs(len(a.alpha) - a.theirs.last["round"]) < 9
    ),
    "cuts_2_sampling/above-run": lambda a: max(a.constant.column("model")) > a.optimum,
    "five_answers/crossed": lambda a: (
        30 < np.argmax(a.model > a.star) < 60
        and 1.01 < a.model[-1] / a.star < 1.05
        and a.memoir[-1] / a.star == near(1.12)
    ),
    "five_answers/runs": lambda a: (
        {name for name, rows in a.trails.items() if "lower" in rows[-1]}
        == {"MRC-CCG", "Walrus", "working sets", "least squares", "exact cuts"}
    ),
    "ls_1b_newton/irls-run": lambda a: (
        (plain := a.plain["as they are"])[3]
        < a.ours["ls_generalized", "as they are"][3] / 5
        and plain[4] > 100
        and plain[6:].min() > 1e4
        and 60
        < a.ours["ls_generalized", (b := "and a constant")][8] / a.plain[b][8]
        < 80
    ),
    "ls_3b_links/package-run": lambda a: (
        a.ours == approx(a.trace.last["primal"], rel=1e-4)
    ),
    "ls_3b_links/average-run": lambda a: (
        [np.mean(a.losses[:-1]), a.losses[-1]] == near([0.136, 0.09])
    ),
    "ls_3b_links/inner-run": lambda a: (
        a.traces["often"].last["primal"] < a.traces["once"].last["primal"]
    ),
    "ls_4_recipe/by-package": lambda a: a.off < 1e-3,
    "ww_4_how_good_can_C_be/package": lambda a: (
        (a.state.fewest, a.state.achieved) == (3, 0) and 60 < a.state.round < 80
    ),
    "mrc_5_which_feature/recorded": lambda a: all(
        next(
            row
            for row in run.trace.rows
            if row["round"] == run.trace.last["round"] // 2
        )["lower"]
        < 0.6 * run.trace.last["lower"]
        for run in a.runs[1:]
    ),
    "mrc_5_which_feature/package": lambda a: (
        a.last["features"] < 200 and a.last["lower"] == near(a.R_star)
    ),
    "sum_over_rows/package": lambda a: np.array_equal(a.here.W, a.there.W),
    "ww_3_coordinate_descent/draw-package": lambda a: (
        np.ptp([a.runs[name][0].last["round"] for name in ("ww_shark", "ww_walrus")])
        < 17
    ),
}


@exercise
def check_half(answer):
    """A check to check the checks with."""
    need(same(number(answer), 0.5), "heads and tails are equally likely")
    return "a fair coin"


def test_a_check_prints_and_never_raises(capsys):
    for answer, told in (
        (0.5, "right: a fair coin"),
        (0.4, "try again: heads and tails are equally likely"),
        (..., "not yet: "),
        (None, "not yet: "),
        ([0.5, ...], "not yet: "),
        ("half", "try again: a number is asked for, got 'half'"),
    ):
        assert check_half(answer) is None
        assert capsys.readouterr().out.startswith(told)
        assert credit(lambda given=answer: check_half(given)) == told.startswith(
            "right"
        )
        assert capsys.readouterr().out.startswith(told)
    decades = (
        "try again: within 3.0e-02 of the optimum: 1.5 of 3 decades. Most of the loss"
    )
    assert credit(lambda: print(decades)) == 0.5 and capsys.readouterr()
    teach.check_two_labels(lambda a, b: 1 / 0)
    assert capsys.readouterr().out.startswith(
        "try again: your answer raised ZeroDivisionError"
    )
    with pytest.raises(Unfinished):
        ask(lambda: (1, ...))
    with refuses(r"M should have the shape \(2,\), has \(3,\)", Hint):
        array([1, 2, 3], (2,), "M")


def test_a_small_error_gets_a_hint_on_accuracy(capsys):
    check_half(0.5 * (1 + 3e-5))
    said = capsys.readouterr().out
    assert "off by 3e-05 of its size, where 1e-06 is accepted" in said
    check_half(0.5 + 1e-7)
    assert capsys.readouterr().out.startswith("right")
    check_half(0.6)
    assert capsys.readouterr().out.endswith("equally likely\n")
    teach.check_two_labels(lambda a, b: None)
    assert "returned None: is a `return` missing?" in capsys.readouterr().out


def test_numbers_agree_relative_to_a_truth_above_one():
    assert same([1e6, 0], [1e6 + 0.5, 0]) and not same(1e6, 1e6 + 5)
    assert same(0, 1e-7) and not same(0, 1e-5)
    assert same(1e6, 1e6 + 5).off == pytest.approx(5e-6, rel=1e-3)
    assert not isinstance(same(np.nan, 1), Near) and not same(np.nan, 1)
    assert not isinstance(same(2, 1), Near)


def test_an_answer_is_given_until_the_exercise_is_solved(capsys, tmp_path, monkeypatch):
    SOLVED.clear()
    lesson = {"teach": sum_over_rows, "given": given, "pages": ...}
    exec("given('pages')", lesson)
    told = "given: Exercise 4 is not solved; here its answer is the lesson's own\n"
    assert lesson["pages"](0.5, 2) == 0.75 and capsys.readouterr().out == told
    own = lesson["pages"] = lambda q, m: 1 - (1 - q) ** m
    exec("teach.check_pages(pages)\ngiven('pages')", lesson)
    assert lesson["pages"] is own and capsys.readouterr().out.count("\n") == 1
    exec("teach.check_pages(...)\ngiven('pages')", lesson)
    assert lesson["pages"] is not own and capsys.readouterr().out.endswith(told)
    monkeypatch.setattr("checks.exercise.CHECKOUT", tmp_path)
    SOLVED.clear()
    with refuses("there is no answer to 'pages' here; install", LookupError):
        exec("given('pages')", lesson)


@each_path(LESSONS)
def test_every_exercise_has_its_check_and_a_hidden_solution(path):
    kinds = []
    cells = course.read(path).cells
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
            assert waiting
            assert "..." in cell.source
            assert after.metadata.tags == ["solution"]
            assert after.metadata.jupyter.source_hidden and after.source.endswith(check)
            waiting = False
    assert not waiting and len(kinds) >= 4 and set(kinds) == KINDS


@each_path(LESSONS)
def test_every_lesson_ends_with_five_questions(path):
    text = course.read(path).cells[-1].source
    assert text.startswith("## Five questions\n")
    assert re.findall(r"^\*\*(\d)\. ", text, flags=re.M) == [*"12345"]
    questions = re.split(r"^\*\*\d\. ", text, flags=re.M)[1:]
    rights = []
    for question in questions:
        said = re.findall(r"</summary>\n\n\*(Right|Wrong)\.\* \S", question)
        answers = re.findall(
            r"^<details><summary>(.+)</summary>$", question, flags=re.M
        )
        assert "?**\n" in question and len(set(answers)) == len(said) == 3
        assert said.count("Right") == 1
        rights.append(said.index("Right"))
    assert len(set(rights)) > 1, "the right answer is always at the same place"
    for words in re.findall("<summary>.*", text):
        assert not re.search("[`_*](?![^$]*\\$)", words), "no Markdown in a summary"


@each_path(SETS)
def test_a_problem_set_runs_without_its_solutions(path):
    text = "\n".join(cell.source for cell in course.read(path).cells)
    numbers = re.findall(r"^## Problem (\d+) · ", text, flags=re.M)
    assert numbers == [str(i + 1) for i in range(len(numbers))]
    assert 5 <= len(numbers) <= 8
    assert text.count("<summary>Worked solution</summary>") == len(numbers)
    for word in ("*Time*: ", "*Assumed*: ", "## References", "](https://"):
        assert word in text
    copy = course.student_copy(path).cells
    with redirect_stdout(io.StringIO()):
        exec("\n".join(cell.source for cell in copy if cell.cell_type == "code"), {})


def slightly_off(value):
    """Return an answer whose numbers are off by 3e-5 of their size."""
    if callable(value) and not isinstance(value, type):
        return lambda *given, **named: slightly_off(value(*given, **named))
    if type(value) in (tuple, list):
        return type(value)(map(slightly_off, value))
    if isinstance(value, np.ndarray | float) and np.asarray(value).dtype.kind == "f":
        return value * (1 + 3e-5)
    return value


def hint_on_accuracy(cell, namespace):
    """Return what a check says if the solution's own answers are slightly off."""
    tree = ast.parse(cell.source)
    names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    off = {name: slightly_off(namespace[name]) for name in names & namespace.keys()}
    with redirect_stdout(io.StringIO()) as said:
        exec(compile(ast.Module([tree.body[-1]], []), cell.id, "exec"), namespace | off)
    return said.getvalue()


@slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of wrong answers
@each_path([*NOTEBOOKS, *SETS])
def test_a_lesson_runs_and_its_checks_know_right_from_wrong(path, execute, monkeypatch):
    """Run a notebook once, as a student's copy without answers: solutions leave no
    variables."""
    monkeypatch.chdir(ROOT)
    SOLVED.clear()
    unanswered = {}
    mistakes = {
        f"{cell}-solution": made for cell, made in SLIPS.get(path.stem, {}).items()
    }
    own = f"{path.stem}/"
    claims = {
        key.removeprefix(own): CLAIMED[key] for key in CLAIMED if key.startswith(own)
    }

    def look(cell, namespace):
        tags = cell.metadata.get("tags", ())
        if "exercise" in tags:
            unanswered.clear()
            unanswered.update(namespace)
        for text, other, hint in mistakes.pop(cell.id, ()):
            assert text in cell.source
            with redirect_stdout(io.StringIO()) as told:
                exec(cell.source.replace(text, other), dict(namespace))
            answer = told.getvalue().splitlines()[-1]
            starts = (hint,) if hint == "right: " else ("try again: ", "not yet: ")
            assert answer.startswith(starts) and hint in answer, (text, other)
            assert "raised" not in answer or "raised" in hint, (text, other)
        if "solution" in tags and unanswered:
            said = hint_on_accuracy(cell, namespace)
            assert not re.search(r"([\d.]+),? not (to )?\1\b", said), said
            SOLVED.clear()
            namespace.clear()
            namespace.update(unanswered)
        if claim := claims.pop(cell.id, None):
            assert claim(SimpleNamespace(**namespace)), cell.id
        if cell.id == "recorded":
            runs = namespace["runs"]
            assert PLAYED[path.stem](*[SimpleNamespace(**r.trace.last) for r in runs])
            assert len(embedded(Replay(*runs).data)) < 500_000
        # the start page's chart, which moves by itself
        if live := namespace.pop("live", None):
            wait(lambda: live.chart.curves and live.chart.curves[0].seen > 2)
            live.retire()
            wait(lambda: live.player.status == "stopped" and not live.chart._timer)

    pictures = 0
    for cell, text, figures in execute(path, after=look):
        tags = cell.metadata.get("tags", ())
        assert ("solution" in tags) == text.startswith("right:"), cell.source
        assert "exercise" not in tags or text.splitlines()[-1].startswith("not yet:"), (
            cell.source
        )
        assert "try again" not in text
        pictures += figures
    assert (pictures or path not in LESSONS) and not mistakes and not claims
