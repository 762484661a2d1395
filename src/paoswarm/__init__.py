"""Black-box optimisation with an exactly solved particle swarm.

Particle Attractor Optimisation: every particle is a damped spring, pulled by attractors and shaken by noise, a linear
stochastic differential equation that is solved exactly. This page is the whole public API.
"""

from paoswarm import plot, problems
from paoswarm.algorithms import schedules
from paoswarm.algorithms.behaviour import HyperparameterWarning
from paoswarm.algorithms.de import DE
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.pso import PSO
from paoswarm.algorithms.qpso import QPSO
from paoswarm.algorithms.random_search import RandomSearch
from paoswarm.algorithms.sade import SADE
from paoswarm.core import attractors, noise
from paoswarm.core.density import StepLaw
from paoswarm.core.dynamics import Transition, transition
from paoswarm.core.optimum_law import OptimumLaw
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.ray import RayExecutor
from paoswarm.optimize.many import ManyResult, minimize_many
from paoswarm.optimize.minimize import minimize
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import History, Result
from paoswarm.optimize.stopping import Status
from paoswarm.resume import resume
from paoswarm.sampling.distributions import Periodic
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.sample import sample
from paoswarm.storage.store import Store
from paoswarm.study.audit import centre_bias
from paoswarm.study.study import Study

__version__ = "0.1.0"

__all__ = [
    "DE",
    "PAO",
    "PSO",
    "QPSO",
    "SADE",
    "EngineDown",
    "History",
    "HyperparameterWarning",
    "ManyResult",
    "Method",
    "Optimizer",
    "OptimumLaw",
    "Periodic",
    "Posterior",
    "Proposal",
    "RandomSearch",
    "RayExecutor",
    "Result",
    "Status",
    "StepLaw",
    "Store",
    "Study",
    "Swarm",
    "Transition",
    "attractors",
    "centre_bias",
    "minimize",
    "minimize_many",
    "noise",
    "plot",
    "problems",
    "resume",
    "sample",
    "schedules",
    "transition",
]
