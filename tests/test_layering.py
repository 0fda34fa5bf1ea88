"""Data flows one way: who may import whom, read from the source."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STEPS = sorted(p.name for p in (ROOT / "hyperplace/steps").iterdir() if p.is_dir() and p.name != "__pycache__")
MAY_IMPORT = {
    "hyperplace/values": ("hyperplace.errors", "hyperplace.values"),
    "hyperplace/files": ("hyperplace.errors", "hyperplace.values", "hyperplace.files"),
    "hyperplace/data": ("hyperplace.errors", "hyperplace.values", "hyperplace.files", "hyperplace.data"),
    "hyperplace/report": ("hyperplace.errors", "hyperplace.values", "hyperplace.report"),
    **{
        f"hyperplace/steps/{step}": (
            "hyperplace.allocator",
            "hyperplace.errors",
            "hyperplace.machine_code",
            "hyperplace.values",
            f"hyperplace.steps.{step}",
        )
        for step in STEPS
    },
    # A generated file makes its own schedule.
    "hyperplace/runtime": (
        "hyperplace.allocator",
        "hyperplace.errors",
        "hyperplace.files",
        "hyperplace.processor",
        "hyperplace.runtime",
        "hyperplace.steps.schedule",
        "hyperplace.values",
    ),
    "hyperplace/__main__.py": ("hyperplace.cli",),
    "hyperplace/allocator.py": (),
    "hyperplace/processor.py": (),
    "hyperplace/machine_code.py": ("hyperplace.files.cache",),
    "hyperplace/search": (
        "hyperplace.errors",
        "hyperplace.machine_code",
        "hyperplace.values",
        "hyperplace.steps",
        "hyperplace.search",
    ),
    "hyperplace/planning.py": (
        "hyperplace.errors",
        "hyperplace.files",
        "hyperplace.search",
        "hyperplace.steps",
        "hyperplace.values",
    ),
    "hyperplace/comparing.py": (
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.search",
        "hyperplace.steps",
        "hyperplace.values",
    ),
    "hyperplace/recapturing.py": (
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.steps.lower",
        "hyperplace.values",
    ),
    "hyperplace/compiling.py": (
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.recapturing",
        "hyperplace.runtime",
        "hyperplace.steps",
        "hyperplace.values",
    ),
    "hyperplace/by_time": (
        "hyperplace.by_time",
        "hyperplace.compiling",
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.runtime",
        "hyperplace.search",
        "hyperplace.steps",
        "hyperplace.values",
    ),
    # Within it: what is judged, and who proposes, knows nothing of the search.
    "hyperplace/by_time/fitting.py": ("hyperplace.values",),
    "hyperplace/by_time/remedies.py": ("hyperplace.by_time.timing", "hyperplace.values"),
    "hyperplace/by_time/timing.py": (
        "hyperplace.compiling",
        "hyperplace.errors",
        "hyperplace.by_time.fitting",
        "hyperplace.runtime",
        "hyperplace.steps",
        "hyperplace.values",
    ),
    "hyperplace/by_time/bound.py": ("hyperplace.steps", "hyperplace.by_time.timing", "hyperplace.values"),
    "hyperplace/by_time/stages.py": ("hyperplace.values",),
    "hyperplace/by_time/swaps.py": ("hyperplace.values",),
    "hyperplace/by_time/owners.py": ("hyperplace.steps", "hyperplace.values"),
    "hyperplace/by_time/moves.py": ("hyperplace.planning", "hyperplace.steps", "hyperplace.values"),
    "hyperplace/by_time/candidates.py": (
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.search",
        "hyperplace.by_time.stages",
        "hyperplace.values",
    ),
    "hyperplace/by_time/search.py": (
        "hyperplace.errors",
        "hyperplace.planning",
        "hyperplace.by_time.remedies",
        "hyperplace.search",
        "hyperplace.steps",
        "hyperplace.by_time.candidates",
        "hyperplace.by_time.moves",
        "hyperplace.by_time.owners",
        "hyperplace.by_time.swaps",
        "hyperplace.by_time.timing",
        "hyperplace.values",
    ),
    "hyperplace/explaining.py": ("hyperplace.errors", "hyperplace.by_time.timing", "hyperplace.values"),
    "hyperplace/replanning.py": ("hyperplace.errors", "hyperplace.steps.lower", "hyperplace.values"),
    "hyperplace/placing.py": (
        "hyperplace.planning",
        "hyperplace.search",
        "hyperplace.by_time.search",
        "hyperplace.by_time.timing",
        "hyperplace.values",
    ),
    "hyperplace/api.py": (
        "hyperplace.allocator",
        "hyperplace.comparing",
        "hyperplace.compiling",
        "hyperplace.explaining",
        "hyperplace.files",
        "hyperplace.placing",
        "hyperplace.planning",
        "hyperplace.processor",
        "hyperplace.replanning",
        "hyperplace.search",
        "hyperplace.steps.build",
        "hyperplace.steps.emit",
        "hyperplace.steps.schedule",
        "hyperplace.steps.simulate",
        "hyperplace.by_time.bound",
        "hyperplace.by_time.search",
        "hyperplace.by_time.timing",
        "hyperplace.values",
    ),
    "hyperplace/training": (
        "hyperplace.api",
        "hyperplace.data",
        "hyperplace.errors",
        "hyperplace.runtime",
        "hyperplace.training",
        "hyperplace.values",
    ),
    "hyperplace/bench": (
        "hyperplace.allocator",
        "hyperplace.api",
        "hyperplace.bench",
        "hyperplace.data",
        "hyperplace.errors",
        "hyperplace.files",  # what is handed over to other processes
        "hyperplace.models",  # which they make for themselves
        "hyperplace.processor",
        "hyperplace.runtime",
        "hyperplace.training",
        "hyperplace.values",
    ),
    "models": ("hyperplace.errors", "hyperplace.models"),
    "cli": (
        "hyperplace.__version__",
        "hyperplace.allocator",
        "hyperplace.api",
        "hyperplace.bench",
        "hyperplace.errors",
        "hyperplace.files",
        "hyperplace.models",
        "hyperplace.processor",
        "hyperplace.report",
        "hyperplace.training",
        "hyperplace.values",
    ),
}
FOREIGN = {"kahypar": "hyperplace/steps/partition", "mtkahypar": "hyperplace/steps/partition"}


def imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "hyperplace":
            names += [f"hyperplace.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return names


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_or_file_imports_only_what_lies_below_it(folder: str) -> None:
    allowed, place = MAY_IMPORT[folder], ROOT / folder
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in ([place] if place.is_file() else place.rglob("*.py"))
        for name in imported(path)
        if name.split(".")[0] == "hyperplace" and not any(f"{name}.".startswith(f"{a}.") for a in allowed)
    ]
    assert not wrong


@pytest.mark.parametrize("package", FOREIGN)
def test_one_folder_talks_to_each_foreign_partitioner(package: str) -> None:
    files = [path for folder in ("hyperplace", "cli", "models") for path in (ROOT / folder).rglob("*.py")]
    talkers = {str(path.parent.relative_to(ROOT)) for path in files if package in imported(path)}
    assert talkers == {FOREIGN[package]}


def test_everything_is_checked() -> None:
    """All folders and files of the library, but for those that import nothing, or the composer when asked."""
    there = {f"hyperplace/{p.name}" for p in (ROOT / "hyperplace").iterdir() if p.suffix == ".py" or p.is_dir()}
    free = {"hyperplace/__init__.py", "hyperplace/errors.py", "hyperplace/__pycache__", "hyperplace/steps"}
    assert there - free <= set(MAY_IMPORT)
    assert all((ROOT / folder).exists() for folder in MAY_IMPORT)


def test_there_are_steps_to_check() -> None:
    assert STEPS == [
        "build",
        "capture",
        "emit",
        "lower",
        "partition",
        "place",
        "profile",
        "schedule",
        "simulate",
        "symmetric",
    ]
