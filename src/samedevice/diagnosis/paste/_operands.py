"""What a message says of its tensors.

It names types with a device and a kind of number, and operands with the device that each is on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from samedevice.diagnosis.paste._pattern import Pattern

_OPERAND = Pattern(
    r"\b(?P<name>[A-Za-z_][\w.\[\]]{0,60})\)?(?: tensor)?[ :=]{1,3}"
    r"(?:is |was )?(?:now )?(?:on |in |at )?(?:device (?:type )?)?"
    r"(?P<device>(?:cuda|cpu|meta|mps|xpu|npu|hpu)(?::\d{1,3})?)\b",
    re.IGNORECASE,
)
DEVICE_NAME = Pattern(r"\b(?:(?:cuda|meta|mps|xpu|npu|hpu)(?::\d{1,3})?|cpu)\b", re.IGNORECASE)
"""A device by its name."""
_JOINING = frozenset(
    "and or expected on in at is was are were be to the a an have has device devices got Got found but with "
    "from type types use used using".split()
)
_NUMBERS = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "byte": "uint8",
    "char": "int8",
    "bool": "bool",
}
_TYPE = Pattern(r"(?:torch\.)?(?:cuda\.)?(?P<number>[A-Za-z]+?\d{0,2})(?:Tensor|Type)?$")


@dataclass(frozen=True, slots=True)
class TensorType:
    """A type as messages print it: `torch.cuda.HalfTensor`, `CUDABFloat16Type`, `c10::Half`, `cpu`."""

    device: str | None
    """`cuda` or `cpu`; None where the type does not say."""
    number: str | None
    """The kind of number, such as `float16`; None where the type does not say."""


def tensor_type(text: str | None) -> TensorType:
    """A printed type, as far as it tells."""
    if not text:
        return TensorType(None, None)
    plain = text.removeprefix("Variable[").removesuffix("]").replace("c10::", "")
    small = plain.lower()
    if small in ("cpu", "cuda", "gpu"):
        return TensorType("cpu" if small == "cpu" else "cuda", None)
    legacy = small.startswith("torch.") and small.endswith("tensor")
    device = (
        "cuda"
        if small.startswith(("torch.cuda.", "cuda"))
        else "cpu"
        if legacy or small.startswith("cpu")
        else None
    )
    found = _TYPE.match(plain.removeprefix("CUDA").removeprefix("CPU"))
    return TensorType(device, _NUMBERS.get(found["number"].lower()) if found else None)


def operands_in(text: str) -> tuple[tuple[str, str], ...]:
    """The operands that a sentence places: `mask on cpu and self on cuda:0`, `index.device = cpu`."""
    found: dict[str, str] = {}
    for each in _OPERAND.finditer(text):
        name = each["name"].removesuffix(".device")
        if name not in _JOINING:
            found.setdefault(name, each["device"].lower())
    return tuple(found.items())
