"""Run the command line in this process: its exit code, stdout and stderr."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hyperplace.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")

    def run_command(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["hyperplace", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code: object = 0
        except SystemExit as exit:
            code = exit.code
        captured = capsys.readouterr()
        return Ran(int(code or 0), captured.out, captured.err)  # type: ignore[call-overload]

    return run_command
