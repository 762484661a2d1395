"""Measure what each hyperparameter choice is worth: the tables of ``docs/hyperparameters.md``.

It takes about a minute. Every table compares choices at the same number of evaluations, over
independent runs. The optimum is shifted away from the middle of the box.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from posterior_problems import KIRBY2, KIRBY2_CERTIFIED, rational

import paoswarm as ps
from paoswarm.core import swarm, walls

A = ps.attractors
Objective = Callable[[np.ndarray], np.ndarray]


def shift(d: int, width: float) -> np.ndarray:
    return 0.6 * width * np.random.default_rng(d).uniform(-1, 1, d)


def sphere(d: int) -> Objective:
    centre = shift(d, 5.12)
    return lambda x: ((x - centre) ** 2).sum(axis=-1)


def rastrigin(d: int) -> Objective:
    centre = shift(d, 5.12)
    return lambda x: ((x - centre) ** 2 - 10 * np.cos(2 * np.pi * (x - centre)) + 10).sum(axis=-1)


def ackley(d: int) -> Objective:
    centre = shift(d, 5.12)

    def f(x: np.ndarray) -> np.ndarray:
        z = x - centre
        wave = np.exp(np.cos(2 * np.pi * z).mean(axis=-1))
        return -20 * np.exp(-0.2 * np.sqrt((z**2).mean(axis=-1))) - wave + 20 + np.e

    return f


def rosenbrock(d: int) -> Objective:
    return lambda x: (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=-1)


def rotated_ellipsoid(d: int, condition: float) -> Objective:
    rng = np.random.default_rng(d)
    rotation, _ = np.linalg.qr(rng.normal(size=(d, d)))
    scales, centre = condition ** (np.arange(d) / (d - 1)), shift(d, 5.12)
    return lambda x: (((x - centre) @ rotation) ** 2 * scales).sum(axis=-1)


def near_wall(d: int) -> Objective:
    return lambda x: ((x - 0.99 * 5.12) ** 2).sum(axis=-1)


def in_corner(d: int) -> Objective:
    return lambda x: ((x - 5.12) ** 2 - 10 * np.cos(2 * np.pi * (x - 5.12)) + 10).sum(axis=-1)


def schwefel(d: int) -> Objective:
    def f(x: np.ndarray) -> np.ndarray:
        z = x * 500 / 5.12
        return 418.9828872724338 * d - (z * np.sin(np.sqrt(np.abs(z)))).sum(axis=-1)

    return f


def table(title: str, problems: dict[str, Objective], methods: dict[str, ps.PAO], d: int, **options: object) -> None:
    """Print the median and, in brackets, the mean of the final value, one row per method."""
    print(f"\n{title}")
    print(f"{'':<26}" + "".join(f"{name:>24}" for name in problems))
    for label, method in methods.items():
        row = f"{label:<26}"
        for fun in problems.values():
            settings = {"runs": 100, "vectorized": True, "tol": 0, "rng": 1, **options}
            many = ps.minimize_many(fun, [(-5.12, 5.12)] * d, method=method, **settings)
            row += f"{f'{np.median(many.fun):.1e} ({many.fun.mean():.1e})':>24}"
        print(row, flush=True)


def restitution_table() -> None:
    """Print how many runs stick to a wall near the optimum, with and without restitution of the velocity."""
    print("\nSphere with its optimum 1 % inside the wall: runs that stick (final value above 1e-8) of 400")
    usual = walls.RESTITUTION
    for share in (0.0, usual):
        walls.RESTITUTION = share
        many = ps.minimize_many(
            near_wall(8), [(-5.12, 5.12)] * 8, method=ps.PAO(), runs=400, vectorized=True, tol=0, rng=1
        )
        print(f"   restitution {share}: {int((many.fun > 1e-8).sum())}", flush=True)
    walls.RESTITUTION = usual


def noise_table() -> None:
    """Print the true excess at the returned point for a noisy sphere and a noisy calibration."""
    rng = np.random.default_rng(0)
    centre, truth = shift(5, 5.12), np.array([1.2, 0.15, 2.0])
    time = np.linspace(0, 10, 40)

    def response(p: np.ndarray) -> np.ndarray:
        return p[:, :1] * np.exp(-p[:, 1:2] * time) * np.cos(p[:, 2:] * time)

    data = response(truth[None])

    def calibration(p: np.ndarray) -> np.ndarray:  # the simulator's amplitude fluctuates and its output is noisy
        amplitude = 1 + 0.3 * rng.normal(size=(len(p), 1))
        simulated = amplitude * response(p) + 0.3 * rng.normal(size=(len(p), len(time)))
        return ((simulated - data) ** 2).mean(axis=-1)

    def expected_loss(p: np.ndarray) -> np.ndarray:
        r = response(p)
        return ((r - data) ** 2).mean(axis=-1) + 0.09 * (r**2).mean(axis=-1) + 0.09

    def noisy_sphere(x: np.ndarray) -> np.ndarray:
        return ((x - centre) ** 2).sum(axis=-1) + rng.normal(size=len(x))

    best = ps.minimize(
        expected_loss, [(0.2, 3), (0.0, 1), (0.5, 4)], method=ps.PAO(), vectorized=True, maxiter=300, rng=1
    )
    cases = {
        "sphere, 5-D, noise 1": (noisy_sphere, [(-5.12, 5.12)] * 5, lambda x: ((x - centre) ** 2).sum(axis=-1)),
        "calibration, 3 unknowns": (
            calibration,
            [(0.2, 3), (0.0, 1), (0.5, 4)],
            lambda p: expected_loss(p) - best.fun,
        ),
    }
    print("\nNoisy objectives: geometric mean of the true excess at the returned point, 100 runs, 10000 evaluations")
    for name, (fun, box, excess) in cases.items():
        row = f"{name:<26}"
        usual = swarm.CAUTION
        for share, caution, label in (
            (0.0, usual, "without"),
            (0.2, usual, "reevaluate=0.2"),
            (0.2, 0.0, "plain means"),
        ):
            swarm.CAUTION = caution
            many = ps.minimize_many(
                fun,
                box,
                method=ps.PAO(),
                vectorized=True,
                n_particles=100,
                maxiter=None,
                maxfev=10_000,
                reevaluate=share,
                tol=0,
                rng=1,
            )
            row += f"   {label}: {np.exp(np.log(excess(many.x)).mean()):.2e}"
        swarm.CAUTION = usual
        print(row, flush=True)


def polish_table() -> None:
    """Print what polishing and dense noise achieve on a regression with a narrow, oblique valley."""
    limits = [(0, 10), (-1, 0), (0, 0.1), (-0.1, 0), (0, 1e-3)]
    y, x = np.array(KIRBY2.split(), dtype=float).reshape(2, -1)
    certified = ((rational(np.array([KIRBY2_CERTIFIED]), x) - y) ** 2).sum()

    def residual(b: np.ndarray) -> np.ndarray:
        return ((rational(b, x) - y) ** 2).sum(axis=1)

    print("\nKirby2 (NIST StRD): residual divided by the certified one, smallest to largest of 10 runs")
    for name, options in {
        "default": {},
        "polish=True": {"polish": True},
        "covariance": {"method": ps.PAO(noise_scale=ps.noise.covariance)},
    }.items():
        runs = [ps.minimize(residual, limits, vectorized=True, rng=seed, **options) for seed in range(10)]
        ratios, spent = sorted(run.fun / certified for run in runs), sorted(run.nfev for run in runs)
        hints = sum(bool(run.hint) for run in runs)
        print(f"{name:<14}{ratios[0]:.6g} to {ratios[-1]:.6g}, {spent[0]} to {spent[-1]} evaluations, {hints} hints")


def main() -> None:
    warnings.simplefilter("ignore", ps.errors.HyperparameterWarning)
    rho = {f"rho = {r}": ps.PAO.from_behaviour(spread=r) for r in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.4, 2.0)}
    table("Stationary spread (damping 0.2, phase 1.41)", {"sphere": sphere(8), "Rastrigin": rastrigin(8)}, rho, 8)
    patient = ps.schedules.patient_step
    steps = {f"dt = {dt}": ps.PAO(dt=dt) for dt in (1.0, 0.3, 0.1)}
    steps |= {f"patient_step(dt={dt})": ps.PAO(dt=patient(dt)) for dt in (1.0, 0.3, 0.1)}
    problems = {"sphere": sphere(8), "Ackley": ackley(8), "Rastrigin": rastrigin(8), "Rosenbrock": rosenbrock(8)}
    table("Time step", problems, steps, 8)
    shapes = {"spread": ps.PAO(), "covariance": ps.PAO(noise_scale=ps.noise.covariance)}
    problems = {f"ellipsoid {c:.0e}": rotated_ellipsoid(8, c) for c in (1e2, 1e4, 1e6)}
    problems |= {"sphere": sphere(8), "Rosenbrock": rosenbrock(8), "Rastrigin": rastrigin(8)}
    table("Noise scale, rotated ellipsoids by condition number", problems, shapes, 8, runs=50)
    leaders = {
        "global_best": ps.PAO(),
        "ring, 1": ps.PAO(attractors=(A.local_best, A.NeighbourhoodBest("ring"))),
        "ring, 5": ps.PAO(attractors=(A.local_best, A.NeighbourhoodBest("ring", 5))),
        "von Neumann": ps.PAO(attractors=(A.local_best, A.NeighbourhoodBest("von neumann"))),
        "random, 3": ps.PAO(attractors=(A.local_best, A.NeighbourhoodBest("random", 3))),
    }
    problems = {"Rastrigin": rastrigin(8), "sphere": sphere(8)}
    table("Leaders, 200 particles, 300 generations", problems, leaders, 8, runs=50, n_particles=200, maxiter=300)
    walls = {name: ps.PAO(walls=name) for name in ("clip", "reflect", "periodic")}
    problems = {"1 % inside": near_wall(8), "Rastrigin, corner": in_corner(8), "Schwefel": schwefel(8)}
    table("Walls", problems, walls, 8)
    restitution_table()
    noise_table()
    polish_table()


if __name__ == "__main__":
    main()
