"""Every method is held to `contracts.MethodContract`, and every check of it fails for a method broken in its way."""

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from contracts import MethodContract, run, smallest_swarm, valley

import paoswarm as ps
from paoswarm.core.differences import STRATEGIES
from paoswarm.methods.method import check_walls


class Luck(NamedTuple):
    share: Any  # (*batch,) of successes so far


@dataclass(frozen=True)
class Climber(ps.Method):
    """A user's own method: steps from the own best towards the best of all, shorter in a run with bad luck.

    It has a memory and notes, needs three particles, and multiplies deviates by a plain number.
    """

    reach: float = 0.3
    walls: str = "clip"
    smallest_swarm: ClassVar[int] = 3

    def __post_init__(self):
        check_walls(self.walls)

    def begin(self, state):
        return state if isinstance(state.memory, Luck) else state._replace(memory=Luck(0 * state.age[..., 0] + 0.5))

    def ask(self, state, draw, progress=0.0):
        near = self.unrolled(state)
        shaking = self.reach * draw.normal(*near.position.shape[-2:])
        shaking = state.memory.share[..., None, None] * (near.upper - near.lower) * shaking
        position = near.best_position + 0.5 * (near.global_best - near.best_position) + shaking
        return ps.Proposal(*self.wall.apply(position, near.velocity, near.lower, near.upper), notes=state.best_value)

    def tell(self, state, proposal, value, evaluated=None):
        after = super().tell(state, proposal, value, evaluated)
        lucky = (after.best_value < proposal.notes).mean(axis=-1)
        return after._replace(memory=Luck(0.5 * state.memory.share + 0.5 * lucky))


METHODS = {
    "PAO": ps.PAO(),
    "PAO averages": ps.PAO(
        attractors=(ps.attractors.average_local_best, ps.attractors.weighted_average_particle), stiffness=(1.0, 2.0)
    ),
    "PAO chance": ps.PAO(
        attractors=(
            ps.attractors.DifferentialEvolution(),
            ps.attractors.GaussianPoint(),
            ps.attractors.NeighbourhoodBest(topology="random", size=2),
        ),
        stiffness=(0.5, 0.5, 1.0),
    ),
    "PAO dense": ps.PAO(noise_scale=ps.noise.covariance),
    "PSO": ps.classic.PSO(),
    "PSO paper": ps.classic.PSO.paper(),
    "QPSO": ps.classic.QPSO(),
    **{f"DE {strategy}": ps.classic.DE(strategy=strategy) for strategy in STRATEGIES},
    "DE paper": ps.classic.DE.paper(),
    "SADE": ps.classic.SADE(),
    "SADE quick": ps.classic.SADE(learning_period=3, rate_period=2, rate_learning_period=2),
    "SADE paper": ps.classic.SADE.paper(),
    "your own": Climber(),
}


# Other strategies and values of methods that are in the list already. What strategies do is tested in core.
ALIKE = {"PSO paper", "DE paper", "SADE paper", *(f"DE {strategy}" for strategy in list(STRATEGIES)[1:-1])}


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, id=name, marks=[pytest.mark.slow] if name in ALIKE else [])
        for name, method in METHODS.items()
    ],
)
class TestEveryMethod(MethodContract):
    pass


def test_methods_differ():
    """Otherwise one contract would stand for another."""
    ends = {run(method).swarm.position.tobytes() for method in METHODS.values()}
    assert len(ends) == len(METHODS)


def test_the_study_has_the_published_values_of_pao_and_qpso():
    """So their presets need no contract of their own."""
    assert ps.PAO.paper() == ps.PAO()
    assert ps.classic.QPSO.paper() == ps.classic.QPSO()


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        (ps.PAO(), 2),
        (ps.classic.PSO(), 2),
        (ps.classic.QPSO(), 2),
        (ps.classic.DE(), 4),
        (ps.classic.DE(strategy="rand/2"), 6),
        (ps.classic.DE(strategy="best/1"), 3),
        (ps.classic.DE(strategy="best/2"), 5),
        (ps.classic.DE(strategy="current-to-best/1"), 3),
        (ps.classic.DE(strategy="current-to-best/2"), 5),
        (ps.classic.SADE(), 4),
        (ps.classic.SADE.paper(), 6),
        (Climber(), 3),
    ],
)
def test_a_method_needs_as_many_particles_as_it_looks_at_and_itself(method, needed):
    assert smallest_swarm(method) == needed


def test_something_that_is_no_method_is_refused():
    for wrong in (ps.classic.PSO, 3, None.__class__):
        with pytest.raises(TypeError, match="method must be a paoswarm method"):
            ps.minimize(valley, [(0, 1)] * 3, method=wrong)


# Negative controls


class Homesick(Climber):
    """Is drawn to the origin."""

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        return step._replace(position=np.clip(0.9 * step.position, state.lower, state.upper))


class OwnUnit(Climber):
    """Takes steps of a tenth, whatever the units."""

    def ask(self, state, draw, progress=0.0):
        position = state.best_position + 0.1 * draw.normal(*state.position.shape[-2:])
        return ps.Proposal(np.clip(position, state.lower, state.upper), state.velocity, state.best_value)


class ElsewhereChance(Climber):
    """Draws from NumPy's global random numbers."""

    def ask(self, state, draw, progress=0.0):
        chance = np.random.random(state.position.shape)  # noqa: NPY002
        return ps.Proposal(state.lower + chance * (state.upper - state.lower), state.velocity, state.best_value)


class Elsewhere(Climber):
    """Moves the first swarm before it begins."""

    def begin(self, state):
        return super().begin(state)._replace(position=state.position[::-1])


class NoChance(Climber):
    """Always goes the same way, whatever the seed: out of the first swarm to one place."""

    def ask(self, state, draw, progress=0.0):
        middle = 0.5 * (state.lower + state.upper) + 0 * state.position
        return ps.Proposal(middle, 0 * state.velocity, state.best_value)


class Diary(Climber):
    """Counts its steps in a place of its own and makes them shorter."""

    steps: ClassVar[list[int]] = []

    def ask(self, state, draw, progress=0.0):
        self.steps.append(1)
        step = super().ask(state, draw)
        near = state.best_position + (step.position - state.best_position) / len(self.steps)
        return step._replace(position=near)


class Runaway(Climber):
    """Says that it minds the walls, and leaves the box."""

    applies_walls = True

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        return step._replace(position=step.position + 0.2 * (state.upper - state.lower))


class Homebody(Climber):
    """Never leaves the convex hull of the swarm, walls or not."""

    def ask(self, state, draw, progress=0.0):
        middle = 0.5 * (state.best_position + state.global_best)
        return ps.Proposal(middle, state.velocity, state.best_value)


class Gossip(Climber):
    """Looks at the other runs of the batch, for which it must claim to take batches."""

    takes_batches = True

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        mean = state.best_position.reshape(-1, state.n_dimensions).mean(axis=0)
        return step._replace(position=0.5 * (step.position + mean))


class Accountant(Climber):
    """Weighs by values instead of their order."""

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        weight = 1 / (1 + state.best_value - state.global_value[..., None])
        return step._replace(position=weight[..., None] * step.position + (1 - weight)[..., None] * state.global_best)


class Fragile(Climber):
    """Multiplies by values, of which some are infinite."""

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        with np.errstate(invalid="ignore"):
            return step._replace(position=step.position + 0 * state.best_value[..., None])


class Forgetful(Climber):
    """Takes the last point for the best."""

    def tell(self, state, proposal, value, evaluated=None):
        after = super().tell(state, proposal, value, evaluated)
        return after._replace(best_position=after.position, best_value=after.value)


class Hasty(Climber):
    """Does not look whether a point was evaluated."""

    def tell(self, state, proposal, value, evaluated=None):
        return super().tell(state, proposal, value)


class Scribbler(Climber):
    """Writes into what it was given."""

    def ask(self, state, draw, progress=0.0):
        step = super().ask(state, draw)
        state.velocity[...] = 1.0
        return step


class LongWay(Climber):
    """Forgets that opposite walls may be one."""

    def unrolled(self, state):
        return state


class Late(Climber):
    """Notices only under way that it needs four particles."""

    def ask(self, state, draw, progress=0.0):
        if state.n_particles < 4:
            raise ValueError("too few")
        return super().ask(state, draw)


class Boastful(Climber):
    """Says that it has a law."""

    def step_law(self, state, progress=0.0, rng=None):
        return state.no_law


class Stubborn(Climber):
    """Takes any memory for its own."""

    def begin(self, state):
        return state if state.memory is not None else super().begin(state)


@dataclass
class Soft(ps.Method):
    """May be changed."""

    walls: str = "clip"

    def ask(self, state, draw, progress=0.0):
        return ps.Proposal(state.best_position, state.velocity)


@dataclass(frozen=True)
class Careless(Climber):
    """Accepts any wall."""

    def __post_init__(self):
        pass


@dataclass(frozen=True, repr=False)
class Nameless(Climber):
    """Is shown by its address."""

    __repr__ = object.__repr__


class Unequal(Climber):
    """Is not equal to its copy."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


NOT_REFUSED = pytest.fail.Exception  # of a check that expects an error
CONTROLS = [
    (Homesick, "test_a_shifted_problem_is_solved_by_the_shifted_run", AssertionError),
    (OwnUnit, "test_every_unknown_may_have_its_own_unit", AssertionError),
    (ElsewhereChance, "test_the_same_seed_is_the_same_run_and_another_seed_another", AssertionError),
    (ElsewhereChance, "test_global_random_numbers_play_no_part", AssertionError),
    (ElsewhereChance, "test_a_run_alone_is_the_run_in_a_block", AssertionError),
    (NoChance, "test_the_same_seed_is_the_same_run_and_another_seed_another", AssertionError),
    (Elsewhere, "test_the_first_swarm_is_that_of_every_method", AssertionError),
    (Diary, "test_the_swarm_is_all_that_is_remembered", AssertionError),
    (Diary, "test_ask_and_tell_is_minimize", AssertionError),
    (Runaway, "test_the_box_is_kept_at_every_generation", AssertionError),
    (Homebody, "test_without_walls_the_box_is_left", NOT_REFUSED),
    (LongWay, "test_periodic_walls_have_no_seam", AssertionError),
    (Careless, "test_an_unknown_wall_is_refused", NOT_REFUSED),
    (Gossip, "test_a_run_alone_is_the_run_in_a_batch_that_others_leave_earlier", AssertionError),
    (Gossip, "test_a_run_alone_is_the_run_in_a_block", AssertionError),
    (Gossip, "test_a_run_alone_is_the_run_in_a_batch_with_one_unknown", AssertionError),
    (Accountant, "test_only_the_order_of_values_matters", AssertionError),
    (Fragile, "test_points_that_fail_are_survived", (ValueError, NOT_REFUSED)),
    (Fragile, "test_one_point_that_works_is_enough", ValueError),
    (Forgetful, "test_a_best_never_gets_worse_and_is_what_was_measured", AssertionError),
    (Hasty, "test_whoever_was_not_evaluated_stays_as_he_was", AssertionError),
    (Scribbler, "test_a_step_changes_nothing_that_it_was_given", ValueError),  # it is not let
    (Stubborn, "test_methods_may_take_turns_with_one_swarm", AttributeError),
    (Late, "test_too_few_particles_are_refused_before_the_first_evaluation", ValueError),
    (Boastful, "test_the_law_of_the_next_step_is_there_where_steps_have_one", AttributeError),
    (Unequal, "test_a_copy_from_a_pickle_is_the_same_method", AssertionError),
    (Soft, "test_a_method_cannot_be_changed", NOT_REFUSED),
    (Nameless, "test_a_method_is_shown_as_it_is_written", SyntaxError),
]


@pytest.mark.parametrize(("broken", "check", "error"), CONTROLS)
def test_a_broken_method_is_noticed(broken, check, error):
    test = getattr(MethodContract(), check)
    walls = {"walls": "clip"} if "walls" in inspect.signature(test).parameters else {}
    test(Climber(), **walls)
    with pytest.raises(error):
        test(broken(), **walls)
