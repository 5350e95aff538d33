"""The kernels whose mutants are tried: their functions, and the tests that should
notice."""

from inspect import unwrap
from operator import attrgetter
from types import ModuleType
from typing import NamedTuple

from workbench.kernels import rows
from workbench.least_squares import (
    block_visits,
    calibrated,
    generalized,
    links,
    stagewise,
)
from workbench.memoir import blocks, products, steps
from workbench.mrc import risk, splitting
from workbench.sampled_cuts import qp
from workbench.weston_watkins import bcd, fast, walrus


class Kernel(NamedTuple):
    """Names of functions, what compiled code takes into itself included, and the tests
    of them."""

    names: dict[ModuleType, str]
    tests: list[str]

    def functions(self):
        """Return the functions."""
        return [
            unwrap(attrgetter(n)(module))
            for module, ns in self.names.items()
            for n in ns.split()
        ]


KERNELS = {
    "mrc": Kernel(
        {risk: "psi greedy_subset", splitting: "prox_of_max relax soft_threshold"},
        [
            "kernels/test_kernels_mrc.py",
            "mrc/test_mrc.py::test_psi_and_algorithm_2_equal_brute_force",
            "mrc/test_mrc.py::test_psi_is_the_root_of_the_water_filling_equation",
        ],
    ),
    "weston_watkins": Kernel(
        {
            walrus: "walrus clip sweep descending breakpoint",
            bcd: "epoch margins arguments difference screen part",
            fast: "threshold evaluate",
            rows: "multiply subtract",
        },
        [
            "kernels/test_kernels_ww.py",
            "kernels/test_rows.py",
            "weston_watkins/test_ww.py::test_a_path_of_weighted_rows_stays_in_their_box",
        ],
    ),
    "memoir": Kernel(
        {
            steps: "visit best_wrong project fold truncate square_of squared",
            products: "span add_scores set_scores add_outer lacks_room",
            blocks: "soft position slots_for length_of reserve insert",
        },
        ["kernels/test_kernels_memoir.py"],
    ),
    "least_squares": Kernel(
        {
            links: "target identity softmax squared_hinge",
            generalized: "descend updates extrapolated",
            calibrated: "ls_calibrated fit_residual calibrate expanded project",
            stagewise: "stages",
            block_visits: "BlockVisits.__init__ BlockVisits.restart BlockVisits.cost "
            "BlockVisits.cost_of BlockVisits.output BlockVisits.factor "
            "BlockVisits.update penalised",
        },
        [
            "kernels/test_kernels_ls.py",
            "least_squares/test_ls.py::test_too_many_features_for_one_gram_matrix_are_refused",
            "least_squares/test_stagewise.py::test_steps_that_raise_the_objective_are_taken_again",
        ],
    ),
    "sampled_cuts": Kernel(
        {qp: "solve_qp objective best_of_face pairwise"},
        ["kernels/test_kernels_cuts.py"],
    ),
}
