"""Optuna studies that are searched by paoswarm: ``paoswarm.optuna.PAOSampler``.

It needs Optuna (``pip install "paoswarm[optuna]"``), which is imported when the sampler is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paoswarm.optuna.sampler import PAOSampler

__all__ = ["PAOSampler"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import the sampler, and with it Optuna."""
        if name != "PAOSampler":
            raise AttributeError(f"module 'paoswarm.optuna' has no attribute {name!r}")
        from paoswarm.extras import need

        need("optuna", extra="optuna", user="paoswarm.optuna.PAOSampler")
        from paoswarm.optuna.sampler import PAOSampler

        return PAOSampler
