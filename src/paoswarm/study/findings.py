"""What a study has found, in sentences: where the reference wins, where it loses, and how sure one can be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from paoswarm.study.results import Results
from paoswarm.study.statistics import FLOOR, Comparison, average_ranks, band, compare, wins

LEVEL = 0.05  # of every test in the report
LONGEST = 12  # tasks that are named one by one

Task = tuple[str, int]
Won = dict[str, list[Task]]  # as `wins` gives it


def findings(results: Results) -> list[str]:
    """Paragraphs of plain text on the reference, for every group of methods in turn."""
    named = len(results.groups) > 1
    paragraphs = []
    for name in results.groups:
        first, *others = group_findings(results, name)
        paragraphs += [f"In the group “{name}”, {first}" if named else first, *others]
    return paragraphs


def group_findings(results: Results, name: str) -> list[str]:
    """Paragraphs of plain text on the reference among the methods of one group."""
    reference, group = results.reference, results.groups[name]
    if len(group) == 1:
        return [f"{reference} stands alone: there is nothing to compare it with."]
    won = wins(results, group)
    comparisons = compare(results, group, LEVEL)
    return [
        _wins(results, won),
        *_losses(results, won),
        _significance(reference, comparisons, _runs(results)),
        *_contradictions(results, won, comparisons),
        _ranks(results, group),
    ]


def short(value: float) -> str:
    """A number in short scientific notation: 1.23e-8, 0, ∞, or a dash where there is none."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def count(number: int, noun: str) -> str:
    """The number with its noun: 1 task, 2 tasks."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(items: Iterable[str]) -> str:
    """The items joined as in a sentence: a, b and c."""
    *head, last = [*items] or [""]
    return f"{', '.join(head)} and {last}" if head else last


def _wins(results: Results, won: Won) -> str:
    """On how many tasks its mean is the smallest, in all and by dimension."""
    own = won[results.reference]
    tasks = len(results.problems) * len(results.dims)
    text = (
        f"{results.reference} has the smallest mean error of {count(len(won), 'method')} on {_share(len(own), tasks)}"
    )
    if own and len(results.dims) > 1:
        of_dim = Counter(dim for _, dim in own)
        text += f" ({listed(f'{of_dim[dim]} in {_dimensions(dim)}' for dim in results.dims)})"
    shared = sum(sum(task in others for others in won.values()) > 1 for task in own)
    if shared:
        text += f"; {'it is' if len(own) == 1 else f'{shared} of them {_are(shared)}'} shared with another method"
    return text + "."


def _losses(results: Results, won: Won) -> list[str]:
    """The tasks on which another mean is smaller: whose, and by how many decades; and those that nobody solved."""
    winners = {task: listed(method for method in won if task in won[method]) for task in results.tasks()}
    lost = [task for task, names in winners.items() if names and task not in won[results.reference]]
    nobody = sum(not names for names in winners.values())
    text = []
    if lost:
        behind = {task: _behind(results, won, task) for task in lost}
        named = sorted(lost, key=lambda task: -behind[task])[:LONGEST]
        told: dict[str, list[str]] = {}
        for task in named:
            (winner, *_) = (method for method in won if task in won[method])
            margin = _margin(behind[task], to_zero=_mean(results, task, winner) <= FLOOR)
            told.setdefault(winners[task], []).append(f"{_title(results, task)} ({margin})")
        parts = [f"To {names}: {listed(tasks)}." for names, tasks in told.items()]
        if len(lost) > len(named):
            parts.append(f"And {count(len(lost) - len(named), 'more task')}, none by a wider margin.")
        text.append(f"It loses {count(len(lost), 'task')}; in brackets, by how many decades. {' '.join(parts)}")
    if nobody:
        text.append(f"On {count(nobody, 'task')} no method has a finite mean error.")
    return text


def _significance(reference: str, comparisons: Sequence[Comparison], runs: int) -> str:
    """How many comparisons survive Holm's correction, and against whom."""
    better, worse, even = (sum(c.verdict == v for c in comparisons) for v in ("better", "worse", "not significant"))
    text = (
        f"Of {count(len(comparisons), 'comparison')} with another method on a task, run against run, {better} "
        f"{_are(better)} significantly in favour of {reference} and {worse} {_are(worse)} significantly against it; "
        f"{even} {_are(even)} not significant (Wilcoxon’s test at {100 * LEVEL:g}\u00a0%, "
        "corrected by Holm’s method)."
    )
    needed = 1 + math.ceil(math.log2(len(comparisons) / LEVEL))
    if runs < needed:  # the smallest p of the test is 2 / 2^runs
        text += (
            f" With {count(runs, 'run')} none of {len(comparisons)} comparisons can be significant: it takes at least "
            f"{needed} runs."
        )
    for verdict in ("better", "worse"):
        tasks = Counter(c.method for c in comparisons if c.verdict == verdict).most_common()
        if tasks:
            (first, most), *others = tasks
            against = [f"{first} on {count(most, 'task')}", *(f"{method} on {n}" for method, n in others)]
            text += f" It is {verdict} than {listed(against)}."
    return text


def _contradictions(results: Results, won: Won, comparisons: Sequence[Comparison]) -> list[str]:
    """Tasks won by the mean although a rival does better in most runs."""
    rivals: dict[Task, list[str]] = {}
    for c in comparisons:
        if c.verdict == "worse" and (c.problem, c.dim) in won[results.reference]:
            rivals.setdefault((c.problem, c.dim), []).append(c.method)
    if not rivals:
        return []
    named = [f"{_title(results, task)} ({listed(methods)})" for task, methods in rivals.items()]
    if len(named) > LONGEST:
        named = [*named[:LONGEST], f"{len(named) - LONGEST} more"]
    return [
        f"Mean and typical run disagree on {count(len(rivals), 'task')}, where {results.reference} has the smallest "
        f"mean error but is significantly worse run against run (a mean follows the few worst runs): {listed(named)}."
    ]


def _ranks(results: Results, group: Sequence[str]) -> str:
    """Its average rank, who stands before it or next, and whether the methods differ at all."""
    average, p = average_ranks(results, group)
    own = average[results.reference]
    order = sorted(group, key=average.__getitem__)
    ahead = [f"{method} ({average[method]:.2f})" for method in order if average[method] < own]
    level = [method for method in order if average[method] == own and method != results.reference]
    behind = [f"{method} ({average[method]:.2f})" for method in order if average[method] > own]
    text = f"By median error, {results.reference} has the average rank {own:.2f} among {count(len(group), 'method')}"
    if len(results.dims) > 1:
        each = {dim: average_ranks(results, group, [dim]).average[results.reference] for dim in results.dims}
        text += f" ({listed(f'{rank:.2f} in {_dimensions(dim)}' for dim, rank in each.items())})"
    if ahead:
        text += f", behind {listed(ahead)}"
    elif level:
        text += f", the best, shared with {listed(level)}"
    else:
        text += f", the best; next comes {behind[0]}"
    if math.isnan(p):
        return f"{text}."
    verdict = "that the methods differ" if p <= LEVEL else "no sign that the methods differ"
    return f"{text}. Friedman’s test finds {verdict} (p = {short(p)})."


def _share(some: int, every: int) -> str:
    if every == 1:
        return "the only task" if some else "none of 1 task"
    return f"all {every} tasks" if some == every else f"{some or 'none'} of {every} tasks"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _title(results: Results, task: Task) -> str:
    problem, dim = task
    return f"{results.titles.get(problem, problem)} in {_dimensions(dim)}"


def _dimensions(dim: int) -> str:
    return count(dim, "dimension")


def _behind(results: Results, won: Won, task: Task) -> float:
    """Decades between the reference's mean error and the smallest."""
    winner = next(method for method in won if task in won[method])
    return math.log10(_mean(results, task, results.reference)) - math.log10(_mean(results, task, winner))


def _mean(results: Results, task: Task, method: str) -> float:
    """The mean final error, not below the floor."""
    return max(float(band(results, *task, method).mean[-1]), FLOOR)


def _margin(decades: float, to_zero: bool) -> str:
    if to_zero:
        return "the winner’s mean is zero"
    if math.isinf(decades):
        return "its own mean is infinite"
    return f"{decades:.1f}" if decades >= 0.05 else "less than 0.1"


def _runs(results: Results) -> int:
    """Runs of the cell that has most."""
    return max(len(trace.error) for trace in results.traces.values())
