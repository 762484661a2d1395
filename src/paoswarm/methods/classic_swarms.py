"""Comparators from the original publications: two particle swarms, and random search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from paoswarm.core.arrays import namespace
from paoswarm.core.attractors import RandomSource, average_local_best
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import schedules
from paoswarm.methods.method import Method, check_hyperparameter, check_walls
from paoswarm.methods.schedules import Hyperparameter


@dataclass(frozen=True)
class PSO(Method):
    r"""Particle swarm optimisation.

    .. math::
        v \leftarrow w\,v + c_1 r_1 (p - x) + c_2 r_2 (g - x), \qquad x \leftarrow x + v

    Here :math:`r_1, r_2` are uniform on [0, 1) and independent for every element, :math:`p` is the particle's own best,
    and :math:`g` is the global best. Particles start at rest.

    Parameters
    ----------
    inertia : float or function of progress
        :math:`w`.
    local, social : float or function of progress
        :math:`c_1, c_2`, the accelerations towards the particle's own best and towards the global best.
    walls : str
        See `PAO`.

    Notes
    -----
    The defaults are the constriction coefficients of Clerc and Kennedy (2002). `paper` has the values of Champneys and
    Rogers' study: inertia that falls from 0.9 to 0.1, and unusually small accelerations of 0.1.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 3, method=ps.classic.PSO(), rng=1).fun < 1e-6
    True
    """

    applies_walls: ClassVar[bool] = True
    moves_singly: ClassVar[bool] = True
    takes_batches = True

    inertia: Hyperparameter = 0.7298
    local: Hyperparameter = 1.49618
    social: Hyperparameter = 1.49618
    walls: str = "clip"

    def __post_init__(self) -> None:
        check_hyperparameter("inertia", self.inertia, 0.0, math.inf)
        check_hyperparameter("local", self.local, 0.0, math.inf)
        check_hyperparameter("social", self.social, 0.0, math.inf)
        check_walls(self.walls)

    @classmethod
    def paper(cls) -> PSO:
        """Return PSO with the hyperparameters of Champneys and Rogers' study."""
        return cls(inertia=schedules.linear(0.9, 0.1), local=0.1, social=0.1)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one step of every particle."""
        near = self.unrolled(state)
        w, c1, c2 = (schedules.evaluate(p, progress, None) for p in (self.inertia, self.local, self.social))
        chance = draw.uniform(2, *near.position.shape[-2:])
        velocity = w * near.velocity
        velocity += c1 * chance[..., 0, :, :] * (near.best_position - near.position)
        velocity += c2 * chance[..., 1, :, :] * (near.global_best - near.position)
        return Proposal(*near.wall(self.wall).apply(near.position + velocity, velocity, near.lower, near.upper))


@dataclass(frozen=True)
class QPSO(Method):
    r"""Quantum-behaved particle swarm optimisation.

    .. math::
        x \leftarrow a \pm \beta\,|\bar p - x| \ln(1/u), \qquad a = \frac{\phi_1 p + \phi_2 g}{\phi_1 + \phi_2}

    Here :math:`\phi_1, \phi_2, u` and the sign are drawn independently for every element. :math:`p` is the particle's
    own best, and :math:`g` is the global best. :math:`\bar p` is the mean of the particles' bests with a finite value.
    There is no velocity.

    Parameters
    ----------
    contraction : float or function of progress
        :math:`\beta`. Particles converge below 1.78. By default it falls from 1.0 to 0.5, as published. (In the
        released code of Champneys and Rogers' study it grows instead.)
    walls : str
        See `PAO`.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 3, method=ps.classic.QPSO(), rng=1).fun < 1e-9
    True
    """

    applies_walls: ClassVar[bool] = True
    moves_singly: ClassVar[bool] = True
    takes_batches = True

    contraction: Hyperparameter = field(default_factory=lambda: schedules.linear(1.0, 0.5))
    walls: str = "clip"

    def __post_init__(self) -> None:
        check_hyperparameter("contraction", self.contraction, 0.0, math.inf)
        check_walls(self.walls)

    @classmethod
    def paper(cls) -> QPSO:
        """Return QPSO with the hyperparameters of Champneys and Rogers' study, which are the published ones."""
        return cls()

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one jump of every particle."""
        near = self.unrolled(state)
        xp = namespace(near.position)
        beta = schedules.evaluate(self.contraction, progress, None)
        chance = 1.0 - draw.uniform(4, *near.position.shape[-2:])  # on (0, 1], to avoid 0/0 and log(0)
        phi1, phi2, u, side = (chance[..., i, :, :] for i in range(4))
        centre = (phi1 * near.best_position + phi2 * near.global_best) / (phi1 + phi2)
        reach = beta * xp.abs(average_local_best(near) - near.position) * -xp.log(u)
        position = xp.where(side > 0.5, centre + reach, centre - reach)
        return Proposal(*near.wall(self.wall).apply(position, near.velocity, near.lower, near.upper))


@dataclass(frozen=True)
class RandomSearch(Method):
    """Random search: points drawn uniformly from the box.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, method=ps.classic.RandomSearch(), rng=1).fun < 0.1
    True
    """

    applies_walls: ClassVar[bool] = True
    moves_singly: ClassVar[bool] = True
    takes_batches = True

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose new points."""
        share = draw.uniform(*state.position.shape[-2:])
        return Proposal(state.lower + share * (state.upper - state.lower), state.velocity)
