"""Kernels for papermill: this environment's Python over IPC; they end with the calling process."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from workbench.runs.worker import end_with_this_process

# A Unix socket's path ends at 104 bytes on macOS and 108 on Linux, its terminating zero included.
SOCKET_PATH_LIMIT = 103
# A changed file in one of these does not make a notebook's result obsolete.
SYSTEM = ("/dev", "/etc", "/proc", "/sys", "/usr", sys.prefix, sys.base_prefix)


class IpcKernelManager(AsyncKernelManager):
    """Starts kernels of ``sys.executable``, reached over IPC (over TCP on Windows).

    Parallel kernels that pick free TCP ports race for them; a folder of sockets is private. And the
    first ``python3`` kernelspec that Jupyter finds may belong to another environment.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.context.rcvhwm = 0  # a cell that prints much must not lose messages
        self.release = lambda: None
        if os.name != "nt":
            folder = socket_folder()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.transport = "ipc"
            self.connection_file = str(folder / "k.json")
            self.ip = str(folder / "k")

    async def start_kernel(self, **kwargs) -> None:
        await super().start_kernel(**kwargs)
        # A kernel leads a session of its own: its group is the kernel and what its cells start.
        self.release = end_with_this_process(self.provisioner.pid)

    async def cleanup_resources(self, restart: bool = False) -> None:
        await super().cleanup_resources(restart)
        self.release()

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "workbench.runs.kernel", "-f", "{connection_file}"],
            display_name="Python 3",
            language="python",
        )


def socket_folder() -> Path:
    """Make a new private folder whose path is short enough for the sockets of one kernel."""
    folder = Path(tempfile.mkdtemp(prefix="wb-"))
    if len(os.fsencode(folder / "k-65535")) > SOCKET_PATH_LIMIT:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="wb-", dir="/tmp"))
    return folder


def digests(path: Path, ours: tuple[Path, ...]) -> dict[str, str]:
    """Return the digests by path of the files in a list of :mod:`workbench.runs.kernel`.

    Left out are files of the system and of libraries, hidden ones, and those in folders `ours`.
    """
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        file = Path(importlib.util.source_from_cache(line)) if line.endswith(".pyc") else Path(line)
        left_out = any(file.is_relative_to(folder) for folder in (*SYSTEM, *ours))
        hidden = any(part[0] == "." or part == "__pycache__" for part in file.parts)
        if not left_out and not hidden and file.is_file():
            found[str(file)] = digest(file)
    return found


def digest(path: str | Path) -> str:
    """Return the SHA-256 of a file, empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
