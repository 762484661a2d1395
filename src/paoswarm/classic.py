"""Other methods, to compare with: particle swarms, differential evolution, and random points."""

from paoswarm.algorithms.de import DE
from paoswarm.algorithms.pso import PSO
from paoswarm.algorithms.qpso import QPSO
from paoswarm.algorithms.random_search import RandomSearch
from paoswarm.algorithms.sade import SADE

__all__ = ["DE", "PSO", "QPSO", "SADE", "RandomSearch"]
