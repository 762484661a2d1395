"""Calibrate slow, failing simulators: a global optimiser that survives crashes, resumes exactly, and gives posteriors.

The optimiser is Particle Attractor Optimisation. Every particle is a damped spring, pulled by attractors and shaken by
noise. Its motion is a linear stochastic differential equation, which is solved exactly.

Everything public is imported from here, as ``paoswarm.NAME``. The API page of the documentation describes each name.
The modules inside the package may move from one version to the next.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paoswarm import compiled, optuna, plot, problems, sklearn
    from paoswarm.algorithms import schedules
    from paoswarm.algorithms.adaptive_pao import AdaptivePAO
    from paoswarm.algorithms.agreement import Agreement, Search
    from paoswarm.algorithms.de import DE
    from paoswarm.algorithms.dense_pao import DensePAO
    from paoswarm.algorithms.element_pao import ElementPAO
    from paoswarm.algorithms.hyperparameters import HyperparameterWarning
    from paoswarm.algorithms.method import Method
    from paoswarm.algorithms.mixed_pao import MixedPAO
    from paoswarm.algorithms.pao import PAO
    from paoswarm.algorithms.pso import PSO
    from paoswarm.algorithms.qpso import QPSO
    from paoswarm.algorithms.random_search import RandomSearch
    from paoswarm.algorithms.restarts import Portfolio, Restarts
    from paoswarm.algorithms.sade import SADE
    from paoswarm.core import attractors, noise
    from paoswarm.core.density import StepLaw
    from paoswarm.core.dynamics import Transition, transition
    from paoswarm.core.next_step import NextStep
    from paoswarm.core.order import Repeats
    from paoswarm.core.swarm import Proposal, Swarm
    from paoswarm.core.walled import WalledNormal
    from paoswarm.evaluation.command import Command
    from paoswarm.evaluation.constraints import Constraint, Returned
    from paoswarm.evaluation.engines import EngineDown
    from paoswarm.evaluation.failures import Failure
    from paoswarm.evaluation.ray import RayExecutor
    from paoswarm.explorer.launch import Explorer, explore
    from paoswarm.fits.fit_uncertainty import FitUncertainty
    from paoswarm.fits.uncertainty import uncertainty
    from paoswarm.optimize.history import History
    from paoswarm.optimize.many import minimize_many
    from paoswarm.optimize.many_result import ManyResult
    from paoswarm.optimize.minimize import minimize
    from paoswarm.optimize.optimizer import Optimizer
    from paoswarm.optimize.result import Result
    from paoswarm.optimize.scipy_method import scipy_method
    from paoswarm.optimize.search_table import SearchTable
    from paoswarm.optimize.stopping import Status
    from paoswarm.resume_run import resume
    from paoswarm.sampling.posterior import Posterior
    from paoswarm.sampling.sample import sample
    from paoswarm.sampling.verdict import Remark
    from paoswarm.sampling.weighted_draws import WeightedDraws
    from paoswarm.spaces.choices import Choice
    from paoswarm.spaces.space_file import read_space
    from paoswarm.spaces.variables import Integer, Periodic, Real
    from paoswarm.storage.log import DamagedStore, StoreError, StoreInUse
    from paoswarm.storage.same_run import OtherRun
    from paoswarm.storage.store import Store
    from paoswarm.storage.watch import Progress
    from paoswarm.study import adapters, figures, presets, statistics
    from paoswarm.study.audit import CentreBias, centre_bias
    from paoswarm.study.coco import run_coco
    from paoswarm.study.config import read_study
    from paoswarm.study.findings import findings
    from paoswarm.study.ioh import run_ioh
    from paoswarm.study.publish import publish
    from paoswarm.study.results import Results, Trace
    from paoswarm.study.study import Study

__version__: str  # that of the installed package, whose only source is pyproject.toml

__all__ = [
    "DE",
    "PAO",
    "PSO",
    "QPSO",
    "SADE",
    "AdaptivePAO",
    "Agreement",
    "CentreBias",
    "Choice",
    "Command",
    "Constraint",
    "DamagedStore",
    "DensePAO",
    "ElementPAO",
    "EngineDown",
    "Explorer",
    "Failure",
    "FitUncertainty",
    "History",
    "HyperparameterWarning",
    "Integer",
    "ManyResult",
    "Method",
    "MixedPAO",
    "NextStep",
    "Optimizer",
    "OtherRun",
    "Periodic",
    "Portfolio",
    "Posterior",
    "Progress",
    "Proposal",
    "RandomSearch",
    "RayExecutor",
    "Real",
    "Remark",
    "Repeats",
    "Restarts",
    "Result",
    "Results",
    "Returned",
    "Search",
    "SearchTable",
    "Status",
    "StepLaw",
    "Store",
    "StoreError",
    "StoreInUse",
    "Study",
    "Swarm",
    "Trace",
    "Transition",
    "WalledNormal",
    "WeightedDraws",
    "adapters",
    "attractors",
    "centre_bias",
    "compiled",
    "explore",
    "figures",
    "findings",
    "minimize",
    "minimize_many",
    "noise",
    "optuna",
    "plot",
    "presets",
    "problems",
    "publish",
    "read_space",
    "read_study",
    "resume",
    "run_coco",
    "run_ioh",
    "sample",
    "schedules",
    "scipy_method",
    "sklearn",
    "statistics",
    "transition",
    "uncertainty",
]

# Everything is imported on first use: a program needs a few of these names, and all of them take half a second.
_ON_FIRST_USE = {
    "DE": "paoswarm.algorithms.de:DE",
    "PAO": "paoswarm.algorithms.pao:PAO",
    "PSO": "paoswarm.algorithms.pso:PSO",
    "QPSO": "paoswarm.algorithms.qpso:QPSO",
    "SADE": "paoswarm.algorithms.sade:SADE",
    "AdaptivePAO": "paoswarm.algorithms.adaptive_pao:AdaptivePAO",
    "Agreement": "paoswarm.algorithms.agreement:Agreement",
    "CentreBias": "paoswarm.study.audit:CentreBias",
    "Choice": "paoswarm.spaces.choices:Choice",
    "Command": "paoswarm.evaluation.command:Command",
    "Constraint": "paoswarm.evaluation.constraints:Constraint",
    "DamagedStore": "paoswarm.storage.log:DamagedStore",
    "DensePAO": "paoswarm.algorithms.dense_pao:DensePAO",
    "ElementPAO": "paoswarm.algorithms.element_pao:ElementPAO",
    "EngineDown": "paoswarm.evaluation.engines:EngineDown",
    "Explorer": "paoswarm.explorer.launch:Explorer",
    "Failure": "paoswarm.evaluation.failures:Failure",
    "FitUncertainty": "paoswarm.fits.fit_uncertainty:FitUncertainty",
    "History": "paoswarm.optimize.history:History",
    "HyperparameterWarning": "paoswarm.algorithms.hyperparameters:HyperparameterWarning",
    "Integer": "paoswarm.spaces.variables:Integer",
    "ManyResult": "paoswarm.optimize.many_result:ManyResult",
    "Method": "paoswarm.algorithms.method:Method",
    "MixedPAO": "paoswarm.algorithms.mixed_pao:MixedPAO",
    "NextStep": "paoswarm.core.next_step:NextStep",
    "Optimizer": "paoswarm.optimize.optimizer:Optimizer",
    "OtherRun": "paoswarm.storage.same_run:OtherRun",
    "Periodic": "paoswarm.spaces.variables:Periodic",
    "Portfolio": "paoswarm.algorithms.restarts:Portfolio",
    "Posterior": "paoswarm.sampling.posterior:Posterior",
    "Progress": "paoswarm.storage.watch:Progress",
    "Proposal": "paoswarm.core.swarm:Proposal",
    "RandomSearch": "paoswarm.algorithms.random_search:RandomSearch",
    "RayExecutor": "paoswarm.evaluation.ray:RayExecutor",
    "Real": "paoswarm.spaces.variables:Real",
    "Remark": "paoswarm.sampling.verdict:Remark",
    "Repeats": "paoswarm.core.order:Repeats",
    "Restarts": "paoswarm.algorithms.restarts:Restarts",
    "Result": "paoswarm.optimize.result:Result",
    "Results": "paoswarm.study.results:Results",
    "Returned": "paoswarm.evaluation.constraints:Returned",
    "Search": "paoswarm.algorithms.agreement:Search",
    "SearchTable": "paoswarm.optimize.search_table:SearchTable",
    "Status": "paoswarm.optimize.stopping:Status",
    "StepLaw": "paoswarm.core.density:StepLaw",
    "Store": "paoswarm.storage.store:Store",
    "StoreError": "paoswarm.storage.log:StoreError",
    "StoreInUse": "paoswarm.storage.log:StoreInUse",
    "Study": "paoswarm.study.study:Study",
    "Swarm": "paoswarm.core.swarm:Swarm",
    "Trace": "paoswarm.study.results:Trace",
    "Transition": "paoswarm.core.dynamics:Transition",
    "WalledNormal": "paoswarm.core.walled:WalledNormal",
    "WeightedDraws": "paoswarm.sampling.weighted_draws:WeightedDraws",
    "adapters": "paoswarm.study.adapters",
    "attractors": "paoswarm.core.attractors",
    "centre_bias": "paoswarm.study.audit:centre_bias",
    "compiled": "paoswarm.compiled",
    "explore": "paoswarm.explorer.launch:explore",
    "figures": "paoswarm.study.figures",
    "findings": "paoswarm.study.findings:findings",
    "minimize": "paoswarm.optimize.minimize:minimize",
    "minimize_many": "paoswarm.optimize.many:minimize_many",
    "noise": "paoswarm.core.noise",
    "optuna": "paoswarm.optuna",
    "plot": "paoswarm.plot",
    "presets": "paoswarm.study.presets",
    "problems": "paoswarm.problems",
    "publish": "paoswarm.study.publish:publish",
    "read_space": "paoswarm.spaces.space_file:read_space",
    "read_study": "paoswarm.study.config:read_study",
    "resume": "paoswarm.resume_run:resume",
    "run_coco": "paoswarm.study.coco:run_coco",
    "run_ioh": "paoswarm.study.ioh:run_ioh",
    "sample": "paoswarm.sampling.sample:sample",
    "schedules": "paoswarm.algorithms.schedules",
    "scipy_method": "paoswarm.optimize.scipy_method:scipy_method",
    "sklearn": "paoswarm.sklearn",
    "statistics": "paoswarm.study.statistics",
    "transition": "paoswarm.core.dynamics:transition",
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
