"""Benchmark studies: settings -> runs on disk -> statistics -> sentences, figures and a report."""

from typing import TYPE_CHECKING

from paoswarm.helpers import on_first_use

if TYPE_CHECKING:
    from paoswarm.study import adapters, figures, presets, statistics
    from paoswarm.study.audit import CentreBias, centre_bias, centre_biases
    from paoswarm.study.folder import publish
    from paoswarm.study.platforms import run_coco, run_ioh
    from paoswarm.study.presets import method_named, read_study
    from paoswarm.study.report import Section
    from paoswarm.study.results import Results, Trace
    from paoswarm.study.sentences import findings, verdict
    from paoswarm.study.study import Study

__all__ = [
    "CentreBias",
    "Results",
    "Section",
    "Study",
    "Trace",
    "adapters",
    "centre_bias",
    "centre_biases",
    "figures",
    "findings",
    "method_named",
    "presets",
    "publish",
    "read_study",
    "run_coco",
    "run_ioh",
    "statistics",
    "verdict",
]

if not TYPE_CHECKING:  # a type checker that saw it would accept any misspelt name
    modules = {
        ".audit": "CentreBias centre_bias centre_biases",
        ".results": "Results Trace",
        ".report": "Section",
        ".study": "Study",
        ".adapters": "adapters",
        ".figures": "figures",
        ".sentences": "findings verdict",
        ".presets": "presets method_named read_study",
        ".folder": "publish",
        ".platforms": "run_coco run_ioh",
        ".statistics": "statistics",
    }
    homes = {name: module for module, names in modules.items() for name in names.split()}
    __getattr__, __dir__ = on_first_use(__name__, homes)
