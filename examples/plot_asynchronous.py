"""
A slow simulator that fails
===========================

A simulator takes anything from a hundredth to a tenth of a second here, think of minutes; sometimes it raises, and
sometimes it hangs. Sixteen workers evaluate a swarm, once in generations and once asynchronously, where every particle
moves as soon as its own value is there.
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
    """Remembers when each value came; a point decides how long it takes, so that both swarms meet the same."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.log: list[tuple[float, float]] = []

    def __call__(self, x: np.ndarray) -> float:
        """The value, late."""
        chance = np.random.default_rng(int(1e6 * abs(x).sum()))
        time.sleep(0.02 * chance.lognormal(sigma=1.0))
        if chance.random() < 0.02:
            raise ArithmeticError("the solver has diverged")
        value = float(((x - optimum) ** 2).sum() + np.sin(4 * x).sum() + 4)
        self.log.append((time.perf_counter() - self.began, value))
        return value


# %%
# A second and a half of each. Exceptions are survived and counted.
runs = {}
for name, asynchronous in (("in generations", False), ("asynchronous", True)):
    simulate = Simulator()
    with ThreadPoolExecutor(16) as workers, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"workers": workers, "asynchronous": asynchronous, "time_limit": 1.5, "maxiter": None}
        result = ps.minimize(simulate, bounds, n_particles=32, rng=1, **how)
    runs[name] = simulate.log
    print(f"{name:>14}: {result.nfev} evaluations, best {result.fun:.4f}, failures {dict(result.failure_kinds)}")

# %%
# The best value so far, by the clock. In generations, workers wait for the slowest of each.
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
# An evaluation that hangs is ended after ``timeout`` seconds, with everything it has started; one that crashes takes
# nothing with it but itself. Both count as failed, and the run goes on.


def hangs_or_crashes(x: np.ndarray) -> float:
    """Good for nothing on the right."""
    if x[0] > 4.6:
        time.sleep(3600)
    if x[0] > 4.2:
        os._exit(3)
    return float(((x - optimum) ** 2).sum())


result = ps.minimize(hangs_or_crashes, bounds, n_particles=20, maxiter=10, workers=2, timeout=0.2, rng=1)
print(result.message)
print(result.failures[0])
