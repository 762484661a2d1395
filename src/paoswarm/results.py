"""What runs return, and what results hold."""

from paoswarm.core.order import Repeats
from paoswarm.evaluate.failures import Failure
from paoswarm.fitting.fit_profile import FitProfile, ProfileCurve
from paoswarm.fitting.fit_result import Fit
from paoswarm.fitting.fit_uncertainty import FitUncertainty
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.run.many_result import ManyResult
from paoswarm.run.observers import History
from paoswarm.run.result import Result, SearchTable
from paoswarm.run.stopping import Status
from paoswarm.sampling.posterior import Posterior, Remark
from paoswarm.sampling.weighted_draws import WeightedDraws
from paoswarm.store.watch import Progress

__all__ = [
    "Agreement",
    "Failure",
    "Fit",
    "FitProfile",
    "FitUncertainty",
    "History",
    "ManyResult",
    "Posterior",
    "ProfileCurve",
    "Progress",
    "Remark",
    "Repeats",
    "Result",
    "Search",
    "SearchTable",
    "Status",
    "WeightedDraws",
]
