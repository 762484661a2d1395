"""What the swarm room says is what the library computes; a link and the Python snippet give the same swarm."""

import base64
import json
from urllib.parse import parse_qsl

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.explorer import swarm_room
from paoswarm.explorer.server import to_json
from paoswarm.explorer.swarm_room import MOST_STEPS, PARAMETERS, WINDOW, Settings, SwarmHistory

CHOSEN = [
    {},
    {"damping": 1.0, "noise": 5.0, "step": 3, "fun": "rosenbrock", "seed": 9},
    {"damping": 2.5, "mass": 3.0, "local": 0.0, "leader": 2.0, "dt": 0.3, "step": 12, "walls": "reflect"},
    {"damping": 0.0, "noise": 0.0, "particles": 7, "step": 2, "fun": "ackley-shifted1-rotated1"},
    {"scale": "covariance", "walls": "periodic", "step": 5, "fun": "schwefel"},
    {"scale": "mean_to_best", "walls": "none", "step": 4, "fun": "griewank-rotated1"},
]


@pytest.fixture(params=CHOSEN, ids=lambda given: ",".join(given) or "default")
def given(request):
    return request.param


def unpack(packed):
    """The array that was packed."""
    return np.frombuffer(base64.b64decode(packed["f64"]), dtype="<f8").reshape(packed["shape"])


def shown(given):
    """The answer as the page gets it: through JSON and back."""
    answer = json.loads(to_json(swarm_room.show(given)))

    def opened(thing):
        if isinstance(thing, dict):
            return unpack(thing) if "f64" in thing else {name: opened(part) for name, part in thing.items()}
        return thing

    return opened(answer)


def method_of(given):
    settings = Settings.read(given)
    scales = {"spread": ps.noise.spread, "mean_to_best": ps.noise.mean_to_best, "covariance": ps.noise.covariance}
    return ps.PAO(
        mass=settings.mass,
        damping=settings.damping,
        stiffness=(settings.local, settings.leader),
        noise=settings.noise,
        dt=settings.dt,
        noise_scale=scales[settings.scale],
        walls=settings.walls,
    )


@pytest.mark.filterwarnings("ignore::paoswarm.errors.HyperparameterWarning")
class TestLaws:
    def test_the_response_is_the_exact_transition(self, given):
        answer, method = shown(given)["response"], method_of(given)
        law = ps.laws.transition(method.mass, method.damping, sum(method.stiffness), answer["time"])
        assert answer["time"][0] == 0
        assert answer["time"][-1] == WINDOW
        assert_array_equal(answer["mean"], law.A[:, 0, 0])
        assert_array_equal(answer["sd"], np.sqrt(method.noise * law.covariance[:, 0, 0]))
        dots = ps.laws.transition(method.mass, method.damping, sum(method.stiffness), answer["dots"])
        assert_array_equal(answer["at_dots"], dots.A[:, 0, 0])
        assert_allclose(np.diff(answer["dots"]), method.dt, rtol=1e-12)

    def test_the_poles_are_eigenvalues(self, given):
        answer, method = shown(given)["poles"], method_of(given)
        omega = method.natural_frequency
        equation = np.array([[0, 1], [-(omega**2), -2 * method.damping * omega]])
        step = ps.laws.transition(method.mass, method.damping, sum(method.stiffness), method.dt).A
        for name, matrix in (("s", equation), ("z", step)):
            poles = np.array(answer[name]) @ [1, 1j]
            assert_allclose(poles.sum(), np.trace(matrix), rtol=1e-12, atol=1e-14)
            assert_allclose(poles.prod(), np.linalg.det(matrix), rtol=1e-12, atol=1e-14)

    def test_the_readable_numbers_are_those_of_the_method(self, given):
        answer, method = shown(given), method_of(given)
        for name, value in method.behaviour()._asdict().items():
            found = answer["behaviour"][name]
            assert (None if found is None else type(value)(found)) == (None if value != value else value)

    def test_the_ellipses_are_the_law_of_the_next_step(self, given):
        frame, method = shown(given)["frame"], method_of(given)
        swarm, _ = SwarmHistory(Settings.read(given)).at(Settings.read(given).step)
        law = method.step_law(swarm, rng=0)
        assert_array_equal(frame["position"], swarm.position)
        assert_array_equal(frame["centre"], law.mean_position)
        turn = np.stack([np.cos(frame["angle"]), np.sin(frame["angle"])], axis=-1)
        across = np.stack([-turn[:, 1], turn[:, 0]], axis=-1)
        axes = np.stack([turn, across], axis=-1) * (frame["half_axes"] / 2)[:, None, :]
        covariance = axes @ np.swapaxes(axes, -1, -2)
        largest = np.abs(law.position_covariance).max()
        assert_allclose(covariance, law.position_covariance, rtol=1e-9, atol=1e-12 * largest)

    def test_the_concerns_are_the_warnings_of_the_method(self, given, recwarn):
        method_of(given)
        assert shown(given)["concerns"] == [str(warning.message) for warning in recwarn]

    def test_the_link_shows_the_same(self, given):
        answer = shown(given)
        again = shown(dict(parse_qsl(answer["link"])))
        assert to_json(answer) == to_json(again)

    def test_the_snippet_makes_the_same_swarm(self, given):
        answer, names = shown(given), {}
        exec(compile(answer["snippet"], "snippet", "exec"), names)
        swarm = names["swarm"]
        assert_array_equal(answer["frame"]["position"], swarm.position)
        assert_array_equal(answer["frame"]["best_position"], swarm.best_position)
        assert answer["frame"]["global_value"] == swarm.global_value
        assert answer["best"][-1] == names["optimizer"].result.fun


def test_ellipses_cover_86_percent_of_the_next_positions():
    # 2000 particles in several steps; the share has a standard deviation of 0.008, and the test allows 5 of them.
    inside, total = 0, 0
    for seed in range(10):
        given = {"particles": 200, "seed": seed, "walls": "none", "fun": "sphere", "step": 2}
        now, after = (swarm_room.show({**given, "step": step})["frame"] for step in (2, 3))
        apart = after["position"] - now["centre"]
        u = apart[:, 0] * np.cos(now["angle"]) + apart[:, 1] * np.sin(now["angle"])
        v = apart[:, 1] * np.cos(now["angle"]) - apart[:, 0] * np.sin(now["angle"])
        moves = (now["half_axes"] > 0).all(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.hypot(u / now["half_axes"][:, 0], v / now["half_axes"][:, 1])
        inside += (distance[moves] <= 1).sum()
        total += moves.sum()
    assert total > 1900
    assert abs(inside / total - (1 - np.exp(-2))) < 0.04


def test_steps_in_any_order_show_the_same():
    forward = [to_json(swarm_room.show({"step": step})) for step in range(6)]
    assert [to_json(swarm_room.show({"step": step})) for step in (5, 4, 3, 2, 1, 0)] == forward[::-1]
    swarm_room._history.cache_clear()
    assert to_json(swarm_room.show({"step": 3})) == forward[3]


class TestLinks:
    def test_numbers_are_clamped(self):
        huge = Settings.read({one.name: 1e300 for one in PARAMETERS} | {"step": 1e300, "particles": 1e300, "seed": -5})
        tiny = Settings.read({one.name: -1e300 for one in PARAMETERS} | {"step": -9, "particles": "-inf"})
        for one in PARAMETERS:
            assert getattr(huge, one.name) == one.high
            assert getattr(tiny, one.name) == one.low
        assert (huge.step, huge.seed, tiny.step, tiny.particles) == (MOST_STEPS, 0, 0, 2)

    @pytest.mark.parametrize("nonsense", ["", "nan", "1;2", None, [1], {"a": 1}, "__import__('os')"])
    def test_nonsense_is_the_default(self, nonsense):
        names = ["mass", "damping", "fun", "scale", "walls", "particles", "seed", "step"]
        assert Settings.read(dict.fromkeys(names, nonsense)) == Settings()

    @pytest.mark.parametrize("name", ["bbob-f1", "sphere-shifted999", "sphere-rotated1-shifted1", "../etc", "sphere-"])
    def test_only_functions_of_the_list(self, name):
        assert Settings.read({"fun": name}).fun == Settings().fun

    def test_two_slack_springs_are_a_sentence(self):
        with pytest.raises(ValueError, match="at least one must pull"):
            swarm_room.show({"local": 0, "leader": 0})


class TestContours:
    def test_shades_rank_the_values(self):
        answer = swarm_room.contours({"fun": "rosenbrock"})
        shades = np.frombuffer(base64.b64decode(answer["shades"]), np.uint8).astype(int)
        left, right, bottom, top = answer["view"]
        x, y = np.linspace(left, right, answer["size"]), np.linspace(bottom, top, answer["size"])
        values = ps.problems.rosenbrock(2)(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
        assert (np.diff(shades[np.argsort(values)]) >= 0).all()
        assert (shades.min(), shades.max()) == (0, 255)
        assert [left, right, bottom, top] == ps.problems.rosenbrock(2).bounds.ravel().tolist()

    @pytest.mark.parametrize("view", [[0, 0, 0, 1], [1, 0, 0, 1], [0, "x", 0, 1], [0, 1], "abcd", [0, 1e99, 0, 1], 7])
    def test_a_view_without_sense_is_the_whole_box(self, view):
        assert swarm_room.contours({"fun": "sphere", "view": view})["view"] == [-5.12, 5.12, -5.12, 5.12]

    def test_a_view_is_kept(self):
        assert swarm_room.contours({"view": [0, 1, 2, 3]})["view"] == [0, 1, 2, 3]
