"""`resume`: continue a run from its file alone."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from paoswarm.evaluate.call_options import Workers
from paoswarm.evaluate.calls import Objective
from paoswarm.fitting.fit import fit
from paoswarm.run.minimize import minimize, minimize_many
from paoswarm.run.result import Result
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.sample import sample
from paoswarm.store.encoding import Unknown, decode, decode_seed
from paoswarm.store.log import DamagedStore, StoreError
from paoswarm.store.store import Store

_FUNCTIONS: dict[str, Any] = {"minimize": minimize, "minimize_many": minimize_many, "sample": sample, "fit": fit}
_LARGEST = {"n_particles": 10**7, "workers": 1024, "at_once": 1024, "emulate": 1024}  # what a file alone can ask for
_OF_WORKERS = {"workers", "timeout", "retries", "asynchronous"}
_NOT_ARGUMENTS = {"emulate", "expected", "at_once"} | _OF_WORKERS  # entries of the description that are not arguments


def resume(store: Any, fun: Objective, **changes: Any) -> Result | Posterior:
    """Continue a run of `minimize`, `minimize_many`, `sample` or `fit` from the file that was its ``store``.

    The file holds bounds or prior, data, method, limits, seed, ``vectorized`` and the number of ``workers``. Pass again
    what cannot be stored:

    - a method, schedule, attractor or prior that is a function or class of your own;
    - a swarm as ``init``;
    - ``constraints``; the ``penalty`` of a fit; ``lmfit.Parameters`` as its ``space``;
    - ``args``, the other arguments of the objective;
    - ``workers``, if they were an executor or a map-like; time limit and retries come from the file, unless it is
      `Workers`;
    - ``callback`` and ``progress``.

    Parameters
    ----------
    store : path or Store
        The file.
    fun : callable
        The objective, the log likelihood, or the simulator of a fit.
    **changes
        Arguments of that function to pass again or to change, for example ``maxiter=1000``. Limits can change
        unless the method has schedules that depend on them. Stored evaluations count.

    Returns
    -------
    Result, ManyResult, Posterior or Fit

    Examples
    --------
    >>> import tempfile
    >>> import paoswarm as ps
    >>> def sphere(x):
    ...     return (x**2).sum()
    >>> file = tempfile.mkdtemp() + "/run.paoswarm"
    >>> ps.minimize(sphere, [(-5, 5)] * 2, method="PAO", n_particles=20, maxiter=10, rng=1, store=file).nfev
    220
    >>> longer = ps.resume(file, sphere, maxiter=30)
    >>> whole = ps.minimize(sphere, [(-5, 5)] * 2, method="PAO", n_particles=20, maxiter=30, rng=1)
    >>> longer.nfev, bool(longer.fun == whole.fun)
    (620, True)
    """
    store = Store.of(store)
    if not Path(store.path).exists():
        raise FileNotFoundError(f"there is no store at {store.path}: start the run with store=...")
    run = store.run()
    if run.function not in _FUNCTIONS:
        raise StoreError(f"{store.path} holds a run of {run.function}, which cannot be resumed")
    if "fit" in run.problem:
        raise StoreError(f"{store.path} holds draws that start from a fit: repeat fit.sample(store=...) to continue")
    arguments: dict[str, Any] = {}
    for name, recorded in {**run.problem, **run.limits, **run.how}.items():
        if name == "constraints" and name not in changes:
            raise TypeError(
                f"{store.path}: the functions of constraints are not stored; pass them again: "
                "resume(..., constraints=...)"
            )
        if name not in changes and name not in _NOT_ARGUMENTS:
            arguments[name] = _decoded(store, name, recorded)
    for size in ("at_once", "emulate"):
        _check_size(store, size, run.problem.get(size))
    if (values := arguments.pop("f0", None)) is not None and "x0" in arguments:
        arguments["x0"] = arguments["x0"], values
    arguments |= changes
    if "space" in changes:
        arguments["bounds"] = arguments.pop("space")
    if run.function == "fit":
        arguments.pop("vectorized", None)
    arguments["workers"] = _workers(store, changes.get("workers"))
    place = "prior" if run.function == "sample" else "bounds"
    if place not in arguments:
        raise DamagedStore(f"{store.path} holds no {place}. The file was not changed: choose another store")
    where = arguments.pop(place)
    return _FUNCTIONS[run.function](fun, where, store=store, **arguments)


def _workers(store: Store, given: Any) -> Workers:
    """How points are evaluated: as described, or as recorded, with a number or an executor in the place of its own."""
    if isinstance(given, Workers):
        return given
    try:
        recorded = Workers.recorded(store.run())
    except (TypeError, ValueError) as error:
        raise DamagedStore(
            f"{store.path}: the recorded workers make no sense ({error}). The file was not changed: choose another "
            "store"
        ) from error
    if given is not None:
        return replace(recorded, workers=given)
    _check_size(store, "workers", recorded.workers)
    return recorded


def _decoded(store: Store, name: str, recorded: Any) -> Any:
    """Return a recorded argument; raise if it is a function of the user, or makes no sense."""
    try:
        argument = decode_seed(recorded) if name == "rng" else decode(recorded)
    except Unknown as error:
        raise TypeError(
            f"{store.path}: {name} cannot be rebuilt from the file, because {error} is not stored in it; pass it "
            f"again: resume(..., {name}=...)"
        ) from None
    except Exception as error:  # constructors of methods and distributions may raise anything
        raise DamagedStore(
            f"{store.path}: the recorded {name} makes no sense ({type(error).__name__}: {error}). The file was not "
            "changed: choose another store"
        ) from error
    _check_size(store, name, argument)
    return argument


def _check_size(store: Store, name: str, argument: Any) -> None:
    """Raise if a file asks for more than a file alone can."""
    if isinstance(argument, int) and argument > _LARGEST.get(name, math.inf):
        raise DamagedStore(
            f"{store.path}: the recorded {name}={argument} is too large. The file was not changed: choose "
            f"another store, or pass {name} again if it is right"
        )
