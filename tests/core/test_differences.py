"""Differential evolution's operators against their definitions, and on strict arrays."""

import dataclasses
import itertools

import array_api_strict as strict
import by_hand
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import chisquare
from test_array_api import Handing, assert_agree

import paoswarm as ps
from paoswarm.core.differences import STRATEGIES, crossover, partners, rows
from paoswarm.core.random import Draw

JUST_BELOW_ONE = np.nextafter(1.0, 0.0)


def partners_by_striking_out(uniform):
    """For each individual, take partners off the list of all others, one after the other."""
    n, k = uniform.shape
    drawn = np.empty((k, n), dtype=int)
    for i in range(n):
        left = [j for j in range(n) if j != i]
        for number in range(k):
            drawn[number, i] = left.pop(int(uniform[i, number] * len(left)))
    return drawn


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 2), (4, 3), (6, 5), (7, 2), (40, 5)])
def test_partners_are_struck_off_a_list_of_the_others(n, k):
    for uniform in np.random.default_rng(n).random((20, n, k)):
        assert_array_equal(partners(uniform), partners_by_striking_out(uniform))


@pytest.mark.parametrize(("n", "k"), [(4, 3), (6, 5), (5, 2)])
def test_every_ordered_choice_of_partners_comes_from_equal_shares_of_the_deviates(n, k):
    """Deviates in the middle of every cell of the grid: each choice appears once, for every individual."""
    cells = itertools.product(*((np.arange(n - 1 - i) + 0.5) / (n - 1 - i) for i in range(k)))
    drawn = np.array([partners(np.tile(cell, (n, 1))) for cell in cells])  # (cells, k, n)
    for i in range(n):
        others = itertools.permutations([j for j in range(n) if j != i], k)
        assert sorted(map(tuple, drawn[:, :, i].tolist())) == sorted(others)


def test_every_ordered_choice_of_partners_is_equally_likely():
    uniform = Draw([np.random.default_rng(1)], ()).uniform(12_000, 5, 3)
    drawn = np.stack(partners(uniform), axis=-1)  # (12000, 5, 3)
    for i in range(5):
        _, counts = np.unique(drawn[:, i] @ [25, 5, 1], return_counts=True)
        assert len(counts) == 4 * 3 * 2
        assert chisquare(counts).pvalue > 2e-5  # five tests: false alarms 1e-4


def test_a_batch_of_partners_is_its_runs():
    uniform = np.random.default_rng(2).random((2, 3, 8, 4))
    together = partners(uniform)
    for run in np.ndindex(2, 3):
        assert_array_equal([drawn[run] for drawn in together], partners(uniform[run]))


@pytest.mark.parametrize("n", [*range(2, 40), 64, 100, 127, 128, 129, 1000, 2**20 + 1])
def test_deviates_at_the_ends_name_the_first_and_the_last(n):
    k = min(5, n - 1)
    some = [0, 1, n // 2, n - 1] if n > 1000 else range(n)
    for end, order in ((0.0, 1), (JUST_BELOW_ONE, -1)):
        drawn = np.array(partners(np.full((n, k), end)))
        for i in some:
            others = (j for j in range(n)[::order] if j != i)
            assert drawn[:, i].tolist() == list(itertools.islice(others, k))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1,)])
def test_rows_are_taken_run_by_run(batch):
    rng = np.random.default_rng(3)
    points, index = rng.normal(size=(*batch, 6, 2)), rng.integers(0, 6, (*batch, 6))
    assert_array_equal(rows(points, index), np.take_along_axis(points, index[..., None], axis=-2))


# Mutants of one unknown, where x = 1, b = 10 and r1 .. r5 = 100, 20, 4, 0.5, 0.25, with F = 2.
MUTANTS = {
    "rand/1": 100 + 2 * (20 - 4),
    "rand/2": 100 + 2 * (20 - 4) + 2 * (0.5 - 0.25),
    "best/1": 10 + 2 * (100 - 20),
    "best/2": 10 + 2 * (100 - 20) + 2 * (4 - 0.5),
    "current-to-best/1": 1 + 2 * (10 - 1) + 2 * (100 - 20),
    "current-to-best/2": 1 + 2 * (10 - 1) + 2 * (100 - 20) + 2 * (4 - 0.5),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_mutant_is_what_its_name_says(name):
    number, mutant = STRATEGIES[name]
    others = [np.array([[r]]) for r in (100.0, 20.0, 4.0, 0.5, 0.25)[:number]]
    assert mutant(np.array([[1.0]]), np.array([[10.0]]), 2.0, *others) == MUTANTS[name]


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_a_factor_a_mutant_is_its_base(name):
    x, b, *others = np.random.default_rng(4).normal(size=(2 + STRATEGIES[name].n_partners, 6, 3))
    base = {"rand": others[0], "best": b, "current-to-best": x}[name.split("/")[0]]
    assert_array_equal(STRATEGIES[name].mutant(x, b, 0.0, *others), base)


def test_crossover_takes_the_elements_that_chance_names_and_the_forced_one():
    donor, parent = np.full((3, 4), 1.0), np.zeros((3, 4))
    chance = np.array([[0.1, 0.29, 0.3, 0.9], [0.5, 0.5, 0.5, 0.5], [0.0, 0.9, 0.9, 0.2]])
    forced = np.array([[0.5], [0.24], [0.75]])  # elements 2, 0 and 3
    expected = [[1, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]]  # 0.3 is not below the rate
    assert_array_equal(crossover(donor, parent, 0.3, chance, forced), expected)


def test_crossover_may_have_a_rate_for_each():
    chance = np.full((3, 2), 0.5)
    rate = np.array([[0.0], [0.6], [0.4]])
    trial = crossover(np.ones((3, 2)), np.zeros((3, 2)), rate, chance, np.zeros((3, 1)))
    assert_array_equal(trial, [[1, 0], [1, 1], [1, 0]])


@pytest.mark.parametrize("d", [1, 2, 3, 7, 100])
def test_at_rate_zero_one_element_crosses_and_at_rate_one_all_do(d):
    rng = np.random.default_rng(d)
    chance, forced = rng.random((2, 50, d)), rng.random((2, 50, 1))
    chance[0, 0], forced[0, 0], chance[0, 1], forced[0, 1] = 0.0, 0.0, JUST_BELOW_ONE, JUST_BELOW_ONE
    donor, parent = np.ones((2, 50, d)), np.zeros((2, 50, d))
    assert_array_equal(crossover(donor, parent, 0.0, chance, forced).sum(axis=-1), 1)
    assert_array_equal(crossover(donor, parent, 1.0, chance, forced), 1)
    lonely = crossover(donor, parent, 0.0, chance, forced)[0, :2]
    assert lonely[0, 0] == lonely[1, -1] == 1  # forced by the smallest and the largest deviate


def test_every_element_is_forced_equally_often():
    forced = Draw([np.random.default_rng(5)], ()).uniform(20_000, 1)
    trial = crossover(np.ones((20_000, 7)), np.zeros((20_000, 7)), 0.0, np.zeros((20_000, 7)), forced)
    assert chisquare(trial.sum(axis=0)).pvalue > 1e-4  # false alarms 1e-4


# Strict arrays


@pytest.fixture(autouse=True)
def version():
    with strict.ArrayAPIStrictFlags(api_version="2024.12"):
        yield


class Remembering:
    """A random source that keeps what it hands out."""

    def __init__(self, draw):
        self.draw, self.arrays = draw, []

    def normal(self, *shape, single=False):
        self.arrays.append(self.draw.normal(*shape))
        return self.arrays[-1]

    def uniform(self, *shape):
        self.arrays.append(self.draw.uniform(*shape))
        return self.arrays[-1]


@pytest.mark.parametrize("batch", [(), (2,)])
def test_operators_on_strict_arrays(batch):
    rng = np.random.default_rng(6)
    uniform, points, chance = rng.random((*batch, 7, 5)), rng.normal(size=(*batch, 7, 3)), rng.random((*batch, 7, 3))
    assert_agree(lambda u: tuple(partners(u)), uniform)
    assert_agree(rows, points, partners(uniform)[0])
    assert_agree(crossover, points, -points, 0.4, chance, uniform[..., :1])
    assert_agree(crossover, points, -points, uniform[..., 1:2], chance, uniform[..., :1])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_on_strict_arrays(name):
    arrays = np.random.default_rng(7).normal(size=(2 + STRATEGIES[name].n_partners, 2, 7, 3))
    assert_agree(lambda x, b, *others: STRATEGIES[name].mutant(x, b, 0.5, *others), *arrays)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(
    "method",
    [
        ps.classic.PSO(),
        ps.classic.PSO.paper(),
        ps.classic.QPSO(),
        *(ps.classic.DE(strategy=name) for name in STRATEGIES),
        ps.classic.SADE(),
        ps.classic.SADE.paper(),
        ps.classic.SADE(learning_period=1, rate_period=1, rate_learning_period=1),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("walls", ["clip", "periodic"])
def test_whole_generations_on_strict_arrays(method, walls, batch):
    """Begin, ask and tell, twice; everything but the random stream."""
    method = dataclasses.replace(method, walls=walls)
    remembered = Remembering(Draw([np.random.default_rng(r) for r in range(2 if batch else 1)], batch))

    def generations(swarm, values, evaluated, draw):
        swarm = method.begin(swarm)
        first = method.ask(swarm, draw, 0.25)
        swarm = method.tell(swarm, first, values)
        second = method.ask(swarm, draw, 0.5)
        return first, second, method.tell(swarm, second, values - 1.0, evaluated)

    swarm = by_hand.drawn(3, batch=batch)
    values = np.random.default_rng(8).normal(size=(*batch, 7))
    generations(swarm, values, values > 0, remembered)
    assert len(remembered.arrays) >= 2
    assert_agree(
        lambda *given: generations(*given[:3], Handing(given[3])), swarm, values, values > 0, (*remembered.arrays,)
    )
