"""What a draw costs, where it can be computed by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paoswarm.sampling.densities import Mixture
from paoswarm.sampling.moves import metropolis_cost


class Normal:
    """A standard normal likelihood; counts what it is asked."""

    def __init__(self):
        self.asked = 0

    def log_prior(self, z):
        return np.zeros(len(z))

    def log_likelihood(self, z):
        self.asked += len(z)
        return -0.5 * (z**2).sum(axis=1)


def at_zero(sd, d=3):
    return Mixture(np.ones(1), np.zeros((1, d)), sd * np.eye(d)[None], math.inf)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_moves_by_the_right_reference_are_an_autoregression(rho):
    # tau = (1 + rho) / (1 - rho), from three mean squared jumps that are good to 2 % each.
    rng = np.random.default_rng(2)
    z = rng.standard_normal((4000, 3))
    target = Normal()
    known = target.log_likelihood(z)
    target.asked = 0
    found = metropolis_cost(target, z, known, np.zeros(4000), at_zero(1.0), rng, rho=np.array([rho]), n=4000, jump=0.0)
    assert_allclose(found, (1 + rho) / (1 - rho), rtol=0.1)
    assert target.asked == 4000


def test_a_reference_far_away_is_no_use():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((500, 3))
    far = at_zero(0.01)._replace(mean=np.full((1, 3), 50.0))
    assert metropolis_cost(Normal(), z, Normal().log_likelihood(z), np.zeros(500), far, rng, rho=np.array([0.0])) > 1e3
