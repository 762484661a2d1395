"""A program as users write it. mypy checks it, strictly, against the installed package; then it is run.

It needs nothing but paoswarm's own dependencies.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import paoswarm as ps

Floats = NDArray[np.float64]


def bowl(x: Floats) -> float:
    """Return a value for an array."""
    return float(((x - 0.5) ** 2).sum())


def by_name(p: dict[str, Any]) -> float:
    """Return a value for variables with names."""
    return float((np.log10(p["rate"]) - 1) ** 2 + (p["order"] - 3) ** 2 + (p["kernel"] != "b"))


def log_likelihood(x: Floats) -> float:
    """A normal distribution with standard deviation 0.1 around 0.5."""
    return -0.5 * float((((x - 0.5) / 0.1) ** 2).sum())


class Halfway(ps.Method):
    """Every particle goes half of the way to the best point."""

    def ask(self, state: ps.Swarm, draw: Any, progress: float = 0.0) -> ps.Proposal:
        """Propose positions and velocities."""
        x = (state.position + state.global_best) / 2
        return ps.Proposal(x, x - state.position)


def main() -> None:
    """Use each part of the package once."""
    result = ps.minimize(bowl, [(-1, 1)] * 2, maxfev=600, rng=1)
    assert_type(result, ps.results.Result)
    assert_type(result.x, Floats)
    assert_type(result.hint, str)
    assert result.fun < 1e-6, result

    space = {"rate": ps.Real(1e-3, 1e3, log=True), "order": ps.Integer(1, 8), "kernel": ps.Choice(["a", "b"])}
    best: dict[str, Any] = ps.minimize(by_name, space, maxfev=600, rng=1).best
    assert (best["order"], best["kernel"]) == (3, "b"), best

    pso = ps.classic.PSO()
    many = ps.minimize_many(bowl, [(-1, 1)] * 2, runs=3, method=pso, maxiter=20, rng=1)
    assert_type(many, ps.results.ManyResult)
    assert many.fun.shape == (3,)
    ps.minimize(bowl, [(-1, 1)] * 2, method=Halfway(), maxiter=5, rng=1)

    optimizer = ps.Optimizer([(-1, 1)] * 2, method=ps.PAO(dt=0.5), n_particles=10, rng=1)
    for _ in range(3):
        optimizer.tell([bowl(x) for x in optimizer.ask()])
    assert optimizer.result.nfev == 30

    sure = ps.uncertainty(result, sum_of_squares=bowl, n_data=4)
    assert_type(sure, ps.results.FitUncertainty)
    fit = ps.fit(lambda p: [p["a"], 2 * p["a"]], {"a": (0, 5)}, np.array([1.0, 2.1]), rng=1)
    assert_type(fit, ps.results.Fit)
    assert_type(fit.standard_errors, Floats)

    posterior = ps.sample(log_likelihood, {"a": (0, 1), "b": (0, 1)}, n_effective=200, rng=1)
    assert_type(posterior, ps.results.Posterior)
    assert_type(posterior.mean(), Floats)
    assert_type(posterior.log_evidence, float)
    assert abs(posterior.log_evidence - np.log(2 * np.pi * 0.01)) < 0.5, posterior

    assert_type(ps.__version__, str)
    print(f"paoswarm {ps.__version__}: {result.message}")


if __name__ == "__main__":
    main()
