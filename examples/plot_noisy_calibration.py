"""
Calibrate a stochastic simulator
================================

The simulator is a damped oscillation. Its amplitude fluctuates and its output is noisy, so the same parameters give a
different misfit each time. A plain swarm remembers the luckiest draw for ever. With ``reevaluate=0.2`` the best points
are measured again, and the swarm compares means with their standard errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

time = np.linspace(0, 10, 40)
truth = np.array([1.2, 0.15, 2.0])  # amplitude, decay, frequency
bounds = [(0.2, 3.0), (0.0, 1.0), (0.5, 4.0)]
chance = np.random.default_rng(0)


def response(p: np.ndarray) -> np.ndarray:
    """The noise-free oscillation for parameter rows ``(m, 3)``."""
    return p[:, :1] * np.exp(-p[:, 1:2] * time) * np.cos(p[:, 2:] * time)


def misfit(p: np.ndarray) -> np.ndarray:
    """Mean squared difference between one noisy simulation and the data."""
    amplitude = 1 + 0.3 * chance.normal(size=(len(p), 1))
    simulated = amplitude * response(p) + 0.3 * chance.normal(size=(len(p), len(time)))
    return ((simulated - response(truth[None])) ** 2).mean(axis=1)


def error(p: np.ndarray) -> np.ndarray:
    """Root mean square difference between the fitted oscillation and the true one."""
    return np.sqrt(((response(p) - response(truth[None])) ** 2).mean(axis=1))


# %%
# Sixty runs of each kind, with ten thousand simulations per run.
settings = {
    "method": "PAO",
    "runs": 60,
    "vectorized": True,
    "n_particles": 100,
    "maxiter": None,
    "maxfev": 10_000,
    "rng": 1,
}
plain = ps.minimize_many(misfit, bounds, **settings)
careful = ps.minimize_many(misfit, bounds, reevaluate=0.2, **settings)
for name, many in (("plain", plain), ("reevaluate=0.2", careful)):
    print(f"{name:>15}: reported misfit {np.median(many.fun):.3f}, error of the curve {np.median(error(many.x)):.3f}")

# %%
# The plain runs report a misfit that no parameters have. The runs with ``reevaluate`` are closer to the truth.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.boxplot([error(plain.x), error(careful.x)], tick_labels=["plain", "reevaluate=0.2"])
left.set_ylabel("rms error of the fitted oscillation")
right.plot(time, response(careful.x).T, color="C1", alpha=0.15)
right.plot(time, response(plain.x[:20]).T, color="0.6", alpha=0.3, lw=0.8)
right.plot(time, response(truth[None])[0], "k", lw=2, label="truth")
right.set_xlabel("time")
right.legend()
plt.show()

# %%
# How far apart the particles of one run still are. This is not the error of the fit.
one = careful.run(0)
for name, best, apart, true in zip(("amplitude", "decay", "frequency"), one.x, one.next_step.std, truth, strict=True):
    print(f"{name:>10}: best {best:.3f} (truth {true}), particles spread by +- {apart:.3f}")

assert np.median(error(careful.x)) < np.median(error(plain.x))
