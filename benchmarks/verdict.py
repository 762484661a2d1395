"""How far the verdict of `sample` can be believed: false alarms and silent failures on posteriors with a known truth.

It takes a few minutes, and continues where it was stopped. Each posterior of
``verdict_problems.py`` is sampled with a few seeds and the default settings.

- A result is *right* if evidence, means and standard deviations all lie within three stated errors of the truth. The
  errors of means and standard deviations follow from the effective sample size. There are 2 d of them, so their limit
  is raised until all of them together exceed it as rarely as a single one exceeds three. A moment that does not exist
  is right if a remark names its parameter.
- A *false alarm* is a right result whose ``success`` is False.
- A *silent failure* is a wrong result whose ``success`` is True.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from verdict_problems import PROBLEMS, Problem

import paoswarm as ps

ERRORS = 3.0
RESULTS = Path(__file__).parent / "results" / "verdict.jsonl"


def measure(name: str, problem: Problem, seed: int) -> dict[str, Any]:
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ps.sample(problem.log_likelihood, problem.prior, vectorized=True, rng=seed)
    mean, sd, size = found.mean(), found.std(), found.effective_size
    x = found.resample(4000, rng=0)
    kurtosis = (((x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)) ** 4).mean(axis=0)
    finite_mean, finite_sd = np.isfinite(problem.mean), np.isfinite(problem.sd)
    with np.errstate(invalid="ignore"):
        off_mean = np.where(finite_mean, (mean - problem.mean) / (sd / math.sqrt(size)), 0.0)
        sd_error = sd * np.sqrt(np.maximum(kurtosis - 1, 0.1) / (4 * size))
        off_sd = np.where(finite_sd, (sd - problem.sd) / sd_error, 0.0)
    off_mean = np.where(finite_sd, off_mean, 0.0)  # without a variance, the mean has no error
    return {
        "problem": name,
        "seed": seed,
        "evaluations": found.n_evaluations,
        "seconds": round(time.perf_counter() - begun, 2),
        "evidence_off": found.log_evidence - problem.log_evidence,
        "evidence_error": found.log_evidence_error,
        "moment_off": float(np.abs(np.concatenate([off_mean, off_sd])).max()),
        "n_moments": 2 * len(mean),
        "unnamed": [found.names[i] for i in np.flatnonzero(~finite_sd) if f"of {found.names[i]} " not in found.message],
        "success": found.success,
        "method": found.method,
        "message": found.message,
    }


def is_right(row: dict[str, Any]) -> bool:
    """Whether all numbers lie within three stated errors of the truth."""
    level = 2 * stats.norm.sf(ERRORS)
    limit = stats.norm.isf(level / row["n_moments"] / 2)
    evidence_is_right = abs(row["evidence_off"]) <= ERRORS * row["evidence_error"]
    if not math.isfinite(row["evidence_error"]):
        evidence_is_right = abs(row["evidence_off"]) <= 0.1  # no error is stated
    return bool(evidence_is_right and row["moment_off"] <= limit and not row["unnamed"])


def table(rows: list[dict[str, Any]]) -> str:
    """The counts for both halves of the posteriors."""
    place = {name: i for i, (name, _) in enumerate(PROBLEMS)}
    lines = [
        "| posteriors | runs | right | false alarms | silent failures | evaluations, median |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for label, odd in (("used for choices", 0), ("held out", 1)):
        part = [row for row in rows if place[row["problem"]] % 2 == odd]
        if not part:
            continue
        right = sum(map(is_right, part))
        alarms = sum(is_right(row) and not row["success"] for row in part)
        silent = sum(not is_right(row) and row["success"] for row in part)
        cost = np.median([row["evaluations"] for row in part])
        share = [f"{n} ({100 * n / len(part):.1f} %)" for n in (alarms, silent)]
        lines.append(f"| {label} | {len(part)} | {right} | {share[0]} | {share[1]} | {cost:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", help="names; all by default")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only the posteriors at even (0) or odd (1) places")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    done = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    known = {(row["problem"], row["seed"]) for row in done}
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    for i, (name, make) in enumerate(PROBLEMS):
        if (args.problems and name not in args.problems) or args.half not in (None, i % 2):
            continue
        for seed in seeds:
            if (name, seed) in known:
                continue
            row = measure(name, make(), seed)
            done.append(row)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            kind = ("right" if is_right(row) else "WRONG") + (" " if row["success"] else " flagged")
            print(
                f"{name:12} {seed:3} {kind:14} {row['evaluations']:6} {row['seconds']:5.1f} s  off: log evidence "
                f"{row['evidence_off']:+.3f} +- {row['evidence_error']:.2g}, moments {row['moment_off']:.1f} errors  "
                f"{'' if row['success'] else row['message']}",
                flush=True,
            )
    print(table([row for row in done if row["seed"] in seeds]))


if __name__ == "__main__":
    main()
