"""Calibrate slow, failing simulators: a global optimiser that survives crashes, resumes exactly, and gives posteriors.

The optimiser is Particle Attractor Optimisation. Every particle is a damped spring, pulled by attractors and shaken by
noise. Its motion is a linear stochastic differential equation, which is solved exactly.

Everything public is reached from here, as ``paoswarm.NAME`` or in a namespace such as ``paoswarm.results``. The API
page of the documentation describes each name. Other modules may move from one version to the next.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paoswarm import classic, compiled, errors, laws, optuna, plot, problems, results, sklearn, study
    from paoswarm.algorithms import schedules
    from paoswarm.algorithms.adaptive_pao import AdaptivePAO
    from paoswarm.algorithms.dense_pao import DensePAO
    from paoswarm.algorithms.element_pao import ElementPAO
    from paoswarm.algorithms.method import Method
    from paoswarm.algorithms.mixed_pao import MixedPAO
    from paoswarm.algorithms.pao import PAO
    from paoswarm.algorithms.restarts import Portfolio, Restarts
    from paoswarm.core import attractors, noise
    from paoswarm.core.swarm import Proposal, Swarm
    from paoswarm.evaluation.call_options import Workers
    from paoswarm.evaluation.command import Command
    from paoswarm.evaluation.constraints import Constraint, Returned
    from paoswarm.evaluation.ray import RayExecutor
    from paoswarm.explorer.server import explore
    from paoswarm.fits.uncertainty import uncertainty
    from paoswarm.optimize.minimize import minimize, minimize_many
    from paoswarm.optimize.optimizer import Optimizer
    from paoswarm.optimize.result import Result
    from paoswarm.optimize.scipy_method import scipy_method
    from paoswarm.resume_run import resume
    from paoswarm.sampling.posterior import Posterior
    from paoswarm.sampling.sample import sample
    from paoswarm.spaces.space_file import read_space
    from paoswarm.spaces.variables import Choice, Integer, Periodic, Real
    from paoswarm.storage.store import Store

__version__: str  # that of the installed package, whose only source is pyproject.toml

__all__ = [
    "PAO",
    "AdaptivePAO",
    "Choice",
    "Command",
    "Constraint",
    "DensePAO",
    "ElementPAO",
    "Integer",
    "Method",
    "MixedPAO",
    "Optimizer",
    "Periodic",
    "Portfolio",
    "Posterior",
    "Proposal",
    "RayExecutor",
    "Real",
    "Restarts",
    "Result",
    "Returned",
    "Store",
    "Swarm",
    "Workers",
    "attractors",
    "classic",
    "compiled",
    "errors",
    "explore",
    "laws",
    "minimize",
    "minimize_many",
    "noise",
    "optuna",
    "plot",
    "problems",
    "read_space",
    "results",
    "resume",
    "sample",
    "schedules",
    "scipy_method",
    "sklearn",
    "study",
    "uncertainty",
]

# Everything is imported on first use: a program needs a few of these names, and all of them take half a second.
_ON_FIRST_USE = {
    "PAO": "paoswarm.algorithms.pao:PAO",
    "AdaptivePAO": "paoswarm.algorithms.adaptive_pao:AdaptivePAO",
    "Choice": "paoswarm.spaces.variables:Choice",
    "Command": "paoswarm.evaluation.command:Command",
    "Constraint": "paoswarm.evaluation.constraints:Constraint",
    "DensePAO": "paoswarm.algorithms.dense_pao:DensePAO",
    "ElementPAO": "paoswarm.algorithms.element_pao:ElementPAO",
    "Integer": "paoswarm.spaces.variables:Integer",
    "Method": "paoswarm.algorithms.method:Method",
    "MixedPAO": "paoswarm.algorithms.mixed_pao:MixedPAO",
    "Optimizer": "paoswarm.optimize.optimizer:Optimizer",
    "Periodic": "paoswarm.spaces.variables:Periodic",
    "Portfolio": "paoswarm.algorithms.restarts:Portfolio",
    "Posterior": "paoswarm.sampling.posterior:Posterior",
    "Proposal": "paoswarm.core.swarm:Proposal",
    "RayExecutor": "paoswarm.evaluation.ray:RayExecutor",
    "Real": "paoswarm.spaces.variables:Real",
    "Restarts": "paoswarm.algorithms.restarts:Restarts",
    "Result": "paoswarm.optimize.result:Result",
    "Returned": "paoswarm.evaluation.constraints:Returned",
    "Store": "paoswarm.storage.store:Store",
    "Swarm": "paoswarm.core.swarm:Swarm",
    "Workers": "paoswarm.evaluation.call_options:Workers",
    "attractors": "paoswarm.core.attractors",
    "classic": "paoswarm.classic",
    "compiled": "paoswarm.compiled",
    "errors": "paoswarm.errors",
    "explore": "paoswarm.explorer.server:explore",
    "laws": "paoswarm.laws",
    "minimize": "paoswarm.optimize.minimize:minimize",
    "minimize_many": "paoswarm.optimize.minimize:minimize_many",
    "noise": "paoswarm.core.noise",
    "optuna": "paoswarm.optuna",
    "plot": "paoswarm.plot",
    "problems": "paoswarm.problems",
    "read_space": "paoswarm.spaces.space_file:read_space",
    "results": "paoswarm.results",
    "resume": "paoswarm.resume_run:resume",
    "sample": "paoswarm.sampling.sample:sample",
    "schedules": "paoswarm.algorithms.schedules",
    "scipy_method": "paoswarm.optimize.scipy_method:scipy_method",
    "sklearn": "paoswarm.sklearn",
    "study": "paoswarm.study",
    "uncertainty": "paoswarm.fits.uncertainty:uncertainty",
}

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a public name."""
        if name == "__version__":
            globals()[name] = importlib.import_module("importlib.metadata").version("paoswarm")
            return globals()[name]
        if name not in _ON_FIRST_USE:
            raise AttributeError(f"module 'paoswarm' has no attribute {name!r}")
        module, _, attribute = _ON_FIRST_USE[name].partition(":")
        found = importlib.import_module(module)
        globals()[name] = getattr(found, attribute) if attribute else found
        return globals()[name]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return [*__all__, "__version__"]
