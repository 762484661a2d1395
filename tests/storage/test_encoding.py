"""What a run was asked to do, as JSON and back: the same thing, and never anything but data."""

import json

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.sampling.read_prior import read_prior
from paoswarm.storage.encoding import OURS, Unknown, decode, decode_seed, encode, encode_seed


def there_and_back(thing, **more):
    return decode(json.loads(json.dumps(encode(thing), allow_nan=False)), {**OURS, **more})


METHODS = [
    ps.PAO(),
    ps.PAO(dt=ps.schedules.patient_step(), stiffness=(0.7, 0.9), walls="periodic"),
    ps.PAO(damping=ps.schedules.piecewise((0, 0.2), (0.5, 0.25), (1, 0.15)), noise_scale=ps.noise.covariance),
    ps.PAO(attractors=(ps.attractors.NeighbourhoodBest("ring", 2), ps.attractors.GaussianPoint(0.5))),
    ps.PAO(mass=np.array([1.0, 1.2, 1.1])),
    ps.PSO.paper(),
    ps.QPSO(),
    ps.DE(strategy="best/1"),
    ps.SADE(),
    ps.RandomSearch(),
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

    with pytest.raises(TypeError, match="give a number as rng"):
        encode_seed(np.random.Generator(np.random.PCG64(Fixed())))
