"""The command line: parse, call, print; and what each ending means as an exit code.

A command is a file of this folder that defines `Command`, a frozen dataclass: its fields are the options, its docstring
the help, and `run()` does the work and returns the exit code. Nothing else is needed for `truestep <file's name>`; files
whose name begins with an underscore are not commands. `run()` imports what is slow to import.

    0     done
    1     done, and something that was asked to fail has failed
    2     a command that cannot be: wrong words on the line, or a UsageError
    3     could not run: any other TruestepError, a file, a disk, a fault of truestep
    130   Ctrl-C
    141   the reader of our output has gone
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib.metadata import version
from typing import IO, Annotated, Any, Protocol, Union, cast

import tyro

from truestep.cli._output import Talk, open_standard_streams, silence
from truestep.errors import TruestepError, UsageError

DONE, USAGE, COULD_NOT_RUN, INTERRUPTED, NO_READER = 0, 2, 3, 130, 141

_DESCRIPTION = """Perform, check, record and compare mixed-precision training updates.

`truestep COMMAND --help` says more; `truestep --version` says which this is."""


class Runnable(Protocol):
    """A parsed command."""

    def run(self) -> int:
        """Does the work; returns the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; `argv` is without the program's name, None means the process's."""
    open_standard_streams()
    with redirect_stderr(cast("IO[str]", Talk(sys.stderr))):  # what is said ends no work, whoever has stopped listening
        code = _ended(list(sys.argv[1:] if argv is None else argv))
        sys.stderr.flush()
    return code


def commands() -> dict[str, type[Runnable]]:
    """Each command by its name, in alphabetical order."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__) if not each.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").Command for name in names}


def _ended(arguments: list[str]) -> int:
    """What the exit code is, whatever happens."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except TruestepError as error:  # a user's mistake, or a broken surrounding
        _explain(error)
        return USAGE if isinstance(error, UsageError) else COULD_NOT_RUN
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # head, say, has read enough
        _end_output()
        return NO_READER
    except OSError as error:  # stdout on a full disk, as a rule
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        _end_output()
        return COULD_NOT_RUN
    except Exception:  # whatever is left is our own mistake, and its lines are what a report of it needs
        traceback.print_exc()
        print("This is a fault of truestep itself; the lines above say where.", file=sys.stderr)
        return COULD_NOT_RUN
    return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        print(f"truestep {version('truestep')}")
        return DONE
    try:
        command: Runnable = tyro.cli(
            _any_command(),
            prog="truestep",
            description=_DESCRIPTION,
            args=_separated(arguments) or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except SystemExit as ending:  # tyro has printed help or its error
        return int(ending.code or DONE)
    return command.run()


def _separated(arguments: list[str]) -> list[str]:
    """The words, parted by `--` where a command hands some of them on: it says so by its `separated`."""
    command = commands().get(arguments[0]) if arguments else None
    return [*arguments[:1], *getattr(command, "separated", list)(arguments[1:])]


def _any_command() -> Any:
    """The union of all commands, as tyro takes it; the hidden None keeps it a union where there is one command."""
    options: list[Any] = [
        Annotated[command, tyro.conf.subcommand(name=name, prefix_name=False)] for name, command in commands().items()
    ]
    return Union[(*options, Annotated[None, tyro.conf.Suppress])]  # the members are known at run time only


def _explain(error: TruestepError) -> None:
    """Prints an error with its facts and its hint, and what caused it, where the error does not say that itself."""
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    cause = error.__cause__
    words = cause.summary if isinstance(cause, TruestepError) else str(cause)
    if cause is not None and words not in error.summary:
        print(f"caused by {type(cause).__name__}: {cause}", file=sys.stderr)


def _end_output() -> None:
    """Writes what is still buffered, or gives it to nobody where that fails, so that the interpreter's exit is quiet."""
    try:
        sys.stdout.flush()
    except OSError:  # the disk is still full, or the reader still gone
        silence(sys.stdout)
