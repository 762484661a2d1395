"""The verdict on a posterior: remarks of three kinds, of which only one means that the numbers may be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

DOUBTFUL = "doubtful value"
FEWER = "fewer draws"
SHAPE = "shape"


class Remark(NamedTuple):
    """Something to know about a posterior.

    Attributes
    ----------
    kind : str
        - ``"doubtful value"``: evidence or moments may be wrong by more than the stated error.
        - ``"fewer draws"``: the result is right, but has fewer effective draws than asked for.
        - ``"shape"``: the result is right, but the posterior has a shape to look at.
    text : str
        What was seen, and what to do.
    """

    kind: str
    text: str


def is_success(remarks: Sequence[Remark]) -> bool:
    """Whether no remark says that a value may be wrong."""
    return all(remark.kind != DOUBTFUL for remark in remarks)


def message(remarks: Sequence[Remark], unseen: float | None) -> str:
    """All remarks, doubtful values first, and how small a mode may have been missed (a share of the prior)."""
    ordered = [remark.text for kind in (DOUBTFUL, FEWER, SHAPE) for remark in remarks if remark.kind == kind]
    parts = [text if text.endswith(".") else f"{text}." for text in ordered]
    if is_success(remarks):
        parts += [] if parts else ["No problem found."]
        if unseen is not None:
            parts.append(f"Modes that cover less than {100 * unseen:.2g} % of the prior cannot be ruled out.")
    return " ".join(parts)
