"""The user's function as bytes: by cloudpickle where it is installed, which sends closures and notebooks as well."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any


def dump(fun: Any) -> bytes:
    """The bytes; a TypeError that names what cannot be sent, and what to do."""
    save, by_value = _pickler()
    try:
        return save(fun)
    except Exception as error:
        culprits = [name for name, thing in _parts(fun).items() if not _fits(save, thing)]
        because = f"it uses {', '.join(map(repr, culprits))}, which cannot be pickled: " if culprits else ""
        advice = "make it inside fun, or use workers=ThreadPoolExecutor(...) without timeout"
        if not by_value:
            advice = "install cloudpickle, or define fun at the top level of a module"
        raise TypeError(
            f"fun cannot be sent to worker processes: {because}{type(error).__name__}: {error}; {advice}"
        ) from error


def load(blob: bytes) -> Any:
    """The function."""
    return pickle.loads(blob)


def _pickler() -> tuple[Callable[[Any], bytes], bool]:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps, False
    return cloudpickle.dumps, True


def _parts(fun: Any) -> dict[str, Any]:
    """What a function refers to, or what an object consists of, by name."""
    if inspect.isfunction(fun):
        used = inspect.getclosurevars(fun)
        return {**used.globals, **used.nonlocals}
    if inspect.ismethod(fun):
        return {"self": fun.__self__, **_parts(fun.__self__)}
    return dict(getattr(fun, "__dict__", {}))


def _fits(save: Callable[[Any], bytes], thing: Any) -> bool:
    try:
        save(thing)
    except Exception:
        return False
    return True
