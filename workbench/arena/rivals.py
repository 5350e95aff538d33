"""Trees, which most people try first: fitted once, at the settings that scikit-learn gives them.

They are not streams of iterates: their time is that of the whole fit. An answer by one of them is
there in seconds, before any search has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from workbench.core.problem import Problem

CODE = """from sklearn.ensemble import {model}

from workbench.arena import prepared

problem = {problem}
model = {model}(random_state=0)
model.fit(problem.X, problem.classes[problem.y])
test_error = (model.predict(problem.X_test) != problem.classes[problem.y_test]).mean()
print(f"test error: {{100 * test_error:.2f}} %")
"""


class Rival(NamedTuple):
    """An ensemble of trees: its label, its class in ``sklearn.ensemble``, and what it takes.

    Attributes
    ----------
    dense : whether sparse rows are refused
    most : classes it takes; boosting grows a tree for each class in every iteration
    """

    label: str
    model: str
    dense: bool = False
    most: int = 1000


RIVALS = {
    "random_forest": Rival("Random forest", "RandomForestClassifier"),
    "extra_trees": Rival("Extra trees", "ExtraTreesClassifier"),
    "boosting": Rival("Gradient boosting", "HistGradientBoostingClassifier", True, most=30),
}


def answer(name: str, problem: Problem) -> Mapping[str, Any]:
    """Fit a rival with one thread; return a row as those of :meth:`Contest.frame`.

    Parameters
    ----------
    name : of :data:`RIVALS`
    problem : with test rows
    """
    label, model, dense, most = RIVALS[name]
    row = {"entry": name, "label": label, "family": "trees", "settings": "defaults", "cut": False}
    if dense and problem.is_sparse:
        return row | {"status": "refused", "reason": "takes dense rows only"}
    if problem.k > most:
        return row | {"status": "refused", "reason": f"takes at most {most} classes here"}
    forest = getattr(import_module("sklearn.ensemble"), model)(random_state=0)
    start = process_time()
    with threadpool_limits(1):
        forest.fit(problem.X, problem.y)
    taken = process_time() - start
    error = float(np.mean(forest.predict(problem.X_test) != problem.y_test))
    spread = float(np.sqrt(error * (1 - error) / len(problem.y_test)))
    row |= {"status": "done", "reason": "", "test_error": error, "standard_error": spread}
    return row | {"fit_cpu": taken, "memory_mb": np.nan}
