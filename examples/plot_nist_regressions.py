"""
Ten regressions with certified answers
======================================

NIST publishes nonlinear regressions with certified answers, to test software: the parameters and their standard errors,
correct to eleven digits (Statistical Reference Datasets, public domain). The usual programs start from a guess near the
answer. Here there is no guess: every parameter may lie between -2 and 10 times the size of its certified value.
"""

import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

folder = Path(sys.argv[0]).parent / "data" / "nist"


def read(name: str) -> dict:
    """Data, certified parameters and certified standard errors from a file as NIST publishes it."""
    text = (folder / f"{name}.dat").read_text()
    first, last = map(int, re.search(r"Data\s+\(lines\s+(\d+) to\s+(\d+)\)", text).groups())
    y, *x = np.array([line.split() for line in text.splitlines()[first - 1 : last]], float).T
    certified = [line.split()[4:6] for line in text.splitlines() if re.match(r"\s+b\d =", line)]
    values, errors = np.array(certified, float).T
    return {"x": x[0] if len(x) == 1 else x, "y": y, "values": values, "errors": errors}


# %%
# The ten models, as NIST writes them. ``b`` holds one parameter per entry.


def ratio(b, x):
    """Polynomial over polynomial: cubic with seven parameters, quadratic with five."""
    above, below = np.split(np.asarray(b), [len(b) // 2 + 1])
    return np.polyval(above[::-1], x) / np.polyval([*below[::-1], 1.0], x)


def peaks(b, x):
    """An exponential background and two Gaussian peaks."""
    background = b[0] * np.exp(-b[1] * x)
    return background + b[2] * np.exp(-(((x - b[3]) / b[4]) ** 2)) + b[5] * np.exp(-(((x - b[6]) / b[7]) ** 2))


models = {
    "DanWood": lambda b, x: b[0] * x ** b[1],
    "Misra1a": lambda b, x: b[0] * (1 - np.exp(-b[1] * x)),
    "Chwirut2": lambda b, x: np.exp(-b[0] * x) / (b[1] + b[2] * x),
    "Nelson": lambda b, x: b[0] - b[1] * x[0] * np.exp(-b[2] * x[1]),
    "Roszman1": lambda b, x: b[0] - b[1] * x - np.arctan(b[2] / (x - b[3])) / np.pi,
    "Kirby2": ratio,
    "Thurber": ratio,
    "Hahn1": ratio,
    "Gauss1": peaks,
    "Lanczos3": lambda b, x: sum(b[i] * np.exp(-b[i + 1] * x) for i in (0, 2, 4)),
}


# %%
# `paoswarm.fit` needs only the boxes. The table shows how many simulations it took, the standard errors included, and
# how many digits agree with NIST's, for the worst parameter of each set. The same lines fit all of them. (The order of
# terms of one form means nothing, nor does the sign of a width in Gauss1, so parameters are compared by size.)


def digits(found: np.ndarray, certified: np.ndarray) -> float:
    """Correct digits of the worst parameter: minus the logarithm of the relative error."""
    return float(-np.log10(np.max(np.abs(found - certified) / certified)))


def fitted(name: str, seed: int = 2) -> ps.results.Fit:
    """The best fit in a wide box."""
    given = sets[name]
    size = np.abs(given["values"])

    def simulate(b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return models[name](b, given["x"])

    return ps.fit(simulate, np.stack([-2 * size, 10 * size], axis=1), given["y"], rng=seed)


sets = {name: read(name) for name in models}
sets["Nelson"]["y"] = np.log(sets["Nelson"]["y"])  # the model is that of the logarithm
fits = {name: fitted(name) for name in sets}
agreeing = []
print("                              digits that agree with NIST")
print("set       parameters  simulations  parameters  standard errors")
for name, fit in fits.items():
    values, errors, own = np.abs(sets[name]["values"]), sets[name]["errors"], np.argsort(np.abs(fit.x))
    order = np.argsort(values)
    right = digits(np.abs(fit.x)[own], values[order]), digits(fit.standard_errors[own], errors[order])
    agreeing.append(right[0])
    print(f"{name:9} {len(fit.x):10} {fit.nfev:12} {right[0]:11.1f} {right[1]:16.1f}")

# %%
# Data and fitted curves, with bands of 95 % for a new measurement.
fig, axes = plt.subplots(3, 3, figsize=(11, 8), layout="constrained")
for ax, name in zip(axes.flat, (name for name in models if name != "Nelson"), strict=True):  # Nelson has two inputs
    given, fit = sets[name], fits[name]
    order = np.argsort(given["x"])
    low, high = fit.band(noise=True)
    ax.plot(given["x"], given["y"], ".", color="0.6", markersize=4)
    ax.fill_between(given["x"][order], low[order], high[order], color="C0", alpha=0.3, linewidth=0)
    ax.plot(given["x"][order], fit.predictions[order], "C0", linewidth=1.2)
    ax.set_title(f"{name}, {len(fit.x)} parameters", fontsize="medium")
fig.supxlabel("x")
fig.supylabel("y")
plt.show()

assert sum(one > 4 for one in agreeing) >= 9
