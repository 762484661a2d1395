"""Minimise a function of eight unknowns with many local minima, print the result and plot the convergence."""

from __future__ import annotations

import pathlib
import time

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

CENTRE = np.array([1.1, -2.3, 0.7, 3.2, -1.6, 0.4, -3.0, 2.1])  # not the middle of the box, which is too easy


def rastrigin(x: np.ndarray) -> np.ndarray:
    """Rastrigin's function around CENTRE: about ten local minima in every direction, 10**8 in the box."""
    z = x - CENTRE
    return (z**2 - 10 * np.cos(2 * np.pi * z) + 10).sum(axis=-1)


def main() -> None:
    """Run the demonstration."""
    bounds = [(-5.12, 5.12)] * 8
    # Each particle follows its neighbours on a ring, not one leader. The swarm agrees more slowly, and is therefore
    # less likely to agree on the wrong minimum.
    ring = ps.attractors.NeighbourhoodBest("ring", size=5)
    method = ps.PAO(attractors=(ps.attractors.local_best, ring))
    print(method, end="\n\n")

    started = time.perf_counter()
    result = ps.minimize(rastrigin, bounds, method=method, n_particles=500, maxiter=400, vectorized=True, rng=1)
    seconds = time.perf_counter() - started
    best, deviation = result.x, result.next_step.std

    print(f"Rastrigin's function of 8 unknowns: {result.nfev} evaluations in {seconds:.2f} s. {result.message}")
    print(f"Best value {result.fun:.2g} (the true minimum is 0)\n")
    print("unknown        best     spread of the swarm         truth")
    for i, truth in enumerate(CENTRE):
        print(f"   x[{i}]   {best[i]:9.6f}       +- {deviation[i]:.1e}       {truth:9.6f}")

    folder = pathlib.Path("demo")
    folder.mkdir(exist_ok=True)
    ax = ps.plot.convergence(result)
    ax.set_title("Rastrigin's function, 8 unknowns")
    ax.figure.savefig(folder / "convergence.png", dpi=120)
    plt.close(ax.figure)
    print(f"\nConvergence plot: {folder / 'convergence.png'}")


if __name__ == "__main__":
    main()
