"""From the source of the failing function to a cause.

Which operand its own line put where it is, which one a module keeps, and which one that module was handed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis._sides import KEPT, OF_INPUTS, PAIR, handed_beside_kept, made_on_host, on_host
from samedevice.diagnosis._statement import is_carried
from samedevice.diagnosis.paste import THING, Frame, Pattern, Report
from samedevice.diagnosis.story import Reading
from samedevice.events import Written
from samedevice.messages import Phrase, Several, Value
from samedevice.provenance.syntax import parsed

Source = Callable[[Sequence[Frame], Sequence[str]], tuple[Written, ...]]
"""By the frames of a traceback, oldest first, and texts that show code: the origins of the operands of the
innermost frame's statement. It is handed in, since judging imports no reader.
"""


def origins_of(report: Report, source: Source | None) -> tuple[Written, ...]:
    """The origins of the operands of the failing statement, where its source is at hand."""
    at = report.at
    met = device_pattern(report.devices) or report.kind == "index-device"
    if source is None or at is None or at.file is None or not met:
        return ()
    found = source(report.own_frames or (at,), report.pieces)
    within = any(frame.file is not None and _CONTAINER.search(frame.file) for frame in report.frames)
    return tuple(
        replace(each, position=None) if within else each
        for each in found
        if each.use != "index" or report.kind == "index-device"
    )


_CONTAINER = Pattern(r"torch[/\\]nn[/\\]modules[/\\]container\.py$")
"""What runs modules one after the other: no argument of theirs comes from outside."""


def read_source(report: Report, origins: Sequence[Written]) -> Reading | None:
    """The cause that the origins amount to.

    One operand, and only one, is where its own line put it, while the others come from elsewhere; or two GPUs
    met in what layers computed.
    """
    if report.kind == "index-device" and report.devices and report.devices[0] != "cpu":
        return _of_an_index([each for each in origins if each.use == "index"])
    origins = [each for each in origins if each.use != "index"]
    if _DEFAULT.search(report.words):
        origins = [replace(each, origin="unknown") if each.origin == "made" else each for each in origins]
    decided = [each for each in origins if _decided(each, report)]
    if (summed := _summed(report, origins)) is not None:
        return summed
    if (codes := next((each for each in origins if each.use == "codes"), None)) is not None:
        reason = Phrase("because.written-codes", operand=codes.name, text=codes.text)
        return Reading(_USES["codes"], (reason,), (_LEFT, _MADE), guilty=codes.name, sure=False)
    if not decided or (len(origins) < PAIR and on_host(report, origins) is not decided[0]):
        return _of_layers(report, origins) or _of_sides(report, origins)
    if len({(each.origin, each.device, each.owner) for each in decided}) != 1 or len(decided) == len(origins):
        return None
    return _of_its_line(report, origins, decided[0])


def _of_its_line(report: Report, origins: Sequence[Written], odd: Written) -> Reading:
    """The cause where one operand is where its own line put it."""
    placed = on_host(report, origins)
    sure = placed is odd or (placed is None and (report.argument in _ANY_SIDE or made_on_host(odd, report)))
    values: dict[str, Value] = {"operand": odd.name, "text": odd.text, "place": _place(odd)}
    if odd.origin == "loaded":
        reason = Phrase("because.written-load", **values)
        return Reading(
            "checkpoint-map-location",
            (reason,),
            (_MADE,),
            guilty=odd.name,
            sure=device_pattern(report.devices) == "gpus",
        )
    reason = Phrase("because.written-without", **values)
    if odd.name.startswith("self.") and any(_of_a_replica(frame) for frame in report.frames):
        return Reading("data-parallel-replica-device", (reason,), (_MADE,), guilty=odd.name, sure=sure)
    if odd.origin == "literal":
        reason = Phrase("because.written-device", **values)
        return Reading("hard-coded-device", (reason,), (_MADE,), guilty=odd.name, sure=sure)
    by_user = any(frame.by_user and frame.file == odd.file for frame in report.frames)
    if odd.calls and odd.owner is None and by_user:
        cause = _handed_as(odd) or (_INPUT if report.argument in OF_INPUTS else _EXTRA)
        sure = sure and odd.position is not None
        return Reading(cause, (reason,), (_MADE,), guilty=odd.name, sure=sure)
    if odd.origin == "attribute" and _of_generation(report):
        return Reading("generation-helper-on-wrong-device", (reason,), (_MADE,), guilty=odd.name, sure=sure)
    if odd.use is not None:
        return Reading(_USES[odd.use], (reason,), (_MADE,), guilty=odd.name, sure=sure)
    return Reading(_MADE, (reason,), guilty=odd.name, sure=sure)


_DEFAULT = Pattern(r"set_default_(?:device|tensor_type)\(")
"""What decides where a tensor is made whose line does not."""
_ANY_SIDE = (None, "self", "other", "tensors")
"""Names of arguments that tell nothing of what they are."""
_TABLE = Pattern(r"^(?:\w+\.){0,3}\w*Embedding(?:\(|$)")
_MULTIPLIES = Pattern(r"\b(?:linear|matmul|mm|bmm|einsum)\(|@")
_MADE = "tensor-created-on-wrong-device"
_SPLIT = "block-split-across-devices"
_LEFT = "module-left-on-other-device"
_NOT_MAPPED = "device-map-incomplete-or-wrong"
_INPUT, _EXTRA = "input-not-on-embedding-device", "extra-input-on-wrong-device"
_USES = {
    "angles": "rope-table-on-wrong-device",
    "sum": "metric-state-device",
    "state": "cache-or-beam-state-on-wrong-device",
    "adapter": "adapter-weights-on-other-device",
    "codes": "quantized-state-on-other-device",
}


def _of_an_index(indices: Sequence[Written]) -> Reading | None:
    """An index on another GPU than the tensor: what the module was handed, or what a line put there."""
    if len(indices) != 1:
        return None
    odd = indices[0]
    values: dict[str, Value] = {"operand": odd.name, "text": odd.text, "place": _place(odd)}
    cause = _handed_as(odd) if odd.origin == "argument" and odd.position else None
    if cause is not None:
        reason = Phrase("because.written-argument", **values)
        return Reading(cause, (reason,), (_MADE,), guilty=odd.name)
    if odd.origin == "literal":
        reason = Phrase("because.written-device", **values)
        return Reading("hard-coded-device", (reason,), (_MADE,), guilty=odd.name, sure=False)
    return None


def _summed(report: Report, origins: Sequence[Written]) -> Reading | None:
    """An object that is no module adds what it was given to what it keeps."""
    tree = parsed(report.at.code) if report.at is not None else None
    match tree:
        case ast.Module(body=[ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self")) as target)]):
            given = [each for each in origins if each.origin == "argument" and each.position is None]
            if given and device_pattern(report.devices):
                reason = Phrase("because.line", text=report.at.code if report.at is not None else "")
                name = ast.unparse(target)
                return Reading(_USES["sum"], (reason,), (_MADE,), guilty=name, sure=False)
    return None


def _of_layers(report: Report, origins: Sequence[Written]) -> Reading | None:
    """Two GPUs met in what the layers of one module computed, or in that and what they were given."""
    known = [each for each in origins if each.origin != "unknown"]
    if len(origins) < 2:
        return None
    table = next(
        (each for each in known if _TABLE.search(each.text) and each.origin in ("module", "literal", "like")),
        None,
    )
    code = report.at.code if report.at is not None else ""
    gpus = device_pattern(report.devices) == "gpus"
    if table is not None and gpus and len(known) > 1 and _MULTIPLIES.search(code):
        reason = Phrase("because.written-tied", operand=table.name)
        guilty = next(each.name for each in known if each is not table)
        return Reading("lm-head-or-tied-weight-split", (reason,), (_SPLIT,), guilty=guilty)
    adapter = next((each for each in known if each.use == "adapter"), None)
    if adapter is not None and gpus:
        reason = Phrase("because.written-beside-gpus", operand=adapter.name, text=adapter.text)
        return Reading(_USES["adapter"], (reason,), (_SPLIT, _MADE), guilty=adapter.name)
    layers = [each for each in known if each.origin == "layer"]
    if not gpus or not layers or len(known) < 2:
        return None
    if any(each.origin not in ("layer", "argument", "parameter") for each in known):
        return None
    reason = Phrase("because.written-layers", operands=Several(tuple(each.name for each in known)))
    others = ("module-left-on-other-device", "device-map-incomplete-or-wrong")
    return Reading(_SPLIT, (reason,), others, sure=False)


def _of_sides(report: Report, origins: Sequence[Written]) -> Reading | None:
    """What is on the host is kept by a module whose input is on a GPU, or was handed to that module."""
    odd = on_host(report, origins)
    sure = odd is not None
    if odd is None and report.argument in (None, "tensors") and device_pattern(report.devices) == "host":
        odd = handed_beside_kept(origins)
    if odd is None:
        return None
    values: dict[str, Value] = {"operand": odd.name, "text": odd.text, "place": _place(odd)}
    if odd.use == "adapter":
        reason = Phrase("because.written-beside", operand=odd.name, text=odd.text)
        return Reading(_USES["adapter"], (reason,), (_LEFT, _NOT_MAPPED), guilty=odd.name, sure=sure)
    if odd.origin in KEPT:
        dispatched = any(frame.function == "new_forward" for frame in report.frames)
        causes = (_NOT_MAPPED, _LEFT) if dispatched else (_LEFT, _NOT_MAPPED)
        reason = Phrase("because.written-kept", **values)
        sure = odd.origin == "parameter"
        return Reading(causes[0], (reason,), (causes[1], _MADE), guilty=odd.name, sure=sure)
    cause = _handed_as(odd) if odd.origin == "argument" else None
    if cause is None:
        return None
    if any(is_carried(frame.code, odd.text) for frame in report.own_frames):
        cause = _USES["state"]
    reason = Phrase("because.written-argument", **values)
    others = tuple(each for each in (_EXTRA, _INPUT, _MADE) if each != cause)[:2]
    return Reading(cause, (reason,), others, guilty=odd.name, sure=sure)


def _handed_as(odd: Written) -> str | None:
    """The cause of what was handed to the model: by what it is called, or as which argument it came."""
    if odd.position is None:
        return None
    role = next((found.lastgroup for each in (odd.name, odd.text) if (found := THING.fullmatch(each))), None)
    return _HANDED.get(role or "", _INPUT if odd.position == 0 else _EXTRA)


_HANDED = {
    "labels": "loss-or-label-on-other-device",
    "cache": "cache-or-beam-state-on-wrong-device",
    "ids": "input-not-on-embedding-device",
}


def _of_generation(report: Report) -> bool:
    """Whether a loop that generates calls an object."""
    functions = [(frame.function or "").rpartition(".")[2] for frame in report.own_frames]
    return functions[-1:] == ["__call__"] and any(map(_GENERATES.fullmatch, functions[:-1]))


_GENERATES = Pattern(r"generate|_?(?:\w{1,30}_)?(?:sample|search|decoding)")


def _of_a_replica(frame: Frame) -> bool:
    return frame.file is not None and frame.file.endswith(
        ("nn/parallel/data_parallel.py", "nn/parallel/parallel_apply.py")
    )


def _decided(each: Written, report: Report) -> bool:
    """Whether the line of its origin put it where it is: on one of the devices that met.

    Of the host and a GPU, what is on the host is the odd one, unless the line made the other one there.
    """
    beside_host = device_pattern(report.devices) == "host"
    if each.origin == "loaded":
        return True
    if each.origin == "literal" and each.calls:
        return False
    if (
        each.origin == "literal"
        and beside_host
        and each.device != "cpu"
        and not each.text.startswith("torch.")
    ):
        return False  # what the script has was sent where the script wants it
    if each.origin == "literal":
        return each.device in ("cuda", *report.devices)
    return beside_host and each.origin in ("made", "attribute", "host")


def _place(each: Written) -> str:
    """Where the line of an origin stands; the file alone, where only a text shows it."""
    return f"{each.file}:{each.line}" if each.line is not None else each.file or ""
