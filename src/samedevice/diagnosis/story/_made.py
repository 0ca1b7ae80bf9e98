"""Tensors that code or words say were made on the host."""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import (
    MEETS,
    Reading,
    devices_met,
    ends,
    fails,
    placed_at,
    when,
)
from samedevice.messages import Phrase

_NO_BUFFER = r"should (?:be|have been) (?:a |registered as (?:a )?)?(?:\w+ )?buffers?|(?:\bno|\bnot|never|without|instead of)[^.\n]{0,36}\bbuffer|plain (?:attribute|tensor)|普通(?:的)?(?:属性|张量)|没有?(?:注册|用)[^。\n]{0,10}buffer"


kept_as_an_attribute = when(
    _NO_BUFFER,
    Reading("tensor-created-on-wrong-device", (Phrase("because.told-no-buffer"),), ("hard-coded-device",)),
)
"""A tensor that the module keeps, and that is no buffer, stays where it was made."""


def kept_in_code(told: Told, report: Report) -> Reading | None:
    """Code keeps a tensor that it makes without a device as a plain attribute, and the text tells that it is on the host."""
    found = _KEPT_IN_CODE.search(told.text)
    if found is None or not told.mentions(
        rf"\b{found['name']}\b[^\n]{{0,60}}\n?[^\n]{{0,40}}\bcpu\b|(?:成员|属性|member|attribute)[^\n]{{0,24}}\bcpu\b"
    ):
        return None
    if told.mentions(rf"register_buffer\(\s?['\"]{found['name']}"):
        return None
    reason = Phrase("because.line", text=found[0])
    return Reading(
        "tensor-created-on-wrong-device", (reason,), ("hard-coded-device",), guilty=f"self.{found['name']}"
    )


_KEPT_IN_CODE = Pattern(
    r"\bself\.(?P<name>\w{1,40}) ?= ?torch\.(?:zeros|ones|tensor|arange|full|eye|empty|linspace|randn?)"
    r"\((?:(?!device)[^\n()]|\([^\n()]{0,60}\)){0,100}\)(?!\s?\.(?:to|cuda)\()"
)


def kept_tensor_indexed(told: Told, report: Report) -> Reading | None:
    """The text shows the line in which a tensor of an object is indexed, and that one is on the host."""
    found = _INDEXED.search(told.text)
    own, others = (*report.devices, "", "")[:2]
    on_host = (report.argument in ("index", "indices") and others == "cpu" != own) or report.devices == (
        "cpu",
    )
    if found is None or not on_host:
        return None
    reason = Phrase("because.line", text=found[0])
    others_ = ("loss-or-label-on-other-device", "module-left-on-other-device")
    sure = len(_INDEXED.findall(told.text)) == 1
    return Reading("tensor-created-on-wrong-device", (reason,), others_, guilty=found["name"], sure=sure)


_INDEXED = Pattern(
    r"\b(?P<name>self(?:\.\w{1,40}){1,3}?)(?:\.(?:gather|index_select|take)\(|\[(?!\d{1,3}\]\s?\())[^\n]{0,60}"
)


def made_right_in_the_repair(told: Told, report: Report) -> Reading | None:
    """The text says how a line should be, and that line makes a tensor on the device of another one."""
    found = _REPAIRED.search(told.evidence)
    if found is None or not (ends(told, report) or told.mentions(MEETS)):
        return None
    reason = Phrase("because.told-repaired", text=found["line"])
    others = ("hard-coded-device", "extra-input-on-wrong-device")
    return Reading("tensor-created-on-wrong-device", (reason,), others, guilty=found["name"], sure=False)


_REPAIRED = Pattern(
    r"(?:\bshould (?:be|look)\b|\b(?:solution|fix(?:ed)?|suggest\w*|propos\w*|chang\w+|replac\w+|instead)\b|建议|改(?:成|为)|应(?:该|改)|修复)[^\n]{0,80}\n?(?:[^\n]{0,120}\n){0,6}?\s{0,12}[+]?\s{0,8}"
    r"(?P<line>(?P<name>[A-Za-z_]\w{0,40}) ?= ?(?:torch|th)\.(?:zeros|ones|tensor|arange|full|eye|empty|linspace|randn?|as_tensor|randint|tri[ul]|LongTensor)\([^\n]{0,100}\bdevice ?= ?[\w.]{1,60}\.device\b[^\n]{0,40})",
    re.IGNORECASE,
)


def numpy_reads(told: Told, report: Report) -> Reading | None:
    """A tensor that is not on the host is told to be converted for NumPy."""
    if not told.says(_FOR_NUMPY) or not (ends(told, report) or fails(told, report)):
        return None
    others = ("tensor-created-on-wrong-device",)
    return Reading("numpy-of-gpu-tensor", (Phrase("because.told-numpy"),), others, sure=False)


_FOR_NUMPY = (
    r"\b(?:not|never)\b[^.\n]{0,16}\bon (?:the )?CPU\b[^.\n]{0,40}\b(?:convert\w*|turn\w*)\b[^.\n]{0,16}\bnumpy"
    r"|\b(?:convert\w*|turn\w*)\b[^.\n]{0,40}\b(?:cuda|GPU)\b[^.\n]{0,24}\b(?:in)?to (?:a )?numpy|(?:cuda|GPU)[^。\n]{0,12}(?:转|转换)(?:成|为|到)\s?numpy"
)


def computed_on_the_host(told: Told, report: Report) -> Reading | None:
    """Something is told to be computed on the host, and to meet what is on a GPU."""
    found = _COMPUTED_THERE.search(told.text)
    if found is None or not fails(told, report):
        return None
    reason = Phrase("because.told-returned", text=found[0])
    return Reading("tensor-created-on-wrong-device", (reason,), ("extra-input-on-wrong-device",))


def returned_on_the_host(told: Told, report: Report) -> Reading | None:
    """A function is told to return a tensor on the host though what it reads is on a GPU, or to take the host for
    granted.
    """
    found = _RETURNS_ON_HOST.search(told.text)
    if found is not None and fails(told, report):
        reason = Phrase("because.told-returned", text=found[0])
        return Reading("tensor-created-on-wrong-device", (reason,), ("extra-input-on-wrong-device",))
    default = _DEFAULTS_TO_HOST.search(told.text)
    if default is None or not fails(told, report):
        return None
    reason = Phrase("because.told-returned", text=default[0])
    causes = ("module-left-on-other-device", "tensor-created-on-wrong-device")
    cause, other = causes if told.says(_OF_A_MODEL) else causes[::-1]
    return Reading(cause, (reason,), (other,), sure=False)


_OF_A_MODEL = r"\b\w*(?:model|module|net|convert\w*)\b|mat2|\bweights?\b"


_RETURNS_ON_HOST = Pattern(
    r"\boutputs?\b[^.\n]{0,16}\b(?:will |would )?(?:always |still )?(?:is|are|be|stays?|comes? out)\b (?:always |still )?on (?:the )?CPU\b|\b[\w.]{2,40}\(\)?`? (?:does not|never) (?:return|give|produce)s? (?:a |an )?(?:cuda|GPU) tensor"
    r"|(?<!\bI )(?<!\bwe )\b(?:do(?:es)? not|without) pass(?:ing|ed)?\b[^.\n]{0,24}\b(?:through|on|along|down|device)\b|(?:在|于)\s?CPU\s?(?:上)?(?:计算|创建|生成|构造|初始化)"
    r"|\b[\w.]{2,40}\(\)?`? (?:always )?(?:returns|gives|produces|creates) (?:a |an )?(?:tensor on (?:the )?CPU|CPU tensor)",
    re.IGNORECASE | re.ASCII,
)


_COMPUTED_THERE = Pattern(
    r"\b(?:creates?|makes?|builds?|computes?|allocates?|generates?|initiali[sz]es?) (?:the |a |an |its )?`?[\w.]{1,40}`?(?: (?:tensor|mask|table|vector|buffer))? on (?:the )?(?:CPU|host)\b|\b(?:\w+ ){0,2}(?:computed|created|made|generated|built|allocated|initiali[sz]ed|calculated|constructed) (?:only |always )?on (?:the )?(?:CPU|host)\b"
    r"|\b(?:\w+ ){0,2}(?:computed|created|made|generated|built|allocated|initiali[sz]ed|constructed) (?:regardless|irrespective|independent(?:ly)?|without (?:regard|respect|specifying|passing|setting|a|the|any))\b[^.\n]{0,24}\bdevice",
    re.IGNORECASE | re.ASCII,
)


_DEFAULTS_TO_HOST = Pattern(
    r"\bdefaults? to (?:`?device ?= ?)?['\"`]{0,2}cpu\b|\bdefault (?:is|device is) ['\"`]{0,2}cpu\b|\bdevice ?= ?['\"]cpu['\"] by default|默认(?:是|为|用|在)?\s?['\"]?cpu\b",
    re.IGNORECASE,
)


def made_for_a_call(told: Told, report: Report) -> Reading | None:
    """A call is given one tensor with a device and another one without, which is made in that call."""
    found = _MADE_IN_CALL.search(told.text)
    if found is None or not fails(told, report):
        return None
    beside = told.text[max(0, found.start() - _CALL) : found.end() + _CALL]
    if not re.search(r"\bdevice\s?=\s?['\"]?cuda|\.cuda\(|\.to\(", beside):
        return None
    reason = Phrase("because.told-not-moved", operand=found["name"], text=found[0].strip(" ,("))
    others = ("tensor-created-on-wrong-device",)
    return Reading("extra-input-on-wrong-device", (reason,), others, guilty=found["name"])


_MADE_IN_CALL = Pattern(
    r"[(,]\s{0,4}(?P<name>[a-z_]\w{1,40})=torch\.(?:tensor|ones|zeros|arange|full|LongTensor)\((?:(?!device)[^()\n]){0,120}\)(?!\.(?:to|cuda)\()",
    re.ASCII,
)


_CALL = 160
"""Characters around an argument that belong to its call."""


def made_without_a_device(told: Told, report: Report) -> Reading | None:
    made = told.says(
        r"torch\.(?:ones|zeros|arange|full|tensor|tri[ul]|empty|eye|linspace|randn?|randint)\b(?!\([^\n]{0,120}device\s?=)"
    )
    if not made or not fails(told, report):
        return None
    left = ("mask", "extra", "outputs", "tensor")
    if "cpu" in told.devices_of(*left):
        return Reading("tensor-created-on-wrong-device", (placed_at(told, *left),))
    met = devices_met(told, report)
    if met <= {"cpu", "cuda", "cuda:0"} and (met or told.mentions(MEETS)):
        return Reading("tensor-created-on-wrong-device", (Phrase("because.told-made"),))
    return None
