"""Posteriors of the kind that a few hundred simulations should be enough for: calibrations, and log likelihoods.

``load(name)`` returns a `Case`. An unknown standard deviation of the noise is integrated out (F11), as ``ps.sample``
does with ``data=``. Nobody had looked at the problems of ``HELD_OUT`` when the emulator of ``ps.sample`` was built.
``references()`` computes what has no formula by the importance sampling of ``posterior_importance.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import posterior_problems as pp
from posterior_importance import Known, importance
from posterior_references import banana, rounded
from scipy import stats
from scipy.special import exprel, gammaln

REFERENCES = Path(__file__).with_name("few_references.json")
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4.0])  # influenza in a boarding school


class Calibration(NamedTuple):
    """A vectorised simulator ``(m, d) -> (m, n)`` with data in their form and the noise, if it is known."""

    model: Callable[[np.ndarray], np.ndarray]
    prior: list[Any]
    data: np.ndarray
    sigma: Any = None

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """What ``ps.sample`` makes of outputs: normal noise, integrated over an unknown standard deviation."""
        with np.errstate(all="ignore"):
            away = self.model(x) - self.data.ravel()
        n = away.shape[1]
        if self.sigma is None:
            return gammaln(n / 2) - math.log(2) - n / 2 * np.log(math.pi * np.square(away).sum(axis=1))
        sd = np.broadcast_to(self.sigma, n)
        return -0.5 * np.square(away / sd).sum(axis=1) - np.log(sd * math.sqrt(2 * math.pi)).sum()

    def simulate(self, x: np.ndarray) -> np.ndarray:
        """One simulation, in the form of the data."""
        with np.errstate(all="ignore"):
            return self.model(np.asarray(x)[None])[0].reshape(self.data.shape)


class Case(NamedTuple):
    """A log likelihood (vectorised) and a prior, with the true evidence and moments."""

    name: str
    log_likelihood: pp.Likelihood
    prior: list[Any]
    log_evidence: float
    mean: np.ndarray
    sd: np.ndarray
    calibration: Calibration | None


def made(
    model: Callable[[np.ndarray], np.ndarray], prior: list[Any], truth: list[float], sd: float, seed: int, **known: Any
) -> Calibration:
    """A calibration whose data the model has made, with normal noise."""
    clean = model(np.array([truth]))[0]
    return Calibration(model, prior, clean + sd * np.random.default_rng(seed).standard_normal(len(clean)), **known)


def epidemic(x: np.ndarray) -> np.ndarray:
    """Pupils in bed on 14 days: the front page's simulator, for many contact and recovery rates."""
    contact, recovery = x[:, 0], x[:, 1]
    well, ill, out = np.full(len(x), 762.0), np.ones(len(x)), []
    for hour in range(1, 14 * 24 + 1):
        infected = contact * well * ill / 763 / 24
        well, ill = well - infected, ill + infected - recovery * ill / 24
        if hour % 24 == 0:
            out.append(ill)
    return np.stack(out, axis=1)


def lotka() -> Calibration:
    """Hares and lynxes: logarithms of four rates."""
    one = made(lambda x: pp.predators(np.exp(x)), pp.lotka()[1][:4], np.log([0.55, 0.028, 0.80, 0.024]), 0.25, 21)
    return one._replace(data=one.data.reshape(20, 2))


def nist(name: str, text: str, sd: float, model: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Calibration:
    numbers = np.array(text.split(), dtype=float)
    y, x = np.split(numbers, 2) if name != "gauss1" else (numbers, np.arange(1.0, 251))
    return Calibration(lambda b: model(b, x), pp.PROBLEMS[name]()[1], y, sd)


def schools() -> Calibration:
    effects, errors = pp.SCHOOLS
    return Calibration(lambda x: x[:, :1] + x[:, 1:2] * x[:, 2:], pp.schools()[1], effects, errors)


def inhibited(x: np.ndarray) -> np.ndarray:
    """Rates of an enzyme that too much substrate inhibits (Haldane): highest rate, two constants."""
    fastest, half, inhibition = x.T[:, :, None]
    substrate = np.geomspace(0.1, 60, 12)
    return fastest * substrate / (half + substrate + substrate**2 / inhibition)


def tablet(x: np.ndarray) -> np.ndarray:
    """Concentrations after a tablet; absorption and elimination may change places (flip-flop): two modes."""
    absorption, elimination, volume = x.T[:, :, None]
    t = np.array([0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24])
    return 100 * absorption / volume * t * np.exp(-elimination * t) * exprel((elimination - absorption) * t)


def injection(x: np.ndarray) -> np.ndarray:
    """Log concentrations after an injection into the first of two compartments: clearances and volumes."""
    clearance, central, exchange, outer = x.T
    out, away, back = clearance / central, exchange / central, exchange / outer
    middle, product = (out + away + back) / 2, out * back
    fast = middle + np.sqrt(middle**2 - product)
    slow = product / fast
    t = np.array([0.1, 0.25, 0.5, 1, 2, 3, 4, 6, 9, 12, 18, 24])
    first, second = ((rate - back)[:, None] * np.exp(-rate[:, None] * t) for rate in (fast, slow))
    return np.log(100 * (first - second) / (central * (fast - slow))[:, None])


def pendulum(x: np.ndarray) -> np.ndarray:
    """Angles of a pendulum from rest: gravity over length, linear and quadratic drag, first angle."""
    gravity, linear, quadratic, angle = x.T

    def slope(t: float, state: np.ndarray) -> np.ndarray:
        return np.stack([state[1], -gravity * np.sin(state[0]) - state[1] * (linear + quadratic * np.abs(state[1]))])

    start = np.stack([angle, np.zeros(len(x))])
    return np.stack([state[0] for state in pp.runge_kutta(slope, start, 0.05, 3, 30)], axis=1)


def logs(*pairs: tuple[float, float]) -> list[Any]:
    return [stats.loguniform(low, high) for low, high in pairs]


CALIBRATIONS: dict[str, Callable[[], Calibration]] = {
    "flu, sd known": lambda: Calibration(epidemic, pp.box((0, 20), (0, 5)), IN_BED, 18.0),
    "flu": lambda: Calibration(epidemic, pp.box((0, 20), (0, 5)), IN_BED),
    "lotka": lotka,
    "duffing": lambda: made(pp.displacement, pp.duffing()[1][:4], [0.3, 2.0, 1.0, 1.5], 0.05, 22),
    "misra1a": lambda: nist("misra1a", pp.MISRA1A, 0.10187876330, pp.misra1a),
    "roszman1": lambda: nist("roszman1", pp.ROSZMAN1, 0.0048542984060, pp.roszman1),
    "kirby2": lambda: nist("kirby2", pp.KIRBY2, 0.16354535131, pp.rational),
    "thurber": lambda: nist("thurber", pp.THURBER, 13.714600784, pp.rational),
    "schools": schools,
    "gauss1": lambda: nist("gauss1", pp.GAUSS1, 2.3317980180, pp.gauss1),
    "inhibition": lambda: made(inhibited, logs((0.1, 1000), (0.01, 100), (0.1, 1000)), [10, 2, 15], 0.15, 31),
    "tablet": lambda: made(tablet, logs((0.02, 10), (0.02, 10), (0.5, 500)), [1.2, 0.15, 20], 0.15, 32, sigma=0.15),
    "injection": lambda: made(injection, logs((0.1, 100), (1, 1000), (0.1, 100), (1, 1000)), [5, 10, 8, 30], 0.1, 33),
    "pendulum": lambda: made(pendulum, pp.box((1, 60), (0, 2), (0, 2), (0, 3)), [9.8, 0.3, 0.2, 1.5], 0.05, 34),
}


def two(d: int) -> pp.Posed:
    return pp.normals([0.25, 0.75], [[4.0] * d, [-4.0] * d], [0.6, 1.0], 10)


def failing() -> pp.Posed:
    """A normal law in three unknowns; the simulator fails on the right."""

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return np.where(x[:, 0] > 0.5, np.nan, -0.5 * (x**2).sum(axis=1) - 1.5 * math.log(2 * math.pi))

    return log_likelihood, pp.box(*[(-8, 8)] * 3)


NUMBERS: dict[str, Callable[[], pp.Posed]] = {
    **{f"two{d}": lambda d=d: two(d) for d in (2, 4)},
    **{f"banana{d}": lambda d=d: pp.banana(d) for d in (2, 5)},
    **{f"logistic{d}": lambda d=d: pp.logistic(d) for d in (5, 10)},
    "failing3": failing,
    **{name: pp.PROBLEMS[name] for name in ("gauss10", "funnel10", "logistic20", "three8", "modes8")},
}
NAMES = [*CALIBRATIONS, *NUMBERS]
HELD_OUT = ("gauss1", "inhibition", "tablet", "injection", "pendulum")
HELD_OUT += ("funnel10", "logistic20", "three8", "modes8")
SAMPLED = ("flu, sd known", "flu", "lotka", "duffing", *HELD_OUT[1:5], "logistic5", "logistic10")  # no formula


def by_formula(name: str) -> Known | None:
    """Evidence and moments, if a formula or quadrature gives them."""
    d = int(name.lstrip("abcdefghijklmnopqrstuvwxyz, ") or 0) if name in NUMBERS else 0
    if name.startswith("two"):
        mean = 0.25 * 4 - 0.75 * 4
        sd = math.sqrt(0.25 * (0.36 + 16) + 0.75 * (1 + 16) - mean**2)
        return -d * math.log(20), np.full(d, mean), np.full(d, sd)
    if name.startswith("banana"):
        log_evidence, *moments = banana(d)  # in the box of ten unknowns
        return log_evidence + (10 - d) * math.log(20), *moments
    if name == "failing3":
        cut = stats.truncnorm(-8, 0.5)
        log_evidence = float(stats.norm.logcdf(0.5)) - 3 * math.log(16)
        return log_evidence, np.array([cut.mean(), 0, 0]), np.array([cut.std(), 1, 1])
    return None


def posed(name: str) -> tuple[pp.Likelihood, list[Any], Calibration | None]:
    if name in CALIBRATIONS:
        one = CALIBRATIONS[name]()
        return one.log_likelihood, one.prior, one
    return *NUMBERS[name](), None


def load(name: str) -> Case:
    """The problem with its truth."""
    log_likelihood, prior, calibration = posed(name)
    found = by_formula(name)
    if found is None:
        one = json.loads((REFERENCES if name in SAMPLED else pp.REFERENCES).read_text())[name]
        if name in SAMPLED and not math.isclose(one["probe"], pp.probe(log_likelihood, prior), rel_tol=1e-6):
            raise ValueError(f"the data of {name} differ from those of the reference; run references() again")
        found = one["log_evidence"], one["mean"], one["sd"]
    return Case(name, log_likelihood, prior, found[0], np.array(found[1]), np.array(found[2]), calibration)


def references(names: list[str] | None = None, n: int = 400_000) -> None:
    """Compute and store what has no formula."""
    known = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name in names or SAMPLED:
        log_likelihood, prior, _ = posed(name)
        pp.PROBLEMS[name] = lambda one=(log_likelihood, prior): one
        print(name, flush=True)
        known[name] = rounded(importance(name, n)) | {"probe": pp.probe(log_likelihood, prior)}
        REFERENCES.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
