"""What conditions on prose share: the reading that they give, and what counts as a failure."""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samedevice.diagnosis._rule import MAPPED
from samedevice.diagnosis.paste import Report, Told
from samedevice.findings import Confidence
from samedevice.messages import Phrase

LEAST_WORDS = 8
"""Words from which a text is prose."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A cause that the stated facts amount to."""

    cause: str
    reasons: tuple[Phrase, ...]
    candidates: tuple[str, ...] = ()
    situation: str | None = None
    """The sentence with the advice of the situation that it is."""
    guilty: str | None = None
    """The operand that is in the wrong place."""
    sure: bool = True
    """False where the facts leave others nearly as likely."""
    outranks: tuple[Confidence, ...] = ()
    """How sure a judgement of printed lines may be that it stands against: what somebody chose, or changed with
    success, no printed line tells.
    """


ABOVE_LINES: tuple[Confidence, ...] = ("guess", "likely")
"""All but what has one cause."""
Condition = Callable[[Told, Report], Reading | None]


def states_devices(told: Told) -> bool:
    """Whether prose puts two things on devices that are not the same one, or tells of two that met."""
    on_host = {word for _, word, device in told.places if device == "cpu"}
    on_gpu = {word for _, word, device in told.places if device == "cuda"}
    return (
        len({*told.met} - {"cuda"}) > 1
        or (told.ended and bool(on_host and on_gpu and not on_host & on_gpu))
        or len({device for _, _, device in told.places} - {"cuda"}) > 1
        or told.apart(("cache",), ("keys",))
    )


def placed_at(told: Told, *roles: str) -> Phrase:
    devices = told.devices_of(*roles)
    return Phrase("because.told-placed", thing=told.named(*roles), device=devices[0] if devices else "?")


def fails(told: Told, report: Report) -> bool:
    """Whether a device error is told: by a message, by two stated devices, or in words."""
    argument = any(word.lower() in _ARGUMENTS for _, word, _ in told.places)
    return worded(report) or bool(told.met) or argument or states_devices(told) or told.mentions(MEETS)


_ARGUMENTS = frozenset(("mat1", "mat2", "index", "indices"))
"""Words of torch's messages: who says where one of these is, tells of such a message."""


def devices_met(told: Told, report: Report) -> set[str]:
    """The devices that met, by the prose and by the message that it quotes."""
    return {*told.met, *report.devices}


def gpus_met(told: Told, report: Report) -> set[str]:
    """Those of them that are GPUs, with their numbers."""
    return {each for each in devices_met(told, report) if each.startswith("cuda:")}


MEETS = (
    r"(?:is|are) (?:on )?(?:the )?(?:cuda|gpu)\b[,;]? (?:and |but )?(?:the |my )?\w{1,30} (?:is|are) not\b|devices? (?:error|mismatch)|complain\w* about the device|(?:the two|they|devices) do not match|devices? (?:meet|met|differ|conflict|(?:are|is|get) mixed)|expected [^.\n]{0,40}(?:cuda|gpu)\b[^.\n]{0,20}(?:got|found|is|on) (?:on )?cpu"
    r"|\bsome(?: \w+){0,2} (?:are |is )?(?:still )?on (?:the )?(?:cpu|gpu|cuda)\b[^.\n]{0,16}\b(?:some|others?|the rest)\b[^.\n]{0,16}(?:cpu|gpu|cuda)\b|\bmix(?:ed|es|ing|ture of)? (?:of )?(?:cpu|gpu|cuda) (?:and|with|/) (?:cpu|gpu|cuda)\b"
    r"|(?:cuda|gpu) and (?:the )?cpu are mixed|(?:cuda|gpu) (?:tensor )?[^.\n]{0,30}(?:weights?|parameters?|model) (?:is|are) not|不在(?:同)?一(?:个|张|块)?\s?(?:设备|卡|GPU)|mismatch\w* (?:of |in )?devices?|same (?:device|GPU|card)\b|(?:different|two|separate) devices|\b(?:on|across|over|to|at|from|between|are) (?:several|multiple) devices|different (?:cards?|GPUs?)\b(?! (?:numbers?|counts?|models?))"
    r"|(?:\bnot|never) (?:all |both )?(?:on|at) (?:one|a single|the same) (?:device|GPU|card)\b"
    r"|设备(?:不一致|不匹配|不同|对不上|冲突)|同一(?:个|张|块)?(?:设备|卡|GPU)|不同(?:的)?\s?(?:设备|卡上|GPU|显卡)|跨设备|两个设备"
)
"""Words by which people say that tensors met on several devices."""


def ends(told: Told, report: Report) -> bool:
    """Whether an error is told, of whatever kind: by a message or in words."""
    return told.ended or worded(report)


def worded(report: Report) -> bool:
    """Whether the text has the words of an error that is known."""
    return report.topic is None and report.kind not in ("unknown-message", "no-exception")


def when(pattern: str, reading: Reading, error: Callable[[Told, Report], bool] | None = fails) -> Condition:
    """The condition that prose says this and tells of an error, by `error`, if of any; it has one reading."""

    def condition(told: Told, report: Report) -> Reading | None:
        return reading if told.says(pattern) and (error is None or error(told, report)) else None

    return condition


GOES = r"(?:\bworks?\b|\bworked\b|\bfine\b(?![- ]?tun)|\bok\b|\btrains\b|\bruns\b|\bran\b|no (?:problem|error)s?\b|(?:does not|did not) (?:happen|fail|occur)|没问题|没事|正常|不报错|就好了)"

FIRST = r"(?:cuda:0\b|\bdevice 0\b|default `?cuda\b|GPU ?#?0\b|gpu_?id ?= ?0\b|card 0\b|first GPU|(?<!\d)0 ?号?(?:卡|GPU)|默认(?:的)?(?:卡|GPU))"

RIGHT = r"(?:\bworks?\b|\bfine\b(?![- ]?tun)|\bok\b|\bright\b|\bcorrect\b|no (?:problem|error)|没问题|没事|正常|可以)"

OWN_KERNEL = r"CUDA (?:C\+\+ )?extensions?|\bextension\b|cpp_?extension|custom (?:CUDA )?(?:op\w*|kernels?)|triton kernels?|our (?:own )?kernels?|(?:自定义|自己写的)(?:CUDA)? ?(?:算子|kernel|核函数)"


NOT_ON_FIRST = rf"(?:\bunless\b|\bexcept (?:for|on|with)\b|\bother than\b|\bif (?:it is )?not\b)[^.\n]{{0,24}}{FIRST}|\b(?:different|another|other) (?:GPU|card|device)s?\b[^.\n]{{0,16}}\b(?:than|but) (?:the )?(?:default|first)|\bchang\w+ [^.\n]{{0,24}}['\"`]cuda(?::0)?['\"`] (?:to|into) ['\"`]?cuda:[1-9]|(?:不是|除了|除|非|不在|换成其他)[^。\n]{{0,6}}{FIRST}|\b(?:if|when|whenever)\b[^.\n]{{0,30}}\b(?:is|are) not [`'\"]?{FIRST}"


def in_parts(told: Told) -> bool:
    """Whether the layers of the model are on several GPUs."""
    return told.spread or told.says(rf"{MAPPED}|{SPLIT}")


SPLIT = r"(?:spread|split|sharded|distributed|divided) (?:over|across|between|among|onto)|\bover (?:two|three|four|several|\d) (?:GPUs|cards)|model[ _]parallel\w*|\b(?:with|w/|on) (?:2|two|three|four|several) (?:cards|GPUs)\b|\bparallelize\(|pipeline parallel\w*|均分|切分|拆分|拆到|分到|双卡|两张卡|(?:两|多|四)卡"

RESUMED = r"(?:load|restor)\w*[^.\n]{0,30}(?:optimi[sz]er|optim\b)|\bresum\w+|start(?:ed)? it again|(?:last|saved|previous) checkpoint|from a saved|断点|续训|恢复训练|second time"
