"""Sums of exponentials: rates anywhere in twelve decades, as in relaxation, decay and viscoelasticity.

The data are ``sum_k a_k exp(-r_k t)`` at 60 times from 1e-6 to 1e6, with one percent of noise. Amplitudes are known up
to two decades, rates up to twelve, so that only their logarithms can be searched.
"""

from __future__ import annotations

import numpy as np
from constrained_problem import ConstrainedProblem
from scipy.optimize import least_squares

TIMES = np.logspace(-6, 6, 60)


def exponentials(terms, instance):
    """Return the fit of two to four terms. Rates are at least one and a half decades apart."""
    rng = np.random.default_rng([terms, instance])
    while True:
        rates = np.sort(10 ** rng.uniform(-5.5, 5.5, terms))
        if np.all(np.diff(np.log10(rates)) > 1.5):
            break
    amplitudes = 10 ** rng.uniform(-0.5, 0.5, terms)
    clean = (amplitudes[:, None] * np.exp(-rates[:, None] * TIMES)).sum(axis=0)
    noise = 0.01 * amplitudes.sum()
    data = clean + noise * rng.standard_normal(len(TIMES))

    def residuals(x):
        decays = x[:, :terms, None] * np.exp(-x[:, terms:, None] * TIMES)
        return (decays.sum(axis=1) - data) / noise

    def evaluate(x):
        return (residuals(x) ** 2).sum(axis=1), np.empty((len(x), 0)), np.empty((len(x), 0))

    truth = np.log10(np.concatenate([amplitudes, rates]))
    bounds = np.array([(1e-1, 1e1)] * terms + [(1e-6, 1e6)] * terms)
    fit = least_squares(
        lambda u: residuals(10 ** u[None])[0], truth, bounds=np.log10(bounds).T, xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    best = np.clip(10**fit.x, bounds[:, 0], bounds[:, 1])
    return ConstrainedProblem(
        name=f"exponentials {terms}, {instance}",
        bounds=bounds,
        evaluate=evaluate,
        best_value=float(evaluate(best[None])[0][0]),
        best_point=best,
        logarithmic=np.ones(2 * terms, bool),
    )
