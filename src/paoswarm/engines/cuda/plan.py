"""The layout of runs on a CUDA device, and the kernels that move them.

Many small swarms stay in the registers of the device for a whole call, each within a block of threads. A few larger
ones stay in the shared memory of all blocks together. What is larger than that stays in the memory of the device. The
numbers were chosen by measurement on an H200; others only make it slower.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_MOST_RESIDENT = 1024, 48  # particles, unknowns: threads of a block, and registers of a thread
_FEW = 16  # unknowns whose positions, velocities and bests all fit in the registers of a thread
_REGISTERS = 65536  # of a multiprocessor
_SHARED = 220 * 1024  # bytes of shared memory of a multiprocessor
_MOST_RUNS = 32  # of a block
_TOGETHER = 4096  # elements from which on it pays to spread few swarms over the device, or to have large blocks
_PACKED = 128  # particles of small swarms with many unknowns in a block, at least
_LARGE_BLOCK = 256  # threads that move a part of a large swarm
_ENOUGH_BLOCKS = 264  # two for each multiprocessor of a large device
_MOST_SHARED = 54 * 1024  # bytes of a block for places of particles, so that four blocks fit a multiprocessor
_MANY_BLOCKS = 16  # for each multiprocessor: then it hardly matters that the last round is not full


class Plan(NamedTuple):
    """The layout of runs on the device."""

    kind: str  # resident, together or streaming
    threads: int  # of a block
    share: int  # of a block: runs if they are resident, else particles of a run
    shared_bytes: int  # of a block


def plan_for(runs: int, n: int, d: int, processors: int) -> Plan:
    """Choose the layout for swarms of ``n`` particles with ``d`` unknowns on a device with so many multiprocessors."""
    fits_block = n <= _MOST_RESIDENT[0] and d <= _MOST_RESIDENT[1]
    if fits_block and (runs > processors // 4 or n * d < _TOGETHER):
        pack = _runs_of_a_block(runs, n, d, processors)
        threads = -(-pack * n // 32) * 32
        return Plan("resident", threads, pack, 4 * in_shared(d, threads) * d * threads)
    if runs <= processors:
        particles = -(-n // (processors // runs))
        shared_bytes = 4 * particles * ((d | 1) + 2 * d)
        if shared_bytes + 32 * (particles + d) <= _SHARED:
            return Plan("together", 512 if particles * d > _TOGETHER else 256, particles, shared_bytes)
    particles = _particles_of_a_block(n, d)
    return Plan("streaming", _LARGE_BLOCK, particles, 4 * particles * (d | 1))


def in_shared(d: int, threads: int) -> int:
    """Return how many of bests and velocities (0 to 2) are kept in shared memory instead of registers."""
    return 0 if d <= _FEW else min(2, _SHARED // (4 * d * threads))


def most_threads(d: int) -> int:
    """Threads of small swarms that a multiprocessor can hold; the registers of one were counted in compiled kernels."""
    return _REGISTERS // (52 + 3 * d if d <= _FEW else 66 + d)


def _runs_of_a_block(runs: int, n: int, d: int, processors: int) -> int:
    """Return how many runs share a block: the number for which the busiest multiprocessor has the fewest warps."""

    def load(pack: int) -> float:
        warps, blocks = -(-pack * n // 32), -(-runs // pack) / processors
        return warps * (math.ceil(blocks) if blocks < _MANY_BLOCKS else blocks)

    most = min(most_threads(d), 1024) if d <= _FEW else _PACKED
    return min(range(1, max(1, min(most // n, runs, _MOST_RUNS)) + 1), key=load)


def _particles_of_a_block(n: int, d: int) -> int:
    """Return the particles of a large swarm in a block: many use the device best, but there must be enough blocks."""
    size = 64
    while size > 8 and (n < size * _ENOUGH_BLOCKS or 4 * size * (d | 1) > _MOST_SHARED):
        size //= 2
    return size
