"""Engines that run whole generations in compiled code, with the objective inside."""

from typing import TYPE_CHECKING

from paoswarm._extras import on_first_use

if TYPE_CHECKING:
    from paoswarm.engines import fast
    from paoswarm.engines.engines import Cuda, Jax, Numba

__all__ = ["Cuda", "Jax", "Numba", "fast"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    homes = {"Cuda": ".engines", "Jax": ".engines", "Numba": ".engines", "fast": ".fast"}  # the last one needs numba
    __getattr__, __dir__ = on_first_use(__name__, homes)
