"""Kernels for papermill: this environment's Python, over IPC."""

import sys
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from workbench.runs.worker import WITH_ITS_PARENT

# These kernels are never debugged, and importing the debugger takes over half a second.
KERNEL = (
    f"{WITH_ITS_PARENT}; import sys; sys.modules['debugpy'] = None; "
    "from ipykernel.kernelapp import launch_new_instance as go; go()"
)


class IpcKernelManager(AsyncKernelManager):
    """Start kernels of ``sys.executable`` that communicate over IPC.

    Parallel kernels may choose the same free TCP port, but a folder of sockets is
    private. Also, the first ``python3`` kernelspec that Jupyter finds may belong to
    another environment.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # The path of a Unix socket has at most 103 bytes, so the temporary folder must
        # be short.
        self.folder = TemporaryDirectory(
            prefix="wb-", dir="/tmp", ignore_cleanup_errors=True
        )
        self.transport, self.ip = "ipc", f"{self.folder.name}/k"
        self.connection_file = f"{self.folder.name}/k.json"

    async def cleanup_resources(  # type: ignore[override]
        self, restart: bool = False
    ) -> None:
        await super().cleanup_resources(restart)
        if not restart:
            self.folder.cleanup()

    async def start_kernel(self, **kwargs: Any) -> None:  # type: ignore[override]
        # Output of processes that cells start must not reach the terminal.
        await super().start_kernel(**{"stdout": DEVNULL, "stderr": DEVNULL} | kwargs)

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-c", KERNEL, "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")
