"""Inputs, and weights that were not moved with them."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis.paste import THING, Pattern, Report, Told
from samedevice.diagnosis.story._code import dropped_moves, encodings_as_they_are
from samedevice.diagnosis.story._facts import Reading, ends, fails, in_parts, placed_at, when
from samedevice.findings import Confidence
from samedevice.messages import Phrase

_CONTAINER = (
    r"\b(?:lists?|tuples?|dict\w*|nested)\b[^.\n]{0,80}(?:not moved|never moved|stays?|left|skipped)"
    r"|(?:不能|没法|无法|并不|不会)[^。\n]{0,8}(?:把|将)\s?(?:List|Tuple|Dict|list|tuple|dict)\b|(?:列表|元组|字典)[^\n]{0,40}(?:不是 ?Tensor|没有?搬|不会搬|留在|原样)"
)

list_left = when(_CONTAINER, Reading("extra-input-on-wrong-device", (Phrase("because.told-container"),)))
"""What a helper moves only where it is a tensor itself: lists and dictionaries stay."""


def result_thrown_away(told: Told, report: Report) -> Reading | None:
    """`x.to(device)` by itself, and `x` is used as it was: only modules are moved in place."""
    stated = told.says(_THROWN_AWAY) and told.says(_MOVE_CALL) and ends(told, report)
    names = dropped_moves(told.text, stated=stated)
    names = tuple(name for name in names if not _MODEL_NAME.fullmatch(name))
    if not (names or stated):
        return None
    if report.devices[:1] == ("cuda",) or any(each != "cpu" for each in told.devices_of("ids", "tensor")):
        return None  # the input did arrive
    roles = [thing.lastgroup if (thing := THING.fullmatch(name)) else None for name in names]
    labels = bool(roles) and set(roles) == {"labels"}
    cause = "loss-or-label-on-other-device" if labels else "input-not-on-embedding-device"
    guilty = next((name for name, role in zip(names, roles, strict=True) if labels or role != "labels"), None)
    candidates = ("extra-input-on-wrong-device", "module-left-on-other-device")
    reasons = (
        Phrase("because.told-dropped", thing=guilty) if guilty else Phrase("because.told-thrown-away"),
    )
    sure = bool(names) and (stated or told.says(_WRITTEN_AS_IS))
    outranks: tuple[Confidence, ...] = ("guess",) if sure else ()
    return Reading(cause, reasons, candidates, "advice.keep-result", guilty, sure, outranks)


_WRITTEN_AS_IS = r"(?:\A|\n)[ \t]{0,40}[\w.]{1,60}\.(?:to|cuda)\([^()\n]{0,60}\)[ \t]{0,40}(?:#|\n|\Z)|\w ?= ?[\w.]{1,80}\(|\bline\b|still (?:on )?(?:the )?cpu|一行|还是 ?cpu|还在 ?cpu"
"""What tells that code is quoted word for word, or that the tensor stayed."""


_THROWN_AWAY = r"instead of \w+ ?= ?\w+\.(?:to|cuda)\(|(?:没有?|应该)写成 ?\w+ ?=|(?:without|not|never|forgot(?:ten)? to|instead of) (?:re-?)?(?:assign|sav|stor|keep|us)\w*[^.\n]{0,24}(?:result|return|back|it\b)|(?:throw|threw|drop|ignor|discard)\w*[^.\n]{0,16}(?:result|return)|(?:没有?|忘了|未)[^，。\n]{0,8}(?:赋值|赋回|接收|接住|保存返回)|返回值[^，。\n]{0,8}(?:没|丢)"

_MODEL_NAME = Pattern(
    r"\w*(?:model|net|module|encoder|decoder|backbone|student|teacher|criterion|loss|policy|agent|critic)\w*",
    re.IGNORECASE,
)

_MOVE_CALL = r"\.(?:to|cuda)\("


def inputs_not_sent(told: Told, report: Report) -> Reading | None:
    """The model is moved, and what the tokenizer returns, or the data, goes in as it is."""
    encoded = encodings_as_they_are(told.text)
    if not (encoded or told.says(rf"{_TOKENIZED}|{_NOTHING_DONE}")):
        return None
    if not (told.says(_MODEL_MOVED) and fails(told, report)):
        return None
    reasons, candidates = (Phrase("because.told-not-sent"),), ("module-left-on-other-device",)
    return Reading(
        "input-not-on-embedding-device", reasons, candidates, guilty=encoded[0] if encoded else None
    )


_NOTHING_DONE = r"(?:did not|without|never)[^.\n]{0,20}(?:anything|something|nothing|move\w*|touch\w*)[^.\n]{0,20}(?:data|inputs?|batch\w*|images?)\b|(?:数据|输入)[^。\n]{0,6}(?:没动|没管|没有?处理)"

_TOKENIZED = r"tokeni[sz]er\w*\((?:[^()\n]|\([^()\n]*\)){0,200}\)(?!\.to|\.cuda)(?![^\n]{0,60}\.to\()|(?:tokeni[sz]er|processor)[^.\n]{0,20}(?:returns?|gives?)[^.\n]{0,20}cpu"

_MODEL_MOVED = r"(?:model|net\w*)\b[^.\n]{0,30}(?:on|to) the (?:cuda|gpu|card)|(?:model|net\w*)\b[^\n]{0,30}\.cuda\(\)|\bmodel\w*\.(?:to\(|cuda\()|\bmodel\w* ?= ?[^\n]{0,80}\)\.(?:to\(|cuda\()|model[^.\n]{0,20}(?:is|sits|runs|lives) on (?:the )?(?:cuda|GPU)|模型[^。\n]{0,8}(?:在|到)\s?(?:cuda|GPU|显卡)|(?:加载|放|移|搬)(?:到|在)\s?(?:cuda|GPU|显卡)|\bload\w*[^.\n]{0,30}(?:on|to|onto) (?:the )?(?:cuda|GPU)"


def never_moved(told: Told, report: Report) -> Reading | None:
    """The text says itself what was never moved."""
    if not told.left or not (fails(told, report) or (told.ended and report.kind == "unknown-message")):
        return None
    role, word = told.left[0]
    if role == "tensor" and report.kind == "input-weight-type":
        return None  # the message itself tells which side it is
    role = "model" if role == "tensor" and _MODULE.fullmatch(word) else role
    role = "labels" if _OF_A_LOSS.search(word) else role
    reasons = (Phrase("because.told-never-moved", thing=word),)
    return Reading(
        _LEFT_AS.get(role, "extra-input-on-wrong-device"), reasons, ("module-left-on-other-device",)
    )


_MODULE = Pattern(
    r"[\w.]*(?:norm|conv\w{0,12}|linear|heads?|layers?|block|net|modules?|encoder|decoder|mlp|attention|projection|proj)",
    re.IGNORECASE,
)
"""What a module is called."""
_OF_A_LOSS = Pattern(r"loss\b|criterion", re.IGNORECASE)
_LEFT_AS = {
    "labels": "loss-or-label-on-other-device",
    "model": "module-left-on-other-device",
    "weights": "module-left-on-other-device",
    "adapter": "adapter-weights-on-other-device",
    "ids": "input-not-on-embedding-device",
    "optimizer": "optimizer-state-on-other-device",
    "rotary": "rope-table-on-wrong-device",
    "cache": "cache-or-beam-state-on-wrong-device",
}
"""The cause, by what was not moved."""


def part_remains(told: Told, report: Report) -> Reading | None:
    """Something that has the name of a class is told to stay on the host."""
    found = _REMAINS.search(told.text)
    if found is None or not (ends(told, report) or fails(told, report)):
        return None
    reason = Phrase("because.told-remains", thing=found["name"])
    others = ("tensor-created-on-wrong-device",)
    return Reading("module-left-on-other-device", (reason,), others, guilty=found["name"], sure=False)


_REMAINS = Pattern(
    r"`(?P<name>(?:[A-Z][a-z0-9]{1,30}){2,6}?)s?`s?\b[^.\n]{0,50}\b(?:remains?|stays?|(?:is|are|was|were) (?:still|left|kept))\b[^.\n]{0,12}\bon (?:the )?(?:CPU|cpu|host)\b"
)


def one_left(told: Told, report: Report) -> Reading | None:
    """One of the things that meet is on the host, and another one on a GPU."""
    left = next((role for role in ("mask", "extra", "ids", "tensor") if "cpu" in told.devices_of(role)), None)
    there = any(device.startswith("cuda") for _, _, device in told.places)
    if left is None or not there or not ends(told, report):
        return None
    named = dict(report.operands).get("input") == "cpu"
    if left == "ids" and (
        named or any(each != "cpu" for each in told.devices_of("model", "weights", "embedding"))
    ):
        reasons = (placed_at(told, "ids"),)
        return Reading("input-not-on-embedding-device", reasons, ("extra-input-on-wrong-device",), sure=False)
    made = any(
        _HELPER.fullmatch(word) for _, word, device in (*told.places, *_operands(report)) if device == "cpu"
    )
    if made or any(_kept(told, word) for _, word, device in told.places if device == "cpu"):
        others = ("module-left-on-other-device",)
        return Reading("tensor-created-on-wrong-device", (placed_at(told, left),), others, sure=False)
    candidates = ("tensor-created-on-wrong-device",)
    return Reading("extra-input-on-wrong-device", (placed_at(told, left),), candidates, sure=False)


_HELPER = Pattern(
    r"(?:position(?:al)? )?encodings?|grids?|anchors?|offsets?|strides?|pe|condition", re.IGNORECASE
)
"""What a module mostly makes itself."""


def _operands(report: Report) -> tuple[tuple[str, str, str], ...]:
    return tuple(("tensor", name, device) for name, device in report.operands)


def _kept(told: Told, word: str) -> bool:
    """Whether a thing is written as what a module keeps, which goes where that goes if it is a parameter or buffer."""
    return told.mentions(rf"\b(?:self|model|net|module)\.(?:\w+\.){{0,3}}{re.escape(word)}\b")


def extra_input_left(told: Told, report: Report) -> Reading | None:
    reason: Phrase | None = None
    if "cpu" in told.devices_of("extra") or told.apart(("extra",), ("ids",)):
        reason = placed_at(told, "extra")
    elif told.says(_POSITIONS) and fails(told, report):
        reason = Phrase("because.told-positions")
    if reason is None:
        return None
    return Reading(
        "extra-input-on-wrong-device", (reason,), ("tensor-created-on-wrong-device",), "situation.s3"
    )


_POSITIONS = (
    r"get_rope_index|(?:rotary|rope)[\w -]{0,24}position|position[\w -]{0,24}(?:rotary|rope|index)|位置编码"
)


def embedding_meets_ids(told: Told, report: Report) -> Reading | None:
    """The text shows the line in which an embedding is called with ids, as the one that fails where the model is on
    several GPUs.
    """
    found = _EMBEDS.search(told.text)
    if found is None or not ends(told, report) or not (in_parts(told) or fails(told, report)):
        return None
    reason = Phrase("because.line", text=found[0])
    others = ("embedding-streams-on-different-devices",)
    return Reading("input-not-on-embedding-device", (reason,), others, "situation.s2", sure=False)


_EMBEDS = Pattern(
    r"\b(?:\w*embed\w*|get_input_embeddings\(\)|wte)\(\s?\w{0,20}(?:ids|tokens)\b[^\n]{0,20}\)",
    re.IGNORECASE | re.ASCII,
)


def inputs_elsewhere(told: Told, report: Report) -> Reading | None:
    if not told.apart(("embedding",), ("ids",)):
        return None
    return Reading(
        "input-not-on-embedding-device",
        (placed_at(told, "embedding"), placed_at(told, "ids")),
        ("embedding-streams-on-different-devices",),
        "situation.s2",
    )


def weights_left(told: Told, report: Report) -> Reading | None:
    """Weights on the host, and what goes in on a GPU."""
    if "ids-warning" in (report.kind, *report.earlier):
        return None  # the ids are what the message is about
    gpu = [each for each in told.devices_of("ids", "extra", "tensor") if each != "cpu"]
    if "cpu" not in told.devices_of("weights", "model") or not gpu or not fails(told, report):
        return None
    return Reading("module-left-on-other-device", (placed_at(told, "weights", "model"),))


def still_on_the_host(told: Told, report: Report) -> Reading | None:
    """The model, or its weights, are told to be on the host still."""
    if not told.says(_STILL_THERE) or not ends(told, report):
        return None
    return Reading("module-left-on-other-device", (placed_at(told, "weights", "model"),))


_STILL_THERE = r"\b(?:model|weights?|module|network|parameters)\b[^.,;\n]{0,24}\b(?:is|are|remains?|stays?)\b[^.,;\n]{0,12}\bstill\b[^.,;\n]{0,6}\b(?:in|on) (?:the )?cpu\b|\b(?:model|weights?|module|network|parameters)\b[^.,;\n]{0,24}\bstill (?:in|on) (?:the )?cpu\b|(?:模型|权重|参数)[^，。\n]{0,6}(?:还|仍)(?:然|旧)?(?:是)?在\s?CPU"


first_gpu_kept_free = when(
    r"balanced_low_0",
    Reading(
        "input-not-on-embedding-device",
        (Phrase("because.told-low-0"),),
        ("device-map-incomplete-or-wrong", "hard-coded-device"),
    ),
)
"""The map leaves the first GPU to whoever generates, so the embedding is on another one."""
