"""The inner loops of the default swarm, compiled, each in one pass over memory.

They exist if the package was built with a C compiler. Otherwise, and for arrays they do not support, the functions here
return None and the callers use equivalent NumPy code; the results are identical to the bit. A small swarm spends most
of its time on the overhead of NumPy calls, and these two functions replace about thirty of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paoswarm.core.arrays import Array

try:
    from paoswarm.core import _fused as compiled
except ImportError:  # built without a compiler
    compiled = None  # type: ignore[assignment]


def step(state: Any, normal: Array, by: Array) -> tuple[Array, Array] | None:
    """Return positions and velocities after a step with springs to the two bests, `spread` noise and clipping walls.

    ``by`` holds the weights of the springs, the entries of A, those of sqrt(q) H, and the wall's restitution. Returns
    None if the compiled loop is not available for these arrays.
    """
    x = state.position
    if compiled is None or type(x) is not np.ndarray or not x.shape[-2:] == state.lower.shape == state.upper.shape:
        return None
    moved, velocity = np.empty(x.shape), np.empty(x.shape)
    given = x, state.velocity, state.best_position, state.global_best, normal, state.lower, state.upper, by
    return (moved, velocity) if compiled.step(*given, moved, velocity) else None


def record(state: Any, x: Array, value: Array) -> tuple[Array, ...] | None:
    """Return best positions, best values, ages, the leader for every particle and its value, given values at ``x``.

    Returns None if the compiled loop is not available for these arrays.
    """
    if compiled is None or type(x) is not np.ndarray:
        return None
    batch, shape = x.shape[:-2], x.shape
    bests, leader = np.empty(shape), np.empty(shape)
    values, age, top = np.empty(shape[:-1]), np.empty(shape[:-1]), np.empty(batch or 1)
    given = value, state.best_value, state.age, x, state.best_position
    if not compiled.record(*given, values, age, bests, leader, top):
        return None
    return bests, values, age, leader, top if batch else top[0]
