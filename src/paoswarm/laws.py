"""The laws of a step: how far a particle gets, and where the swarm goes next."""

from paoswarm.core.dynamics import Transition, transition
from paoswarm.core.laws import NextStep, StepLaw
from paoswarm.core.walls import WalledNormal

__all__ = ["NextStep", "StepLaw", "Transition", "WalledNormal", "transition"]
