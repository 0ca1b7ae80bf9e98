"""A change that a text says helped: what it moves had been in the wrong place.

Must guarantee: a change counts only where the text says that it works with it, or that it should be made; what
was tried in vain, and what is only asked about, does not.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases; Chinese has its own punctuation

from __future__ import annotations

import re

from samedevice.diagnosis.paste import THING, Pattern, Report, Told
from samedevice.diagnosis.story._facts import ABOVE_LINES, GOES, Reading, ends
from samedevice.messages import Phrase

_FLAGS = re.IGNORECASE | re.ASCII
_CURED = (
    r"\b(?:fix(?:ed|es)|solv(?:ed|es)|cur(?:ed|es)|resolv(?:ed|es)|help(?:ed|s)|gone|disappear\w*|go(?:es)? away|went away|did (?:it|the trick)|does the trick|no longer|makes? it (?:work|run|go)|made it (?:work|run|go)|my (?:fix|patch|workaround|solution))\b"
    r"|\b(?:that|this) (?:is|was) (?:it|the (?:fix|solution|reason|cause|culprit|missing (?:line|step)))\b|解决|就(?:行|可以|能|不报|没)|没了|消失|不再报|搞定|跑通|能跑|修好|好使|work了"
)
_HELPED = Pattern(rf"{GOES}|{_CURED}", _FLAGS)
_SOLVED = Pattern(_CURED, _FLAGS)
_ACT = Pattern(
    r"\b(?:add(?:ed|ing|s)?|insert\w*|after|when I|once I|as soon as I|if I|if (?:you|we)|by|chang(?:e|ed|ing)|modif\w+|edit(?:ed|ing)|patch(?:ed|ing)|replac\w+|manual\w*|explicit\w*|had to|have to|need(?:ed|s)? to|should|must|fix|solution|workaround|instead)\b"
    r"|加(?:了|上|一)|补(?:了|上|一)|改(?:成|为|了)|换成|手动|之后|以后|需要|应该|只要",
    _FLAGS,
)
"""That something is done which was not done before."""
_FAILED = Pattern(
    r"\b(?:not|never|neither|nothing|cannot|still|only|except)\b[^.\n]{0,24}\Z|没(?:有)?[^，。\n]{0,3}\Z|不(?!再|报)[^，。\n]{0,3}\Z|还是[^，。\n]{0,6}\Z",
    _FLAGS,
)
"""What before such words turns them round."""
_ASKED = Pattern(r"\?\s*\Z|？\s*\Z|吗[？?]?\s*\Z")
_SENTENCE = Pattern(r"(?<=[。！？!?\n])|(?<=\.)(?=\s)")
_MOVED_IN_CODE = Pattern(
    r"(?<![\w.\]])(?P<name>[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,40}|\[[^\]\n]{1,20}\]){0,5})\.(?:to\((?!\s?(?:torch\.(?!device)|['\"]cpu|dtype))[^()\n]{0,60}(?:\([^()\n]{0,40}\)[^()\n]{0,20})?\)|cuda\([^()\n]{0,20}\))",
    _FLAGS,
)
_MOVED_IN_WORDS = Pattern(
    r"\b(?:mov(?:e|ed|es|ing)|put(?:s|ting)?|sen(?:d|ds|t|ding)|push(?:ed|ing)?|transfer(?:red|ring)?|plac(?:e|ed|ing))\s(?P<what>[^.,;:!?\n]{2,60}?)\s(?:back\s)?(?:to|on|onto)\s(?:the\s|a\s|its\s|my\s|that\s|one\s)*(?:same\s|right\s|correct\s|GPU|cuda|device\b|card\b|\w+(?:'s|s')\s(?:device|GPU)|\w+\.device)"
    r"|(?:把|将)\s?(?P<zh>[^，。；\n]{1,30}?)\s?(?:也|都|再|手动|先|一起)*\s?(?:搬|移|放|送|挪|转|丢|扔)(?:到|去|进|至|上)\s?[^，。；\n]{0,12}?(?:GPU|cuda|显卡|显存|设备|device|卡)",
    _FLAGS,
)
_MODULE = Pattern(
    r"(?:\w*_)?(?:model|net|network|module|encoder|decoder|backbone|tower|projector|generator|discriminator|vocoder|vae|unet|transformer|resampler|extractor|detector|classifier|layers?|blocks?|head|norm|conv\w{0,4}|linear|proj|mlp|critic|actor|policy|agent|teacher|student|criterion|loss_fn|bert|clip|pipe(?:line)?)s?\d{0,2}",
    _FLAGS,
)
"""What a module is called."""
_GIVEN = Pattern(
    r"x|xs?|obs\w{0,10}|states?|imgs?|images?|batch\w{0,8}|data|samples?|text\w{0,6}|tokens?|\w*tokeni[sz]ed\w*|\w*encod(?:ing|ed)s?|\w*inputs?|features?|数据|图片|图像|输入",
    _FLAGS,
)
"""What the data that a model is called with are called."""
_TARGET = Pattern(r"y|ys|gt|\w*(?:labels?|targets?|truths?)|(?:pos|class|loss)_?weights?|标签|目标", _FLAGS)
_CAUSES = {
    "labels": "loss-or-label-on-other-device",
    "model": "module-left-on-other-device",
    "weights": "module-left-on-other-device",
    "embedding": "module-left-on-other-device",
    "vision": "extra-input-on-wrong-device",
    "adapter": "adapter-weights-on-other-device",
    "ids": "input-not-on-embedding-device",
    "optimizer": "optimizer-state-on-other-device",
    "rotary": "rope-table-on-wrong-device",
    "cache": "cache-or-beam-state-on-wrong-device",
    "outputs": "loss-or-label-on-other-device",
}
"""The cause, by what had to be moved; of another tensor nobody tells whether it was made there or handed over."""
_OTHERS = {
    "module-left-on-other-device": ("tensor-created-on-wrong-device",),
    "input-not-on-embedding-device": ("extra-input-on-wrong-device",),
    "loss-or-label-on-other-device": ("extra-input-on-wrong-device",),
}
_FAR = 2
"""Sentences behind a change in which it is told that it helped."""


def helped_by_a_move(told: Told, report: Report) -> Reading | None:
    """A move of which the text says that it works since."""
    if told.launched and told.spread:
        return None
    sentences = [each for each in _SENTENCE.split(told.evidence) if each.strip()]
    for number, whole in enumerate(sentences):
        sentence = whole[: max(map(whole.rfind, ",，;；")) + 1] if _ASKED.search(whole) else whole
        led_in = number and sentences[number - 1].rstrip().endswith((":", "："))
        changed = _ACT.search(sentence) or (led_in and _ACT.search(sentences[number - 1]))
        behind = sentences[number + 1 : number + 1 + _FAR] if changed else []
        if _OF_ANOTHER_RUN.search(sentence) or not _helped(sentence, _HELPED if changed else _SOLVED, behind):
            continue
        solved = _SOLVED.search(" ".join((sentence, *behind))) is not None
        for name in _moves(sentence):
            return _reading(name, told, report, solved=solved)
    return None


_OF_ANOTHER_RUN = Pattern(
    r"\b(?:one|a single|single|1) (?:GPU|card)\b|\bon (?:the )?CPU\b|\b(?:until|but|only|except|then)\b|单卡|直到|但",
    _FLAGS,
)
"""That it is told of what worked before, or elsewhere."""


def _moves(sentence: str) -> list[str]:
    """What a sentence moves, by its name or in its words."""
    in_code = [each["name"] for each in _MOVED_IN_CODE.finditer(sentence)]
    return in_code or [each["what"] or each["zh"] for each in _MOVED_IN_WORDS.finditer(sentence)]


def _helped(sentence: str, words: Pattern, behind: list[str]) -> bool:
    """Whether a change is said to help, by these words of its own sentence or in one of the next ones."""
    if any(not _FAILED.search(sentence, 0, each.start()) for each in words.finditer(sentence)):
        return True
    for each in behind:
        if _MOVED_IN_CODE.search(each) or _ASKED.search(each):
            return False
        found = _HELPED.search(each)
        if found is not None:
            return _FAILED.search(each, 0, found.start()) is None
    return False


def _reading(name: str, told: Told, report: Report, *, solved: bool) -> Reading | None:
    if not ends(told, report):
        return None
    role = _role(name)
    cause = _CAUSES.get(role or "")
    reasons = (Phrase("because.told-helped", thing=name.strip()),)
    outranks = ABOVE_LINES if solved else ABOVE_LINES[:1]
    if cause is None:
        others = ("extra-input-on-wrong-device", "module-left-on-other-device")
        return Reading(
            "tensor-created-on-wrong-device", reasons, others, guilty=name, sure=False, outranks=outranks
        )
    return Reading(cause, reasons, _OTHERS.get(cause, ()), guilty=name, outranks=outranks)


def _role(name: str) -> str | None:
    """What kind of thing it is that a name, or words, are about; the last word decides."""
    words = re.findall(r"[A-Za-z_]\w*|[\u4e00-\u9fff]+", name)
    for word in reversed(words):
        if _TARGET.fullmatch(word):
            return "labels"
        if _MODULE.fullmatch(word):
            return "model"
        thing = THING.fullmatch(word)
        if thing is not None and thing.lastgroup != "tensor":
            return thing.lastgroup
        if _GIVEN.fullmatch(word):
            return "ids"
    thing = THING.search(name)
    return thing.lastgroup if thing is not None and thing.lastgroup != "tensor" else None
