"""Kernels for papermill: this environment's Python over IPC; they end with the calling process."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from subprocess import DEVNULL

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from workbench.runs.worker import end_with_this_process

# A Unix socket's path ends at 104 bytes on macOS and 108 on Linux, its terminating zero included.
SOCKET_PATH_LIMIT = 103
# By default a socket drops messages beyond the first thousand that wait, and with them output.
KERNEL = """
from ipykernel.kernelapp import IPKernelApp
class Kernel(IPKernelApp):
    def init_iopub(self, context):
        context.sndhwm = 0
        super().init_iopub(context)
Kernel.launch_instance()
"""


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
        quiet = {"stdout": DEVNULL, "stderr": DEVNULL}  # of processes that its cells start
        await super().start_kernel(**quiet | kwargs)
        # A kernel leads a session of its own: its group is the kernel and what its cells start.
        self.release = end_with_this_process(self.provisioner.pid)

    async def cleanup_resources(self, restart: bool = False) -> None:
        await super().cleanup_resources(restart)
        self.release()

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-c", KERNEL, "-f", "{connection_file}"],
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
