"""What a function makes, or launches, on the current GPU though its arguments tell where it is needed.

Must guarantee: a text counts only where it says what is made there, that it is needed elsewhere, and whose
device it should have.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import OWN_KERNEL, RIGHT, Reading
from samedevice.messages import Phrase


def made_on_the_current(told: Told, report: Report) -> Reading | None:
    """A function puts what it makes on the current GPU, where it should follow a tensor that it is given."""
    if not any(each in told.evidence.lower() for each in _WORDS):
        return None
    sentences = told.sentences()
    for number, sentence in enumerate(sentences):
        found = _ON_CURRENT.search(sentence)
        launched = _LAUNCHES.search(sentence) is not None
        if found is None or not (launched or _MAKES.search(sentence) or found[0].startswith("torch.")):
            continue
        near = " ".join(sentences[max(0, number - 1) : number + 3])
        if not (_NOT_THERE.search(near) and _FOLLOWS.search(near)):
            continue
        reasons = (Phrase("because.told-on-current", text=found[0]),)
        if launched:
            return Reading("kernel-launched-on-current-device", reasons, ("hard-coded-device",))
        causes = ("tensor-created-on-wrong-device", "hard-coded-device")
        cause, other = causes[::-1] if found.lastgroup == "literal" else causes
        return Reading(cause, reasons, (other,))
    return None


_WORDS = ("current", "default", ".cuda()", "device", "当前", "默认")
"""One of these is in every such text."""
_ON_CURRENT = Pattern(
    r"(?:torch\.)?cuda\.current_device(?:\(\))?|\b(?:the |a )?(?:current|default|currently selected) (?:['\"`]?cuda['\"`]? |torch )?(?:device|GPU|card)\b|(?:当前|默认)(?:的)?\s?(?:卡|设备|GPU|显卡)"
    r"|(?P<literal>(?<![\w\])])\.cuda\(\)|\btorch\.\w{2,20}\([^()\n]{0,60}\)\.cuda\(\)|\bdevice ?= ?['\"]cuda(?::0)?['\"])",
    re.IGNORECASE | re.ASCII,
)
"""The GPU that is the current one, or one that is written down; `model.cuda()` moves what was made before."""
_MAKES = Pattern(
    r"\b(?:puts?|plac(?:e|es|ed|ing)|creat(?:e|es|ed|ing)|builds?|built|mak(?:e|es|ing)|made|allocat\w+|construct\w*|initiali[sz]\w+|generat(?:es|ed)|calls?)\b|建|创建|构造|生成|分配|放到",
    re.IGNORECASE | re.ASCII,
)
_LAUNCHES = Pattern(
    r"\b(?:launch\w*|runs?|start\w*|execut\w+)\b[^.\n]{0,20}\bkernels?\b|\bkernels?\b[^.\n]{0,20}\b(?:launch\w*|runs?|start\w*|execut\w+)\b|(?:kernel|核函数|算子)[^。，\n]{0,8}(?:启动|运行|跑|launch)|(?:启动|运行|launch)[^。，\n]{0,8}(?:kernel|核函数|算子)",
    re.IGNORECASE,
)
_FOLLOWS = Pattern(
    r"\b(?!torch|cuda|self|the|model|args)[a-z]\w{0,30}\.device\b(?!\s?\()|\bwhere (?:the |its |their )?[\w ]{1,24} (?:is|are|lives?|sits?|lie)\b|\bon (?:that|those) of (?:the|its)\b|\b(?:device|GPU|card) (?:of|that holds) (?:the|its|what|those|both|all)\b|\b\w{2,20}(?:'s|s') (?:own )?(?:device|GPU|card)\b|\b(?:take|use|follow|inherit)s? (?:their|its|the same|the) (?:device|GPU)\b"
    r"|\b(?:hidden states|inputs?|tensors?|lengths|caller)\b[^.\n]{0,40}(?:\b(?:may|might|can|could) (?:\w+ ){0,2}(?:be|live|sit|lie)\b|\bon (?:another|cuda:[1-9]|card [1-9]|GPU [1-9]))|\b(?:tensors?|inputs?|arguments?) (?:are|is) not on\b|所在的?(?:卡|设备|GPU)|用[^。，\n]{0,10}的(?:设备|device|卡)|(?:跟|和|与|同)(?:着|随)?[^。，\n]{0,12}(?:设备|卡|device)(?:一致|相同|一样|走)|\b\w{1,20} (?:is|are|lives?|sits?) on (?:the )?(?:GPU|card|cuda:) ?[1-9]",
    re.IGNORECASE | re.ASCII,
)
"""The device of a tensor that is at hand, which it should have."""
_NOT_THERE = Pattern(
    r"(?:\bnot\b|n['’]t\b|\bnever\b)[^.\n]{0,12}(?:always |necessarily |the )|\b(?:another|other|different|wrong|second) (?:device|GPU|card)\b|\bmay (?:well )?(?:be|live|sit)\b|\b(?:instead of|rather than)\b|\bshould\b|\bwould be right\b|\b(?:wrong|mismatch\w*)\b"
    r"|\b(?:fails?|raises?|breaks?)\b|\breplac\w+|\bchang(?:e|ed|ing) (?:it |that )?to\b|不一定|而不是|应该|应当|不在|不是|别的卡|另一(?:张|块)|改(?:成|为)|换成|报错",
    re.IGNORECASE,
)
"""That this is not where it is needed."""


def kernel_on_the_first(told: Told, report: Report) -> Reading | None:
    """An operator with a kernel of its own works on the first GPU alone, or is seen there while all that it is
    given is on another one.
    """
    if told.spread or not told.says(_KERNEL) or not told.says(_ANOTHER):
        return None
    if not (told.says(_USED_THERE) or (_ended_elsewhere(told) and told.says(_FIRST_GOES))):
        return None
    if len(set(told.met) - {"cuda"}) > 1:
        return None  # two tensors that did meet
    reasons = (Phrase("because.told-kernel-on-first"),)
    return Reading("kernel-launched-on-current-device", reasons, ("hard-coded-device",))


def _ended_elsewhere(told: Told) -> bool:
    return told.ended or told.says(r"\bget\b[^.\n]{0,20}\bthis\b|illegal|\bwrong\b|\bnan\b|不对")


_FIRST_ONE = r"(?:\b(?:first|default|zeroth) (?:one|GPU|card|device)\b|\b(?:GPU|card|device) ?#?0\b|\bcuda:0\b|0 ?号(?:卡|GPU)?|第一(?:张|块)(?:卡|GPU)?)"
_ANOTHER = r"(?:\b(?:second|other|another|last|third) (?:one|GPU|card|device)\b|\b(?:GPU|card|device) ?#?[1-9]\b|\bcuda:[1-9]|\.cuda\([1-9]\)|[1-9] ?号(?:卡|GPU)?|第二(?:张|块)(?:卡|GPU)?)"
_KERNEL = rf"{OWN_KERNEL}|\btriton\b|\bcompiled? (?:\w+ )?(?:op\w*|kernels?|extension|code)\b|\bcuda (?:code|source|kernels?|ops?)\b|\bfused\b|<<<|算子|编译的"
_USED_THERE = rf"{_FIRST_ONE}[^.。\n]{{0,40}}(?:\bmemory\b|\bMiB\b|\bMB\b|显存|占用)|(?:\bmemory\b|显存|占用)[^.。\n]{{0,24}}{_FIRST_ONE}"
"""The first GPU is touched."""
_FIRST_GOES = rf"(?:{RIGHT}|\bgoes\b|\bruns\b)[^.;。；\n]{{0,30}}{_FIRST_ONE}|{_FIRST_ONE}[^.;。；\n]{{0,40}}(?:{RIGHT}|\bgoes\b|\bruns\b)"
