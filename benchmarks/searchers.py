"""The searches that `benchmarks/search.py` compares, each as a function of a counted objective and a seed.

Each runs until the objective raises `Done`: its budget is spent, or the last target is reached. All know the bounds;
none knows the minimum. Peers have the settings that their authors recommend, and are started again when they stop.
"""

from __future__ import annotations

import contextlib
import io
import warnings

import lshade
import numpy as np
from scipy import optimize

import paoswarm as ps


class Done(BaseException):
    """The budget is spent, or nothing is left to reach. No search catches it by accident."""


def ours(f, seed):
    """The default of `minimize`: with more than 20 unknowns `AdaptivePAO` without its local models."""
    optimizer = ps.Optimizer(f.bounds, rng=seed)
    while True:
        optimizer.take(f(optimizer.points()))


def _paper(f, seed):
    rng = np.random.default_rng(seed)
    while True:
        optimizer = ps.Optimizer(f.bounds, method=ps.PAO(), n_particles=100, rng=rng)
        while optimizer.swarm is None or optimizer.spread > 1e-10:
            optimizer.take(f(optimizer.points()))


def _in_widths(f):
    """The objective of one point of the unit cube, which stands for the bounds."""
    low, width = f.bounds[:, 0], f.bounds[:, 1] - f.bounds[:, 0]
    return lambda u: float(f((low + np.clip(u, 0, 1) * width)[None])[0])


def _local(method, **options):
    """A local search of SciPy, in widths of the bounds, from one random point after the other."""

    def search(f, seed):
        rng, d = np.random.default_rng(seed), len(f.bounds)
        while True:
            optimize.minimize(_in_widths(f), rng.random(d), method=method, bounds=[(0, 1)] * d, options=options)

    return search


def bipop_cma(f, seed):
    """BIPOP-CMA-ES of pycma, with its own handling of bounds, in widths of the bounds."""
    import cma

    rng, d = np.random.default_rng(seed), len(f.bounds)
    options = {"verbose": -9, "bounds": [0, 1], "maxfevals": np.inf, "maxiter": np.inf}
    while True:
        options["seed"] = int(rng.integers(1, 2**31))
        cma.fmin2(_in_widths(f), lambda: rng.uniform(0.1, 0.9, d), 0.2, options, restarts=12, bipop=True)


def lq_cma(f, seed):
    """lq-CMA-ES of pycma: CMA-ES with a quadratic model."""
    import cma

    rng, d = np.random.default_rng(seed), len(f.bounds)
    options = {"verbose": -9, "bounds": [0, 1], "maxfevals": np.inf}
    while True:
        options["seed"] = int(rng.integers(1, 2**31))
        cma.fmin_lq_surr2(_in_widths(f), rng.uniform(0.1, 0.9, d), 0.2, options)


def scipy_de(f, seed):
    """SciPy's differential evolution with its defaults, started again when its population has collapsed."""
    rng = np.random.default_rng(seed)
    while True:
        optimize.differential_evolution(
            lambda x: f(x.T), f.bounds, polish=False, tol=0, atol=1e-10, maxiter=10**6, rng=rng, vectorized=True,
            updating="deferred",
        )  # fmt: skip


def dual_annealing(f, seed):
    """SciPy's dual annealing with its defaults, local search included."""
    rng = np.random.default_rng(seed)
    while True:
        optimize.dual_annealing(lambda x: float(f(x[None])[0]), f.bounds, rng=rng, maxiter=10**6, maxfun=10**9)


def biteopt(f, seed):
    """BiteOpt of fcmaes."""
    from fcmaes import bitecpp

    rng = np.random.default_rng(seed)
    box = optimize.Bounds(f.bounds[:, 0], f.bounds[:, 1])

    def guarded(x):  # called from C++, through which no exception may pass
        try:
            return float(f(np.asarray(x)[None])[0])
        except Done:
            return 1e300

    while not f.is_done:
        bitecpp.minimize(guarded, box, max_evaluations=f.left, rg=rng)
    raise Done


def l_shade(f, seed):
    """L-SHADE, which is told the budget and is not started again: its population shrinks until the budget is spent."""
    lshade.minimise(f, f.bounds, f.left, np.random.default_rng(seed))


OURS = "AdaptivePAO"
SEARCHES = {
    OURS: ours,
    "paper's PAO, restarted": _paper,
    "BIPOP-CMA-ES": bipop_cma,
    "lq-CMA-ES": lq_cma,
    "L-SHADE": l_shade,
    "SciPy DE, restarted": scipy_de,
    "dual annealing": dual_annealing,
    "BiteOpt": biteopt,
    # By default L-BFGS-B stops when a step gains 2e-9 of the value, which may be 1000 at the minimum, and takes
    # differences over 1e-8: 49 % of bbob's targets (instances 1 and 2, 5 unknowns, 1000 evaluations for each); so 55 %.
    "L-BFGS-B, restarted": _local("L-BFGS-B", ftol=1e-15, gtol=1e-9, eps=1e-10, maxfun=10**9, maxiter=10**9),
    "COBYQA, restarted": _local("COBYQA", initial_tr_radius=0.2),  # as CMA-ES
}
PACKAGES = {"BIPOP-CMA-ES": "cma", "lq-CMA-ES": "cma", "BiteOpt": "fcmaes"} | dict.fromkeys(
    ("SciPy DE, restarted", "dual annealing", "L-BFGS-B, restarted", "COBYQA, restarted"), "scipy"
)  # of the others the code is here
SLOW = ("lq-CMA-ES", "COBYQA, restarted")  # these take milliseconds for each point
TOLD = ("L-SHADE",)  # these know the budget: a run says nothing about a smaller one


def run(name, f, seed):
    """Run a search to its end, silently; return what it raised, if it broke. Ours may not."""
    return run_silently(SEARCHES[name], f, seed, may_break=name != OURS)


def run_silently(search, f, seed, *, may_break):
    """Run a search until its objective raises `Done`; return what went wrong."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Done):
        warnings.simplefilter("ignore")
        try:
            with np.errstate(all="ignore"):
                search(f, seed)
        except Exception as error:
            if not may_break:
                raise
            return f"{type(error).__name__}: {error}"
        return "ended before its budget"
    return ""
