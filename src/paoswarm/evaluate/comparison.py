r"""How what a simulator returns is compared with data, with which law of the noise, and what else is known.

What is known of the unknowns besides the data is more residuals: priors, and penalties of the user's own. A density
:math:`p` with its mode at :math:`x_0` is

.. math:: r = \operatorname{sign}(x - x_0) \sqrt{2 \ln p(x_0) - 2 \ln p(x)}                                 \tag{F8}

which is :math:`(x - a) / b` for a normal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from paoswarm._checks import choices, rounded, unmasked
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import NAN, Detailed, Failed, Objective, to_fingerprint
from paoswarm.least_squares.likelihoods import Huber, Likelihood, Normal, StudentT, read_likelihood
from paoswarm.least_squares.loss import Group, Loss, Scaled
from paoswarm.least_squares.outputs import Output, Outputs, as_residuals
from paoswarm.space.distributions import NewStyle, is_new_style, old_style
from paoswarm.space.space import Space
from paoswarm.space.variables import Real
from paoswarm.store.encoding import decode

_GRID = 2001  # points among which the mode of a density is looked for


@dataclass(frozen=True)
class Belief:
    """The prior of one unknown: a density with its mode, or the mean and deviation of a normal law."""

    key: Any  # name or index of the unknown
    law: Any  # a frozen distribution of scipy.stats
    mode: float

    @classmethod
    def of(cls, key: Any, law: Any, low: float, high: float) -> Belief:
        """Find the mode of a density between the bounds of the unknown."""
        law = old_style(key, law) if is_new_style(law) else law
        if not (hasattr(law, "logpdf") and hasattr(law, "ppf") and (hasattr(law, "dist") or isinstance(law, NewStyle))):
            name = getattr(law, "name", "norm") if hasattr(law, "logpdf") else "norm"
            raise TypeError(
                f"the prior of {key!r} must be a frozen distribution of scipy.stats, with its parameters, such as "
                f"scipy.stats.{'norm(0, 1)' if name == 'norm' else f'{name}(...)'}, got {law!r}"
            )
        ends = np.clip(law.ppf([1e-9, 1 - 1e-9]), low, high)
        grid = np.linspace(float(ends[0]), float(ends[1]), _GRID)
        with np.errstate(divide="ignore", invalid="ignore"):
            densities = law.logpdf(grid)
        densities[np.isnan(densities)] = -np.inf
        best = int(np.argmax(densities))
        if not math.isfinite(densities[best]):
            raise ValueError(f"the prior of {key!r} has no finite density within its bounds ({low:g}, {high:g})")
        near = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
        found = minimize_scalar(lambda x: -float(law.logpdf(x)), bounds=near, method="bounded", options={"xatol": 0})
        mode = float(found.x) if -found.fun > densities[best] else float(grid[best])
        return cls(key, law, mode)

    def residual(self, x: float) -> float:
        """The residual (F8); infinite where the density is zero."""
        name = getattr(getattr(self.law, "dist", None), "name", "")
        if name == "norm":
            return (x - float(self.law.mean())) / float(self.law.std())
        with np.errstate(divide="ignore"):
            fall = 2 * float(self.law.logpdf(self.mode) - self.law.logpdf(x))
        return math.copysign(math.sqrt(max(fall, 0.0)), x - self.mode)


@dataclass(frozen=True)
class Beliefs:
    """All that is known besides the data. It can be sent between processes."""

    priors: tuple[Belief, ...] = ()
    penalty: Callable[[Any], Any] | None = None  # of the point as the simulator gets it; returns residuals
    count: int = 0  # of all residuals

    @classmethod
    def read(cls, priors: Any, penalty: Any, space: Space) -> Beliefs:
        """Priors by name, and a penalty; both are tried at a point."""
        found = () if priors is None else _read_priors(priors, space)
        if penalty is not None and not callable(penalty):
            raise TypeError(f"penalty must be a function of the unknowns that returns residuals, got {penalty!r}")
        tried = cls(found, penalty)
        middle = space.rows(((space.lower + space.upper) / 2)[None])[0]
        return cls(found, penalty, len(tried.residuals(space.given(middle))))

    def residuals(self, point: Any) -> Floats:
        """The residuals at a point as the simulator gets it."""
        own = [one.residual(_number(point[one.key])) for one in self.priors]
        if self.penalty is None:
            return np.array(own, dtype=float)
        answer = np.atleast_1d(np.asarray(self.penalty(point)))
        if answer.ndim != 1 or answer.dtype.kind not in "fiu":
            raise TypeError(f"penalty must return real numbers, one or an array (k,), but returned {answer!r}")
        return np.concatenate([own, answer.astype(float)])


def _number(value: Any) -> float:
    return float(getattr(value, "value", value))  # of lmfit.Parameters


def _read_priors(priors: Any, space: Space) -> tuple[Belief, ...]:
    if not isinstance(priors, Mapping):
        raise TypeError(f"priors must be a dict of distributions by name of the unknown, got {priors!r}")
    labels = space.labels()
    found = []
    for name, law in priors.items():
        i = name if space.names is None and isinstance(name, int) else labels.index(name) if name in labels else -1
        if not 0 <= i < len(labels):
            raise ValueError(f"priors: there is no unknown {name!r}; {choices(str(name), labels)}")
        one = space.variables[i]
        if not isinstance(one, Real):
            raise ValueError(f"priors: {name!r} is {one!r}; only numbers between two bounds can have a prior")
        found.append(Belief.of(labels[i] if space.names is not None else i, law, one.low, one.high))
    return tuple(found)


@dataclass(frozen=True)
class DataComparison:
    """Data with their laws; or the law of residuals, if the simulator compares by itself. It can be pickled."""

    outputs: Outputs | None  # None for residuals
    groups: tuple[Group, ...]  # of the data; of residuals one whose rows are not known yet
    beliefs: Beliefs = field(default_factory=Beliefs)
    without: Any = None  # what indexes the data that do not count; of a dict, names or a dict of such by name

    @classmethod
    def read(cls, data: Any, sigma: Any, likelihood: Any, beliefs: Beliefs, without: Any = None) -> DataComparison:
        """Read what a user gives; see `fit`."""
        if data is None:
            law = _law(likelihood, sigma, "residuals")
            if not isinstance(law, Normal | StudentT | Huber) or getattr(law, "relative", False):
                raise ValueError(f"{law!r} needs data: without data= the simulator returns residuals")
            return cls(None, (Group("", slice(0, 0), law),), beliefs, without)
        if isinstance(data, Scaled) and isinstance(data.data, Mapping):
            each = ", ".join(f"{name!r}: ps.Scaled(...)" for name in data.data)
            raise TypeError(f"Scaled is for the data of one output: write data={{{each}}}")
        given = data if isinstance(data, Mapping) else {"": data}
        plain = {name: one.data if isinstance(one, Scaled) else one for name, one in given.items()}
        outputs = Outputs.of(plain if isinstance(data, Mapping) else plain[""])
        for name, what in (("sigma", sigma), ("likelihood", likelihood)):
            if isinstance(what, Mapping):
                if not outputs.is_dict:
                    raise TypeError(f"{name} is a dict, but data is one array")
                _check_names(name, what, outputs.parts)
        groups = []
        for part, one in zip(outputs.parts, given.values(), strict=True):
            law = _law_of_output(part, outputs.data[part.rows], likelihood, sigma)
            is_alone = len(outputs.parts) == 1 and not beliefs.count  # then any sigma has the same optimum
            if law.estimates_sigma and not is_alone and np.isfinite(outputs.data[part.rows]).sum() == 1:
                name, advice = (part.name, f"{{{part.name!r}: ...}}") if outputs.is_dict else ("data", "...")
                raise ValueError(f"{name} has one datum, from which sigma cannot be estimated: give sigma={advice}")
            scale, offset = (one.scale, one.offset) if isinstance(one, Scaled) else (False, False)
            groups.append(Group(part.name, part.rows, law, scale, offset))
        return cls(outputs, tuple(groups), beliefs, without)

    @property
    def n_numbers(self) -> int | None:
        """How many numbers a simulation gives; None for residuals, until there are some."""
        return None if self.outputs is None else len(self.outputs.data) + self.beliefs.count

    @cached_property
    def _losses(self) -> dict[int, Loss]:
        return {}

    def loss(self, n_numbers: int) -> Loss:
        """What is minimised, for vectors of so many numbers."""
        if n_numbers not in self._losses:
            m = max(0, n_numbers - self.beliefs.count)
            data = np.zeros(m) if self.outputs is None else self.outputs.data
            groups = self.groups if self.outputs is not None else (self.groups[0]._replace(rows=slice(0, m)),)
            loss = Loss(data, groups, self.beliefs.count)
            if self.without is not None:
                parts = (Output("", (m,), slice(0, m)),) if self.outputs is None else self.outputs.parts
                counts = loss.has_datum & ~_left_out(self.without, parts, m)
                if not counts.any() and m:
                    raise ValueError("without leaves no data")
                loss = loss.part(np.flatnonzero(counts))
            self._losses[n_numbers] = loss
        return self._losses[n_numbers]

    def series(self, n_numbers: int) -> Sequence[NDArray[np.intp]]:
        """Rows of the outputs whose order may mean something."""
        if self.outputs is None:
            return [np.arange(n_numbers - self.beliefs.count)]
        return [column for part in self.outputs.parts for column in part.columns]

    def vector(self, answer: Any) -> Floats:
        """What a simulator has returned, as a vector."""
        if self.outputs is not None:
            return self.outputs.vector(answer)
        if not isinstance(answer, Mapping) and np.ndim(answer) == 0:
            raise TypeError(
                f"without data, simulate must return an array of residuals, but returned {answer!r}; give data=, or "
                "use ps.minimize for a function that returns one number"
            )
        return as_residuals(answer)

    def detailed(self, answer: Any, beliefs: Floats, value: Callable[[Floats], float]) -> Detailed | Failed:
        """The value of what a simulator has returned, which carries the outputs, and the residuals of beliefs."""
        if isinstance(answer, Failed):
            return answer
        try:
            vector = self.vector(answer)
        except TypeError as error:
            return Failed(str(error), wrong_form=True)
        vector = np.concatenate([vector, beliefs]) if len(beliefs) else vector
        found = value(vector)
        is_bad = ~np.isfinite(vector)
        if np.isfinite(found):
            vector[is_bad] = np.nan  # where there are no data
            return Detailed(found, vector)
        bad = int(is_bad.sum())
        return Failed(
            f"{NAN}: {bad} of {len(vector)} outputs are not finite"
            if bad
            else f"{NAN}: outputs that their law does not allow"
        )

    def split(self, vector: Floats) -> Any:
        """A vector ``(..., m)`` in the form of the data."""
        return vector if self.outputs is None else self.outputs.split(vector)


@dataclass(frozen=True)
class Simulation:
    """A simulator as an objective: the value of the fit, which carries the outputs. It can be sent to processes."""

    simulate: Objective
    comparison: DataComparison

    def __call__(self, point: Any) -> Detailed | Failed:
        """Simulate at a point as the user's function gets it, if the beliefs allow it."""
        beliefs = self.comparison.beliefs
        more = beliefs.residuals(point)
        if not np.isfinite(more).all():
            is_penalty = np.isfinite(more[: len(beliefs.priors)]).all()
            return Failed(f"{NAN}: {'the penalty is not finite' if is_penalty else 'the density of a prior is zero'}")
        answer = self.simulate(point)
        return self.comparison.detailed(answer, more, lambda vector: self.comparison.loss(len(vector)).value(vector))

    def to_fingerprint(self) -> Any:
        """What decides the values besides the description of the run: the user's functions."""
        penalty = self.comparison.beliefs.penalty
        own = to_fingerprint(self.simulate)
        return own if penalty is None else partial(own, penalty)


@dataclass(frozen=True)
class Curve:
    """A model ``model(x, a, b, ...)`` as `scipy.optimize.curve_fit` wants it, as a function of the unknowns."""

    model: Callable[..., Any]
    x: Any

    def __call__(self, point: Any, *args: Any) -> Any:
        """Predictions at the places ``x``."""
        values = point.values() if isinstance(point, Mapping) else point
        return self.model(self.x, *(getattr(one, "value", one) for one in values), *args)

    def to_fingerprint(self) -> Any:
        """The user's function and the places."""
        return partial(to_fingerprint(self.model), self.x)


def _left_out(without: Any, parts: Sequence[Output], m: int) -> NDArray[np.bool_]:
    """Which of ``m`` data do not count."""
    if parts[0].name:  # a dict
        names = (without,) if isinstance(without, str) else without
        without = without if isinstance(without, Mapping) else dict.fromkeys(names, ...)
    else:
        without = {"": without}
    _check_names("without", without, parts)
    found = np.zeros(m, dtype=bool)
    for part, which in ((part, without[part.name]) for part in parts if part.name in without):
        index = which if isinstance(which, slice) or which is ... else np.asarray(which)
        if isinstance(index, np.ndarray) and index.size == 0:
            continue
        try:
            found[part.rows].reshape(part.shape)[index] = True
        except IndexError as error:
            raise ValueError(
                f"without={which!r} must be a mask or indices of {part.label}, whose data have shape {part.shape}: "
                f"{error}"
            ) from None
    return found


def _of(given: Any, name: str, otherwise: Any) -> Any:
    """What a user gives for an output: the same for all, or its own."""
    return given.get(name, otherwise) if isinstance(given, Mapping) else given


def _law(likelihood: Any, sigma: Any, what: str) -> Likelihood:
    if isinstance(likelihood, Mapping):
        raise TypeError(f"likelihood is a dict, but there are no outputs with names: give one law for {what}")
    law = read_likelihood(likelihood)
    if sigma is None:
        return law
    if np.ndim(sigma) or isinstance(sigma, Mapping):
        raise ValueError("sigma of residuals must be one number: divide them by their own standard deviations")
    return law.with_sigma(float(sigma))


def _law_of_output(part: Output, data: Floats, likelihood: Any, sigma: Any) -> Likelihood:
    """The law of the data of an output that are not missing."""
    law = _law(_of(likelihood, part.name, "normal"), None, part.label)
    own, has_datum = _of(sigma, part.name, None), ~np.isnan(data)
    if own is not None:
        spread = part.spread("sigma", own)[has_datum]
        law = law.with_sigma(float(spread[0]) if (spread == spread[0]).all() else spread)
    elif np.ndim(each := getattr(law, "sigma", 0.0)):
        part.spread("sigma", each)
        law = law.part(has_datum)
    law.check(data[has_datum])
    return law


def _check_names(name: str, given: Any, parts: Sequence[Output]) -> None:
    """Raise if a dict names outputs that have no data."""
    known = [part.name for part in parts]
    for one in given:
        if one not in known:
            raise ValueError(f"{name}: there are no data of an output {one!r}; {choices(str(one), known)}")


def plain_data(given: Any) -> Any:
    """Data, or what goes with them, without the user's own containers: what is equal has the same description."""
    if isinstance(given, Mapping):
        return {name: plain_data(one) for name, one in given.items()}
    if isinstance(given, Scaled):
        return replace(given, data=plain_data(given.data))
    if hasattr(given, "dist") or not hasattr(given, "__len__"):  # a distribution; a number, a law
        return given
    array = rounded(np.asarray(unmasked(given)))
    return given if array.ndim == 0 or array.dtype.kind not in "fiub" else array


def recorded_comparison(problem: dict[str, Any], outputs: Floats) -> DataComparison:
    """How a simulation ``(m,)`` of a stored fit is compared with its data; residuals of beliefs come last."""
    given = {name: decode(problem.get(name)) for name in ("data", "sigma", "likelihood")}
    comparison = DataComparison.read(**given, beliefs=Beliefs())
    n_beliefs = 0 if comparison.outputs is None else len(outputs) - len(comparison.outputs.data)
    return replace(comparison, beliefs=Beliefs(count=n_beliefs))
