"""For packages that build on paoswarm, as its study, explorer and command line do: what they share with it."""

from paoswarm._checks import choices, counted, flag, number_between, positive_number, whole_number
from paoswarm._extras import ProgressBar, cores, need, on_first_use
from paoswarm._text import describe_error, plain, text_of
from paoswarm.storage.encoding import describe

__all__ = [
    "ProgressBar",
    "choices",
    "cores",
    "counted",
    "describe",
    "describe_error",
    "flag",
    "need",
    "number_between",
    "on_first_use",
    "plain",
    "positive_number",
    "text_of",
    "whole_number",
]
