"""All points that were simulated for a posterior, whoever has asked for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.loss import Loss
from paoswarm.sampling.target import Interrupted, Target


class OutputModel(Protocol):
    """A likelihood that compares the outputs of a simulator with data: the outputs tell more than one number."""

    log_likelihood_of: Any  # of outputs (k, m) at parameters (k, d), without a simulation

    @property
    def outputs(self) -> Any:
        """Outputs ``(n, m)`` at all points evaluated so far, in their order; NaN in rows that failed."""

    @property
    def loss(self) -> Loss:
        """What the searches of a fit minimise."""

    @property
    def series(self) -> Sequence[NDArray[np.intp]]:
        """Rows of the outputs whose order means something."""


class Simulations:
    """Points ``z`` (n, d) with their log prior, log likelihood and, if there is a model, its outputs (n, m).

    The likelihood is known to be zero where ``allows`` says so of rows of ``z``.
    """

    def __init__(
        self,
        target: Target,
        model: OutputModel | None,
        allows: Callable[[Floats], NDArray[np.bool_]] | None = None,
    ) -> None:
        self.target, self.model, self.allows = target, model, allows
        self.z: Floats = np.empty((0, target.dim))
        self.log_prior: Floats = np.empty(0)
        self.log_likelihood: Floats = np.empty(0)
        self._outputs: Floats | None = None
        self.drawn_outputs: Floats | None = None  # emulated, at the draws of the posterior

    def __len__(self) -> int:
        return len(self.z)

    @property
    def height(self) -> Floats:
        """Log posterior up to a constant; -inf where the simulation failed."""
        return self.log_prior + self.log_likelihood

    @property
    def outputs(self) -> Floats:
        """Outputs of all points."""
        assert self._outputs is not None
        return self._outputs

    @property
    def worked(self) -> NDArray[np.bool_]:
        """Which points have a positive likelihood, and outputs that are known if there is a model."""
        found = np.isfinite(self.log_likelihood)
        return found if self.model is None or self._outputs is None else found & np.isfinite(self._outputs).all(axis=1)

    def evaluate(self, z: Floats) -> Floats:
        """Simulate at the rows of ``z``, which lie inside the prior; their log likelihoods."""
        cut_short = None
        try:
            values = self.target.log_likelihood(z)
        except Interrupted as interrupt:
            values, cut_short = interrupt.values, interrupt
            z = z[: len(values)]
        self.keep(z, values, None if self.model is None else self.model.outputs[-len(z) :] if len(z) else None)
        if cut_short is not None:
            raise cut_short
        return values

    def keep(self, z: Floats, log_likelihood: Floats, outputs: Floats | None) -> None:
        """Add points that are known."""
        self.z = np.concatenate([self.z, z])
        self.log_prior = np.concatenate([self.log_prior, self.target.log_prior(z)])
        self.log_likelihood = np.concatenate([self.log_likelihood, log_likelihood])
        if outputs is not None:
            self._outputs = outputs if self._outputs is None else np.concatenate([self._outputs, outputs])
