"""How what a simulator returns is compared with data: which numbers, with which law of the noise, what else counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import choices
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import NAN, Detailed, Failed, Objective, to_fingerprint
from paoswarm.fitting.beliefs import Beliefs
from paoswarm.least_squares.likelihoods import Huber, Likelihood, Normal, StudentT, read_likelihood
from paoswarm.least_squares.loss import Group, Loss, Scaled
from paoswarm.least_squares.outputs import Output, Outputs, as_residuals


@dataclass(frozen=True)
class Comparison:
    """Data with their laws; or the law of residuals, if the simulator compares by itself. It can be pickled.

    Attributes
    ----------
    outputs : Outputs or None
        None for residuals.
    groups : tuple of Group
        Of the data; of residuals one whose rows are not known yet.
    beliefs : Beliefs
    without : object
        What indexes the data that do not count; of a dict, names or a dict of such by name. None: nothing.
    """

    outputs: Outputs | None
    groups: tuple[Group, ...]
    beliefs: Beliefs = field(default_factory=Beliefs)
    without: Any = None

    @classmethod
    def read(cls, data: Any, sigma: Any, likelihood: Any, beliefs: Beliefs, without: Any = None) -> Comparison:
        """Read what a user gives; see `fit`."""
        if data is None:
            law = _law(likelihood, sigma, "residuals")
            if not isinstance(law, Normal | StudentT | Huber) or getattr(law, "relative", False):
                raise ValueError(f"{law!r} needs data: without data= the simulator returns residuals")
            return cls(None, (Group("", slice(0, 0), law),), beliefs, without)
        given = data if isinstance(data, Mapping) else {"": data}
        plain = {name: one.data if isinstance(one, Scaled) else one for name, one in given.items()}
        outputs = Outputs.of(plain if isinstance(data, Mapping) else plain[""])
        for name, what in (("sigma", sigma), ("likelihood", likelihood)):
            _check_names(name, what, outputs)
        groups = []
        for part, one in zip(outputs.parts, given.values(), strict=True):
            law = _law(_of(likelihood, part.name, "normal"), None, part.label)
            own, has_datum = _of(sigma, part.name, None), ~np.isnan(outputs.data[part.rows])
            if own is not None:
                law = law.with_sigma(_compact(part.spread("sigma", own)[has_datum]))
            elif np.ndim(each := getattr(law, "sigma", 0.0)):
                part.spread("sigma", each)
                law = law.part(has_datum)
            law.check(outputs.data[part.rows][has_datum])
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

    def split(self, vector: Floats) -> Any:
        """A vector ``(..., m)`` in the form of the data."""
        return vector if self.outputs is None else self.outputs.split(vector)


@dataclass(frozen=True)
class Simulation:
    """A simulator as an objective: the value of the fit, which carries the outputs. It can be sent to processes."""

    simulate: Objective
    comparison: Comparison

    def __call__(self, point: Any) -> Detailed | Failed:
        """Simulate at a point as the user's function gets it."""
        answer = self.simulate(point)
        if isinstance(answer, Failed):
            return answer
        try:
            vector = self.comparison.vector(answer)
        except TypeError as error:
            return Failed(str(error), wrong_form=True)
        if self.comparison.beliefs.count:
            vector = np.concatenate([vector, self.comparison.beliefs.residuals(point)])
        value = self.comparison.loss(len(vector)).value(vector)
        is_bad = ~np.isfinite(vector)
        if np.isfinite(value):
            vector[is_bad] = np.nan  # where there are no data
            return Detailed(value, vector)
        bad = int(is_bad.sum())
        return Failed(
            f"{NAN}: {bad} of {len(vector)} outputs are not finite"
            if bad
            else f"{NAN}: outputs that their law does not allow"
        )

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
    found = np.zeros(m, dtype=bool)
    for name, which in without.items():
        part = next((one for one in parts if one.name == name), None)
        if part is None:
            known = [one.name for one in parts]
            raise ValueError(f"without: there are no data of an output {name!r}; {choices(str(name), known)}")
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
    if np.ndim(sigma):
        raise ValueError("sigma of residuals must be one number: divide them by their own standard deviations")
    return law.with_sigma(float(sigma))


def _check_names(name: str, given: Any, outputs: Outputs) -> None:
    """Raise if a dict names outputs that have no data."""
    if not isinstance(given, Mapping):
        return
    if not outputs.is_dict:
        raise TypeError(f"{name} is a dict, but data is one array")
    known = [part.name for part in outputs.parts]
    for one in given:
        if one not in known:
            raise ValueError(f"{name}: there are no data of an output {one!r}; {choices(str(one), known)}")


def _compact(sigma: Floats) -> Any:
    """One number if all are the same."""
    return float(sigma[0]) if (sigma == sigma[0]).all() else sigma
