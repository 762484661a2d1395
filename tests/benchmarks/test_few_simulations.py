"""The measurement of posteriors from few simulations poses what `sample` poses, and knows wrong results."""

import pathlib
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paoswarm.evaluate.comparison import Beliefs, DataComparison
from paoswarm.least_squares.marginal import log_marginal_likelihoods

BENCHMARKS = str(pathlib.Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import few_problems
    import few_simulations
finally:
    sys.path.remove(BENCHMARKS)


@pytest.mark.parametrize("name", few_problems.CALIBRATIONS)
def test_by_outputs_and_by_number_is_the_same_posterior(name):
    case = few_problems.load(name)
    one = case.calibration
    x = np.array([[law.ppf(p) for law in one.prior] for p in (0.3, 0.4)])
    outputs = np.array([one.simulate(row).ravel() for row in x])
    loss = DataComparison.read(one.data, one.sigma, "normal", Beliefs()).loss(outputs.shape[1])
    assert_allclose(case.log_likelihood(x), log_marginal_likelihoods(loss, outputs), rtol=1e-10)
    assert len(case.mean) == len(case.sd) == len(one.prior)


@pytest.mark.parametrize("name", ["two2", "banana2"])
def test_truths_by_formula_are_those_of_a_grid(name):
    case = few_problems.load(name)
    low, high = np.array([law.support() for law in case.prior]).T
    sides = [np.linspace(a, b, 801) for a, b in zip(low, high, strict=True)]
    x = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, 2)
    height = case.log_likelihood(x)
    top = height.max()
    weights = np.exp(height - top)
    # A mean over the box, whose ends do not matter.
    assert_allclose(np.log(weights.sum() / 800**2) + top, case.log_evidence, atol=1e-4)
    weights /= weights.sum()
    assert_allclose(weights @ x, case.mean, atol=1e-3)
    assert_allclose(np.sqrt(weights @ (x - case.mean) ** 2), case.sd, rtol=1e-3)


def test_wrong_results_silent_failures_and_false_alarms():
    right = {"off": 0.01, "stated": 0.02, "mean_off": 0.1, "success": True}
    missed = right | {"off": 0.6, "stated": 0.1}
    vague = right | {"off": 0.3, "stated": 0.1}
    moved = right | {"mean_off": 0.4}
    assert [few_simulations.is_wrong(row) for row in (right, missed, vague, moved)] == [False, True, False, True]
    assert few_simulations.is_silent(missed)
    assert not few_simulations.is_silent(missed | {"success": False})
    assert few_simulations.is_false_alarm(right | {"success": False})
    assert not any(map(few_simulations.is_false_alarm, (right, moved | {"success": False}, vague | {"success": False})))
