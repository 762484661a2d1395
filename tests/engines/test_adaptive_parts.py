"""What adaptive runs in numba do in their own way, against the NumPy functions that they follow."""

import math

import numpy as np
import pytest

from paoswarm.methods import agreement, quadratic_model
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.methods.sharing import Sharing, Tally

numba = pytest.importorskip("numba", reason="numba is not installed")
from paoswarm.engines import adaptive_kernels, adaptive_searches, adaptive_state  # noqa: E402
from paoswarm.engines.search_plan import SERIES  # noqa: E402

ROWS = adaptive_state
agree, settle, next_series = adaptive_searches.agree, adaptive_searches.settle, adaptive_searches.next_series
squares = adaptive_kernels.least_squares


# Functions without wrappers are called by compiled ones only.
@numba.njit
def agreed(facts, searches, ends, width, own):
    for i in range(len(searches)):
        settle(searches, ends, i, width)
    agree(facts[0], searches, own)


@numba.njit
def chosen(run):
    return next_series(run)


@numba.njit
def least_squares(rows, values):
    return squares(rows, values)


def test_coefficients_are_those_of_numpy():
    rng = np.random.default_rng(6)
    for c in (3, 6, 21, 50):
        rows, values = rng.normal(size=(c + 9, c)), rng.normal(size=c + 9)
        expected = quadratic_model.least_squares(rows, values)
        np.testing.assert_allclose(least_squares(rows, values), expected, rtol=1e-7, atol=1e-9)
    assert len(least_squares(np.full((9, 3), math.nan), values[:9])) == 0


def random_searches(rng, count, d):
    """Searches that end at a few places, some of equal values."""
    places, values = rng.uniform(-1, 1, (4, d)), rng.choice([0.0, 1e-9, 0.5, 2.0], 4)
    for began in rng.permutation(count).tolist():
        k = int(rng.integers(4))
        ending = str(rng.choice([agreement.CONVERGED, agreement.KNOWN, agreement.HOPELESS, agreement.CUT_SHORT]))
        first = float(rng.choice([values[k], 10.0, np.inf], p=[0.1, 0.8, 0.1]))
        value = float(rng.choice([values[k], np.inf], p=[0.95, 0.05]))
        x = places[k] + rng.choice([1e-5, 5e-3]) * rng.normal(size=d)
        yield Search(0, 8, 100, x, value + rng.choice([0.0, 1e-6]), ending, first, began=10 * began)


def test_searches_agree_as_with_numpy():
    rng = np.random.default_rng(7)
    lower, upper = np.array([-1.0, -2.0]), np.array([1.0, 3.0])
    settled = set()
    for count in rng.integers(0, 25, 200).tolist():
        searches, still = tuple(random_searches(rng, count, 2)), rng.integers(0, 1 + 10 * count, 3).tolist()
        expected = Agreement()
        if any(one.value < np.inf and one.ending != agreement.CUT_SHORT for one in searches):
            expected = agreement.agreement(agreement.all_placed(searches, lower, upper), still)
        table, facts = np.zeros(count, dtype=ROWS.SEARCH), np.zeros(1, dtype=ROWS.RUN)
        for row, one in zip(table, searches, strict=True):
            row["value"], row["first_value"] = one.value, one.first_value
            row["ending"], row["began"] = adaptive_state.ENDINGS.index(one.ending), one.began
        ends = np.array([one.x for one in searches]).reshape(count, 2)
        lanes = np.zeros(4, dtype=ROWS.LANE)
        lanes["is_used"], lanes["began"] = [1, 1, 1, 0], [*still, 0]
        agreed(facts, table, ends, upper - lower, lanes)
        found = Agreement(*(int(facts[0][name]) for name in Agreement._fields[:6]))
        assert found == expected
        settled.add(found.is_settled)
    assert settled == {True, False}


def test_the_next_series_is_that_of_numpy():
    rng, ended = np.random.default_rng(8), Search(0, 8, 100, np.zeros(2), 0.0, agreement.CONVERGED)
    seen = set()
    for _ in range(300):
        count = int(rng.integers(1, 4))
        reached = [None if rng.random() < 0.3 else float(rng.integers(3)) for _ in range(count)]
        reached[0] = reached[0] or 1.0
        spent = rng.integers(1, 1000, count).tolist()
        here, n_searches = int(rng.integers(1, 3)), int(rng.integers(2, 4))
        sharing = Sharing(
            tuple(map(Tally, spent, reached)),
            searches=(ended,) * int(rng.integers(1, 4)),
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
        run = adaptive_state.new_run(np.zeros(count, dtype=SERIES), 2, 4, 3, 7)
        run.series["share"] = 1.0
        run = run._replace(facts=facts, tallies=tallies)
        assert chosen(run) == sharing._next_series(())
        seen.add(sharing._next_series(()))
    assert seen == {0, 1, 2}


def test_order_and_sums_are_those_of_numpy():
    rng = np.random.default_rng(9)
    for n in (1, 2, 7, 8, 9, 33, 200):
        scores = rng.integers(0, 1 + n // 2, n).astype(float)
        scores[rng.random(n) < 0.1] = np.inf
        np.testing.assert_array_equal(adaptive_kernels.ranked(scores), np.argsort(scores, kind="stable"))
        assert adaptive_kernels.median(scores) == np.median(scores)
        for count in {1, n, (n + 1) // 2}:
            np.testing.assert_array_equal(
                np.sort(scores[adaptive_kernels.smallest(scores, count)]), np.sort(scores)[:count]
            )
    for c in (1, 3, 4, 6, 21, 66):
        rows, b = rng.normal(size=(c, c + 9)), rng.normal(size=c)
        product = np.full((c, c), np.nan)
        adaptive_kernels.gram(rows, product)
        expected = rows @ rows.T
        np.testing.assert_allclose(np.tril(product), np.tril(expected), atol=1e-12)
        x = b.copy()
        assert adaptive_kernels.solve_positive(product, x)
        np.testing.assert_allclose(expected @ x, b, atol=1e-9)
        product[:] = expected - (np.linalg.eigvalsh(expected)[0] + 1) * np.eye(c)
        assert not adaptive_kernels.solve_positive(product, b.copy())  # a control: it has a negative eigenvalue
        product[:] = math.nan
        assert not adaptive_kernels.solve_positive(product, b.copy())
