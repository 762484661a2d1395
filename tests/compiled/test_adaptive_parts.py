"""The parts of adaptive runs in numba against the NumPy functions that they follow."""

import math

import numpy as np
import pytest

from paoswarm.algorithms import agreement, dense_ends, dense_learning, element_pao, model_trust, quadratic_model
from paoswarm.algorithms.agreement import Agreement, Search
from paoswarm.algorithms.dense_pao import DensePAO
from paoswarm.algorithms.sharing import Sharing, Tally
from paoswarm.compiled.search_plan import read_plan
from paoswarm.core.dynamics import exact_transition

numba = pytest.importorskip("numba", reason="numba is not installed")
from paoswarm.compiled import (  # noqa: E402
    numba_agreement,
    numba_dense,
    numba_element,
    numba_lanes,
    numba_law,
    numba_linear,
    numba_model,
    numba_searches,
)

ROWS = numba_lanes
agree, next_series, after_test = numba_agreement.agree, numba_searches.next_series, numba_model.after_test


# Records cannot be passed from Python, but arrays of them can.
@numba.njit
def trust_after(own, predicted, measured):
    after_test(own[0], predicted, measured)


@numba.njit
def agreed(facts, searches, ends, width):
    agree(facts[0], searches, ends, width)


@numba.njit
def chosen(tallies, facts):
    return next_series(tallies, facts[0])


def lanes_for(n, d, n_known=0):
    """Lanes with room for a search of ``n`` particles and ``d`` unknowns, in lane 0."""
    coefficients = quadratic_model.n_coefficients(d)
    run = numba_lanes.new_run(read_plan(DensePAO(), d).series, d, max(n, n_known), coefficients, n_known)
    run.lanes.own[0]["n"] = n
    return run.lanes


def write_law(lanes, law):
    """Make it the law of lane 0."""
    own, vectors, matrices = lanes.own[0], lanes.vectors[0], lanes.matrices[0]
    numba_law.begin_law(lanes, 0, law.centre, law.scale)
    own["law_generation"] = law.generation
    vectors[ROWS.LENGTHS], vectors[ROWS.PATH_SCALE], vectors[ROWS.PATH] = law.lengths, law.path_scale, law.path
    matrices[ROWS.COVARIANCE], matrices[ROWS.AXES], matrices[ROWS.ROOT] = law.covariance, law.axes, law.root


def random_law(rng, d, generations=30):
    """A law that has learnt from noise, with its axes and lengths up to date."""
    law, rates = dense_learning.first_law(rng.uniform(0, 1, d), 0.2), dense_learning.rates(8, d)
    for _ in range(generations * rates.patience):
        x = law.centre + rng.normal(size=(8, d)) @ law.factor.T
        law = dense_learning.learn(law, rates, x[np.argsort(x @ np.arange(1.0, d + 1))])
    return law


@pytest.mark.parametrize(("n", "d"), [(2, 1), (6, 2), (9, 3), (12, 15), (40, 4)])
def test_the_law_learns_as_with_numpy(n, d):
    rng = np.random.default_rng(n)
    lanes = lanes_for(n, d)
    law, rates = dense_learning.first_law(rng.uniform(0, 1, d), 0.3), dense_learning.rates(n, d)
    write_law(lanes, law)
    own = lanes.own[0]
    np.testing.assert_allclose(lanes.numbers[0, ROWS.WEIGHTS, :n], rates.weights, rtol=1e-12, atol=1e-15)
    same = ("effective", "rank_one", "rank_many", "length", "damping_scale")
    assert [own[name] for name in same] == pytest.approx([getattr(rates, name) for name in same], rel=1e-12)
    assert own["patience"] == rates.patience
    slope = rng.normal(size=d)
    for _ in range(25):
        normal = rng.normal(size=(n, d))
        numba_law.draw(lanes, 0, normal)
        x = law.centre + normal @ law.factor.T
        np.testing.assert_allclose(lanes.points[0, ROWS.DRAWN, :n], x, rtol=1e-10, atol=1e-12)
        ranking = np.argsort((x @ slope) ** 2, kind="stable")
        law = dense_learning.learn(law, rates, x[ranking])
        numba_law.learn(lanes, 0, ranking, np.empty((n, d)))
        assert own["scale"] == pytest.approx(law.scale, rel=1e-10)
        assert numba_law.longest(lanes, 0) == pytest.approx(law.longest, rel=1e-9)
        np.testing.assert_allclose(lanes.matrices[0, ROWS.ROOT], law.root, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(lanes.vectors[0, ROWS.PATH], law.path, rtol=1e-9, atol=1e-11)
    wrong = dense_learning.learn(law, rates, x[ranking[::-1]])  # a control: the order of the particles matters
    numba_law.learn(lanes, 0, ranking, np.empty((n, d)))
    assert abs(own["scale"] / wrong.scale - 1) > 1e-6


@pytest.mark.parametrize(("d", "m"), [(1, 30), (3, 14), (3, 60), (12, 250), (22, 90)])
def test_the_model_is_that_of_numpy(d, m):
    """With all products, with squares only, and with more unknowns than all products are fitted for."""
    rng = np.random.default_rng(m)
    law = random_law(rng, d)
    x = law.centre + rng.normal(size=(m, d)) @ law.factor.T
    bent = rng.normal(size=(d, d))
    f = ((x - 0.3) @ bent @ (x - 0.3).T).diagonal() + 0.1 * np.sin(9 * x).sum(axis=1)
    expected = quadratic_model.fit(law, x, f)
    lanes = lanes_for(8, d, m)
    write_law(lanes, law)
    own = lanes.own[0]
    own["first_known"], own["n_known"] = 2, m
    lanes.known[0, 2 : 2 + m, :d], lanes.known[0, 2 : 2 + m, d] = x, f
    assert numba_model.fit(lanes, 0)
    found = lanes.lists[0, ROWS.COEFFICIENTS, : len(expected.coefficients)]
    assert own["is_full"] == (len(expected.pairs[0]) > d or d == 1)
    new = law.centre + rng.normal(size=(5, d)) @ law.factor.T
    predicted = [numba_model.predict(lanes, 0, point, np.empty(d)) for point in new]
    scale = np.abs(expected.coefficients).max()
    assert own["radius"] == pytest.approx(expected.radius, rel=1e-10)
    np.testing.assert_allclose(predicted, expected.predict(new), rtol=1e-7, atol=1e-7 * own["unit"] * scale)
    if len(expected.pairs[0]) > d:  # otherwise the coefficients depend on the signs of the axes, the model does not
        assert np.abs(np.abs(found) - np.abs(expected.coefficients)).max() < 1e-6 * scale
    lowest = np.empty(d)
    numba_model.minimum(lanes, 0, lowest)
    np.testing.assert_allclose(lowest, expected.minimum(), rtol=1e-5, atol=1e-6 * law.longest)
    # Too few points, and points of one value, determine no model.
    own["n_known"] = quadratic_model.points_for(1 + 2 * d) - 1
    assert not numba_model.fit(lanes, 0)
    own["n_known"] = m
    lanes.known[0, :, d] = 1.0
    assert not numba_model.fit(lanes, 0)


def test_trust_follows_the_same_tests_as_with_numpy():
    rng = np.random.default_rng(3)
    own, trust = lanes_for(4, 2).own, model_trust.Trust()
    own[0]["trust_period"] = 1
    verdicts = set()
    for t in range(60):
        predicted = rng.normal(size=5)
        measured = predicted + (0.1 if t % 20 < 10 else 3.0) * rng.normal(size=5)
        measured[rng.random(5) < 0.1] = np.inf
        trust = model_trust.after_test(trust, predicted, measured)
        trust_after(own, predicted, measured)
        assert own[0]["agreeing"] == pytest.approx(trust.agreeing, abs=1e-12)
        assert (own[0]["trust_wait"], own[0]["trust_period"]) == (trust.wait, trust.period)
        verdicts.add(trust.is_given)
    assert verdicts == {True, False}


def reason(law, course, n):
    """How a search stands by NumPy's rules."""
    why = dense_ends.end_of(law, course, n, 0.2)
    return numba_dense.GREW if why == dense_ends.GREW else numba_dense.ARRIVED if why else numba_dense.GOES_ON


def test_dense_searches_end_for_the_same_reasons():
    rng = np.random.default_rng(5)
    n, d = 6, 2
    law = random_law(rng, d)
    seen = set()
    for case in range(300):
        done = int(rng.choice([3, 19, 40, 200, 400, 2000]))
        values = np.cumsum(rng.exponential(size=(2, done)), axis=1)[:, ::-1] if case % 2 else rng.random((2, done))
        values = values * (1e-17 if case % 5 == 0 else 1.0) + 1.0
        course = dense_ends.Course(
            tuple(values[0, -dense_ends.window(done, n, d) :]),
            tuple(values[1, -dense_ends.window(done, n, d) :]),
            (),
            0.0 if case % 5 == 0 else float(rng.exponential()),
            1e-300,
            done,
        )
        one = law._replace(scale=0.2 / law.lengths.max() * 10.0 ** rng.choice([-14, 0, 3], p=[0.1, 0.8, 0.1]))
        one = one._replace(is_singular=bool(rng.random() < 0.1))
        lanes = lanes_for(n, d)
        lanes = lanes._replace(lists=np.zeros((2, 6, 3000)))
        write_law(lanes, one)
        own = lanes.own[0]
        own["generations"], own["apart"], own["negligible"], own["spread"] = done, course.spread, 1e-300, 0.2
        own["is_singular"] = one.is_singular
        lanes.lists[0, ROWS.BESTS, :done], lanes.lists[0, ROWS.MEDIANS, :done] = values
        assert numba_dense.end_of_dense(lanes, 0) == reason(one, course, n)
        seen.add(dense_ends.end_of(one, course, n, 0.2))
    assert len(seen) == 7  # every reason has occurred, and none


def test_a_step_from_rest_is_the_exact_transition():
    for step in (1e-9, 0.01, 0.3, 0.85, 1.33):
        law = exact_transition(*(np.array([x]) for x in (element_pao.DAMPING, element_pao.FREQUENCY, step)))
        stays, shaken = numba_element.law_from_rest(step)
        assert stays == pytest.approx(law.A[0, 0, 0], abs=1e-14)
        assert shaken == pytest.approx(law.cholesky[0, 0, 0], rel=1e-12)


def random_searches(rng, count, d):
    """Searches that end at a few places, some of equal values."""
    places, values = rng.uniform(-1, 1, (4, d)), rng.choice([0.0, 1e-9, 0.5, 2.0], 4)
    for _ in range(count):
        k = int(rng.integers(4))
        ending = str(rng.choice([agreement.CONVERGED, agreement.KNOWN, agreement.HOPELESS, agreement.CUT_SHORT]))
        first = float(rng.choice([values[k], 10.0, np.inf], p=[0.1, 0.8, 0.1]))
        value = float(rng.choice([values[k], np.inf], p=[0.95, 0.05]))
        x = places[k] + rng.choice([1e-5, 5e-3]) * rng.normal(size=d)
        yield Search(0, 8, 100, x, value, ending, first)


def test_searches_agree_as_with_numpy():
    rng = np.random.default_rng(7)
    lower, upper = np.array([-1.0, -2.0]), np.array([1.0, 3.0])
    settled = set()
    for count in rng.integers(0, 25, 200).tolist():
        searches = tuple(random_searches(rng, count, 2))
        expected = Agreement()
        if any(one.value < np.inf and one.ending != agreement.CUT_SHORT for one in searches):
            expected = agreement.agreement(searches, lower, upper)
        table, facts = np.zeros(count, dtype=ROWS.SEARCH), np.zeros(1, dtype=ROWS.RUN)
        for row, one in zip(table, searches, strict=True):
            row["value"], row["first_value"] = one.value, one.first_value
            row["ending"] = numba_agreement.ENDINGS.index(one.ending)
        ends = np.array([one.x for one in searches]).reshape(count, 2)
        agreed(facts, table, ends, upper - lower)
        found = Agreement(*(int(facts[0][name]) for name in Agreement._fields[:-1]))
        assert found == expected
        settled.add(found.is_settled)
    assert settled == {True, False}


def test_the_next_series_is_that_of_numpy():
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(300):
        count = int(rng.integers(1, 4))
        reached = [None if rng.random() < 0.3 else float(rng.integers(3)) for _ in range(count)]
        reached[0] = reached[0] or 1.0
        spent = rng.integers(1, 1000, count).tolist()
        here, n_searches = int(rng.integers(1, 3)), int(rng.integers(2, 4))
        sharing = Sharing(
            tuple(map(Tally, spent, reached)),
            searches=(None,) * int(rng.integers(1, 4)),
            agreement=Agreement(n_searches, min(here, n_searches)),
        )
        facts, tallies = np.zeros(1, dtype=ROWS.RUN), np.zeros(count, dtype=ROWS.TALLY)
        facts["n_ended"], facts["n_here"], facts["n_searches"] = (
            len(sharing.searches),
            min(here, n_searches),
            n_searches,
        )
        tallies["spent"], tallies["has_reached"] = spent, [one is not None for one in reached]
        tallies["reached"] = [one or 0.0 for one in reached]
        assert chosen(tallies, facts) == sharing._next_series(())
        seen.add(sharing._next_series(()))
    assert seen == {0, 1, 2}


def test_order_and_sums_are_those_of_numpy():
    rng = np.random.default_rng(9)
    for n in (1, 2, 7, 8, 9, 33, 200):
        scores = rng.integers(0, 1 + n // 2, n).astype(float)
        scores[rng.random(n) < 0.1] = np.inf
        np.testing.assert_array_equal(numba_linear.ranked(scores), np.argsort(scores, kind="stable"))
        assert numba_linear.median(scores) == np.median(scores)
        for count in {1, n, (n + 1) // 2}:
            np.testing.assert_array_equal(
                np.sort(scores[numba_linear.smallest(scores, count)]), np.sort(scores)[:count]
            )
    for c in (1, 3, 4, 6, 21, 66):
        rows, b = rng.normal(size=(c, c + 9)), rng.normal(size=c)
        product = np.full((c, c), np.nan)
        numba_linear.gram(rows, product)
        expected = rows @ rows.T
        np.testing.assert_allclose(np.tril(product), np.tril(expected), atol=1e-12)
        x = b.copy()
        assert numba_linear.solve_positive(product, x)
        np.testing.assert_allclose(expected @ x, b, atol=1e-9)
        product[:] = expected - (np.linalg.eigvalsh(expected)[0] + 1) * np.eye(c)
        assert not numba_linear.solve_positive(product, b.copy())  # a control: it has a negative eigenvalue
        product[:] = math.nan
        assert not numba_linear.solve_positive(product, b.copy())
