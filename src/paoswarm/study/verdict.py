"""The verdict of a study: the first sentences of its report, computed from its data.

Ranks say who is ahead, paired tests say whether it is chance, and the losses of the reference are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from paoswarm.study.results import Results
from paoswarm.study.sentences import LEVEL, Task, count, decades_behind, listed, title_of
from paoswarm.study.statistics import TARGETS, Comparison, average_ranks, compare, success

SOLVED = float(TARGETS[-1])  # error at which a problem counts as solved
NAMED = 3  # losses that are named one by one


class Standing(NamedTuple):
    """One method among all methods of a study."""

    method: str
    rank: float  # by median error, averaged over the tasks
    solved: float  # share of its runs that end within `SOLVED` of the minimum


def standings(results: Results) -> list[Standing]:
    """Return all methods, the best average rank first; of equal ones the reference first."""
    ranks = average_ranks(results, results.methods).average
    rows = [Standing(method, ranks[method], _solved(results, method)) for method in results.methods]
    return sorted(rows, key=lambda row: (row.rank, row.method != results.reference))


def verdict(results: Results) -> list[str]:
    """Return the verdict in one sentence, then its tests, then what the reference loses."""
    reference = results.reference
    if len(results.methods) == 1:
        return [f"{reference} is the only method: there is nothing to compare it with."]
    order = standings(results)
    return [_who_is_ahead(results, order), _is_it_chance(results, order), _what_it_loses(results)]


def _who_is_ahead(results: Results, order: Sequence[Standing]) -> str:
    tasks = count(len(list(results.tasks())), "task")
    first, *later = [list(rows) for _, rows in groupby(order, key=lambda row: row.rank)]
    names = listed(row.method for row in first)
    leads = "share the first place" if len(first) > 1 else "ranks first"
    numbers = f"average rank {first[0].rank:.2f}, {_all_solved(first)} of runs solved"
    text = f"Of {count(len(order), 'method')} on {tasks}, {names} {leads} ({numbers})"
    place = 1 + len(first)
    for i, rows in enumerate(later):
        has_reference = rows[0].method == results.reference
        if i == 0 or has_reference:
            text += f", {'and ' if i > 0 else ''}{_placed(rows, place)}"
        place += len(rows)
    return f"{text}."


def _is_it_chance(results: Results, order: Sequence[Standing]) -> str:
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
    return f"significantly better than {other} on {count(better, 'task')} and worse on {worse}"


def _what_it_loses(results: Results) -> str:
    """Say on how many tasks some method is significantly better than the reference, and name the widest margins."""
    found = [c for group in results.groups.values() for c in compare(results, group, LEVEL)]
    tasks = list(results.tasks())
    worst: dict[Task, Comparison] = {}
    for c in found:
        task = (c.problem, c.dim)
        if c.verdict == "worse" and (task not in worst or c.decades < worst[task].decades):
            worst[task] = c
    unbeaten = {task for task in tasks if all(c.verdict == "better" for c in found if (c.problem, c.dim) == task)}
    reference = results.reference
    if not worst:
        text = f"No method is significantly better than {reference} on any task"
    else:
        text = f"At least one method is significantly better than {reference} on {len(worst)} of {len(tasks)} tasks"
        widest = sorted(worst.values(), key=lambda c: c.decades)[:NAMED]
        named = listed(f"{title_of(results, (c.problem, c.dim))} ({_behind(c)})" for c in widest)
        text += f", most clearly on {named}"
    return f"{text}; {reference} is significantly better than all others on {len(unbeaten)}."


def _behind(lost: Comparison) -> str:
    return f"{decades_behind(-lost.decades)} decades behind {lost.method}"


def _placed(rows: Sequence[Standing], place: int) -> str:
    """The methods of one place."""
    share = "share the " if len(rows) > 1 else ""
    where = f"{share}{_ordinal(place)}{' place' if share else ''}"
    return f"{listed(row.method for row in rows)} {where} ({rows[0].rank:.2f}, {_all_solved(rows)})"


def _all_solved(rows: Sequence[Standing]) -> str:
    """The shares of solved runs, in the order of the methods; one if they are the same."""
    shares = [_percent(row.solved) for row in rows]
    return shares[0] if len(set(shares)) == 1 else listed(shares)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def _ordinal(place: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th") if place % 100 not in (11, 12, 13) else "th"
    return f"{place}{ending}"


def _solved(results: Results, method: str) -> float:
    """Return the share of runs that are solved, averaged over the tasks."""
    rates = [success(results, *task, method, SOLVED).rate for task in results.tasks()]
    return sum(rates) / len(rates)
