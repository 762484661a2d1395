"""``lmfit.Parameters`` as a space: functions get ``Parameters``, and results are ``Parameters``.

lmfit is not imported here: whoever has an object of its class has imported it.
"""

from __future__ import annotations

import copy
import math
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Real, Variable


def are_parameters(given: Any) -> bool:
    """Whether it is an ``lmfit.Parameters``."""
    lmfit = sys.modules.get("lmfit")
    return lmfit is not None and isinstance(given, lmfit.Parameters)


class ParametersSpace(Space):
    """Parameters that vary are reals between ``min`` and ``max``, others are fixed; lmfit works out expressions.

    Parameters
    ----------
    parameters : lmfit.Parameters

    Attributes
    ----------
    expressions : tuple of (str, str)
        Names and expressions of the parameters that follow from others. They are no variables of the space.
    """

    takes_rows = False

    def __init__(self, parameters: Any) -> None:
        if not parameters:
            raise ValueError("the lmfit.Parameters are empty: add at least one parameter")
        self._parameters = copy.deepcopy(parameters)
        self.expressions = tuple((name, one.expr) for name, one in parameters.items() if one.expr)
        own = {name: one for name, one in parameters.items() if not one.expr}
        super().__init__([_variable(name, one) for name, one in own.items()], list(own))
        self._of_thread = threading.local()

    @property
    def guess(self) -> Floats | None:
        """The values of the parameters as a row; None if one that varies was given none."""
        own = [self._parameters[name] for name in self.names or ()]
        if any(one.vary and one.init_value is None and one.value == one.min for one in own):  # lmfit sets it there
            return None
        return np.array([[float(one.value) for one in own]])

    def point(self, row: Floats) -> Any:
        """One row as ``lmfit.Parameters``."""
        return self._with_values(copy.deepcopy(self._parameters), row)

    def given(self, rows: Floats) -> Any:
        """One row as the ``lmfit.Parameters`` with which the user's function is called.

        Copying them takes longer than many functions. So every thread has one object and changes its values.
        """
        if rows.ndim > 1:
            raise ValueError("lmfit.Parameters hold one point: leave out vectorized=True")
        kept = getattr(self._of_thread, "parameters", None)
        if kept is None:
            kept = self._of_thread.parameters = copy.deepcopy(self._parameters)
        return self._with_values(kept, rows)

    def plain(self, row: Floats) -> dict[str, float]:
        """All values by name, those of expressions too."""
        values: dict[str, float] = self.point(row).valuesdict()
        return values

    def read(self, what: str, given: Any) -> Floats:
        """Rows from ``lmfit.Parameters``, or from what other spaces read."""
        if are_parameters(given):
            given = self._values_of(given)
        elif isinstance(given, Sequence) and any(map(are_parameters, given)):
            given = [self._values_of(one) if are_parameters(one) else one for one in given]
        return super().read(what, given)

    def with_errors(self, row: Floats, covariance: Floats) -> Any:
        """``lmfit.Parameters`` with standard errors and correlations, from the covariance of those that vary."""
        found = self.point(row)
        free = [name for name, one in zip(self.names or (), self.variables, strict=True) if isinstance(one, Real)]
        errors = np.sqrt(np.diag(covariance))
        for i, name in enumerate(free):
            if math.isfinite(errors[i]):
                others = [j for j in range(len(free)) if j != i and math.isfinite(errors[j])]
                found[name].stderr = float(errors[i])
                found[name].correl = {free[j]: float(covariance[i, j] / errors[i] / errors[j]) for j in others}
        if self.expressions and np.isfinite(covariance).all():
            found.create_uvars(covar=covariance)  # sets the errors of expressions
        return found

    def _with_values(self, parameters: Any, row: Floats) -> Any:
        for name, one, number in zip(self.names or (), self.variables, row.tolist(), strict=True):
            if isinstance(one, Real):
                parameters[name].value = number
        if self.expressions:
            parameters.update_constraints()
        return parameters

    def _values_of(self, parameters: Any) -> dict[str, float]:
        derived = dict(self.expressions)
        return {name: float(one.value) for name, one in parameters.items() if name not in derived}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_of_thread"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._of_thread = threading.local()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParametersSpace) and super().__eq__(other) and self.expressions == other.expressions

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.expressions))


@dataclass(frozen=True)
class OfParameters:
    """A function of ``lmfit.Parameters`` as one of the numbers that vary. It can be sent between processes."""

    fun: Callable[..., Any]
    space: ParametersSpace

    def __call__(self, x: Floats) -> Any:
        """Return the value at a point."""
        numbers = iter(x.tolist())
        row = [next(numbers) if isinstance(one, Real) else math.nan for one in self.space.variables]
        return self.fun(self.space.given(np.array(row) if x.ndim == 1 else x))


def _variable(name: str, one: Any) -> Variable:
    """A parameter as a variable."""
    if not one.vary:
        if not math.isfinite(one.value):
            raise ValueError(f"the parameter {name!r} is fixed at {one.value!r}, which is not finite")
        return Fixed(float(one.value))
    if not (math.isfinite(one.min) and math.isfinite(one.max)):
        raise ValueError(
            f"the parameter {name!r} has the bounds ({one.min:g}, {one.max:g}): both must be finite, because the first "
            f"swarm fills them; set params[{name!r}].min and .max to the widest range that makes sense"
        )
    return Real(float(one.min), float(one.max))
