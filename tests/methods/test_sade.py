"""Self-adaptive differential evolution against a plain loop over individuals that learns as published."""

import math
import pickle

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core import swarm as kernels
from paoswarm.methods.differential_evolution import Learning, TrialRecord

FIVE = ("rand/1", "rand/2", "best/1", "best/2", "current-to-best/1")
NEEDED = {"rand/1": 3, "rand/2": 5, "best/1": 2, "best/2": 4, "current-to-best/1": 2}
KEEP_ALIVE = 0.01
FORMULAS = {  # of one element; there may be more partners than a strategy needs
    "rand/1": lambda x, b, F, r1, r2, r3, *_: r1 + F * (r2 - r3),
    "rand/2": lambda x, b, F, r1, r2, r3, r4, r5: r1 + F * (r2 - r3) + F * (r4 - r5),
    "best/1": lambda x, b, F, r1, r2, *_: b + F * (r1 - r2),
    "best/2": lambda x, b, F, r1, r2, r3, r4, *_: b + F * (r1 - r2) + F * (r3 - r4),
    "current-to-best/1": lambda x, b, F, r1, r2, *_: x + F * (b - x) + F * (r1 - r2),
}


class Reference:
    """Qin and Suganthan's algorithm in scalar Python: lists, one individual after the other, no batch."""

    def __init__(self, population, values, strategies, factor, crossover, periods):
        self.x, self.f = [list(row) for row in population], list(values)
        self.strategies, self.factor, self.rate_sd = strategies, factor, crossover[1]
        self.learning_period, self.rate_period, self.rate_learning_period = periods
        s = len(strategies)
        self.p, self.won, self.lost = [1 / s] * s, [0] * s, [0] * s
        self.rate_mean, self.rates, self.winning_rates = crossover[0], [crossover[0]] * len(self.x), []
        self.generation = 0

    def trials(self, choice, tries, wheel, normal, chance, forced):
        n, d = len(self.x), len(self.x[0])
        best = self.x[self.f.index(min(self.f))]
        if self.generation % self.rate_period == 0:
            self.rates = [min(1.0, max(0.0, self.rate_mean + self.rate_sd * z)) for z in normal]
        self.chosen, trials = [], []
        for i in range(n):
            left = [k for k in range(n) if k != i]
            r = [self.x[left.pop(int(u * len(left)))] for u in choice[i]]
            F = next(try_ for try_ in (self.factor[0] + self.factor[1] * z for z in tries[:, i]) if 0 < try_ <= 2)
            number = next((k for k in range(len(self.p)) if wheel[i] < sum(self.p[: k + 1])), len(self.p) - 1)
            self.chosen.append(number)
            trial = list(self.x[i])
            for j in range(d):
                if chance[i, j] < self.rates[i] or j == int(forced[i, 0] * d):
                    formula = FORMULAS[self.strategies[number]]
                    trial[j] = formula(self.x[i][j], best[j], F, *(one[j] for one in r))
            trials.append(trial)
        return trials

    def select(self, trials, values, evaluated):
        for i, (trial, value) in enumerate(zip(trials, values, strict=True)):
            if not evaluated[i]:
                continue
            if value < self.f[i]:
                self.x[i], self.f[i] = trial, value
                self.won[self.chosen[i]] += 1
                self.winning_rates.append(self.rates[i])
            else:
                self.lost[self.chosen[i]] += 1
        self.generation += 1
        if self.generation % self.learning_period == 0:
            share = [w / max(1, w + lost) + KEEP_ALIVE for w, lost in zip(self.won, self.lost, strict=True)]
            self.p = [one / sum(share) for one in share]
            self.won, self.lost = [0] * len(share), [0] * len(share)
        if self.generation % self.rate_learning_period == 0:
            if self.winning_rates:
                self.rate_mean = sum(self.winning_rates) / len(self.winning_rates)
            self.winning_rates = []


def objective(x):
    return ((x - [0.3, -0.7, 1.1]) ** 2 * [1.0, 4.0, 9.0]).sum(axis=-1) + (x[..., 0] * x[..., 1] - x[..., 2]) ** 2


@pytest.mark.parametrize(
    ("strategies", "factor", "crossover", "periods"),
    [
        (("rand/1", "current-to-best/1"), (0.5, 0.3), (0.5, 0.1), (7, 3, 4)),
        (FIVE, (0.6, 0.6), (0.2, 0.4), (5, 5, 10)),  # many factors and rates out of their range
    ],
    ids=["two strategies", "five strategies"],
)
def test_thirty_generations_are_those_of_a_plain_loop(strategies, factor, crossover, periods):
    """Number by number, memory and all; some generations are cut short."""
    n, d = 9, 3
    rng = np.random.default_rng(11)
    first = rng.uniform(-5, 5, (n, d))
    method = ps.classic.SADE(strategies, factor, crossover, *periods, walls="none")
    state = method.begin(kernels.start(first, objective(first), np.full(d, -5.0), np.full(d, 5.0)))
    reference = Reference(first, objective(first), strategies, factor, crossover, periods)
    learnt = set()
    for generation in range(30):
        choice = rng.random((n, max(NEEDED[name] for name in strategies)))
        tries, wheel, normal = rng.normal(size=(6, n)), rng.random(n), rng.normal(size=n)
        chance, forced = rng.random((n, d)), rng.random((n, 1))
        step = method.ask(state, Given(normal=[tries, normal], uniform=[choice, wheel, chance, forced]))
        trials = reference.trials(choice, tries, wheel, normal, chance, forced)
        assert_allclose(step.position, trials, rtol=1e-12, atol=1e-12)
        assert_array_equal(step.notes.strategy, reference.chosen)
        evaluated = np.arange(n) < (5 if generation % 6 == 4 else n)
        values = np.where(evaluated, objective(step.position), np.nan)
        state = method.tell(state, step, values, None if evaluated.all() else evaluated)
        reference.select(trials, values, evaluated)
        memory = state.memory
        assert_allclose(state.best_position, reference.x, rtol=1e-12, atol=1e-12)
        assert_array_equal(state.best_value, reference.f)
        assert memory.generation == reference.generation
        assert_allclose(memory.probability, reference.p, rtol=1e-12)
        assert_array_equal(memory.wins, reference.won)
        assert_array_equal(memory.losses, reference.lost)
        assert_allclose(memory.rate, reference.rates, rtol=1e-12, atol=1e-15)
        assert_allclose(memory.rate_mean, reference.rate_mean, rtol=1e-12)
        assert_allclose(memory.rate_sum, sum(reference.winning_rates), rtol=1e-12)
        assert memory.rate_count == len(reference.winning_rates)
        learnt.add((tuple(reference.p), reference.rate_mean))
    assert len(learnt) > 4  # something was learnt again and again
    assert min(reference.f) < 0.2 * objective(first).min()


# One piece after the other

THREE = ("best/1", "rand/1", "current-to-best/1")


def learning(strategies=THREE, **changes):
    """What four individuals have learnt in one generation, unless something else is given."""
    memory = ps.classic.SADE(strategies).begin(by_hand.swarm()).memory
    return memory._replace(**{name: frozen(value) for name, value in ({"generation": 1.0} | changes).items()})


def ask(swarm, method, tries=0.0, wheel=0.0, normal=0.0, chance=0.0, forced=0.0):
    """A step with these deviates, each for everybody or one for each; partners are the first others."""
    n, d = swarm.position.shape
    tries = np.broadcast_to(np.asarray(tries, dtype=float).reshape(-1, 1), (6, n))
    wheel, normal = (np.broadcast_to(one, (n,)) for one in (wheel, normal))
    fixed = np.zeros((n, 3)), wheel, np.broadcast_to(chance, (n, d)), np.broadcast_to(forced, (n, 1))
    return method.ask(swarm, Given(normal=[tries, normal], uniform=fixed))


def test_strategies_are_chosen_by_roulette(swarm):
    method = ps.classic.SADE(THREE)
    below = np.nextafter([0.25, 0.75, 1.0], 0)
    memory = learning(probability=[0.25, 0.5, 0.25])
    first = ask(swarm._replace(memory=memory), method, wheel=[0.0, below[0], 0.25, below[1]])
    assert_array_equal(first.notes.strategy, [0, 0, 1, 1])
    second = ask(swarm._replace(memory=memory), method, wheel=[0.75, 0.8, below[2], 0.5])
    assert_array_equal(second.notes.strategy, [2, 2, 2, 1])


def test_rounding_in_the_probabilities_leaves_no_gap_at_the_end(swarm):
    thirds = [0.1, 0.2, 0.7 - 1e-12]  # whose sum is less than one
    step = ask(swarm._replace(memory=learning(probability=thirds)), ps.classic.SADE(THREE), wheel=np.nextafter(1.0, 0))
    assert_array_equal(step.notes.strategy, 2)


@pytest.mark.parametrize(
    ("tries", "expected"),
    [
        ([0.5, 0.9, 0.9, 0.9, 0.9, 0.9], 0.5),
        ([-0.25, 0.75, 0.5, 0.5, 0.5, 0.5], 0.75),
        ([2.25, 0.0, 2.0, 0.5, 0.5, 0.5], 2.0),  # 0 is outside, 2 inside
        ([-1.0, -1.0, 3.0, -1.0, 3.0, 1.5], 1.5),
    ],
)
def test_a_factor_is_the_first_draw_between_zero_and_two(swarm, tries, expected):
    """Trials of best/1 with everything crossed: b + F (r1 - r2) for b = (1, 2)."""
    method = ps.classic.SADE(THREE, factor=(0.5, 0.25), walls="none")
    step = ask(swarm._replace(memory=learning()), method, tries=(np.array(tries) - 0.5) / 0.25)
    bests = swarm.best_position
    first_others = [(1, 2), (0, 2), (0, 1), (0, 1)]
    assert_array_equal(step.position, [(1, 2) + expected * (bests[a] - bests[b]) for a, b in first_others])


@pytest.mark.parametrize(("outside", "end"), [(-5.0, (0, 0.01)), (9.0, (2, 2))])
def test_a_factor_without_a_valid_draw_lies_at_an_end_of_its_range(swarm, outside, end):
    method = ps.classic.SADE(THREE, factor=(0.5, 0.25), walls="none")
    step = ask(swarm._replace(memory=learning()), method, tries=[(outside - 0.5) / 0.25] * 6)
    factor = (step.position[3] - (1, 2)) / (swarm.best_position[0] - swarm.best_position[1])
    assert end[0] <= factor.min() <= factor.max() <= end[1]
    assert factor.min() > 0


def test_factors_are_drawn_for_each_trial():
    swarm = ps.classic.SADE().begin(by_hand.drawn(1))
    tries = np.random.default_rng(2).normal(size=(6, 7))
    fixed = [np.zeros((7, 3)), np.zeros(7), np.zeros((7, 3)), np.zeros((7, 1))]
    step = ps.classic.SADE(walls="none").ask(swarm, Given(normal=[tries, np.zeros(7)], uniform=fixed))
    x = swarm.best_position
    first_others = [[k for k in range(7) if k != i][:3] for i in range(7)]
    factors = [(step.position[i] - x[a]) / (x[b] - x[c]) for i, (a, b, c) in enumerate(first_others)]
    expected = [next(f for f in 0.5 + 0.3 * tries[:, i] if 0 < f <= 2) for i in range(7)]
    assert_allclose(factors, np.tile(expected, (3, 1)).T, rtol=1e-12)


def test_rates_are_kept_for_a_period_and_cut_off_at_their_ends(swarm):
    method = ps.classic.SADE(THREE, crossover=(0.5, 0.5), rate_period=3, rate_learning_period=100)
    normal = frozen([-2.0, 0.25, 0.5, 3.0])
    state, rates = method.begin(swarm), []
    for generation in range(7):
        step = ask(state, method, normal=normal + generation / 16)
        rates.append(step.notes.rate)
        state = method.tell(state, step, frozen([99.0] * 4))
        assert_array_equal(state.memory.rate, rates[-1])
    for period, shift in ((slice(0, 3), 0), (slice(3, 6), 3 / 32), (slice(6, 7), 6 / 32)):
        assert_array_equal(rates[period], [(0, 0.625 + shift, 0.75 + shift, 1)] * len(rates[period]))


def test_crossover_uses_the_rate_of_each_individual(swarm):
    rates = frozen([0.0, 0.3, 0.6, 1.0])
    method = ps.classic.SADE(THREE, walls="none")
    step = ask(swarm._replace(memory=learning(rate=rates)), method, chance=0.5, forced=0.9)
    crossed = step.position != swarm.best_position
    assert_array_equal(crossed, [(False, True), (False, True), (True, True), (True, True)])


def told(swarm, memory, strategy, rate, values, method, evaluated=None):
    """What is remembered after trials of these strategies and rates; the parents' values are 3, 1, 2 and none."""
    notes = TrialRecord(np.array(strategy), frozen(rate))
    step = ps.Proposal(swarm.position, swarm.velocity, notes)
    return method.tell(swarm._replace(memory=memory), step, frozen(values), evaluated).memory


def test_wins_and_losses_are_counted_by_strategy(swarm):
    before = learning(wins=[1.0, 0.0, 2.0], losses=[0.0, 3.0, 0.0], rate_sum=0.7, rate_count=1.0)
    # Individuals 0 and 3 win; an equal value and a failure do not.
    memory = told(swarm, before, [0, 2, 2, 1], [0.1, 0.2, 0.3, 0.4], [2.9, 1.0, np.nan, 8.0], ps.classic.SADE(THREE))
    assert_array_equal(memory.wins, [2, 1, 2])
    assert_array_equal(memory.losses, [0, 3, 2])
    assert_array_equal(memory.rate, [0.1, 0.2, 0.3, 0.4])
    assert memory.rate_sum == pytest.approx(0.7 + 0.1 + 0.4)
    assert memory.rate_count == 3
    assert memory.generation == 2
    assert_array_equal(memory.probability, before.probability)


def test_trials_that_were_not_evaluated_are_not_counted(swarm):
    evaluated = np.array([True, True, False, False])
    values = [2.9, 5.0, np.nan, np.nan]
    memory = told(swarm, learning(), [0, 2, 2, 1], [0.1, 0.2, 0.3, 0.4], values, ps.classic.SADE(THREE), evaluated)
    assert_array_equal(memory.wins, [1, 0, 0])
    assert_array_equal(memory.losses, [0, 0, 1])
    assert (memory.rate_sum, memory.rate_count) == (0.1, 1)


@pytest.mark.parametrize("counts", [(30, 70, 80, 20), (1, 199, 150, 50), (40, 60, 30, 45)])
def test_probabilities_are_those_of_qin_and_suganthan(swarm, counts):
    """p1 = ns1 (ns2 + nf2) / (ns2 (ns1 + nf1) + ns1 (ns2 + nf2)), but for the 0.01 that keeps a strategy alive."""
    ns1, nf1, ns2, nf2 = counts
    method = ps.classic.SADE(learning_period=50)
    wins, losses = [ns1 - 1.0, ns2 - 1.0], [nf1 - 1.0, nf2 - 1.0]
    before = learning(method.strategies, generation=49.0, wins=wins, losses=losses)
    # One more win and one more loss each.
    memory = told(swarm, before, [0, 0, 1, 1], [0.5] * 4, [2.0, 9.0, 9.0, 9.0], method)
    assert_array_equal((memory.wins, memory.losses), 0)  # a new period begins
    published = ns1 * (ns2 + nf2) / (ns2 * (ns1 + nf1) + ns1 * (ns2 + nf2))
    share = np.array([ns1 / (ns1 + nf1), ns2 / (ns2 + nf2)])
    assert share[0] / share.sum() == pytest.approx(published, rel=1e-12)
    assert_allclose(memory.probability, (share + KEEP_ALIVE) / (share + KEEP_ALIVE).sum(), rtol=1e-14)
    assert abs(memory.probability[0] - published) < KEEP_ALIVE / share.sum()


def test_before_the_end_of_a_period_nothing_changes(swarm):
    method = ps.classic.SADE(learning_period=50)
    known = {"probability": [0.4, 0.6], "wins": [3.0, 1.0], "losses": [0.0, 5.0]}
    before = learning(method.strategies, generation=48.0, **known)
    memory = told(swarm, before, [0, 0, 1, 1], [0.5] * 4, [np.inf] * 4, method)
    assert_array_equal(memory.probability, [0.4, 0.6])
    assert_array_equal((memory.wins, memory.losses), [(3, 1), (2, 7)])


def test_a_strategy_that_always_loses_is_kept_alive_and_one_never_tried_counts_as_such(swarm):
    before = learning(generation=49.0, wins=[99.0, 0.0, 0.0], losses=[0.0, 50.0, 0.0])
    memory = told(
        swarm, before, [0, 1, 1, 1], [0.5] * 4, [2.0, 9.0, 9.0, np.inf], ps.classic.SADE(THREE, learning_period=50)
    )
    assert_allclose(memory.probability, np.array([1.01, 0.01, 0.01]) / 1.03, rtol=1e-14)


def test_where_nobody_wins_all_strategies_are_alike_again(swarm):
    before = learning(generation=49.0, probability=[0.8, 0.1, 0.1], losses=[9.0, 4.0, 0.0])
    memory = told(swarm, before, [0] * 4, [0.5] * 4, [np.inf] * 4, ps.classic.SADE(THREE, learning_period=50))
    assert_allclose(memory.probability, [1 / 3] * 3, rtol=1e-14)


def test_the_mean_rate_is_that_of_the_winners(swarm):
    method = ps.classic.SADE(THREE, rate_learning_period=25)
    before = learning(generation=24.0, rate_mean=0.5, rate_sum=0.9, rate_count=2.0)
    memory = told(swarm, before, [0] * 4, [0.3, 1.0, 0.0, 0.6], [2.0, 9.0, 9.0, 9.0], method)  # 0 and 3 win
    assert memory.rate_mean == pytest.approx((0.9 + 0.3 + 0.6) / 4, rel=1e-15)
    assert (memory.rate_sum, memory.rate_count) == (0, 0)
    assert_array_equal(memory.wins, [2, 0, 0])  # the strategies' period goes on


def test_without_winners_the_mean_rate_stays(swarm):
    before = learning(generation=24.0, rate_mean=0.35)
    memory = told(swarm, before, [0] * 4, [0.9] * 4, [np.inf] * 4, ps.classic.SADE(THREE, rate_learning_period=25))
    assert memory.rate_mean == 0.35


# Whole runs

BOX = [(-5, 4), (-3, 6), (-4, 4)]
QUICK = ps.classic.SADE(learning_period=4, rate_period=2, rate_learning_period=3)


def run(method=QUICK, **changes):
    settings = {"n_particles": 12, "maxiter": 10, "vectorized": True, "tol": 0, "rng": 1}
    return ps.minimize(objective, BOX, method=method, **(settings | changes))


def test_a_continued_run_moves_on_with_what_it_has_learnt():
    first = run()
    learnt = first.swarm.memory
    assert learnt.generation == 10
    assert not np.allclose(learnt.probability, 0.5, atol=0.01)
    assert learnt.rate_mean != 0.5
    seen = []
    second = run(init=first.swarm, rng=2, callback=lambda intermediate_result: seen.append(intermediate_result.swarm))
    assert second.swarm.memory.generation == 20
    # 10 is even, so new rates are drawn at once; probabilities wait for generation 12, the mean rate too.
    assert_array_equal(seen[0].memory.probability, learnt.probability)
    assert seen[0].memory.rate_mean == learnt.rate_mean
    assert seen[0].memory.rate_count == learnt.rate_count + (seen[0].age == 0).sum()
    assert_array_equal(seen[0].memory.wins.sum(), learnt.wins.sum() + (seen[0].age == 0).sum())
    assert not np.array_equal(seen[1].memory.probability, learnt.probability)
    assert_array_equal(seen[1].memory.wins, 0)
    forgotten = run(init=first.swarm._replace(memory=None), rng=2)
    assert forgotten.swarm.memory.generation == 10
    assert not np.array_equal(forgotten.swarm.position, second.swarm.position)


def test_another_method_in_between_leaves_the_memory_as_it_was():
    first = run()
    between = run(ps.PAO(), init=first.swarm)
    back = run(init=between.swarm, maxiter=0)
    assert between.fun < first.fun
    for kept in (between, back):
        assert_array_equal(kept.swarm.memory.probability, first.swarm.memory.probability)
        assert kept.swarm.memory.generation == 10


@pytest.mark.parametrize("strategies", [FIVE, ("best/1", "best/2"), ("current-to-best/1", "rand/1")])
def test_what_was_learnt_of_other_strategies_is_forgotten(strategies):
    first = run()
    assert_array_equal(QUICK.begin(first.swarm).memory.probability, first.swarm.memory.probability)
    other = ps.classic.SADE(strategies, crossover=(0.3, 0.1)).begin(first.swarm)
    assert_array_equal(other.memory.probability, [1 / len(strategies)] * len(strategies))
    assert other.memory.generation == 0
    assert other.memory.rate_mean == 0.3


def test_a_run_that_has_ended_keeps_its_memory_while_others_learn_on():
    free = ps.minimize_many(objective, BOX, method=QUICK, runs=6, n_particles=12, vectorized=True, tol=0, rng=3)
    target = float(np.median(free.history[:, 20]))
    many = ps.minimize_many(
        objective, BOX, method=QUICK, runs=6, n_particles=12, vectorized=True, tol=0, target=target, rng=3
    )
    assert len(set(many.nit.tolist())) > 2
    assert_array_equal(many.swarm.memory.generation, many.nit)
    for r in range(6):
        alone = run(rng=many.seeds[r], target=target, maxiter=100).swarm.memory
        for name, mine, together in zip(Learning._fields, alone, many.swarm.memory, strict=True):
            assert_array_equal(together[r], mine, err_msg=name)


def test_a_budget_that_ends_within_a_generation_counts_its_trials_alone():
    result = run(ps.classic.SADE(learning_period=1000), maxiter=None, maxfev=12 + 12 + 5)
    assert result.swarm.memory.wins.sum() + result.swarm.memory.losses.sum() == 12 + 5


def test_measuring_again_teaches_nothing():
    """Only trials are counted, not the bests that are measured a second time."""
    result = run(ps.classic.SADE(learning_period=1000, rate_learning_period=1000), reevaluate=0.25, maxiter=6)
    memory = result.swarm.memory
    assert result.nfev == 12 + 6 * (12 + 3)
    assert memory.wins.sum() + memory.losses.sum() == 6 * 12


def test_a_result_with_its_memory_survives_pickling():
    swarm = run().swarm
    copy = pickle.loads(pickle.dumps(swarm))
    for name, mine, theirs in zip(Learning._fields, swarm.memory, copy.memory, strict=True):
        assert_array_equal(mine, theirs, err_msg=name)


# The object


def test_the_values_of_the_study_and_of_qin_and_suganthan():
    assert ps.classic.SADE.paper() == ps.classic.SADE(FIVE, (0.5, 0.2), (0.2, 0.1), 10, rate_learning_period=10)
    assert ps.classic.SADE() == ps.classic.SADE(("rand/1", "current-to-best/1"), (0.5, 0.3), (0.5, 0.1), 50, 5, 25)


def test_lists_are_as_good_as_tuples():
    listed = ps.classic.SADE(strategies=["rand/1", "current-to-best/1"], factor=[0.5, 0.3], crossover=[0.5, 0.1])
    assert listed == ps.classic.SADE()
    assert hash(listed) == hash(ps.classic.SADE())


@pytest.mark.parametrize("wrong", ["rand/1", (), ("rand/1",), 5, None])
def test_fewer_than_two_strategies_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=r"strategies must .* two or more"):
        ps.classic.SADE(strategies=wrong)


@pytest.mark.parametrize("wrong", [("rand/1", "rand/9"), ("rand/1", 2), ("rand/1", None)])
def test_an_unknown_strategy_is_refused(wrong):
    with pytest.raises(ValueError, match=r"strategy must .*rand/1.*, got"):
        ps.classic.SADE(strategies=wrong)


@pytest.mark.parametrize("name", ["factor", "crossover"])
def test_a_bad_pair_is_refused(name):
    for wrong in (0.5, None, (0.5,), (0.5, 0.1, 0.1), "ab"):
        with pytest.raises(ValueError, match=f"{name} must be a pair"):
            ps.classic.SADE(**{name: wrong})
    for wrong in ((-0.1, 0.1), (0.5, -0.1), (2.1, 0.1), (0.5, np.nan), (0.5, math.inf)):
        with pytest.raises(ValueError, match=rf"{name}\[[01]\] must .* 0 and"):
            ps.classic.SADE(**{name: wrong})
    for wrong in ((0.5, "0.1"), (None, 0.1), (True, 0.1), (lambda progress: 0.5, 0.1), (0.5, lambda progress: 0.1)):
        with pytest.raises(TypeError, match=rf"{name}\[[01]\] must be a number"):
            ps.classic.SADE(**{name: wrong})


@pytest.mark.parametrize("name", ["learning_period", "rate_period", "rate_learning_period"])
@pytest.mark.parametrize("wrong", [0, -5, 2.5, True, None, "10"])
def test_a_bad_period_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must .* whole number"):
        ps.classic.SADE(**{name: wrong})
