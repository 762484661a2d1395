"""Hyperparameters of scikit-learn's models: `PAOSearchCV` beside searches of scikit-learn, at equal numbers of fits.

Every search tries candidates with the same splits. What counts is the cross-validated score of the best candidate, on
all data.

    python benchmarks/hyperparameters.py              # five seeds
    python benchmarks/hyperparameters.py --table      # only the table of the runs that are there

Runs are appended to a file, so it continues where it was stopped.
"""

import argparse
import json
import pathlib
import warnings

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import HalvingRandomSearchCV, KFold, RandomizedSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from paoswarm.sklearn import PAOSearchCV

FILE = pathlib.Path(__file__).parent / "results" / "hyperparameters.jsonl"
N_ITER, SEEDS = 50, 5
SEVERAL = stats.loguniform(1e-4, 1e4)


def digits(n=500):
    x, y = load_digits(return_X_y=True)
    return x[:n] / 16, y[:n]


SVM = {"svc__C": SEVERAL, "svc__gamma": SEVERAL}
TREE = {
    "max_depth": stats.randint(1, 21),
    "min_samples_leaf": stats.randint(1, 41),
    "criterion": ["gini", "entropy"],
    "ccp_alpha": stats.loguniform(1e-5, 1e-1),
}
SVR_SPACE = {"svr__C": SEVERAL, "svr__gamma": SEVERAL, "svr__epsilon": SEVERAL}
KERNEL = {"alpha": SEVERAL, "gamma": SEVERAL, "kernel": ["rbf", "laplacian", "polynomial"]}
TASKS = {
    "SVC, wine": (make_pipeline(StandardScaler(), SVC()), SVM, lambda: load_wine(return_X_y=True)),
    "SVC, breast cancer": (make_pipeline(StandardScaler(), SVC()), SVM, lambda: load_breast_cancer(return_X_y=True)),
    "SVC, digits": (make_pipeline(StandardScaler(with_std=False), SVC()), SVM, digits),
    "SVR, diabetes": (make_pipeline(StandardScaler(), SVR()), SVR_SPACE, lambda: load_diabetes(return_X_y=True)),
    "kernel ridge, diabetes": (KernelRidge(), KERNEL, lambda: load_diabetes(return_X_y=True)),
    "tree, breast cancer": (DecisionTreeClassifier(random_state=0), TREE, lambda: load_breast_cancer(return_X_y=True)),
}


def searches(estimator, space, cv, seed):
    common = {"cv": cv, "random_state": seed, "refit": False}
    yield "PAOSearchCV", PAOSearchCV(estimator, space, n_iter=N_ITER, **common)
    yield "RandomizedSearchCV", RandomizedSearchCV(estimator, space, n_iter=N_ITER, **common)
    halving = {"n_candidates": 3 * N_ITER, "min_resources": "exhaust"}
    yield "HalvingRandomSearchCV", HalvingRandomSearchCV(estimator, space, **halving, **common)


def run():
    done = {(one["task"], one["search"], one["seed"]) for one in runs()}
    for seed in range(SEEDS):
        for task, (estimator, space, load) in TASKS.items():
            x, y = load()
            kind = KFold if y.dtype.kind == "f" else StratifiedKFold
            cv = kind(3, shuffle=True, random_state=0)
            for name, search in searches(estimator, space, cv, seed):
                if (task, name, seed) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    search.fit(x, y)
                    best = clone(estimator).set_params(**search.best_params_)
                    score = cross_val_score(best, x, y, cv=cv).mean()
                used = search.cv_results_.get("n_resources", np.full(len(search.cv_results_["params"]), len(y)))
                line = {"task": task, "search": name, "seed": seed, "score": score, "fits": used.sum() / len(y)}
                with FILE.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def runs():
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def table():
    found = runs()
    names = list(dict.fromkeys(one["search"] for one in found))
    print("| task |", " | ".join(names), "|")
    print("|---|" + "---|" * len(names))
    for task in TASKS:
        cells = []
        for name in names:
            scores = [one["score"] for one in found if one["task"] == task and one["search"] == name]
            cells.append(f"{np.mean(scores):.4f} ({np.min(scores):.4f})" if scores else "")
        print(f"| {task} |", " | ".join(cells), "|")
    fits = {name: np.mean([one["fits"] for one in found if one["search"] == name]) for name in names}
    print("| fits of all data, per split |", " | ".join(f"{fits[name]:.0f}" for name in names), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the table only")
    if not parser.parse_args().table:
        run()
    table()
