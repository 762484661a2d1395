"""`scipy_method`: the search as a method of ``scipy.optimize.minimize``."""

from __future__ import annotations

import inspect
import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import Bounds

from paoswarm._checks import refuse_unknown
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Objective
from paoswarm.run.minimize import minimize
from paoswarm.run.read_space import read_space
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Integer, Real, Variable

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
