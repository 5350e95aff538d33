"""Run a command in a fresh clone of HEAD; write its row into CONTRIBUTING.md.

    python .site/ran.py make PYTHON3=python3.13 test
    WORKBENCH_DATA=/data python .site/ran.py make PYTHON3=python3.12 test

A later run of the same command with the same Python, and with or without data, replaces
the row. The clone is in the folder for temporary files and is removed.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
HEAD = f"| command | data | Python | result | minutes | commit |\n{'|---' * 6}|\n"


def ran(words: list[str]) -> str:
    """Run the command in a clone and return its row of the table."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        git = ["git", "clone", "--quiet", str(ROOT), folder]
        subprocess.run(git, check=True)
        begin = time.monotonic()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(words, cwd=folder, text=True, **pipes) as process:
            lines = []
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        minutes = (time.monotonic() - begin) / 60
        commit = said("git", "-C", folder, "rev-parse", "--short", "HEAD")
        version = said(f"{folder}/.venv/bin/python", "--version").split()[-1]
    data = "with" if os.environ.get("WORKBENCH_DATA") else "without"
    ended = result("".join(lines), process.returncode)
    cells = f"`{shlex.join(words)}`", data, version, ended, f"{minutes:.0f}", commit
    return f"| {' | '.join(cells)} |\n"


def said(*words: str) -> str:
    """Return what a command prints."""
    return subprocess.check_output(words, text=True).strip()


def result(printed: str, status: int) -> str:
    """Return how many tests passed, failed and were skipped, or how the command
    ended."""
    summaries = re.findall(r"(?m)^=* ?((?:\d+ \w+, )*\d+ \w+) in [\d.]+s", printed)
    counts = summaries[-1:] or ([] if status else ["done"])
    return ", ".join([*counts, *([f"exit status {status}"] if status else [])])


def written(page: str, row: str) -> str:
    """Return the page with the row in its table, instead of an older one."""
    before, head, rest = page.partition(HEAD)
    if not head:
        raise SystemExit(f"{PAGE.name}: the table of what ran was not found")
    key = row.split(" | ")[:3]
    end = re.search(r"(?m)^(?!\|)|\Z", rest).start()
    rows = rest[:end].splitlines(keepends=True)
    kept = [old for old in rows if old.split(" | ")[:3] != key]
    return before + head + "".join(sorted([*kept, row])) + rest[end:]


if __name__ == "__main__":
    if not sys.argv[1:]:
        raise SystemExit(__doc__)
    row = ran(sys.argv[1:])
    PAGE.write_text(written(PAGE.read_text("utf-8"), row), encoding="utf-8")
