"""Quantile functions with a formula, against those of SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from paoswarm.sampling.laws import _FAMILIES, LogUniform, NoFormula, traceable

LAWS = {
    "cauchy": stats.cauchy(1, 2),
    "expon": stats.expon(-1, 3),
    "gumbel_r": stats.gumbel_r(0.5, 2),
    "halfcauchy": stats.halfcauchy(0, 2),
    "halfnorm": stats.halfnorm(loc=1, scale=2),
    "laplace": stats.laplace(1, 0.5),
    "logistic": stats.logistic(-1, 0.3),
    "lognorm": stats.lognorm(0.7, scale=3),
    "loguniform": stats.loguniform(1e-3, 1e2),
    "reciprocal": stats.reciprocal(1, 50),
    "norm": stats.norm(3, 0.1),
    "pareto": stats.pareto(2.5, scale=2),
    "rayleigh": stats.rayleigh(scale=2),
    "truncnorm": stats.truncnorm(-1.5, 3, loc=1, scale=2),
    "uniform": stats.uniform(-2, 5),
    "weibull_min": stats.weibull_min(1.7, scale=2),
}


@pytest.mark.parametrize("family", sorted(_FAMILIES))
def test_quantiles_are_those_of_scipy(family):
    law, tail = LAWS[family], np.concatenate([np.geomspace(1e-12, 0.1, 30), np.linspace(0.1, 0.5, 9)])
    ours = traceable(law)
    low, high = law.support()
    size = np.where(np.isfinite([low, high]), np.abs([low, high]), 0).max() + law.std() if family != "cauchy" else 1.0
    size = size if np.isfinite(size) else 1.0
    assert_allclose(ours.ppf(tail), law.ppf(tail), rtol=1e-9, atol=1e-13 * size)
    assert_allclose(ours.isf(tail), law.isf(tail), rtol=1e-9, atol=1e-13 * size)


@pytest.mark.parametrize("ends", [(0.5, 2.0), (4.0, 6.0), (-6.0, -4.0), (-np.inf, 1.0), (2.0, np.inf), (-1.0, np.inf)])
def test_a_normal_distribution_that_is_cut_off_keeps_its_digits(ends):
    tail = np.geomspace(1e-6, 0.5, 30)
    ours, law = traceable(stats.truncnorm(*ends)), stats.truncnorm(*ends)
    assert_allclose(law.cdf(ours.ppf(tail)), tail, rtol=1e-8)
    assert_allclose(law.sf(ours.isf(tail)), tail, rtol=1e-8)


def test_our_own_laws_are_taken_as_they_are():
    law = LogUniform(0.1, 10)
    assert traceable(law) is law


@pytest.mark.parametrize("law", [stats.gamma(2), stats.beta(2, 3), stats.t(5), object()])
def test_others_have_no_formula(law):
    with pytest.raises(NoFormula, match="have no formula"):
        traceable(law)
