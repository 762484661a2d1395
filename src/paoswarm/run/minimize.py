"""`minimize` and `minimize_many`: from the user's function to a result; both as a method of SciPy's function."""

from __future__ import annotations

import inspect
import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import Bounds

from paoswarm._checks import explains_keywords, refuse_unknown
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed
from paoswarm.evaluate.calls import Objective
from paoswarm.methods.method import Method
from paoswarm.run.call import read_call
from paoswarm.run.many_result import ManyResult
from paoswarm.run.read_input import read_space
from paoswarm.run.result import Result
from paoswarm.run.solve import solve
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Integer, Real, Variable


@explains_keywords()
def minimize(
    fun: Objective,
    bounds: Any,
    *,
    method: Method | str | None = None,
    args: Any = (),
    n_particles: int | None = None,
    maxiter: float | None = None,
    maxfev: float | None = None,
    target: float | None = None,
    tol: float = 1e-12,
    time_limit: float | None = None,
    x0: Any = None,
    init: Any = "latinhypercube",
    vectorized: bool = False,
    workers: Any = 1,
    reevaluate: float = 0.0,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    polish: bool = False,
    rng: Seed = None,
    store: Any = None,
    engine: Any = "numpy",
) -> Result:
    """Find the minimum of a black-box function within bounds.

    Parameters
    ----------
    fun : callable
        ``fun(x) -> float`` for one point ``x`` of shape ``(d,)``. With ``vectorized=True``, ``(m, d) -> (m,)``: rows
        are points. Functions that return residuals are for `fit`.
    bounds : sequence of (low, high), (d, 2) array, scipy.optimize.Bounds, or variables in a sequence or by name
        The unknowns. Either finite bounds, one pair for each. Or variables: `Real` (perhaps logarithmic), `Integer`,
        `Choice`, `Periodic`, pairs, and numbers or strings that are fixed. In a dict they have names: then ``fun``
        gets a dict of values by name (with ``vectorized=True`` of arrays ``(m,)``), and results speak in names. In a
        sequence ``fun`` gets an array, with the index of the entry for a `Choice`. Or ``lmfit.Parameters``: then
        ``fun`` gets ``Parameters``.
    method : Method, str or None
        None: `AdaptivePAO`, searches that start again until they agree, or `MixedPAO` if a variable is an `Integer` or
        a `Choice`; with ``init=result`` the method of that result.
        Or a single swarm and its hyperparameters: `PAO`, `PSO`, `QPSO`, `DE`, `SADE`; any of them started again,
        ``Restarts(DE())``; or your own `Method`. A name such as "DE" stands for a method with its defaults.
    args : tuple
        More arguments of ``fun``, which is called as ``fun(x, *args)``. A value that is no tuple is one argument.
    n_particles : int or None
        Size of the first swarm. None: the method chooses. `AdaptivePAO` begins with about ``4 + 3 ln d``. Single swarms
        have 100, or with ``maxfev`` about 0.65 times its square root, from 6 to 100. If ``init`` holds points or a
        swarm, their number is used instead. A number that leaves fewer than five generations is a warning.
    maxiter : int or None
        Most generations after the first swarm. If you give neither ``maxiter`` nor ``maxfev`` nor ``time_limit``, the
        method has a limit of its own: 10,000 evaluations for each unknown, or for single swarms 100 generations.
    maxfev : int or None
        Most evaluations; 1e4 is a whole number too. It is exact: the last generation is cut short if necessary.
    target : float or None
        Stop when the best value is at or below it.
    tol : float
        Stop when the run has converged. `AdaptivePAO` and other methods that start again have converged when
        independent searches agree (``result.agreement``). There ``tol`` is the accuracy of the value, relative to the
        fall from the median of a search's first points to its best one: a search ends when the values of its swarm have
        differed by less for three generations, and ends that differ by less are equal. With 1e-2 it takes a third of
        the evaluations or so. The default, 1e-12, asks for all the digits that there are. A single swarm has converged
        when

        - the root mean square distance of the particles from the best point is below ``tol`` widths of the bounds;
        - or the best values of all particles are equal but for rounding;
        - or there was no better point for ``20 (1 + d)`` generations.

        Zero switches all of this off. Your own method may have its own rule. A few evaluations around the end of a
        single swarm show whether it is a minimum; if not, ``status`` is `Status.STALLED`. They are part of ``maxfev``.
    time_limit : float or None
        Stop after this many seconds. Points that are being evaluated are finished; with ``vectorized=True`` the
        generation is. Schedules do not follow the time, because it would make runs impossible to repeat.
    x0 : array (d,) or (m, d), or a pair (points, values), optional
        Points to include in the first swarm. With their values ``(m,)``, or one point and its value, they are not
        evaluated again, except where the value is NaN.
    init : str, array (n, d), Result or Swarm
        The first swarm: ``latinhypercube``, ``sobol``, ``halton``, ``random``; your own points; or the ``result`` of an
        earlier run, which is continued without evaluating its points again. (``result.swarm`` works too, but may
        lack the best point, after polishing or a restart.)
    vectorized : bool
        Whether ``fun`` takes many points at once, which is much faster.
    workers : int, Executor, Dask Client, function that makes one, map-like, or Workers
        What evaluates points: a number of processes, or -1 for one per core; or something that has workers of its own.
        `Workers` lists all kinds, and adds a time limit for each evaluation, retries of points that were lost, and
        asynchronous runs: ``ps.Workers(16, timeout=60, asynchronous=True)``.

        The result does not depend on it, but for asynchronous runs, and for `AdaptivePAO` and other methods with a
        parameter ``parallel``: their swarms are sized for the number of workers, see there.
    reevaluate : float
        For noisy objectives: the share of the remembered bests to measure again in each generation, for example 0.2.
        Best values become running means, and points are compared by mean plus three standard errors. Dense searches
        return the mean of their centres. With 0, the default search measures a point again if values behave as if they
        were noisy, and goes on with 0.2 if they are.
    constraints : constraint or list of constraints
        What a point must satisfy besides its bounds:

        - `scipy.optimize.LinearConstraint`, `scipy.optimize.NonlinearConstraint`, or SciPy's older dictionaries;
        - a function ``g``: x is allowed where ``g(x) <= 0``, or where it returns True;
        - `Constraint`, the same with limits, a tolerance and a name;
        - `Returned`, for numbers that ``fun`` returns together with its value.

        Functions of the point are called first, without ``args``. ``fun`` is not called where an inequality among them
        fails. A feasible point is
        better than an infeasible one; of two infeasible ones the one with the smaller total violation is better. With
        equalities, swarms begin with a tolerance that shrinks to zero. The
        result is feasible if any evaluated point was. Points at which ``fun`` is not called count in ``nfev``.
    callback : callable, optional
        Called after every generation as ``callback(intermediate_result)``, with ``x, fun, nit, nfev, swarm``
        (read-only). If its parameter has another name, it receives the best point ``x`` alone. Raise StopIteration or
        return True to stop the run.
    progress : bool
        Show a progress bar (needs tqdm).
    polish : bool
        Finish with a local search from the best point: L-BFGS-B, or sequential quadratic programming if there are
        constraints. Use it if the function is smooth and not noisy. Up to ``50 (d + 1)`` evaluations of ``maxfev`` and
        a tenth of ``time_limit`` are set aside for it.
    rng : int, Generator, SeedSequence or None
        Seed. The same seed and method give the same result, and with ``method=result.method`` with any ``workers``.
    store : path or Store, optional
        A file that keeps every evaluation as soon as it is made. Call again with the same arguments to go on after a
        kill, an interrupt or an end: the result is that of a run that never stopped. For a finished run the result is
        returned without calling ``fun``. If ``fun`` or the data it uses have changed, that is an error, see `Store`.
        Repeated generations do not call ``callback`` and do not count in ``time_limit``. See also `resume`.
    engine : {"numpy", "numba", "jax", "cuda", "auto"} or an engine
        As in `minimize_many`: a compiled engine moves a single `PAO` swarm with the objective inside, and "numba" also
        runs adaptive searches.

    Returns
    -------
    Result
        An ``OptimizeResult`` with ``x, fun, success, status, message, nit, nfev, n_failed, failures, history, swarm,
        method`` and ``next_step``: how far apart the particles still are (None for methods whose steps have no closed
        form, and after polishing).

    Notes
    -----
    A point has failed if ``fun`` raises, returns NaN, -inf or no real number, takes longer than allowed, or kills its
    worker. It counts as +inf and in ``n_failed``, and the run goes on. If every point of the first swarm fails,
    that is an error. It comes after three calls if they all raise the same exception and that shows a mistake in the
    code, such as a `NameError`. An interrupt (Ctrl-C) returns the best point so far; every finished evaluation counts.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> def rastrigin(x):
    ...     return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)
    >>> result = ps.minimize(rastrigin, [(-5, 6), (-4, 7)], vectorized=True, rng=1)
    >>> bool(result.fun < 1e-9), result.success
    (True, True)
    >>> one_swarm = ps.minimize(rastrigin, [(-4, 5)] * 2, method="PAO", maxiter=500, vectorized=True, rng=1)
    >>> print(one_swarm.message)
    Converged: no better point in the last 60 generations.
    """
    return solve(read_call(**locals())).run(0)


@explains_keywords(
    asynchronous="it is for minimize and fit, in workers=ps.Workers(8, asynchronous=True)",
    n_runs="use runs=",
    restarts="use runs=",
    n_restarts="use runs=",
)
def minimize_many(
    fun: Objective,
    bounds: Any,
    *,
    runs: int = 100,
    method: Method | str | None = None,
    args: Any = (),
    n_particles: int | None = None,
    maxiter: float | None = None,
    maxfev: float | None = None,
    target: float | None = None,
    tol: float = 1e-12,
    time_limit: float | None = None,
    x0: Any = None,
    init: Any = "latinhypercube",
    vectorized: bool = False,
    workers: Any = 1,
    reevaluate: float = 0.0,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    progress: bool = False,
    polish: bool = False,
    rng: Seed = None,
    store: Any = None,
    engine: Any = "numpy",
) -> ManyResult:
    """Many independent runs of `minimize` at once.

    It takes the parameters of `minimize`; its workers are not asynchronous. Limits hold for each run;
    ``time_limit`` holds for all together and is checked after every generation.
    A run whose whole first swarm fails ends there with ``fun`` infinite; it is an error only if all do. With
    ``vectorized=True`` the points of many runs go to ``fun`` in one call of shape ``(m, d)``.

    Parameters
    ----------
    fun, bounds, method, args, n_particles, maxiter, maxfev, target, tol, time_limit, x0,
    init, vectorized, workers, reevaluate, constraints, progress, rng
        As in `minimize`.
    runs : int
        How many runs; at most a million in one call.
    callback : callable, optional
        Called after every generation of all runs as ``callback(intermediate_result)``, with the arrays ``x, fun, nit,
        nfev, n_failed`` over runs, and their ``swarm``. If its parameter has another name, it receives the best points
        ``(runs, d)`` alone. Raise StopIteration or return True to stop all runs.
    polish : bool
        Finish each run with a local search, one after another.
    store : path or Store, optional
        One file that keeps the evaluations of all runs; as in `minimize`, the same call goes on after a kill.
    engine : {"numpy", "numba", "jax", "cuda", "auto"} or an engine
        What moves the swarms. A compiled engine runs whole generations of a single `PAO` swarm with the objective
        inside: ``fun`` takes one point and must be a function that it can compile. "numba" also runs the default
        search, `DensePAO`, `ElementPAO` and their restarts. `paoswarm.engines.Numba` and `Jax` set precision and
        threads. Random numbers are others than those of "numpy", with the same law.

        "auto" takes numba for a function of ``numba.njit`` and JAX (or CUDA, if there is a GPU) for one of ``jax.jit``,
        if the engine has all that you ask for, and otherwise NumPy. ``result.engine`` says which one ran.

    Returns
    -------
    ManyResult
        Arrays with the runs on the first axis, ``seeds``, and ``run(r)`` for one run alone.
        ``minimize(fun, bounds, method=many.method, rng=many.seeds[r])`` repeats run ``r`` exactly.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def sphere(x):
    ...     return (x**2).sum(axis=-1)
    >>> many = ps.minimize_many(sphere, [(-5, 5)] * 2, runs=8, vectorized=True, maxiter=40, rng=1)
    >>> many.x.shape, many.history.shape
    ((8, 2), (8, 41))
    >>> alone = ps.minimize(sphere, [(-5, 5)] * 2, vectorized=True, maxiter=40, rng=many.seeds[3])
    >>> bool(alone.fun == many.fun[3])
    True
    """
    return solve(read_call(**locals()))


_FROM_SCIPY = ("fun", "x0", "args", "bounds", "constraints", "callback")  # arguments that SciPy passes on
_SETTINGS = [name for name in inspect.signature(minimize).parameters if name not in _FROM_SCIPY]


class ScipyMethod:
    """What `scipy_method` returns: a function with the arguments that SciPy gives to a method of the user's own."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)

    def __call__(
        self,
        fun: Objective,
        x0: Any,
        args: tuple[Any, ...] = (),
        *,
        bounds: Any = None,
        constraints: Any = (),
        callback: Callable[..., Any] | None = None,
        jac: Any = None,
        hess: Any = None,
        hessp: Any = None,
        **options: Any,
    ) -> Any:  # a Result; the stubs of SciPy want a class that only they have
        """Minimise ``fun`` as `paoswarm.minimize` does; ``options`` take precedence over the settings."""
        if bounds is None:
            raise ValueError(
                "paoswarm searches between bounds: give bounds=..., finite ones for every unknown, to "
                "scipy.optimize.minimize"
            )
        given = {"jac": jac, "hess": hess, "hessp": hessp}
        if unused := [name for name, derivative in given.items() if derivative is not None]:
            # The third frame is that of the user: the second is SciPy's.
            warnings.warn(f"paoswarm uses no derivatives ({', '.join(unused)})", RuntimeWarning, stacklevel=3)
        settings = self.settings | options
        refuse_unknown("scipy_method", settings, _SETTINGS, {})
        space = read_space(_as_variables(bounds))
        return minimize(
            fun, space, x0=_inside(space, x0), args=args, constraints=constraints, callback=callback, **settings
        )

    def __repr__(self) -> str:
        return f"scipy_method({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"


def scipy_method(*passed_by_scipy: Any, **settings: Any) -> ScipyMethod:
    """The search as a ``method`` of ``scipy.optimize.minimize``.

    Programs that call SciPy's function change one argument. Bounds, constraints, callback, ``args`` and ``options`` are
    given as for SciPy's own methods; the result is the `Result` of `minimize`, which is an ``OptimizeResult``.

    Parameters
    ----------
    **settings
        Arguments of `minimize` but for those that SciPy passes on (``x0``, ``args``, ``bounds``, ``constraints``,
        ``callback``): ``maxfev``, ``rng``, ``workers``, ``store``, ``method`` and so on. They can be given as
        ``options`` to SciPy's function, too, where they take precedence. SciPy's own ``tol`` is ours.

    Returns
    -------
    callable
        To be given as ``method``. It can be pickled, and used again.

    Notes
    -----
    What is as in SciPy, and what is not:

    - ``x0`` is one point of the first swarm, moved into the bounds where it lies outside.
    - Bounds are necessary, and must be finite. Where both ends are equal, the unknown is fixed. Our variables work,
      too: ``bounds=[(0, 1), ps.Integer(1, 8)]``.
    - Derivatives (``jac``, ``hess``, ``hessp``) are not used, and a warning says so. With ``jac=True`` the gradient
      that ``fun`` returns is dropped.

    Examples
    --------
    >>> import scipy.optimize
    >>> import paoswarm as ps
    >>> def valley(x, a):
    ...     return (a - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> search = ps.scipy_method(maxfev=2000, rng=1)
    >>> found = scipy.optimize.minimize(valley, x0=[-1, 2], args=(1.0,), method=search, bounds=[(-2, 2), (-1, 3)])
    >>> found.x.round(6)
    array([1., 1.])
    """
    if passed_by_scipy:
        raise TypeError("scipy_method makes a method: write method=ps.scipy_method(), with parentheses")
    advice = dict.fromkeys(_FROM_SCIPY, "give it to scipy.optimize.minimize, which passes it on")
    refuse_unknown("scipy_method", settings, _SETTINGS, advice)
    return ScipyMethod(settings)


def _as_variables(bounds: Any) -> Any:
    """Bounds as SciPy reads them: None is infinite, and equal ends fix an unknown."""
    if isinstance(bounds, Bounds):
        bounds = list(zip(*np.broadcast_arrays(np.atleast_1d(bounds.lb), np.atleast_1d(bounds.ub)), strict=True))
    if isinstance(bounds, Mapping | str) or not np.iterable(bounds):
        return bounds
    return [_as_variable(entry) for entry in bounds]


def _as_variable(entry: Any) -> Any:
    if isinstance(entry, Variable | str) or np.shape(entry) != (2,):
        return entry
    low, high = (unlimited if end is None else end for end, unlimited in zip(entry, (-math.inf, math.inf), strict=True))
    is_fixed = isinstance(low, numbers.Real) and low == high
    return float(low) if is_fixed else (low, high)


def _inside(space: Space, x0: Any) -> Floats:
    """The point with its numbers moved into the bounds, where there is a number for each variable."""
    x = np.array(x0, dtype=float)
    if x.shape != (len(space.variables),):
        return x
    for i, one in enumerate(space.variables):
        if isinstance(one, Real | Integer):
            x[i] = np.clip(x[i], one.low, one.high)
        elif isinstance(one, Fixed):
            x[i] = one.decode(np.empty((1, 0)))[0]
    return x
