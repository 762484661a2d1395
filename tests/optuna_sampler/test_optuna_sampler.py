"""The sampler for Optuna moves the same swarm as `Optimizer`, whoever evaluates its points."""

import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import paoswarm as ps
import paoswarm.optuna

pytest.importorskip("optuna", reason="the extra optuna is not installed")
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from paoswarm.optuna import PAOSampler
from paoswarm.optuna.shared_search import TrialSpace
from paoswarm.optuna.study_trials import ATTRIBUTE, Seat


@pytest.fixture(autouse=True)
def _silent():
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)


def objective(trial):
    x = trial.suggest_float("x", -5, 10)
    y = trial.suggest_float("y", 1e-3, 1e3, log=True)
    return (x - 1) ** 2 + 10 * (math.log10(y) - 1) ** 2


def mixed(trial):
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    n = trial.suggest_int("n", 10, 60, step=5)
    z = trial.suggest_float("z", -1, 1)
    return (n - 25) ** 2 / 25 + (z - 0.3) ** 2 + {"a": 2.0, "b": 0.0, "c": 1.0}[kind]


def whole(seed):
    """A sampler whose swarm has all parameters."""
    return PAOSampler(seed=seed, categories_in_swarm=True)


def run(fun, n_trials, sampler=None, direction="minimize", **options):
    study = optuna.create_study(sampler=sampler or whole(3), direction=direction)
    study.optimize(fun, n_trials=n_trials, **options)
    return study


def params(study):
    return [trial.params for trial in study.trials]


def seats(study):
    return [Seat(*t.system_attrs[ATTRIBUTE]) for t in study.trials if ATTRIBUTE in t.system_attrs]


def test_the_trials_are_the_points_of_an_optimizer():
    study = run(objective, 80)
    first = study.trials[0]
    space = {"x": (-5, 10), "y": ps.Real(1e-3, 1e3, log=True)}
    method = ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms)
    optimizer = ps.Optimizer(space, method=method, x0=([first.params], [first.value]), rng=3)
    expected = []
    while len(expected) < 79:
        points = optimizer.ask()
        optimizer.tell([objective(optuna.trial.FixedTrial(point)) for point in points])
        expected += points
    assert params(study)[1:] == expected[:79]


def test_the_best_value_is_close_to_the_minimum():
    assert run(objective, 100).best_value < 1e-4
    assert run(mixed, 100, PAOSampler(seed=3)).best_value < 0.01


@pytest.mark.parametrize("fun", [objective, mixed])
def test_the_same_seed_gives_the_same_trials_and_another_seed_others(fun):
    assert params(run(fun, 40)) == params(run(fun, 40))
    assert params(run(fun, 40)) != params(run(fun, 40, whole(4)))
    assert params(run(fun, 40, PAOSampler(seed=3))) == params(run(fun, 40, PAOSampler(seed=3)))


def test_maximising_is_minimising_the_negative():
    turned = run(lambda trial: -objective(trial), 40, direction="maximize")
    assert params(turned) == params(run(objective, 40))


@pytest.mark.parametrize("again", [lambda old: whole(99), lambda old: pickle.loads(pickle.dumps(old))])
def test_a_worker_that_joins_goes_on_with_the_swarm_of_the_others(again):
    # The independent sampler has a seed of its own, but chooses the first trial only.
    study = optuna.create_study(sampler=whole(3))
    for _ in range(12):
        study.optimize(mixed, n_trials=3)
        study.sampler = again(study.sampler)
    assert params(study) == params(run(mixed, 36))


def test_a_study_in_a_file_goes_on_as_if_it_had_not_been_interrupted(tmp_path):
    for _ in range(2):
        storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))
        study = optuna.create_study(study_name="s", storage=storage, sampler=PAOSampler(seed=3), load_if_exists=True)
        study.optimize(objective, n_trials=12)
    assert params(study) == params(run(objective, 24))


def test_workers_get_different_points_and_learn_from_each_other():
    study = run(objective, 3)
    workers = [PAOSampler(seed=seed) for seed in range(4)]
    for _ in range(25):
        asked = []
        for worker in workers:
            study.sampler = worker
            asked.append(study.ask())
        values = [objective(trial) for trial in asked]
        for trial, value in reversed(list(zip(asked, values, strict=True))):
            study.tell(trial, value)
    taken = [(seat.generation, seat.row) for seat in seats(study) if seat.row is not None]
    assert len(set(taken)) == len(taken)
    assert len({tuple(one.values()) for one in params(study)}) == len(study.trials)
    assert {seat.seed for seat in seats(study)} == {3}
    assert study.best_value < 1e-3


@pytest.mark.parametrize("n_clashes", [1, 2, 9])
def test_a_row_that_another_worker_takes_at_the_same_moment_is_left_to_it(n_clashes, monkeypatch):
    study = run(objective, 3)
    sampler, study.sampler = study.sampler, optuna.samplers.RandomSampler(seed=1)
    others = [study.ask() for _ in range(n_clashes)]
    study.sampler = sampler
    write, storage = study._storage.set_trial_system_attr, study._storage

    def clash(trial_id, key, value):
        if others and key == ATTRIBUTE:
            write(others.pop()._trial_id, key, value)  # another process was quicker
        write(trial_id, key, value)

    monkeypatch.setattr(storage, "set_trial_system_attr", clash)
    study.ask().suggest_float("x", -5, 10)
    *found, last = [(seat.generation, seat.row) for seat in seats(study)]
    assert len(found) == 2 + min(n_clashes, 4)
    assert last not in [place for place in found if place[1] is not None]
    assert (last[1] is None) == (n_clashes == 9)  # an extra point, rather than trying for ever


def test_threads_share_the_swarm():
    study = run(objective, 80, n_jobs=4)
    taken = [(seat.generation, seat.row) for seat in seats(study) if seat.row is not None]
    assert len(set(taken)) == len(taken) > 40
    assert study.best_value < 0.1


def test_of_two_workers_who_close_a_generation_at_once_the_lower_trial_is_right():
    study = run(objective, 20)
    last = max(seat.generation for seat in seats(study))
    right = next(seat for seat in seats(study) if seat.generation == last)
    wrong = right._replace(told=[None, *right.told[1:]])
    trial = study.ask()
    objective(trial)
    study._storage.set_trial_system_attr(trial._trial_id, ATTRIBUTE, list(wrong))
    study.tell(trial, -1e9)  # the swarm is not told its value
    study.optimize(objective, n_trials=20)
    honest = run(objective, 40)
    assert params(study)[21:] == params(honest)[20:]
    # Had the other one had the lower number, the swarm would be built again from what it says.
    study = run(objective, 20)
    number = next(t.number for t in study.trials if t.system_attrs.get(ATTRIBUTE) == list(right))
    other = right._replace(told=[None] * len(right.told))
    study._storage._get_trial(study.trials[number]._trial_id).system_attrs[ATTRIBUTE] = list(other)
    study.sampler = whole(3)  # finished trials are not read twice
    study.optimize(objective, n_trials=20)
    assert params(study)[20:] != params(honest)[20:]


def test_a_dead_worker_holds_up_one_generation_only():
    study = run(objective, 10)
    dead = study.ask()
    dead.suggest_float("x", -5, 10)
    study.optimize(objective, n_trials=70)
    seat = Seat(*study.trials[10].system_attrs[ATTRIBUTE])
    after = [one.generation for one in seats(study)]
    assert max(after) > seat.generation + 5
    told = next(one.told for one in seats(study) if one.generation == seat.generation + 1)
    assert told[seat.row] is None
    assert study.best_value < 0.01


def test_failed_trials_are_failed_evaluations():
    def fails(trial):
        value = objective(trial)
        if trial.params["x"] < 0:
            raise ArithmeticError("diverged")
        return value

    study = run(fails, 100, catch=ArithmeticError)
    failed = [t.number for t in study.trials if t.state == TrialState.FAIL]
    assert failed
    assert sum(number >= 50 for number in failed) < 5
    assert study.best_value < 1e-3


def test_a_study_without_any_value_goes_on():
    study = run(objective, 1)

    def fails(trial):
        objective(trial)
        raise ArithmeticError

    study.optimize(fails, n_trials=60, catch=ArithmeticError)
    study.optimize(objective, n_trials=60)
    assert study.best_value < 0.1


def test_pruned_trials_count_with_their_last_report_but_not_as_better_than_complete_ones():
    def prunes(trial):
        value = objective(trial)
        trial.report(value - 1.0, step=5)
        trial.report(value, step=1)  # not the last step
        if trial.params["x"] > 1.5:
            raise optuna.TrialPruned
        return value

    def begin():
        study = optuna.create_study(sampler=PAOSampler(seed=3))
        study.enqueue_trial({"x": 0.0, "y": 1.0})
        study.optimize(objective, n_trials=1)
        return study

    study = begin()
    study.optimize(prunes, n_trials=60)
    assert sum(trial.state == TrialState.PRUNED for trial in study.trials) > 5
    told, beside = {}, {}
    for trial in study.trials[1:]:
        beside.setdefault(Seat(*trial.system_attrs[ATTRIBUTE]).generation, []).append(trial)
    for trials in beside.values():
        complete = [trial.value for trial in trials if trial.state == TrialState.COMPLETE]
        for trial in trials:
            value = objective(optuna.trial.FixedTrial(trial.params))
            report = max(value - 1.0, *complete) if complete else math.nan
            told[trial.number] = value if trial.state == TrialState.COMPLETE else report
    same = begin()
    same.optimize(lambda trial: told[trial.number] + 0 * objective(trial), n_trials=60)
    assert params(same) == params(study)


def test_constraints_are_those_of_an_optimizer():
    def disc(trial):
        x, y = trial.suggest_float("x", -2, 2), trial.suggest_float("y", -2, 2)
        trial.set_user_attr("radius", x**2 + y**2 - 1)
        return x + y

    def disc_set(trial):
        value = disc(trial)
        trial.set_constraint("0", trial.user_attrs["radius"])
        return value

    study = run(disc, 100, PAOSampler(seed=3, constraints_func=lambda trial: [trial.user_attrs["radius"]]))
    feasible = [t for t in study.trials if t.user_attrs["radius"] <= 0]
    assert min(t.value for t in feasible) == pytest.approx(-math.sqrt(2), abs=0.02)
    if hasattr(optuna.trial.Trial, "set_constraint"):
        assert params(run(disc_set, 100)) == params(study)
    optimizer = ps.Optimizer({"x": (-2, 2), "y": (-2, 2)}, constraints=ps.Returned(1), rng=3)
    expected = []
    while len(expected) < 99:
        points = optimizer.ask()
        optimizer.tell([p["x"] + p["y"] for p in points], [[p["x"] ** 2 + p["y"] ** 2 - 1] for p in points])
        expected += points
    assert params(study)[1:] == expected[:99]


def test_a_constraint_that_is_no_number_is_an_error():
    with pytest.raises(ValueError, match=r"constraints_func must return numbers, got \[nan\] for trial 0"):
        run(objective, 1, PAOSampler(constraints_func=lambda trial: [math.nan]))


@pytest.mark.parametrize(("in_swarm", "independent"), [(False, {"kind", "layers"}), (True, {"layers"})])
def test_parameters_of_a_branch_are_chosen_by_the_independent_sampler(in_swarm, independent):
    chosen = []

    class Noted(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            chosen.append((trial.number, name))
            return super().sample_independent(study, trial, name, distribution)

    def branches(trial):
        x = trial.suggest_float("x", -1, 1)
        if trial.suggest_categorical("kind", ["linear", "deep"]) == "deep":
            return x**2 + trial.suggest_int("layers", 1, 9) / 10
        return x**2 + 1

    run(branches, 60, PAOSampler(seed=1, categories_in_swarm=in_swarm, independent_sampler=Noted(1)))
    late = [name for number, name in chosen if number > 20]
    assert set(late) == independent


def test_earlier_trials_are_part_of_the_first_swarm():
    study = run(objective, 30, optuna.samplers.RandomSampler(seed=1))
    best = study.best_params
    study.sampler = PAOSampler(seed=1)
    study.optimize(objective, n_trials=40)
    first = seats(study)[0]
    values = [t.value for t in study.trials[:30]]
    assert first.told == sorted(range(30), key=lambda n: values[n])[: len(first.told)]
    assert study.trials[first.told[0]].params == best


def test_a_failed_trial_that_is_repeated_counts_with_its_value():
    study = run(objective, 4)
    failed = study.ask()
    objective(failed)
    study.tell(failed, state=TrialState.FAIL)
    again = optuna.create_trial(
        value=objective(optuna.trial.FixedTrial(failed.params)),
        params=failed.params,
        distributions=failed.distributions,
        system_attrs=study.trials[-1].system_attrs,  # as RetryFailedTrialCallback does
    )
    study.add_trial(again)
    study.optimize(objective, n_trials=20)
    assert params(study)[6:] == params(run(objective, 25))[5:]


def test_enqueued_trials_keep_their_parameters_and_take_no_place():
    study = optuna.create_study(sampler=PAOSampler(seed=3))
    study.optimize(objective, n_trials=5)
    study.enqueue_trial({"x": 1.0, "y": 10.0})
    study.optimize(objective, n_trials=20)
    assert study.trials[5].params == {"x": 1.0, "y": 10.0}
    assert ATTRIBUTE not in study.trials[5].system_attrs
    assert params(study)[6:] == params(run(objective, 24))[5:]


@pytest.mark.parametrize(
    ("distribution", "values"),
    [
        (FloatDistribution(-1, 2), [-1.0, 0.123, 2.0]),
        (FloatDistribution(1e-7, 1, log=True), [1e-7, 3e-4, 1.0]),
        (FloatDistribution(-10.2, 10.2, step=0.1), [-10.2 + k * 0.1 for k in (0, 7, 203)]),
        (IntDistribution(-3, 9, step=2), [-3, 1, 9]),
        (IntDistribution(1, 100, log=True), [1, 7, 100]),
        (CategoricalDistribution([1, True, None, "a", 2.5]), [1, None, "a", 2.5]),
    ],
)
def test_parameters_survive_the_way_to_the_swarm_and_back(distribution, values):
    space = TrialSpace({"p": distribution}, (), 1.0)
    inner = ps.Optimizer(space.variables, rng=1).space
    for value in values:
        trial = optuna.create_trial(params={"p": value}, distributions={"p": distribution}, value=0.0)
        rows = inner.rows(inner.coordinates(inner.read("p", space.point(trial))))
        back = space.params(inner.given(rows[0]))["p"]
        assert back == pytest.approx(value, rel=1e-12) if isinstance(value, float) else back == value
        assert type(back) is type(value)


def test_whole_numbers_on_a_log_scale_get_their_share():
    # Each of them must own the part of the log axis between its neighbours' halves: the ends are not cut in half.
    space = TrialSpace({"n": IntDistribution(1, 4, log=True)}, (), 1.0)
    inner = ps.Optimizer(space.variables, rng=1).space
    z = inner.lower + (np.arange(10_000)[:, None] + 0.5) / 10_000 * (inner.upper - inner.lower)
    found = [space.params(one)["n"] for one in inner.nested(inner.rows(z))]
    share = np.log([1.5 / 0.5, 2.5 / 1.5, 3.5 / 2.5, 4.5 / 3.5]) / np.log(9)
    np.testing.assert_allclose(np.bincount(found)[1:] / 10_000, share, atol=2e-4)


def test_workers_with_different_methods_have_different_swarms():
    study = run(objective, 10)
    study.sampler = PAOSampler(seed=3, method=ps.classic.DE())
    study.optimize(objective, n_trials=3)
    assert len({seat.search for seat in seats(study)}) == 2
    assert seats(study)[-1].told == sorted(range(10), key=lambda n: study.trials[n].value)


WORKER = """
import sys
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from paoswarm.optuna import PAOSampler
storage = JournalStorage(JournalFileBackend(sys.argv[1]))
study = optuna.create_study(study_name="s", storage=storage, sampler=PAOSampler(), load_if_exists=True)
study.optimize(lambda trial: sum(trial.suggest_float(name, -9, 5) ** 2 for name in "abc"), n_trials=40)
"""


@pytest.mark.slow
def test_processes_without_a_seed_agree_on_one_swarm(tmp_path):
    path = str(tmp_path / "study.log")
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, path]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    study = optuna.load_study(study_name="s", storage=JournalStorage(JournalFileBackend(path)))
    assert len(study.trials) == 120
    last = [seat.seed for seat in seats(study)][-60:]
    assert len(set(last)) == 1
    assert sum(seat.row is None for seat in seats(study)) < 60
    taken = [(seat.seed, seat.generation, seat.row, str(seat.told)) for seat in seats(study) if seat.row is not None]
    assert len(set(taken)) == len(taken)
    assert study.best_value < 0.1


def test_a_method_with_many_workers_has_larger_generations():
    study = run(objective, 30, PAOSampler(seed=1, method=ps.AdaptivePAO(parallel=12)))
    assert max(seat.row for seat in seats(study)) == 11


def test_what_cannot_be_is_said():
    with pytest.raises(TypeError, match=r"method must be a method such as paoswarm.AdaptivePAO\(\), got 'DE'"):
        PAOSampler(method="DE")
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got"):
        PAOSampler(seed="1")
    with pytest.raises(ValueError, match="the study has 2; use NSGAIISampler"), warnings.catch_warnings():
        optuna.create_study(directions=["minimize"] * 2, sampler=PAOSampler()).ask({"x": FloatDistribution(0, 1)})


def test_without_optuna_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        ImportError, match=r"PAOSampler needs optuna; install it with: pip install 'paoswarm\[optuna\]'"
    ):
        paoswarm.optuna.PAOSampler
    with pytest.raises(AttributeError, match=r"'paoswarm\.optuna' has no attribute 'TPESampler'"):
        paoswarm.optuna.TPESampler


def test_studies_of_the_same_name_in_two_storages_share_a_sampler_but_nothing_else():
    def other(trial):
        return (trial.suggest_float("x", -1, 1) - 0.2) ** 2 + trial.suggest_float("z", -1, 1) ** 2

    sampler = whole(3)
    for fun in (objective, other):
        study = optuna.create_study(study_name="same", sampler=sampler)
        study.optimize(fun, n_trials=20)
        assert [ATTRIBUTE in trial.system_attrs for trial in study.trials] == [False] + 19 * [True]


def test_a_new_trial_does_not_read_the_finished_ones_again(monkeypatch):
    before, count = optuna.trial.FrozenTrial.system_attrs, 0

    def counted(trial):
        nonlocal count
        count += 1
        return before.fget(trial)

    counts = []
    for n in (30, 300):
        study = run(objective, n)
        with monkeypatch.context() as patch:
            patch.setattr(optuna.trial.FrozenTrial, "system_attrs", property(counted, before.fset))
            count = 0
            study.optimize(objective, n_trials=10)
        counts.append(count)
    assert counts[1] <= counts[0] + 10
