"""What `sample` returns: weighted posterior draws, the evidence, and how far both can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.random import Seed, generator
from paoswarm.core.walled import Floats
from paoswarm.core.weights import effective_size, normalise, systematic


class BayesFactor(NamedTuple):
    """Two models compared by their evidence, at equal prior odds."""

    log_bayes_factor: float
    error: float
    probability: float  # of the first model

    def __str__(self) -> str:
        return (
            f"log Bayes factor {self.log_bayes_factor:.3f} +- {self.error:.2g}; "
            f"probability of the first model {self.probability:.3g}"
        )


@dataclass(frozen=True)
class Posterior:
    """Draws from a posterior, and the evidence of the model.

    Attributes
    ----------
    names : list of str
        Of the parameters.
    draws : array (n, d)
        Parameters; each counts by its weight.
    weights : array (n,)
        They sum to one.
    log_evidence, log_evidence_error : float
        Logarithm of the probability of the data under the model, and its standard error. Infinite where no error can
        be stated; ``message`` then says why and what to do.
    n_evaluations, n_failed : int
        Likelihood evaluations, and those of them that failed (they count as likelihood zero).
    method : str
        ``importance``, ``tempered``, or ``interrupted``.
    diagnostics : dict
        ``pareto_k`` of the weights (above 0.7 nothing can be trusted), ``effective_size``, ``halves`` (log evidence
        from each half of the draws), ``modes`` found, ``stages`` of the adaptation, and ``unseen``: a basin of this
        share of the prior is missed by the first draws in one run of twenty.
    message : str
    """

    names: list[str]
    draws: Floats
    log_weights: Floats = field(repr=False)
    log_evidence: float
    log_evidence_error: float
    n_evaluations: int
    n_failed: int
    method: str
    diagnostics: dict[str, Any] = field(repr=False)
    message: str = ""

    @property
    def weights(self) -> Floats:
        """Normalised weights of the draws."""
        return normalise(self.log_weights)

    @property
    def effective_size(self) -> float:
        """How many independent draws these are worth (Kish)."""
        return effective_size(self.log_weights)

    def mean(self) -> Floats:
        """Posterior mean, ``(d,)``."""
        return self.weights @ self.draws

    def covariance(self) -> Floats:
        """Posterior covariance, ``(d, d)``."""
        apart = self.draws - self.mean()
        return (self.weights[:, None] * apart).T @ apart

    def std(self) -> Floats:
        """Posterior standard deviations, ``(d,)``."""
        return np.sqrt(np.diag(self.covariance()))

    def quantile(self, share: float) -> Floats:
        """The value of each parameter below which this share of the posterior lies, ``(d,)``."""
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {share!r}")
        found = []
        for column in self.draws.T:
            order = np.argsort(column)
            below = np.cumsum(self.weights[order])
            found.append(column[order][min(int(np.searchsorted(below, share)), len(column) - 1)])
        return np.array(found)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of the central interval of each parameter that holds this share of the posterior."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def resample(self, n: int, rng: Seed = None) -> Floats:
        """``n`` draws of equal weight, ``(n, d)``, in random order; some occur more than once."""
        source = generator(rng)
        return self.draws[source.permutation(systematic(self.weights, n, source))]

    def predict(self, function: Callable[[Floats], Any], n: int = 1000, rng: Seed = None) -> Floats:
        """Posterior predictive draws: ``function(x)`` for ``n`` parameters drawn from the posterior, ``(n, ...)``."""
        return np.stack([np.asarray(function(x)) for x in self.resample(n, rng)])

    def compare(self, other: Posterior) -> BayesFactor:
        """Compare with another model of the same data, by the evidence."""
        difference = self.log_evidence - other.log_evidence
        error = math.hypot(self.log_evidence_error, other.log_evidence_error)
        return BayesFactor(difference, error, 1 / (1 + math.exp(-min(max(difference, -700.0), 700.0))))

    def to_datatree(self, n: int | None = None, rng: Seed = None) -> Any:
        """An ArviZ ``DataTree``: ``posterior`` with draws of equal weight; evidence and diagnostics are attributes.

        Needs ``arviz-base``. ``n`` is the effective size unless given.
        """
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError("to_datatree needs arviz-base; pip install 'paoswarm[posterior]'") from error
        count = max(2, int(self.effective_size)) if n is None else n
        draws = self.resample(count, rng)
        tree = from_dict({"posterior": {name: draws[None, :, i] for i, name in enumerate(self.names)}})
        keep = ("pareto_k", "effective_size")
        tree.attrs.update(
            {
                "inference_library": "paoswarm",
                "method": self.method,
                "log_evidence": self.log_evidence,
                "log_evidence_error": self.log_evidence_error,
                "n_evaluations": self.n_evaluations,
                "n_failed": self.n_failed,
                **{name: float(self.diagnostics[name]) for name in keep if name in self.diagnostics},
            }
        )
        return tree

    def __str__(self) -> str:
        low, high = self.interval(0.95)
        width = max(map(len, self.names))
        error = "error not stated" if math.isinf(self.log_evidence_error) else f"+- {self.log_evidence_error:.2g}"
        lines = [
            f"log evidence {self.log_evidence:.4f} {error}; {self.effective_size:.0f} effective draws from "
            f"{self.n_evaluations} evaluations"
            + (f", {self.n_failed} of them failed" if self.n_failed else "")
            + f" ({self.method})"
        ]
        for i, name in enumerate(self.names):
            lines.append(
                f"  {name:<{width}}  {self.mean()[i]:.6g} +- {self.std()[i]:.2g}   95 % {low[i]:.6g} to {high[i]:.6g}"
            )
        return "\n".join([*lines, *([self.message] if self.message else [])])
