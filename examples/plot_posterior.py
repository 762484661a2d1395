"""
Calibrate an oscillator and compare two models
==============================================

A mass on a spring is pulled to one side and released. From a noisy record of its motion we estimate its natural
frequency, its damping ratio and the noise of the sensor, each with its uncertainty. We also compute the odds that it is
damped at all.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import paoswarm as ps

truth = {"frequency": 2.0, "damping": 0.015, "noise": 0.25}
time = np.linspace(0, 15, 60)
chance = np.random.default_rng(5)


def motion(frequency: np.ndarray, damping: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Displacement of an underdamped mass released at one; ``(m, len(t))`` for parameters ``(m, 1)``."""
    turned = frequency * np.sqrt(1 - damping**2)
    return np.exp(-damping * frequency * t) * (np.cos(turned * t) + damping * frequency / turned * np.sin(turned * t))


seen = motion(truth["frequency"], truth["damping"], time) + truth["noise"] * chance.standard_normal(len(time))

# %%
# The calibration needs a log likelihood and a prior for each parameter. The likelihood takes many parameter rows at
# once, so the calibration takes only seconds. Over this wide range of frequencies it has many local maxima.
prior = {
    "frequency": stats.uniform(0.1, 10),
    "damping": stats.uniform(0, 0.9),
    "noise": stats.lognorm(1, scale=0.3),
}


def log_likelihood(x: np.ndarray) -> np.ndarray:
    """Log likelihood of parameter rows ``(m, 3)``."""
    frequency, damping, noise = x.T[:, :, None]
    return stats.norm.logpdf(seen, motion(frequency, damping, time), noise).sum(axis=1)


posterior = ps.sample(log_likelihood, prior, vectorized=True, rng=1)
print(posterior)

# %%
# The draws have equal weight, so any tool can use them. As a pandas table:
print(posterior.to_dataframe().describe().round(3))
print(f"{len(posterior.draws)} draws, {posterior.n_distinct} of them different")

# %%
# The posterior. The red lines are the parameters that the data were made with.
posterior.plot(truth=truth)
plt.show()

# %%
# Posterior predictive draws: the next record, and the motion itself, also after the last measurement.
later = np.linspace(0, 20, 400)


def curves(x: np.ndarray) -> np.ndarray:
    """Motion for parameter rows."""
    return motion(x[:, :1], x[:, 1:2], later)


def records(x: np.ndarray) -> np.ndarray:
    """Motion with the noise of the sensor."""
    return curves(x) + x[:, 2:] * chance.standard_normal((len(x), len(later)))


fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for function, colour, label in ((records, "0.85", "next record, 95 %"), (curves, "C0", "motion, 95 %")):
    low, high = posterior.band(0.95, function, n=2000, rng=2, vectorized=True)
    ax.fill_between(later, low, high, color=colour, alpha=0.8, linewidth=0, label=label)
ax.plot(later, motion(truth["frequency"], truth["damping"], later), "C3", lw=1, label="truth")
ax.plot(time, seen, "k.", label="data")
ax.set(xlabel="time", ylabel="displacement", xlim=(0, 20))
ax.legend(loc="upper right", ncols=4, fontsize="small")
plt.show()

# %%
# Is it damped at all? A model without damping has one parameter less. The evidence weighs its poorer fit against its
# simplicity.
undamped = ps.sample(
    lambda x: log_likelihood(np.insert(x, 1, 0.0, axis=1)),
    {name: prior[name] for name in ("frequency", "noise")},
    vectorized=True,
    rng=1,
)
print("damped against undamped:", posterior.compare(undamped))

# %%
# For everything else, use ArviZ. ``posterior.to_datatree()`` holds the draws and their log densities. If you pass the
# functions, it also holds predictions and the log likelihood of every observation.
tree = posterior.to_datatree(posterior_predictive={"displacement": curves}, vectorized=True)
print(", ".join(f"{group}: {dict(tree[group].sizes)}" for group in tree.children))

low, high = posterior.interval(0.999)
assert ((low < list(truth.values())) & (list(truth.values()) < high)).all()
