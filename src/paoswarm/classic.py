"""Other methods, to compare with: particle swarms, differential evolution, and random points."""

from paoswarm.methods.classic_swarms import PSO, QPSO, RandomSearch
from paoswarm.methods.differential_evolution import DE, SADE

__all__ = ["DE", "PSO", "QPSO", "SADE", "RandomSearch"]
