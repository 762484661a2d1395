"""
A slow simulator that fails
===========================

This simulator takes between a hundredth and a tenth of a second; a real one may take minutes. Sometimes it raises an
exception. Sixteen workers evaluate a swarm, first in generations and then asynchronously. In an asynchronous run every
particle moves as soon as its own value is there.
"""

import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

optimum = np.array([1.0, -2.0, 0.5, 2.5])
bounds = [(-5.0, 5.0)] * 4


class Simulator:
    """A slow function that logs when each value came. The delay depends on the point alone."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.log: list[tuple[float, float]] = []

    def __call__(self, x: np.ndarray) -> float:
        """Return the value after a delay, or fail."""
        chance = np.random.default_rng(int(1e6 * abs(x).sum()))
        time.sleep(0.02 * chance.lognormal(sigma=1.0))
        if chance.random() < 0.02:
            raise ArithmeticError("the solver diverged")
        value = float(((x - optimum) ** 2).sum() + np.sin(4 * x).sum() + 4)
        self.log.append((time.perf_counter() - self.began, value))
        return value


# %%
# Each run takes a second and a half. Exceptions are counted, and the run continues.
runs = {}
for name, asynchronous in (("in generations", False), ("asynchronous", True)):
    simulate = Simulator()
    with ThreadPoolExecutor(16) as workers, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"workers": ps.Workers(workers, asynchronous=asynchronous), "time_limit": 1.5, "maxiter": None}
        result = ps.minimize(simulate, bounds, method="PAO", n_particles=32, rng=1, **how)
    runs[name] = simulate.log
    print(f"{name:>14}: {result.nfev} evaluations, best {result.fun:.4f}, failures {dict(result.failure_kinds)}")

# %%
# The best value so far against time. In generations, all workers wait for the slowest one.
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, log in runs.items():
    clock, values = np.array(sorted(log)).T
    ax.step(clock, np.minimum.accumulate(values), where="post", label=f"{name}: {len(log)} values")
ax.set_xlabel("seconds")
ax.set_yscale("log")
ax.set_ylabel("best value so far")
ax.legend()
plt.show()

# %%
# An evaluation that hangs is killed after ``timeout`` seconds, together with every process it has started. An
# evaluation that crashes loses only its own point. Both count as failed, and the run continues.


def hangs_or_crashes(x: np.ndarray) -> float:
    """Hang or crash near the upper bound of ``x[0]``."""
    if x[0] > 4.6:
        time.sleep(3600)
    if x[0] > 4.2:
        os._exit(3)
    return float(((x - optimum) ** 2).sum())


result = ps.minimize(
    hangs_or_crashes, bounds, method="PAO", n_particles=20, maxiter=10, workers=ps.Workers(2, timeout=0.2), rng=1
)
print(result.message)
print(result.failures[0])
