"""Calibrate slow, failing simulators: a global optimiser that survives crashes, resumes exactly, and gives posteriors.

The optimiser is Particle Attractor Optimisation. Every particle is a damped spring, pulled by attractors and shaken by
noise. Its motion is a linear stochastic differential equation, which is solved exactly.

Everything public is reached from here, as ``paoswarm.NAME`` or in a namespace such as ``paoswarm.results``. The API
page of the documentation describes each name. Other modules may move from one version to the next.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paoswarm import classic, engines, errors, laws, optuna, plot, problems, results, sklearn, study
    from paoswarm.core import attractors, noise
    from paoswarm.core.swarm import Proposal, Swarm
    from paoswarm.evaluate.call_options import Workers
    from paoswarm.evaluate.command import Command
    from paoswarm.evaluate.constraints import Constraint, Returned
    from paoswarm.evaluate.executors import RayExecutor
    from paoswarm.explorer.server import explore
    from paoswarm.fitting.fit import fit
    from paoswarm.fitting.uncertainty import uncertainty
    from paoswarm.least_squares import likelihoods
    from paoswarm.least_squares.loss import Scaled
    from paoswarm.methods import schedules
    from paoswarm.methods.adaptive_pao import AdaptivePAO, MixedPAO
    from paoswarm.methods.dense_pao import DensePAO
    from paoswarm.methods.element_pao import ElementPAO
    from paoswarm.methods.method import Method
    from paoswarm.methods.pao import PAO
    from paoswarm.methods.searches import Portfolio, Restarts
    from paoswarm.resume_run import resume
    from paoswarm.run.minimize import minimize, minimize_many, scipy_method
    from paoswarm.run.optimizer import Optimizer
    from paoswarm.sampling.sample import sample
    from paoswarm.space.space_file import read_space
    from paoswarm.space.variables import Choice, Integer, Periodic, Real
    from paoswarm.store.store import Store

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
    "Proposal",
    "RayExecutor",
    "Real",
    "Restarts",
    "Returned",
    "Scaled",
    "Store",
    "Swarm",
    "Workers",
    "attractors",
    "classic",
    "engines",
    "errors",
    "explore",
    "fit",
    "laws",
    "likelihoods",
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
    "PAO": "paoswarm.methods.pao:PAO",
    "AdaptivePAO": "paoswarm.methods.adaptive_pao:AdaptivePAO",
    "Choice": "paoswarm.space.variables:Choice",
    "Command": "paoswarm.evaluate.command:Command",
    "Constraint": "paoswarm.evaluate.constraints:Constraint",
    "DensePAO": "paoswarm.methods.dense_pao:DensePAO",
    "ElementPAO": "paoswarm.methods.element_pao:ElementPAO",
    "Integer": "paoswarm.space.variables:Integer",
    "Method": "paoswarm.methods.method:Method",
    "MixedPAO": "paoswarm.methods.adaptive_pao:MixedPAO",
    "Optimizer": "paoswarm.run.optimizer:Optimizer",
    "Periodic": "paoswarm.space.variables:Periodic",
    "Portfolio": "paoswarm.methods.searches:Portfolio",
    "Proposal": "paoswarm.core.swarm:Proposal",
    "RayExecutor": "paoswarm.evaluate.executors:RayExecutor",
    "Real": "paoswarm.space.variables:Real",
    "Restarts": "paoswarm.methods.searches:Restarts",
    "Returned": "paoswarm.evaluate.constraints:Returned",
    "Scaled": "paoswarm.least_squares.loss:Scaled",
    "Store": "paoswarm.store.store:Store",
    "Swarm": "paoswarm.core.swarm:Swarm",
    "Workers": "paoswarm.evaluate.call_options:Workers",
    "attractors": "paoswarm.core.attractors",
    "classic": "paoswarm.classic",
    "engines": "paoswarm.engines",
    "errors": "paoswarm.errors",
    "explore": "paoswarm.explorer.server:explore",
    "fit": "paoswarm.fitting.fit:fit",
    "laws": "paoswarm.laws",
    "likelihoods": "paoswarm.least_squares.likelihoods",
    "minimize": "paoswarm.run.minimize:minimize",
    "minimize_many": "paoswarm.run.minimize:minimize_many",
    "noise": "paoswarm.core.noise",
    "optuna": "paoswarm.optuna",
    "plot": "paoswarm.plot",
    "problems": "paoswarm.problems",
    "read_space": "paoswarm.space.space_file:read_space",
    "results": "paoswarm.results",
    "resume": "paoswarm.resume_run:resume",
    "sample": "paoswarm.sampling.sample:sample",
    "schedules": "paoswarm.methods.schedules",
    "scipy_method": "paoswarm.run.minimize:scipy_method",
    "sklearn": "paoswarm.sklearn",
    "study": "paoswarm.study",
    "uncertainty": "paoswarm.fitting.uncertainty:uncertainty",
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
