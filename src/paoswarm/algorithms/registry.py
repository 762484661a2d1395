"""The methods by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from paoswarm.algorithms.de import DE
from paoswarm.algorithms.method import Method
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.pso import PSO
from paoswarm.algorithms.qpso import QPSO
from paoswarm.algorithms.random_search import RandomSearch
from paoswarm.algorithms.sade import SADE

METHODS: dict[str, type[Method]] = {method.__name__: method for method in (PAO, PSO, QPSO, DE, SADE, RandomSearch)}


def method_named(name: str) -> Method:
    """Return the method of this name with its default hyperparameters.

    Examples
    --------
    >>> method_named("DE")
    DE(factor=0.5, crossover=0.9, strategy='rand/1', walls='clip')
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; {choices(name, METHODS)}")
    return METHODS[name]()


def choices(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the closest known name, and all of them.

    Examples
    --------
    >>> choices("psO", METHODS)
    'did you mean PSO? Choose from PAO, PSO, QPSO, DE, SADE, RandomSearch'
    """
    by_lower_case = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"did you mean {by_lower_case[close[0]]}? Choose" if close else "choose"
    return f"{hint} from {', '.join(by_lower_case.values())}"
