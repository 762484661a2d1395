"""The laws of a step: how far a particle gets, and where the swarm goes next."""

from paoswarm.core.density import StepLaw
from paoswarm.core.dynamics import Transition, transition
from paoswarm.core.next_step import NextStep
from paoswarm.core.walled import WalledNormal

__all__ = ["NextStep", "StepLaw", "Transition", "WalledNormal", "transition"]
