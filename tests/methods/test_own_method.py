"""Methods of the user's own: the walls are minded for them, and nonsense is named."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps

BOX = [(-5, 5), (-1, 2)]


class Leaps(ps.Method):
    def __init__(self, walls="clip"):
        self.walls = walls

    def ask(self, state, draw, progress=0.0):
        step = 3 * draw.normal(*state.position.shape[-2:])
        return ps.Proposal(state.best_position + step, step)


def outwards(x):
    return -np.abs(x).sum(axis=-1)


@pytest.mark.parametrize("walls", ["clip", "reflect", "periodic"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_particles_stay_in_the_box(walls, asynchronous):
    seen = []

    def fun(x):
        seen.append(x.copy())
        return outwards(x)

    ps.minimize(
        fun, BOX, method=Leaps(walls), n_particles=8, maxiter=20, workers=ps.Workers(asynchronous=asynchronous), rng=1
    )
    assert np.all((np.array(seen) >= [-5, -1]) & (np.array(seen) <= [5, 2]))


def test_without_walls_they_are_free():
    assert ps.minimize(outwards, BOX, method=Leaps("none"), n_particles=8, maxiter=20, rng=1).fun < -20


def test_a_run_is_the_same_alone_and_in_a_batch():
    many = ps.minimize_many(outwards, BOX, method=Leaps("reflect"), runs=3, n_particles=8, maxiter=9, rng=1)
    for r, seed in enumerate(many.seeds):
        alone = ps.minimize(outwards, BOX, method=Leaps("reflect"), n_particles=8, maxiter=9, rng=seed)
        assert_array_equal(alone.x, many.x[r])


def returning(proposal):
    class Own(ps.Method):
        def ask(self, state, draw, progress=0.0):
            return proposal(state, draw)

    return Own()


@pytest.mark.parametrize(
    ("proposal", "error", "text"),
    [
        (lambda s, draw: s.position, TypeError, r"Own.ask must return a Proposal\(position, velocity\)"),
        (
            lambda s, draw: ps.Proposal(s.position[:-1], s.velocity),
            ValueError,
            r"position of shape \(7, 2\), not \(8, 2\)",
        ),
        (lambda s, draw: ps.Proposal(s.position, 0.0), ValueError, r"velocity of shape \(\), not \(8, 2\)"),
        (lambda s, draw: ps.Proposal(s.position * np.nan, s.velocity), ValueError, "position with NaN"),
        (lambda s, draw: ps.Proposal(draw.normal((8, 2)), s.velocity), TypeError, r"draw.normal\(n, d\) for example"),
        (lambda s, draw: ps.Proposal(draw.uniform((8, 2)), s.velocity), TypeError, r"draw.normal\(n, d\) for example"),
    ],
)
def test_nonsense_is_named(proposal, error, text):
    with pytest.raises(error, match=text):
        ps.minimize(outwards, BOX, method=returning(proposal), n_particles=8, rng=1)
