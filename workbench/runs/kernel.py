"""The program of papermill's kernels here: ipykernel, which lists the files that its cells read."""

from __future__ import annotations

import os
import sys

from ipykernel.kernelapp import IPKernelApp

LIST = "WORKBENCH_FILES_READ"  # environment variable: the file to which the list is written


class Kernel(IPKernelApp):
    """A kernel that loses nothing of what a cell prints, however much that is."""

    def init_iopub(self, context) -> None:
        context.sndhwm = 0
        super().init_iopub(context)


def list_files_read(path: str) -> None:
    """Append to `path` each file that this process opens to read and has not written itself."""
    seen, sink = set(), open(path, "a", encoding="utf-8")

    def hook(event: str, arguments: tuple) -> None:
        if event != "open" or not isinstance(arguments[0], (str, os.PathLike)):
            return
        file, flags = os.path.abspath(arguments[0]), arguments[2]
        if file not in seen:
            seen.add(file)
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                print(file, file=sink, flush=True)

    sys.addaudithook(hook)


if __name__ == "__main__":
    files_read = os.environ.pop(LIST, None)
    if sys.path[0] == os.getcwd():  # `-m` puts it there, and ipykernel adds it itself
        del sys.path[0]
    app = Kernel.instance()
    app.initialize()
    if files_read:
        list_files_read(files_read)
    app.start()
