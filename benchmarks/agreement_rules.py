"""Rules about the end, replayed on the runs that `agreement.py` has recorded."""

from __future__ import annotations

import json
import math
import zlib

import numpy as np
from classics import HELD_OUT

import paoswarm as ps
from paoswarm.methods.agreement import HOPELESS, agreement

ELSEWHERE = {(one.name, one.dim) for one in HELD_OUT}


def is_right(value: float, minimum: float) -> bool:
    return value - minimum <= 1e-6 * max(1.0, abs(minimum))


def is_held_out(row: dict) -> bool:
    """The halves of the classic functions are theirs; of bbob, functions are split by their names."""
    _, name, d, _ = row["key"].split("|")
    if row["set"] == "classics":
        return (name, int(d)) in ELSEWHERE
    return bool(zlib.crc32(row["function"].encode()) % 2)


RULES = {
    "h >= 2 + sqrt(m) or v >= 4 + 2 sqrt(w)": lambda a, _: a.is_settled,
    "h >= 2 + sqrt(m)": lambda a, _: a.is_unique,
    "the same, hopeless searches are places": lambda _, b: b.is_unique,
    "h >= 1 + sqrt(m) or v >= 2 + 2 sqrt(w)": lambda a, _: (
        a.n_here >= 1 + math.sqrt(a.n_places) or a.n_equal >= 2 + 2 * math.sqrt(1 + a.n_worse)
    ),
    "h >= 3 + sqrt(m) or v >= 6 + 2 sqrt(w)": lambda a, _: (
        a.n_here >= 3 + math.sqrt(a.n_places) or a.n_equal >= 6 + 2 * math.sqrt(1 + a.n_worse)
    ),
    "h >= 3": lambda a, _: a.n_here >= 3,
    "v >= 3": lambda a, _: a.n_equal >= 3,
    "Good, n1/n < 0.1": lambda _, b: b.n_searches >= 3 and b.n_once < 0.1 * b.n_searches,
}


def replayed(row):
    """After each search: evaluations, best value, how all agree, and how they would if hopeless ones were places."""
    searches, box, states = [], (np.zeros(row["d"]), np.ones(row["d"])), []
    for one in row["searches"]:
        searches.append(
            ps.results.Search(
                one["series"], one["n"], one["evaluations"], np.array(one["x"]), one["value"], one["ending"],
                one["first"][0],
            )
        )  # fmt: skip
        arrived = [s._replace(ending="converged") if s.ending == HOPELESS else s for s in searches]
        best = min(s.value for s in searches)
        states.append((one["at"], best, agreement(searches, *box), agreement(arrived, *box)))
    return states


def end(states, row, rule):
    """Evaluations at the claim (None without one), whether the value is right then, and what was said."""
    for at, value, a, b in states:
        if a.n_searches and rule(a, b):
            return at, is_right(value, row["minimum"]), a
    return None, is_right(row["value"], row["minimum"]), states[-1][2] if states else None


def statistics(rows, ends):
    """Claims, false ones, missed ones in percent; cost; evaluations for each unknown; unclaimed that are right."""
    claimed = [(row, at, right) for row, (at, right, _) in zip(rows, ends, strict=True) if at]
    false = sum(not right for _, _, right in claimed)
    unclaimed = [right for at, right, _ in ends if not at]
    cost = [at / row["hit"] for row, at, right in claimed if right and row["hit"]]
    return (
        f"{len(rows)} | {100 * len(claimed) / len(rows):.0f} % | {false} of {len(claimed)} "
        f"| {100 * sum(unclaimed) / len(rows):.1f} % | {np.median(cost) if cost else math.nan:.1f} "
        f"| {np.median([at / row['d'] for row, at, _ in claimed]) if claimed else math.nan:.0f}"
    )


def tables(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    states = [replayed(row) for row in rows]
    honest = [row["set"] != "fooling" for row in rows]
    groups = {}
    groups["all"] = honest
    groups["for choosing, several minima"] = [
        ok and not is_held_out(row) and row["minima"] == "many" for ok, row in zip(honest, rows, strict=True)
    ]
    groups["held out, several minima"] = [
        ok and is_held_out(row) and row["minima"] == "many" for ok, row in zip(honest, rows, strict=True)
    ]
    groups["held out"] = [ok and is_held_out(row) for ok, row in zip(honest, rows, strict=True)]
    groups["one minimum or a valley"] = [ok and row["minima"] == "one" for ok, row in zip(honest, rows, strict=True)]
    groups["holes in a bowl"] = [not ok for ok in honest]
    print("| rule | problems | runs | claims | false | missed | cost | evaluations / unknown |\n" + "|---" * 8 + "|")
    for name, rule in RULES.items():
        ends = [end(some, row, rule) for some, row in zip(states, rows, strict=True)]
        for group, members in groups.items():
            chosen = [i for i, is_one in enumerate(members) if is_one]
            if chosen:
                print(f"| {name} | {group} | {statistics([rows[i] for i in chosen], [ends[i] for i in chosen])} |")
    ours = [end(some, row, RULES[next(iter(RULES))]) for some, row in zip(states, rows, strict=True)]
    print("\nWhat was printed, and how often it was wrong:")
    for low, high in ((0, 0.011), (0.011, 0.031), (0.031, 1)):
        said = [right for ok, (at, right, a) in zip(honest, ours, strict=True) if ok and at and low < a.missed <= high]
        print(f"  below {math.ceil(100 * high) if high < 1 else 100} %: {len(said)} claims, {said.count(False)} wrong")
    rest = [right for ok, (at, right, _) in zip(honest, ours, strict=True) if ok and not at]
    print(f"Not confirmed: {len(rest)}, of which {sum(rest)} are right.")
    for row, (at, right, a) in zip(rows, ours, strict=True):
        if at and not right and row["set"] != "fooling":
            print(f"  wrong: {row['key']}, {a}")
