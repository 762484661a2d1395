"""What a run was asked to do, as JSON and back: the same thing, and never anything but data."""

import json
import re
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.read_prior import read_prior
from paoswarm.store.encoding import OURS, Unknown, decode, decode_seed, describe, encode, encode_seed
from paoswarm.study.adapters import SciPyDE


def there_and_back(thing, **more):
    return decode(json.loads(json.dumps(encode(thing), allow_nan=False)), {**OURS, **more})


METHODS = [
    ps.PAO(),
    ps.PAO(dt=ps.schedules.patient_step(), stiffness=(0.7, 0.9), walls="periodic"),
    ps.PAO(damping=ps.schedules.piecewise((0, 0.2), (0.5, 0.25), (1, 0.15)), noise_scale=ps.noise.covariance),
    ps.PAO(attractors=(ps.attractors.NeighbourhoodBest("ring", 2), ps.attractors.GaussianPoint(0.5))),
    ps.PAO(mass=np.array([1.0, 1.2, 1.1])),
    ps.classic.PSO.paper(),
    ps.classic.QPSO(),
    ps.classic.DE(strategy="best/1"),
    ps.classic.SADE(),
    ps.classic.RandomSearch(),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_methods_come_back_as_they_were(method):
    assert there_and_back(method) == method


@pytest.mark.parametrize("value", [None, True, 3, 1 / 3, -np.inf, "sobol", (1, (2.5, "a")), {"a": (0, 1), "array": 2}])
def test_plain_values_come_back_as_they_were(value):
    assert there_and_back(value) == value


def test_arrays_come_back_to_the_last_bit():
    array = np.array([[0.1, np.nan], [np.inf, -0.0]])
    assert there_and_back(array).tobytes() == array.tobytes()
    assert encode(np.float64(0.1)) == 0.1
    assert encode(np.int64(3)) == 3


@pytest.mark.parametrize(
    "law", [stats.norm(1, 2), stats.gamma(a=2.0, scale=3), stats.multivariate_normal([1, 2], [[2, 0.3], [0.3, 1]])]
)
def test_distributions_come_back_as_they_were(law):
    point = np.array([0.7, 1.2])
    np.testing.assert_array_equal(there_and_back(law).logpdf(point), law.logpdf(point))


def test_a_circle_comes_back():
    again = there_and_back({"phase": ps.Periodic(0, 6)}, Periodic=ps.Periodic)["phase"]
    assert (again.low, again.high) == (0, 6)


def test_a_prior_that_does_not_show_its_settings_is_the_users_own():
    with pytest.raises(Unknown):
        there_and_back(read_prior({"a": (0, 1)}))


class OwnMethod(ps.Method):
    def ask(self, state, draw, progress=0.0): ...


@pytest.mark.parametrize(
    "thing", [lambda progress: 1.0, OwnMethod(), ps.PAO(dt=lambda progress: 1.0), OwnMethod, np.sin, json.loads]
)
def test_what_is_the_users_own_is_known_by_name_only(thing):
    assert json.dumps(encode(thing)) == json.dumps(encode(thing))
    with pytest.raises(Unknown):
        there_and_back(thing)


@pytest.mark.parametrize(
    "forged",
    [
        {"paoswarm": "os.system", "with": {"command": "true"}},
        {"scipy.stats": "os", "args": [], "kwds": {"items": []}},
        {"scipy.stats": "__loader__", "args": [], "kwds": {"items": []}},
        {"own": "builtins.eval"},
    ],
)
def test_names_of_other_things_are_not_looked_up(forged):
    with pytest.raises(Unknown):
        decode(forged)


def test_a_swarm_is_known_by_its_checksum(swarm):
    assert encode(swarm) == encode(swarm)
    other = swarm._replace(best_value=np.nextafter(swarm.best_value, np.inf))
    assert encode(swarm) != encode(other)


@pytest.mark.parametrize("seed", [0, 2**200, np.random.SeedSequence([1, 2], spawn_key=(3,)), np.int64(4)])
def test_seeds_come_back(seed):
    again = decode_seed(json.loads(json.dumps(encode_seed(seed))))
    assert np.random.default_rng(again).random() == np.random.default_rng(seed).random()


def test_a_generator_comes_back_with_its_children():
    source = np.random.default_rng(3)
    source.spawn(2)
    source.random(5, dtype=np.float32)
    again = decode_seed(json.loads(json.dumps(encode_seed(source))))
    assert again.random() == source.random()
    assert again.spawn(1)[0].random() == source.spawn(1)[0].random()


def test_a_generator_without_seeds_is_refused():
    class Fixed(np.random.bit_generator.ISeedSequence):
        def generate_state(self, n_words, dtype=np.uint32):
            return np.arange(1, n_words + 1, dtype=dtype)

    with pytest.raises(TypeError, match=r"PCG64.* integer as rng"):
        encode_seed(np.random.Generator(np.random.PCG64(Fixed())))


# Descriptions in one line


def test_a_description_names_every_hyperparameter_and_no_address():
    assert describe(ps.classic.DE(factor=0.7)) == "DE(factor=0.7, crossover=0.9, strategy='rand/1', walls='clip')"
    assert "dt=linear(2.0, 0.5)" in describe(ps.PAO(dt=ps.schedules.linear(2.0, 0.5)))
    assert "attractors=(local_best, global_best), noise_scale=spread" in describe(ps.PAO())
    assert re.fullmatch(r"slower#[0-9a-f]{8}", describe(slower))
    assert describe(stats.norm(1, scale=2.0)) == "norm(1, scale=2.0)"

    class Plain:
        def __init__(self, size):
            self.size, self.inner = size, np.arange(3)

    assert describe(Plain(2)) == describe(Plain(2)) != describe(Plain(3))
    assert "0x" not in describe(Plain(2))


def slower(progress, by):
    return 1.0 + by * progress


class Pair(NamedTuple):
    number: int
    rule: object


class Slower:
    def __init__(self, by):
        self.by = by

    def at(self, progress):
        return 1.0 + self.by * progress


DIFFERENT = {
    "numbers": (ps.classic.PSO(inertia=0.7), ps.classic.PSO(inertia=0.70000001)),
    "schedules": (ps.PAO(dt=ps.schedules.linear(1, 2)), ps.PAO(dt=ps.schedules.linear(1, 3))),
    "shapes": (ps.PAO(dt=ps.schedules.linear(1, 2)), ps.PAO(dt=ps.schedules.geometric(1, 2))),
    "patience": (ps.PAO(dt=ps.schedules.patient_step()), ps.PAO(dt=ps.schedules.patient_step(growth=2.0))),
    "arrays": (ps.PAO(dt=np.linspace(1, 2, 8)), ps.PAO(dt=np.linspace(1, 3, 8))),
    "attractors": (ps.PAO(), ps.PAO(attractors=(ps.attractors.average_local_best, ps.attractors.global_best))),
    "partials": (ps.PAO(dt=partial(slower, by=0.5)), ps.PAO(dt=partial(slower, by=1.0))),
    "bound methods": (ps.PAO(dt=Slower(0.5).at), ps.PAO(dt=Slower(1.0).at)),
    "lambdas": tuple(ps.PAO(dt=rule) for rule in (lambda progress: 1.0 + progress, lambda progress: 2.0 - progress)),
    "closures": tuple(ps.PAO(dt=lambda progress, by=by: 1.0 + by * progress) for by in (0.5, 1.0)),
    "adapters": (SciPyDE(), SciPyDE(strategy="rand1bin")),
    "functions in a dict": tuple({"rule": lambda x, by=by: x + by} for by in (0.5, 1.0)),
    "sets": (Slower({1, 2}), Slower({1, 3})),
    "infinity": (Slower(np.inf), Slower(-np.inf)),
    "named tuples": (Slower(Pair(1, slower)), Slower(Pair(2, slower))),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_methods_that_differ_have_different_descriptions(pair):
    one, other = pair
    assert describe(one) != describe(other)


def test_an_edited_function_or_method_is_another_one():
    def edited(code):
        space = {"ps": ps, "__name__": "edited"}
        exec(compile(code, "edited.py", "exec"), space)
        return space["it"]

    function = "def it(fun, bounds, *, population, seed):\n    fun(bounds.mean(axis=1) + {})"
    inner = "def it(fun, bounds, *, population, seed):\n    fun(bounds.T[0], key=lambda x: x + {})"
    method = "class it(ps.Method):\n    def ask(self, state, draw, progress=0.0):\n        return {}"
    default = "def it(fun, bounds, *, population, seed, scale={}):\n    fun(scale * bounds.mean(axis=1))"
    for code in (function, inner, default):
        assert describe(edited(code.format(1))) == describe(edited(code.format(1))) != describe(edited(code.format(2)))
    shown = "class it:\n    def __call__(self, x):\n        return {}\n    def __repr__(self):\n        return 'it'"
    derived = "class it:\n    @property\n    def rate(self):\n        return {}"
    for code in (method, shown, derived):
        one, same, other = (edited(code.format(number))() for number in (1, 1, 2))
        assert describe(one) == describe(same) != describe(other)


def test_anything_that_can_be_called_has_a_description():
    class Slim:
        __slots__ = ("size",)

        def __call__(self, fun, bounds, *, population, seed): ...

    assert "Slim" in describe(Slim())
    endless = Slower(1)
    endless.by = [endless]
    assert describe(endless) == describe(endless)
