"""The settings of `make lab`: notebooks that git tracks are saved without outputs.

labconfig/ beside this file answers the question about news, so that nobody is asked.
"""

import json
import subprocess


def without_outputs(model, path, contents_manager):
    """Save a notebook that git tracks without outputs: running it leaves the file
    unchanged.

    A notebook of your own keeps its outputs.
    """
    command = ["git", "-C", contents_manager.root_dir, "show", f"HEAD:./{path}"]
    known = subprocess.run(command, capture_output=True)
    if model["type"] != "notebook" or known.returncode:
        return
    content, metadata = model["content"], json.loads(known.stdout)["metadata"]
    for cell in content["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    content["metadata"].pop("widgets", None)
    for name in (
        "kernelspec",
        "language_info",
    ):  # the kernel's own version is not the notebook's
        content["metadata"][name] = metadata[name]


c = get_config()  # noqa: F821
c.ContentsManager.pre_save_hook = without_outputs
