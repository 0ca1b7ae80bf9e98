"""From the source of the failing function to a cause: the operand whose device its own line decided."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from samedevice.diagnosis._rule import device_pattern
from samedevice.diagnosis.paste import Frame, Pattern, Report
from samedevice.diagnosis.story import Reading
from samedevice.events import Written
from samedevice.messages import Phrase, Several, Value
from samedevice.provenance.syntax import parsed
from samedevice.provenance.written import written

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
    return source(report.own_frames or (at,), report.pieces)


def read_source(report: Report, origins: Sequence[Written]) -> Reading | None:
    """The cause that the origins amount to.

    One operand, and only one, is where its own line put it, while the others come from elsewhere; or two GPUs
    met in what layers computed.
    """
    indices, origins = _apart(origins)
    if report.kind == "index-device" and report.devices and report.devices[0] != "cpu":
        return _of_an_index(report, indices)
    decided = [each for each in origins if _decided(each, report)]
    if (early := _put_back(report) or _read_directly(report) or _summed(report, origins)) is not None:
        return early
    if (codes := next((each for each in origins if each.use == "codes"), None)) is not None:
        reason = Phrase("because.written-codes", operand=codes.name, text=codes.text)
        return Reading(_USES["codes"], (reason,), (_LEFT, _MADE), guilty=codes.name, sure=False)
    if not decided or (len(origins) < _PAIR and _on_host(report, origins) is not decided[0]):
        return _of_layers(report, origins) or _of_sides(report, origins)
    if len({(each.origin, each.device, each.owner) for each in decided}) != 1 or len(decided) == len(origins):
        return None
    odd = decided[0]
    placed = _on_host(report, origins)
    sure = placed is odd or (placed is None and (report.argument in _ANY_SIDE or _made_on_host(odd, report)))
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
        first = report.argument in _OF_INPUTS if odd.position is None else odd.position == 0
        return Reading(_INPUT if first else _EXTRA, (reason,), (_MADE,), guilty=odd.name, sure=sure)
    if odd.origin == "attribute" and _of_generation(report):
        return Reading("generation-helper-on-wrong-device", (reason,), (_MADE,), guilty=odd.name, sure=sure)
    if odd.use is not None:
        return Reading(_USES[odd.use], (reason,), (_MADE,), guilty=odd.name, sure=sure)
    return Reading(_MADE, (reason,), guilty=odd.name, sure=sure)


_ANY_SIDE = (None, "self", "other", "tensors")
"""Names of arguments that tell nothing of what they are."""
_TABLE = Pattern(r"^(?:\w+\.){0,3}\w*Embedding(?:\(|$)")
_MULTIPLIES = Pattern(r"\b(?:linear|matmul|mm|bmm|einsum)\(|@")
_OF_INPUTS = ("index", "mat1", "indices", "input")
"""What the messages of a layer call its input."""
_MADE = "tensor-created-on-wrong-device"
_SPLIT = "block-split-across-devices"
_USES = {
    "angles": "rope-table-on-wrong-device",
    "sum": "metric-state-device",
    "state": "cache-or-beam-state-on-wrong-device",
    "adapter": "adapter-weights-on-other-device",
    "codes": "quantized-state-on-other-device",
}


def _apart(origins: Sequence[Written]) -> tuple[list[Written], list[Written]]:
    """What indexes, and the operands."""
    return [each for each in origins if each.use == "index"], [each for each in origins if each.use != "index"]


def _of_an_index(report: Report, indices: Sequence[Written]) -> Reading | None:
    """An index on another GPU than the tensor: what the module was handed, or what a line put there."""
    if len(indices) != 1:
        return None
    odd = indices[0]
    values: dict[str, Value] = {"operand": odd.name, "text": odd.text, "place": _place(odd)}
    if odd.origin == "argument" and odd.position:
        reason = Phrase("because.written-argument", **values)
        return Reading(_EXTRA, (reason,), (_MADE,), guilty=odd.name, sure=False)
    if odd.origin == "literal":
        reason = Phrase("because.written-device", **values)
        return Reading("hard-coded-device", (reason,), (_MADE,), guilty=odd.name, sure=False)
    return None


def _put_back(report: Report) -> Reading | None:
    """An object keeps a selection of what it keeps, or that with more behind it: the state of a step."""
    tree = parsed(report.at.code) if report.at is not None else None
    match tree:
        case ast.Module(body=[ast.Assign(targets=[target], value=value)]):
            base = target.value if isinstance(target, ast.Subscript) else target
            calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
            own = ast.unparse(base)
            read = own in {ast.unparse(each) for each in ast.walk(value) if isinstance(each, ast.expr)}
            names = {each.func.attr for each in calls if isinstance(each.func, ast.Attribute)}
            kept = own.startswith("self.") and (read or target is not base)
            if kept and names & _PICKS | (names & _JOINS):
                reason = Phrase("because.line", text=ast.unparse(target))
                others = (_MADE, _EXTRA)
                return Reading(_USES["state"], (reason,), others, guilty=own, sure=False)
    return None


def _read_directly(report: Report) -> Reading | None:
    """A weight on the host is read past its layer, so that no hook brings it."""
    code = report.at.marked or report.at.code if report.at is not None else ""
    found = _WEIGHT_OF_A_PART.search(code)
    on_host = device_pattern(report.devices) == "host" or report.devices == ("cpu",)
    if found is None or not on_host or _MOVED.search(code):
        return None
    reason = Phrase("because.line", text=found[0])
    return Reading("offload-hook-bypassed", (reason,), (_LEFT,), guilty=found[0], sure=False)


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


_PICKS = frozenset("index_select gather take_along_dim".split())
_JOINS = frozenset("cat concat concatenate".split())
_WEIGHT_OF_A_PART = Pattern(r"\bself(?:\.\w{1,60}){1,5}\.weight\b(?!\.(?:device|dtype|shape|size|requires))")
_MOVED = Pattern(r"\.weight\.(?:to|cuda)\(")


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
    if table is not None and len(known) > 1 and _MULTIPLIES.search(code):
        reason = Phrase("because.written-tied", operand=table.name)
        guilty = next(each.name for each in known if each is not table)
        return Reading("lm-head-or-tied-weight-split", (reason,), (_SPLIT,), guilty=guilty)
    adapter = next((each for each in known if each.use == "adapter"), None)
    if adapter is not None and device_pattern(report.devices) == "gpus":
        reason = Phrase("because.written-beside-gpus", operand=adapter.name, text=adapter.text)
        return Reading(_USES["adapter"], (reason,), (_SPLIT, _MADE), guilty=adapter.name)
    layers = [each for each in known if each.origin == "layer"]
    if device_pattern(report.devices) != "gpus" or not layers or len(known) < 2:
        return None
    if any(each.origin not in ("layer", "argument", "parameter") for each in known):
        return None
    reason = Phrase("because.written-layers", operands=Several(tuple(each.name for each in known)))
    others = ("module-left-on-other-device", "device-map-incomplete-or-wrong")
    own = any(each.origin == "parameter" for each in known)
    return Reading(_SPLIT, (reason,), others, sure=own)


def _of_sides(report: Report, origins: Sequence[Written]) -> Reading | None:
    """What is on the host is kept by a module whose input is on a GPU, or was handed to that module."""
    odd = _on_host(report, origins)
    sure = odd is not None
    if odd is None and report.argument in (None, "tensors") and device_pattern(report.devices) == "host":
        odd = _handed_beside_kept(origins)
    if odd is None:
        return None
    values: dict[str, Value] = {"operand": odd.name, "text": odd.text, "place": _place(odd)}
    if odd.use == "adapter":
        reason = Phrase("because.written-beside", operand=odd.name, text=odd.text)
        return Reading(_USES["adapter"], (reason,), (_LEFT, _NOT_MAPPED), guilty=odd.name, sure=sure)
    if odd.origin in _KEPT:
        dispatched = any(frame.file is not None and _HOOKS.search(frame.file) for frame in report.frames)
        causes = (_NOT_MAPPED, _LEFT) if dispatched else (_LEFT, _NOT_MAPPED)
        reason = Phrase("because.written-kept", **values)
        sure = odd.origin == "parameter"
        return Reading(causes[0], (reason,), (causes[1], _MADE), guilty=odd.name, sure=sure)
    if odd.origin != "argument" or odd.position is None:
        return None
    causes = (_INPUT, _EXTRA) if odd.position == 0 else (_EXTRA, _INPUT)
    reason = Phrase("because.written-argument", **values)
    return Reading(causes[0], (reason,), (causes[1], _MADE), guilty=odd.name, sure=sure)


def _handed_beside_kept(origins: Sequence[Written]) -> Written | None:
    """What was handed to a module, beside what that module keeps: the module ran, so it is where it should be."""
    kept = [each for each in origins if each.origin in (*_KEPT, "layer")]
    handed = [each for each in origins if each.origin == "argument" and each.position is not None]
    alone = len(handed) == 1 and kept and len(kept) + 1 == len(origins)
    beside_layers = any(each.origin == "layer" for each in kept)
    return handed[0] if alone and (handed[0].position or not beside_layers) else None


def _on_host(report: Report, origins: Sequence[Written]) -> Written | None:
    """Of a tensor on the host and others on a GPU the one on the host, where message and statement tell it."""
    code = report.at.marked or report.at.code if report.at is not None else ""
    if report.kind == "index-device" and report.devices == ("cpu",):
        return origins[0] if len(origins) == 1 else None
    if device_pattern(report.devices) != "host" or len(report.devices) != _PAIR:
        return None
    if report.operands:
        return _placed_by_name(report, origins, code)
    if report.argument is None:
        return None
    own = report.devices[0] if report.kind == "argument-device" else report.devices[1]
    first = report.argument in (*_OF_INPUTS, "self")
    if len(origins) == 1:
        return origins[0] if first and own == "cpu" else None
    if len(origins) != _PAIR or not _BINARY.search(code) or not (first or report.argument in _SECOND):
        return None
    return origins[first != (own == "cpu")]


def _placed_by_name(report: Report, origins: Sequence[Written], code: str) -> Written | None:
    """The operand that the message puts on the host by its name, as the statement writes it."""
    names = [name for name, _ in report.operands]
    tree = parsed(code)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ():
        op = call.func.attr.rstrip("_") if isinstance(call.func, ast.Attribute) else ""
        found = written(call, op, sorted(names, key=lambda name: name != "self"), _LIBRARIES)
        parts = [found[name] for name, device in report.operands if device == "cpu" and name in found]
        if len(found) == len(names) and len(parts) == 1:
            within = {ast.unparse(node) for node in ast.walk(parts[0]) if isinstance(node, ast.expr)}
            placed = [each for each in origins if each.name in within]
            return placed[0] if len(placed) == 1 else None
    return None


def _made_on_host(odd: Written, report: Report) -> bool:
    """Whether an operand was made without a device, where the message has one operand on the host."""
    own = report.devices[0] if report.kind == "argument-device" else report.devices[-1]
    return odd.origin in ("made", "host") and own == "cpu"


_PAIR = 2
_SECOND = ("mat2", "other", "batch2", "vec")
_LIBRARIES = frozenset(("torch", "F"))
_BINARY = Pattern(r"\b(?:matmul|mm|bmm|addmm|einsum)\(| @ ")
_HOOKS = Pattern(r"(?:^|/)hooks\.py$")
_KEPT = ("buffer", "parameter")
_LEFT = "module-left-on-other-device"
_NOT_MAPPED = "device-map-incomplete-or-wrong"
_INPUT, _EXTRA = "input-not-on-embedding-device", "extra-input-on-wrong-device"


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
    on_host = device_pattern(report.devices) == "host"
    if each.origin == "loaded":
        return True
    if each.origin == "literal" and each.calls:
        return False
    if each.origin == "literal" and on_host and each.device != "cpu" and not each.text.startswith("torch."):
        return False  # what the script has was sent where the script wants it
    if each.origin == "literal":
        return each.device in ("cuda", *report.devices)
    return on_host and each.origin in ("made", "attribute", "host")


def _place(each: Written) -> str:
    """Where the line of an origin stands; the file alone, where only a text shows it."""
    return f"{each.file}:{each.line}" if each.line is not None else each.file or ""
