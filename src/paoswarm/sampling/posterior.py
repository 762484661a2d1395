"""`Posterior`, the result of `sample`: weighted draws, the evidence, diagnostics and remarks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._checks import flag, of_kind, probability, whole_number
from paoswarm._extras import need
from paoswarm._text import block, first_rows, remark, rounded, table
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.sampling.simulated import SimulatedDraws
from paoswarm.sampling.views import columns_of, dataset, datatree, values_at
from paoswarm.sampling.weighted_draws import WeightedDraws
from paoswarm.space.names import NamedArray

DOUBTFUL = "doubtful value"
FEWER = "fewer draws"
SHAPE = "shape"
_FEWEST = 2  # draws of equal weight, however small the effective size; one has no standard deviation


class Remark(NamedTuple):
    """Something to know about a posterior.

    Attributes
    ----------
    kind : str
        - ``"doubtful value"``: evidence or moments may be wrong by more than the stated error.
        - ``"fewer draws"``: the result is right, but has fewer effective draws than asked for.
        - ``"shape"``: the result is right, but the posterior has a shape to look at.
    text : str
        What was seen, and what to do.
    """

    kind: str
    text: str


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


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior draws, the evidence of the model, and diagnostics.

    `draws` can be used like draws from any other sampler. Means, standard deviations, quantiles and intervals come from
    the weighted draws, which are more accurate.

    Attributes
    ----------
    names : list of str
        Names of the parameters.
    weighted : WeightedDraws
        All draws with their weights, as the sampler made them.
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
    seed : int
        Seed of the choice of `draws`. `sample` takes it from ``rng``, so a run with the same seed has the same draws.
    simulated : SimulatedDraws or None
        Outputs of the simulator at the weighted draws, if data were given.
    as_given : callable or None
        What makes parameters ``(d,)`` or ``(n, d)`` what the user's function gets.
    """

    names: list[str]
    weighted: WeightedDraws
    log_evidence: float
    log_evidence_error: float
    n_evaluations: int
    n_failed: int
    method: str
    diagnostics: dict[str, Any]
    success: bool = True
    message: str = ""
    seed: int = 0
    remarks: tuple[Remark, ...] = ()
    simulated: SimulatedDraws | None = None
    as_given: Callable[[Floats], Any] | None = None

    @property
    def draws(self) -> Floats:
        """Draws of equal weight, ``(n, d)``, in random order.

        There are about as many as the effective sample size, so they are worth their number: the standard error of a
        mean is the standard deviation divided by the root of ``n``. They are chosen from the weighted draws by
        systematic resampling, so some occur more than once; `n_distinct` are different.
        """
        return self.weighted.draws[self._rows]

    @property
    def n_distinct(self) -> int:
        """Number of different draws among `draws`."""
        return len(np.unique(self.draws, axis=0))

    @property
    def log_likelihood(self) -> Floats | None:
        """Log likelihood at `draws`, ``(n,)``; None if not known."""
        return None if self.weighted.log_likelihood is None else self.weighted.log_likelihood[self._rows]

    @property
    def log_prior(self) -> Floats | None:
        """Log prior density of the parameters at `draws`, ``(n,)``; None if not known."""
        return None if self.weighted.log_prior is None else self.weighted.log_prior[self._rows]

    @cached_property
    def _rows(self) -> NDArray[np.intp]:
        """Rows of the weighted draws that make up `draws`."""
        return self.weighted.rows(max(_FEWEST, int(self.effective_size)), self.seed)

    @property
    def effective_size(self) -> float:
        """Effective sample size: by the weights (Kish), and after moves also by the spread of the swarms' means."""
        return float(self.diagnostics.get("effective_size", self.weighted.effective_size))

    def mean(self) -> Floats:
        """Posterior mean, ``(d,)``."""
        return self.weighted.mean()

    def covariance(self) -> Floats:
        """Posterior covariance, ``(d, d)``."""
        return self.weighted.covariance()

    def std(self) -> Floats:
        """Posterior standard deviations, ``(d,)``."""
        return np.sqrt(np.diag(self.covariance()))

    def __getitem__(self, names: str | Sequence[str]) -> Floats:
        """Draws of one parameter, ``(n,)``, or of several, ``(n, k)``: columns of `draws`."""
        return self.draws[:, self._columns(names)]

    def __iter__(self) -> Iterator[Any]:
        """Raise: a posterior is no sequence."""
        raise TypeError("a posterior cannot be iterated over; its draws are posterior.draws, its parameters .names")

    def _columns(self, names: str | Sequence[str] | None) -> Any:
        """The column of a parameter, or those of several; all for None."""
        return slice(None) if names is None else columns_of("names", names, self.names)

    def quantile(self, share: ArrayLike, names: str | Sequence[str] | None = None) -> Floats:
        """Value of each parameter below which this share of the posterior lies.

        Parameters
        ----------
        share : float or list of float
            Between 0 and 1.
        names : str or list of str, optional
            Of the parameters; by default all.

        Returns
        -------
        array (d,), (k, d) for k shares
            Without the last axis for the name of one parameter.
        """
        return self.weighted.quantile(share)[..., self._columns(names)]

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of the central credible interval of each parameter, ``(d,)`` each."""
        low, high = self.quantile([(1 - probability("level", level)) / 2, (1 + level) / 2])
        return low, high

    def resample(self, n: int, rng: Seed = None) -> Floats:
        """Another ``n`` draws of equal weight, ``(n, d)``, in random order; some occur more than once."""
        return self.weighted.draws[self.weighted.rows(whole_number("n", n, 1), rng)]

    def predict(
        self,
        function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
        n: int = 1000,
        rng: Seed = None,
        *,
        vectorized: bool = False,
        noise: bool = False,
    ) -> Any:
        """Posterior predictive draws: ``function(x)`` for ``n`` draws ``x`` from the posterior, ``(n, ...)``.

        Parameters
        ----------
        function : callable, or dict of callables, optional
            It is called as that given to `sample`: with names if the prior has them, and with fixed values; with
            ``vectorized=True`` for all draws at once. It returns an array, or a dict of arrays by name. To predict
            data, add measurement noise in the function; without noise it predicts the mean. By default the simulator
            whose data were given: its outputs at the draws are known, and nothing is simulated.
        n : int
            Number of draws. Some may occur more than once; the function is called for each.
        rng : int, Generator, SeedSequence or None
            Seed of the choice of draws, and of noise.
        vectorized : bool
            Whether the function takes all draws at once.
        noise : bool
            Without a function: whether to predict new data with their noise, and not their expectation.

        Returns
        -------
        array (n, ...) or dict of arrays by name
        """
        source = generator(rng)
        rows = self.weighted.rows(whole_number("n", n, 1), source)
        if function is None:
            return self._data_for("function").predictions(rows, source, noise=flag("noise", noise))
        if flag("noise", noise):
            raise ValueError("noise=True is for the outputs that are compared with data; add noise in the function")
        return values_at(function, self.weighted.draws[rows], self._given, flag("vectorized", vectorized))

    def band(
        self,
        level: float = 0.95,
        function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | None = None,
        *,
        n: int = 1000,
        rng: Seed = 0,
        vectorized: bool = False,
        noise: bool = False,
    ) -> tuple[Any, Any]:
        """Ends of the central credible band of what `predict` predicts, at each of its places.

        Parameters
        ----------
        level : float
        function, n, rng, vectorized, noise
            As in `predict`: for a band over a grid, ``function`` returns its values on the grid.

        Returns
        -------
        low, high : array (...), or dict of arrays by name
        """
        shares = (1 - probability("level", level)) / 2, (1 + level) / 2
        found = self.predict(function, n, rng, vectorized=vectorized, noise=noise)
        if not isinstance(found, Mapping):
            low, high = np.quantile(found, shares, axis=0)
            return low, high
        ends = {name: np.quantile(values, shares, axis=0) for name, values in found.items()}
        return {name: both[0] for name, both in ends.items()}, {name: both[1] for name, both in ends.items()}

    def _given(self, x: Floats) -> Any:
        """Parameters ``(d,)`` or ``(n, d)`` as a function of the user gets them."""
        if self.as_given is not None:
            return self.as_given(x)
        return NamedArray.of(x, {name: i for i, name in enumerate(self.names)}, {})

    def _data_for(self, missing: str) -> SimulatedDraws:
        if self.simulated is None:
            raise ValueError(f"{missing} is needed: the posterior knows no data, as sample was given a log likelihood")
        return self.simulated

    def compare(self, other: Posterior) -> BayesFactor:
        """Compare with another model of the same data by the evidence."""
        of_kind("other", other, Posterior, "the Posterior of another model")
        difference = self.log_evidence - other.log_evidence
        error = math.hypot(self.log_evidence_error, other.log_evidence_error)
        message = " ".join(one.message for one in (self, other) if not one.success)
        return BayesFactor(difference, error, 1 / (1 + math.exp(-min(max(difference, -700.0), 700.0))), message)

    def to_dataframe(self, *, weighted: bool = False) -> Any:
        """Convert the draws to a ``pandas.DataFrame`` with a column for each parameter. Needs pandas.

        Parameters
        ----------
        weighted : bool
            By default the rows are `draws`, which have equal weight, so ``describe()``, histograms and correlations
            are right. If True, the rows are all weighted draws, with their weights in a column ``weight``; statistics
            that leave it out are wrong.
        """
        pandas = need("pandas", extra="dataframe", user="to_dataframe")
        if not flag("weighted", weighted):
            return pandas.DataFrame(self.draws, columns=self.names)
        if "weight" in self.names:
            raise ValueError("the weights need the column 'weight'; give the parameter 'weight' another name")
        return pandas.DataFrame(self.weighted.draws, columns=self.names).assign(weight=self.weighted.weights)

    def to_xarray(self, *, weighted: bool = False) -> Any:
        """Convert the draws to an ``xarray.Dataset`` along ``draw``, with the evidence as attributes. Needs xarray.

        Parameters
        ----------
        weighted : bool
            As in `to_dataframe`: by default `draws`, which have equal weight; if True all weighted draws, with their
            weights as ``weight``.
        """
        return dataset(self, flag("weighted", weighted))

    def to_datatree(
        self,
        n: int | None = None,
        rng: Seed = None,
        *,
        posterior_predictive: Mapping[str, Callable[..., ArrayLike]] | None = None,
        log_likelihood: Mapping[str, Callable[..., ArrayLike]] | None = None,
        observed_data: Mapping[str, ArrayLike] | None = None,
        vectorized: bool = False,
    ) -> Any:
        """Convert to an ArviZ ``DataTree``: draws of equal weight, with evidence and diagnostics as attributes.

        Needs ``arviz-base``. The functions of ArviZ 1.x (``arviz-stats``, ``arviz-plots``) take the tree as it is.
        Those of ArviZ 0.21 to 0.23 take ``az.from_datatree(tree)``.

        Parameters
        ----------
        n : int, optional
            Number of draws; by default the tree holds `draws`. With more draws than the effective sample size, draws
            are repeated, and ArviZ's effective sizes and errors are too optimistic.
        rng : int, Generator, SeedSequence or None
            Seed of the choice of ``n`` draws; not used without ``n``.
        posterior_predictive, log_likelihood : dict of callables, optional
            Functions of the parameters as in `predict`, by the name of the data. They return simulated data, and the
            log likelihood of *each observation*, which ArviZ needs for cross-validation. If `sample` was given data,
            these two groups are there by themselves, without simulations.
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
            - ``posterior_predictive``, ``log_likelihood`` and ``observed_data``: as above. An array of data without a
              name is ``data``. Of data with missing ones the others are in a row.

        Notes
        -----
        The draws form one chain in random order, so ArviZ's ``rhat`` is NaN. (If they were divided into several chains,
        ``rhat`` would always be one and mean nothing.) To judge the result, use the attributes ``pareto_k``,
        ``log_evidence_error`` and ``message``.
        """
        rows = self._rows if n is None else self.weighted.rows(whole_number("n", n, 1), rng)
        functions = {"posterior_predictive": posterior_predictive, "log_likelihood": log_likelihood}
        groups = {
            group: values_at(by_name, self.weighted.draws[rows], self._given, vectorized)
            for group, by_name in functions.items()
            if by_name is not None
        }
        return datatree(self, rows, groups, observed_data)

    def plot(
        self,
        *,
        names: Sequence[str] | None = None,
        truth: Mapping[str, float] | ArrayLike | None = None,
        rng: Seed = 0,
    ) -> NDArray[Any]:
        """Draw a corner plot; see `paoswarm.plot.corner`."""
        from paoswarm.sampling.views import corner

        return corner(self, names=names, truth=truth, rng=rng)

    def __str__(self) -> str:
        width = max(map(len, self.names))
        rows = [
            f"  {name:<{width}}  {mean} +- {sd}   95 % {low} to {high}" for name, mean, sd, low, high in self._table()
        ]
        found = self._modes_found()
        return "\n".join([self._headline(), *rows, *([f"  {found}"] if found else []), *filter(None, [self.message])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows, more = first_rows(self._table(), "parameters")
        header = ("", "mean", "sd", "2.5 %", "97.5 %")
        remarks = (f"{self._modes_found()}.".lstrip("."), self.message)
        return block(self._headline(), table(rows, header), more, *map(remark, remarks))

    def _headline(self) -> str:
        """The evidence, and what the draws are worth and have cost."""
        error = "(no standard error)" if math.isinf(self.log_evidence_error) else f"+- {self.log_evidence_error:.2g}"
        return (
            f"log evidence {rounded(self.log_evidence, self.log_evidence_error)} {error}; "
            f"{self.effective_size:.0f} effective draws from "
            f"{self.n_evaluations} evaluations"
            + (f", {self.n_failed} of them failed" if self.n_failed else "")
            + f" ({self.method})"
        )

    def _table(self) -> list[tuple[str, ...]]:
        """Name, mean, standard deviation and ends of the 95 % interval of every parameter."""
        low, high = self.interval(0.95)
        columns = zip(self.names, self.mean(), self.std(), low, high, strict=True)
        return [
            (name, rounded(mean, sd), f"{sd:.2g}", *(rounded(end, sd) for end in ends))
            for name, mean, sd, *ends in columns
        ]

    def _modes_found(self) -> str:
        """How many modes were found; empty if not known."""
        if "climbs" not in self.diagnostics:
            return ""
        climbs = self.diagnostics["climbs"]
        by = f"by {sum(climbs)} climb{'' if sum(climbs) == 1 else 's'}" if sum(climbs) else "from known points"
        found = f"{len(climbs)} mode{'' if len(climbs) == 1 else 's'} found {by}"
        return found if len(climbs) else "no climb reached a mode"
