"""Small notebooks, and what executed ones have printed."""

import nbformat


def printed(path):
    content = nbformat.read(path, 4)
    return "".join(
        out.get("text", "") for cell in content.cells for out in cell.get("outputs", ())
    )


def write(path, *sources, tagged=True, kernel="python3", **metadata):
    """Write a notebook of these cells; the first has the parameters if it is tagged."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    if tagged:
        cells[0].metadata["tags"] = ["parameters"]
    names = {"name": kernel, "display_name": "Python 3", "language": "python"}
    content = nbformat.v4.new_notebook(cells=cells)
    content.metadata |= {"kernelspec": names} | metadata
    path.parent.mkdir(exist_ok=True)
    nbformat.write(content, path)
    return path
