"""Kernels for papermill: forked from a process that has imported what notebooks import.

They are reached over IPC, which cannot race for ports. A kernel of its own would take four
processor seconds to import the same modules again; where processes cannot fork (Windows), it does.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import numba
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from threadpoolctl import threadpool_limits

from workbench.runs.engine import fork_worker
from workbench.runs.worker import ONE_THREAD, keep_off_timed_core

INLINE = "module://matplotlib_inline.backend_inline"
FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_server = multiprocessing.get_context("forkserver" if FORKS else None)

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

    async def start_kernel(self, **kwargs) -> None:
        if FORKS and self.provisioner is None:
            self.provisioner = _Provisioner(parent=self, kernel_spec=self.kernel_spec)
        await super().start_kernel(**kwargs)

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python 3",
            language="python",
        )


class OneThreadKernelManager(IpcKernelManager):
    """Gives each of its kernels one thread: others run next to it, and threads wait for cores."""

    async def start_kernel(self, **kwargs) -> None:
        # Numba is loaded in forks, and refuses another value of its own variable from then on.
        one = {name: "1" for name in ONE_THREAD if not (FORKS and name.startswith("NUMBA"))}
        await super().start_kernel(env=os.environ | one, **kwargs)


class BesideKernelManager(OneThreadKernelManager):
    """Also keeps its kernels off the core that timed runs are pinned to."""


class _Kernel(_server.Process):
    """A kernel as a process, with the methods of Popen that a provisioner calls."""

    stdin = stdout = stderr = None

    def __init__(self, argv: list[str], env: dict[str, str], folder: str | None, manager: type):
        # The end of this process is theirs, however it comes.
        super().__init__(daemon=True)
        self.argv, self.env, self.folder, self.manager = argv, env, folder or os.getcwd(), manager

    def start(self) -> None:
        """Fork; the caller's script is not run again in the fork, as multiprocessing would."""
        with _lock:
            script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = script

    def run(self) -> None:
        """Be a kernel; this runs in the forked process."""
        import matplotlib
        from ipykernel.ipkernel import IPythonKernel
        from ipykernel.kernelapp import IPKernelApp

        class Kernel(IPythonKernel):
            async def _progressively_terminate_all_children(self) -> None:
                """Leave workers to their pools: a pool's tracker ignores the signal for seconds."""

        os.setsid()  # the kernel and its workers are a group
        self.daemon = False  # it may have workers
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.folder)
        sys.argv = ["ipykernel_launcher", *self.argv]
        matplotlib.use(os.environ.setdefault("MPLBACKEND", INLINE))
        if issubclass(self.manager, BesideKernelManager):
            keep_off_timed_core()
        app = IPKernelApp.instance(parent_handle=os.getppid(), kernel_class=Kernel)
        app.init_path()  # the worker is to find the modules that the notebook finds
        fork_worker()
        if issubclass(self.manager, OneThreadKernelManager):  # for libraries that are loaded
            numba.set_num_threads(1)  # first, because it may load one more
            threadpool_limits(1)
        try:
            app.initialize(self.argv)
            app.start()
        finally:
            atexit._run_exitfuncs()  # multiprocessing leaves them out

    def poll(self) -> int | None:
        return self.exitcode

    def wait(self) -> int | None:
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


class _Provisioner(LocalProvisioner):
    """Starts a kernel as a fork instead of a new interpreter."""

    async def launch_kernel(self, cmd: list[str], **kwargs) -> dict:
        _server.set_forkserver_preload(["workbench.figures.imported"])
        # The command is `python -m ipykernel_launcher -f FILE ...`.
        self.process = _Kernel(cmd[3:], kwargs["env"], kwargs.get("cwd"), type(self.parent))
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info


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
