"""Turn a plan into a Python program that runs it: Graph + Plan -> str.

The text depends on nothing but the graph and the plan; writing it to a file is somebody else's line.
"""

from hyperplace.errors import UsageError
from hyperplace.steps.generate.check import check
from hyperplace.steps.generate.lower import lower
from hyperplace.steps.generate.module import module_text
from hyperplace.steps.generate.names import Names
from hyperplace.steps.generate.steps import PartSteps
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan


def generate(graph: Graph, plan: Plan) -> str:
    """Return the program of a plan; the graph is that of the model the plan was made for."""
    check(graph, plan)
    names = Names()
    parts = lower(graph, plan, names)
    _check_messages(parts)
    return module_text(graph, plan, parts, names)


def _check_messages(parts: list[PartSteps]) -> None:
    for part in parts:
        read = {variable for step in part.steps for variable in step.reads}
        for variable, message in part.received.items():
            if variable not in read:
                raise UsageError(
                    f"the plan sends {message.name} from part {message.source} to part {message.target}, where nothing "
                    "reads it; make the plan again"
                )
