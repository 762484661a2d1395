"""Quadratic models of least change, their lowest points in a ball and a box, and the shape of a region."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from paoswarm.methods.local_model import LocalModel, TrustRegion, fitted, in_widths, lowest, shaped, unspanned


def symmetric(rng, d):
    a = rng.normal(size=(d, d))
    return (a + a.T) / 2


def round_region(d, centre=0.5, value=0.0, radius=0.15):
    return TrustRegion(np.full(d, centre), value, radius, np.eye(d), np.eye(d))


@pytest.mark.parametrize("d", [1, 2, 5, 9])
def test_an_exact_quadratic_is_recovered(d):
    rng = np.random.default_rng(d)
    slope, hessian = rng.normal(size=d), symmetric(rng, d)
    region = shaped(round_region(d, value=3.0), symmetric(rng, d))
    n = int(1.5 * (1 + d + d * (d + 1) / 2)) + 1
    u = rng.normal(size=(n, d))
    u *= np.sqrt(rng.uniform(size=(n, 1))) / np.sqrt(np.square(u).sum(axis=1, keepdims=True))
    u[0] = 0.0
    f = 3.0 + LocalModel(slope, hessian).change(u)
    model = fitted(region, np.zeros((d, d)), region.outer(u), f)
    assert_allclose(model.slope, slope, atol=1e-4 * np.abs(slope).max())
    assert_allclose(model.hessian, hessian, atol=1e-3 * np.abs(hessian).max())


@pytest.mark.parametrize("n", [7, 15, 40])
def test_a_hessian_that_explains_the_values_is_not_changed(n):
    """Also with too few points for a new one; another Hessian is the control."""
    rng = np.random.default_rng(n)
    d, region = 4, round_region(4)
    known, slope = symmetric(rng, d), rng.normal(size=d)
    u = rng.uniform(-1, 1, size=(n, d))
    own = LocalModel(slope, region.radius**2 * known)
    model = fitted(region, known, region.outer(u), own.change(u))
    assert_allclose(in_widths(region, model), known, atol=1e-6)
    assert_allclose(model.slope, slope, rtol=1e-6)
    changed = fitted(region, known + np.eye(d), region.outer(u), own.change(u))
    assert np.abs(in_widths(region, changed) - known - np.eye(d)).max() > 0.1


def test_values_that_say_nothing_have_no_model():
    x = np.random.default_rng(1).uniform(size=(9, 2))
    assert fitted(round_region(2), np.zeros((2, 2)), x, np.zeros(9)) is None


def fallen_behind(rng, region, model, low, high, count=20_000):
    """The share of the fall by which the lowest point is behind the best of so many random ones; it is inside."""
    d = len(low)
    u = lowest(region, model, low, high)
    x = region.outer(u[None])[0]
    assert u @ u <= 1 + 1e-9
    assert (x >= low - 1e-9).all()
    assert (x <= high + 1e-9).all()
    tried = rng.normal(size=(count, d))
    tried *= (rng.uniform(size=(count, 1)) ** (1 / d)) / np.sqrt(np.square(tried).sum(axis=1, keepdims=True))
    points = region.outer(tried)
    tried = tried[((points >= low) & (points <= high)).all(axis=1)]
    best = min(0.0, float(model.change(tried).min(initial=0.0)))
    found = float(model.change(u[None])[0])
    assert found <= 0.0
    return (found - best) / -best if best < 0 else 0.0


@pytest.mark.parametrize("is_bowl", [True, False])
@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_the_lowest_point_is_in_ball_and_box_and_hardly_behind_random_ones(d, is_bowl):
    """With walls near by on one side, where it is exact in the median, but not always."""
    rng, behind = np.random.default_rng(d), []
    for _ in range(40):
        region = shaped(round_region(d), symmetric(rng, d) + 0.1 * np.eye(d))
        hessian = symmetric(rng, d)
        model = LocalModel(rng.normal(size=d), hessian @ hessian if is_bowl else hessian)
        low = 0.5 - region.radius * rng.uniform(0, 1, d) ** 2
        high = 0.5 + region.radius * rng.uniform(0, 3, d)
        behind.append(fallen_behind(rng, region, model, low, high))
    assert np.median(behind) <= 1e-9
    assert np.quantile(behind, 0.9) <= (0.1 if is_bowl else 0.25)


def conditions_of_the_lowest(u, slope, hessian, radius):
    """Whether u is the lowest point in a ball: some shift makes the Hessian convex, with u as its minimum."""
    shift = max(0.0, -float(u @ (hessian @ u + slope)) / float(u @ u))
    lowest_curvature = float(np.linalg.eigvalsh(hessian)[0])
    size = np.abs(slope).max() + np.abs(hessian).max() * radius
    assert np.abs(hessian @ u + slope + shift * u).max() <= 1e-4 * size
    assert lowest_curvature + shift >= -1e-5 * size / radius
    assert shift * (radius - np.sqrt(u @ u)) <= 1e-5 * size


@pytest.mark.parametrize(
    ("d", "is_hard"), [(1, False), (2, False), (5, False), (12, False), (2, True), (5, True), (12, True)]
)
def test_without_walls_it_satisfies_the_conditions_of_the_lowest_point_in_a_ball(d, is_hard):
    """Of any model; in the hard case the slope has no part along the lowest axis."""
    rng, free = np.random.default_rng(d), np.full(d, np.inf)
    for _ in range(50):
        axes, curvature = np.linalg.qr(rng.normal(size=(d, d)))[0], rng.normal(size=d)
        part = rng.normal(size=d) * 10.0 ** rng.uniform(-2, 1)
        part[np.argmin(curvature)] *= not is_hard
        model = LocalModel(axes @ part, (axes * curvature) @ axes.T)
        u = lowest(round_region(d), model, -free, free)
        conditions_of_the_lowest(u, model.slope, model.hessian, 1.0)
        assert fallen_behind(rng, round_region(d), model, -free, free, 1000) <= 1e-5
        model = LocalModel(-model.slope, model.hessian)  # negative control: the lowest point of another model
        if d > 1 and not is_hard:
            with pytest.raises(AssertionError):
                conditions_of_the_lowest(u, model.slope, model.hessian, 1.0)


def test_without_walls_the_lowest_point_of_a_bowl_is_exact():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(5, 5))
    bowl = LocalModel(0.1 * rng.normal(size=5), a @ a.T + np.eye(5))
    free = lowest(round_region(5), bowl, np.full(5, -np.inf), np.full(5, np.inf))
    assert_allclose(bowl.hessian @ free, -bowl.slope, atol=1e-12)


@pytest.mark.parametrize("d", [2, 5, 12])
def test_a_shaped_region_sees_equal_curvatures_and_keeps_its_volume(d):
    rng = np.random.default_rng(d)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    curvature = 10.0 ** rng.uniform(-1, 2, d) * rng.choice([-1, 1], d)
    hessian = (axes * curvature) @ axes.T
    region = shaped(round_region(d, radius=1e-3), hessian)
    seen = np.abs(np.linalg.eigvalsh(region.shape @ hessian @ region.shape))
    assert_allclose(seen, seen[0], rtol=1e-9)
    assert np.linalg.det(region.shape) == pytest.approx(1, rel=1e-9)
    assert_allclose(region.shape @ region.inverse, np.eye(d), atol=1e-10)
    assert region.reach == pytest.approx(1e-3 * np.linalg.norm(region.shape, 2))
    wide = shaped(round_region(d, radius=0.4), hessian)  # no half-axis is longer than half the bounds
    assert wide.reach <= 0.5 + 1e-12
    assert shaped(region, np.zeros((d, d))) is region


def test_a_shape_has_the_same_bits_in_any_unit_of_the_objective():
    hessian, region = symmetric(np.random.default_rng(3), 4), round_region(4)
    for unit in (2.0**-400, 2.0**30, 2.0**400):
        assert (shaped(region, unit * hessian).shape == shaped(region, hessian).shape).all()


def test_unspanned_directions():
    rng = np.random.default_rng(1)
    region = shaped(round_region(5), symmetric(rng, 5))
    u = rng.normal(size=(16, 5))
    assert unspanned(region, region.outer(u / np.sqrt(np.square(u).sum(axis=1, keepdims=True)))) is None
    flat = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    within = rng.uniform(-0.7, 0.7, size=(16, 4)) @ flat[:4]
    direction = unspanned(region, region.outer(within + 0.01 * rng.normal(size=(16, 5))))
    assert abs(direction @ flat[4]) > 0.99
    assert direction @ direction == pytest.approx(1)
    assert np.abs(unspanned(region, region.outer(100 * u)) @ np.eye(5)[0]) == 1  # far points say nothing
