"""The CUDA engine: swarms of the default kind in kernels of our own, with the objective translated into them.

Small swarms stay in the registers of the device for a whole call; large ones stay in its memory. The kernels are
compiled when they are used, by CuPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import cupy
import cupyx
import numpy as np

from paoswarm.compiled import counter
from paoswarm.compiled.jax_engine import evaluator
from paoswarm.compiled.program import Program
from paoswarm.compiled.state import State
from paoswarm.compiled.translate import translate
from paoswarm.core.arrays import Floats

_MOST_RESIDENT = 1024, 48  # particles, unknowns: threads of a block, and registers of a thread
_FEW = 16  # unknowns whose positions, velocities and bests all fit in the registers of a thread
_REGISTERS = 65536  # of a multiprocessor
_SHARED = 220 * 1024  # bytes of shared memory of a multiprocessor
_MOST_RUNS = 32  # of a block
_PACKED = 128  # particles of small swarms with many unknowns in a block, at least
_LARGE_BLOCK = 256  # threads that move a part of a large swarm
_ENOUGH_BLOCKS = 264  # two for each multiprocessor of a large device
_MOST_SHARED = 54 * 1024  # bytes of a block for places of particles, so that four blocks fit a multiprocessor
_LONGEST = 4096  # generations in one call
_GRAPH = 16  # generations of a large swarm that are launched together
_MANY_BLOCKS = 16  # for each multiprocessor: then it hardly matters that the last round is not full
_HEADER = """typedef float real;
#define FUNCTION __device__ __forceinline__
#define INFINITY __int_as_float(0x7F800000)
#define NAN __int_as_float(0x7FFFFFFF)
"""


class OnDevice:
    """An array on the device, which NumPy can read."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(cupy.asnumpy(self.array), dtype=dtype)


class CudaEngine:
    """Runs of a program in CUDA kernels; see `usable` for which programs.

    Parameters
    ----------
    program : Program
    fun : callable
        ``fun(x) -> scalar`` for a point ``x`` (d,), written with `jax.numpy`, such that `translate` can translate it.
    """

    longest = _LONGEST

    def __init__(self, program: Program, fun: Callable[..., Any]) -> None:
        self._program = program
        n, d = program.n_particles, program.n_dimensions
        self._is_resident = n <= _MOST_RESIDENT[0] and d <= _MOST_RESIDENT[1]
        self._objective = translate(fun, d)
        self._pack = 0  # runs of a block, if swarms are small
        self._module: Any = None
        self._threads = _LARGE_BLOCK
        self._particles = _particles_of_a_block(n, d)
        self._shared_bytes = 4 * self._particles * (d | 1)
        rules = program.rules
        self._rules = (
            *map(np.float32, (rules.target, rules.tol, rules.near, rules.same)),
            *map(np.int32, (rules.patience, rules.stagnation)),
            np.int64(program.evaluations),
        )
        self._half = np.int32(counter.half_bits(n))
        self._table = cupy.asarray(program.coefficients[:, 0, :], dtype=cupy.float32)
        self._box = tuple(cupy.asarray(end, dtype=cupy.float32) for end in (program.lower, program.upper))
        self._keys: Any = None
        self._evaluate = evaluator(fun)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._graph: Any = None

    def _compile(self, runs: int) -> None:
        """Compile the kernels for so many runs, unless those that are there will do."""
        n, d = self._program.n_particles, self._program.n_dimensions
        pack = _runs_of_a_block(runs, n, d) if self._is_resident else 1
        if self._module is not None and pack == self._pack:
            return
        self._pack = pack
        settings = {"D": d, "N": n, "HAS_TOL": int(self._program.rules.tol > 0)}
        if self._is_resident:
            self._threads = -(-pack * n // 32) * 32
            in_shared = 0 if d <= _FEW else min(2, _SHARED // (4 * d * self._threads))
            self._shared_bytes = 4 * in_shared * d * self._threads
            settings |= {"RESIDENT": 1, "PACK": pack, "MAY_END": int(self._program.rules.may_end)}
            settings |= {"IN_SHARED": in_shared, "BLOCKS": max(1, _most_threads(d) // self._threads)}
        else:
            settings |= {"STREAMING": 1, "PARTICLES": self._particles, "WIDE": 4 if d % 4 == 0 else 1}
        settings["THREADS"] = self._threads
        lines = "".join(f"#define {name} {value}\n" for name, value in settings.items())
        kernels = files("paoswarm.compiled").joinpath("kernels.cu").read_text(encoding="utf-8")
        text = _HEADER + self._objective + lines + kernels
        self._module = cupy.RawModule(code=text, options=("--std=c++17", "--use_fast_math"), backend="nvrtc")

    def begin(self, keys: counter.Words, given: Floats | None = None) -> State:
        """The first swarms of runs with these keys, evaluated; ``given`` points (n, d) replace the design."""
        runs, n, d = len(keys), self._program.n_particles, self._program.n_dimensions
        self._compile(runs)
        self._keys, self._graph = cupy.asarray(keys), None
        points = [cupy.empty((runs, n, d), dtype=cupy.float32) for _ in range(3)]
        if given is not None:
            points[0][:] = cupy.asarray(given, dtype=cupy.float32)
        values = [cupy.empty((runs, n), dtype=cupy.float32) for _ in range(3)]
        lead = cupy.full(runs, cupy.inf, dtype=cupy.float32)
        counts = [cupy.zeros(runs, dtype=kind) for kind in "iiqiii"]
        self._arrays = (*points, *values, lead, *counts)
        if self._is_resident:
            self._launch_resident(2 if given is not None else 1, 0)
        else:
            self._begin_large(runs, given is not None)
        return self._state()

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, or until runs end. ``state`` must be the last one that this returned."""
        history = self._launch_resident(0, count) if self._is_resident else self._advance_large(count)
        return self._state(), _on_host(history)

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``, in double precision."""
        return self._evaluate(points)

    def _launch_resident(self, begins: int, count: int) -> Any:
        runs = len(self._keys)
        history = cupy.empty((runs, max(count, 1)), dtype=cupy.float32)
        numbers = (np.int32(runs), np.int32(begins), self._half, np.int32(count), *self._rules)
        arguments = (*self._arrays, history, self._keys, self._table, np.int32(len(self._table)), *self._box, *numbers)
        kernel = self._module.get_function("resident")
        kernel.max_dynamic_shared_size_bytes = self._shared_bytes
        kernel((-(-runs // self._pack),), (self._threads,), arguments, shared_mem=self._shared_bytes)
        return history[:, :count]

    def _begin_large(self, runs: int, is_given: bool) -> None:
        x, v, best, value, best_value, age, *_, n_failed, _, _ = self._arrays
        nobody = cupy.full(runs, 2**64 - 1, dtype=cupy.uint64)
        self._top, self._next = nobody, nobody.copy()
        self._leader = cupy.zeros((runs, self._program.n_dimensions), dtype=cupy.float32)
        self._sum, self._most = cupy.zeros(runs, dtype=cupy.float32), cupy.zeros(runs, dtype=cupy.uint32)
        self._history = cupy.empty((runs, _LONGEST), dtype=cupy.float32)
        self._column = cupy.zeros(runs, dtype=cupy.int32)
        self._blocks = -(-self._program.n_particles // self._particles), runs
        arrays = (x, v, best, value, best_value, age, self._next, n_failed)
        self._launch("begin", (*arrays, self._keys, *self._box, np.int32(is_given), self._half))
        self._conclude(1)

    def _launch(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Start a kernel that has a block for every part of every swarm."""
        kernel = self._module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = self._shared_bytes
        kernel(self._blocks, (self._threads,), arguments, shared_mem=self._shared_bytes)

    def _generation(self) -> None:
        """The launches of one generation of large swarms."""
        x, v, best, value, best_value, age, _, _, nit, nfev, n_failed, status, _ = self._arrays
        arrays = (x, v, best, value, best_value, age, self._top, self._next, self._leader)
        arguments = (nit, nfev, n_failed, status, self._keys, self._table, np.int32(len(self._table)), *self._box)
        self._launch("move", (*arrays, *arguments, self._rules[-1]))
        self._conclude(0)

    def _conclude(self, begins: int) -> None:
        """The leader, then counts and ends; how far particles are from the leader is known only in between."""
        if self._program.rules.tol == 0:
            self._settle(begins, 3)
            return
        x, best_value, status = self._arrays[0], self._arrays[4], self._arrays[11]
        self._settle(begins, 1)
        self._launch("spread", (x, best_value, self._leader, status, *self._box, self._sum, self._most))
        self._settle(begins, 2)

    def _settle(self, begins: int, parts: int) -> None:
        _, _, best, _, _, _, lead, stale, nit, nfev, _, status, rule = self._arrays
        counts = (lead, stale, nit, nfev, status, rule, self._history, self._column, np.int32(_LONGEST))
        numbers = (self._sum, self._most, np.int32(begins), np.int32(parts), *self._rules)
        arguments = (best, self._top, self._next, self._leader, *counts, *numbers)
        self._module.get_function("settle")((len(self._keys),), (128,), arguments)

    def _advance_large(self, count: int) -> Any:
        """Launch generations, many at once as a graph: the launches would take longer than small swarms do."""
        self._column[:] = 0
        cupy.cuda.get_current_stream().synchronize()
        with self._stream:
            if self._graph is None and count >= _GRAPH:
                self._stream.begin_capture()
                for _ in range(_GRAPH):
                    self._generation()
                self._graph = self._stream.end_capture()
            for _ in range(count // _GRAPH):
                self._graph.launch(self._stream)
            for _ in range(count % _GRAPH):
                self._generation()
        self._stream.synchronize()
        return self._history[:, :count]

    def _state(self) -> State:
        return State(*map(OnDevice, self._arrays))


def _on_host(array: Any) -> Any:
    """A copy for NumPy, through memory that the device reaches directly: several times faster."""
    pinned = cupyx.empty_pinned(array.shape, dtype=array.dtype)
    cupy.ascontiguousarray(array).get(out=pinned)
    return pinned


def _most_threads(d: int) -> int:
    """Threads of small swarms that a multiprocessor can hold; the registers of one were counted in compiled kernels."""
    return _REGISTERS // (52 + 3 * d if d <= _FEW else 66 + d)


def _runs_of_a_block(runs: int, n: int, d: int) -> int:
    """How many runs share a block: the number for which the busiest multiprocessor has the fewest warps."""
    processors = cupy.cuda.Device().attributes["MultiProcessorCount"]

    def load(pack: int) -> float:
        warps, blocks = -(-pack * n // 32), -(-runs // pack) / processors
        return warps * (math.ceil(blocks) if blocks < _MANY_BLOCKS else blocks)

    most = min(_most_threads(d), 1024) if d <= _FEW else _PACKED
    return min(range(1, max(1, min(most // n, runs, _MOST_RUNS)) + 1), key=load)


def _particles_of_a_block(n: int, d: int) -> int:
    """How many particles a block moves: many use the device best, but there must be enough blocks."""
    size = 64
    while size > 8 and (n < size * _ENOUGH_BLOCKS or 4 * size * (d | 1) > _MOST_SHARED):
        size //= 2
    return size


def usable(program: Program) -> str:
    """Why a program does not fit the kernels; empty if it does."""
    if not program.is_usual:
        return "the swarm is not pulled, shaken and bounded as by default"
    if program.coefficients.shape[1] > 1:
        return "particles have hyperparameters of their own"
    return ""
