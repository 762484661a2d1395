"""`fit`: find the unknowns of a simulator from its outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paoswarm._checks import explains_keywords
from paoswarm.core.random import Seed
from paoswarm.evaluate.calls import Objective
from paoswarm.fitting.fit_call import read_fit
from paoswarm.fitting.fit_result import Fit
from paoswarm.fitting.solve_fit import solve_fit


@explains_keywords(
    vectorized="fit simulates one point at a time; use workers= for several at once",
    residuals="give the function of residuals first and leave out data",
    loss="choose a law of the noise, such as likelihood='student-t' for outliers",
    absolute_sigma="sigma= is absolute; leave it out if it is unknown",
    ydata="use data=",
    method="searches are Gauss-Newton's; use minimize for another method",
    bounds="the second argument is the space",
    p0="use x0=",
)
def fit(
    simulate: Objective,
    space: Any,
    data: Any = None,
    *,
    sigma: Any = None,
    likelihood: Any = "normal",
    xdata: Any = None,
    args: Any = (),
    priors: Any = None,
    penalty: Callable[..., Any] | None = None,
    constraints: Any = (),
    x0: Any = None,
    maxfev: float | None = None,
    target: float | None = None,
    time_limit: float | None = None,
    workers: Any = 1,
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    rng: Seed = None,
    store: Any = None,
) -> Fit:
    r"""Fit a simulator to data: find its unknowns, and say how sure they are.

    Independent Gauss-Newton searches learn the slopes of all outputs from the points that were simulated, without
    derivatives, and start again until they agree. That takes about a tenth of the simulations that `minimize` needs
    for the sum of squares. Simulations that fail shrink a step and end no search.

    Parameters
    ----------
    simulate : callable
        ``simulate(p)`` returns predictions in the form of the data: an array, or a dict of arrays. ``p`` is a dict if
        the space is one, else an array. Without data it returns residuals ``(m,)``, or a dict of these.
    space : dict, sequence, or lmfit.Parameters
        The unknowns and their bounds, as in `minimize`: pairs ``(low, high)``, ``Real(low, high, log=True)``,
        `Periodic`, numbers that are fixed. Of `Integer` and `Choice` each of up to 64 combinations is searched.
    data : array, dict of arrays, or Scaled, optional
        What the simulator should return. NaN is a missing datum: there the result has predictions, with bands.
        `Scaled` data have an unknown factor or offset.
    sigma : number, array or dict, optional
        Standard deviation of the data. None: one unknown number for each output, which is estimated.
    likelihood : str, Likelihood or dict
        The law of the noise, or one for each output: "normal", "lognormal", "poisson", "student-t", "huber", or an
        object of ``paoswarm.likelihoods``.
    xdata : array, optional
        Then the simulator is called as ``simulate(xdata, *values)``, as by `scipy.optimize.curve_fit`.
    args : tuple
        More arguments of the simulator.
    priors : dict, optional
        Frozen `scipy.stats` distributions by name of the unknown.
    penalty : callable, optional
        ``penalty(p) -> array`` of further residuals with unit variance. It should be quick.
    constraints : constraint or list of constraints
        Inequalities, as in `minimize`, of the unknowns. Points that violate one are not simulated.
    x0 : point or points, or (points, outputs), optional
        Where the first searches start. Or points that were simulated before, with their outputs: they are not simulated
        again. Those of a store are ``(store.read()[0], store.outputs())``; the data may be others.
    maxfev : int or None
        Most simulations; by default 1000 for each unknown, or none if there is a time limit.
    target, time_limit, workers, callback, progress, rng, store
        As in `minimize`. With ``workers=8`` eight points are simulated at once. A store also keeps all outputs.

    Returns
    -------
    Fit
        Print it for a table. ``best``, ``standard_errors``, ``correlations``, ``predictions``, ``band()``,
        ``profile()``, ``refit()``, ``sample()``, ``plot()``; ``remarks`` says what to doubt.

    Notes
    -----
    What is minimised is the sum of squares if there is one output with normal noise of unknown size, chi-square if
    ``sigma`` is known, and else equation (F2), which grows with minus twice the log likelihood. The theory is in
    :doc:`/least_squares`.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> t = np.arange(1.0, 7.0)
    >>> measured = np.array([8.1, 10.6, 13.0, 13.9, 15.1, 15.4])
    >>> def simulate(p):
    ...     return p["limit"] * (1 - np.exp(-p["rate"] * t))
    >>> fit = ps.fit(simulate, {"limit": (1, 100), "rate": ps.Real(0.01, 10, log=True)}, measured, rng=1)
    >>> print(fit)  # doctest: +ELLIPSIS
    Converged: 3 of 3 independent searches ended at this point. A better minimum that is as
    easy to find was missed with a probability below 3 %.
    Sum of squares 1.26018 of 6 data with 4 degrees of freedom
    Standard deviation of a datum 0.5613, estimated
             estimate  std. error  95 % interval
      limit     15.46        0.48  14.12 to 16.80
      rate      0.640       0.066  0.480 to 0.853
    AIC 13.6643, BIC 13.0395
    It took ... simulations; 3 searches have ended.
    """
    return solve_fit(read_fit(**locals()))
