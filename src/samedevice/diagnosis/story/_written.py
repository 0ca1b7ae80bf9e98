"""Devices that code names, or does not name, where it makes tensors and adds modules."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._code import modules_kept_in_containers, moves_what_it_adds
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
    placed_at,
    when,
)
from samedevice.diagnosis.story._steps import precedes
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
    """It fails on any GPU but the first, where the first one met the other."""
    if told.spread or told.launched or not (told.says(NOT_ON_FIRST) and "cuda:0" in gpus_met(told, report)):
        return None
    candidates = ("tensor-created-on-wrong-device", "module-left-on-other-device")
    return Reading("hard-coded-device", (Phrase("because.told-not-first"),), candidates)


_VISIBLE_WORKS = rf"CUDA_VISIBLE_DEVICES\s?=\s?\d\b(?!,)[^\n]{{0,80}}\n?[^\n]{{0,40}}{RIGHT}"
"""It works where that GPU alone is visible, and is the first one then."""
_PUT_ON_FIRST = rf"\b(?:put|placed|allocat\w+|loaded|moved|goes|went|occup\w+|uses?)\b[^.\n]{{0,16}}(?:{FIRST}|\b(?:GPU )?device 0\b)"
_FIRST_WORKS = rf"{FIRST}[^.;。；\n]{{0,40}}{RIGHT}|{RIGHT}[^.;。；\n]{{0,24}}{FIRST}"


_KEPT_MODULES = r"(?:modules|layers|blocks|networks|branches|heads|experts)"

_PLAIN_CONTAINER = (
    r"self\.\w+ ?= ?(?:\[|\{|list\(|dict\()[^\n]{0,80}?\b(?:nn\.)?[A-Z]\w+\("
    rf"|(?:plain|python|normal|ordinary) (?:list|dict\w*) of (?:\w+ ){{0,3}}{_KEPT_MODULES}|{_KEPT_MODULES}[^.\n]{{0,30}}in a (?:plain|python|normal|ordinary) (?:\w+ )?(?:list|dict\w*)|普通(?:的)?\s?(?:list|dict|列表|字典)"
)


def modules_in_a_container(told: Told, report: Report) -> Reading | None:
    """Modules in a plain list or dictionary, which `.to` does not know."""
    if not fails(told, report):
        return None
    kept = modules_kept_in_containers(told.text)
    if not (kept or told.says(_PLAIN_CONTAINER)):
        return None
    reasons = (
        Phrase("because.told-kept-container", thing=kept[0])
        if kept
        else Phrase("because.told-plain-container"),
    )
    sure = (not kept or told.says(rf"{_KEPT_MODULES}|{_MODULE_CLASS}")) and not told.says(_REGISTERED)
    return Reading(
        "module-left-on-other-device",
        reasons,
        ("tensor-created-on-wrong-device",),
        "advice.module-list",
        guilty=kept[0] if kept else None,
        sure=sure,
    )


_REGISTERED = r"\bModule(?:List|Dict)\b|register_module|add_module"
"""What holds modules as it should: a text that names it may have changed to it."""

_MODULE_CLASS = r"\bnn\.[A-Z]|(?:Block|Layer|Conv\w{0,12}|Linear|Head|Net|Encoder|Decoder|LSTM|GRU|Attention|Expert|MLP|Module|Tower|Branch|Adapter)\("


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


def own_part_on_current(told: Told, report: Report) -> Reading | None:
    """A part of the program's own is put on the current GPU, beside a model that a map spreads."""
    placed = _PART_PLACED.search(told.text)
    if placed is None or not told.spread or len(gpus_met(told, report)) < _PAIR or not ends(told, report):
        return None
    reasons = (Phrase("because.told-part-on-current", operand=placed["name"], text=placed["move"]),)
    candidates = ("lm-head-or-tied-weight-split", "module-left-on-other-device")
    return Reading(
        "hard-coded-device", reasons, candidates, "advice.part-to-what-it-reads", guilty=placed["name"]
    )


_PART_PLACED = Pattern(
    r"\b(?P<name>[A-Za-z_]\w{0,40}) ?= ?[\w.]{0,40}\b[A-Z]\w{1,40}\([^()\n]{0,120}\)(?P<move>\.cuda\((?:\d)?\)|\.to\(['\"]cuda(?::\d)?['\"]\))"
)
"""A module that is made and sent to a GPU in one line."""
_PAIR = 2
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


_ADDS = r"(?:attach|add|creat|replac|register|assign|swap|append|insert)\w*"

_MOVES = r"(?:(?:model|net)\w*\.(?:to|cuda)\b|(?:model|\w{0,8}net|base|backbone|encoder) (?:is|was|has been|had been) (?:already )?(?:moved|sent|put|placed)|moving (?:the )?(?:model|net))"

_ADDED_LATER = rf"{_MOVES}[^.\n]{{0,40}}\bbefore\b[^.\n]{{0,40}}{_ADDS}|{_ADDS}[^.\n]{{0,60}}\bafter\b[^.\n]{{0,30}}{_MOVES}|{_MOVES}[^.\n]{{0,20}}(?:and then|then|之后|然后)[^.\n]{{0,30}}(?:{_ADDS}|替换|添加|加了)"


_ADAPTER_LATER = rf"(?:lora|adapter)s?\b[^.\n]{{0,30}}{_ADDS}[^.\n]{{0,60}}\bafter\b[^.\n]{{0,30}}{_MOVES}|{_MOVES}[^.\n]{{0,20}}(?:and then|then|之后|然后)[^.\n]{{0,30}}{_ADDS}[^.\n]{{0,20}}(?:lora|adapter)|{_ADDS} (?:\w+ ){{0,3}}(?:lora|adapter)\w*[^.\n]{{0,40}}\bafter\b[^.\n]{{0,30}}{_MOVES}"


def added_after_the_move(told: Told, report: Report) -> Reading | None:
    """A module came to the model when that had been moved already."""
    if moves_what_it_adds(told.text):
        return None
    stated = told.says(_ADDED_LATER)
    if not (stated or precedes(told.text, "move", "add")) or not fails(told, report):
        return None
    reasons, candidates = (Phrase("because.told-added-later"),), ("tensor-created-on-wrong-device",)
    if stated and told.says(_ADAPTER_LATER):
        others = ("module-left-on-other-device",)
        return Reading("adapter-weights-on-other-device", reasons, others)
    sure = stated or told.says(_NEW_MODULE)
    return Reading("module-left-on-other-device", reasons, candidates, sure=sure)


_NEW_MODULE = r"(?:model|net)\w{0,20}(?:\.\w{1,40}){1,4} ?= ?[\w.]{0,40}\b[A-Z]\w{1,40}\(|add_module\(|\bnew (?:\w+ ){0,2}(?:head|layer|module|classifier|block)|新(?:的)?[^，。\n]{0,4}(?:层|头|模块|分类器)"


_COPY_MOVED = (
    r"\bboth\b[^.\n]{0,30}(?:GPU|cuda|moved)|(?:两个|都)[^，。\n]{0,10}(?:搬|移|放|在)[^，。\n]{0,6}(?:GPU|cuda|显卡)|(?:ema\w{0,20}|teacher|target|shadow|copy)\b[^.,;\n]{0,20} (?:is|was|goes|sits|moved)\b[^.,;\n]{0,12}(?:on|to) (?:the )?(?:GPU|cuda)"
    r"|\b\w{0,20}(?:ema|teacher|target|shadow|copy|avg)\w{0,20}\.(?:to|cuda)\(|deepcopy\([^()\n]{0,40}\)\.(?:to|cuda)\("
)


def copied_before_the_move(told: Told, report: Report) -> Reading | None:
    """A copy of the model was made where the model was then, and the model was moved without it."""
    early = precedes(told.text, "copy", "move")
    if not early or told.says(_COPY_MOVED) or not fails(told, report):
        return None
    reasons, candidates = (Phrase("because.told-copied"),), ("tensor-created-on-wrong-device",)
    sure = len(_COPY.findall(told.text)) > _NAMED
    return Reading("module-left-on-other-device", reasons, candidates, "advice.copy-after", sure=sure)


_COPY = Pattern(
    r"\bema|_ema\b|teacher|target|shadow|momentum|averaged|\bcop(?:y|ies|ied)\b|clone|副本|教师|目标|影子|拷贝|复制",
    re.IGNORECASE | re.ASCII,
)
"""What a copy is called."""
_NAMED = 2
"""Words for it beyond which it is what the text asks about."""


_NO_BUFFER = r"should (?:be|have been) (?:a |registered as (?:a )?)?(?:\w+ )?buffers?|(?:\bno|\bnot|n'?t|never|without|instead of)[^.\n]{0,36}\bbuffer|plain (?:attribute|tensor)|普通(?:的)?(?:属性|张量)|没有?(?:注册|用)[^。\n]{0,10}buffer"

kept_as_an_attribute = when(
    _NO_BUFFER,
    Reading("tensor-created-on-wrong-device", (Phrase("because.told-no-buffer"),), ("hard-coded-device",)),
)
"""A tensor that the module keeps, and that is no buffer, stays where it was made."""


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
    return Reading("tensor-created-on-wrong-device", (reason,), others_, guilty=found["name"])


_INDEXED = Pattern(r"\b(?P<name>self\.\w{1,40})(?:\.(?:gather|index_select|take)\(|\[)[^\n]{0,60}")


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
    return Reading(cause, (reason,), (other,))


_OF_A_MODEL = r"\b\w*(?:model|module|net|convert\w*)\b|mat2|\bweights?\b"
_RETURNS_ON_HOST = Pattern(
    r"\b[\w.]{2,40}\(\)?`? (?:does(?:n'?t| not)|never) (?:return|give|produce)s? (?:a |an )?(?:cuda|GPU) tensor"
    r"|\b(?:does(?:n'?t| not)|do not|don'?t|without) pass(?:ing|ed)?\b[^.\n]{0,24}\b(?:through|on|along|down|device)\b|(?:在|于)\s?CPU\s?(?:上)?(?:计算|创建|生成|构造|初始化)"
    r"|\b[\w.]{2,40}\(\)?`? (?:always )?(?:returns|gives|produces|creates) (?:a |an )?(?:tensor on (?:the )?CPU|CPU tensor)",
    re.IGNORECASE | re.ASCII,
)
_COMPUTED_THERE = Pattern(
    r"\b(?:creates?|makes?|builds?|computes?|allocates?|generates?|initiali[sz]es?) (?:the |a |an |its )?`?[\w.]{1,40}`? on (?:the )?(?:CPU|host)\b|\b(?:\w+ ){0,2}(?:computed|created|made|generated|built|allocated|initiali[sz]ed|calculated|constructed) (?:only |always )?on (?:the )?(?:CPU|host)\b",
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
