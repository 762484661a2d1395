"""A study in sentences, computed from its results.

The verdict says who is ahead, whether that is chance, and what the reference loses. The findings describe each group of
methods: who wins, where the reference loses, and what is significant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from paoswarm.helpers import counted
from paoswarm.study.results import Results, Task
from paoswarm.study.statistics import FLOOR, TARGETS, Comparison, average_ranks, band, compare, success, wins

LEVEL = 0.05  # significance level of every test in the report
LONGEST = 12  # most tasks, or methods, that are named one by one

Won = dict[str, list[Task]]  # as `wins` gives it
SOLVED = float(TARGETS[-1])  # error at which a problem counts as solved
NAMED = 3  # losses that are named one by one


class MethodRank(NamedTuple):
    """One method among all methods of a study."""

    method: str
    rank: float  # by median error, averaged over the tasks
    solved: float  # share of its runs that end within `SOLVED` of the minimum


def standings(results: Results) -> list[MethodRank]:
    """Return all methods, the best average rank first; of equal ones the reference first."""
    ranks = average_ranks(results, results.methods).average
    rows = []
    for method in results.methods:
        rates = [success(results, *task, method, SOLVED).rate for task in results.tasks()]
        rows.append(MethodRank(method, ranks[method], sum(rates) / len(rates)))
    return sorted(rows, key=lambda row: (row.rank, row.method != results.reference))


def verdict(results: Results) -> list[str]:
    """Return the verdict in one sentence, then its tests, then what the reference loses."""
    if len(results.methods) == 1:
        return _alone(results)
    order = standings(results)
    return [_who_is_ahead(results, order), _is_it_chance(results, order), _what_it_loses(results)]


def _alone(results: Results) -> list[str]:
    return [f"{results.reference} is the only method: there is nothing to compare it with."]


def _who_is_ahead(results: Results, order: Sequence[MethodRank]) -> str:
    first, *later = [list(rows) for _, rows in groupby(order, key=lambda row: row.rank)]
    names = listed(row.method for row in first)
    leads = "share the first place" if len(first) > 1 else "ranks first"
    tasks = counted(len(list(results.tasks())), "task")
    text = f"Of {counted(len(order), 'method')} on {tasks}, {names} {leads} "
    text += f"(average rank {first[0].rank:.2f}, {_all_solved(first)} of runs solved)"
    for i, rows in enumerate(later):
        if i == 0 or rows[0].method == results.reference:
            text += f", {'and ' if i > 0 else ''}{_placed(rows, 1 + order.index(rows[0]))}"
    return f"{text}."


def _is_it_chance(results: Results, order: Sequence[MethodRank]) -> str:
    """Compare the first method with the second, and the reference with the first."""
    first, second, reference = order[0].method, order[1].method, results.reference
    pairs = [(first, second)] + ([(reference, first)] if reference not in (first, second) else [])
    parts = [f"{one} is {_compared(results, one, other)}" for one, other in pairs]
    return f"In paired runs, {'; '.join(parts)} (Wilcoxon’s test at {100 * LEVEL:g}\u00a0%, with Holm’s correction)."


def _compared(results: Results, one: str, other: str) -> str:
    found = [c.verdict for c in compare(replace(results, reference=one), [one, other], LEVEL)]
    better, worse = found.count("better"), found.count("worse")
    if not better and not worse:
        return f"not significantly different from {other} on any task"
    return f"significantly better than {other} on {counted(better, 'task')} and worse on {worse}"


def _what_it_loses(results: Results) -> str:
    """Say on how many tasks some method is significantly better than the reference, and name the widest margins."""
    found = [c for group in results.groups.values() for c in compare(results, group, LEVEL)]
    tasks = list(results.tasks())
    worst: dict[Task, Comparison] = {}  # the widest margin first
    for c in sorted((c for c in found if c.verdict == "worse"), key=lambda c: c.decades):
        worst.setdefault(c.task, c)
    unbeaten = set(tasks) - {c.task for c in found if c.verdict != "better"}
    reference = results.reference
    if not worst:
        text = f"No method is significantly better than {reference} on any task"
    else:
        text = f"At least one method is significantly better than {reference} on {len(worst)} of {len(tasks)} tasks"
        named = listed(
            f"{title_of(results, c.task)} ({decades_behind(-c.decades)} decades behind {c.method})"
            for c in list(worst.values())[:NAMED]
        )
        text += f", most clearly on {named}"
    return f"{text}; {reference} is significantly better than all others on {len(unbeaten)}."


def _placed(rows: Sequence[MethodRank], place: int) -> str:
    """The methods of one place."""
    share = "share the " if len(rows) > 1 else ""
    where = f"{share}{_ordinal(place)}{' place' if share else ''}"
    return f"{listed(row.method for row in rows)} {where} ({rows[0].rank:.2f}, {_all_solved(rows)})"


def _all_solved(rows: Sequence[MethodRank]) -> str:
    """The shares of solved runs, in the order of the methods; one if they are the same."""
    shares = [f"{100 * row.solved:.0f}\u00a0%" for row in rows]
    return shares[0] if len(set(shares)) == 1 else listed(shares)


def _ordinal(place: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th") if place % 100 not in (11, 12, 13) else "th"
    return f"{place}{ending}"


def findings(results: Results) -> list[str]:
    """Return paragraphs of plain text on the reference, for each group of methods."""
    paragraphs = []
    for name in results.groups:
        first, *others = group_findings(results, name)
        paragraphs += [f"In the group “{name}”, {first}" if len(results.groups) > 1 else first, *others]
    return paragraphs


def group_findings(results: Results, name: str) -> list[str]:
    """Return paragraphs of plain text on the reference among the methods of one group."""
    group = results.groups[name]
    if len(group) == 1:
        return _alone(results)
    won = wins(results, group)
    comparisons = compare(results, group, LEVEL)
    return [
        _wins(results, won),
        *_losses(results, won),
        _significance(results, comparisons),
        *_contradictions(results, won, comparisons),
        _ranks(results, group),
    ]


def short(value: float) -> str:
    """Return a number in short scientific notation: 1.23e-8, 0, ∞, or a dash for NaN."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def listed(items: Iterable[str]) -> str:
    """Return the items joined as in a sentence: a, b and c."""
    *head, last = [*items] or [""]
    return f"{', '.join(head)} and {last}" if head else last


def decades_behind(decades: float) -> str:
    """Return a margin in decades; one that would be 0.0 is less than 0.1."""
    return f"{decades:.1f}" if decades >= 0.05 else "less than 0.1"


def title_of(results: Results, task: Task) -> str:
    """Return a task in words: Sphere in 2 dimensions."""
    problem, dim = task
    return f"{results.titles.get(problem, problem)} in {_dims(dim)}"


def _wins(results: Results, won: Won) -> str:
    """Say on how many tasks the mean of the reference is the smallest, in total and by dimension."""
    own = won[results.reference]
    n_tasks = len(list(results.tasks()))
    text = f"{results.reference} has the smallest mean error of {counted(len(won), 'method')} "
    text += f"on {_share(len(own), n_tasks)}"
    if own and len(results.dims) > 1:
        of_dim = Counter(dim for _, dim in own)
        text += f" ({listed(f'{of_dim[dim]} in {_dims(dim)}' for dim in results.dims)})"
    shared = sum(sum(task in others for others in won.values()) > 1 for task in own)
    if shared:
        these = "this win is" if len(own) == 1 else f"{shared} of these wins {'is' if shared == 1 else 'are'}"
        text += f"; {these} shared with another method"
    return text + "."


def _losses(results: Results, won: Won) -> list[str]:
    """Name the tasks on which another mean is smaller, by how many decades, and the tasks that no method solved."""
    winners = {task: [method for method in won if task in won[method]] for task in results.tasks()}
    behind = {
        task: math.log10(_mean(results, task, results.reference)) - math.log10(_mean(results, task, names[0]))
        for task, names in winners.items()
        if names and results.reference not in names
    }
    nobody = sum(not names for names in winners.values())
    text = []
    if behind:
        named = sorted(behind, key=lambda task: -behind[task])[:LONGEST]  # the widest margins
        lost_to: dict[str, list[str]] = {}
        for task in named:
            margin = _margin(behind[task], _mean(results, task, winners[task][0]))
            lost_to.setdefault(listed(winners[task]), []).append(f"{title_of(results, task)} ({margin})")
        parts = [f"To {names}: {listed(tasks)}." for names, tasks in lost_to.items()]
        if len(behind) > len(named):
            parts.append(f"And {counted(len(behind) - len(named), 'more task')}, by no wider margin.")
        lost = counted(len(behind), "task")
        text.append(f"It loses {lost}; the margin in decades is in brackets. {' '.join(parts)}")
    if nobody:
        text.append(f"On {counted(nobody, 'task')} no method has a finite mean error.")
    return text


def _margin(decades: float, best: float) -> str:
    """How far the reference is behind the smallest mean, ``best``."""
    if best <= FLOOR:
        return "the winner’s mean is zero"
    return "its own mean is infinite" if math.isinf(decades) else decades_behind(decades)


def _significance(results: Results, comparisons: Sequence[Comparison]) -> str:
    """Say how many comparisons are significant after Holm's correction, and with which methods."""
    runs = max(len(trace.error) for trace in results.traces.values())
    better, worse, even = (sum(c.verdict == v for c in comparisons) for v in ("better", "worse", "not significant"))
    text = (
        f"In {counted(len(comparisons), 'paired comparison')} with another method on a task, {results.reference} is "
        f"significantly better in {better}, significantly worse in {worse}, and not significantly different in {even} "
        f"(Wilcoxon’s test at {100 * LEVEL:g}\u00a0%, with Holm’s correction)."
    )
    needed = 1 + math.ceil(math.log2(len(comparisons) / LEVEL))
    if runs < needed:  # the smallest p of the test is 2 / 2^runs
        text += f" With {counted(runs, 'run')}, no comparison can be significant: that takes at least {needed} runs."
    for verdict in ("better", "worse"):
        tasks = Counter(c.method for c in comparisons if c.verdict == verdict).most_common()
        if tasks:
            (first, most), *others = tasks
            against = [f"{first} on {counted(most, 'task')}", *(f"{method} on {n}" for method, n in others)]
            text += f" It is {verdict} than {listed(against)}."
    return text


def _contradictions(results: Results, won: Won, comparisons: Sequence[Comparison]) -> list[str]:
    """Name the tasks that the reference wins by its mean although another method is better in most runs."""
    rivals: dict[Task, list[str]] = {}
    for c in comparisons:
        if c.verdict == "worse" and c.task in won[results.reference]:
            rivals.setdefault(c.task, []).append(c.method)
    if not rivals:
        return []
    named = [f"{title_of(results, task)} ({listed(methods)})" for task, methods in rivals.items()]
    if len(named) > LONGEST:
        named = [*named[:LONGEST], f"{len(named) - LONGEST} more"]
    return [
        f"Means and paired runs disagree on {counted(len(rivals), 'task')}: {results.reference} has the smallest mean "
        "error, but is significantly worse in paired runs than the method in brackets (a few bad runs can dominate a "
        f"mean). {'This task is' if len(rivals) == 1 else 'These tasks are'} {listed(named)}."
    ]


def _ranks(results: Results, group: Sequence[str]) -> str:
    """Say which average rank the reference has, which methods are ahead or next, and whether the methods differ."""
    average, p = average_ranks(results, group)
    own = average[results.reference]
    order = sorted(group, key=average.__getitem__)
    ahead = [f"{method} ({average[method]:.2f})" for method in order if average[method] < own]
    level = [method for method in order if average[method] == own and method != results.reference]
    behind = [f"{method} ({average[method]:.2f})" for method in order if average[method] > own]
    text = f"Ranked by median error, {results.reference} has an average rank of {own:.2f} among "
    text += counted(len(group), "method")
    if len(results.dims) > 1:
        each = {dim: average_ranks(results, group, [dim]).average[results.reference] for dim in results.dims}
        text += f" ({listed(f'{rank:.2f} in {_dims(dim)}' for dim, rank in each.items())})"
    if ahead:
        text += f", behind {listed(ahead)}"
    elif level:
        text += f", the best, shared with {listed(level)}"
    else:
        text += f", the best, followed by {behind[0]}"
    if math.isnan(p):
        return f"{text}."
    verdict = "that the methods differ" if p <= LEVEL else "no significant difference between the methods"
    return f"{text}. Friedman’s test finds {verdict} (p = {short(p)})."


def _share(some: int, every: int) -> str:
    if some == every:
        return "the only task" if every == 1 else f"all {every} tasks"
    return f"{some} of {counted(every, 'task')}"


def _dims(dim: int) -> str:
    return counted(dim, "dimension")


def _mean(results: Results, task: Task, method: str) -> float:
    """Return the mean final error, at least `FLOOR`."""
    return max(float(band(results, *task, method).mean[-1]), FLOOR)
