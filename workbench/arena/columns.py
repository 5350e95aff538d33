"""The columns of a stranger's table: numbers made of each, or words on why not."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

LEVELS = 30  # distinct words up to which a column of text becomes columns of zeros and ones
SHOWN = 5  # columns, values or classes that a message names
OTHERS = 5  # rows outside the largest class from which a copy of the labels is no coincidence
WITH_COMMA = re.compile(
    r"[-+]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][-+]?\d+)?|[-+]?\d{1,3}(,\d{3})+(\.\d+)?"
)
DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3(\d{4}|\d\d))([T ].*)?")
SENTENCE = re.compile(r"\S+(\s+\S+){2,}\s*")


def numbers(
    frame: pd.DataFrame, y: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the features as numbers (n, d), text of few words as zeros and ones, and their names.

    Columns that are the same in all rows, that count the rows, or whose text cannot be used are
    left out. One that tells the label `y` of every row is kept, with a note that asks.

    Raises
    ------
    ValueError
        Naming all columns with gaps, infinite values or numbers that are written as text.
    """
    kept, wrong, commas, gaps, encoded, left_out, still, copies = [], [], [], [], [], [], [], []
    labels = pd.factorize(y)[0]
    for name, column in frame.items():
        missing = int(column.isna().sum())
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(np.float64, na_value=np.nan)
            infinite = int(np.isinf(values).sum())
            if missing:
                wrong.append(f"{name}: {count(missing, 'missing value')}")
            if infinite:
                wrong.append(f"{name}: {count(infinite, 'infinite value')}")
            if missing or infinite:
                continue
            if values.min() == values.max():
                still.append(name)
            elif _row_numbers(values):
                left_out.append(f"{name} (the numbers of the rows)")
            else:
                kept.append(pd.Series(values, name=name))
                if _is_copy(values, labels):
                    copies.append(name)
        elif not _text(column):
            left_out.append(f"{name} ({column.dtype}: make numbers of it, such as days or hours)")
        elif reason := _with_commas(column):
            commas.append(f"{name}: {reason}")
        elif reason := _mixed(column):
            also = f", and {count(missing, 'missing value')}" if missing else ""
            wrong.append(f"{name}: {reason}{also}")
        else:
            words = column.astype(object).where(column.notna(), "missing").astype(str)
            if words.nunique() > LEVELS:
                left_out.append(f"{name} ({words.nunique():,} different texts, {_kind(words)})")
            elif words.nunique() == 1:
                still.append(name)
            else:
                if missing:
                    gaps.append(
                        f"{name}: {count(missing, 'gap')}, which would be a text of its own"
                    )
                also = f", {count(missing, 'gap')} as one of them" if missing else ""
                encoded.append(f"{name} ({words.nunique()}{also})")
                kept.append(pd.get_dummies(words, prefix=name, prefix_sep="=", dtype=np.float64))
                if _is_copy(words, labels):
                    copies.append(name)
    _refuse(commas, wrong, gaps)
    for what, names in (
        ("text made columns of zeros and ones (different texts)", encoded),
        ("left out", left_out),
        ("left out, the same in all rows", still),
        (
            "alone tells the label of every row, one to one, as a copy of it would; is it known "
            "before the label is? If not, drop it",
            copies,
        ),
    ):
        if names:
            notes.append(f"{what}: {some(names, 10)}")
    if not kept:
        raise ValueError(f"data: no feature is left; {'; '.join(notes)}")
    table = pd.concat(kept, axis=1)
    return table.to_numpy(np.float64), tuple(map(str, table.columns))


def count(number: int, what: str) -> str:
    """Return a number with the plural of what it counts."""
    plural = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def some(names, most: int = SHOWN, between: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    names = list(map(str, names))
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + rest


def _refuse(commas: list[str], wrong: list[str], gaps: list[str]) -> None:
    """Raise, with advice, where numbers are missing or written as text; gaps of text join in."""
    advice = []
    if commas:
        advice.append(
            "Write numbers with a decimal point and nothing between thousands, or read them in "
            "Python, with pandas.read_csv(..., decimal=',') or thousands=',', and compare the frame"
        )
    if wrong:
        advice.append(
            "Fill gaps, in the file or in a frame, with a value that you can answer for, such "
            "as the median (frame.fillna(frame.median(numeric_only=True))), or drop these columns "
            "or rows"
        )
    if advice:
        raise ValueError(f"data: {some(commas + wrong + gaps, 20, '; ')}. {'. '.join(advice)}")


def _with_commas(column: pd.Series) -> str | None:
    """Tell of numbers with decimal commas, or commas between thousands: which, nobody can know."""
    strange, filled = _strange(column)
    with_comma = [entry for entry in strange if WITH_COMMA.fullmatch(str(entry).strip())]
    if with_comma and len(strange) - len(with_comma) < 0.2 * filled:
        return f"{count(len(with_comma), 'number')} with a comma such as {with_comma[0]!r}"
    return None


def _mixed(column: pd.Series) -> str | None:
    """Tell of numbers that are text for the sake of a few entries."""
    strange, filled = _strange(column)
    if 0 < len(strange) < 0.2 * filled:
        return f"numbers, but for {count(len(strange), 'entry')} such as {strange.iloc[0]!r}"
    return None


def _strange(column: pd.Series) -> tuple[pd.Series, int]:
    """Return the entries that are no numbers, and how many there are in all."""
    filled = column.dropna()
    return filled[pd.to_numeric(filled, errors="coerce").isna()], len(filled)


def _text(column: pd.Series) -> bool:
    return column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype | pd.StringDtype)


def _kind(words: pd.Series) -> str:
    """Tell what too many different texts look like."""
    texts = words.unique()
    for pattern, what in (
        (DATE, "dates: make numbers of them, such as days"),
        (SENTENCE, "free text: make numbers of it, such as counts of words"),
    ):
        if sum(bool(pattern.fullmatch(text)) for text in texts) > 0.8 * len(texts):
            return what
    return "an identifier" if len(texts) > 0.5 * len(words) else "too many to use"


def _row_numbers(values: np.ndarray) -> bool:
    """Tell whether a column counts the rows: it would give away the order they were sorted in."""
    return len(values) > LEVELS and bool((np.diff(values) == 1).all())


def _is_copy(values, labels: np.ndarray) -> bool:
    """Tell whether values and labels, these coded in the order they appear, are one to one."""
    few = slice(1000)  # enough for most columns
    others = len(labels) - np.bincount(labels).max()
    return (
        others >= OTHERS
        and np.array_equal(pd.factorize(values[few])[0], labels[few])
        and np.array_equal(pd.factorize(values)[0], labels)
    )
