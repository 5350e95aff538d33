"""Kernels for papermill: of the running interpreter, over IPC, which cannot race for ports."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

# A Unix socket's path ends at 104 bytes on macOS and 108 on Linux, its terminating zero included.
SOCKET_PATH_LIMIT = 103

_managers: weakref.WeakSet[IpcKernelManager] = weakref.WeakSet()
_lock = threading.Lock()  # of that set


class IpcKernelManager(AsyncKernelManager):
    """Starts kernels of ``sys.executable``, reached over IPC (over TCP on Windows).

    Parallel kernels that pick free TCP ports race for them; a folder of sockets is private. And the
    first ``python3`` kernelspec that Jupyter finds may belong to another environment.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        if os.name != "nt":
            folder = socket_folder()
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.transport = "ipc"
            self.connection_file = str(folder / "k.json")
            self.ip = str(folder / "k")
        with _lock:
            _managers.add(self)

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
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


def kill_kernels() -> None:
    """Kill every kernel that this process has started, with its children."""
    with _lock:
        managers = list(_managers)
    for manager in managers:
        process = getattr(manager.provisioner, "process", None)
        if process is None or process.poll() is not None:
            continue
        with suppress(ProcessLookupError):  # it ended meanwhile
            if os.name == "nt":
                process.kill()
            else:
                # A kernel leads its own session, so the group is the kernel and its workers.
                os.killpg(process.pid, signal.SIGKILL)
