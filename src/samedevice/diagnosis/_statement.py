"""What the printed statement alone tells of how its operands are kept."""

from __future__ import annotations

import ast

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Pattern, Report
from samedevice.diagnosis.story import Reading
from samedevice.messages import Phrase
from samedevice.provenance.syntax import parsed, parts_of


def put_back(report: Report) -> Reading | None:
    """An object keeps a selection of what it keeps, or that with more behind it: the state of a step."""
    code = report.at.code if report.at is not None else ""
    tree = parsed(code) if len(code) <= _LONGEST else None
    match tree:
        case ast.Module(body=[ast.Assign(targets=[target], value=value)]):
            base = target.value if isinstance(target, ast.Subscript) else target
            calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
            own = ast.unparse(base)
            read = own in parts_of(value)
            names = {each.func.attr for each in calls if isinstance(each.func, ast.Attribute)}
            kept = own.startswith("self.") and (read or target is not base)
            if kept and names & _SELECTS_OR_JOINS:
                reason = Phrase("because.line", text=ast.unparse(target))
                others = ("tensor-created-on-wrong-device", "extra-input-on-wrong-device")
                return Reading(
                    "cache-or-beam-state-on-wrong-device", (reason,), others, guilty=own, sure=False
                )
    return None


def read_directly(report: Report) -> Reading | None:
    """A weight on the host is read past its layer, so that no hook brings it."""
    code = report.at.marked or report.at.code if report.at is not None else ""
    found = _WEIGHT_OF_A_PART.search(code)
    on_host = device_pattern(report.devices) == "host" or report.devices == ("cpu",)
    if found is None or not on_host or _MOVED.search(code):
        return None
    reason = Phrase("because.line", text=found[0])
    return Reading(
        "offload-hook-bypassed", (reason,), ("module-left-on-other-device",), guilty=found[0], sure=False
    )


def is_carried(code: str, name: str) -> bool:
    """Whether a statement hands over what it also gets back, as a state is carried from step to step."""
    match parsed(code):
        case ast.Module(body=[ast.Assign(targets=targets)]):
            parts = (part for target in targets for part in ast.walk(target))
            return any(isinstance(part, ast.Name) and part.id == name for part in parts)
    return False


_LONGEST = 400
"""Characters of a line that is taken apart."""
_SELECTS_OR_JOINS = frozenset("index_select gather take_along_dim cat concat concatenate".split())
_WEIGHT_OF_A_PART = Pattern(r"\bself(?:\.\w{1,60}){1,5}\.weight\b(?!\.(?:device|dtype|shape|size|requires))")
_MOVED = Pattern(r"\.weight\.(?:to|cuda)\(")
