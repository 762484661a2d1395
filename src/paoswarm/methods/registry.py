"""The methods by name."""

from __future__ import annotations

from paoswarm._checks import choices
from paoswarm.methods.adaptive_pao import AdaptivePAO, MixedPAO
from paoswarm.methods.classic_swarms import PSO, QPSO, RandomSearch
from paoswarm.methods.dense_pao import DensePAO
from paoswarm.methods.differential_evolution import DE, SADE
from paoswarm.methods.element_pao import ElementPAO
from paoswarm.methods.method import Method
from paoswarm.methods.pao import PAO

_ALL: tuple[type[Method], ...] = (PAO, PSO, QPSO, DE, SADE, RandomSearch, AdaptivePAO, DensePAO, ElementPAO, MixedPAO)
METHODS: dict[str, type[Method]] = {method.__name__: method for method in _ALL}


def method_named(name: str) -> Method:
    """Return the method of this name, in upper or lower case, with its default hyperparameters.

    Examples
    --------
    >>> method_named("DE")
    DE(factor=0.5, crossover=0.9, strategy='rand/1', walls='clip')
    """
    by_lower_case = {known.lower(): method for known, method in METHODS.items()}
    if name.lower() not in by_lower_case:
        raise ValueError(f"unknown method {name!r}; {choices(name, METHODS)}")
    return by_lower_case[name.lower()]()
