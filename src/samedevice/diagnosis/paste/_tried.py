"""What a text says was tried in vain: it tells against a cause, so no cause may be read in it.

Must guarantee: only what is stated to have changed nothing is left out, or what was merely tried; what is said
to help, and all that is stated of things and devices, stays.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases; Chinese has its own punctuation

from __future__ import annotations

import re
from collections.abc import Iterator

from samedevice.diagnosis.paste._pattern import Pattern

_FLAGS = re.IGNORECASE | re.ASCII
_CLAUSE = Pattern(r"[,;(，；：（)）]|:\s|\s(?:but|and then|yet)\s|但是?|可是|不过|然而", _FLAGS)
_SENTENCE = Pattern(r"[。！？!?\n]|\.(?=\s|$)")
_VAIN = Pattern(
    r"\b(?:no|zero|without|any) (?:difference|effect|change|luck|avail|success|improvement)\b|\bin vain\b|\bto no avail\b"
    r"|(?:(?:did|does|do|has|have|is|was|were|would) not|never) (?:\w+ ){0,2}(?:help|change|solve|fix|cure|matter)\w*"
    r"|\bnothing (?:changed|changes|helps|helped)|\bchang(?:ed|es|ing) nothing|(?<!\bin the )\bsame (?:error|result|thing|problem|outcome|failure)\b"
    r"|\b(?:it|that|this)(?: is| was|'s| stays| remains) (?:just |all |exactly )?the same\b|\bjust the same\b"
    r"|没(?:有)?(?:什么|任何|啥)?(?:效果|作用|变化|区别|帮助|改善)|无效|不管用|没有?用(?=[了啊的吗 ]*$)|都?没用(?=[了啊的 ]*$)"
    r"|也(?:还是|都|照样)?(?:一样|不行|没用|无效|不好使)|(?:还是|依然|依旧|仍然|照样|仍)(?:一样|不行|老样子|同样)|同样(?:的)?(?:错误|报错|问题|结果)",
    _FLAGS,
)
"""That something changed nothing."""
_PERSISTS = Pattern(
    r"\b(?:still|again|also|even then|nevertheless)\b[^.\n]{0,30}\b(?:fails?|failed|hangs?|crash\w*|errors?|happens?|dies|raises?|stops?|times? out|the same)\b"
    r"|\b(?:fails|hangs|crashes|happens|dies|stops) (?:again|as well|too|all the same)\b"
    r"|(?:还是|依然|依旧|仍然|照样|仍|也)(?:会|都)?(?:报|卡|超时|失败|出错|崩|挂|出现)",
    _FLAGS,
)
"""That it fails as before; the clause must say of what that is told."""
_TRIED = Pattern(
    r"(?<!you )\b(?:tried|trying)\b(?! to (?!(?:add|remov|mov|put|send|set|chang|switch|upgrad|updat|downgrad|disabl|enabl|turn|forc|wrap|fix|solv|replac|reinstall|install|lower|reduc|limit|pass|specif|assign|convert|cast|writ|modif|edit|call|clear|delet)\w*\b))|试(?:过|了|着)|尝试过?",
    _FLAGS,
)
_ATTEMPT = Pattern(
    rf"{_TRIED.text}|\b(?:set|sett?ing|with|after|even|adding|added|using|switch\w*|chang(?:ing|ed)|disabl\w+|turn\w*|export\w*|downgrad\w+|upgrad\w+|without)\b"
    r"|设置|设成|设了|换|改|加(?:了|上)|关(?:掉|闭|了)|即使|就算|用了|降|升级",
    _FLAGS,
)
_SUCCESS = Pattern(
    r"\b(?:work(?:s|ed|ing)?|fine(?![- ]?tun)|ok(?:ay)?|runs?|ran|solved|fixed|helps|helped|goes|gone|right|correct|passes)\b|就好|好了|正常|没问题|可以|解决|对了|能跑|成功",
    _FLAGS,
)
_FAILS = Pattern(r"\b(?:not|never|no|nor)\b|没|不", _FLAGS)
_COMMENTED_OUT = re.compile(
    r"(?<!\S)#[ \t]{0,4}[\w.]{1,60} ?= ?"
    r"(?:[\w.]{1,60}\([^()#\n]{0,200}\)|[^\s#=(),][^\s#(),]{0,120}(?=\s{0,3}[,)]|\s{1,3}#))"
)
"""An assignment or an argument by name behind a `#`: nobody ran it."""
_WORDS = Pattern(r"[A-Za-z_][\w.=-]*|[\u4e00-\u9fff]")
_LEAST = 3
"""Words beside "no change" from which a clause says itself what was tried."""

_FAR = 300
"""Characters of the clause before that are looked at."""
_SIGNS = (
    (_TRIED, ("tried", "trying", "试")),
    (
        _VAIN,
        (
            *"differen effect chang luck avail success improve vain help solve fix cure matter nothing".split(),
            *(f"same {each}" for each in ("error", "result", "thing", "problem", "outcome", "failure")),
            *("the same", "没", "无效", "不管用", "同样", "也", "还是", "依", "仍", "照样"),
        ),
    ),
    (
        _PERSISTS,
        (
            "still",
            "again",
            "also",
            "nevertheless",
            "even then",
            "as well",
            "too",
            "the same",
            "还",
            "依",
            "仍",
            "照样",
            "也",
        ),
    ),
)
"""Beside each pattern words in small letters, one of which is in every text that it matches; these are cheap."""


def without_attempts(text: str) -> str:
    """The text with what was tried in vain, and code that is commented out, left blank, so that positions
    stay.
    """
    if "#" in text:
        text = _COMMENTED_OUT.sub(lambda found: " " * len(found[0]), text)
    small = text.lower()
    if not any(any(word in small for word in words) and pattern.search(text) for pattern, words in _SIGNS):
        return text
    blank = [span for start, end in _parts(text, _SENTENCE) for span in _vain_in(text, start, end)]
    kept, position = [], 0
    for start, end in sorted(blank):
        kept += [text[position:start], " " * (end - max(start, position))]
        position = max(position, end)
    return "".join([*kept, text[position:]])


def _vain_in(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of one sentence that tell of attempts in vain."""
    clauses = [
        (start + first, start + last)
        for first, last in _parts(text[start:end], _CLAUSE)
        if text[start + first : start + last].strip()
    ]
    trying: int | None = None
    for number, (first, last) in enumerate(clauses):
        clause = text[first:last]
        vain = _VAIN.search(clause)
        if trying is None and _TRIED.search(clause):
            trying = number
        rest = clause[: vain.start()] + clause[vain.end() :] if vain is not None else ""
        if vain is not None and not _succeeds(rest):
            yield first, last
            if len(_WORDS.findall(rest)) < _LEAST:
                yield clauses[number - 1] if number else _sentence_before(text, first)
        elif _PERSISTS.search(clause) and _ATTEMPT.search(clause):
            yield first, last
    if trying is not None and not any(
        _succeeds(text[first:last]) for first, last in clauses[max(0, trying - 1) :]
    ):
        yield clauses[trying][0], end


def _succeeds(clause: str) -> bool:
    return _SUCCESS.search(clause) is not None and _FAILS.search(clause) is None


def _sentence_before(text: str, start: int) -> tuple[int, int]:
    """The last clause of the sentence before, which is what "no change" by itself is said of."""
    first = max(0, start - _FAR)
    before = text[first:start].rstrip(" .。!！\n")
    ends = (each.end() for pattern in (_SENTENCE, _CLAUSE) for each in pattern.finditer(before))
    return first + max(ends, default=0), first + len(before)


def _parts(text: str, at: Pattern) -> Iterator[tuple[int, int]]:
    """The parts of a text between the places where it is to be divided."""
    start = 0
    for found in at.finditer(text):
        if found.start() > start:
            yield start, found.start()
        start = found.end()
    if start < len(text):
        yield start, len(text)
