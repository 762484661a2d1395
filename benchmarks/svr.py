"""Tune a support vector regression: `minimize` beside Optuna's samplers, with the same trials and folds.

The results are those that the gallery shows. Needs scikit-learn, optuna and cmaes:
``python benchmarks/svr.py examples/data/svr.csv``. It continues where it was stopped.
"""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import optuna
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import paoswarm as ps

TRIALS, SEEDS = 60, 8
x, y = load_diabetes(return_X_y=True)
folds = KFold(5, shuffle=True, random_state=0)
space = {
    "C": ps.Real(0.1, 1000, log=True),
    "gamma": ps.Real(1e-4, 1, log=True),
    "epsilon": ps.Real(0.1, 100, log=True),
    "kernel": ps.Choice(["rbf", "sigmoid", "poly"]),
    "degree": ps.Integer(2, 4),
}


def error(p: dict) -> float:
    """Root mean square error of five-fold cross-validation."""
    model = make_pipeline(StandardScaler(), SVR(**p, max_iter=20_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that reach max_iter
        return float(-cross_val_score(model, x, y, cv=folds, scoring="neg_root_mean_squared_error").mean())


def trial(t: optuna.Trial) -> float:
    return error(
        {
            "C": t.suggest_float("C", 0.1, 1000, log=True),
            "gamma": t.suggest_float("gamma", 1e-4, 1, log=True),
            "epsilon": t.suggest_float("epsilon", 0.1, 100, log=True),
            "kernel": t.suggest_categorical("kernel", ["rbf", "sigmoid", "poly"]),
            "degree": t.suggest_int("degree", 2, 4),
        }
    )


def with_optuna(sampler: type) -> object:
    def tune(seed: int) -> list[float]:
        study = optuna.create_study(sampler=sampler(seed=seed))
        study.optimize(trial, n_trials=TRIALS)
        return [t.value for t in study.trials]

    return tune


def with_paoswarm(seed: int) -> list[float]:
    values: list[float] = []

    def recorded(p: dict) -> float:
        values.append(error(p))
        return values[-1]

    ps.minimize(recorded, space, maxfev=TRIALS, rng=seed)
    return values


TUNERS = {
    "paoswarm": with_paoswarm,
    "Optuna TPE": with_optuna(optuna.samplers.TPESampler),
    "Optuna CMA-ES": with_optuna(optuna.samplers.CmaEsSampler),
    "random": with_optuna(optuna.samplers.RandomSampler),
}

if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    path = Path(sys.argv[1])
    if not path.exists():
        path.write_text("tuner,seed,trial,error\n")
    with path.open() as file:
        done = {(row["tuner"], int(row["seed"])) for row in csv.DictReader(file)}
    for seed in range(SEEDS):
        for name, tune in TUNERS.items():
            if (name, seed) not in done:
                values = tune(seed)
                with path.open("a") as file:
                    file.writelines(f"{name},{seed},{i + 1},{value:.6g}\n" for i, value in enumerate(values))
                print(name, seed, np.min(values), flush=True)
