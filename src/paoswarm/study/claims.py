"""What Champneys and Rogers (2023) claim in their discussion, and what a fair repetition finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from paoswarm.core.dynamics import transition
from paoswarm.study.audit import audit_study, final_errors, judge
from paoswarm.study.presets import LITERATURE, PAPER, hyperparameters, paper
from paoswarm.study.report import Section
from paoswarm.study.results import Results
from paoswarm.study.study import Study

UNIMODAL = ("sphere", "ellipsoid", "rotated_ellipsoid", "power_sum")
OTHERS = ("rosenbrock", "griewank", "rastrigin", "ackley", "schwefel")

HOLDS, PARTLY, FAILS, OUTSIDE = "holds", "partly", "does not hold", "not tested here"


class Finding(NamedTuple):
    """Numbers, in words, and what they mean for a claim."""

    numbers: str
    verdict: str


class Claim(NamedTuple):
    """One claim of the paper beside our numbers."""

    claim: str
    with_paper_presets: str
    with_literature_defaults: str
    verdict: str  # for the paper's own presets


def check(main: Results, variants: Results) -> list[Claim]:
    """Every claim of the discussion, from the study and from PAO with one hyperparameter changed at a time."""

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
        alone("The final step's density tells how uncertain the optimum is", Finding("see the tutorial", OUTSIDE)),
        alone("As a proposal for Sequential Monte Carlo PAO would give valid posteriors", Finding("–", OUTSIDE)),
    ]


def paper_sections(results: Results, study: Study, folder: Path, **how: Any) -> list[Section]:
    """What the report on the paper's study has besides: the claims and the centre-bias audit, with runs of their own.

    Nothing for any other study, or for a part of this one.
    """
    whole = paper()
    parts = ("problems", "dims", "groups")
    if any(getattr(study, name) != getattr(whole, name) for name in parts) or study.methods != whole.methods:
        return []
    common = {"generations": study.generations, "population": study.population, "seed": study.seed}
    audit = audit_study(dict(study.methods), options={**common, "runs": min(30, study.runs)})
    errors = final_errors(audit.run(folder / "centre-bias", **how))
    verdicts = [judge(errors, name, name) for name in study.methods]
    variants = hyperparameters(**common, runs=study.runs).run(folder / "hyperparameters", **how)
    return [
        Section(
            "The paper's claims",
            [
                "Each claim of the discussion in Champneys and Rogers (2023), in our words, beside what this study "
                "finds, by means and without tests (those are above). The verdict is for the paper's hyperparameters; "
                "the one for the literature's is in brackets."
            ],
            ["Claim", "With paper presets", "With literature defaults", "Verdict"],
            [list(claim) for claim in check(results, variants)],
        ),
        Section(
            "Centre bias",
            [
                "By what factor the median error grows when the optimum is moved from the centre of the box to another "
                f"place in it ({audit.runs} runs, 8-D, three places). A method profits where it is at least 2 on some "
                "function and chance is ruled out (Mann-Whitney test, Holm's correction, level 0.01); few runs rule "
                "out little."
            ],
            ["Method", *(one.problem for one in verdicts[0].advantages), "Profits from the centre"],
            [
                [v.method, *(f"{a.factor:.3g}" for a in v.advantages), "yes" if v.profits else "no evidence"]
                for v in verdicts
            ],
        ),
    ]


def _mean(results: Results, problem: str, dim: int, method: str) -> float:
    return float(np.mean(results.final(problem, dim, method)))


def _base(method: str) -> str:
    """DE for DE (literature)."""
    return method.partition(" ")[0]


def _only_sade_is_better(results: Results, group: Sequence[str]) -> Finding:
    better = [
        f"{method} on {problem}"
        for problem in UNIMODAL
        for method in group
        if _mean(results, problem, 2, method) < _mean(results, problem, 2, "PAO")
    ]
    if not better:
        return Finding("nobody is better than PAO on any of the four: SADE is not ahead either", PARTLY)
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
    text = f"Rastrigin exactly 0 in {exact} of {len(rastrigin)} runs; Ackley {ackley.mean():.2g} in the mean, "
    text += f"{ackley.max():.2g} at worst"
    return Finding(text, HOLDS if exact == len(rastrigin) and ackley.mean() < 1e-13 else PARTLY if exact else FAILS)


def _clearly_ahead(results: Results, group: Sequence[str]) -> Finding:
    ahead = {}
    for problem in UNIMODAL:
        means = {method: max(_mean(results, problem, 8, method), 1e-300) for method in group}
        second = min((mean, method) for method, mean in means.items() if method != "PAO")
        ahead[problem] = (float(np.log10(second[0] / means["PAO"])), second[1])
    text = ", ".join(f"{problem} {decades:.2g} (next: {who})" for problem, (decades, who) in ahead.items())
    clearly = sum(decades >= 1 for decades, _ in ahead.values())
    return Finding(
        f"decades by which PAO's mean is smaller: {text}", HOLDS if clearly == 4 else PARTLY if clearly else FAILS
    )


def _not_trapped(results: Results, group: Sequence[str]) -> Finding:
    parts, better, pairs = [], 0, 0
    for problem in ("rastrigin", "griewank"):
        means = {
            method: _mean(results, problem, 8, method) for method in group if _base(method) in ("PAO", "PSO", "DE")
        }
        parts.append(f"{problem} " + ", ".join(f"{_base(method)} {mean:.2g}" for method, mean in means.items()))
        pairs += len(means) - 1
        better += sum(mean > means["PAO"] for mean in means.values())
    return Finding("mean error: " + "; ".join(parts), HOLDS if better == pairs else PARTLY if better else FAILS)


def _nobody_finds(results: Results, group: Sequence[str]) -> Finding:
    parts, found = [], {}
    for problem in ("schwefel", "ackley"):
        share = {method: float(np.mean(results.final(problem, 8, method) < 1e-2)) for method in group}
        parts.append(f"{problem} " + ", ".join(f"{_base(method)} {part:.0%}" for method, part in share.items()))
        found[problem] = sum(part > 0.5 for part in share.values()), share["PAO"] > 0.5
    true = [count <= 1 and not pao for count, pao in found.values()]
    verdict = HOLDS if all(true) else PARTLY if any(true) else FAILS
    return Finding("runs that come within 0.01: " + "; ".join(parts), verdict)


def _beats_pso(results: Results, group: Sequence[str]) -> Finding:
    (pso,) = (method for method in group if _base(method) == "PSO")
    tasks = list(results.tasks())
    lost = [f"{problem} {dim}-D" for problem, dim in tasks if not _pao_below(results, problem, dim, pso)]
    text = f"smaller mean on {len(tasks) - len(lost)} of {len(tasks)}" + (f", not on {', '.join(lost)}" if lost else "")
    return Finding(text, HOLDS if not lost else PARTLY if len(lost) <= len(tasks) / 2 else FAILS)


def _pao_below(results: Results, problem: str, dim: int, other: str) -> bool:
    return _mean(results, problem, dim, "PAO") < _mean(results, problem, dim, other)


def _compared(results: Results, variant: str, *, slower: bool) -> Finding:
    """The median error on the 8-D sphere at a tenth of the run and at its end, with one hyperparameter changed."""
    parts, as_claimed = [], []
    (dim,) = results.dims
    steps = len(results.trace("sphere", dim, "default").evaluations)
    for name, step in (("early", steps // 10), ("at the end", steps - 1)):
        usual, changed = (
            float(np.median(results.trace("sphere", dim, m).error[:, step])) for m in ("default", variant)
        )
        parts.append(f"{name} {changed:.2g} instead of {usual:.2g}")
        as_claimed.append(changed > usual if slower else changed < usual)
    verdict = HOLDS if all(as_claimed) else PARTLY if any(as_claimed) else FAILS
    return Finding(f"{variant} on the {dim}-D sphere, median error: {'; '.join(parts)}", verdict)


def _like_random_search(results: Results, variant: str) -> Finding:
    """Whether the median error stays within a factor of two of random search's, early and at the end."""
    parts, alike = [], []
    (dim,) = results.dims
    steps = len(results.trace("sphere", dim, variant).evaluations)
    for name, step in (("early", steps // 10), ("at the end", steps - 1)):
        found, blind = (
            float(np.median(results.trace("sphere", dim, method).error[:, step]))
            for method in (variant, "random search")
        )
        parts.append(f"{name} {found:.2g}, random search {blind:.2g}")
        alike.append(0.5 <= found / blind <= 2.0)
    verdict = HOLDS if all(alike) else PARTLY if any(alike) else FAILS
    return Finding(f"{variant} on the {dim}-D sphere, median error: {'; '.join(parts)}", verdict)


def _exact_motion() -> Finding:
    """One step of dt is two of dt/2: A(dt) = A(dt/2)^2 and Sigma(dt) = Sigma(dt/2) + A Sigma(dt/2) A^T."""
    dt = np.geomspace(1e-3, 1e3, 61)
    whole, half = transition(1.0, 0.2, 2.0, dt), transition(1.0, 0.2, 2.0, dt / 2)
    twice = half.A @ half.A
    shaken = half.covariance + half.A @ half.covariance @ np.swapaxes(half.A, -1, -2)
    worst = 0.0
    for one, other in ((whole.A, twice), (whole.covariance, shaken)):
        scale = np.abs(one).max(axis=(-2, -1), keepdims=True)
        worst = max(worst, float((np.abs(one - other) / np.maximum(scale, 1e-300)).max()))
    text = f"one step against two of half the length, dt from 0.001 to 1000: largest relative difference {worst:.1e}"
    return Finding(text, HOLDS if worst < 1e-9 else FAILS)
