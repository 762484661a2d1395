"""The study of Champneys and Rogers (2023) repeated, with the claims in their discussion checked one by one.

python benchmarks/paper_claims.py --out study          # about 10 minutes on two cores; `make study`
python benchmarks/paper_claims.py --out study --quick  # 15 runs, for a first look
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

import paoswarm as ps
from paoswarm.study import Results, Section, Study
from paoswarm.study.presets import LITERATURE, PAPER, paper

UNIMODAL = ("sphere", "ellipsoid", "rotated_ellipsoid", "power_sum")
OTHERS = ("rosenbrock", "griewank", "rastrigin", "ackley", "schwefel")

HOLDS, PARTLY, FAILS, OUTSIDE = "holds", "partly", "does not hold", "not tested here"


class Finding(NamedTuple):
    """The numbers that concern a claim, as text, and the verdict that follows."""

    numbers: str
    verdict: str


class Claim(NamedTuple):
    """One claim of the paper, with our numbers."""

    claim: str
    with_paper_presets: str
    with_literature_defaults: str
    verdict: str  # with the paper's presets


def check(main: Results, variants: Results) -> list[Claim]:
    """Return all claims, checked with the main study and with PAO with one hyperparameter changed at a time."""

    def both(text: str, examine: Callable[[Results, Sequence[str]], Finding]) -> Claim:
        ours, theirs = (examine(main, main.groups[name]) for name in (PAPER, LITERATURE))
        return Claim(text, ours.numbers, f"{theirs.numbers} ({theirs.verdict})", ours.verdict)

    def alone(text: str, found: Finding) -> Claim:
        return Claim(text, found.numbers, "the same", found.verdict)

    return [
        both("In 2-D, on the four unimodal functions, only SADE is better than PAO", _only_sade_is_better),
        both("In 2-D, on the other functions, PAO is in line with the other methods", _in_line(2)),
        both("In 2-D, PAO finds the optima of Rastrigin and Ackley exactly", _exact_optima),
        both("In 8-D, PAO is clearly ahead of all methods on the unimodal functions", _clearly_ahead),
        both("In 8-D, on the other functions, PAO performs like the other methods", _in_line(8)),
        both("In 8-D, PAO avoids poor minima of Rastrigin and Griewank where PSO and DE are trapped", _not_trapped),
        both("In 8-D, almost no method, PAO included, finds the minimum of Schwefel or Ackley", _nobody_finds),
        both("PAO is better than PSO on every problem", _beats_pso),
        alone("A large mass slows convergence", _compared(variants, "mass 4", slower=True)),
        alone("A large stiffness accelerates convergence", _compared(variants, "stiffness 4", slower=False)),
        alone("A damping ratio above one converges slowly", _compared(variants, "damping 2", slower=True)),
        alone("Strong noise turns the swarm into a random search", _like_random_search(variants, "noise 16")),
        alone("The motion is exact for any time step", _exact_motion()),
        alone("The final step's density tells how uncertain the optimum is", _covered_by_the_next_step()),
        alone("As a proposal for Sequential Monte Carlo PAO would give valid posteriors", Finding("–", OUTSIDE)),
    ]


def paper_sections(results: Results, study: Study, folder: Path, **how: Any) -> list[Section]:
    """Return the additional sections of the paper's study: its claims and the centre-bias audit.

    Both need further runs, which are made here. For any other study, or for a part of this one, the list is empty.
    """
    whole = paper()
    parts = ("problems", "dims", "groups")
    if any(getattr(study, name) != getattr(whole, name) for name in parts) or study.methods != whole.methods:
        return []
    assert study.groups is not None
    swarms = {name: study.methods[name] for group in (PAPER, LITERATURE) for name in study.groups[group]}
    if study.precision > 0:  # the paper compares errors far below it
        groups = {name: study.groups[name] for name in (PAPER, LITERATURE)}
        every_digit = replace(study, methods=swarms, groups=groups, precision=0.0, fewer_runs={})
        results = every_digit.run(folder, **how)  # its cells are in the folder
    common = {"generations": study.generations, "population": study.population, "seed": study.seed}
    runs = max(10, min(30, study.runs))
    verdicts = ps.study.centre_biases(swarms, folder / "centre-bias", **common, runs=runs, **how)
    variants = hyperparameters(**common, runs=study.runs).run(folder / "hyperparameters", **how)
    return [
        Section(
            "The paper's claims",
            [
                "Each claim in the discussion of Champneys and Rogers (2023), in our words, with the numbers of this "
                "study. Verdicts compare means with all their digits, without tests; the tests are above. The verdict "
                "is for the paper's hyperparameters; the one for the literature's defaults is in brackets."
            ],
            ["Claim", "With paper presets", "With literature defaults", "Verdict"],
            [list(claim) for claim in check(results, variants)],
        ),
        Section(
            "Centre bias",
            [
                "Each number is the factor by which the median error grows when the optimum is moved from the centre "
                f"of the box to another place in it ({runs} runs, 8-D, three places). A method profits from the "
                "centre if the factor is at least 2 on some function and significant (Mann-Whitney test with Holm's "
                "correction, level 0.01). With few runs, only large effects are significant."
            ],
            ["Method", *(one.problem for one in verdicts[0].advantages), "Profits from the centre"],
            [
                [v.method, *(f"{a.factor:.3g}" for a in v.advantages), "yes" if v.profits else "no evidence"]
                for v in verdicts
            ],
        ),
    ]


def hyperparameters(**options: Any) -> Study:
    """Return a study of PAO with one hyperparameter changed at a time, and of random search."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.errors.HyperparameterWarning)  # some are bad on purpose
        methods = {
            "default": ps.PAO(),
            "mass 4": ps.PAO(mass=4.0),
            "stiffness 4": ps.PAO(stiffness=4.0),
            "damping 2": ps.PAO(damping=2.0),
            "noise 16": ps.PAO(noise=16.0),
            "random search": ps.classic.RandomSearch(),
        }
    return Study(
        **{
            "problems": ["sphere"],
            "methods": methods,
            "dims": [8],
            "title": "One hyperparameter at a time",
            **options,
        }
    )


def _mean(results: Results, problem: str, dim: int, method: str) -> float:
    return float(np.mean(results.final(problem, dim, method)))


def _base(method: str) -> str:
    """Return the name without its preset: DE for DE (literature)."""
    return method.partition(" ")[0]


def _only_sade_is_better(results: Results, group: Sequence[str]) -> Finding:
    better = [
        f"{method} on {problem}"
        for problem in UNIMODAL
        for method in group
        if _mean(results, problem, 2, method) < _mean(results, problem, 2, "PAO")
    ]
    if not better:
        return Finding("no method is better than PAO on any of the four, not even SADE", PARTLY)
    others = [name for name in better if _base(name) != "SADE"]
    return Finding("better than PAO: " + ", ".join(better), FAILS if others else HOLDS)


def _in_line(dim: int) -> Callable[[Results, Sequence[str]], Finding]:
    def examine(results: Results, group: Sequence[str]) -> Finding:
        ranks = {}
        for problem in OTHERS:
            order = rankdata([_mean(results, problem, dim, method) for method in group])
            ranks[problem] = float(order[group.index("PAO")])
        average = np.mean(list(ranks.values()))
        middle = (1 + len(group)) / 2
        text = ", ".join(f"{problem} {rank:g}" for problem, rank in ranks.items())
        verdict = HOLDS if average <= middle else PARTLY if average < len(group) - 0.5 else FAILS
        return Finding(f"PAO's rank among {len(group)} by mean: {text}; on average {average:.2g}", verdict)

    return examine


def _exact_optima(results: Results, group: Sequence[str]) -> Finding:
    rastrigin, ackley = (results.final(problem, 2, "PAO") for problem in ("rastrigin", "ackley"))
    exact = int(np.sum(rastrigin == 0))
    text = f"Rastrigin exactly 0 in {exact} of {len(rastrigin)} runs; Ackley {ackley.mean():.2g} on average, "
    text += f"{ackley.max():.2g} at worst"
    return Finding(text, HOLDS if exact == len(rastrigin) and ackley.mean() < 1e-13 else PARTLY if exact else FAILS)


def _clearly_ahead(results: Results, group: Sequence[str]) -> Finding:
    ahead = {}
    for problem in UNIMODAL:
        means = {method: max(_mean(results, problem, 8, method), 1e-300) for method in group}
        second = min((mean, method) for method, mean in means.items() if method != "PAO")
        ahead[problem] = (float(np.log10(second[0] / means["PAO"])), second[1])
    text = ", ".join(f"{problem} {decades:.2g} (next: {who})" for problem, (decades, who) in ahead.items())
    verdict = _verdict([decades >= 1 for decades, _ in ahead.values()])
    return Finding(f"PAO's mean is smaller by this many decades: {text}", verdict)


def _not_trapped(results: Results, group: Sequence[str]) -> Finding:
    parts, better = [], []
    for problem in ("rastrigin", "griewank"):
        means = {
            method: _mean(results, problem, 8, method) for method in group if _base(method) in ("PAO", "PSO", "DE")
        }
        parts.append(f"{problem} " + ", ".join(f"{_base(method)} {mean:.2g}" for method, mean in means.items()))
        better += [mean > means["PAO"] for method, mean in means.items() if method != "PAO"]
    return Finding("mean error: " + "; ".join(parts), _verdict(better))


def _nobody_finds(results: Results, group: Sequence[str]) -> Finding:
    parts, unsolved = [], []
    for problem in ("schwefel", "ackley"):
        share = {method: float(np.mean(results.final(problem, 8, method) < 1e-2)) for method in group}
        parts.append(f"{problem} " + ", ".join(f"{_base(method)} {part:.0%}" for method, part in share.items()))
        unsolved.append(sum(part > 0.5 for part in share.values()) <= 1 and not share["PAO"] > 0.5)
    return Finding("runs with an error below 0.01: " + "; ".join(parts), _verdict(unsolved))


def _beats_pso(results: Results, group: Sequence[str]) -> Finding:
    (pso,) = (method for method in group if _base(method) == "PSO")
    tasks = list(results.tasks())
    lost = [
        f"{problem} {dim}-D"
        for problem, dim in tasks
        if not _mean(results, problem, dim, "PAO") < _mean(results, problem, dim, pso)
    ]
    text = f"smaller mean on {len(tasks) - len(lost)} of {len(tasks)}" + (f", not on {', '.join(lost)}" if lost else "")
    return Finding(text, HOLDS if not lost else PARTLY if len(lost) <= len(tasks) / 2 else FAILS)


def _compared(results: Results, variant: str, *, slower: bool) -> Finding:
    """Check whether one changed hyperparameter makes PAO slower, or faster."""
    pairs = _medians(results, variant, "default")
    verdict = _verdict([changed > default if slower else changed < default for changed, default in pairs])
    return Finding(_median_text(results, variant, "default", pairs), verdict)


def _like_random_search(results: Results, variant: str) -> Finding:
    """Check whether the median error stays within a factor of two of random search's."""
    pairs = _medians(results, variant, "random search")
    verdict = _verdict([0.5 <= found / random <= 2.0 for found, random in pairs])
    return Finding(_median_text(results, variant, "random search", pairs), verdict)


def _medians(results: Results, variant: str, other: str) -> list[tuple[float, float]]:
    """Return the median errors of two methods on the sphere, after a tenth of the run and at its end."""
    (dim,) = results.dims
    errors = [results.trace("sphere", dim, method).error for method in (variant, other)]
    steps = errors[0].shape[1]
    one, two = (np.median(error[:, [steps // 10, steps - 1]], axis=0).tolist() for error in errors)
    return list(zip(one, two, strict=True))


def _median_text(results: Results, variant: str, other: str, pairs: Sequence[tuple[float, float]]) -> str:
    (dim,) = results.dims
    parts = [
        f"{when} {one:.2g}, {other} {two:.2g}" for when, (one, two) in zip(("early", "at the end"), pairs, strict=True)
    ]
    return f"{variant} on the {dim}-D sphere, median error: {'; '.join(parts)}"


def _verdict(as_claimed: Sequence[bool]) -> str:
    return HOLDS if all(as_claimed) else PARTLY if any(as_claimed) else FAILS


def _exact_motion() -> Finding:
    """Check that one step of dt equals two of h = dt/2: A(dt) = A(h)^2 and S(dt) = S(h) + A(h) S(h) A(h)^T."""
    dt = np.geomspace(1e-3, 1e3, 61)
    whole, half = ps.laws.transition(1.0, 0.2, 2.0, dt), ps.laws.transition(1.0, 0.2, 2.0, dt / 2)
    twice = half.A @ half.A
    shaken = half.covariance + half.A @ half.covariance @ np.swapaxes(half.A, -1, -2)
    worst = 0.0
    for one, other in ((whole.A, twice), (whole.covariance, shaken)):
        scale = np.abs(one).max(axis=(-2, -1), keepdims=True)
        worst = max(worst, float((np.abs(one - other) / np.maximum(scale, 1e-300)).max()))
    text = f"one step against two of half the length, dt from 0.001 to 1000: largest relative difference {worst:.1e}"
    return Finding(text, HOLDS if worst < 1e-9 else FAILS)


@cache
def _covered_by_the_next_step(runs: int = 10, dim: int = 8) -> Finding:
    """Check whether the central 95 % of the law of the next step contain the minimum, within ten points."""
    inside = {}
    for name in (*UNIMODAL, "rosenbrock"):
        problem = ps.problems.get(f"{name}-shifted", dim)
        many = ps.minimize_many(problem, problem.bounds, method=ps.PAO.paper(), runs=runs, vectorized=True, rng=1)
        laws = [many.run(r).next_step for r in range(runs)]
        places = np.array([law.cdf(problem.optimum) for law in laws if law is not None])
        inside[name] = float(np.mean(np.abs(places - 0.5) <= 0.475))
    shares = ", ".join(f"{name} {share:.0%}" for name, share in inside.items())
    text = f"coordinates of the minimum inside the central 95 % after 100 generations ({dim}-D, {runs} runs): {shares}"
    return Finding(text, _verdict([share >= 0.85 for share in inside.values()]))


def main() -> None:
    """Run the study, and write its report with the claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("study"), help="folder for runs, figures and the report")
    parser.add_argument("--quick", action="store_true", help="15 runs of each method on each problem")
    parser.add_argument("--workers", type=int, default=-1, help="number of processes (default: one per core)")
    options = parser.parse_args()
    study = paper(**({"runs": 15} if options.quick else {}))
    how = {"workers": options.workers, "progress": sys.stderr.isatty()}
    results = study.run(options.out, **how)
    path = ps.study.publish(results, options.out, sections=paper_sections(results, study, options.out, **how))
    print("\n\n".join([*ps.study.verdict(results), *ps.study.findings(results), f"Report: {path}"]))


if __name__ == "__main__":
    main()
