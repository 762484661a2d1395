r"""
Hares and lynxes: stop a run, and continue it
=============================================

The Hudson's Bay Company counted the pelts of hares and lynxes that trappers brought in, in thousands per year (the
years 1900 to 1920 of the well-known record; see Howard, *Modeling basics*, 2009). Lotka and Volterra's equations
describe how such populations drive each other:

.. math:: \dot u = (\alpha - \beta v) u, \qquad \dot v = (-\gamma + \delta u) v

We fit the four rates and the two populations of 1900 to both records. A real model of this kind may take an hour per
simulation, so the fit uses two processes, writes every simulation to a file, survives an interrupt, and continues where
it was.
"""

import signal
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import paoswarm as ps

years = np.arange(1900, 1921)
hare = np.array([30, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22, 25.4, 27.1])
hare = np.append(hare, [40.3, 57, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7])
lynx = np.array([4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4])
lynx = np.append(lynx, [8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6])


def populations(p: dict) -> dict:
    """Hares and lynxes year by year. Logarithms keep them positive."""

    def slope(_: float, logs: np.ndarray) -> list[float]:
        u, v = np.exp(logs)
        return [p["alpha"] - p["beta"] * v, -p["gamma"] + p["delta"] * u]

    times = years - years[0]
    solved = solve_ivp(slope, (0, times[-1]), np.log([p["hare_1900"], p["lynx_1900"]]), t_eval=times, rtol=1e-7)
    if not solved.success:
        raise ArithmeticError(solved.message)  # counted as a failed simulation; the fit continues
    return {"hares": np.exp(solved.y[0]), "lynxes": np.exp(solved.y[1])}


# %%
# Nobody knows the rates, so their ranges span two decades, on logarithmic scales. Errors of counts are relative: the
# noise is log-normal, with an unknown size for each record.
rate, share = ps.Real(0.05, 5, log=True), ps.Real(0.002, 0.2, log=True)
space = {
    "alpha": rate,  # growth of hares, per year
    "beta": share,  # of the hares, eaten per thousand lynxes and year
    "gamma": rate,  # death of lynxes, per year
    "delta": share,  # growth of lynxes per thousand hares and year
    "hare_1900": ps.Real(5, 100, log=True),
    "lynx_1900": ps.Real(1, 50, log=True),
}
data = {"hares": hare, "lynxes": lynx}

# %%
# The fit is interrupted after 100 simulations. The callback stands for your Ctrl-C; a power cut would do no more harm.
# The result is the best point so far.
warnings.filterwarnings("ignore", message="the function was busy")  # two processes gain little with so quick equations
file = Path(tempfile.mkdtemp()) / "hares.paoswarm"
options = {"likelihood": "lognormal", "workers": 2, "rng": 1, "store": file}


def ctrl_c(intermediate_result: ps.results.Result) -> None:
    """Interrupt this process."""
    if intermediate_result.nfev >= 100:
        signal.raise_signal(signal.SIGINT)


first = ps.fit(populations, space, data, callback=ctrl_c, **options)
print(first.message)

# %%
# The same call continues: recorded points are not simulated again. ``paoswarm watch`` and ``paoswarm explore`` show the
# file while a fit goes on, also from another machine.
fit = ps.fit(populations, space, data, **options)
print(fit)

# %%
# Both records with bands of 95 %: dark where the curve lies, light for a new count.
low, high = fit.band()
least, most = fit.band(noise=True)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained")
for colour, name in zip(("C0", "C1"), data, strict=True):
    left.fill_between(years, least[name], most[name], color=colour, alpha=0.12, linewidth=0)
    left.fill_between(years, low[name], high[name], color=colour, alpha=0.3, linewidth=0)
    left.plot(years, fit.predictions[name], colour)
    left.plot(years, data[name], "o", color=colour, label=name)
left.set(xlabel="year", ylabel="pelts, thousands", ylim=(0, None), xlim=(1899.5, 1920.5))
left.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
left.legend()
right.step(fit.history.nfev, fit.history.best, where="post")
right.axvline(first.nfev, color="0.5", linestyle="--", label="interrupt")
right.set(xlabel="simulations", ylabel="best value so far", yscale="log")
right.legend()
plt.show()

assert abs(fit.best["alpha"] - 0.540) < 0.002
assert first.nfev < fit.nfev
