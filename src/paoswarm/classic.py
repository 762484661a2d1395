"""Other methods, to compare with: particle swarms, differential evolution, and random points."""

from paoswarm.methods.de import DE
from paoswarm.methods.pso import PSO
from paoswarm.methods.qpso import QPSO
from paoswarm.methods.random_search import RandomSearch
from paoswarm.methods.sade import SADE

__all__ = ["DE", "PSO", "QPSO", "SADE", "RandomSearch"]
