"""Errors and warnings that a program may want to catch; all others are Python's own."""

from paoswarm.evaluate.engines import EngineDown
from paoswarm.methods.method import HyperparameterWarning
from paoswarm.store.identity import OtherRun
from paoswarm.store.log import DamagedStore, StoreError, StoreInUse

__all__ = ["DamagedStore", "EngineDown", "HyperparameterWarning", "OtherRun", "StoreError", "StoreInUse"]
