"""Checks of what users give, made before any work begins: numbers, flags, and unknown keywords."""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

FOR_RESIDUALS = "functions that return residuals are for ps.fit: write ps.fit(fun, bounds)"

# What other libraries call our arguments: SciPy, Optuna, pymoo, pyswarms, pycma, nevergrad, dynesty, emcee. An argument
# that the function at hand does not have is passed over, so one list serves all functions.
_THEIR_NAMES = {
    "rng": "seed random_state random_seed rstate random_generator",
    "n_effective": "n_samples nsamples num_samples n_draws draws samples n_eff n_ess nsteps n_steps n_total",
    "n_particles": "popsize pop_size population population_size swarmsize swarm_size n_pop particles num_particles "
    "nlive n_live nwalkers n_walkers",
    "maxiter": "n_gen n_iter niter iters iterations max_iter maxit maxgen generations max_generations max_iterations",
    "maxfev": "n_trials n_calls n_eval maxfun max_nfev maxfevals max_evals max_evaluations budget maxcall evaluations",
    "tol": "ftol xtol atol rtol gtol tolx tolfun tolerance dlogz",
    "time_limit": "maxtime max_time walltime",
    "target": "ftarget f_target target_value fitness_limit f_min",
    "workers": "num_workers n_workers n_jobs n_processes processes pool executor parallel",
    "vectorized": "vectorize vectorised",
    "progress": "disp verbose verbosity verb_disp show_progress progress_bar progressbar print_progress",
    "start": "x0 init p0 initial_guess initial_state",
    "x0": "p0 guess start x_init initial_guess initial_points points_to_evaluate",
    "init": "init_pos sampling initial_population",
    "method": "algorithm algo solver optimizer",
    "store": "storage checkpoint checkpoint_file",
    "callback": "callbacks",
    "polish": "local_search",
    "reevaluate": "noisy noise noise_handling",
    "args": "fun_args logl_args extra_args",
}
# Where a name alone does not say what to do.
_ADVICE = {
    "options": "give its entries as arguments, such as maxiter=200",
    "kwargs": "bind them to the function with functools.partial",
    "logl_kwargs": "bind them to the function with functools.partial",
    "integrality": "write ps.Integer(low, high) in bounds, as in bounds=[ps.Integer(1, 8), (0, 1)]",
    "f0": "give points and values as a pair, x0=(points, values)",
    "jac": "no gradient is needed",
    "hess": "no second derivatives are needed",
    "direction": "to maximise, minimize the negative",
    "maximize": "to maximise, minimize the negative",
    "lb": "use bounds=list(zip(lb, ub))",
    "ub": "use bounds=list(zip(lb, ub))",
    "dimensions": "the number of unknowns follows from the bounds",
    "ndim": "the number of parameters follows from the prior or the bounds",
    "sigma0": "there is no first step size: the first swarm fills the bounds",
    "strategy": "it is a setting of a method, as in method=ps.classic.DE(strategy='rand/1')",
    "mutation": "it is a setting of a method, as in method=ps.classic.DE(factor=0.5)",
    "recombination": "it is a setting of a method, as in method=ps.classic.DE(crossover=0.9)",
    "timeout": "write workers=ps.Workers(8, timeout=60)",
    "retries": "write workers=ps.Workers(8, retries=2)",
    "asynchronous": "write workers=ps.Workers(8, asynchronous=True)",
    "updating": "generations are evaluated together; ps.Workers(8, asynchronous=True) moves particles one at a time",
    "prior_transform": "use prior=(names, transform), where the transform takes arrays (m, d)",
    "ptform": "use prior=(names, transform), where the transform takes arrays (m, d)",
}


def whole_number(name: str, given: Any, least: int, most: int | None = None) -> int:
    """Return ``given`` as an int from ``least`` to ``most``; 1e4 counts as a whole number."""
    is_whole = isinstance(given, numbers.Integral) or (isinstance(given, numbers.Real) and float(given).is_integer())
    if isinstance(given, bool) or not is_whole or given < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {given!r}")
    number = int(given)
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {given!r}")
    return number


def real_number(name: str, given: Any, least: float, *, may_equal: bool) -> float:
    """Return ``given`` as a float above ``least``, or at it if ``may_equal``."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or given != given:  # NaN
        raise ValueError(f"{name} must be a number, got {given!r}")
    try:
        number = float(given)
    except OverflowError:  # an int may be too large for a float
        number = -math.inf if given < least else math.inf
    if number < least or (number == least and not may_equal):
        raise ValueError(f"{name} must be {'at least' if may_equal else 'greater than'} {least:g}, got {given!r}")
    return number


def positive_number(name: str, given: Any) -> float:
    """Return ``given`` as a finite float above zero."""
    number: Any = given if isinstance(given, numbers.Real) and not isinstance(given, bool) else math.nan
    if not 0 < number <= sys.float_info.max:
        raise ValueError(f"{name} must be a positive number, got {given!r}")
    return float(number)


def number_between(name: str, given: Any, least: float, most: float = math.inf) -> float:
    """Return ``given`` as a finite float from ``least`` to ``most``."""
    number = real_number(name, given, least, may_equal=True)
    if number > most or math.isinf(number):
        raise ValueError(f"{name} must be {'finite' if math.isinf(most) else f'at most {most:g}'}, got {given!r}")
    return number


def probability(name: str, given: Any) -> float:
    """Return ``given`` as a float strictly between 0 and 1."""
    number: Any = given if isinstance(given, numbers.Real) else math.nan
    if not 0 < number < 1:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {given!r}")
    return float(number)


def flag(name: str, given: Any) -> bool:
    """Return ``given`` as a bool; anything but True and False is an error, since even ``"no"`` is truthy."""
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {given!r}")
    return bool(given)


def of_kind(name: str, given: Any, kinds: Any, what: str) -> Any:
    """Return ``given`` if it is an instance of one of the kinds, which ``what`` describes."""
    if not isinstance(given, kinds):
        raise TypeError(f"{name} must be {what}, got {given!r}")
    return given


def texts(name: str, given: Any) -> list[str]:
    """Return one text or path, or several, as a list of text."""
    what = "a text or a path, or a list of them"
    several = given if np.iterable(given) and not isinstance(given, str) else [given]
    return [os.fspath(of_kind(name, one, str | os.PathLike, what)) for one in several]


def unmasked(given: Any) -> Any:
    """Replace the masked elements of a masked array by NaN; return anything else unchanged."""
    return np.ma.filled(given.astype(float), np.nan) if isinstance(given, np.ma.MaskedArray) else given


def rounded(array: NDArray[Any]) -> NDArray[Any]:
    """Turn an array of Python's numbers into floats; return any other unchanged.

    NumPy makes such an array of whole numbers of 2**64 and more, and of fractions. Raises an OverflowError if one is
    too large for a float.

    Examples
    --------
    >>> rounded(np.asarray([2**64, 1]))
    array([1.84467441e+19, 1.00000000e+00])
    """
    if array.dtype.kind == "O" and all(isinstance(one, numbers.Real) for one in array.flat):
        return array.astype(float)
    return array


def counted(count: int, what: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "point"), counted(2, "point")
    ('1 point', '2 points')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def choices(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the closest known name, and all of them.

    Examples
    --------
    >>> choices("psO", ["PAO", "PSO", "DE"])
    'did you mean PSO? Choose from PAO, PSO, DE'
    """
    by_lower_case = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"did you mean {by_lower_case[close[0]]}? Choose" if close else "choose"
    return f"{hint} from {', '.join(by_lower_case.values())}"


def explains_keywords(**advice: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that the error about an unknown keyword says what to use instead.

    ``advice`` holds sentences for single keywords of this function. Type checkers see the function's own signature.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = [name for name in inspect.signature(function).parameters if name != "self"]
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def explained(*args: P.args, **kwargs: P.kwargs) -> R:
            refuse_unknown(name, kwargs, known, advice)
            if "bounds" in kwargs and len(args) > known.index("bounds") + (known[0] == "bounds"):
                raise TypeError(f"{name} got bounds twice: starting points are given by name, as x0=...")
            return function(*args, **kwargs)

        return explained

    return decorate


def explains_arguments(form: str, **advice: str) -> Callable[[type[C]], type[C]]:
    """Decorate a class so that errors about its arguments say how it is written; ``form`` shows that."""

    def decorate(kind: type[C]) -> type[C]:
        make = kind.__init__
        signature = inspect.signature(make)

        @wraps(make)
        def explained(self: C, *args: object, **kwargs: object) -> None:
            try:
                signature.bind(self, *args, **kwargs)
            except TypeError as error:
                said = next((f"; {advice[unknown]}" for unknown in kwargs if unknown in advice), "")
                raise TypeError(f"write {form}: {error}{said}") from None
            make(self, *args, **kwargs)

        kind.__init__ = explained  # type: ignore[assignment]
        return kind

    return decorate


def refuse_unknown(name: str, given: Iterable[str], known: list[str], advice: Mapping[str, str]) -> None:
    """Raise if a keyword is not known to the function called ``name``, and say what to use instead."""
    for unknown in given:
        if unknown not in known:
            raise TypeError(f"{name} has no argument {unknown!r}: {_what_instead(unknown, known, advice)}")


def _what_instead(unknown: str, known: list[str], advice: Mapping[str, str]) -> str:
    """What to do about an unknown keyword."""
    for sentences in (advice, _ADVICE):
        if unknown in sentences:
            return sentences[unknown]
    for ours, theirs in _THEIR_NAMES.items():
        if ours in known and unknown.lower() in theirs.split():
            return f"use {ours}="
    close = difflib.get_close_matches(unknown.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
