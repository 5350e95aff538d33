"""Progress of tasks, with the time left."""

from __future__ import annotations

import time

from workbench.core.names import count
from workbench.runs.worker import Say, duration


class Progress:
    """Reports each failure, and at most one other end per second, with the time left."""

    def __init__(self, total: int, waiting: int, say: Say):
        self.total, self.left, self.say, self.before = total, waiting, say, total - waiting
        self.started = self.said = time.monotonic()
        before = f", {self.before} done before" if self.before else ""
        say(f"{count(total, 'point')}{before}, {waiting} to run")

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
