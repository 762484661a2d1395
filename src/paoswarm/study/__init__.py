"""Benchmark studies: settings -> runs on disk -> statistics -> sentences, figures and a report."""

from typing import TYPE_CHECKING

from paoswarm._extras import on_first_use

if TYPE_CHECKING:
    from paoswarm.study import adapters, figures, presets, statistics
    from paoswarm.study.audit import CentreBias, centre_bias
    from paoswarm.study.coco import run_coco
    from paoswarm.study.config import read_study
    from paoswarm.study.folder import publish
    from paoswarm.study.ioh import run_ioh
    from paoswarm.study.results import Results, Trace
    from paoswarm.study.sentences import findings
    from paoswarm.study.study import Study

__all__ = [
    "CentreBias",
    "Results",
    "Study",
    "Trace",
    "adapters",
    "centre_bias",
    "figures",
    "findings",
    "presets",
    "publish",
    "read_study",
    "run_coco",
    "run_ioh",
    "statistics",
]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "CentreBias": ".audit",
            "centre_bias": ".audit",
            "run_coco": ".coco",
            "run_ioh": ".ioh",
            "read_study": ".config",
            "publish": ".folder",
            "findings": ".sentences",
            "Results": ".results",
            "Trace": ".results",
            "Study": ".study",
            "adapters": ".adapters",
            "figures": ".figures",
            "presets": ".presets",
            "statistics": ".statistics",
        },
    )
