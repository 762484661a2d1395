"""Engines that run whole generations in compiled code, with the objective inside."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from paoswarm.compiled.engines import Cuda, Jax, Numba

__all__ = ["Cuda", "Jax", "Numba"]


def __getattr__(name: str) -> Any:
    """Import `fast` when it is used, because it needs numba."""
    if name == "fast":
        return import_module("paoswarm.compiled.fast")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
