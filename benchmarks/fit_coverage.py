"""How often do the 95 % intervals of a fit hold the truth? Standard errors, profiles, and lmfit on made data.

    make bench NAME=fit_coverage                            # 200 data sets of each model, some minutes
    python -m benchmarks fit_coverage --sets 50 --models decay,counts --no-keep

Each model has a truth; its data are made again and again with another seed, and fitted in a wide box without a
starting point. lmfit (`leastsq`) starts at the truth; its intervals are estimate -+ t * stderr, and those of
`conf_interval`, its profiles by F tests. A side that does not end within the box ends at the bound. The standard error
of a share is that over data sets; for one unknown and 200 sets it is 1.5 points.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import odeint
from scipy.stats import norm
from scipy.stats import t as student

import paoswarm as ps

RESULTS = Path(__file__).parent / "results" / "fit_coverage.jsonl"
LEVEL = 0.95


class Model(NamedTuple):
    """What is fitted, and how its data are made."""

    about: str
    simulate: Callable[[dict[str, float]], Any]
    space: dict[str, Any]
    truth: dict[str, float]
    measure: Callable[[Any, np.random.Generator], dict[str, Any]]  # arguments of `fit` besides simulate and space
    residuals: Callable[[dict[str, float], dict[str, Any]], np.ndarray]  # for lmfit
    more: Mapping[str, float] = MappingProxyType({})  # unknowns that only lmfit needs, with their true values
    is_sigma_known: bool = False


def normal(sigma):
    """Normal noise of a size that the fit is not told."""
    return lambda y, rng: {"data": y + sigma * rng.normal(size=y.shape)}


def plainly(simulate):
    """Residuals of one output."""
    return lambda p, given: simulate(p) - given["data"]


TIME = np.linspace(0.0, 5.0, 20)
DAYS = np.arange(1.0, 31.0)
BINS = np.linspace(0.0, 10.0, 40)
DOSE = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0] * 2)


def decay(p):
    """A decay to a level."""
    return p["a"] * np.exp(-p["k"] * TIME) + p["c"]


def epidemic(p):
    """Infected, in percent, of a population in which everybody meets everybody."""

    def slope(y, _):
        new = p["contact"] * y[0] * y[1]
        return [-new, new - p["recovery"] * y[1]]

    return (
        100 * odeint(slope, [1 - p["first"], p["first"]], np.concatenate([[0.0], DAYS]), rtol=1e-8, atol=1e-10)[1:, 1]
    )


def peak(p):
    """Expected counts of a peak on a background."""
    return p["background"] + p["height"] * np.exp(-0.5 * ((BINS - p["centre"]) / p["width"]) ** 2)


def count(y, rng):
    """Counts."""
    return {"data": rng.poisson(y).astype(float), "likelihood": "poisson"}


def light_and_mass(p):
    """Two outputs; the light is known but for its unit."""
    e = np.exp(-p["k"] * TIME)
    return {"light": e, "mass": p["a"] * (1 - e)}


def measure_both(y, rng):
    """The light in an unknown unit, with an offset."""
    light = 250 * y["light"] + 40 + 12 * rng.normal(size=20)
    return {"data": {"light": ps.Scaled(light, offset=True), "mass": y["mass"] + 0.4 * rng.normal(size=20)}}


def both_residuals(p, given):
    """Residuals with the true standard deviations, which a user of lmfit must guess."""
    y, data = light_and_mass(p), given["data"]
    light = (p["scale"] * y["light"] + p["offset"] - data["light"].data) / 12
    return np.concatenate([light, (y["mass"] - data["mass"]) / 0.4])


def saturation(p):
    """Michaelis and Menten's curve, measured far below its half."""
    return p["most"] * DOSE / (p["half"] + DOSE)


def crossing(p):
    """A line, written by where it crosses zero, outside of the data."""
    return p["slope"] * (np.linspace(-1.0, 1.0, 12) - p["zero"])


def rate(low, high):
    """A positive unknown."""
    return ps.Real(low, high, log=True)


MODELS = {
    "decay": Model(
        "decay to a level, 20 data, sigma unknown",
        decay,
        {"a": (0.0, 50.0), "k": rate(0.01, 50.0), "c": (-20.0, 20.0)},
        {"a": 5.0, "k": 1.0, "c": 1.0},
        normal(0.4),
        plainly(decay),
    ),
    "epidemic": Model(
        "ODE (SIR), 30 data, sigma unknown",
        epidemic,
        {"contact": rate(0.05, 5.0), "recovery": rate(0.01, 2.0), "first": rate(1e-5, 0.1)},
        {"contact": 0.8, "recovery": 0.2, "first": 0.002},
        normal(3.0),
        plainly(epidemic),
    ),
    "counts": Model(
        "peak on a background, 40 Poisson counts of 1 to 13",
        peak,
        {"background": (0.01, 20.0), "height": (0.0, 100.0), "centre": (1.0, 9.0), "width": rate(0.2, 4.0)},
        {"background": 1.0, "height": 12.0, "centre": 4.5, "width": 1.0},
        count,
        lambda p, given: (peak(p) - given["data"]) / np.sqrt(np.maximum(given["data"], 1.0)),
        is_sigma_known=True,
    ),
    "two outputs": Model(
        "20 data each, both sigmas unknown, one output Scaled with an offset",
        light_and_mass,
        {"a": rate(0.1, 100.0), "k": rate(0.01, 50.0)},
        {"a": 4.0, "k": 0.7},
        measure_both,
        both_residuals,
        {"scale": 250.0, "offset": 40.0},
    ),
    "saturation": Model(
        "Michaelis-Menten, 16 data far below saturation, sigma unknown",
        saturation,
        {"most": (0.1, 10000.0), "half": (0.1, 10000.0)},
        {"most": 30.0, "half": 10.0},
        normal(1.2),
        plainly(saturation),
    ),
    "crossing": Model(
        "where an uncertain line crosses zero, 12 data, sigma unknown",
        crossing,
        {"slope": (-20.0, 20.0), "zero": (-100.0, 100.0)},
        {"slope": 1.8, "zero": 3.0},
        normal(1.0),
        plainly(crossing),
    ),
}


class Intervals(NamedTuple):
    """Intervals of all unknowns by one method."""

    low: np.ndarray
    high: np.ndarray
    simulations: int


def of_paoswarm(model: Model, given: dict[str, Any], seed: int) -> dict[str, Intervals]:
    """Intervals of `fit`."""
    fit = ps.fit(model.simulate, model.space, **given, rng=seed)
    profile = fit.profile(level=LEVEL)
    return {
        "standard errors": Intervals(*fit.interval(LEVEL), int(fit.nfev)),
        "profiles": Intervals(*profile.interval(), int(fit.nfev) + profile.nfev),
    }


def of_lmfit(model: Model, given: dict[str, Any]) -> dict[str, Intervals]:
    """Intervals of lmfit, started at the truth; none if it cannot give them."""
    import lmfit

    parameters = lmfit.Parameters()
    for name, value in {**model.truth, **model.more}.items():
        one = model.space.get(name, (-np.inf, np.inf))
        low, high = (one.low, one.high) if isinstance(one, ps.Real) else one
        parameters.add(name, value, min=low, max=high)
    minimizer = lmfit.Minimizer(
        lambda p: model.residuals(p.valuesdict(), given), parameters, scale_covar=not model.is_sigma_known
    )
    found = minimizer.minimize()
    n = len(model.truth)
    nothing = np.full((2, n), np.nan)
    q = norm.ppf((1 + LEVEL) / 2) if model.is_sigma_known else student.ppf((1 + LEVEL) / 2, found.nfree)
    x = np.array([found.params[name].value for name in model.truth])
    errors = np.array([found.params[name].stderr or np.nan for name in model.truth], dtype=float)
    result = {"lmfit, standard errors": Intervals(x - q * errors, x + q * errors, found.nfev)}
    try:
        ends = lmfit.conf_interval(minimizer, found, p_names=list(model.truth), sigmas=[LEVEL])
        low, high = np.array([[ends[name][0][1], ends[name][-1][1]] for name in model.truth]).T
    except Exception:  # its own search for the ends may raise anything
        low, high = nothing
    result["lmfit, conf_interval"] = Intervals(low, high, found.nfev)
    return result


def measure(name: str, n_sets: int) -> dict[str, Any]:
    """How often the intervals of one model hold the truth."""
    model = MODELS[name]
    truth = np.array(list(model.truth.values()))
    held: dict[str, list[np.ndarray]] = {}
    missing: dict[str, int] = {}
    simulations: dict[str, list[int]] = {}
    for seed in range(n_sets):
        given = model.measure(model.simulate(model.truth), np.random.default_rng(seed))
        for method, found in (of_paoswarm(model, given, seed) | of_lmfit(model, given)).items():
            held.setdefault(method, []).append((found.low <= truth) & (truth <= found.high))
            is_missing = np.isnan(found.low) | np.isnan(found.high)
            missing[method] = missing.get(method, 0) + int(is_missing.any())
            simulations.setdefault(method, []).append(found.simulations)
    methods = {}
    for method, rows in held.items():
        each = 100 * np.mean(rows, axis=0)
        of_sets = np.mean(rows, axis=1)
        methods[method] = {
            "held": round(float(each.mean()), 2),
            "error": round(float(100 * of_sets.std() / np.sqrt(n_sets)), 2),
            "each": dict(zip(model.truth, np.round(each, 1).tolist(), strict=True)),
            "without": missing[method],
            "simulations": float(np.median(simulations[method])),
        }
    return {"model": name, "about": model.about, "sets": n_sets, "methods": methods}


def table(rows: list[dict[str, Any]]) -> None:
    """Print what was found."""
    for row in rows:
        print(f"\n{row['model']}: {row['about']}; {row['sets']} data sets")
        for method, found in row["methods"].items():
            each = ", ".join(f"{name} {share:g}" for name, share in found["each"].items())
            without = f"; {found['without']} sets without an interval" if found["without"] else ""
            print(
                f"  {method:24}{found['held']:6.1f} +- {found['error']:.1f} %   ({each}){without}"
                f"   {found['simulations']:.0f} simulations"
            )


def main() -> None:
    """Measure, keep and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sets", type=int, default=200, help="data sets of each model")
    parser.add_argument("--no-keep", action="store_true", help="do not write the results")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    options = parser.parse_args()
    kept = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    if not options.table:
        names = options.models.split(",")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lmfit and SciPy on the way
            new = [measure(name, options.sets) for name in names]
        kept = [row for row in kept if row["model"] not in names] + new
        if not options.no_keep:
            RESULTS.write_text("".join(json.dumps(row) + "\n" for row in kept))
    table(kept if options.table else new)


if __name__ == "__main__":
    main()
