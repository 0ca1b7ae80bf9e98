"""What frames tell of an error where its message does not: the operator of a layer, the element of a list."""

from __future__ import annotations

from dataclasses import replace

from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._report import Frame, Report


def completed(report: Report) -> Report:
    """With what the frames tell of an operator or an element that the message does not name."""
    argument = report.argument
    if argument is not None and argument.startswith("#"):
        argument = _element(report.frames, int(argument[1:]))
    operator = (
        _whole_name(report.op)
        or _operator_of(report.frames, argument)
        or (_PRODUCT.get(argument or "") if not report.frames else None)
    )
    if (
        report.kind == "type-combination"
        and operator in ("index_select", "embedding")
        and len(report.devices) > 1
    ):
        argument = argument or "index"  # the types are printed in the order of the arguments
    if (argument, operator) == (report.argument, report.op):
        return report
    return replace(report, argument=argument, op=operator)


def _element(frames: tuple[Frame, ...], number: int) -> str | None:
    """The element of a list of tensors, by its number, as the failing statement writes it."""
    listed = _LISTED.search(frames[-1].code) if frames else None
    names = [each.strip() for each in listed[1].split(",")] if listed else []
    return names[number] if number < len(names) else None


_LISTED = Pattern(r"\b(?:cat|concat|concatenate|stack|hstack|vstack)\(\s?[\[(]([^\[\]()]{1,200})[\])]")


def _whole_name(operator: str | None) -> str | None:
    """The operator that a message names, unless the paste ends within its name."""
    return None if operator is None or operator in _CUT else operator


def _operator_of(frames: tuple[Frame, ...], argument: str | None) -> str | None:
    """The operator of a layer in which the innermost frame of torch is, where the message does not name it.

    Where the paste ends in torch's own code for modules, an `index` is one of an embedding, and `mat2` the
    weight of a linear layer.
    """
    last = frames[-1] if frames else None
    if last is None or last.file is None:
        return None
    if last.function in _LAYERS and last.file.endswith("functional.py"):
        return last.function
    called = _CALLS_OPERATOR.search(last.code)
    layer = _LAYER_FILE.search(last.file)
    if argument in _SIDES and _MODULES.search(last.file):
        return _SIDES[argument]
    return called[1] if called else _OF_LAYER[layer[1]] if layer else None


_CALLS_OPERATOR = Pattern(
    r"\b(?:torch|F|torch\._C\._nn)\.(linear|layer_norm|batch_norm|group_norm|rms_norm|conv\d?d?|embedding)\("
)
_LAYER_FILE = Pattern(r"nn[/\\]modules[/\\](linear|conv|sparse|normalization|batchnorm)\.py$")
_PRODUCT = {"mat1": "mm", "mat2": "mm"}
"""Arguments that only products of matrices have."""
_SIDES = {"index": "embedding", "mat1": "linear", "mat2": "linear"}
_LAYERS = ("linear", "layer_norm", "batch_norm", "group_norm", "embedding")
_CUT = ("wrapper_", "wrapper__", "wrapper_CUDA_", "wrapper_CUDA__")
"""What is left of a name where a paste ends."""
_MODULES = Pattern(r"nn[/\\]modules[/\\]\w+\.py$")
_OF_LAYER = {
    "linear": "linear",
    "conv": "convolution",
    "sparse": "embedding",
    "normalization": "layer_norm",
    "batchnorm": "batch_norm",
}
"""The operator of a layer, by the file of torch that has it."""
