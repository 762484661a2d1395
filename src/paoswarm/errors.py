"""Errors and warnings that a program may want to catch; all others are Python's own."""

from paoswarm.algorithms.hyperparameters import HyperparameterWarning
from paoswarm.evaluation.engines import EngineDown
from paoswarm.storage.identity import OtherRun
from paoswarm.storage.log import DamagedStore, StoreError, StoreInUse

__all__ = ["DamagedStore", "EngineDown", "HyperparameterWarning", "OtherRun", "StoreError", "StoreInUse"]
