"""Compiled engines on a GPU, beside evosax and EvoX: microseconds a generation, in one call on a bare machine.

    python benchmarks/gpu.py                 # needs JAX and CuPy; peers take part if they can be imported
    python benchmarks/gpu.py --out gpu.jsonl

Swarms with the default hyperparameters on Rastrigin's function in (-5.12, 5.12), single precision, no rule that ends
runs early. Time is that of the host, from the call until the best values of all generations are back, divided by the
generations; the median of several calls. The first call, which compiles, is reported apart. *Copy* is what the device
moves when it copies an array, read and written bytes together; the *share* of it that a large swarm reaches counts 22.4
bytes for each element (read position, velocity and best; write position and velocity, and the best where it improved,
which was 0.6 of the particles).
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

import paoswarm as ps
from paoswarm.engines import counter
from paoswarm.engines.program import Rules, read_program

SHAPES = [
    (1000, 100, 8, 1000),
    (10_000, 100, 30, 400),
    (1, 1_000_000, 100, 64),
    (1, 1000, 100, 512),
    (1, 10_000, 100, 256),
]
REPEATS = 7
BYTES = 22.4
RULES = Rules(-np.inf, 0.0, 10**6, 0, 1e-4, 1e-14)  # none that ends a run


def rastrigin(x):
    return jnp.sum(x * x - 10 * jnp.cos(2 * jnp.pi * x) + 10)


def of_engine(kind, runs, n, d, generations):
    """Microseconds a generation of one of our engines, and seconds of the first call."""
    lower, upper = np.full(d, -5.12), np.full(d, 5.12)
    program = read_program(ps.PAO(), n, lower, upper, RULES, maxiter=10**6)
    began = time.perf_counter()
    engine = kind.make(program, rastrigin)
    keys = counter.run_keys(np.random.SeedSequence(1), runs)
    state = engine.begin(keys)
    count = min(generations, engine.longest)
    state, history = engine.advance(state, keys, 1, count)
    first = time.perf_counter() - began
    times = []
    for _ in range(REPEATS):
        state = engine.begin(keys)
        np.asarray(state.status)
        began = time.perf_counter()
        state, history = engine.advance(state, keys, 1, count)
        times.append((time.perf_counter() - began) / count)
    return {"us": 1e6 * float(np.median(times)), "least": 1e6 * min(times), "first": first,
            "median best": float(np.median(history[:, -1]))}  # fmt: skip


def of_evosax(runs, n, d, generations):
    """The same of evosax's particle swarm."""
    from evosax.algorithms.population_based.pso import PSO

    algorithm = PSO(population_size=n, solution=jnp.zeros(d))
    parameters = algorithm.default_params
    values = jax.vmap(rastrigin)

    def one(key):
        first, second, third = jax.random.split(key, 3)
        x = jax.random.uniform(first, (n, d), minval=-5.12, maxval=5.12)
        state = algorithm.init(second, x, values(x), parameters)

        def generation(state, key):
            asks, tells = jax.random.split(key)
            x, state = algorithm.ask(asks, state, parameters)
            state, seen = algorithm.tell(tells, x, values(x), state, parameters)
            return state, seen["best_fitness"]

        return jax.lax.scan(generation, state, jax.random.split(third, generations))[1]

    run = jax.jit(one if runs == 1 else lambda key: jax.vmap(one)(jax.random.split(key, runs)))
    began = time.perf_counter()
    jax.block_until_ready(run(jax.random.key(0)))
    first, times = time.perf_counter() - began, []
    for i in range(REPEATS):
        began = time.perf_counter()
        best = np.asarray(run(jax.random.key(i + 1)))
        times.append((time.perf_counter() - began) / generations)
    return {"us": 1e6 * float(np.median(times)), "least": 1e6 * min(times), "first": first,
            "median best": float(np.median(best[..., -1]))}  # fmt: skip


def of_evox(runs, n, d, generations):
    """The same of EvoX's particle swarm with ``torch.compile``, the runs side by side by its ``vmap``."""
    import torch
    from evox.algorithms import PSO
    from evox.core import Problem, use_state, vmap
    from evox.workflows import StdWorkflow

    class Rastrigin(Problem):
        def evaluate(self, x):
            return (x * x - 10 * torch.cos(2 * torch.pi * x) + 10).sum(dim=-1)

    torch.set_default_device("cuda")
    torch._dynamo.reset()
    generations = min(generations, 64)
    workflow = StdWorkflow(PSO(n, torch.full((d,), -5.12), torch.full((d,), 5.12)), Rastrigin(), device="cuda")
    began = time.perf_counter()
    if runs == 1:
        workflow.init_step()
        step = torch.compile(workflow.step)
    else:
        state = {name: part.detach().expand(runs, *part.shape).clone() for name, part in workflow.state_dict().items()}
        moved = torch.compile(vmap(use_state(workflow.step), randomness="different"))

        def step():
            nonlocal state
            result = moved(state)
            state = result[0] if isinstance(result, tuple) else result

    times = []
    for i in range(-1, REPEATS):
        start = time.perf_counter()
        for _ in range(3 if i < 0 else generations):
            step()
        torch.cuda.synchronize()
        if i < 0:
            first = time.perf_counter() - began
        else:
            times.append((time.perf_counter() - start) / generations)
    return {"us": 1e6 * float(np.median(times)), "least": 1e6 * min(times), "first": first,
            "median best": float("nan")}  # fmt: skip


def copy_bandwidth():
    """Terabytes a second of a copy on the device, read and written."""
    import cupy

    a = cupy.zeros(500_000_000, dtype=cupy.float32)
    b = cupy.empty_like(a)
    times = []
    for _ in range(10):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        cupy.copyto(b, a)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return 2 * a.nbytes / min(times) / 1e12


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="a file to which each figure is appended as a line of JSON")
    options = parser.parse_args()
    bandwidth = copy_bandwidth()
    print(f"{jax.devices()[0].device_kind}: copy {bandwidth:.2f} TB/s", flush=True)
    kinds = {"CUDA": lambda *s: of_engine(ps.engines.Cuda(), *s), "JAX": lambda *s: of_engine(ps.engines.Jax(), *s),
             "evosax PSO": of_evosax, "EvoX PSO": of_evox}  # fmt: skip
    for runs, n, d, generations in SHAPES:
        for name, measure in kinds.items():
            try:
                row = measure(runs, n, d, generations)
            except Exception as error:
                print(f"{name} ({runs}, {n}, {d}): {type(error).__name__}: {error}"[:600], flush=True)
                continue
            share = BYTES * runs * n * d / row["us"] * 1e6 / 1e12 / bandwidth
            row |= {"engine": name, "shape": [runs, n, d], "share of copy": share, "copy": bandwidth}
            print(f"{name:12} ({runs}, {n}, {d}): {row['us']:.2f} us a generation (least {row['least']:.2f}), "
                  f"{100 * share:.0f} % of a copy, first call {row['first']:.1f} s, best {row['median best']:.4g}",
                  flush=True)  # fmt: skip
            if options.out:
                with open(options.out, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
