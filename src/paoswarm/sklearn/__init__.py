"""Hyperparameters of scikit-learn's estimators: ``paoswarm.sklearn.PAOSearchCV``.

It needs scikit-learn (``pip install "paoswarm[sklearn]"``), which is imported when the class is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paoswarm.helpers import on_first_use

if TYPE_CHECKING:
    from paoswarm.sklearn.search_cv import PAOSearchCV

__all__ = ["PAOSearchCV"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    __getattr__, __dir__ = on_first_use(__name__, {"PAOSearchCV": ".search_cv"}, needs="sklearn")
