"""Progress of points and of notebooks, and the time left, on one live line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from workbench.runs.worker import duration

Say = Callable[[str], None]


class Progress:
    """Says what ended, at most one line per second but every failure, and the time left."""

    def __init__(self, total: int, waiting: int, say: Say):
        self.total, self.left, self.say, self.before = total, waiting, say, total - waiting
        self.started = self.said = time.monotonic()
        before = f", {self.before} done before" if self.before else ""
        say(f"{total} points{before}, {waiting} to run")

    def show(self, label: str, status: str, text: str) -> None:
        self.left -= 1
        now, done = time.monotonic(), self.total - self.left
        if status == "failed":
            text = f"FAILED, {text}"
        elif self.left and now - self.said < 1:
            return
        self.said = now
        if self.left:
            seconds = (now - self.started) / (done - self.before) * self.left
            text += f"; {duration(seconds)} left"
        self.say(f"[{done}/{self.total}] {label}: {text}")

    def kept(self) -> str:
        """Return the results that an early end leaves."""
        done = self.total - self.left
        return f"{done} of {self.total} points have ended and are kept; run it again to resume"


class TimeLeft:
    """The time that notebooks will take, by what each took when its figures were last made."""

    def __init__(self, seconds: Mapping[str, float], alone: Iterable[str], lanes: int):
        known = [s for s in seconds.values() if s]
        self.known = bool(known)
        usual = sum(known) / len(known) if known else 1.0
        self.expected = {name: s or usual for name, s in seconds.items()}
        self.alone, self.lanes = set(alone), lanes
        self.took: dict[str, float] = {}

    def in_words(self) -> str:
        """Return ``; 3 min left``, or nothing where nothing is known or left."""
        waiting = {name: s for name, s in self.expected.items() if name not in self.took}
        if not waiting or not (self.known or self.took):
            return ""
        ended = sum(self.expected[name] for name in self.took)
        pace = sum(self.took.values()) / ended if ended else 1.0
        alone = sum(s for name, s in waiting.items() if name in self.alone)
        return f"; {duration(pace * max(alone, sum(waiting.values()) / self.lanes))} left"


def live_line() -> Say:
    """Return a `say` whose last line is what the notebooks do now."""
    from tqdm import tqdm

    now = tqdm(bar_format="{desc}", leave=False, dynamic_ncols=True)

    def say(line: str) -> None:
        detail = line.startswith("  ") and " | " in line and "warning" not in line
        now.set_description_str(line.strip()[: now.ncols or 80] if detail else "")
        if not detail:
            tqdm.write(line)

    return say
