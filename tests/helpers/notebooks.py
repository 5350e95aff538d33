"""Notebooks as they were executed."""

import nbformat


def printed(path):
    content = nbformat.read(path, as_version=4)
    return "".join(
        out.get("text", "") for cell in content.cells for out in cell.get("outputs", ())
    )
