"""What `fit` returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from paoswarm._checks import counted, explains_keywords, probability
from paoswarm._text import block, paragraph, remark, table
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed
from paoswarm.fitting.fit_profile import FitProfile, profile_fit
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.fitting.solution import Solution
from paoswarm.fitting.views import plot_fit, plot_searches
from paoswarm.least_squares.pool import Pool
from paoswarm.methods.agreement import Agreement
from paoswarm.run.result import Result, SearchTable

if TYPE_CHECKING:
    from paoswarm.fitting.fit_call import FitCall
    from paoswarm.sampling.posterior import Posterior

_OF_UNCERTAINTY = {"standard_errors", "covariance", "correlations", "parameters"}
_OF_SOLUTION = {"sigma", "factors", "chi_square", "degrees_of_freedom", "log_likelihood", "aic", "bic"}


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
    solution: Solution
    standard_errors: Floats
    covariance: Floats
    correlations: Floats
    parameters: Any
    sigma: dict[str, float]
    factors: dict[str, tuple[float, float]]
    chi_square: float
    degrees_of_freedom: int
    log_likelihood: float
    aic: float
    bic: float

    def __getattr__(self, name: str) -> Any:
        if name in _OF_UNCERTAINTY:
            return getattr(self.uncertainty, name)
        return getattr(self.solution, name) if name in _OF_SOLUTION else super().__getattr__(name)

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

    @property
    def uncertainty(self) -> FitUncertainty:
        """Standard errors, with tables."""
        return self.solution.uncertainty

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
        """
        found = self["_profile"] = profile_fit(self, names, level, maxfev, time_limit, workers, progress)
        return found

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

    def pool(self) -> Pool:
        """All points that were simulated in the cell of the best one."""
        solution, found = self.solution, Pool(self.solution.cube.is_round, self._call.regions[self.solution.cell])
        for point, cell, outputs in self["_known"]:
            if cell == solution.cell:
                found.add(point, outputs, solution.loss.value(outputs) if len(outputs) else math.inf)
        return found

    def _in_form(self, vector: Floats) -> Any:
        return self._call.comparison.split(vector)

    @property
    def jacobian(self) -> Floats:
        """Slopes of the outputs with respect to the continuous unknowns, in the user's numbers."""
        solution, one = self.solution, self.uncertainty
        slope = solution.jacobian[: len(solution.loss.data)] / solution.cube.width
        return slope / np.where(one.is_log, one.x, 1.0)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What to doubt; empty if nothing is."""
        one = self.uncertainty
        names = tuple(f"{name} " for name in one.names)
        said = (*one.warnings, *one.notes)
        own = [text if text.startswith(names) else text[0].upper() + text[1:] for text in said]
        return (*self.solution.remarks(), *own)

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
        >>> t, measured = np.arange(1.0, 7.0), np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
        >>> space = {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}
        >>> fit = ps.fit(lambda p: p["limit"] * (1 - np.exp(-p["rate"] * t)), space, measured, rng=1)
        >>> each = [fit.refit(without=[i]) for i in range(6)]
        >>> print(np.array([one.predictions[i] - measured[i] for i, one in enumerate(each)]).round(1))
        [-1.4  0.9  0.2  0.5 -0.4 -0.5]
        """
        given = dict(locals())
        from paoswarm.fitting.fit import refit

        return refit(given.pop("self"), **given)

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

        An emulator learns the outputs of all simulations of the fit and proposes the draws; a few dozen simulations
        correct it, see `sample`. Whole numbers and choices stay at their best values.

        Parameters
        ----------
        n_effective : int
            Wanted effective sample size, at least 100.
        maxfev : int, optional
            Most simulations; by default ``200 (d + 2)``, of which it needs few.
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
        """
        given = dict(locals())
        from paoswarm.fitting.sample_fit import sample_fit

        return sample_fit(given.pop("self"), **given)

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
        lines.append(f"It took {counted(self.nfev, 'simulation')}{failed}; {ended}.")
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
