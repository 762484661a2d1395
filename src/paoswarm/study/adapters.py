"""Adapters: optimisers of other libraries in a study.

An adapter is any callable ``adapter(fun, bounds, *, population, seed)`` that minimises ``fun`` until it is stopped.
``fun`` takes one point or rows of points. The study counts evaluations, stops the run when the budget is spent or the
problem is solved to the study's ``precision``, and records the best value after every ``population`` evaluations. The
return value is ignored.

>>> import numpy as np
>>> import paoswarm as ps
>>> def random_search(fun, bounds, *, population, seed):
...     rng = np.random.default_rng(seed)
...     while True:
...         fun(rng.uniform(*bounds.T, size=(population, len(bounds))))
>>> study = ps.study.Study(problems=["sphere"], dims=[2], methods={"PAO": ps.PAO(), "random": random_search}, runs=5)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from paoswarm.helpers import need, number_between, positive_number
from paoswarm.study.results import Floats

Adapter = Callable[..., Any]


class RunIsOver(BaseException):
    """Stops an adapter. It is not an Exception, because some optimisers catch those."""


class CountedObjective:
    """The objective that an adapter gets: it counts evaluations, records values, and stops the run in time."""

    def __init__(self, problem: Callable[[Floats], Any], budget: int, every: int, target: float | None = None) -> None:
        self._problem = problem
        self._budget = budget
        self._every = every
        self._target = target
        self._spent = 0
        self._values: list[Floats] = []

    def __call__(self, x: Any) -> Any:
        """Return the value of a point ``(d,)``, or the values of rows ``(m, d)``."""
        points = np.atleast_2d(np.array(x, dtype=float))
        left = self._budget - self._spent
        if left <= 0:
            raise RunIsOver
        values = np.asarray(self._problem(points[:left]), dtype=float)
        self._spent += len(values)
        self._values.append(values)
        if len(values) < len(points) or (self._target is not None and (values <= self._target).any()):
            raise RunIsOver
        return float(values[0]) if np.ndim(x) == 1 else values.copy()

    def exhaust(self, adapter: Adapter, bounds: Floats, *, population: int, seed: int) -> None:
        """Run an adapter until it is stopped or returns. NumPy's global random state is restored."""
        with _global_seed(seed), suppress(RunIsOver):
            adapter(self, np.array(bounds, dtype=float), population=population, seed=seed)
        if self._spent == 0:
            raise ValueError("the adapter returned without evaluating any point; it must call fun")

    def trace(self) -> tuple[np.ndarray, Floats]:
        """Return evaluations and best values so far. If the run ended early, its last best value is repeated."""
        values = np.concatenate(self._values)
        best = np.minimum.accumulate(np.where(np.isnan(values), np.inf, values))
        steps = -(-self._budget // self._every)
        evaluations = np.minimum(self._every * np.arange(1, steps + 1), self._budget)
        return evaluations, best[np.minimum(evaluations, len(best)) - 1]


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    """Seed NumPy's global generator, which some libraries use."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


@dataclass(frozen=True)
class SciPyDE:
    """`scipy.optimize.differential_evolution` with the study's population, without early stopping or polishing.

    All other options are SciPy's defaults: best1bin, dithered factor 0.5 to 1, recombination 0.7, immediate updating.
    """

    strategy: Any = "best1bin"
    recombination: float = 0.7

    def __post_init__(self) -> None:
        number_between("recombination", self.recombination, 0.0, 1.0)

    def __call__(self, fun: Any, bounds: Floats, *, population: int, seed: int) -> None:
        """Minimise ``fun`` until the study stops it."""
        from scipy.optimize import differential_evolution

        low, high = bounds.T
        first = np.random.default_rng(seed).uniform(low, high, size=(population, len(low)))
        differential_evolution(
            fun,
            list(zip(low, high, strict=True)),  # type: ignore[arg-type]
            strategy=self.strategy,
            recombination=self.recombination,
            init=first,
            maxiter=10**9,
            tol=0.0,
            polish=False,
            rng=seed,
        )


@dataclass(frozen=True)
class CMAES:
    """CMA-ES from the package ``cma``, restarted with twice the population whenever it stops (IPOP).

    It starts at a uniformly drawn point with a standard deviation of ``sigma`` box widths. Its first population is its
    own default, 4 + 3 ln d, not the study's.
    """

    sigma: float = 0.25

    def __post_init__(self) -> None:
        positive_number("sigma", self.sigma)

    def __call__(self, fun: Any, bounds: Floats, *, population: int, seed: int) -> None:
        """Minimise ``fun`` until the study stops it."""
        cma = need("cma", extra="study", user="CMAES")
        rng = np.random.default_rng(seed)
        low, high = bounds.T
        size = 4 + int(3 * np.log(len(low)))
        while True:
            options = {"bounds": [low, high], "CMA_stds": high - low, "popsize": size, "verbose": -9}
            options |= {"seed": int(rng.integers(1, 2**31)), "verb_log": 0, "verb_disp": 0}
            search = cma.CMAEvolutionStrategy(rng.uniform(low, high), self.sigma, options)
            while not search.stop():
                points = search.ask()
                search.tell(points, fun(np.asarray(points)).tolist())
            size *= 2


@dataclass(frozen=True)
class Freelunch:
    """An optimiser of the package ``freelunch``, the code released with Champneys and Rogers (2023)."""

    optimiser: str = "PAO"

    def __call__(self, fun: Any, bounds: Floats, *, population: int, seed: int) -> None:
        """Minimise ``fun`` until the study stops it."""
        freelunch = need("freelunch", extra="peers", user="Freelunch")
        search = getattr(freelunch, self.optimiser)(obj=fun, bounds=bounds)
        search.hypers = {**search.hypers, "N": population, "G": 10**6}
        search(n_return=1, full_output=False)
