"""What runs return and what results hold; `Result` and `Posterior` are in `paoswarm` itself."""

from paoswarm.algorithms.agreement import Agreement, Search
from paoswarm.core.order import Repeats
from paoswarm.evaluation.failures import Failure
from paoswarm.fits.fit_uncertainty import FitUncertainty
from paoswarm.optimize.history import History
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.search_table import SearchTable
from paoswarm.optimize.stopping import Status
from paoswarm.sampling.posterior import Remark, WeightedDraws
from paoswarm.storage.watch import Progress

__all__ = [
    "Agreement",
    "Failure",
    "FitUncertainty",
    "History",
    "ManyResult",
    "Progress",
    "Remark",
    "Repeats",
    "Search",
    "SearchTable",
    "Status",
    "WeightedDraws",
]
