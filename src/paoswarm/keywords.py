"""Unknown keywords: an error that names ours, for those who come from other libraries."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

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
    "stagnation": "ftol_iter patience n_iter_no_change",
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
    "integrality": "round inside the function",
    "jac": "no gradient is needed",
    "hess": "no second derivatives are needed",
    "direction": "to maximise, minimize the negative",
    "maximize": "to maximise, minimize the negative",
    "lb": "use bounds=list(zip(lb, ub))",
    "ub": "use bounds=list(zip(lb, ub))",
    "dimensions": "the number of unknowns follows from the bounds",
    "ndim": "the number of parameters follows from the prior or the bounds",
    "sigma0": "there is no first step size: the first swarm fills the bounds",
    "strategy": "it is a setting of a method, as in method=ps.DE(strategy='rand/1')",
    "mutation": "it is a setting of a method, as in method=ps.DE(factor=0.5)",
    "recombination": "it is a setting of a method, as in method=ps.DE(crossover=0.9)",
    "updating": "generations are evaluated together; in minimize, asynchronous=True moves particles one at a time",
    "prior_transform": "use prior=(names, transform), where the transform takes arrays (m, d)",
    "ptform": "use prior=(names, transform), where the transform takes arrays (m, d)",
}


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
