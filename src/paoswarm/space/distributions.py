"""The newer distributions of `scipy.stats`, such as ``Normal(mu=0, sigma=1)``, with the names of the older ones."""

from __future__ import annotations

from typing import Any

import numpy as np


class NewStyle:
    """A distribution of `scipy.stats` that has no ``ppf`` but ``icdf``, such as ``Normal()``, with the older names."""

    def __init__(self, law: Any) -> None:
        self.law = law
        self.cdf, self.sf, self.ppf, self.isf = law.cdf, law.ccdf, law.icdf, law.iccdf
        self.logpdf = law.logpdf

    def support(self) -> tuple[float, float]:
        """Lower and upper end."""
        low, high = map(float, self.law.support())
        return low, high

    def __repr__(self) -> str:
        return repr(self.law)


def is_new_style(law: Any) -> bool:
    """Whether it is a distribution like ``scipy.stats.Normal()``."""
    return hasattr(law, "icdf") and hasattr(law, "iccdf") and not isinstance(law, type)


def old_style(name: str, law: Any) -> Any:
    """The same distribution as one of ours, or of SciPy's older ones; raise unless it is one continuous law."""
    from scipy import stats  # not at the top: importing it takes half a second

    kinds = [kind.__name__ for kind in type(law).__mro__]
    if "DiscreteDistribution" in kinds:
        raise ValueError(f"prior {name!r} is discrete; parameters must be continuous")
    if np.ndim(law.median()):
        raise ValueError(f"prior {name!r} must be one proper distribution; {law!r} is an array of them")
    if kinds[0] in ("Normal", "StandardNormal"):  # exact, however far in a tail
        return stats.norm(float(law.mean()), float(law.standard_deviation()))
    low, high = map(float, law.support())
    return stats.uniform(low, high - low) if kinds[0] == "Uniform" else NewStyle(law)
