"""The commands by name, and what happens to their errors and interrupts.

A command NAME has a module with ``fill_NAME(parser)``, which adds its arguments, and ``run_NAME(options)``, which
returns its exit code or None for 0. The module is imported when it is asked for, and imports what is large in
``run_NAME``: help is shown at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

WITHOUT_SUCCESS, MISTAKE, INTERRUPTED = 1, 2, 130  # exit codes
COMMANDS = {
    "fit": "fit the outputs of a function or program to data, with errors of the unknowns",
    "minimize": "find the minimum of a function or of a program's output",
    "sample": "draw from a posterior and compute the evidence",
    "resume": "continue a stored run",
    "watch": "show the progress of a stored run",
    "explore": "open a local web page: what hyperparameters do, and stored runs while they go on",
    "study": "run a benchmark study and write its report",
    "audit": "test whether methods profit from an optimum at the centre of the box",
    "info": "show versions, extras, and what can evaluate points here",
}
_MODULES = dict.fromkeys(("minimize", "sample", "fit", "resume"), "runs") | {"explore": "watch", "audit": "study"}
_EPILOG = """exit codes:
  0    success
  1    a run ended without success: a limit was reached, no point was feasible, or a value is doubtful
  2    a mistake that you can fix; one line on stderr says how
  130  interrupted (Ctrl-C, SIGTERM, or SIGHUP); a run with --store can be resumed

paoswarm COMMAND --help shows the options of a command, with examples.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Errors that a user can fix are one line on stderr."""
    given = [_protected(argument) for argument in (sys.argv[1:] if arguments is None else arguments)]
    options = argparse.Namespace(kept="")
    try:
        options = _parser(given).parse_args(given)
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(str(message))
            with _output_aside() if getattr(options, "json", None) == "-" else nullcontext():
                code: int | None = options.run(options)
            if options.answer:
                print(options.answer)
            return code or 0
    except BrokenPipeError:  # the program that reads the output has ended
        return WITHOUT_SUCCESS
    except (RuntimeError, ImportError, OSError, ValueError, TypeError) as error:
        if isinstance(error, RuntimeError) and not type(error).__module__.startswith("paoswarm."):
            raise  # not one of ours, whose text says what to do
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        _say(str(reason))
        return MISTAKE
    except KeyboardInterrupt as interrupt:
        print(f"\npaoswarm: {str(interrupt) or 'interrupted'}{options.kept}", file=sys.stderr)
        return INTERRUPTED


def _say(text: str) -> None:
    """Print a message on stderr; names that stand in a file cannot control the terminal."""
    from paoswarm.helpers import printable  # not before: it takes longer than to show help

    print(f"paoswarm: {printable(text)}", file=sys.stderr)


@contextmanager
def _output_aside() -> Iterator[None]:
    """Send what functions, modules and workers print to stderr, so that stdout holds the result alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _protected(argument: str) -> str:
    """The argument; bounds such as -5,5 with a space before them, or they would be taken for an option."""
    return f" {argument}" if re.match(r"-\.?\d[^,]*,", argument) else argument


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the command that is given knows its arguments."""
    parser = _Parser(
        prog="paoswarm",
        description="Fit simulators to data, find minima and posteriors, and look at runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"paoswarm {version('paoswarm')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    wanted = next((argument for argument in given if not argument.startswith("-")), None)
    for name, what in COMMANDS.items():
        command = commands.add_parser(
            name, help=what, description=f"{what[0].upper()}{what[1:]}.", formatter_class=_Formatter
        )
        command.set_defaults(kept="", answer="")
        if name == wanted:
            module = import_module(f"paoswarm.cli.{_MODULES.get(name, name)}")
            command.set_defaults(run=getattr(module, f"run_{name}"))
            getattr(module, f"fill_{name}")(command)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all errors are; the usage would hide them."""

    def error(self, message: str) -> NoReturn:
        self.exit(MISTAKE, f"paoswarm: {message}; see {self.prog} --help\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as they are written, and room for the names of options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
