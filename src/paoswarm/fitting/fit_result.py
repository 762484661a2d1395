"""What `fit` returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paoswarm._checks import explains_keywords, probability
from paoswarm._text import block, paragraph, remark, table
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting.fit_profile import FitProfile, profile_fit
from paoswarm.fitting.fit_run import FitRun
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.fitting.solution import Solution
from paoswarm.fitting.views import plot_fit, plot_searches
from paoswarm.least_squares.descent import Precision
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.run.many_result import Found, make_result
from paoswarm.run.observers import History
from paoswarm.run.result import Result, SearchTable
from paoswarm.run.run import Ends
from paoswarm.space.evaluations import Evaluations

if TYPE_CHECKING:
    from paoswarm.fitting.fit_call import FitCall
    from paoswarm.sampling.posterior import Posterior

_KIND = "Gauss-Newton"


class Fit(Result):
    """A fit: the best point, how sure it is, and what to doubt. Print it for a table.

    It has the fields of `Result`, and besides:

    Attributes
    ----------
    standard_errors : array (k,)
        Of the continuous unknowns, in the user's numbers. NaN on a bound, infinite if the data do not determine it.
    covariance, correlations : array (k, k)
    uncertainty : FitUncertainty
        All of this, with tables.
    parameters : lmfit.Parameters or None
        The same for lmfit, if the space was ``Parameters``.
    predictions, residuals : array, or dict of arrays
        What the simulator returns at the best point, with scale and offset, also where there is no datum; and that less
        the data.
    jacobian : array (m, k)
        Slopes of the outputs with respect to the continuous unknowns, in the user's numbers.
    sigma : dict
        Standard deviation of the noise by output, where it was estimated.
    factors : dict
        Scale and offset of outputs that are `Scaled`.
    chi_square : float
        Sum of the deviances of all data; for normal noise of the squared residuals over their variances.
    degrees_of_freedom : int
    log_likelihood, aic, bic : float
        With estimated standard deviations and factors among the unknowns.
    agreement : Agreement
        How the searches agree.
    searches : SearchTable
        How each of them ended.
    remarks : tuple of str
        What to doubt: residuals that are no noise, unknowns that are not determined or lie on bounds, and so on.
    """

    _call: FitCall

    # How it was found

    @property
    def searches(self) -> SearchTable:
        """How each search ended."""
        found, space = self["_searches"], self._call.space
        return SearchTable(found, space.lower, space.upper, space.axes, space)

    @property
    def agreement(self) -> Agreement:
        """How the searches agree."""
        found: Agreement = self["_agreement"]
        return found

    @property
    def hint(self) -> str:
        """Nothing: `remarks` say what to do."""
        return ""

    # How sure it is

    @cached_property
    def solution(self) -> Solution:
        """The best point with its outputs and slopes, for computations."""
        found: Solution = self["_solution"]
        return found

    @property
    def uncertainty(self) -> FitUncertainty:
        """Standard errors, with tables."""
        return self.solution.uncertainty

    @property
    def standard_errors(self) -> Floats:
        """Standard errors of the continuous unknowns."""
        return self.uncertainty.standard_errors

    @property
    def covariance(self) -> Floats:
        """Covariance of the continuous unknowns."""
        return self.uncertainty.covariance

    @property
    def correlations(self) -> Floats:
        """Correlations of the continuous unknowns."""
        return self.uncertainty.correlations

    @property
    def parameters(self) -> Any:
        """The best ``lmfit.Parameters`` with standard errors and correlations; None for other spaces."""
        return self.uncertainty.parameters

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of intervals from standard errors; `profile` has better ones where the fit is far from linear."""
        return self.uncertainty.interval(level)

    def profile(
        self,
        names: Any = None,
        level: float = 0.95,
        *,
        maxfev: float | None = None,
        time_limit: float | None = None,
        workers: Any = None,
        progress: bool = False,
    ) -> FitProfile:
        """Profiles: for each value of an unknown the best fit of all others, with intervals that need not be symmetric.

        They show which unknowns the data determine. Each takes some ten simulations; all are followed side by side.

        Parameters
        ----------
        names : str or sequence of str, optional
            The unknowns; by default all continuous ones.
        level : float
            Of the intervals.
        maxfev, time_limit
            Most simulations, and most seconds. By default at most 60 simulations for each unknown and each unknown
            more, which most profiles do not need.
        workers
            As in `fit`; by default those of the fit.
        progress : bool

        Returns
        -------
        FitProfile
            Print it for a table. ``interval()``, ``verdicts``, ``remarks``, ``plot()``, and each curve by name.

        Notes
        -----
        If a better fit is found on the way, the profiles are those of that fit, and ``better`` says where it is.

        Examples
        --------
        >>> import numpy as np
        >>> import paoswarm as ps
        >>> t = np.arange(1.0, 7.0)
        >>> measured = np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
        >>> def simulate(p):
        ...     return p["limit"] * (1 - np.exp(-p["rate"] * t))
        >>> fit = ps.fit(simulate, {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}, measured, rng=1)
        >>> print(fit.profile())  # doctest: +ELLIPSIS
                 estimate  95 % profile interval  the data make it
          limit     15.46         14.2... to 17.0...  identifiable
          rate      0.640         0.47... to 0.86...  identifiable
        It took ... simulations.
        """
        found = profile_fit(
            self, names, level, maxfev=maxfev, time_limit=time_limit, workers=workers, progress=progress
        )
        self["_profile"] = found
        return found

    # What it says about the data

    @property
    def data(self) -> Any:
        """The data, NaN where there is no datum; zeros if the simulator returns residuals."""
        return self._in_form(self.solution.loss.data)

    @property
    def predictions(self) -> Any:
        """What the simulator returns at the best point, in the form of the data, with scale and offset."""
        return self._in_form(self.solution.loss.predicted(self.solution.outputs))

    @property
    def residuals(self) -> Any:
        """Predictions less data, in the form of the data."""
        loss = self.solution.loss
        return self._in_form(loss.predicted(self.solution.outputs) - loss.data)

    def band(self, level: float = 0.95, *, noise: bool = False) -> tuple[Any, Any]:
        """Ends of the band around the predictions, in the form of the data.

        Parameters
        ----------
        level : float
        noise : bool
            Whether the band is for a new measurement, with its noise, and not for its expectation. NaN where there is
            no datum and ``sigma`` was given datum by datum.

        Notes
        -----
        For log-normal noise the band is one of the logarithm, and of counts it ends at zero.
        """
        low, high = self.solution.band(probability("level", level), noise)
        return self._in_form(low), self._in_form(high)

    # Pictures

    def plot(self, x: Any = None, level: float = 0.95) -> NDArray[Any]:
        """Draw data, the best fit with its bands, and the residuals below; a panel for each output.

        The dark band is that of the expectation, the pale one that of new data. Residuals are data less predictions, in
        standard deviations of a datum. A matrix has a curve for each column. Needs matplotlib.

        Parameters
        ----------
        x : array, or dict of arrays by output, optional
            Where the data are; by default ``xdata`` if the fit had it, else their numbers.
        level : float
            Of the bands.

        Returns
        -------
        array (k, 2) of matplotlib Axes
            For each output the panel of the data and that of the residuals. Of a function of residuals these alone.
        """
        return plot_fit(self, x, level)

    def plot_searches(self) -> NDArray[Any]:
        """Draw the values at which searches have ended, the best first, and the best value over simulations.

        Many searches at the lowest value and a step up to the next say that the fit is found. Needs matplotlib.

        Returns
        -------
        array (2,) of matplotlib Axes
        """
        return plot_searches(self)

    def plot_profiles(self) -> NDArray[Any]:
        """Draw the latest profiles; compute those of all unknowns first if there are none. See `FitProfile.plot`."""
        found: FitProfile = self.get("_profile") or self.profile()
        return found.plot()

    def _in_form(self, vector: Floats) -> Any:
        return self._call.comparison.split(vector)

    @property
    def jacobian(self) -> Floats:
        """Slopes of the outputs with respect to the continuous unknowns, in the user's numbers."""
        solution, one = self.solution, self.uncertainty
        slope = solution.jacobian[: len(solution.loss.data)] / solution.cube.width
        return slope / np.where(one.is_log, one.x, 1.0)

    @property
    def sigma(self) -> dict[str, float]:
        """Standard deviation of the noise by output, where it was estimated."""
        solution = self.solution
        return {
            group.name: float(score.scored.sigma[0]) * solution.inflation
            for group, score in zip(solution.loss.groups, solution.around.groups, strict=True)
            if group.law.estimates_sigma
        }

    @property
    def factors(self) -> dict[str, tuple[float, float]]:
        """Scale and offset of outputs that are `Scaled`."""
        pairs = zip(self.solution.loss.groups, self.solution.around.groups, strict=True)
        return {
            group.name: (score.factor.a, score.factor.b)
            for group, score in pairs
            if group.has_scale or group.has_offset
        }

    @property
    def chi_square(self) -> float:
        """Sum of the deviances of all data."""
        return float(sum((score.scored.residuals**2).sum() for score in self.solution.around.groups))

    @property
    def degrees_of_freedom(self) -> int:
        """Data less free unknowns, factors and offsets."""
        return self.solution.degrees_of_freedom

    @property
    def log_likelihood(self) -> float:
        """Log likelihood of the data at the best point."""
        return -0.5 * self.solution.loss.minus_two_log_likelihood(self.solution.outputs)

    @property
    def _n_estimated(self) -> int:
        loss = self.solution.loss
        return int(self.solution.free.sum()) + loss.n_factors + loss.n_sigmas

    @property
    def aic(self) -> float:
        """Akaike's information criterion: smaller is better among models of the same data."""
        return 2 * self._n_estimated - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """The Bayesian information criterion of Schwarz."""
        return self._n_estimated * math.log(self.solution.loss.n_data) - 2 * self.log_likelihood

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What to doubt; empty if nothing is."""
        one = self.uncertainty
        names = tuple(f"{name} " for name in one.names)
        said = (*one.warnings, *one.notes)
        own = [text if text.startswith(names) else text[0].upper() + text[1:] for text in said]
        return (*self.solution.remarks(self["_contradiction"]), *own)

    # Once more

    @explains_keywords(
        loss="choose a law of the noise, such as likelihood='student-t' for outliers",
        weights="give sigma=, standard deviations",
        store="a refit is quick: only fit has a store",
        x0="a refit starts from the best known point; search=True looks everywhere",
    )
    def refit(
        self,
        *,
        data: Any = ...,
        sigma: Any = ...,
        likelihood: Any = ...,
        priors: Any = ...,
        penalty: Any = ...,
        without: Any = ...,
        search: bool = False,
        maxfev: float | None = None,
        time_limit: float | None = None,
        workers: Any = None,
        callback: Callable[..., Any] | None = None,
        progress: bool = False,
        rng: Seed = None,
    ) -> Fit:
        """Fit again with other data, weights, laws of the noise or beliefs, or without some data.

        All outputs that were simulated are kept and compared anew. New simulations are made only where the optimum
        moves: mostly two or three, which makes cross-validation cheap. The slope there is measured again if it is more
        than a standard error away.

        Parameters
        ----------
        data, sigma, likelihood, priors, penalty
            As in `fit`; what is left out stays as it was. New data have the outputs and shapes of the old ones, or some
            of them.
        without : object
            Data that do not count: a mask or indices of the data, of a dict the names of outputs, or a dict of masks
            and indices by name. None: all data count again. Predictions of such data remain.
        search : bool
            Whether to search the whole space again, as `fit` does, with all points that are known. By default there is
            one search, from the best known point.
        maxfev : int or None
            Most new simulations. With zero, the result is the best known point, with errors from the known slopes.
        time_limit, workers, callback, progress, rng
            As in `fit`; by default the workers are those of this fit.

        Returns
        -------
        Fit
            ``nfev`` counts the new simulations. There is no store.

        Examples
        --------
        Predict each datum from the others.

        >>> import numpy as np
        >>> import paoswarm as ps
        >>> t = np.arange(1.0, 7.0)
        >>> measured = np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
        >>> def simulate(p):
        ...     return p["limit"] * (1 - np.exp(-p["rate"] * t))
        >>> fit = ps.fit(simulate, {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}, measured, rng=1)
        >>> each = [fit.refit(without=[i]) for i in range(6)]
        >>> print(np.array([one.predictions[i] - measured[i] for i, one in enumerate(each)]).round(1))
        [-1.4  0.9  0.2  0.5 -0.4 -0.5]
        """
        from paoswarm.fitting.refit import refit

        changes = {"data": data, "sigma": sigma, "likelihood": likelihood, "priors": priors, "penalty": penalty}
        return refit(
            self,
            changes | {"without": without},
            search=search,
            maxfev=maxfev,
            time_limit=time_limit,
            workers=workers,
            callback=callback,
            progress=progress,
            rng=rng,
        )

    @explains_keywords(
        prior="give priors= to fit, or to fit.refit, and sample then",
        priors="give them to fit, or to fit.refit, and sample then",
    )
    def sample(
        self,
        *,
        n_effective: int = 1000,
        maxfev: float | None = None,
        workers: Any = None,
        progress: bool = False,
        rng: Seed = None,
        store: Any = None,
    ) -> Posterior:
        """Draw from the posterior, starting from what the fit knows.

        The draws come from normal laws around the places where searches have ended, and are weighted. So a posterior
        near such laws takes little more than ``n_effective`` simulations, where `sample` from nothing takes thousands
        to find it. Whole numbers and choices stay at their best values.

        Parameters
        ----------
        n_effective : int
            Wanted effective sample size, at least 100.
        maxfev : int, optional
            Most simulations.
        workers, progress, rng
            As in `fit`; by default the workers are those of this fit.
        store : path or Store, optional
            A file that keeps every simulation, another one than that of the fit. If it is killed, repeat the same
            calls: the fit, from its own store, and this one.

        Returns
        -------
        Posterior
            Its prior is uniform between the bounds, of logarithmic unknowns in the logarithm, unless ``priors`` were
            given; ``penalty`` counts as half its sum of squares. Unknown standard deviations, with the prior
            ``1 / sigma``, and scales and offsets, with flat priors, are integrated out (F11): evidences of fits that
            have the same of these can be compared.

        Examples
        --------
        >>> import numpy as np
        >>> import paoswarm as ps
        >>> t = np.arange(1.0, 7.0)
        >>> measured = np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
        >>> def simulate(p):
        ...     return p["limit"] * (1 - np.exp(-p["rate"] * t))
        >>> fit = ps.fit(simulate, {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}, measured, rng=1)
        >>> posterior = fit.sample(n_effective=500, rng=1)
        >>> print(f"limit {posterior.mean()[0]:.0f}, {posterior.n_evaluations < 1000}")
        limit 16, True
        """
        from paoswarm.fitting.sample_fit import sample_fit

        return sample_fit(
            self, n_effective=n_effective, maxfev=maxfev, workers=workers, progress=progress, rng=rng, store=store
        )

    # How it is shown

    def _headlines(self) -> list[str]:
        solution = self.solution
        value, left, m = f"{self.fun:.6g}", solution.degrees_of_freedom, solution.loss.n_data
        name = solution.kind[0].upper() + solution.kind[1:]
        line = f"{name} {value} of {m} data with {left} degrees of freedom"
        if solution.kind == "chi-square" and left > 0:
            line += f", probability {chdtrc(left, self.fun):.2g}"
        lines = [line]
        names = {"": "a datum"}
        for output, sigma in self.sigma.items():
            if math.isfinite(sigma):
                lines.append(f"Standard deviation of {names.get(output, output)} {sigma:.4g}, estimated")
        for output, (a, b) in self.factors.items():
            lines.append(f"Scale{f' of {output}' if output else ''} {a:.6g}, offset {b:.6g}")
        return lines

    def __repr__(self) -> str:
        lines = [*paragraph(self.message), *self._headlines(), *self.uncertainty.table()]
        lines += [line for line in self.uncertainty.below() if not line.startswith("Condition")]
        lines.append(f"AIC {self.aic:.6g}, BIC {self.bic:.6g}")
        failed = f", {self.n_failed} of them failed" if self.n_failed else ""
        count = len(self.searches)
        ended = "1 search has ended" if count == 1 else f"{count} searches have ended"
        lines.append(f"It took {self.nfev} simulations{failed}; {ended}.")
        return "\n".join([*lines, *(line for text in self.remarks for line in paragraph(f"Remark: {text}"))])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return block(
            self.message,
            *map(remark, self._headlines()),
            self.uncertainty._repr_html_(),
            table([("AIC", f"{self.aic:.6g}"), ("BIC", f"{self.bic:.6g}"), ("simulations", self.nfev)]),
            *(remark(f"Remark: {text}") for text in self.remarks),
        )


def fit_so_far(call: FitCall, run: FitRun) -> Result:
    """What a callback sees."""
    best = run.searches.best
    x = call.cube.row(best.pool.points[best.best], run.searches.best_cell)
    fields = {"x": x, "fun": run.value, "nit": run.nit, "nfev": run.nfev, "n_failed": run.n_failed}
    return Result(**fields, **({} if call.space.is_plain else {"space": call.space}))


def make_fit(call: FitCall, run: FitRun, evaluate: Evaluator) -> Fit:
    """The result of a fit that has ended."""
    ends: Ends | None = run.ends
    assert ends is not None
    cells, cell = run.searches, run.searches.best_cell
    best = cells.best
    point, outputs = best.pool.points[best.best], best.pool.outputs[best.best]
    found = Found(
        x=call.cube.row(point, cell)[None],
        fun=np.array([run.value]),
        nit=ends.nit,
        nfev=ends.nfev,
        n_failed=np.array([run.n_failed]),
        swarm=None,
        status=ends.status,
        rule=ends.rule,
        best=np.array([run.best]),
        agreements=[cells.agreement],
        last_words=[ends.why],
        failure_kinds=[run.failure_kinds],
    )
    many, _ = make_result(
        [found],
        space=call.space,
        method=None,
        limits=run.limits,
        engine="numpy",
        seeds=[],
        failures=evaluate.failures,
        evaluations=_evaluations(call, run),
    )
    measured, rough = best.jacobian, best.rough_jacobian
    slope = measured if measured is not None else rough
    solution = Solution(
        cube=call.cube,
        comparison=call.comparison,
        point=point.copy(),
        cell=cell,
        outputs=outputs,
        jacobian=np.zeros((len(outputs), cells.cube.n)) if slope is None else slope,
        is_measured=measured is not None,
        noise=0.0 if best.precision is None else best.precision.relative,
        counts=(run.nfev, run.n_failed),
        edge=best.pool.region.normals(point),
        edge_names=() if call.excess is None else call.excess.on_edge(best.pool.region, point),
    )
    fit = Fit(**many.run(0))
    fit.history = History(best=np.array(run.best), nfev=np.array(run.counts, dtype=np.int64))
    fit["_solution"], fit["_agreement"], fit["_contradiction"] = solution, cells.agreement, best.contradiction
    fit["_searches"] = _searches(call, run)
    if call.excess is not None:
        fit.update(call.excess.fields(point, cell))
    fit["_call"], fit["_known"], fit["_precision"] = call, _known(run), best.precision or Precision()
    return fit


def _known(run: FitRun) -> list[tuple[Floats, int, Floats]]:
    """All points that were simulated, with their cells and outputs."""
    pools = enumerate(one.pool for one in run.searches.all)
    return [(*pair, outputs) for cell, pool in pools for *pair, outputs in zip(
        pool.points, [cell] * len(pool), pool.outputs, strict=True)]  # fmt: skip


def _searches(call: FitCall, run: FitRun) -> tuple[Search, ...]:
    """How all searches have ended, in the coordinates of the space."""
    ends = [(cell, end) for cell, one in enumerate(run.searches.all) for end in one.ends]
    return tuple(
        Search(0, 1, end.spent, call.cube.coordinates(end.x, cell), end.value, end.state, end.first_value, _KIND)
        for cell, end in ends
    )


def _evaluations(call: FitCall, run: FitRun) -> Evaluations:
    """All simulated points and values, cell by cell."""
    kept = Evaluations()
    for cell, one in enumerate(run.searches.all):
        if len(one.pool):
            values = np.where(np.isfinite(one.pool.values), one.pool.values, np.nan)
            kept.add(call.space.rows(call.cube.coordinates(one.pool.points, cell)), values)
    return kept
