"""
Which oscillator is it?
=======================

A component is shaken, and its displacement is recorded with noise. Is it a linear oscillator, one whose spring hardens
(Duffing), or does its damping grow with the speed as well? For each model, `paoswarm.sample` gives the posterior of its
parameters and the evidence: how probable the data are under the model, before any fitting. The ratio of two evidences is
the odds of one model against the other. It punishes parameters that the data do not need.

The equation is :math:`\\ddot x + c \\dot x + q \\dot x |\\dot x| + k x + h x^3 = A \\cos \\omega t`. The data are made with
:math:`q = 0`: the Duffing oscillator is the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import paoswarm as ps

steps, per_step = 160, 2  # recorded points, and steps of the integration for each
dt = 0.15
time = dt * np.arange(1, steps + 1)
truth = {"c": 0.12, "k": 1.0, "h": 0.5, "sigma": 0.1}


def force(t: float) -> float:
    """A swept shaker, so that the response has large and small amplitudes."""
    return 0.7 * np.cos((0.5 + 0.03 * t) * t)


def simulate(c, k, h=0.0, q=0.0, n=steps) -> np.ndarray:
    """Displacements ``(m, n)`` for parameters ``(m,)``, from rest, with the classical Runge-Kutta method."""
    c, k, h, q = np.broadcast_arrays(np.atleast_1d(c), k, h, q)
    x, v, dx = np.zeros(len(c)), np.zeros(len(c)), dt / per_step

    def pull(x: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        return force(t) - (c + q * np.abs(v)) * v - (k + h * x * x) * x

    seen = np.empty((n, len(c)))
    for i in range(n * per_step):
        t = i * dx
        v1, a1 = v, pull(x, v, t)
        v2, a2 = v + dx / 2 * a1, pull(x + dx / 2 * v1, v + dx / 2 * a1, t + dx / 2)
        v3, a3 = v + dx / 2 * a2, pull(x + dx / 2 * v2, v + dx / 2 * a2, t + dx / 2)
        v4, a4 = v + dx * a3, pull(x + dx * v3, v + dx * a3, t + dx)
        x, v = x + dx / 6 * (v1 + 2 * v2 + 2 * v3 + v4), v + dx / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        seen[i // per_step] = x
    return seen.T


chance = np.random.default_rng(3)
record = simulate(truth["c"], truth["k"], truth["h"])[0] + truth["sigma"] * chance.standard_normal(steps)

# %%
# Each model is a set of priors. They are wide, and the same for a parameter in all models.
priors = {
    "c": stats.uniform(0, 1),
    "k": stats.uniform(0, 4),
    "sigma": stats.loguniform(0.01, 1),
    "h": stats.uniform(0, 4),
    "q": stats.uniform(0, 1),
}
models = {
    "linear": ("c", "k", "sigma"),
    "Duffing": ("c", "k", "sigma", "h"),
    "Duffing, quadratic damping": ("c", "k", "sigma", "h", "q"),
}
posteriors = {}
for model, names in models.items():

    def log_likelihood(p: np.ndarray, names: tuple[str, ...] = names) -> np.ndarray:
        """Log likelihood of parameter rows ``(m, d)``."""
        given = dict(zip(names, p.T, strict=True))
        sigma = given.pop("sigma")
        misses = ((simulate(**given) - record) ** 2).sum(axis=1)
        return -0.5 * misses / sigma**2 - steps * np.log(sigma * np.sqrt(2 * np.pi))

    posterior = ps.sample(log_likelihood, {name: priors[name] for name in names}, vectorized=True, rng=1)
    posteriors[model] = posterior
    print(f"{model}: {posterior.nfev} evaluations, log evidence {posterior.log_evidence:.2f}")

# %%
# The odds. The linear oscillator is out of the question. The damping that grows with the speed fits a little better, as
# every additional parameter does, but the data do not need it.
best = posteriors["Duffing"]
for model in ("linear", "Duffing, quadratic damping"):
    print(f"Duffing against {model}: {best.compare(posteriors[model])}")
print(best)
