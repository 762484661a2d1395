"""Engines that run whole generations in compiled code, with the objective inside."""

from paoswarm.compiled.engines import Numba

__all__ = ["Numba"]
