"""Engines that run whole generations in compiled code, with the objective inside."""

from paoswarm.compiled.engines import Cuda, Jax, Numba

__all__ = ["Cuda", "Jax", "Numba"]
