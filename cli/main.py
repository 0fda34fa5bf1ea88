"""Run a command; faults become one line on stderr: `error: ...`, exit 1, or exit 2 for a wrong option."""

import atexit
import os
import sys
import traceback

import typer

from hyperplace import __version__
from hyperplace.errors import HyperplaceError, UsageError

from .bench import bench
from .check import check
from .compare import compare
from .export import export
from .generate import generate
from .models import models
from .partition import partition
from .profile import profile
from .train import train

app = typer.Typer(
    name="hyperplace",
    help="Decide which filters of a PyTorch CNN live on which device, and prove what that costs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("partition")(partition)
app.command("profile")(profile)
app.command("generate")(generate)
app.command("check")(check)
app.command("train")(train)
app.command("bench")(bench)
app.command("export")(export)
app.command("compare")(compare)
app.command("models")(models)


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
    try:
        app()
    except HyperplaceError as fault:
        if debug:
            traceback.print_exc()
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(2 if isinstance(fault, UsageError) else 1)
    except KeyboardInterrupt:
        print("error: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as fault:  # whatever the steps read or write has become a FileError: this is stdout
        _give_up_stdout(fault)


def _flush_stdout() -> None:
    """Write what is left: at Python's own end a full disk would be a traceback."""
    try:
        sys.stdout.flush()
    except OSError as fault:
        _give_up_stdout(fault)


def _give_up_stdout(fault: OSError) -> None:
    print(f"error: cannot write to stdout: {(fault.strerror or str(fault)).lower()}", file=sys.stderr, flush=True)
    os._exit(1)
