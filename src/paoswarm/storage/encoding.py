"""What a run was asked to do, as JSON, and back again.

Numbers, arrays, our own methods, schedules and attractors, and frozen `scipy.stats` distributions are rebuilt from
their names and numbers: nothing is executed but their constructors. Functions and classes of the user are known by name
only, and have to be given again.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from paoswarm.algorithms import de, pao, pso, qpso, random_search, sade, schedules
from paoswarm.core import attractors, noise
from paoswarm.core.random import Seed

_MODULES = (pao, pso, qpso, de, sade, random_search, schedules, attractors, noise)
OURS: dict[str, Any] = {
    name: thing
    for module in _MODULES
    for name, thing in vars(module).items()
    if getattr(thing, "__module__", None) == module.__name__ and callable(thing)
}
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class Unknown(LookupError):
    """Something of the user's that has to be given again."""


def encode(thing: Any) -> Any:
    """A value as JSON."""
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, np.ndarray):
        return {"array": encode(thing.tolist())}
    if isinstance(thing, int | np.integer):
        return int(thing)
    if isinstance(thing, float | np.floating):
        number = float(thing)
        return number if math.isfinite(number) else {"float": str(number)}
    if isinstance(thing, Mapping):
        return {"items": [[encode(key), encode(value)] for key, value in thing.items()]}
    if hasattr(thing, "_fields"):  # a swarm
        return {"sha256": _digest(thing)}
    if isinstance(thing, tuple | list):
        return [encode(part) for part in thing]
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    module = getattr(thing, "__module__", None) or type(thing).__module__
    if module.startswith("paoswarm.") and hasattr(thing, "__qualname__"):
        return {"paoswarm": name}
    if module.startswith("paoswarm.") and (settings := _settings(thing)) is not None:
        return {"paoswarm": name, "with": settings}
    family = getattr(getattr(thing, "dist", None), "name", None)
    if family is not None and hasattr(thing, "kwds"):
        return {"scipy.stats": family, "args": encode(thing.args), "kwds": encode(thing.kwds)}
    if type(thing).__name__ == "multivariate_normal_frozen":
        settings = {"mean": np.asarray(thing.mean), "cov": np.asarray(thing.cov)}
        return {"scipy.stats": "multivariate_normal", "args": [], "kwds": encode(settings)}
    return {"own": f"{module}.{name}"}


def _settings(thing: Any) -> dict[str, Any] | None:
    """The arguments that would make an object again; None where it does not show them."""
    names = inspect.signature(type(thing)).parameters
    return {name: encode(getattr(thing, name)) for name in names} if all(hasattr(thing, n) for n in names) else None


def _digest(thing: Any) -> str:
    digest = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, tuple):
            for inner in part:
                add(inner)
        elif part is not None:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())

    add(thing)
    return digest.hexdigest()


def decode(kept: Any, ours: Mapping[str, Any] = OURS) -> Any:
    """The value that `encode` was given, lists as tuples; `Unknown` where it cannot be rebuilt."""
    if isinstance(kept, list):
        return tuple(decode(part, ours) for part in kept)
    if not isinstance(kept, dict):
        return kept
    if "array" in kept:
        return np.array(decode(kept["array"], ours), dtype=float)
    if "float" in kept:
        return float(kept["float"])
    if "items" in kept:
        return {decode(key, ours): decode(value, ours) for key, value in kept["items"]}
    if kept.get("paoswarm") in ours:
        thing = ours[kept["paoswarm"]]
        if "with" not in kept:
            return thing
        with warnings.catch_warnings():  # whoever made it has been warned
            warnings.simplefilter("ignore")
            return thing(**{name: decode(value, ours) for name, value in kept["with"].items()})
    if "scipy.stats" in kept:
        from scipy import stats  # not at the top: importing it takes half a second

        family = getattr(stats, kept["scipy.stats"], None)
        if isinstance(family, stats.rv_continuous) or family is stats.multivariate_normal:
            return family(*decode(kept["args"], ours), **decode(kept["kwds"], ours))
    raise Unknown(str(kept.get("own") or kept.get("paoswarm") or kept.get("scipy.stats") or "a swarm"))


def encode_seed(rng: Seed) -> Any:
    """A seed, or the state of a generator, as JSON."""
    if isinstance(rng, np.random.Generator):
        state, seeds = rng.bit_generator.state, rng.bit_generator.seed_seq
        if state["bit_generator"] not in _BIT_GENERATORS or not isinstance(seeds, np.random.SeedSequence):
            raise TypeError(
                f"a store cannot keep a {type(rng.bit_generator).__name__} of this kind; give a number as rng"
            )
        # Designs of the first swarm draw from its children, so it matters how many it has.
        return {"state": _plain(state), **_of_sequence(seeds), "n_children_spawned": seeds.n_children_spawned}
    return _of_sequence(rng if isinstance(rng, np.random.SeedSequence) else np.random.SeedSequence(rng))


def _of_sequence(seeds: np.random.SeedSequence) -> dict[str, Any]:
    return {"entropy": _plain(seeds.entropy), "spawn_key": _plain(seeds.spawn_key), "pool_size": seeds.pool_size}


def decode_seed(kept: Any) -> np.random.SeedSequence | np.random.Generator:
    """The seed, or the generator in its state."""
    state = kept.get("state")
    seeds = np.random.SeedSequence(**{name: value for name, value in kept.items() if name != "state"})
    if state is None:
        return seeds
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise Unknown(str(state["bit_generator"]))
    source = getattr(np.random, state["bit_generator"])(seeds)
    source.state = state
    return np.random.Generator(source)


def _plain(thing: Any) -> Any:
    """Without NumPy's types."""
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, np.ndarray | tuple | list):
        return [_plain(part) for part in thing]
    return int(thing) if isinstance(thing, np.integer) else thing
