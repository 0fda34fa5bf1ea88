"""Run a command; faults become one line on stderr: `error: ...`, exit 1, or exit 2 for a wrong option."""

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, NoReturn

import typer

from hyperplace import __version__
from hyperplace.allocator import keep_memory
from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.processor import take_turns

from .average import average
from .bench import bench
from .check import check
from .compare import compare
from .explain import explain
from .export import export
from .generate import generate
from .launch import launch
from .models import models
from .partition import partition
from .probe import probe
from .profile import profile
from .replan import replan
from .report import report
from .simulate import simulate
from .terminal import INTERRUPTED
from .train import train

app = typer.Typer(
    name="hyperplace",
    help="Decide which filters of a PyTorch CNN live on which device, and prove what that costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Interrupted(Exception):
    """Ctrl-C, under a name that typer lets through: of a KeyboardInterrupt it exits without a word."""


def _speaking(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run(*args: Any, **words: Any) -> None:
        try:
            command(*args, **words)
        except KeyboardInterrupt:
            raise _Interrupted from None

    return run


for _command in (
    partition,
    profile,
    generate,
    check,
    train,
    average,
    bench,
    export,
    compare,
    models,
    probe,
    replan,
    explain,
    report,
):
    app.command(_command.__name__)(_speaking(_command))
app.command("simulate", context_settings={"allow_extra_args": True})(_speaking(simulate))
app.command("launch", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(_speaking(launch))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"hyperplace {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    """Decide which filters of a PyTorch CNN live on which device, and prove what that costs."""


def main() -> None:
    """Run the command line of this process and exit."""
    # Typer handles --debug only before the command; a fault may also happen before it is handled at all.
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    atexit.register(_flush_stdout)
    keep_memory()
    take_turns()
    try:
        app()
        code: Any = 0
    except SystemExit as exit:  # typer's way to end, after whatever
        code = exit.code
    except HyperplaceError as fault:
        if debug:
            traceback.print_exc()
        print(f"error: {fault}", file=sys.stderr)
        code = 2 if isinstance(fault, UsageError) else 1
    except (KeyboardInterrupt, _Interrupted):
        print("interrupted; what was not finished is not written", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as fault:  # whatever the steps read or write has become a FileError: this is stdout
        _give_up_stdout(fault)
    _leave(code)


def _leave(code: Any) -> NoReturn:
    """Exit; at once where a part's thread is left in a long operation: the interpreter's own end would abort in it."""
    if any(thread.name.startswith("hyperplace part") for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code)


def _flush_stdout() -> None:
    """Write what is left: at Python's own end a full disk would be a traceback."""
    try:
        sys.stdout.flush()
    except OSError as fault:
        _give_up_stdout(fault)


def _give_up_stdout(fault: OSError) -> NoReturn:
    print(f"error: cannot write to stdout: {(fault.strerror or str(fault)).lower()}", file=sys.stderr, flush=True)
    os._exit(1)
