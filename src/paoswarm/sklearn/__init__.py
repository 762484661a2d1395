"""Hyperparameters of scikit-learn's estimators: ``paoswarm.sklearn.PAOSearchCV``.

It needs scikit-learn (``pip install "paoswarm[sklearn]"``), which is imported when the class is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paoswarm.sklearn.search_cv import PAOSearchCV

__all__ = ["PAOSearchCV"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import the class, and with it scikit-learn."""
        if name != "PAOSearchCV":
            raise AttributeError(f"module 'paoswarm.sklearn' has no attribute {name!r}")
        from paoswarm.extras import need

        need("sklearn", extra="sklearn", user="paoswarm.sklearn.PAOSearchCV")
        from paoswarm.sklearn.search_cv import PAOSearchCV

        return PAOSearchCV
