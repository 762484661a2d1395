"""The arguments of a run as JSON, and back.

`decode` rebuilds numbers, arrays, our own methods, schedules and attractors, and frozen `scipy.stats` distributions
from their names and numbers. It calls nothing but their constructors. Functions and classes of the user are stored by
name only and must be passed again. `describe` shows a value with all its settings as one line of text.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from paoswarm._text import plain
from paoswarm.core import attractors, noise
from paoswarm.core.random import Seed
from paoswarm.core.swarm import Swarm
from paoswarm.engines.engines import Cuda, Jax, Numba
from paoswarm.least_squares import likelihoods
from paoswarm.least_squares.loss import Scaled
from paoswarm.methods import schedules
from paoswarm.methods.registry import METHODS
from paoswarm.space import variables
from paoswarm.store.fingerprint import checksum

OURS: dict[str, Any] = (
    METHODS
    | {one.__name__: one for one in (variables.Real, variables.Integer, variables.Choice, variables.Periodic)}
    | {one.__name__: one for one in (Numba, Jax, Cuda, Scaled)}
    | {
        name: thing
        for module in (schedules, attractors, noise, likelihoods)
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module.__name__ and callable(thing)
    }
)
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_LARGEST_POOL = 1024  # words of a seed; the time to mix them grows with their square


class Unknown(LookupError):
    """A function or class of the user, which must be passed again."""


def encode(thing: Any, *, with_code: bool = False) -> Any:
    """Return a value as JSON.

    Functions and objects of the user are encoded by name. If ``with_code`` is true, their encoding also holds a
    checksum of their code and their attributes, so that it changes with every edit.
    """

    def inner(part: Any) -> Any:
        return encode(part, with_code=with_code)

    for kind, encoded in _BY_TYPE:
        if isinstance(thing, kind):
            return encoded(thing, inner)
    found = _encode_ours(thing, inner) or _encode_law(thing, inner)
    if found is not None or with_code:
        return found or _encode_own(thing, inner)
    return {"own": f"{_module(thing)}.{_name(thing)}"}


# What values become; the first type that fits counts: a swarm is a tuple as well.
_BY_TYPE: tuple[tuple[Any, Callable[[Any, Callable[[Any], Any]], Any]], ...] = (
    (type(None) | bool | str, lambda thing, _: thing),
    (np.ndarray, lambda thing, inner: {"array": inner(thing.tolist()), **_dtype(thing)}),
    (int | np.integer, lambda thing, _: int(thing)),
    (float | np.floating, lambda thing, _: float(thing) if math.isfinite(thing) else {"float": str(float(thing))}),
    (Mapping, lambda thing, inner: {"items": [[inner(key), inner(value)] for key, value in thing.items()]}),
    (Swarm, lambda thing, _: {"swarm": checksum(thing)}),
    (tuple | list, lambda thing, inner: [inner(part) for part in thing]),
)


def _dtype(array: np.ndarray[Any, Any]) -> dict[str, str]:
    """The type of the elements, unless they are doubles."""
    return {} if array.dtype == np.float64 else {"dtype": array.dtype.str}


def _encode_ours(thing: Any, inner: Callable[[Any], Any]) -> dict[str, Any] | None:
    """Encode what this package defines by name and settings; None for anything else."""
    module, name = _module(thing), _name(thing)
    if not module.startswith("paoswarm.") or inspect.ismethod(thing):
        return None
    if hasattr(thing, "__qualname__"):
        return {"paoswarm": name}
    settings = _settings(thing)
    return None if settings is None else {"paoswarm": name, "with": _each(settings, inner)}


def _encode_law(thing: Any, inner: Callable[[Any], Any]) -> dict[str, Any] | None:
    """Encode a frozen distribution of `scipy.stats` by name and numbers; None for anything else."""
    family = getattr(getattr(thing, "dist", None), "name", None)
    if family is not None and hasattr(thing, "kwds"):
        return {"scipy.stats": family, "args": inner(thing.args), "kwds": inner(thing.kwds)}
    kind = type(thing).__name__.removesuffix("_frozen")
    if kind in _JOINT:
        arrays = {name: np.asarray(getattr(thing, own), dtype=float) for name, own in _JOINT[kind].items()}
        settings = {name: one if one.ndim else float(one) for name, one in arrays.items()}
        return {"scipy.stats": kind, "args": [], "kwds": inner(settings)}
    if hasattr(thing, "icdf"):  # the newer ones show all their parameters
        return {"own": repr(thing)}
    return None


# Multivariate distributions: the arguments that make an equal one, and the attributes that hold them.
_JOINT = {
    "multivariate_normal": {"mean": "mean", "cov": "cov"},
    "multivariate_t": {"loc": "loc", "shape": "shape", "df": "df"},
    "dirichlet": {"alpha": "alpha"},
    "gaussian_kde": {"dataset": "dataset", "bw_method": "factor", "weights": "weights"},
}


def _encode_own(thing: Any, inner: Callable[[Any], Any]) -> dict[str, Any]:
    """Encode what the user defines by name, checksum of the code and, of a dataclass, settings."""
    # Without the module: a script is ``__main__`` when it is run, and has a name when it is imported.
    own = {"own": _name(thing), "code": checksum(thing)}
    if not dataclasses.is_dataclass(thing) or inspect.isclass(thing):
        return own
    settings = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.init}
    return {**own, "with": _each(settings, inner)}


def _name(thing: Any) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def _module(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def _each(settings: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: change(value) for name, value in settings.items()}


def _settings(thing: Any) -> dict[str, Any] | None:
    """Return the arguments that would construct an equal object; None if they are not among its attributes."""
    names = inspect.signature(type(thing)).parameters
    return {name: getattr(thing, name) for name in names} if all(hasattr(thing, name) for name in names) else None


def decode(kept: Any, ours: Mapping[str, Any] = OURS) -> Any:
    """Return the value that was given to `encode`, with lists as tuples.

    Raises `Unknown` if it cannot be rebuilt.
    """
    if isinstance(kept, list):
        return tuple(decode(part, ours) for part in kept)
    if not isinstance(kept, dict):
        return kept
    if "array" in kept:
        kind = np.dtype(kept.get("dtype", float))
        if kind.kind not in "fiubU":
            raise Unknown(f"an array of {kind}")
        return np.array(decode(kept["array"], ours), dtype=kind)
    if "float" in kept:
        return float(kept["float"])
    if "items" in kept:
        return {decode(key, ours): decode(value, ours) for key, value in kept["items"]}
    if kept.get("paoswarm") in ours:
        thing = ours[kept["paoswarm"]]
        if "with" not in kept:
            return thing
        with warnings.catch_warnings():  # the user was warned when the run was started
            warnings.simplefilter("ignore")
            return thing(**_each(kept["with"], lambda value: decode(value, ours)))
    if "scipy.stats" in kept:
        return _family(kept["scipy.stats"])(*decode(kept["args"], ours), **decode(kept["kwds"], ours))
    raise Unknown(str(kept.get("own") or kept.get("paoswarm") or "a swarm"))


def _family(name: str) -> Any:
    """The distribution of `scipy.stats` with this name; raises `Unknown` if there is none that can be rebuilt."""
    from scipy import stats  # not at the top: importing it takes half a second

    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous) and name not in _JOINT:
        raise Unknown(name)
    return family


def describe(thing: Any) -> str:
    """Return a value with all its settings as one line of text, the same in every process.

    Functions and objects of the user carry a checksum, so that the line changes when they are edited.

    Examples
    --------
    >>> import paoswarm as ps
    >>> describe(ps.classic.PSO(inertia=ps.schedules.linear(0.9, 0.4)))
    "PSO(inertia=linear(0.9, 0.4), local=1.49618, social=1.49618, walls='clip')"
    """
    return as_text(encode(thing, with_code=True))


def as_text(kept: Any) -> str:
    """Return an encoded value as one line of text."""
    if isinstance(kept, list):
        return f"({', '.join(map(as_text, kept))})"
    if not isinstance(kept, dict):
        return repr(kept)
    if "float" in kept:
        return str(kept["float"])
    if "array" in kept:
        crc = zlib.crc32(json.dumps(kept["array"]).encode())
        return f"array(shape={np.shape(kept['array'])}, crc={crc:08x})"
    if "items" in kept:
        return f"{{{', '.join(f'{as_text(key)}: {as_text(value)}' for key, value in kept['items'])}}}"
    if "swarm" in kept:
        return f"swarm#{kept['swarm']}"
    if "scipy.stats" in kept:
        keywords = [f"{key}={as_text(value)}" for key, value in kept["kwds"]["items"]]
        return f"{kept['scipy.stats']}({', '.join([*map(as_text, kept['args']), *keywords])})"
    if kept.get("paoswarm") == schedules.Lines.__name__:
        return repr(decode(kept))
    name = str(kept.get("paoswarm") or kept["own"]) + (f"#{kept['code']}" if "code" in kept else "")
    if "with" not in kept:
        return name
    return f"{name}({', '.join(f'{key}={as_text(value)}' for key, value in kept['with'].items())})"


def encode_seed(rng: Seed) -> Any:
    """Return a seed, or the state of a generator, as JSON."""
    if isinstance(rng, np.random.Generator):
        state, seeds = rng.bit_generator.state, rng.bit_generator.seed_seq
        if state["bit_generator"] not in _BIT_GENERATORS or not isinstance(seeds, np.random.SeedSequence):
            raise TypeError(
                f"a store cannot keep this {type(rng.bit_generator).__name__} generator; pass an integer as rng"
            )
        state = plain(state, array=np.ndarray.tolist, not_finite=float)
        # The designs of the first swarm draw from child generators, so the number of children counts.
        return {"state": state, **_encode_sequence(seeds), "n_children_spawned": seeds.n_children_spawned}
    if isinstance(rng, np.random.SeedSequence) and rng.pool_size > _LARGEST_POOL:
        raise ValueError(f"a store cannot keep a SeedSequence with pool_size > {_LARGEST_POOL}")
    return _encode_sequence(rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(rng))


def _encode_sequence(seeds: np.random.SeedSequence) -> dict[str, Any]:
    kept = {"entropy": seeds.entropy, "spawn_key": seeds.spawn_key, "pool_size": seeds.pool_size}
    described: dict[str, Any] = plain(kept, array=np.ndarray.tolist, not_finite=float)
    return described


def decode_seed(kept: Any) -> np.random.SeedSequence | np.random.Generator:
    """Return the seed, or the generator in its stored state; raise a ValueError for anything else."""
    try:
        state = kept.get("state")
        if not 4 <= kept["pool_size"] <= _LARGEST_POOL:
            raise ValueError(f"pool_size={kept['pool_size']}")
        seeds = np.random.SeedSequence(**{name: value for name, value in kept.items() if name != "state"})
        if state is None:
            return seeds
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise ValueError(f"unknown generator {state['bit_generator']!r}")
        # NumPy does not check these positions, and would read what is not its own.
        if not (0 <= state["state"].get("pos", 0) <= 624 and 0 <= state.get("buffer_pos", 0) <= 4):
            raise ValueError("the generator's position is outside of its numbers")
        source = getattr(np.random, state["bit_generator"])(seeds)
        source.state = state
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise ValueError(f"the seed cannot be used ({type(error).__name__}: {error})") from error
    return np.random.Generator(source)
