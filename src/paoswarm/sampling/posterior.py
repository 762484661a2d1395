"""`Posterior`, the result of `sample`: weighted draws, the evidence and diagnostics."""

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
from paoswarm.sampling.moments import scatter_matrix
from paoswarm.sampling.verdict import Remark

_DECIMALS = 8  # most decimals of a printed number; smaller ones are printed with an exponent


class BayesFactor(NamedTuple):
    """Comparison of two models by their evidence, at equal prior odds."""

    log_bayes_factor: float
    error: float
    probability: float  # of the first model
    message: str = ""  # problems of either evidence

    def __str__(self) -> str:
        if math.isinf(self.error):
            return f"log Bayes factor {self.log_bayes_factor:.3f}, error and probability not stated: {self.message}"
        return (
            f"log Bayes factor {self.log_bayes_factor:.3f} +- {self.error:.2g}; "
            f"probability of the first model {self.probability:.3g}{'; ' + self.message if self.message else ''}"
        )


@dataclass(frozen=True)
class Posterior:
    """Weighted posterior draws, the evidence of the model, and diagnostics.

    Attributes
    ----------
    names : list of str
        Names of the parameters.
    draws : array (n, d)
        Parameters of each draw.
    weights : array (n,)
        Weights of the draws; they sum to one.
    log_evidence, log_evidence_error : float
        Logarithm of the evidence, which is the probability of the data under the model, and its standard error. The
        error is infinite if none can be stated; ``message`` then says why and what to do.
    n_evaluations, n_failed : int
        Number of likelihood evaluations, and how many of them failed (they count as likelihood zero).
    method : str
        ``importance``, ``tempered``, or ``interrupted``.
    diagnostics : dict
        - ``pareto_k``: tail of the weights; above 0.7 the result cannot be trusted.
        - ``effective_size``: number of independent draws that the draws are worth.
        - ``halves``: log evidence from each half of the draws.
        - ``widened``: factor by which the error was widened, because the weights are less even than predicted.
        - ``uncovered``: share of the posterior, or of the variance of a parameter, where there are hardly any draws.
        - ``modes``: positions of the modes, to a fraction of a standard deviation.
        - ``climbs``: number of climbs that ended at each mode.
        - ``stages``: stages of the adaptation.
        - ``unseen``: modes that cover less than this share of the prior cannot be ruled out. It is 30 divided by the
          number of first draws.
        - ``search_settled``: True if the search found no sign of missed modes.
        - ``noise``: largest difference of two log likelihoods at the same point.
    success : bool
        True if no remark says that a value is doubtful.
    message : str
        The remarks, and how small a mode may have been missed.
    remarks : tuple of Remark
        What there is to know about the result, by kind; see `Remark`.
    log_likelihood, log_prior : array (n,), optional
        Log likelihood, and log prior density of the parameters, at the draws. None if not known.
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
    remarks: tuple[Remark, ...] = ()

    @property
    def weights(self) -> Floats:
        """Normalised weights of the draws."""
        return normalise(self.log_weights)

    @property
    def effective_size(self) -> float:
        """Effective sample size: by the weights (Kish), and after moves also by the spread of the swarms' means."""
        return float(self.diagnostics.get("effective_size", effective_size(self.log_weights)))

    def mean(self) -> Floats:
        """Posterior mean, ``(d,)``."""
        return self.weights @ self.draws

    def covariance(self) -> Floats:
        """Posterior covariance, ``(d, d)``."""
        return scatter_matrix(self.draws - self.mean(), self.weights)

    def std(self) -> Floats:
        """Posterior standard deviations, ``(d,)``."""
        return np.sqrt(np.diag(self.covariance()))

    def quantile(self, share: float) -> Floats:
        """Value of each parameter below which this share of the posterior lies, ``(d,)``."""
        if not 0 <= share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {share!r}")
        found = []
        for column in self.draws.T:
            order = np.argsort(column)
            below = np.cumsum(self.weights[order])
            found.append(column[order][min(int(np.searchsorted(below, share)), len(column) - 1)])
        return np.array(found)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of the central credible interval of each parameter, ``(d,)`` each."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def resample(self, n: int, rng: Seed = None) -> Floats:
        """``n`` draws of equal weight, ``(n, d)``, in random order; some occur more than once."""
        return self.draws[self._rows(n, rng)]

    def _rows(self, n: int, rng: Seed) -> NDArray[np.intp]:
        """Rows of draws of equal weight."""
        source = generator(rng)
        return source.permutation(systematic(self.weights, whole_number("n", n, 1), source))

    def predict(
        self, function: Callable[[Floats], ArrayLike], n: int = 1000, rng: Seed = None, *, vectorized: bool = False
    ) -> NDArray[Any]:
        """Posterior predictive draws: ``function(x)`` for ``n`` draws ``x`` from the posterior, ``(n, ...)``.

        Parameters
        ----------
        function : callable
            Takes parameters ``(d,)``, in the prior's order; with ``vectorized=True``, ``(n, d) -> (n, ...)``. To
            predict data, add measurement noise in the function; without noise it predicts the mean.
        n : int
            Number of draws. Some may occur more than once; the function is called for each.
        rng : int, Generator, SeedSequence or None
            Seed of the choice of draws.
        vectorized : bool
            Whether the function takes all draws at once.
        """
        return _values(function, self.resample(n, rng), vectorized)

    def compare(self, other: Posterior) -> BayesFactor:
        """Compare with another model of the same data by the evidence."""
        difference = self.log_evidence - other.log_evidence
        error = math.hypot(self.log_evidence_error, other.log_evidence_error)
        message = " ".join(one.message for one in (self, other) if not one.success)
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
        """Convert to an ArviZ ``DataTree``: draws of equal weight, with evidence and diagnostics as attributes.

        Needs ``arviz-base``.

        Parameters
        ----------
        n : int, optional
            Number of draws; by default the effective sample size. With more, draws are repeated, and ArviZ's effective
            sizes and errors are too optimistic.
        rng : int, Generator, SeedSequence or None
            Seed of the resampling.
        posterior_predictive, log_likelihood : dict of callables, optional
            Functions of the parameters as in `predict`, by the name of the data. They return simulated data, and the
            log likelihood of *each observation*, which ArviZ needs for cross-validation.
        observed_data : dict of arrays, optional
            The data, by the same names.
        vectorized : bool
            Whether the functions take all draws at once.

        Returns
        -------
        xarray.DataTree
            - ``posterior``: the draws, one variable for each parameter.
            - ``sample_stats``: for each draw ``log_weight``, the logarithm of its weight before resampling; if known,
              ``log_prior``, ``log_lik`` and their sum ``lp``.
            - ``modes``: if known, their ``position``, by mode and parameter.

        Notes
        -----
        The draws form one chain in random order, so ArviZ's ``rhat`` is NaN. (If they were divided into several chains,
        ``rhat`` would always be one and mean nothing.) To judge the result, use the attributes ``pareto_k``,
        ``log_evidence_error`` and ``message``.
        """
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError("to_datatree needs arviz-base; pip install 'paoswarm[posterior]'") from error
        if taken := {"chain", "draw"}.intersection(self.names):
            raise ValueError(f"ArviZ has its own dimension {sorted(taken)[0]!r}; give the parameter another name")
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
        """Evidence and diagnostics as numbers, lists of numbers and text, which can be saved to a file."""
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
        """Draw a corner plot; see `paoswarm.plot.corner`."""
        from paoswarm.sampling.corner import corner

        return corner(self, names=names, truth=truth, rng=rng)

    def __str__(self) -> str:
        low, high = self.interval(0.95)
        width = max(map(len, self.names))
        error = "(no standard error)" if math.isinf(self.log_evidence_error) else f"+- {self.log_evidence_error:.2g}"
        lines = [
            f"log evidence {_rounded(self.log_evidence, self.log_evidence_error)} {error}; "
            f"{self.effective_size:.0f} effective draws from "
            f"{self.n_evaluations} evaluations"
            + (f", {self.n_failed} of them failed" if self.n_failed else "")
            + f" ({self.method})"
        ]
        for name, mean, sd, *ends in zip(self.names, self.mean(), self.std(), low, high, strict=True):
            shown, bottom, top = (_rounded(number, sd) for number in (mean, *ends))
            lines.append(f"  {name:<{width}}  {shown} +- {sd:.2g}   95 % {bottom} to {top}")
        if "climbs" in self.diagnostics:
            climbs = self.diagnostics["climbs"]
            found = f"{len(climbs)} mode{'' if len(climbs) == 1 else 's'} found by {sum(climbs)} climbs"
            lines.append(f"  {found if len(climbs) else 'no climb reached a mode'}")
        return "\n".join([*lines, *([self.message] if self.message else [])])


def _rounded(number: float, sd: float) -> str:
    """A number with the digits that two digits of its standard deviation support."""
    if not (0 < sd < math.inf and math.isfinite(number)):
        return f"{number:.6g}"
    decimals = 1 - math.floor(math.log10(sd))
    if 0 <= decimals <= _DECIMALS:
        return f"{number:.{decimals}f}"
    digits = 2 + max(0, math.floor(math.log10(abs(number) / sd))) if number else 1
    return f"{number:.{min(digits, 15)}g}"


def _values(function: Callable[[Floats], ArrayLike], x: Floats, vectorized: bool) -> NDArray[Any]:
    """Evaluate the function at every row of a copy of ``x``, ``(n, ...)``."""
    x = x.copy()
    if not vectorized:
        return np.stack([np.asarray(function(row)) for row in x])
    found = np.asarray(function(x))
    if found.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"with vectorized=True the function must map {x.shape} to ({len(x)}, ...), but it returned {found.shape}"
        )
    return found
