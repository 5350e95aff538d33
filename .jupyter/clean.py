"""Print a notebook from standard input as it is committed: without outputs.

Git calls it for the notebooks that .gitattributes names; `make lab` tells git to. The
file itself keeps its outputs, so that a dashboard is there again after F5.
"""

import json
import sys

KERNEL = {
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
    "name": "python3",
}


def without_outputs(notebook: dict) -> dict:
    """Return a notebook without what a run leaves in it; it is changed."""
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    metadata = notebook["metadata"]
    metadata.pop("widgets", None)
    # A kernel writes its own name and version, which are not the notebook's.
    metadata["kernelspec"] = KERNEL
    metadata["language_info"] = {"name": "python"}
    return notebook


if __name__ == "__main__":
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    text = sys.stdin.read()
    try:
        cleaned = without_outputs(json.loads(text))
    except (ValueError, KeyError, TypeError):  # no notebook: git sees it as it is
        print(text, end="")
    else:
        print(json.dumps(cleaned, indent=1, ensure_ascii=False))
