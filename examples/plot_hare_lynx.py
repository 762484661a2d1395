r"""
Hares and lynxes: stop a run, and continue it
=============================================

The Hudson's Bay Company counted the pelts of hares and lynxes that trappers brought in, in thousands per year (the
years 1900 to 1920 of the well-known record; see Howard, *Modeling basics*, 2009). Lotka and Volterra's equations
describe how such populations drive each other:

.. math:: \dot u = (\alpha - \beta v) u, \qquad \dot v = (-\gamma + \delta u) v

We calibrate the four rates and the two populations of 1900. Every evaluation solves the equations. A real model of this
kind may take an hour per evaluation, so the run uses two processes, writes each value to a file, survives an interrupt,
and continues where it was.
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


def populations(p: dict, t: np.ndarray) -> np.ndarray:
    """Hares and lynxes ``(2, len(t))`` at times ``t`` in years since 1900. Logarithms keep them positive."""

    def slope(_: float, logs: np.ndarray) -> list[float]:
        u, v = np.exp(logs)
        return [p["alpha"] - p["beta"] * v, -p["gamma"] + p["delta"] * u]

    solved = solve_ivp(slope, (0, t[-1]), np.log([p["hare_1900"], p["lynx_1900"]]), t_eval=t, rtol=1e-7)
    if not solved.success:
        raise ArithmeticError(solved.message)  # counted as a failed evaluation; the run continues
    return np.exp(solved.y)


def residuals(p: dict) -> np.ndarray:
    """Differences of logarithms: errors of counts are relative."""
    return np.log(np.stack([hare, lynx]) / populations(p, years - 1900.0)).ravel()


def misfit(p: dict) -> float:
    """What is minimised."""
    return float((residuals(p) ** 2).sum())


# %%
# Nobody knows the rates, so their ranges span two decades, on logarithmic scales.
rate, share = ps.Real(0.05, 5, log=True), ps.Real(0.002, 0.2, log=True)
space = {
    "alpha": rate,  # growth of hares, per year
    "beta": share,  # of the hares, eaten per thousand lynxes and year
    "gamma": rate,  # death of lynxes, per year
    "delta": share,  # growth of lynxes per thousand hares and year
    "hare_1900": ps.Real(5, 100, log=True),
    "lynx_1900": ps.Real(1, 50, log=True),
}

# %%
# The run is interrupted after 400 evaluations. The callback stands for your Ctrl-C; a power cut would do no more harm.
# The result is the best point so far. With ``parallel=1`` the run does not depend on the number of workers, so that it
# can be continued on a larger machine.
warnings.filterwarnings(
    "ignore", message="the function was busy"
)  # these equations are too fast for two processes to gain much
run = Path(tempfile.mkdtemp()) / "hares.paoswarm"
options = {"method": ps.AdaptivePAO(parallel=1), "maxfev": 2400, "workers": 2, "rng": 1}


def ctrl_c(intermediate_result: ps.results.Result) -> None:
    """Interrupt this process."""
    if intermediate_result.nfev >= 400:
        signal.raise_signal(signal.SIGINT)


first = ps.minimize(misfit, space, store=run, callback=ctrl_c, **options)
print(first.message)
print(f"misfit {first.fun:.3f} after {first.nfev} evaluations")

# %%
# The same call continues: recorded points are not evaluated again. ``paoswarm watch`` and ``paoswarm explore`` show the
# file while a run goes on, also from another machine.
result = ps.minimize(misfit, space, store=run, **options)
print(result.message)
print(f"misfit {result.fun:.3f} after {result.nfev} evaluations")

# %%
# How sure are the rates? With residuals of logarithms, the standard deviation of a datum is a relative error.
fit = ps.uncertainty(result, residuals=residuals)
print(fit)

# %%
# The left figure shows the counts and the calibrated model with twice its standard error. The right one shows what the
# file remembers: the best misfit so far, on both sides of the interrupt.
t = np.linspace(0, 20, 201)
curves, errors = fit.predict(lambda p: populations(p, t).ravel())
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained")
pairs = zip(("hares", "lynxes"), (hare, lynx), curves.reshape(2, -1), errors.reshape(2, -1), strict=True)
for colour, (name, counted, curve, error) in zip(("C0", "C1"), pairs, strict=True):
    left.fill_between(1900 + t, curve - 2 * error, curve + 2 * error, color=colour, alpha=0.25, linewidth=0)
    left.plot(1900 + t, curve, colour)
    left.plot(years, counted, "o", color=colour, label=name)
left.set(xlabel="year", ylabel="pelts, thousands", ylim=(0, None), xlim=(1899.5, 1920.5))
left.xaxis.set_major_locator(plt.MaxNLocator(integer=True))
left.legend()
right.step(result.history.nfev, result.history.best, where="post")
right.axvline(first.nfev, color="0.5", linestyle="--", label="interrupt")
right.set(xlabel="evaluations", ylabel="best misfit so far", yscale="log")
right.legend()
plt.show()

assert abs(result.fun - 2.0187) < 1e-3
assert first.nfev < result.nfev
