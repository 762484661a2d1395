"""The log likelihood of a call: the user's own function, or that of data for the outputs of a simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import RAISED, Objective, to_fingerprint, with_arguments
from paoswarm.evaluate.comparison import Beliefs, Curve, DataComparison, plain_data
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.marginal import log_marginal_likelihoods
from paoswarm.sampling.adapt import NothingFound
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.prior import Prior
from paoswarm.sampling.read_prior import as_given
from paoswarm.sampling.simulated import SimulatedDraws
from paoswarm.sampling.target import Interrupted
from paoswarm.space.names import numbered, text_by_name
from paoswarm.store.encoding import encode

_PATIENCE = 100  # first draws that may all raise an exception before the run ends


@dataclass(frozen=True)
class DataLikelihood:
    """The log likelihood (F11) of data, which carries the outputs of the simulator. It can be sent between processes.

    ``simulate`` takes the parameters ``(d,)``.
    """

    simulate: Objective
    comparison: DataComparison

    def __call__(self, x: Floats) -> Any:
        """Simulate at a point."""
        return self.compared(x, self.simulate(x), np.empty(0))

    def compared(self, x: Floats, answer: Any, beliefs: Floats) -> Any:
        """The value of what the simulator has returned, with the outputs and the residuals of beliefs."""
        return self.comparison.detailed(
            answer, beliefs, lambda vector: float(self.of_outputs(vector[None], x[None])[0])
        )

    def of_outputs(self, outputs: Floats, x: Floats) -> Floats:
        """Log likelihoods ``(k,)`` for vectors of outputs ``(k, m)`` at parameters ``(k, d)``; NaN where none is."""
        return log_marginal_likelihoods(self.comparison.loss(outputs.shape[1]), outputs)


@dataclass(frozen=True)
class Called:
    """What a user has given to be called: as evaluators call it, and as a store describes it."""

    fun: Any
    about: dict[str, Any]  # data and the law of the noise, as JSON
    fingerprint: Any
    as_given: Any = None  # what makes parameters what the user's function gets; None if that takes the array

    @property
    def comparison(self) -> DataComparison | None:
        """How outputs are compared with data, if values carry outputs."""
        return self.fun.comparison if isinstance(self.fun, DataLikelihood) else None

    @property
    def n_outputs(self) -> int | None:
        """How many numbers a value carries."""
        return 0 if self.comparison is None else self.comparison.n_numbers

    @property
    def of_outputs(self) -> Callable[[Floats, Floats], Floats] | None:
        """Log likelihoods of outputs at parameters, if values carry outputs."""
        return self.fun.of_outputs if isinstance(self.fun, DataLikelihood) else None

    def check(self, dim: int, *, vectorized: bool, unbiased: bool, engine: Any) -> None:
        """Raise, or warn, if a simulator cannot be called or compared with its data in this way."""
        if not isinstance(self.fun, DataLikelihood):
            return
        if vectorized:
            raise ValueError("with data=, sample simulates one point at a time; use workers= for several at once")
        if unbiased:
            raise ValueError("unbiased=True is for a log likelihood; that of data for random outputs is not unbiased")
        if not isinstance(engine, str) or engine not in ("numpy", "auto"):
            raise ValueError(f"with data=, sample has engine='numpy' alone, got {engine!r}; JAX takes a log likelihood")
        loss = self.fun.comparison.loss(self.fun.comparison.n_numbers or 0)
        for group in loss.groups:
            n = len(loss.own(group, loss.data))
            if group.law.estimates_sigma and n <= dim + group.has_scale + group.has_offset:
                warn_user(
                    f"{f'output {group.name!r} has' if group.name else 'there are'} {n} data for {dim} parameters: "
                    "where the model meets all of them, the likelihood with an unknown sigma is infinite, and the "
                    "posterior may not exist; give sigma="
                )


def read_function(function: Any, prior: Any, data: Any, sigma: Any, likelihood: Any, xdata: Any, args: Any) -> Called:
    """Read a log likelihood; or with data a simulator, as `fit` does."""
    if data is None:
        others = {"sigma": sigma, "xdata": xdata, "likelihood": None if likelihood == "normal" else likelihood}
        if unused := [name for name, one in others.items() if one is not None]:
            raise ValueError(f"{unused[0]} needs data=: without it the first argument is a log likelihood")
    if not callable(function):
        return Called(function, {}, function)
    own = with_arguments(function if xdata is None else Curve(function, xdata), args)
    fun = as_given(own, prior, as_dict=data is not None)
    given = None if fun is own else as_given(_itself, prior, as_dict=data is not None)
    if data is None:
        return Called(fun, {}, to_fingerprint(own), given)
    comparison = DataComparison.read(data, sigma, likelihood, Beliefs())
    about = {"data": data, "sigma": sigma, "likelihood": likelihood, "xdata": xdata}
    about = {name: encode(plain_data(one)) for name, one in about.items()}
    return Called(DataLikelihood(fun, comparison), about, to_fingerprint(own), given)


def _itself(x: Any) -> Any:
    return x


class BatchLikelihood:
    """The log likelihood as a function of batches: all that the sampler wants of an evaluator.

    Parameters
    ----------
    evaluate : Evaluator
    names : list of str
        Of the parameters.
    count : callable, optional
        Called with numbers of finished evaluations.
    log_likelihood_of : callable, optional
        Log likelihoods ``(k,)`` of vectors of outputs ``(k, m)`` at parameters ``(k, d)``, if values carry outputs.
    known : pair of arrays, optional
        Points that were simulated before, with their outputs.
    time_limit : float, optional
        Seconds from now on.
    comparison : DataComparison, optional
        How outputs are compared with data.

    Attributes
    ----------
    is_late : bool
        Whether the time limit has ended an evaluation.
    """

    def __init__(
        self,
        evaluate: Evaluator,
        names: list[str],
        count: Callable[[int], None] | None,
        log_likelihood_of: Callable[[Floats, Floats], Floats] | None = None,
        known: tuple[Floats, Floats] | None = None,
        time_limit: float | None = None,
        comparison: DataComparison | None = None,
    ) -> None:
        self._comparison = comparison
        self._limit, self._deadline = time_limit, None if time_limit is None else time.monotonic() + time_limit
        self.is_late = False
        self._evaluate, self._is_first = evaluate, True
        self.log_likelihood_of = log_likelihood_of
        if known is None:
            known = np.empty((0, len(names))), np.empty((0, evaluate.n_details or 0))
        self.n_known = len(known[0])  # at the beginning of the points
        self._points, self._outputs = [known[0]], [known[1]]
        evaluate.count = count
        if names != numbered(len(names)):
            evaluate.log.text = lambda x: text_by_name(dict(zip(names, x.tolist(), strict=True)))

    @property
    def loss(self) -> Loss:
        """What a fit minimises."""
        assert self._comparison is not None
        return self._comparison.loss(self._joined(self._outputs).shape[1])

    @property
    def series(self) -> Sequence[NDArray[np.intp]]:
        """Rows of the outputs whose order means something."""
        assert self._comparison is not None
        return self._comparison.series(self._joined(self._outputs).shape[1])

    @property
    def points(self) -> Floats:
        """Parameters ``(n, d)`` of all points with outputs: those known before, then in the order of evaluation."""
        return self._joined(self._points)

    @property
    def outputs(self) -> Floats | None:
        """Vectors of outputs ``(n, m)`` at `points`, NaN where the simulator failed; None if values carry none."""
        return None if self.log_likelihood_of is None else self._joined(self._outputs)

    @staticmethod
    def _joined(parts: list[Floats]) -> Floats:
        parts[:] = [np.concatenate(parts)]
        return parts[0]

    def __call__(self, x: Floats) -> Floats:
        """Evaluate a few points first: a function that always raises an exception should not be called often."""
        n = _PATIENCE if self._is_first else len(x)
        self._is_first = False
        values, why = self._until(x[:n])
        if why is None and len(x) > n:
            if self._evaluate.log.kinds[RAISED] == n:
                raise NothingFound(f"the function raised an exception at all of the first {n} draws")
            rest, why = self._until(x[n:])
            values = np.concatenate([values, rest])
        if why is not None:
            raise Interrupted(values, why)
        return values

    def _until(self, x: Floats) -> tuple[Floats, str | None]:
        """Values of the points, and why it ended early, if it did; outputs are kept."""
        late = f"Stopped at time_limit={self._limit}"
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.is_late = True
            return np.empty(0), late
        values, end = self._evaluate.until(self._deadline, x)
        why = None if end is None else str(end)
        if end is None and len(values) < len(x):
            self.is_late, why = True, late
        if self.log_likelihood_of is None:
            return values, why
        self._points.append(x[: len(values)].copy())
        self._outputs.append(values[:, 1:])
        return values[:, 0], why

    def seen(
        self, posterior: Posterior, prior: Prior, comparison: DataComparison | None, given: Any, emulated: Floats | None
    ) -> Posterior:
        """The posterior, with outputs at its draws, and what makes parameters what the user's function gets."""
        if comparison is not None and emulated is not None:
            without = emulated[:, : emulated.shape[1] - comparison.beliefs.count]
            posterior = replace(posterior, simulated=SimulatedDraws(comparison, without))
        elif comparison is not None:
            draws, outputs = posterior.weighted.draws, self._joined(self._outputs)
            simulated = SimulatedDraws.at(prior.places(draws), prior.places(self.points), outputs, comparison)
            posterior = replace(posterior, simulated=simulated)
        return replace(posterior, as_given=given)

    @property
    def is_replayed(self) -> bool:
        """Whether the latest values were all known from an earlier run."""
        return self._evaluate.replayed

    @property
    def cause(self) -> BaseException | None:
        """The exception of the first point that failed."""
        return self._evaluate.log.cause

    def explained(self, error: ValueError) -> ValueError:
        """The error with where and how the likelihood failed first, if it did."""
        return ValueError(f"{error}; {self._evaluate.first_failure()}" if self._evaluate.log.first else str(error))

    def warn(self) -> None:
        """Warn of points that failed."""
        self._evaluate.warn(worth="likelihood zero")
