"""The CUDA engine: swarms of the default kind in kernels of our own, with the objective translated into them.

`paoswarm.engines.cuda.plan` says which kernels. They are compiled when they are used, by CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import cupy
import cupyx
import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.engines import counter
from paoswarm.engines.cuda.plan import Plan, in_shared, most_threads, plan_for
from paoswarm.engines.cuda.translate import translate
from paoswarm.engines.jax_engine import evaluator
from paoswarm.engines.program import Program, State

_LONGEST = 4096  # generations in one call
_GRAPH = 16  # generations of a large swarm that are launched together
OPTIONS = ("--std=c++17", "--use_fast_math")
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

    longest, at_once = _LONGEST, _GRAPH

    def __init__(self, program: Program, fun: Callable[..., Any]) -> None:
        self._program = program
        n, d = program.n_particles, program.n_dimensions
        self._objective = translate(fun, d)
        self._compiled_for: Plan | None = None
        self._module: Any = None
        rules = program.rules
        self._rules = (
            *map(np.float32, (rules.target, rules.tol, rules.near, rules.same)),
            np.int32(rules.patience),
            np.int64(program.evaluations),
        )
        self._half = np.int32(counter.half_bits(n))
        self._table = cupy.asarray(program.coefficients[:, 0, :], dtype=cupy.float32)
        self._box = tuple(cupy.asarray(end, dtype=cupy.float32) for end in (program.lower, program.upper))
        self._keys: Any = None
        self._evaluate = evaluator(fun)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._graph: Any = None

    def source(self, plan: Plan) -> str:
        """Return the source text for a plan: settings, the objective and the kernels."""
        p = self._program
        d = p.n_dimensions
        settings = {"D": d, "N": p.n_particles, "HAS_TOL": int(p.rules.tol > 0), "THREADS": plan.threads}
        if plan.kind == "resident":
            settings |= {"PACK": plan.share, "MAY_END": int(p.rules.may_end), "IN_SHARED": in_shared(d, plan.threads)}
            settings["BLOCKS"] = max(1, most_threads(d) // plan.threads)
        else:
            settings |= {"PARTICLES": plan.share, "WIDE": 4 if d % 4 == 0 else 1}
        if plan.kind == "streaming":
            settings["RARE_BOUNCES"] = 1
        lines = "".join(f"#define {name} {value}\n" for name, value in settings.items())
        folder = files("paoswarm.engines.cuda").joinpath("kernels")
        texts = [folder.joinpath(f"{name}.cu").read_text(encoding="utf-8") for name in ("common", plan.kind)]
        return _HEADER + self._objective + lines + "".join(texts)

    def _compile(self, runs: int) -> None:
        """Compile the kernels for so many runs, unless those that are there will do."""
        p = self._program
        processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._plan = plan_for(runs, p.n_particles, p.n_dimensions, processors)
        if self._plan == self._compiled_for:
            return
        self._module = cupy.RawModule(
            code=self.source(self._plan),
            options=OPTIONS,
            backend="nvrtc",
            enable_cooperative_groups=self._plan.kind == "together",
        )
        self._compiled_for = self._plan

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
        if self._plan.kind == "streaming":
            self._begin_large(runs, given is not None)
        else:
            self._launch_whole(2 if given is not None else 1, 0)
        return self._state()

    def advance(self, state: State, keys: counter.Words, generation: int, count: int) -> tuple[State, Floats]:
        """Move on by ``count`` generations, or until runs end. ``state`` must be the last one that this returned."""
        history = self._advance_large(count) if self._plan.kind == "streaming" else self._launch_whole(0, count)
        return self._state(), _on_host(history)

    def evaluate(self, points: Floats) -> Floats:
        """The objective at points ``(m, d)``, in double precision."""
        return self._evaluate(points)

    def _launch_whole(self, begins: int, count: int) -> Any:
        """Begin (if asked) and move on, in one launch."""
        runs, d, plan = len(self._keys), self._program.n_dimensions, self._plan
        history = cupy.empty((runs, max(count, 1)), dtype=cupy.float32)
        arguments = (*self._arrays, history, self._keys, self._table, np.int32(len(self._table)), *self._box)
        blocks: tuple[int, ...] = (-(-runs // plan.share),)
        between: tuple[Any, ...] = (np.int32(runs),)
        if plan.kind == "together":
            parts = -(-self._program.n_particles // plan.share)
            blocks = parts, runs
            between = (
                cupy.full((3, runs), 2**64 - 1, dtype=cupy.uint64),
                cupy.empty((3, runs, parts, d), dtype=cupy.float32),
                cupy.empty((runs, parts, 2), dtype=cupy.float32),
                cupy.zeros(runs, dtype=cupy.uint32),
            )
        numbers = (np.int32(begins), self._half, np.int32(count), *self._rules)
        self._launch(plan.kind, blocks, (*arguments, *between, *numbers))
        return history[:, :count]

    def _begin_large(self, runs: int, is_given: bool) -> None:
        x, v, best, value, best_value, age, *_, n_failed, _, _ = self._arrays
        nobody = cupy.full(runs, 2**64 - 1, dtype=cupy.uint64)
        self._top, self._next = nobody, nobody.copy()
        self._leader = cupy.zeros((runs, self._program.n_dimensions), dtype=cupy.float32)
        self._sum, self._most = cupy.zeros(runs, dtype=cupy.float32), cupy.zeros(runs, dtype=cupy.uint32)
        self._history = cupy.empty((runs, _LONGEST), dtype=cupy.float32)
        self._column = cupy.zeros(runs, dtype=cupy.int32)
        self._blocks = -(-self._program.n_particles // self._plan.share), runs
        arrays = (x, v, best, value, best_value, age, self._next, n_failed)
        self._launch("begin", self._blocks, (*arrays, self._keys, *self._box, np.int32(is_given), self._half))
        self._conclude(1)

    def _launch(self, name: str, blocks: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        kernel = self._module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = self._plan.shared_bytes
        kernel(blocks, (self._plan.threads,), arguments, shared_mem=self._plan.shared_bytes)

    def _generation(self) -> None:
        """The launches of one generation of large swarms."""
        x, v, best, value, best_value, age, _, _, nit, nfev, n_failed, status, _ = self._arrays
        arrays = (x, v, best, value, best_value, age, self._top, self._next, self._leader)
        arguments = (nit, nfev, n_failed, status, self._keys, self._table, np.int32(len(self._table)), *self._box)
        self._launch("move", self._blocks, (*arrays, *arguments, self._rules[-1]))
        self._conclude(0)

    def _conclude(self, begins: int) -> None:
        """The leader, then counts and ends; how far particles are from the leader is known only in between."""
        if self._program.rules.tol == 0:
            self._settle(begins, 3)
            return
        x, best_value, status = self._arrays[0], self._arrays[4], self._arrays[11]
        self._settle(begins, 1)
        self._launch("spread", self._blocks, (x, best_value, self._leader, status, *self._box, self._sum, self._most))
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


def usable(program: Program) -> str:
    """Why a program does not fit the kernels; empty if it does."""
    if not program.is_usual:
        return "the swarm is not pulled, shaken and bounded as by default"
    if program.coefficients.shape[1] > 1:
        return "particles have hyperparameters of their own"
    return ""
