r"""
Which oscillator is it?
=======================

A component is shaken, and its displacement is recorded with noise. Is it a linear oscillator, one whose spring hardens
(Duffing), or does its damping grow with the speed as well? For each model, `paoswarm.sample` gives the posterior of
its parameters and the evidence: how probable the data are under the model, before any fitting. The ratio of two
evidences is the odds of one model against the other. It punishes parameters that the data do not need.

The equation is

.. math:: \ddot x + c \dot x + q \dot x |\dot x| + k x + h x^3 = f(t)

The data are made with :math:`q = 0`: the Duffing oscillator is the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import paoswarm as ps

steps, dt = 140, 0.15
time = dt * np.arange(1, steps + 1)
truth = {"c": 0.12, "k": 1.0, "h": 0.5, "sigma": 0.1}


def force(t: float) -> float:
    """A swept shaker, so that the response has large and small amplitudes."""
    return 0.7 * np.cos((0.5 + 0.03 * t) * t)


def simulate(c, k, h=0.0, q=0.0, n=steps) -> np.ndarray:
    """Displacements ``(m, n)`` for parameters ``(m,)``, from rest, with the classical Runge-Kutta method."""
    c, k, h, q = np.broadcast_arrays(np.atleast_1d(c), k, h, q)
    x, v = np.zeros(len(c)), np.zeros(len(c))

    def pull(x: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        return force(t) - (c + q * np.abs(v)) * v - (k + h * x * x) * x

    seen = np.empty((n, len(c)))
    for i in range(n):
        t = i * dt
        v1, a1 = v, pull(x, v, t)
        v2, a2 = v + dt / 2 * a1, pull(x + dt / 2 * v1, v + dt / 2 * a1, t + dt / 2)
        v3, a3 = v + dt / 2 * a2, pull(x + dt / 2 * v2, v + dt / 2 * a2, t + dt / 2)
        v4, a4 = v + dt * a3, pull(x + dt * v3, v + dt * a3, t + dt)
        x, v = x + dt / 6 * (v1 + 2 * v2 + 2 * v3 + v4), v + dt / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        seen[i] = x
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
    print(f"{model}: {posterior.n_evaluations} evaluations, log evidence {posterior.log_evidence:.2f}")

# %%
# The odds. The linear oscillator is out of the question. The damping that grows with the speed fits a little better, as
# every additional parameter does, but the data do not need it.
best = posteriors["Duffing"]
for model in ("linear", "Duffing, quadratic damping"):
    print(f"Duffing against {model}: {best.compare(posteriors[model])}")
print(best)

# %%
# The posterior of the Duffing oscillator. The red lines are the parameters that the data were made with.
best.plot(truth=truth)
plt.show()

# %%
# Predictions with their uncertainty, in the time of the record and after it. The linear oscillator misses the record
# already, and its narrow band does not say so: a posterior holds only if the model does. The band of the Duffing
# oscillator widens after the record, and the truth stays inside.
ahead = 200
later = dt * np.arange(1, ahead + 1)
fig, ax = plt.subplots(figsize=(10, 4), layout="constrained")
for model, colour in (("linear", "C1"), ("Duffing", "C0")):
    names = models[model]

    def displacement(p: np.ndarray, names: tuple[str, ...] = names) -> np.ndarray:
        """Displacements for parameter rows, without the noise of the sensor."""
        given = dict(zip(names, p.T, strict=True))
        return simulate(**{name: given[name] for name in names if name != "sigma"}, n=ahead)

    predicted = posteriors[model].predict(displacement, 1000, rng=2, vectorized=True)
    low, high = np.quantile(predicted, [0.025, 0.975], axis=0)
    ax.fill_between(later, low, high, color=colour, alpha=0.6, linewidth=0, label=f"{model}, 95 %")
ax.plot(later, simulate(truth["c"], truth["k"], truth["h"], n=ahead)[0], "k", linewidth=0.8, label="truth")
ax.plot(time, record, ".", color="0.4", markersize=4, label="record")
ax.axvline(time[-1], color="0.6", linestyle=":")
ax.set(xlabel="time", ylabel="displacement", xlim=(0, later[-1]))
ax.legend(ncols=4, loc="lower left", fontsize="small")
plt.show()

low, high = best.interval(0.999)
names = models["Duffing"]
assert all(a < truth[name] < b for name, a, b in zip(names, low, high, strict=True))
assert best.log_evidence > max(posteriors[other].log_evidence for other in models if other != "Duffing")
