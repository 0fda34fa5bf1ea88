"""plan.json: a plan as a file that can be kept, compared, edited by hand and used again.

A file is data from anywhere: a plan that is read is what follows from its own owners, or it is refused by name.
"""

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.files.records import parse_record, record_text
from hyperplace.values.derived import differences
from hyperplace.values.faults import first_of
from hyperplace.values.plan import Plan

# 2: the shapes of inputs; 3: rows of owners and messages, replicas; 4: what all that follows from; 5: passes of work
VERSION = 5


def plan_text(plan: Plan) -> str:
    """Return the plan as JSON."""
    return record_text(plan, "plan", VERSION)


def parse_plan(text: str, name: str) -> Plan:
    """Return the plan a text holds; a bad, old or hand-broken one gives a FileError that says where."""
    plan = parse_draft(text, name)
    if faults := _named(plan, name):
        raise FileError(
            f"{name}: not what follows from its owners: {first_of(faults)}; make it again, or run hyperplace check "
            f"{name} --fix"
        )
    return plan


def parse_draft(text: str, name: str) -> Plan:
    """Return the plan a text holds, of which only owners, shards and facts have been looked at."""
    return parse_record(text, name, Plan, "plan", VERSION)


def _named(plan: Plan, name: str) -> list[str]:
    try:
        return differences(plan)
    except HyperplaceError as fault:
        raise FileError(f"{name}: {fault}; make it again") from None
