"""The format in which LSHTC, DMOZ, WIKI and XMC publish documents: a list of labels a line."""

from __future__ import annotations

import os
import re
from array import array
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from workbench.data.formats import BROKEN, Rows, open_text

HEADER = re.compile(rb"\s*\d+\s+\d+\s+\d+\s*")
LABELS = re.compile(rb"\s*(\d+\s*(,\s*\d+\s*)*,?\s*)?")


def read_label_lists(path: str | os.PathLike) -> Rows:
    """Read LIBSVM's format with several labels a line, as LSHTC, DMOZ, WIKI and XMC publish it.

    A line is ``label,label,... index:value index:value ...``; blanks after the commas are taken,
    as are lines without values, which are empty documents. A line becomes one row for each of its
    labels, as the papers do, and none where it has no label; `about` counts both. A random split
    of such rows can have one document on both sides.

    A first line of three whole numbers is a header, ``rows features labels``: indices count from
    0 then, and the file must have so many lines. Else they count from 1 unless a 0 occurs. A
    first line ``Data`` is skipped. Plain or compressed (.bz2, .gz, .xz).

    Raises
    ------
    ValueError
        Naming the file, and the line where one is not of this format.
    """
    path, header = Path(path), None
    labels, counts, lengths = array("q"), array("q"), array("q")  # of each line
    indices, values = array("q"), array("d")
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                line = line.partition(b"#")[0]
                if number == 1 and (line.strip() == b"Data" or HEADER.fullmatch(line)):
                    header = [int(size) for size in line.split()] if b"Data" not in line else None
                    continue
                if not line.strip() and header is None:
                    continue
                found, pairs = _label_list(line, number)
                labels.extend(found)
                counts.append(len(found))
                lengths.append(len(pairs))
                indices.extend(index for index, _ in pairs)
                values.extend(value for _, value in pairs)
    except BROKEN as error:
        kind = "LIBSVM's format with lists of labels"
        raise ValueError(f"{path}: cannot be read as {kind}: {error}") from error
    if not labels:
        raise ValueError(f"{path}: has no line with a label")
    columns = np.array(indices, dtype=np.int64)
    base = 0 if header or (len(columns) and columns.min() == 0) else 1
    columns -= base
    d = header[1] if header else int(columns.max(initial=0)) + 1
    if header and (len(counts) != header[0] or columns.max(initial=0) >= d):
        raise ValueError(
            f"{path}: its header promises {header[0]} rows and {d} features, it has {len(counts)} "
            f"rows and the indices 0 to {columns.max(initial=0)}"
        )
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = sp.csr_matrix((np.array(values), columns, indptr), shape=(len(counts), d))
    counts = np.array(counts)
    about = (
        f"{len(counts)} lines: {np.sum(counts > 1)} with several labels became a row for each, "
        f"{np.sum(counts == 0)} without a label none"
    )
    return Rows(X[np.repeat(np.arange(len(counts)), counts)], np.array(labels), about=about)


def has_label_lists(path: str | os.PathLike) -> bool:
    """Whether a text file has a line with several labels, or begins as such files do."""
    path = Path(path)
    try:
        with open_text(path) as file:
            first = next(file, b"")
            if first.strip() == b"Data" or HEADER.fullmatch(first):
                return True
            return any(b"," in line.partition(b"#")[0] for line in chain([first], file))
    except BROKEN:
        return False  # let the reader say why


def _label_list(line: bytes, number: int) -> tuple[list[int], list[tuple[int, float]]]:
    """Return the labels of a line and its pairs of an index and a value."""
    colon = line.find(b":")
    end = len(line) if colon < 0 else max(0, *(line.rfind(b, 0, colon) + 1 for b in (b" ", b"\t")))
    if not LABELS.fullmatch(line, 0, end):
        text = line[:end].decode(errors="replace").strip()
        raise ValueError(f"line {number}: labels must be whole numbers with commas, got {text!r}")
    labels = [int(label) for label in line[:end].replace(b",", b" ").split()]
    pairs = []
    for token in line[end:].split():
        index, _, value = token.partition(b":")
        try:
            pairs.append((int(index), float(value)))
        except ValueError:
            index = b"-1"
        if int(index) < 0:
            token = token.decode(errors="replace")
            raise ValueError(
                f"line {number}: must hold index:value after its labels, got {token!r}"
            )
    return labels, pairs
