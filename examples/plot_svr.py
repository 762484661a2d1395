"""
Tune a model of scikit-learn
============================

A support vector regression predicts the progress of diabetes from ten measurements (442 patients, a data set of
scikit-learn). Its hyperparameters are three scales, a kernel and a degree. The cost is the error of five-fold
cross-validation.

Tuning a model is not what this library is best at: there are few trials, the cost is rough, and a kernel is a choice.
So a comparison with Optuna's samplers comes with it. It was recorded by ``benchmarks/svr.py``, with 60 trials and the
same folds and seeds for all. With the interface of scikit-learn's own searches there is
`paoswarm.sklearn.PAOSearchCV`, and for studies of Optuna `paoswarm.optuna.PAOSampler`.
"""

import csv
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

space = {
    "C": ps.Real(0.1, 1000, log=True),
    "gamma": ps.Real(1e-4, 1, log=True),
    "epsilon": ps.Real(0.1, 100, log=True),
    "kernel": ps.Choice(["rbf", "sigmoid", "poly"]),
    "degree": ps.Integer(2, 4),
}

# %%
# The parameters arrive by name, so they can be passed on as they are. This part needs scikit-learn, and is left out if
# it is not installed.
try:
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR
except ImportError:
    print("scikit-learn is not installed")
else:
    x, y = load_diabetes(return_X_y=True)
    folds = KFold(5, shuffle=True, random_state=0)

    def error(p: dict) -> float:
        """Root mean square error of five-fold cross-validation."""
        model = make_pipeline(StandardScaler(), SVR(**p, max_iter=20_000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that reach max_iter
            return float(-cross_val_score(model, x, y, cv=folds, scoring="neg_root_mean_squared_error").mean())

    result = ps.minimize(error, space, maxfev=60, rng=0)
    print(f"error {result.fun:.2f} with {result.best}")

# %%
# The recorded comparison: the best error so far. Lines are medians over the seeds, bands reach from the best to the
# worst seed. ``minimize`` begins slowly: for the first 20 trials it is far behind all others, random search included.
# It draws level with Optuna's CMA-ES at the end, and Optuna's TPE has the lowest median. For few trials, take TPE.
values = defaultdict(list)
with (Path(sys.argv[0]).parent / "data" / "svr.csv").open() as file:
    for row in csv.DictReader(file):
        values[row["tuner"], row["seed"]].append(float(row["error"]))
tuners = list(dict.fromkeys(tuner for tuner, _ in values))
best = {t: np.stack([np.minimum.accumulate(v) for (name, _), v in values.items() if name == t]) for t in tuners}
fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
trials = np.arange(1, 61)
for i, (tuner, runs) in enumerate(best.items()):
    low, middle, high = np.quantile(runs, [0, 0.5, 1], axis=0)
    ax.fill_between(trials, low, high, color=f"C{i}", alpha=0.12, linewidth=0)
    ax.step(trials, middle, f"C{i}", where="post", label=f"{tuner}: {middle[-1]:.2f}")
ax.set(xlabel="trials", ylabel="best error of cross-validation", xlim=(1, 60), ylim=(53.4, 58))
ax.legend(title=f"median of {len(runs)} seeds after 60 trials")
plt.show()

for tuner, runs in best.items():
    half, end = np.median(runs[:, 29]), np.median(runs[:, -1])
    print(f"{tuner:14} after 30 trials {half:.2f}, after 60 trials {end:.2f}, worst seed {runs[:, -1].max():.2f}")
