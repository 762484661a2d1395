"""Optuna studies that are searched by paoswarm: ``paoswarm.optuna.PAOSampler``.

It needs Optuna (``pip install "paoswarm[optuna]"``), which is imported when the sampler is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paoswarm.helpers import on_first_use

if TYPE_CHECKING:
    from paoswarm.optuna.sampler import PAOSampler

__all__ = ["PAOSampler"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    __getattr__, __dir__ = on_first_use(__name__, {"PAOSampler": ".sampler"}, needs="optuna")
