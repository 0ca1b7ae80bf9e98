"""Modules that a program adds, copies or keeps where `.to` does not find them."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._code import modules_kept_in_containers, moves_what_it_adds
from samedevice.diagnosis.story._facts import (
    Reading,
    ends,
    fails,
    gpus_met,
)
from samedevice.diagnosis.story._steps import precedes
from samedevice.messages import Phrase

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
