"""plan.json: a plan as a file that can be kept, compared, edited by hand and used again."""

from hyperplace.files.records import parse_record, record_text
from hyperplace.values.plan import Plan

VERSION = 3  # 2: the shapes of the inputs; 3: rows of owners and messages, replicas


def plan_text(plan: Plan) -> str:
    """Return the plan as JSON."""
    return record_text(plan, "plan", VERSION)


def parse_plan(text: str, name: str) -> Plan:
    """Return the plan a text holds; a bad, old or hand-broken one gives a FileError that says where."""
    return parse_record(text, name, Plan, "plan", VERSION)
