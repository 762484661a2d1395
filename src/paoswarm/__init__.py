"""Calibrate slow, failing simulators: a global optimiser that survives crashes, resumes exactly, and gives posteriors.

The optimiser is Particle Attractor Optimisation. Every particle is a damped spring, pulled by attractors and shaken by
noise. Its motion is a linear stochastic differential equation, which is solved exactly.

Everything public is imported from here, as ``paoswarm.NAME``. The API page of the documentation describes each name.
The modules inside the package may move from one version to the next.
"""

import importlib
from typing import TYPE_CHECKING, Any

from paoswarm import compiled, plot, problems
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
from paoswarm.evaluation.constraints import Constraint, Returned
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.failures import Failure
from paoswarm.evaluation.ray import RayExecutor
from paoswarm.explore.launch import Explorer, explore
from paoswarm.fits.fit_uncertainty import FitUncertainty
from paoswarm.fits.uncertainty import uncertainty
from paoswarm.optimize.history import History
from paoswarm.optimize.many import minimize_many
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.minimize import minimize
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import Result
from paoswarm.optimize.search_table import SearchTable
from paoswarm.optimize.stopping import Status
from paoswarm.resume import resume
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.sample import sample
from paoswarm.sampling.verdict import Remark
from paoswarm.sampling.weighted_draws import WeightedDraws
from paoswarm.spaces.choices import Choice
from paoswarm.spaces.variables import Integer, Periodic, Real
from paoswarm.storage.log import DamagedStore, StoreError, StoreInUse
from paoswarm.storage.same_run import OtherRun
from paoswarm.storage.store import Store
from paoswarm.storage.watch import Progress
from paoswarm.study import adapters
from paoswarm.study.audit import CentreBias, centre_bias
from paoswarm.study.results import Results, Trace
from paoswarm.study.study import Study

if TYPE_CHECKING:
    from paoswarm.study import figures, presets, statistics
    from paoswarm.study.config import read_study
    from paoswarm.study.findings import findings
    from paoswarm.study.publish import publish

__version__ = "0.1.0"

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
    "plot",
    "presets",
    "problems",
    "publish",
    "read_study",
    "resume",
    "sample",
    "schedules",
    "statistics",
    "transition",
    "uncertainty",
]

# Imported on first use. The statistics need scipy.stats, which would make ``import paoswarm`` half as long again.
_ON_FIRST_USE = {
    "figures": "paoswarm.study.figures",
    "findings": "paoswarm.study.findings:findings",
    "presets": "paoswarm.study.presets",
    "publish": "paoswarm.study.publish:publish",
    "read_study": "paoswarm.study.config:read_study",
    "statistics": "paoswarm.study.statistics",
}

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import a public name that is not needed by most programs."""
        if name not in _ON_FIRST_USE:
            raise AttributeError(f"module 'paoswarm' has no attribute {name!r}")
        module, _, attribute = _ON_FIRST_USE[name].partition(":")
        found = importlib.import_module(module)
        globals()[name] = getattr(found, attribute) if attribute else found
        return globals()[name]


def __dir__() -> list[str]:
    """The public names, for tab completion."""
    return [*__all__, "__version__"]
