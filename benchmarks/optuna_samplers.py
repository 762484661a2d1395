"""`paoswarm.optuna.PAOSampler` beside Optuna's own samplers, with few trials.

    python benchmarks/optuna_samplers.py            # measures; what is done is not run again
    python benchmarks/optuna_samplers.py --table    # prints the tables

Three sets of objectives:

- *bbob*: functions with even numbers in 2 and 5 dimensions. (The default method was chosen with odd numbers.)
- *mixed*: the same functions of 5 unknowns, which are a category of 5 in random order, an int from 0 to 15, a float on
  a log scale and two floats.
- *conditional*: a category says which of three functions is added, each with parameters of its own.

Tables show mean ranks (1 is best, equal values share a rank) of the best value after 50, 100 and 300 trials, the share
of runs in which PAOSampler is ahead of each of the others, and the seconds of processor time that 300 trials take.
Every run is a line of JSON in ``benchmarks/results/optuna_samplers.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path

import numpy as np
import optuna
from scipy.stats import rankdata

from paoswarm.optuna import PAOSampler
from paoswarm.problems import bbob

BUDGETS = (50, 100, 300)
FUNCTIONS = range(2, 25, 2)
RESULTS = Path(__file__).parent / "results" / "optuna_samplers.jsonl"
GROUPED = "TPESampler, group=True"  # the same as TPESampler if there are no conditional parameters
SAMPLERS = {
    "PAOSampler": lambda seed: PAOSampler(seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
    GROUPED: lambda seed: optuna.samplers.TPESampler(seed=seed, group=True),
    "CmaEsSampler": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


def plain(function, dim, instance):
    """A bbob function of floats."""
    problem = bbob.bbob(function, dim, [instance]).instance(0)

    def objective(trial):
        return float(problem(np.array([trial.suggest_float(f"x{i}", -5, 5) for i in range(dim)])))

    return objective


def mixed(function, instance):
    """A bbob function of five unknowns of four kinds."""
    problem = bbob.bbob(function, 5, [instance]).instance(0)
    levels = np.random.default_rng([function, instance]).permutation(np.linspace(-4, 4, 5))

    def objective(trial):
        category = levels["abcde".index(trial.suggest_categorical("category", list("abcde")))]
        count = -5 + 10 * trial.suggest_int("count", 0, 15) / 15
        rate = -5 + 10 * (math.log10(trial.suggest_float("rate", 1e-5, 1, log=True)) + 5) / 5
        rest = [trial.suggest_float(f"x{i}", -5, 5) for i in range(2)]
        return float(problem(np.array([category, count, rate, *rest])))

    return objective


def conditional(function, instance):
    """A bbob function of two shared unknowns plus another one for each of three branches."""
    shared = bbob.bbob(function, 2, [instance]).instance(0)
    branches = [bbob.bbob(function, dim, [instance + 10 * dim]).instance(0) for dim in (2, 3, 5)]

    def objective(trial):
        x = [trial.suggest_float(f"x{i}", -5, 5) for i in range(2)]
        kind = trial.suggest_categorical("kind", ["small", "medium", "large"])
        dim = {"small": 2, "medium": 3, "large": 5}[kind]
        own = branches[(2, 3, 5).index(dim)]
        y = [trial.suggest_float(f"{kind}{i}", -5, 5) for i in range(dim)]
        offset = {"small": 3.0, "medium": 0.0, "large": 1.0}[kind]
        return float(shared(np.array(x)) - shared.minimum + own(np.array(y)) - own.minimum + offset)

    return objective


def objectives(instances):
    """Yield ``(set, function, instance, objective)``."""
    for instance in instances:
        for function in FUNCTIONS:
            yield "bbob, 2 dimensions", function, instance, plain(function, 2, instance)
            yield "bbob, 5 dimensions", function, instance, plain(function, 5, instance)
            yield "mixed", function, instance, mixed(function, instance)
            yield "conditional", function, instance, conditional(function, instance)


def samplers_of(name):
    """The samplers that are compared on a set."""
    return {label: make for label, make in SAMPLERS.items() if label != GROUPED or name == "conditional"}


def measure(instances):
    """Append every run that is missing to the file."""
    done = {(row["set"], row["function"], row["instance"], row["sampler"]) for row in read()}
    for name, function, instance, objective in objectives(instances):
        for label, make in samplers_of(name).items():
            if (name, function, instance, label) in done:
                continue
            study = optuna.create_study(sampler=make(1000 * instance + function))
            began = time.process_time()
            study.optimize(objective, n_trials=max(BUDGETS))
            best = np.minimum.accumulate([trial.value for trial in study.trials])
            row = {"set": name, "function": function, "instance": instance, "sampler": label,
                   "best": [float(best[n - 1]) for n in BUDGETS],
                   "seconds": round(time.process_time() - began, 2)}  # fmt: skip
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")


def read():
    """All runs so far."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def tables():
    """Print a table for each set, of the problems that all samplers have finished."""
    rows = read()
    for name in dict.fromkeys(row["set"] for row in rows):
        labels = list(samplers_of(name))
        runs = {(row["sampler"], row["function"], row["instance"]): row for row in rows if row["set"] == name}
        problems = sorted({key[1:] for key in runs})
        problems = [one for one in problems if all((label, *one) in runs for label in labels)]
        if not problems:
            continue
        best = np.array([[runs[label, *one]["best"] for one in problems] for label in labels])
        ranks = rankdata(best, axis=0).mean(axis=1)
        ahead = ((best[0] < best).mean(axis=1) + 0.5 * (best[0] == best).mean(axis=1)) * 100
        seconds = [np.median([runs[label, *one]["seconds"] for one in problems]) for label in labels]
        print(f"\n{name}, {len(problems)} problems\n")
        heads = [*(f"rank after {n}" for n in BUDGETS), *(f"ahead after {n}" for n in BUDGETS), "seconds"]
        print("| sampler |", " | ".join(heads), "|")
        print("|---" * (2 + 2 * len(BUDGETS)) + "|")
        for i, label in enumerate(labels):
            shares = [f"{share:.0f} %" if i else "" for share in ahead[i]]
            print("|", " | ".join([label, *(f"{rank:.1f}" for rank in ranks[i]), *shares, f"{seconds[i]:.1f}"]), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the tables of the runs so far")
    parser.add_argument("--instances", type=int, default=1, help="how many instances of each function")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    if given.table:
        tables()
    else:
        measure(range(4, 4 + given.instances))
