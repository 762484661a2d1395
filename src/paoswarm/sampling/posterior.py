"""What `sample` returns: weighted posterior draws, the evidence, and how far both can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm.checks import whole_number
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.weights import effective_size, normalise, systematic


class BayesFactor(NamedTuple):
    """Two models compared by their evidence, at equal prior odds."""

    log_bayes_factor: float
    error: float
    probability: float  # of the first model
    message: str = ""  # what is known to be wrong with either evidence

    def __str__(self) -> str:
        if math.isinf(self.error):
            return f"log Bayes factor {self.log_bayes_factor:.3f}, error and probability not stated: {self.message}"
        return (
            f"log Bayes factor {self.log_bayes_factor:.3f} +- {self.error:.2g}; "
            f"probability of the first model {self.probability:.3g}{'; ' + self.message if self.message else ''}"
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
        from each half of the draws), ``widened`` (by which the error is larger than the weights alone would have it,
        where they are less even than was predicted), ``modes`` that were climbed (to a fraction of a standard
        deviation), how many ``climbs`` ended at each, ``stages`` of the adaptation, ``unseen``: a basin of less
        than this share of the prior, which 30 of the first draws hit on average, may be missing, ``search_settled``:
        whether nothing speaks for modes that it has missed, but that, and ``noise``: the largest difference of two
        values of the likelihood at one point.
    success : bool
        Whether nothing is known to be wrong.
    message : str
        What is wrong, and what to do; else what no diagnostic can see: how small a basin of a mode may be missing.
    log_likelihood, log_prior : array (n,), optional
        At the draws; the prior's density is that of the parameters. None where it is not known.
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
    success: bool = True
    message: str = ""
    log_likelihood: Floats | None = field(default=None, repr=False)
    log_prior: Floats | None = field(default=None, repr=False)

    @property
    def weights(self) -> Floats:
        """Normalised weights of the draws."""
        return normalise(self.log_weights)

    @property
    def effective_size(self) -> float:
        """How many independent draws these are worth: by their weights (Kish), and by what moves failed to forget."""
        return float(self.diagnostics.get("effective_size", effective_size(self.log_weights)))

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
        return self.draws[self._rows(n, rng)]

    def _rows(self, n: int, rng: Seed) -> NDArray[np.intp]:
        """Which draws to take so that all count the same."""
        source = generator(rng)
        return source.permutation(systematic(self.weights, whole_number("n", n, 1), source))

    def predict(
        self, function: Callable[[Floats], ArrayLike], n: int = 1000, rng: Seed = None, *, vectorized: bool = False
    ) -> NDArray[Any]:
        """Posterior predictive draws: ``function(x)`` for ``n`` parameters drawn from the posterior, ``(n, ...)``.

        Parameters
        ----------
        function : callable
            Of the parameters ``(d,)``, in the prior's order; with ``vectorized=True``, ``(n, d) -> (n, ...)``. For
            predictions of data let it add the noise of a measurement; without noise they are predictions of the mean.
        n : int
            How many parameters; some occur more than once, each is a call of its own.
        rng : int, Generator, SeedSequence or None
            Seed of the choice of parameters.
        vectorized : bool
            Whether the function takes all parameters at once.
        """
        return _values(function, self.resample(n, rng), vectorized)

    def compare(self, other: Posterior) -> BayesFactor:
        """Compare with another model of the same data, by the evidence."""
        difference = self.log_evidence - other.log_evidence
        error = math.hypot(self.log_evidence_error, other.log_evidence_error)
        message = "; ".join(one.message for one in (self, other) if not one.success)
        return BayesFactor(difference, error, 1 / (1 + math.exp(-min(max(difference, -700.0), 700.0))), message)

    def to_datatree(
        self,
        n: int | None = None,
        rng: Seed = None,
        *,
        posterior_predictive: Mapping[str, Callable[[Floats], ArrayLike]] | None = None,
        log_likelihood: Mapping[str, Callable[[Floats], ArrayLike]] | None = None,
        observed_data: Mapping[str, ArrayLike] | None = None,
        vectorized: bool = False,
    ) -> Any:
        """An ArviZ ``DataTree`` of draws of equal weight; evidence and diagnostics are its attributes.

        Needs ``arviz-base``.

        Parameters
        ----------
        n : int, optional
            How many draws; as many as they are worth unless given. More would repeat draws, and ArviZ would count them
            all: its effective sizes and errors hold for the default or fewer.
        rng : int, Generator, SeedSequence or None
            Seed of the resampling.
        posterior_predictive, log_likelihood : dict of callables, optional
            By the name of the data, functions of the parameters as in `predict`: simulated data, and the log likelihood
            of *each observation*, which ArviZ needs for cross-validation. They are evaluated at the draws.
        observed_data : dict of arrays, optional
            The data, by the same names.
        vectorized : bool
            Whether the functions take all parameters at once.

        Returns
        -------
        xarray.DataTree
            ``posterior``: the draws, a variable for each parameter. ``sample_stats``, for each draw: ``log_weight``,
            the logarithm of its share before resampling; where they are known ``log_prior`` and ``log_lik``, of prior
            and likelihood, and ``lp``, their sum. ``modes``, where they are known: ``position`` by mode and parameter.

        Notes
        -----
        The draws are one chain, in random order. Several chains made by dividing them would agree whatever had
        happened, so that ArviZ's ``rhat`` would be one and mean nothing; of one chain it is NaN. What can be doubted
        is in the attributes: ``pareto_k``, ``log_evidence_error``, ``message``.
        """
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError("to_datatree needs arviz-base; pip install 'paoswarm[posterior]'") from error
        if taken := {"chain", "draw"}.intersection(self.names):
            raise ValueError(f"ArviZ has a dimension {sorted(taken)[0]!r}; give the parameter another name")
        rows = self._rows(max(2, int(self.effective_size)) if n is None else n, rng)
        x = self.draws[rows]
        groups: dict[str, dict[str, Any]] = {"posterior": dict(zip(self.names, x.T, strict=True))}
        with np.errstate(divide="ignore"):
            stats = {"log_weight": np.log(self.weights)}
        stats |= {} if self.log_prior is None else {"log_prior": self.log_prior}
        stats |= {} if self.log_likelihood is None else {"log_lik": self.log_likelihood}
        if self.log_prior is not None and self.log_likelihood is not None:
            stats["lp"] = self.log_prior + self.log_likelihood
        groups["sample_stats"] = {name: values[rows] for name, values in stats.items()}
        for group, functions in (("posterior_predictive", posterior_predictive), ("log_likelihood", log_likelihood)):
            if functions is not None:
                groups[group] = {name: _values(function, x, vectorized) for name, function in functions.items()}
        groups = {group: {name: a[None] for name, a in values.items()} for group, values in groups.items()}
        if observed_data is not None:
            groups["observed_data"] = {name: np.asarray(values) for name, values in observed_data.items()}
        about = {"inference_library": "paoswarm", "inference_library_version": metadata.version("paoswarm")}
        tree = from_dict(groups, attrs={"/": about | self._facts(), **dict.fromkeys(groups, about)})
        if len(modes := self.diagnostics.get("modes", ())):
            from xarray import Dataset, DataTree

            coords = {"mode": np.arange(len(modes)), "parameter": self.names}
            tree["modes"] = DataTree(Dataset({"position": (("mode", "parameter"), modes)}, coords))
        return tree

    def _facts(self) -> dict[str, Any]:
        """Evidence and diagnostics as plain numbers, rows of numbers and text, which files can hold."""
        known = {name: np.asarray(value) for name, value in self.diagnostics.items() if not isinstance(value, list)}
        return {
            "method": self.method,
            "log_evidence": self.log_evidence,
            "log_evidence_error": self.log_evidence_error,
            "n_evaluations": self.n_evaluations,
            "n_failed": self.n_failed,
            "success": self.success,
            "message": self.message,
            **{name: a.tolist() for name, a in known.items() if a.ndim < 2 and a.dtype.kind in "ifb"},
        }

    def plot(
        self,
        *,
        names: Sequence[str] | None = None,
        truth: Mapping[str, float] | ArrayLike | None = None,
        rng: Seed = 0,
    ) -> NDArray[Any]:
        """Every parameter against every other; the same as `paoswarm.plot.corner`, which says more."""
        from paoswarm.sampling.corner import corner

        return corner(self, names=names, truth=truth, rng=rng)

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
        if "climbs" in self.diagnostics:
            climbs = self.diagnostics["climbs"]
            found = f"{len(climbs)} mode{'' if len(climbs) == 1 else 's'} found by {sum(climbs)} climbs"
            lines.append(f"  {found if len(climbs) else 'no climb came to a mode'}")
        return "\n".join([*lines, *([self.message] if self.message else [])])


def _values(function: Callable[[Floats], ArrayLike], x: Floats, vectorized: bool) -> NDArray[Any]:
    """The function at every row of ``x``, ``(n, ...)``; it may write into what it is given."""
    x = x.copy()
    if not vectorized:
        return np.stack([np.asarray(function(row)) for row in x])
    found = np.asarray(function(x))
    if found.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"with vectorized=True the function must map {x.shape} to ({len(x)}, ...), it returned {found.shape}"
        )
    return found
