"""
Calibrate a stochastic simulator: influenza in a school
=======================================================

In January 1978, influenza went through an English boarding school with 763 boys. Every day the boys in bed were counted
(*British Medical Journal*, 4 March 1978). The simulator is stochastic: each boy catches the illness, and recovers, by
chance. Two simulations with the same rates differ, as two epidemics would, so that a good misfit may be good luck.

A plain search keeps the luckiest draw for ever. With ``reevaluate=0.2`` good points are measured again, and compared by
their mean and its standard error.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

in_bed = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])
boys, per_day = 763, 4
chance = np.random.default_rng(1)


def simulate(p: np.ndarray) -> np.ndarray:
    """Boys in bed on 14 days, one epidemic for each row (infections and recoveries per day, ill boys at the start)."""
    ill = np.round(p[:, 2]).astype(int)
    healthy = boys - ill
    days = [ill]
    for step in range(1, per_day * (len(in_bed) - 1) + 1):
        caught = chance.binomial(healthy, 1 - np.exp(-p[:, 0] * ill / boys / per_day))
        recovered = chance.binomial(ill, 1 - np.exp(-p[:, 1] / per_day))
        healthy, ill = healthy - caught, ill + caught - recovered
        if step % per_day == 0:
            days.append(ill)
    return np.stack(days, axis=1)


def misfit(p: np.ndarray) -> np.ndarray:
    """Root mean square difference of square roots, which makes large and small counts equally uncertain."""
    return np.sqrt(((np.sqrt(simulate(p)) - np.sqrt(in_bed)) ** 2).mean(axis=1))


bounds = [(0.2, 5.0), (0.05, 2.0), (1.0, 10.0)]

# %%
# Thirty runs of each kind, with 6000 simulations per run. What a run reports is compared with the mean misfit of 2000
# new epidemics at its best point.
settings = {
    "method": "PAO",
    "runs": 30,
    "vectorized": True,
    "n_particles": 60,
    "maxiter": None,
    "maxfev": 6000,
    "rng": 1,
}
kinds = {"plain": 0.0, "reevaluate=0.2": 0.2}
many = {name: ps.minimize_many(misfit, bounds, reevaluate=share, **settings) for name, share in kinds.items()}
honest = {name: np.array([misfit(np.tile(x, (2000, 1))).mean() for x in runs.x]) for name, runs in many.items()}
for name, runs in many.items():
    print(f"{name:>15}: reported {np.median(runs.fun):.3f}, in new epidemics {np.median(honest[name]):.3f}")

# %%
# The plain runs promise a misfit that their rates do not have. The right figure shows epidemics with the rates of the
# run whose report was the best of those that measured again.
best = many["reevaluate=0.2"].x[np.argmin(many["reevaluate=0.2"].fun)]
print(f"infections {best[0]:.2f} and recoveries {best[1]:.2f} per day and ill boy: at first, each one infects")
print(f"{best[0] / best[1]:.1f} others")
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for i, (name, runs) in enumerate(many.items()):
    left.plot(runs.fun, honest[name], "o", color=f"C{i}", alpha=0.7, label=name)
ends = np.array([0.95 * min(runs.fun.min() for runs in many.values()), 1.02 * max(h.max() for h in honest.values())])
left.plot(ends, ends, "k:", linewidth=1, label="an honest report")
left.set(xlabel="reported misfit", ylabel="mean misfit of new epidemics", xlim=ends)
left.legend()
day = np.arange(1, 15)
low, middle, high = np.quantile(simulate(np.tile(best, (4000, 1))), [0.05, 0.5, 0.95], axis=0)
right.fill_between(day, low, high, color="C1", alpha=0.25, linewidth=0, label="nine of ten simulated epidemics")
right.plot(day, middle, "C1")
right.plot(day, in_bed, "ko", label="counted")
right.set(xlabel="day", ylabel="boys in bed")
right.legend()
plt.show()

assert np.median(honest["reevaluate=0.2"]) < np.median(honest["plain"])
assert np.median(many["plain"].fun) < 0.8 * np.median(honest["plain"])
