"""Searches of a fit as a whole: what they find, when they agree, and that they repeat themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paoswarm.core.arrays import Floats
from paoswarm.least_squares import descents as searches
from paoswarm.least_squares.descent import CUT_SHORT
from paoswarm.least_squares.descents import Descents
from paoswarm.least_squares.likelihoods import Normal
from paoswarm.least_squares.loss import Group, Loss

T = np.linspace(0, 10, 60)


def search(residuals, n, m, most=4000, rng=1, at_once=1):
    """Run the searches of a fit to their end, or to so many evaluations; the searches and all points in order."""
    loss = Loss(np.zeros(m), (Group("", slice(0, m), Normal()),))
    run = Descents(loss, np.zeros(n, dtype=bool), np.random.default_rng(rng), at_once)
    while len(run.pool) < most and (requests := run.ask(at_once)):
        for request in requests:
            run.tell(request, np.asarray(residuals(request.point), dtype=float))
    return run


def exponentials(u: Floats) -> Floats:
    """Residuals of two decays in wide boxes, with a little fixed noise."""
    p = 10 ** (3 * u - 2)
    noise = 0.01 * np.random.default_rng(5).normal(size=len(T))
    return p[0] * np.exp(-p[1] * T) + p[2] * np.exp(-p[3] * T) - np.exp(-0.3 * T) - 3 * np.exp(-2 * T) - noise


def waves(u: Floats) -> Floats:
    """Residuals of two sinusoids, whose frequencies have small basins."""
    p = np.array([0.1, 0.1, 0.5, 0.5, -math.pi, -math.pi]) + u * np.array([4.9, 4.9, 14.5, 14.5, 6.28, 6.28])
    noise = 0.1 * np.random.default_rng(6).normal(size=len(T))
    model = p[0] * np.sin(p[2] * T + p[4]) + p[1] * np.sin(p[3] * T + p[5])
    return model - np.sin(3.1 * T + 0.5) - 0.7 * np.sin(7.3 * T - 1) - noise


@pytest.mark.parametrize("at_once", [1, 5])
def test_searches_repeat_themselves_to_the_last_bit(at_once):
    first, again, other = (search(waves, 6, len(T), 600, rng, at_once) for rng in (3, 3, 4))
    assert np.array_equal(first.pool.points, again.pool.points)
    assert not np.array_equal(first.pool.points[:5], other.pool.points[:5])


def test_no_search_stops_making_progress_beside_its_minimum():
    """K loses its sign by rounding unless it is kept positive; then differences teach nothing, and a search hangs."""
    run = search(exponentials, 4, len(T))
    assert run.is_done
    assert CUT_SHORT not in [end.state for end in run.ends if end.value < 2 * run.pool.values.min()]


@pytest.mark.slow
def test_a_swarm_finds_small_basins(monkeypatch):
    """The minimum has residuals of the size of the noise."""

    def n_found():
        values = [search(waves, 6, len(T), 3000, rng).pool.values.min() for rng in range(6)]
        return sum(value < 2 * 0.1**2 * len(T) for value in values)

    with_swarm = n_found()
    monkeypatch.setattr(searches, "_UNAIDED", math.inf)
    assert with_swarm >= max(4, n_found())


def test_a_swarm_takes_no_part_where_searches_agree(monkeypatch):
    def no_scout(*_):
        raise AssertionError("not needed")

    monkeypatch.setattr(searches, "Scout", no_scout)
    assert search(exponentials, 4, len(T)).is_done


def test_nothing_is_settled_while_there_is_a_better_point_than_all_ends():
    run = search(exponentials, 4, len(T))
    assert run.is_settled
    run.pool.add(np.full(4, 0.5), np.full(len(T), 1e-9), run.pool.values.min() / 2)
    assert not run.is_settled
