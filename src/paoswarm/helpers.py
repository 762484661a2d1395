"""For packages that build on paoswarm, as its study, explorer and command line do: what they share with it."""

from typing import TYPE_CHECKING

from paoswarm._extras import ProgressBar, cores, need, on_first_use

if TYPE_CHECKING:
    from paoswarm._checks import choices, counted, flag, number_between, of_kind, positive_number, texts, whole_number
    from paoswarm._text import describe_error, plain, printable, text_of
    from paoswarm.evaluate.comparison import recorded_comparison
    from paoswarm.evaluate.program_output import read_table
    from paoswarm.methods import behaviour
    from paoswarm.space.space import Fixed
    from paoswarm.space.variables import Variable
    from paoswarm.store.encoding import describe
    from paoswarm.store.watch import GrowingStore, is_running

__all__ = [
    "Fixed",
    "GrowingStore",
    "ProgressBar",
    "Variable",
    "behaviour",
    "choices",
    "cores",
    "counted",
    "describe",
    "describe_error",
    "flag",
    "is_running",
    "need",
    "number_between",
    "of_kind",
    "on_first_use",
    "plain",
    "positive_number",
    "printable",
    "read_table",
    "recorded_comparison",
    "text_of",
    "texts",
    "whole_number",
]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    checks = ("choices", "counted", "flag", "number_between", "of_kind", "positive_number", "texts", "whole_number")
    homes = dict.fromkeys(checks, "paoswarm._checks")
    homes |= dict.fromkeys(("describe_error", "plain", "printable", "text_of"), "paoswarm._text")
    homes |= {"behaviour": "paoswarm.methods.behaviour", "describe": "paoswarm.store.encoding"}
    homes |= {"GrowingStore": "paoswarm.store.watch", "is_running": "paoswarm.store.watch"}
    homes |= {"read_table": "paoswarm.evaluate.program_output"}
    homes |= {"recorded_comparison": "paoswarm.evaluate.comparison"}
    homes |= {"Fixed": "paoswarm.space.space", "Variable": "paoswarm.space.variables"}
    __getattr__, __dir__ = on_first_use(__name__, homes)
