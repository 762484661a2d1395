"""Pickle the user's function, with cloudpickle if it is installed (it also handles closures and notebooks)."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

from paoswarm._text import describe_error


def dump(fun: Any) -> bytes:
    """Return the pickled function; raise a TypeError that names what cannot be pickled and what to do."""
    save, has_cloudpickle = _pickler()
    try:
        return save(fun)
    except Exception as error:
        culprits = [name for name, thing in _referenced_objects(fun).items() if not _can_pickle(save, thing)]
        because = f"it uses {', '.join(map(repr, culprits))}, which cannot be pickled: " if culprits else ""
        advice = "create it inside fun, or use workers=ThreadPoolExecutor(...) without timeout"
        if not has_cloudpickle:
            advice = "install cloudpickle (pip install 'paoswarm[parallel]') or define fun at the top level of a module"
        raise TypeError(
            f"the function cannot be sent to worker processes: {because}{describe_error(error)}; {advice}"
        ) from error


def load(pickled: bytes) -> Any:
    """Return the function that `dump` was given."""
    return pickle.loads(pickled)


def _pickler() -> tuple[Callable[[Any], bytes], bool]:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps, False
    return cloudpickle.dumps, True


def _referenced_objects(fun: Any) -> dict[str, Any]:
    """Return what a function refers to, or the attributes of an object, by name."""
    if inspect.isfunction(fun):
        used = inspect.getclosurevars(fun)
        return {**used.globals, **used.nonlocals}
    if inspect.ismethod(fun):
        return {"self": fun.__self__, **_referenced_objects(fun.__self__)}
    return dict(getattr(fun, "__dict__", {}))


def _can_pickle(save: Callable[[Any], bytes], thing: Any) -> bool:
    try:
        save(thing)
    except Exception:
        return False
    return True
