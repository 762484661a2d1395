"""Engines that run whole generations in compiled code, with the objective inside."""

from paoswarm.compiled.engines import Jax, Numba

__all__ = ["Jax", "Numba"]
