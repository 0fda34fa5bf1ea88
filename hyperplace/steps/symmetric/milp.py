"""A mixed-integer or quadratic program in the making, and HiGHS to solve it: the one file that imports highspy."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyperplace.values.arrays import Floats

# A quadratic program with several best solutions makes HiGHS circle for ever without these.
QUADRATIC = {"qp_regularization_value": 1e-5, "qp_iteration_limit": 5000}


@dataclass(frozen=True)
class Answer:
    """What a solve found: values (None: nothing), their objective, a proven lower bound, and whether it ended."""

    values: Floats | None
    objective: float
    bound: float
    is_complete: bool
    duals: Floats | None = None


@dataclass
class Program:
    """Minimise cost over columns between bounds, subject to rows `low <= sum <= high`."""

    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    is_integer: list[bool] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    indices: list[int] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    curvature: list[float] = field(default_factory=list)

    def column(
        self,
        cost: float = 0.0,
        upper: float = 1.0,
        *,
        lower: float = 0.0,
        curvature: float = 0.0,
        is_integer: bool = False,
    ) -> int:
        """Add a variable x in lower..upper that costs cost * x + curvature / 2 * x^2, and return its number."""
        self.cost.append(cost)
        self.lower.append(lower)
        self.curvature.append(curvature)
        self.upper.append(upper)
        self.is_integer.append(is_integer)
        return len(self.cost) - 1

    def row(self, terms: dict[int, float], low: float = -np.inf, high: float = np.inf) -> int:
        """Add a constraint and return its number."""
        self.indices += terms.keys()
        self.coefficients += terms.values()
        self.starts.append(len(self.indices))
        self.row_low.append(low)
        self.row_high.append(high)
        return len(self.row_low) - 1


class Solver:
    """HiGHS with a program in it; costs may be changed between solves."""

    def __init__(self, program: Program, *, threads: int = 1, gap: float = 1e-6, seed: int = 0) -> None:
        import highspy

        self._highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.HandleUserInterrupt = True  # else cancelSolve() does nothing
        self._is_mip = any(program.is_integer)
        options = {"output_flag": False, "threads": threads, "mip_rel_gap": gap, "random_seed": seed}
        for name, value in (options | QUADRATIC).items():
            self._highs.setOptionValue(name, value)
        self._highs.passModel(_model(program))

    def solve(self, *, time_limit_s: float = np.inf, start: Floats | None = None, close_enough: float = 1e-6) -> Answer:
        """Solve from the start values if given; ends early at the time limit or when cancelled.

        An objective within `close_enough` of the bound is taken for the best.
        """
        import highspy

        self._highs.setOptionValue("mip_abs_gap", close_enough)
        self._highs.setOptionValue("time_limit", float(min(time_limit_s, 1e9)))
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = list(start)
            self._highs.setSolution(solution)
        self._highs.run()
        info, status = self._highs.getInfo(), self._highs.getModelStatus()
        solution = self._highs.getSolution()
        found = info.primal_solution_status == 2  # feasible
        return Answer(
            values=np.array(solution.col_value) if found else None,
            objective=info.objective_function_value if found else np.inf,
            bound=info.mip_dual_bound if self._is_mip else info.objective_function_value,
            is_complete=status == highspy.HighsModelStatus.kOptimal,
            duals=np.array(solution.row_dual) if found and not self._is_mip else None,
        )

    def change_costs(self, cost: Floats) -> None:
        self._highs.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)

    def cancel(self) -> None:
        """End a solve that runs in another thread, as soon as it looks."""
        self._highs.cancelSolve()  # type: ignore[no-untyped-call]


def _model(program: Program) -> Any:
    import highspy

    model, lp, size = highspy.HighsModel(), highspy.HighsLp(), len(program.cost)
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.row_low)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_low, program.row_high
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[is_integer] for is_integer in program.is_integer]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.starts
    lp.a_matrix_.index_ = program.indices
    lp.a_matrix_.value_ = program.coefficients
    model.lp_ = lp
    if any(program.curvature):
        model.hessian_.dim_, model.hessian_.format_ = size, highspy.HessianFormat.kTriangular
        model.hessian_.start_, model.hessian_.index_ = np.arange(size + 1), np.arange(size)
        model.hessian_.value_ = np.array(program.curvature)
    return model
