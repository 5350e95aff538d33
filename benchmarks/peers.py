"""Make the environment of the published code that we are measured against: ``make peers``.

MRCpy 3.0.0 runs in ``benchmarks/.peers``, an environment of its own, as it comes from the
package index: no file of it is changed and none of its imports is replaced.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ENVIRONMENT = Path(__file__).parent / ".peers"
DONE = ENVIRONMENT / ".ok"

# All that MRCpy imports when its solvers run. Its other requirements (the torch classifier with
# its gigabytes of CUDA, and pandas, pyarrow and tqdm) serve modules that `import MRCpy` never
# loads, hence --no-deps for MRCpy itself.
LIBRARIES = (
    "numpy==2.4.6",  # as in our own environment, so that both run on the same BLAS
    "scipy==1.17.1",
    "scikit-learn==1.6.1",  # from 1.7 its feature maps are warned about, from 1.8 refused
    "cvxpy==1.9.3",
    "gurobipy==13.0.3",  # MRCpy's LP solver; the size-limited licence inside expires 2027-11-29
)
PEERS = ("MRCpy==3.0.0",)

# An expired licence shows when a model is made, not when gurobipy is imported.
CHECK = "import gurobipy; gurobipy.Model(); from MRCpy import MRC; MRC(solver='ccg')"


def python() -> Path:
    """Return the interpreter of the peers.

    Raises
    ------
    FileNotFoundError
        If ``make peers`` has not succeeded here with the pins above.
    """
    if not ready():
        raise FileNotFoundError("benchmarks/.peers is missing or outdated: run `make peers`")
    return ENVIRONMENT / "bin" / "python"


def ready() -> bool:
    """Return whether the environment passed its check with exactly these pins."""
    return DONE.exists() and DONE.read_text(encoding="utf-8") == pins()


def pins() -> str:
    """Return the pinned requirements, one a line."""
    return "\n".join([*LIBRARIES, *PEERS, ""])


def main() -> None:
    """Make the environment unless it is there already."""
    if ready():
        print("benchmarks/.peers is up to date")
        return
    print("making benchmarks/.peers with", ", ".join([*LIBRARIES, *PEERS]))
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    venv.create(ENVIRONMENT, with_pip=True)
    interpreter = str(ENVIRONMENT / "bin" / "python")
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [*install, *LIBRARIES],
        [*install, "--no-deps", *PEERS],
        [interpreter, "-c", CHECK],
    ):
        if subprocess.run(command).returncode:
            sys.exit(f"benchmarks/.peers is not usable: {' '.join(command[1:4])} ... failed")
    DONE.write_text(pins(), encoding="utf-8")
    print("benchmarks/.peers is ready")


if __name__ == "__main__":
    main()
