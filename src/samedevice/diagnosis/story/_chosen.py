"""Which GPU, or whether the CPU, somebody chose, and what is elsewhere all the same."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import (
    ABOVE_LINES,
    FIRST,
    MEETS,
    NOT_ON_FIRST,
    OWN_KERNEL,
    RIGHT,
    Reading,
    devices_met,
    ends,
    fails,
    gpus_met,
    when,
)
from samedevice.messages import Phrase


def another_gpu_chosen(told: Told, report: Report) -> Reading | None:
    """A GPU that is not the first was chosen, and something goes to the first one or works there alone."""
    kernel = told.says(OWN_KERNEL) or report.kind in ("illegal-access", "triton-pointer")
    if told.spread or (told.launched and not kernel) or not told.chosen:
        return None
    met = devices_met(told, report)
    if "cuda:0" not in met and not told.says(rf"{_FIRST_WORKS}|{_PUT_ON_FIRST}|{_VISIBLE_WORKS}"):
        return None
    reasons = (Phrase("because.told-chosen", device=told.chosen[0]),)
    if kernel:
        return Reading("kernel-launched-on-current-device", reasons, ("hard-coded-device",))
    return Reading("hard-coded-device", reasons, ("module-left-on-other-device",), outranks=("guess",))


def wanted_on_the_host(told: Told, report: Report) -> Reading | None:
    """The host was chosen, and something is on a GPU all the same."""
    met = devices_met(told, report)
    if not told.says(_HOST_CHOSEN) or "cpu" not in met or not any(each != "cpu" for each in met):
        return None
    reasons = (Phrase("because.told-host-chosen"),)
    causes = ("hard-coded-device", "module-left-on-other-device")
    cause, other = causes[::-1] if report.kind == "input-weight-type" else causes
    return Reading(cause, reasons, (other, "checkpoint-map-location"), outranks=ABOVE_LINES)


_HOST_CHOSEN = (
    r"(?:\b(?:when|if|want|need|trying|tried|like) (?:\w+ ){0,3}(?:to )?)(?:choos\w+|chose|select\w*|set\w*|switch\w*|us(?:e|ing)|run(?:ning)?|infer(?:ring)?|predict(?:ing)?)\b(?:(?!\bwithout\b|\bcuda\b|\bGPU\b)[^.\n]){0,40}?(?<!from )\b(?:the )?CPU\b(?![^.\n]{0,12}(?:offload|and (?:the )?GPU)|[^.\n]{0,30}\b(?:it |this |that )?(?:works?|runs?|ran|fine|ok|trains|no (?:error|problem)))|--(?:device|accelerator)[ =]cpu\b|\bCPU[- ](?:only )?(?:mode|inference)\b"
    r"|(?:选择?|设(?:置|成|为)|改(?:成|为)|指定)[^，。\n]{0,10}['\"]?cpu\b"
)


def fails_elsewhere(told: Told, report: Report) -> Reading | None:
    """It fails on any GPU but the first, where the first one met the other, or a bare `.cuda()` is written."""
    first = "cuda:0" in gpus_met(told, report) or (told.says(_WRITTEN) and fails(told, report))
    first = first or told.says(_PUT_ON_FIRST) or (ends(told, report) and told.mentions(MEETS))
    if told.spread or told.launched or not (told.says(NOT_ON_FIRST) and first):
        return None
    candidates = ("tensor-created-on-wrong-device", "module-left-on-other-device")
    return Reading("hard-coded-device", (Phrase("because.told-not-first"),), candidates)


_VISIBLE_WORKS = rf"CUDA_VISIBLE_DEVICES\s?=\s?\d\b(?!,)[^\n]{{0,80}}\n?[^\n]{{0,40}}{RIGHT}"
"""It works where that GPU alone is visible, and is the first one then."""


_PUT_ON_FIRST = rf"\bdefaults? to (?:using )?(?:the )?{FIRST}|\b(?:put|placed|allocat\w+|loaded|moved|goes|went|occup\w+|uses?)\b[^.\n]{{0,16}}(?:{FIRST}|\b(?:GPU )?device 0\b)"


_FIRST_WORKS = rf"{FIRST}[^.;。；\n]{{0,40}}{RIGHT}|{RIGHT}[^.;。；\n]{{0,24}}{FIRST}"


def first_in_any_case(told: Told, report: Report) -> Reading | None:
    """Something uses the first GPU whatever is asked for, as the text or a default in its code says."""
    found = _ALWAYS_FIRST.search(told.text)
    if found is None or told.spread or told.launched:
        return None
    reason = Phrase("because.told-always-first", text=found[0])
    others = ("tensor-created-on-wrong-device", "module-left-on-other-device")
    return Reading("hard-coded-device", (reason,), others, sure=False)


_ALWAYS_FIRST = Pattern(
    r"\balways\b[^.\n]{0,30}\b(?:only work|run|us|go|load|put|mov|plac|allocat)\w*\b[^.\n]{0,24}?(?:\bcuda:0\b|\bGPU ?(?:#|:)?0\b|\bfirst GPU\b)"
    r"|\.get\(['\"]\w{0,20}device\w{0,10}['\"], ?['\"]cuda:0['\"]\)",
    re.IGNORECASE,
)


def another_gpu_somewhere(told: Told, report: Report) -> Reading | None:
    """All is meant to be on one GPU that is not the first, and the text tells of the first one, too."""
    met = devices_met(told, report)
    written = told.says(_WRITTEN) and "cuda:0" in met and any(each > "cuda:0" for each in met)
    if told.spread or told.launched or not fails(told, report):
        return None
    if written:
        return Reading(
            "hard-coded-device", (Phrase("because.told-written"),), ("module-left-on-other-device",)
        )
    if not told.chosen or not told.says(FIRST):
        return None
    reasons = (Phrase("because.told-chosen", device=told.chosen[0]),)
    return Reading("hard-coded-device", reasons, ("module-left-on-other-device",), sure=False)


_WRITTEN = r"\.to\(['\"]cuda(?::0)?['\"]\)|\.cuda\((?:0)?\)|device ?= ?['\"]cuda:0"


_DEFAULT_DEVICE = r"set_default_(?:device|tensor_type)|default (?:device|tensor type)|with torch\.device\(|默认(?:设备|张量类型)"


default_is_a_gpu = when(
    _DEFAULT_DEVICE,
    Reading(
        "generator-or-default-device",
        (Phrase("because.told-default-device"),),
        ("tensor-created-on-wrong-device",),
    ),
)
"""A GPU is the device that new tensors get, and some come from where nobody asks for it."""
