"""The searches that `fit.py` compares, and the counter that they call.

All know the box and which unknowns are logarithmic; none knows the minimum. Peers search the unit cube of `Problem`,
and get a large constant for each residual where the evaluation fails; ours get what the simulator gives. Local searches
of peers start at random points, one after the other, until their ends agree by `paoswarm.methods.agreement`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from fit_problem import LEVELS
from searchers import Done

import paoswarm as ps
from paoswarm.methods.agreement import CONVERGED, Search, agreement


class Counter:
    """A problem that counts evaluations and rounds, and notes when the best known sum of squares is reached.

    Attributes
    ----------
    hits, hit_rounds : list of int or None
        Evaluations and rounds after which the sum of squares without noise was within 1 % and 1e-6.
    claim : dict
        Evaluations and rounds when the search said that it is done, the sum of squares without noise at its point, and
        whether that is more than 1 % above the best known one.
    rounds : int
        Evaluations that had to wait for each other.
    seconds : float
        In the problem itself.
    """

    def __init__(self, problem, budget, noise=0.0, seed=0, limit=math.inf, stops=True):
        self.problem, self.n, self.m = problem, problem.n, problem.m
        self.budget, self.noise, self.stops = budget, noise, stops
        self.count, self.rounds, self.failures, self.best, self.seconds = 0, 0, 0, math.inf, 0.0
        self.hits: list[int | None] = [None] * len(LEVELS)
        self.hit_rounds = self.hits.copy()
        self.claim: dict = {}
        self.in_rounds = False  # a team counts them
        self._targets = problem.targets
        self._rng = np.random.default_rng([seed, 12345])
        self._until = time.process_time() + limit
        self.timed_out = False

    @property
    def is_done(self):
        """Whether nothing is left to do: with noise, 1e-6 is out of reach."""
        return self.stops and self.hits[0 if self.noise else -1] is not None

    def residuals(self, x):
        """Residuals at a point in the user's own numbers, with noise; NaN or an exception on failure."""
        self.timed_out = time.process_time() > self._until
        if self.count >= self.budget or self.timed_out or self.is_done:
            raise Done
        self.count += 1
        self.rounds += not self.in_rounds
        began = time.process_time()
        try:
            r = self.problem.residuals(x)
        except ArithmeticError:
            self.failures += 1
            raise
        finally:
            self.seconds += time.process_time() - began
        value = float(r @ r)
        self.failures += math.isnan(value)
        if value < self.best:
            self.best = value
            for level, target in enumerate(self._targets):
                if self.hits[level] is None and value <= target:
                    self.hits[level], self.hit_rounds[level] = self.count, self.rounds + self.in_rounds
        return r * (1 + self.noise * self._rng.normal(size=len(r))) if self.noise else r

    def attempt(self, u):
        """Residuals at a place of the unit cube; None on failure."""
        try:
            r = self.residuals(self.problem.point(u))
        except ArithmeticError:
            return None
        return None if np.isnan(r).any() else r

    def vector(self, u):
        """Residuals at a place of the unit cube, large and constant on failure."""
        r = self.attempt(u)
        return np.full(self.m, math.sqrt(self.problem.penalty / self.m)) if r is None else r

    def scalar(self, u):
        """Their sum of squares."""
        r = self.attempt(u)
        return self.problem.penalty if r is None else float(r @ r)

    def claims(self, x):
        """The search says that this point is the minimum."""
        value = self.problem.squares(x)
        is_wrong = not value <= self._targets[0]
        self.claim = {"claim": self.count, "claim_rounds": self.rounds, "claimed": value, "wrong": is_wrong}


class Team:
    """A map-like of so many workers that counts rounds of points that are evaluated at once."""

    def __init__(self, counter, slots):
        self.counter, self.slots = counter, slots
        counter.in_rounds = True

    def __call__(self, fun, points):
        """Evaluate the points."""
        points, answers = list(points), []
        for first in range(0, len(points), self.slots):
            answers += [fun(point) for point in points[first : first + self.slots]]
            self.counter.rounds += 1
        return answers


def ours(workers=1):
    """`ps.fit` with its defaults; more workers are a team."""

    def search(counter, seed, options):
        team = {"workers": Team(counter, workers)} if workers > 1 else {}
        fit = ps.fit(counter.residuals, counter.problem.space, maxfev=counter.budget, rng=seed, **team, **options)
        if fit.success:
            counter.claims(np.array(fit.x))

    return search


def minimize(counter, seed, options):
    """`ps.minimize` of the sum of squares, with its defaults."""

    def squares(x):
        try:
            r = counter.residuals(np.asarray(x, float))
        except ArithmeticError:
            return math.nan
        return float(r @ r)

    result = ps.minimize(squares, counter.problem.space, maxfev=counter.budget, rng=seed, **options)
    if result.success:
        counter.claims(np.array(result.x))


def from_random_starts(local):
    """Local searches ``local(counter, u) -> (end, value, whether it converged)`` until their ends agree."""

    def search(counter, seed, options):
        rng, ends = np.random.default_rng(seed), []
        while True:
            while True:
                u = rng.random(counter.n)
                first = counter.attempt(u)
                if first is not None:
                    break
            before = counter.count
            end, value, has_converged = local(counter, u, **options)
            if has_converged:
                spent = counter.count - before
                ends.append(Search(0, 1, spent, np.clip(end, 0, 1), float(value), CONVERGED, float(first @ first)))
                if len(ends) > 2 and agreement(ends, np.zeros(counter.n), np.ones(counter.n)).is_settled:
                    counter.claims(counter.problem.point(min(ends, key=lambda one: one.value).x))
                    return

    return search


def scipy_least_squares(counter, u, **options):
    """`scipy.optimize.least_squares` with its defaults; with noise, steps are its root."""
    from scipy.optimize import least_squares

    if counter.noise:
        options = {"diff_step": math.sqrt(counter.noise)} | options
    inside = np.clip(u, 1e-9, 1 - 1e-9)
    end = least_squares(counter.vector, inside, bounds=(0, 1), max_nfev=100, **options)
    return end.x, 2 * end.cost, end.status > 0


def lmfit_leastsq(counter, u, **options):
    """The default of lmfit; with noise it is told so."""
    import lmfit

    if counter.noise:
        options = {"epsfcn": counter.noise} | options
    start = lmfit.Parameters()
    for i, one in enumerate(u):
        start.add(f"x{i}", one, min=0, max=1)
    end = lmfit.minimize(lambda p: counter.vector(np.array([*p.valuesdict().values()])), start, calc_covar=False,
                         max_nfev=200 * (counter.n + 1), **options)  # fmt: skip
    return np.array([*end.params.valuesdict().values()]), float(end.residual @ end.residual), end.success


def dfo_ls(counter, u, **options):
    """DFO-LS, without derivatives; with noise it is told so."""
    import dfols

    box = np.zeros(counter.n), np.ones(counter.n)
    end = dfols.solve(counter.vector, u, bounds=box, maxfun=200 * (counter.n + 1), do_logging=False,
                      objfun_has_noise=counter.noise > 0, **options)  # fmt: skip
    return (u, math.inf, False) if end.x is None else (end.x, end.obj, end.flag == end.EXIT_SUCCESS)


def gofit(counter, seed, options):
    """GOFit's searches from a Latin hypercube, with its defaults; it takes no seed and says nothing about its end."""
    from gofit import multistart

    while True:
        multistart(counter.m, counter.n, np.zeros(counter.n), np.ones(counter.n), counter.vector, **options)


def biteopt(counter, seed, options):
    """BiteOpt of fcmaes."""
    from fcmaes import bitecpp
    from scipy.optimize import Bounds

    rng, is_over = np.random.default_rng(seed), []

    def guarded(u):  # called from C++, through which no exception may pass
        if not is_over:
            try:
                return counter.scalar(np.asarray(u))
            except Done:
                is_over.append(True)
        return 1e300

    while not is_over:
        left = max(1, counter.budget - counter.count + 1)
        bitecpp.minimize(guarded, Bounds(np.zeros(counter.n), np.ones(counter.n)), max_evaluations=left, rg=rng)


def bipop_cma(counter, seed, options):
    """BIPOP-CMA-ES of pycma."""
    import cma

    rng = np.random.default_rng(seed)
    settings = {"verbose": -9, "bounds": [0, 1], "maxfevals": np.inf, "maxiter": np.inf} | options
    while True:
        settings["seed"] = int(rng.integers(1, 2**31))
        cma.fmin2(counter.scalar, lambda: rng.uniform(0.1, 0.9, counter.n), 0.2, settings, restarts=12, bipop=True)


SEARCHERS = {
    "ours": ours(),
    "ours-8": ours(8),
    "ours-32": ours(32),
    "least_squares": from_random_starts(scipy_least_squares),
    "dfols": from_random_starts(dfo_ls),
    "lmfit": from_random_starts(lmfit_leastsq),
    "gofit": gofit,
    "biteopt": biteopt,
    "cma": bipop_cma,
    "minimize": minimize,
}
NAMES = {
    "ours": "**`ps.fit`**",
    "ours-8": "**`ps.fit`**, 8 workers",
    "ours-32": "**`ps.fit`**, 32 workers",
    "least_squares": "SciPy `least_squares`, random starts",
    "dfols": "DFO-LS, random starts",
    "lmfit": "lmfit leastsq, random starts",
    "gofit": "GOFit",
    "biteopt": "BiteOpt",
    "cma": "BIPOP-CMA-ES",
    "minimize": "`ps.minimize`",
}
WITHOUT_CLAIMS = ("gofit", "biteopt", "cma")  # nothing is left to do for these when the minimum is reached
PACKAGES = {name: name for name in ("lmfit", "gofit", "cma")}
PACKAGES |= {"least_squares": "scipy", "dfols": "DFO-LS", "biteopt": "fcmaes"}
OUR_CODE = ("core", "methods", "least_squares", "run", "fitting")


def version_of(name):
    """The version of the package behind a search. Ours is the checksum of the code that searches."""
    if name in PACKAGES:
        return f"{PACKAGES[name]} {version(PACKAGES[name])}"
    root, checksum = Path(ps.__file__).parent, hashlib.sha256()
    for path in sorted(path for folder in OUR_CODE for path in (root / folder).rglob("*.py")):
        checksum.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return f"paoswarm {checksum.hexdigest()[:12]}"


def run(name, problem, seed, budget, noise=0.0, limit=math.inf, options=None):
    """Run a search to its claim, its budget or its time limit, silently; return what it has reached."""
    counter = Counter(problem, budget * problem.n, noise, seed, limit, name in WITHOUT_CLAIMS)
    error, began = "", time.process_time()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            SEARCHERS[name](counter, seed, options or {})
        except Done:
            pass
        except Exception as broken:  # of a peer, or ours while it is being written
            error = f"{type(broken).__name__}: {broken}"[:200]
    spent = time.process_time() - began
    row = {"n": problem.n, "count": counter.count, "rounds": counter.rounds, "failures": counter.failures}
    row |= {"best": counter.best, "hits": counter.hits, "hit_rounds": counter.hit_rounds, **counter.claim}
    row |= {"seconds": round(spent, 2), "own_us": round(1e6 * (spent - counter.seconds) / max(1, counter.count), 1)}
    return row | ({"timed_out": True} if counter.timed_out else {}) | ({"error": error} if error else {})
