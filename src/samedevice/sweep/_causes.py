"""What is one finding: statements that fail for the same decision.

A statement is a line of a file. Statements have one root cause where the same operand is in the wrong place
by the same kind of decision: the labels that a caller gave, a tensor made by the same expression, a parameter
of the same name that is read outside its module.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from samedevice.events import Decision, Event, Operand, Place

if TYPE_CHECKING:
    from samedevice.diagnosis import Verdict
    from samedevice.findings import Finding
    from samedevice.messages import Phrase

_CUT_BLOCK = "block-split-across-devices"
"""The cause of which one line repairs a whole file: the list of blocks that stay whole."""


_MOVED = "dispatched-model-moved"
"""The cause of all that a model fails at whose hooks still send inputs to where its weights were."""
_LEFT = "module-left-on-other-device"
"""The cause of weights that nothing brings; on the host they are those of a part that is offloaded."""
_LABELS = "loss-or-label-on-other-device"
"""The cause of heads that compute their own loss, by whatever name they take the labels."""


def statement_of(event: Event) -> str:
    """The failing line as `path/below/the/library.py:line`."""
    return f"{library_path(event.at.file)}:{event.at.line}"


def mark_of(statement: str, root: str) -> str:
    """One statement that fails for one decision: a line that all models share fails for many."""
    return f"{statement} | {root}"


def statement_in(mark: str) -> str:
    """The statement of a mark."""
    return mark.partition(" | ")[0]


def library_path(file: str) -> str:
    """A path without the folder in which libraries are installed."""
    parts = Path(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    return file


def root_of(event: Event, verdict: Verdict | Finding[Phrase]) -> str:
    """A key that is equal for statements that fail for the same decision."""
    if verdict.cause == _CUT_BLOCK:
        return f"block cut in {library_path(_of_block(event).file)}"
    if _is_in_cut_block(event):
        return f"block cut in {library_path(_of_block(event).file)}"
    if verdict.cause == _LABELS:
        return "labels of the caller meet a loss on another GPU"
    if verdict.cause == _MOVED:
        return "a model that a map had spread was moved"
    operand = _odd(event, verdict)
    if verdict.cause == _LEFT and operand is not None and operand.device == "cpu" and operand.role:
        return f"weights in host memory that {library_path(_called(event).file)} reads"
    if any(each.device == "meta" for each in event.operands):
        return "made on the meta device, where offloaded weights are"
    if any(_is_of_part(event, each) for each in event.operands):
        return "what a part of a pipeline computed stays on the GPU of that part"
    if operand is None:
        return f"statement {_plain(_code(event.at))}"
    if operand.argument or operand.from_argument:
        name = operand.from_argument or operand.argument
        made = next((step for step in operand.lineage if step.kind == "created"), None)
        if made is None or made.at is None or made.name is None:
            return f"argument {name} meets {_role(event, operand)}"
    if operand.role == "parameter":
        return f"parameter {_last(operand.parameter)} in {_plain(_code(event.at))}"
    decision = _decision(operand)
    if decision is not None and decision.at is not None:
        return f"{decision.kind} by {_plain(_code(decision.at))}"
    if operand.made is not None:
        return f"made by {_plain(_code(operand.made))}"
    return f"statement {_plain(_code(event.at))}"


_NUMBERED = re.compile(r"\.\d+(\.|$)")


def _is_in_cut_block(event: Event) -> bool:
    """Whether the map cuts a part of a numbered block, or a part that holds no blocks, and that part fails.

    What fails there besides the first statement, such as its cache, fails for the same decision.
    """
    if event.module is None:
        return False
    inside = [name for name in event.device_map if name.startswith(f"{event.module}.")]
    parts = {event.device_map[name] for name in inside if name.rpartition(".")[0] == event.module}
    holds_blocks = any(_NUMBERED.search(name.removeprefix(event.module)) for name in inside)
    return len(parts) > 1 and (bool(_NUMBERED.search(f".{event.module}")) or not holds_blocks)


def _of_block(event: Event) -> Place:
    """The innermost `forward`: what a block calls outside its file is not what is cut."""
    return next((place for place in reversed(event.stack) if place.function == "forward"), event.at)


_INNER = {"forward", "__call__", "_call_impl", "_wrapped_call_impl", "wrapper"}


def _called(event: Event) -> Place:
    """The innermost function that is no `forward`: what the code around a module called."""
    return next((place for place in reversed(event.stack) if place.function not in _INNER), event.at)


def _is_of_part(event: Event, operand: Operand) -> bool:
    """Whether the code of a pipeline, which is called itself, uses what weights elsewhere computed."""
    first = next(iter(operand.lineage), None)
    if event.module is not None or first is None or first.kind not in ("hook", "placed"):
        return False
    return first.inherited and any(place.function == "__call__" for place in event.stack)


def _odd(event: Event, verdict: Verdict | Finding[Phrase]) -> Operand | None:
    """The operand in the wrong place: the guilty one, or the one that is alone on its device."""
    named = next((each for each in event.operands if each.name == verdict.guilty), None)
    if named is not None:
        return named
    devices = [each.device for each in event.operands]
    alone = [each for each in event.operands if devices.count(each.device) == 1]
    alone.sort(key=_is_of_map)
    on_host = [each for each in alone if each.device == "cpu"]
    return next(iter(on_host or alone), None)


def _is_of_map(operand: Operand) -> bool:
    """Whether a device map put it where it is, by a weight or by a hook."""
    return any(step.kind in ("placed", "hook") for step in operand.lineage)


def _role(event: Event, odd: Operand) -> str:
    """What an argument meets: weights, buffers, or what was computed."""
    others = [each for each in event.operands if each is not odd and each.device != odd.device]
    return "parameters" if any(each.role for each in others) else "results"


def _decision(operand: Operand) -> Decision | None:
    return next((step for step in operand.lineage if not step.inherited), None) or next(
        iter(operand.lineage), None
    )


def _last(name: str | None) -> str:
    return (name or "").rpartition(".")[2]


def _code(place: Place) -> str:
    return place.call or place.code or f"{library_path(place.file)}:{place.line}"


def _plain(code: str) -> str:
    """Code without blanks and numbers of layers, so that copies of a statement are equal."""
    return re.sub(r"\s+", "", code)[:200]
