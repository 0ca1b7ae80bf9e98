"""What a text says it works without: the fault is with what is taken away in the run that works.

Must guarantee: the contrast is stated in one sentence, of this thing, and not of an attempt in vain.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases; Chinese has its own punctuation

from __future__ import annotations

import re

from samedevice.diagnosis.paste import Pattern, Told
from samedevice.diagnosis.story._facts import GOES, RIGHT

_FLAGS = re.IGNORECASE | re.ASCII
_GOOD = Pattern(
    rf"{GOES}|{RIGHT}|\banswers?\b|\bgood\b|\bgone\b|\bdisappears?\b|\bpasses\b|好了|能用|能跑|是好的|都好|消失",
    _FLAGS,
)
_GOOD_BEFORE = Pattern(rf"(?:\b\w{{1,12}}(?:'t)? )?(?:{_GOOD.text})[^.,;，；\n]{{0,24}}\Z", _FLAGS)
"""It is good, with the word before, at the end of what stands before a thing."""
_BAD = Pattern(r"\bnot?\b|\bnever\b|\bfails?\b|\berrors?\b|不|报错", _FLAGS)
_NEAR = 50
"""Characters within which it is told of a thing that it is good."""
_TAKES = r"(?:\bwithout\b|\bwith no\b|\bremov\w+|\bunload\w*|\bdisabl\w+|\bturn\w* off|\bdrop\w*|\btak(?:e|es|ing) (?:off|out|away))"
_AWAY = r"(?:\baway\b|\bremoved\b|\bunloaded\b|\bdisabled\b|\bturned off\b)"
_TAKES_ZH = r"(?:去掉|去除|不加载|不挂载?|不用|不带|不开|卸载|卸掉|关掉|关闭|移除)"
_PARTS = r"(?:\b(?:tensor|pipeline|model)[- ]parallel\w*|\bsharded\b|\bsplit\b|\bspread\b|\b(?:two|three|four|eight|several|my|all|both|\d) (?:\w+ ){0,2}(?:cards|GPUs)\b|双卡|多卡|两张卡|(?:拆|切)(?:到|分))"
_ONE = r"(?:\bon (?:one|a single) (?:card|GPU)\b|\bwithout (?:\w+ )?(?:parallel\w*|split\w*|shard\w*)|单(?:张)?卡)"


def works_without(told: Told, thing: str) -> bool:
    """Whether it works once this thing, by its pattern, is taken away."""
    taken = rf"{_TAKES}[^.,;\n]{{0,24}}?(?:{thing})|(?:{thing})[^.,;\n]{{0,16}}{_AWAY}|{_TAKES_ZH}[^。，；\n]{{0,6}}(?:{thing})"
    named = rf"(?:{thing})[^.\n。]{{0,60}}(?:\bwithout (?:it|one|them|any)\b|{_TAKES_ZH}(?:它|之后|后|就))"
    return any(_good(each, rf"{taken}|{named}") for each in told.sentences())


def breaks_with(told: Told, thing: str) -> bool:
    """Whether it fails as soon as this thing comes in, and works before that, or what it comes to works by itself."""
    comes = rf"{_ONSET}(?:(?!\bno\b|\bwithout\b|没|不)[^.,;，；\n。]){{0,40}}?(?:{thing})|(?:{thing})[^.,;，；\n。]{{0,20}}?{_ONSET_BEHIND}"
    sentences = told.sentences()
    amiss = [each for each in sentences if _AMISS.search(each)]
    if any(re.search(rf"\bwhenever\b[^.,;\n]{{0,60}}?(?:{thing})", each, _FLAGS) for each in amiss):
        return True
    comes_in = any(re.search(comes, each, _FLAGS) for each in amiss)
    return comes_in and any(_good(each, _ALONE) for each in sentences)


_AMISS = Pattern(
    r"\bfail\w*|\berrors?\b|\bstops?\b|\bcrash\w*|\bdies\b|complain\w*|\bmix\w*|mismatch\w*|\bcuda:\d|\bdevices?\b|报|不在|不一致|出错|挂了",
    _FLAGS,
)
_ONSET = r"(?:\bas soon as\b|\bonce\b|\bafter\b|\bwhen(?:ever)?\b|\bonly (?:with|if|when)\b|\bsince\b|\badding\b|\bwith\b|一(?:旦|加|挂|开|用)|加(?:载|上)了?|挂(?:上|载)|启用|打开)"
_ONSET_BEHIND = (
    r"(?:\bon top\b|\bis (?:added|loaded|attached|active)\b|\bcomes in\b|之后|以后|后就|一(?:加|挂|开)|就报)"
)
_ALONE = r"(?:\bbefore (?:that|it|this|then)\b|\buntil then\b|\bbase(?: model)?\b|\bby itself\b|\bon its own\b|\bplain model\b|在?(?:这|那|此)?之前|原(?:本|来)|底模|基座|本身)"


def works_in_one_part(told: Told, thing: str) -> bool:
    """Whether the thing works on one device, and what carries it works on several without it."""
    alone = rf"{_ONE}[^.\n。]{{0,30}}(?:{thing})|(?:{thing})[^.\n。]{{0,24}}{_ONE}"
    sentences = told.sentences()
    bare = rf"^(?:(?!{thing})[^.\n。])*{_PARTS}|(?:\bbase\b|基座|底模)(?:(?!{thing})[^.\n。]){{0,40}}{_PARTS}"
    return any(_good(each, alone) for each in sentences) and any(_good(each, bare) for each in sentences)


def _good(sentence: str, pattern: str) -> bool:
    """Whether a sentence tells of something, by a pattern, that it is good."""
    for found in re.finditer(pattern, sentence, _FLAGS):
        good = _GOOD.search(sentence, found.start(), found.end() + _NEAR)
        if good is not None and not _BAD.search(sentence, found.end(), good.end()):
            return True
        ahead = _GOOD_BEFORE.search(sentence[max(0, found.start() - _NEAR) : found.start()])
        if ahead is not None and not _BAD.search(ahead[0]):
            return True
    return False
