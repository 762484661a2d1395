"""Kernels use only the array API standard: they run on strict arrays and agree with NumPy."""

import array_api_strict as strict
import by_hand
import numpy as np
import pytest
from numpy.testing import assert_allclose

from paoswarm.core import attractors, noise, walls
from paoswarm.core import swarm as kernels
from paoswarm.core.dynamics import exact_transition, slow_rate
from paoswarm.core.swarm import Proposal
from paoswarm.methods.pao import PAO
from paoswarm.methods.schedules import patient_step


@pytest.fixture(autouse=True)
def version():
    strict.set_array_api_strict_flags(api_version="2024.12")
    yield
    strict.reset_array_api_strict_flags()


def converted(tree):
    """Every array of a nested tuple as a strict array."""
    if isinstance(tree, tuple):
        parts = (converted(part) for part in tree)
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return tree if tree is None else strict.asarray(tree)


def leaves(tree):
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def assert_agree(kernel, *arguments):
    """A kernel gives strict arrays for strict arrays, with the numbers that NumPy gives."""
    plain, other = (leaves(kernel(*given)) for given in (arguments, converted(arguments)))
    for expected, found in zip(plain, other, strict=True):
        assert expected is found is None or isinstance(found, type(strict.asarray(1.0)))
        if expected is not None:
            assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-14)


class Handing:
    """A random source that hands out given arrays of any library, in order."""

    def __init__(self, arrays):
        self.arrays = list(arrays)

    def normal(self, *shape, single=False):
        return self.arrays.pop(0)

    uniform = normal


@pytest.fixture
def batch():
    swarm = by_hand.drawn(3, batch=(2,))
    return swarm._replace(best_value=np.where(swarm.best_value > 1, np.inf, swarm.best_value))


POINTS, VALUES = np.random.default_rng(1).normal(size=(2, 2, 7, 3)), np.random.default_rng(2).normal(size=(2, 7))


def test_the_transition():
    zeta, omega, dt = np.array([0.0, 0.2, 1.0, 5.0]), np.array([1.0, 2.0, 0.3, 4.0]), np.array([0.0, 1.0, 2.0, 50.0])
    assert_agree(exact_transition, zeta, omega, dt)
    assert_agree(exact_transition, *map(np.asarray, (0.2, 1.4, 1.0)))
    assert_agree(slow_rate, zeta)


@pytest.mark.parametrize("noisy", [False, True])
def test_the_first_swarm(noisy):
    values = np.where(VALUES > 1, np.nan, VALUES)
    assert_agree(lambda *a: kernels.start(*a, noisy=noisy), POINTS[0], values, np.full(3, -2.0), np.full(3, 5.0))


@pytest.mark.parametrize("noisy", [False, True])
def test_record(batch, noisy):
    if noisy:
        batch = batch._replace(repeats=kernels.measured_once(batch.value))
    assert_agree(kernels.record, batch, Proposal(*POINTS), VALUES)
    assert_agree(kernels.record, batch, Proposal(*POINTS), VALUES, VALUES > 0)


def test_a_single_swarm():
    assert_agree(kernels.start, POINTS[0, 0], VALUES[0], np.full(3, -2.0), np.full(3, 5.0))
    assert_agree(kernels.record, by_hand.drawn(3), Proposal(*POINTS[:, 0]), VALUES[0])


@pytest.mark.parametrize("noisy", [False, True])
def test_swarms_that_change_their_size(batch, noisy):
    if noisy:
        batch = batch._replace(repeats=kernels.measured_once(batch.value))
    assert_agree(kernels.Swarm.renewed, batch, POINTS[0, :, :4], VALUES[:, :4])
    assert_agree(kernels.Swarm.joined_by, batch, POINTS[0, :, :4], VALUES[:, :4], POINTS[1, :, :4])
    assert_agree(kernels.Swarm.reduced_to, batch, np.array([4, 0, 2]))


def test_remeasure_and_replace_worst(batch):
    noisy = batch._replace(repeats=kernels.measured_once(batch.value))
    again = kernels.remeasure(noisy, np.array([[0, 3], [2, 1]]), VALUES[:, :2])
    assert_agree(kernels.remeasure, noisy, np.array([[0, 3], [2, 1]]), VALUES[:, :2])
    assert_agree(kernels.remeasure, again, np.array([[0, 5], [2, 1]]), VALUES[:, 2:4])
    assert_agree(kernels.replace_worst, batch, POINTS[0, 0, :2], np.array([-9.0, np.nan]))


def test_the_step_of_a_swarm():
    """Position and velocity of a whole step, walls included, with given random numbers."""
    swarm = by_hand.drawn(3)
    for rule in ("clip", "reflect", "periodic", "none"):
        method = PAO(walls=rule)
        assert_agree(lambda s, normal, m=method: m.ask(s, Handing([normal])), swarm, 5 * POINTS[:, 0])


def test_spread_and_select(batch):
    assert_agree(kernels.spread, batch)
    assert_agree(kernels.select, np.array([True, False]), batch, by_hand.drawn(4, batch=(2,)))


@pytest.mark.parametrize("rule", ["clip", "reflect", "periodic", "none"])
def test_a_wall(batch, rule):
    assert_agree(walls.WALLS[rule].apply, 5 * POINTS[0], POINTS[1], batch.lower, batch.upper)


@pytest.mark.parametrize(
    "attractor",
    [
        attractors.global_best,
        attractors.local_best,
        attractors.average_local_best,
        attractors.average_particle,
        attractors.weighted_average_particle,
    ],
)
def test_an_attractor(batch, attractor):
    assert_agree(attractor, batch)


@pytest.mark.parametrize("topology", ["ring", "von neumann"])
def test_a_neighbourhood(batch, topology):
    assert_agree(lambda swarm: attractors.NeighbourhoodBest(topology)(swarm, None), batch)


def test_differential_evolution(batch):
    uniform = tuple(np.random.default_rng(3).random((2, 7, width)) for width in (3, 1, 3))
    assert_agree(lambda swarm, arrays: attractors.DifferentialEvolution()(swarm, Handing(arrays)), batch, uniform)


@pytest.mark.parametrize("scale", [noise.spread, noise.mean_to_best, noise.covariance])
def test_a_noise_scale(batch, scale):
    assert_agree(scale, batch._replace(best_value=batch.value))


def test_an_adaptive_step(batch):
    assert_agree(patient_step().of_swarm, batch)
