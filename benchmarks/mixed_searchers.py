"""The searches that `benchmarks/mixed_constrained.py` compares, each as a function of a counted problem and a seed.

A counted problem ``f`` takes rows and returns ``(values, inequalities, equalities)``. Each search runs until it raises
`Done`: the budget is spent, or all is reached. All know the bounds and which variables are integers; none knows the
best value. Peers have the settings that their authors recommend, and are started again when they stop.
"""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from constrained_problem import EQUALITY_TOLERANCE
from searchers import run_silently

import paoswarm as ps


class Joint:
    """Objective and constraints of a point in one evaluation, for searches that ask for them one after the other."""

    def __init__(self, f, remembered=1):
        self.f, self.remembered, self.known = f, remembered, {}

    def __call__(self, x):
        """Return ``(value, inequalities, equalities)`` of one point; the last points are not evaluated again."""
        key = np.asarray(x, float).tobytes()
        if key not in self.known:
            self.rows(np.asarray(x, float)[None])
        return self.known[key]

    def rows(self, x):
        """Evaluate rows and remember them."""
        answers = list(zip(*self.f(x), strict=True))
        self.known.update({row.tobytes(): answer for row, answer in zip(np.asarray(x, float), answers, strict=True)})
        while len(self.known) > self.remembered:
            self.known.pop(next(iter(self.known)))
        return answers


def as_inequalities(g, h):
    """All constraints as inequalities: an equality is two, with its tolerance."""
    return np.concatenate([g, h - EQUALITY_TOLERANCE, -h - EQUALITY_TOLERANCE], axis=-1)


def random_search(f, seed):
    """Uniform points."""
    rng = np.random.default_rng(seed)
    while True:
        f(rng.uniform(*f.bounds.T, (50, len(f.bounds))))


def nan_where_infeasible(f, seed):
    """AdaptivePAO that is told nothing: integers are rounded inside, infeasible points are NaN."""
    from constrained_problem import feasible

    rng = np.random.default_rng(seed)
    method = ps.AdaptivePAO()
    while True:
        optimizer = ps.Optimizer(f.bounds, method=method, n_particles=method.default_particles(len(f.bounds)), rng=rng)
        with contextlib.suppress(ValueError, RuntimeError):  # no point of the first swarm was feasible: draw another
            while True:
                values, g, h = f(optimizer.points())
                optimizer.take(np.where(feasible(g, h), values, np.nan))


def paoswarm(f, seed):
    """Ours, as users call it: variables with their kinds, and constraints that the function returns."""
    space = [ps.Integer(*b) if whole else tuple(b) for b, whole in zip(f.bounds, f.integrality, strict=True)]
    count = f.n_inequalities + f.n_equalities
    options = {}
    if count:  # equalities have the tolerance 1e-4 unless another is given
        lower = np.r_[np.full(f.n_inequalities, -np.inf), np.zeros(f.n_equalities)]
        options["constraints"] = ps.Returned(count, lb=lower, ub=0.0)

    def fun(x):
        values, g, h = f(x)
        return (values, np.concatenate([g, h], axis=1)) if count else values

    rng = np.random.default_rng(seed)
    while True:
        ps.minimize(fun, space, vectorized=True, maxfev=f.left, rng=rng, **options)


def scipy_de(f, seed):
    """SciPy's differential evolution with its defaults, started again when its population has collapsed."""
    from scipy.optimize import NonlinearConstraint, differential_evolution

    rng = np.random.default_rng(seed)
    joint = Joint(f, remembered=1000)

    def constraints(x):
        columns = x[:, None] if x.ndim == 1 else x  # SciPy passes one point as (d,), many as (d, m)
        answers = joint.rows(columns.T)
        return np.array([np.concatenate([g, h]) for _, g, h in answers]).T.reshape(-1, *x.shape[1:])

    def value(x):
        return np.array([joint(row)[0] for row in x.T])

    given = ()
    if f.n_inequalities + f.n_equalities:
        tolerance = np.r_[np.zeros(f.n_inequalities), np.full(f.n_equalities, EQUALITY_TOLERANCE)]
        lower = np.r_[np.full(f.n_inequalities, -np.inf), np.full(f.n_equalities, -EQUALITY_TOLERANCE)]
        given = NonlinearConstraint(constraints, lower, tolerance)
    while True:
        differential_evolution(
            value if given else lambda x: f(x.T)[0], f.bounds, integrality=f.integrality, constraints=given,
            polish=False, tol=0, atol=1e-10, maxiter=10**6, rng=rng, vectorized=True, updating="deferred",
        )  # fmt: skip


def cma_with_margin(f, seed):
    """CMA-ES with margin of cmaes; the population doubles at each restart. It takes no constraints."""
    from cmaes import CMAwM

    rng = np.random.default_rng(seed)
    low, width = f.bounds[:, 0], f.bounds[:, 1] - f.bounds[:, 0]
    steps = np.where(f.integrality, 1 / width, 0)
    size = 4 + int(3 * np.log(len(low)))
    while True:
        search = CMAwM(rng.uniform(0.1, 0.9, len(low)), 0.3, np.array([[0.0, 1.0]] * len(low)), steps,
                       seed=int(rng.integers(2**31)), population_size=size)  # fmt: skip
        best, stagnant = np.inf, 0
        # Its own rule ends few runs with integers, so a run ends also when it has not improved for long.
        while not search.should_stop() and stagnant < 50 + 10 * len(low):
            asked = [search.ask() for _ in range(size)]
            values = f(low + width * np.array([point for point, _ in asked]))[0]
            search.tell([(told, value) for (_, told), value in zip(asked, values, strict=True)])
            stagnant = 0 if values.min() < best else stagnant + 1
            best = min(best, values.min())
        size *= 2


def cat_cma_with_margin(f, seed):
    """CatCMA with margin of cmaes; the population doubles at each restart. It takes no constraints."""
    from cmaes import CatCMAwM

    rng = np.random.default_rng(seed)
    real, whole = np.flatnonzero(~f.integrality), np.flatnonzero(f.integrality)
    x_space = f.bounds[real] if len(real) else None
    z_space = [np.arange(low, high + 1) for low, high in f.bounds[whole]] if len(whole) else None
    size = None
    while True:
        search = CatCMAwM(x_space=x_space, z_space=z_space, population_size=size, seed=int(rng.integers(2**31)))
        size = search.population_size
        best, stagnant = np.inf, 0
        while not search.should_stop() and stagnant < 50 + 10 * len(f.bounds):
            asked = [search.ask() for _ in range(size)]
            rows = np.empty((size, len(f.bounds)))
            if len(real):
                rows[:, real] = [one.x for one in asked]
            if len(whole):
                rows[:, whole] = [one.z for one in asked]
            values = f(rows)[0]
            search.tell(list(zip(asked, map(float, values), strict=True)))
            stagnant = 0 if values.min() < best else stagnant + 1
            best = min(best, values.min())
        size *= 2


def _pycma_options(f, rng):
    width = f.bounds[:, 1] - f.bounds[:, 0]
    return {
        "verbose": -9,
        "bounds": [list(f.bounds[:, 0]), list(f.bounds[:, 1])],
        "integer_variables": list(np.flatnonzero(f.integrality)),
        "CMA_stds": width,
        "maxfevals": np.inf,
        "maxiter": np.inf,
        "seed": int(rng.integers(1, 2**31)),
    }


def pycma(f, seed):
    """Pycma with its handling of integers, and restarts whose population doubles."""
    import cma

    rng = np.random.default_rng(seed)
    while True:
        cma.fmin2(
            lambda x: float(f(np.asarray(x)[None])[0][0]), lambda: rng.uniform(*f.bounds.T), 0.25,
            _pycma_options(f, rng), restarts=9,
        )  # fmt: skip


def pycma_constrained(f, seed):
    """Pycma's augmented Lagrangian, ``fmin_con2``, started again from random points."""
    import cma

    rng = np.random.default_rng(seed)
    joint = Joint(f, remembered=3)
    while True:
        cma.fmin_con2(
            lambda x: float(joint(x)[0]),
            rng.uniform(*f.bounds.T),
            0.25,
            constraints=lambda x: as_inequalities(*joint(x)[1:]),
            options=_pycma_options(f, rng),
        )


def _pymoo_problem(f, variables=None):
    from pymoo.core.problem import Problem

    sizes = {"n_obj": 1, "n_ieq_constr": f.n_inequalities, "n_eq_constr": f.n_equalities}
    space = {"vars": variables} if variables else {"n_var": len(f.bounds), "xl": f.bounds[:, 0], "xu": f.bounds[:, 1]}

    class Wrapped(Problem):
        def __init__(self):
            super().__init__(**space, **sizes)

        def _evaluate(self, x, out, *args, **kwargs):
            if variables:
                x = np.array([[row[name] for name in variables] for row in x], float)
            values, g, h = f(x)
            out["F"] = values[:, None]
            if f.n_inequalities:
                out["G"] = g
            if f.n_equalities:
                out["H"] = h

    return Wrapped()


def isres(f, seed):
    """Pymoo's improved stochastic ranking evolution strategy."""
    from pymoo.algorithms.soo.nonconvex.isres import ISRES
    from pymoo.optimize import minimize

    algorithm = ISRES(n_offsprings=200, rule=1 / 7, gamma=0.85, alpha=0.2)
    minimize(_pymoo_problem(f), algorithm, ("n_gen", 10**6), seed=seed)


def mixed_variable_ga(f, seed):
    """Pymoo's genetic algorithm for mixed variables."""
    from pymoo.core.mixed import MixedVariableGA
    from pymoo.core.variable import Integer, Real
    from pymoo.optimize import minimize

    bounds = zip(f.bounds, f.integrality, strict=True)
    variables = {f"x{i}": (Integer if whole else Real)(bounds=tuple(b)) for i, (b, whole) in enumerate(bounds)}
    minimize(_pymoo_problem(f, variables), MixedVariableGA(pop_size=50), ("n_gen", 10**6), seed=seed)


def slsqp(f, seed):
    """SciPy's SLSQP from random points. Objective and constraints share their finite differences, which are counted."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    low, width = f.bounds[:, 0], f.bounds[:, 1] - f.bounds[:, 0]
    joint = Joint(f, remembered=2)
    slopes = {}

    def both(u):
        value, g, h = joint(low + width * np.clip(u, 0, 1))
        return np.concatenate([[value], -g, h])

    def slope(u):
        key = u.tobytes()
        if key not in slopes:
            slopes.clear()
            here = both(u)
            step = np.where(u < 0.5, 1.0, -1.0) * 1.5e-8  # inwards
            rows = f(low + width * (u + np.diag(step)))
            moved = np.concatenate([rows[0][:, None], -rows[1], rows[2]], axis=1)
            slopes[key] = ((moved - here) / step[:, None]).T
        return slopes[key].copy()  # SLSQP works in the array that it gets

    constraints, first = [], 1
    for kind, count in (("ineq", f.n_inequalities), ("eq", f.n_equalities)):
        part = slice(first, first + count)
        if count:
            constraints.append({
                "type": kind,
                "fun": lambda u, part=part: both(u)[part],
                "jac": lambda u, part=part: slope(u)[part],
            })  # fmt: skip
        first += count
    while True:
        minimize(
            lambda u: both(u)[0], rng.uniform(size=len(low)), jac=lambda u: slope(u)[0], method="SLSQP",
            bounds=[(0, 1)] * len(low), constraints=constraints, options={"maxiter": 1000, "ftol": 1e-12},
        )  # fmt: skip


def optuna_tpe(f, seed):
    """Optuna's tree-structured Parzen estimator with its defaults."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = {"constraints_func": lambda trial: trial.user_attrs["constraints"]}
    constrained = f.n_inequalities + f.n_equalities
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, **(options if constrained else {})))

    def objective(trial):
        x = [
            trial.suggest_int(f"x{i}", int(low), int(high)) if whole else trial.suggest_float(f"x{i}", low, high)
            for i, ((low, high), whole) in enumerate(zip(f.bounds, f.integrality, strict=True))
        ]
        values, g, h = f(np.array([x], float))
        trial.set_user_attr("constraints", [float(c) for c in as_inequalities(g, h)[0]])
        return float(values[0])

    study.optimize(objective, n_trials=None)


OURS = "paoswarm"
SEARCHES = {
    OURS: paoswarm,
    "AdaptivePAO, rounded, NaN": nan_where_infeasible,
    "SciPy DE": scipy_de,
    "CMA-ES with margin": cma_with_margin,
    "CatCMA with margin": cat_cma_with_margin,
    "pycma": pycma,
    "pycma fmin_con2": pycma_constrained,
    "SLSQP, restarted": slsqp,
    "pymoo ISRES": isres,
    "pymoo MixedVariableGA": mixed_variable_ga,
    "Optuna TPE": optuna_tpe,
    "random": random_search,
}
# Searches that take too long with more evaluations for each variable.
CAPS = {"pymoo MixedVariableGA": 300, "Optuna TPE": 100}
PACKAGES = {
    "SciPy DE": "scipy",
    "SLSQP, restarted": "scipy",
    "CMA-ES with margin": "cmaes",
    "CatCMA with margin": "cmaes",
    "pycma": "cma",
    "pycma fmin_con2": "cma",
    "pymoo ISRES": "pymoo",
    "pymoo MixedVariableGA": "pymoo",
    "Optuna TPE": "optuna",
    "random": "numpy",
}
SEARCH_CODE = ("core", "space", "methods", "evaluate", "run")


@cache
def version_of(name):
    """The version of the package behind a search. Ours is the checksum of the code that searches."""
    if name in PACKAGES:
        return f"{PACKAGES[name]} {version(PACKAGES[name])}"
    root = Path(ps.__file__).parent
    checksum = hashlib.sha256()
    for path in sorted(path for folder in SEARCH_CODE for path in (root / folder).rglob("*")):
        if path.suffix in (".py", ".c"):
            checksum.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return f"paoswarm {checksum.hexdigest()[:12]}"


def run(name, f, seed):
    """Run a search to its end, silently; return what it raised, if it broke."""
    return run_silently(SEARCHES[name], f, seed, may_break=name != OURS)
