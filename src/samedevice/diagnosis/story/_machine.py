"""What the machine, its GPUs or another release are at fault for."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis._rule import SEVERAL_GPUS
from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import (
    FIRST,
    GOES,
    OWN_KERNEL,
    RIGHT,
    Reading,
    ends,
    fails,
    when,
)
from samedevice.messages import Phrase


def several_gpus_give_other_values(told: Told, report: Report) -> Reading | None:
    """The same program is right on fewer GPUs, and on more of them its values are wrong without an error."""
    if not (told.says(_OTHER_VALUES) and told.says(rf"{_FEWER_RIGHT}|{_ONLY_THE_DEVICE}")):
        return None
    if told.says(_HALF) or not (
        told.gpus > 1 or told.says(rf"{SEVERAL_GPUS}|{_ONLY_THE_DEVICE}|{_MORE_THAN_ONE}")
    ):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-more-gpus"),))


_ONLY_THE_DEVICE = r"\bonly differs? in the (?:\w+ )?(?:device|GPU|card)|\bdiffers? only in the (?:\w+ )?(?:device|GPU|card)|只(?:有|是)[^。\n]{0,8}(?:设备|卡|GPU)[^。\n]{0,4}不(?:同|一样)"
_HALF = r"--no-half|\bfp16\b|\bfp32\b|half precision|半精度"
_MORE_THAN_ONE = r"\b(?:two|three|four|eight|both|several|multiple|multi-?)\s?(?:\w+ )?(?:GPUs?|cards)\b|[多两双]\s?(?:张|块)?(?:卡|GPU)|\bmore than (?:one|1)\b"
_FEWER_RIGHT = (
    rf"(?:\bone|single|1|each) (?:GPU|card)\b(?:(?!, (?:with|but|while) )[^.;\n]){{0,40}}{RIGHT}|{RIGHT}[^.;\n]{{0,30}}(?:\bone|single|1) (?:GPU|card)\b"
    r"|(?:单|一|两|任意两?|每)(?:张|块)?(?:卡|GPU)[^。；\n]{0,8}(?:正常|没问题|可以|是对的)"
)


_UNSEEN = (
    r"cuda\.(?:is_)?available\(\)[^.\n]{0,24}\bfalse\b|(?:torch|pytorch|it) (?:does not|cannot) (?:see|find|detect|recogni[sz]e) (?:my |the |any )?(?:GPU|cuda|card)"
    r"|(?:识别|检测|找|看)不到\s?(?:GPU|显卡|cuda)"
)

gpu_unseen = when(_UNSEEN, Reading("hardware-or-driver", (Phrase("because.told-unseen"),)), error=None)
"""torch sees no GPU, and the machine has one."""


def wrong_beyond_the_first(told: Told, report: Report) -> Reading | None:
    """Values are right on the first GPU and wrong on another, without an error."""
    if not (
        told.says(_OTHER_VALUES)
        and told.says(_ON_ANOTHER)
        and told.says(rf"{FIRST}|first card|number 0|\bon the first\b|第一张")
    ):
        return None
    reasons = (Phrase("because.told-more-gpus"),)
    if told.chosen or told.says(
        rf"{OWN_KERNEL}|\bfused\b|\bkernels?\b|\b\w{{1,40}}_\w{{1,40}} (?:gives|returns|writes|computes)|算子"
    ):
        return Reading("kernel-launched-on-current-device", reasons, ("hardware-or-driver",))
    return Reading("hardware-or-driver", reasons, ("kernel-launched-on-current-device",))


_ON_ANOTHER = r"cuda:[1-9]|(?:second|other|another) (?:card|GPU)|GPU ?#?[1-9]\b|第二张卡|1 ?号卡"


def checkpoint_from_elsewhere(told: Told, report: Report) -> Reading | None:
    """A file of weights that names a GPU which this machine does not have."""
    if not (
        told.says(_LOADS_FILE)
        and told.says(_FILE_NAMES_GPU)
        and (ends(told, report) or told.says(r"\bwants?\b"))
    ):
        return None
    return Reading(
        "checkpoint-map-location", (Phrase("because.told-checkpoint"),), ("device-ordinal-out-of-range",)
    )


_LOADS_FILE = r"torch\.load|\bload\w*[^.\n]{0,30}(?:checkpoint|weights|\.pth?\b|\.ckpt|state)|加载[^。\n]{0,12}(?:权重|checkpoint|模型)"

_FILE_NAMES_GPU = (
    r"CUDA device [1-9]|deseriali[sz]\w+|(?:trained|saved|written)[^.\n]{0,40}(?:another|other|different|a box|machine|server|cluster|cuda:[1-9]|GPU ?[1-9]|(?:two|three|four|eight) (?:cards|GPUs))"
    r"|(?:别的|另一台|其他)(?:机器|服务器)|在(?:多卡|\s?cuda:[1-9]|\s?GPU ?[1-9])[^。\n]{0,10}(?:训练|保存)"
)


def another_release_works(told: Told, report: Report) -> Reading | None:
    several = told.ended and told.says(r"multi-?\s?GPU|多卡")
    if not (told.says(_OLDER_RIGHT) and (several or fails(told, report))):
        return None
    return Reading("library-version-regression", (Phrase("because.told-release"),))


_RELEASE = r"\bv?\d{1,4}\.\d{1,4}(?:\.\w{1,20}){0,4}(?!\w)(?!\s?-?(?:bits?\b|bpw\b|[BKMGT]i?B?\b|%|ms\b|s\b|x\b|倍|秒))"
"""The number of a release: no amount, and no width of numbers."""

_OLDER = (
    rf"(?:\b(?:with|in|on|under|until|before|to|of|and) (?:[a-z]\w+ ){{0,2}}{_RELEASE}|[在用到成回]\s?(?:[a-z]\w+ )?{_RELEASE}"
    r"|\b(?:old(?:er)?|previous|earlier|last) (?:version|release|commit|script|environment|env|image|container|setup|lock ?file)|commit (?:of |from )?(?:before|last|the)|旧版本?|老版本|之前的版本|上一个版本)"
)

_SAME_SENTENCE = r"(?:[^\n。.]|\.(?=\d))"

_OLDER_RIGHT = (
    rf"{_OLDER}{_SAME_SENTENCE}{{0,90}}?{GOES}|{_RELEASE} (?:\w+ ){{0,2}}{GOES}|{GOES}{_SAME_SENTENCE}{{0,40}}{_OLDER}"
    rf"|(?:\bpin\w*|downgrad\w*|revert\w*|roll\w* back|going back)[^.\n]{{0,30}}(?:{_RELEASE}|release|version)|(?:broke|stopped working) (?:with|since|in|after) (?:the |a )?(?:new|latest|last|release|version|update)"
    r"|\b(?:after|since) (?:the |an? )?(?:upgrad\w+|updat\w+)|\bupgrad(?:ed|ing) (?:from|to)\b(?! an? )|(?:升级|更新)(?:到[^，。\n]{0,20})?(?:之|以)?后"
)


def copy_changes_values(told: Told, report: Report) -> Reading | None:
    """A copy between GPUs that raises nothing and delivers something else."""
    others = told.says(_OTHER_VALUES)
    copied = others and (told.says(_PEERS) or told.says(_COPIED))
    shown = ".to(" in told.text and told.says(_COPIED_OTHERWISE)
    if not (copied or shown or _helped_by_no_peers(told) or _intact_over_the_host(told)):
        return None
    if told.says(_ORDERED) or len(set(told.devices_of("labels", "outputs", "ids", "cache", "weights"))) > 1:
        return None  # a copy that was read too early, or two things that did meet
    return Reading("hardware-or-driver", (Phrase("because.told-copy"),))


def _intact_over_the_host(told: Told) -> bool:
    """Whether a clause tells of the way over the host, and another one that what arrived directly is changed."""
    if not any(each in told.evidence.lower() for each in _ON_THE_WAY):
        return False
    if not _OVER_HOST.search(told.evidence) or not told.says(_SENT):
        return False
    clauses = [each for each in _CLAUSE.split(told.evidence) if each.strip()]
    over = [number for number, each in enumerate(clauses) if _OVER_HOST.search(each)]
    whole = [number for number in over if not any(map(_CHANGED.search, clauses[number : number + 2]))]
    own = {*over, *(number + 1 for number in over)}
    return bool(whole) and any(
        _CHANGED.search(each) for number, each in enumerate(clauses) if number not in own
    )


_ON_THE_WAY = (
    "over",
    "hrough",
    "via",
    "way of",
    "taged",
    "detour",
    "off ",
    ".cpu().",
    "'cpu').",
    "中转",
    "经",
    "绕",
    "过",
    "走",
    "借",
    "先",
)
"""Parts of words, one of which is in every text that tells of such a way."""
_CLAUSE = Pattern(
    r"[,;，；：。！？!?\n]|[.:](?=\s|$)|\s(?:but|while|and|although|whereas)\s|但是?|而", re.IGNORECASE
)
_SENT = (
    r"(?:\bcop(?:y|ied|ies|ying)\b|\bmov(?:e|ed|es|ing)\b|\bsen[dt]\w*|\btransfer\w*|\barriv\w+|\breceiv\w+|memcpy\w*)[^.\n]{0,80}?(?:\b(?:GPU|card|cuda:?|device) ?#?\d[^.\n]{0,30}(?:\bto\b|->|→)[^.\n]{0,16}(?:GPU|card|cuda:?|device) ?#?\d|\bone (?:GPU|card|device) to (?:the|an)?other|first (?:GPU|card)?[^.\n]{0,12}\bto\b[^.\n]{0,12}second|(?:between|across) (?:the |two |both )?(?:GPUs|cards|devices))"
    r"|\b(?:GPU|card|cuda:?|device) ?#?\d (?:to|->|→) (?:GPU|card|cuda:?|device) ?#?\d[^.\n]{0,20}(?:cop|transfer)\w*|\breceiv\w+ (?:\w+ ){0,2}from (?:rank|GPU|card) ?\d|\b(?:second|other) (?:one|card|GPU) (?:gets|receives|sees|reads)[^.\n]{0,24}\bfirst\b|\b(?:first|other) (?:one|card|GPU) (?:sends|gives|hands)\b|\brank ?\d[^.\n]{0,24}\b(?:sends?|sent|receives?|gets?)\b[^.\n]{0,24}\brank ?\d|(?:peer|device)[- ]to[- ](?:peer|device) (?:cop|transfer)\w*|\.to\(['\"]?(?:cuda:)?[1-9]|(?:cuda:?|GPU ?|卡 ?)\d[^。，\n]{0,4}(?:拷|传|搬|复制|发)[^。，\n]{0,8}\d|卡间(?:拷|传|复|通)|(?:拷|传|搬|复制|发)[^。，\n]{0,10}(?:[1-9] ?号卡|另一(?:张|块)(?:卡|GPU)|第二(?:张|块)|cuda:[1-9])|(?:卡|GPU) ?\d? ?(?:之|互相)?间(?:直接)?(?:拷|传|复制|通信)"
)
"""Something goes from one GPU to another."""
_CHANGED = Pattern(
    r"\bnot (?:what|equal|match|agree|the same|identical)\b|\bdiffer(?:s|ed|ent)?\b|\bmismatch\w*|\bfalse\b|\bcorrupt\w*|\bgarbage\b|\bgarbled\b|\bwrong\b|\bzeros?\b|\bholes?\b|\bnans?\b|(?<![\d.])0\.0*(?!\d)|\b(?:chang|alter|scrambl|damag)ed\b"
    r"|变(?:了|成|化)|不(?:一样|一致|相等|同|对|正确)|对不上|全(?:是|为|部)? ?(?:0|零|nan)|(?:数据|数值|值|结果)(?:都)?(?:是|为|变成) ?(?:0|零|nan)|乱(?:码|了)|错(?:误|了|的)|损坏|坏了",
    re.IGNORECASE,
)
"""That values are others than they should be."""
_OVER_HOST = Pattern(
    r"\b(?:over|through|via|by way of|stag\w+ (?:through|in|over|via)|(?:bounc|rout|stag|cop[yi]|mov|send|pass)\w* (?:it |them |everything |the \w+ )?(?:through|off|via|over|in)|detour\b[^.\n]{0,8}) (?:the |a |pinned )?(?:host|cpu|system|main|pinned|RAM)\b|\.cpu\(\)\.(?:to|cuda)\(|\.to\(['\"]cpu['\"]\)\.(?:to|cuda)\("
    r"|(?:经过?|绕|通过|走|借)[^。，\n]{0,6}(?:内存|CPU|主机)|(?:中转|\.cpu\(\))[^。，\n]{0,4}(?:再|后)|先(?:拷|搬|传|移|放)?[^。，\n]{0,4}(?:内存|CPU|\.cpu\(\))[^。，\n]{0,4}再",
    re.IGNORECASE,
)


def _helped_by_no_peers(told: Told) -> bool:
    """Whether it works, in one sentence, with direct copies between GPUs switched off."""
    if not any(each in told.evidence for each in _PEER_WORDS):
        return False
    told_of = told.says(_OTHER_VALUES) or told.says(
        r"\bhang(?:s|ing)?\b|\bstuck\b|卡住|卡死|对不上|\bdeadlock\w*"
    )
    return told_of and told.says(_NO_PEERS_RIGHT)


_ORDERED = r"\bnon_blocking\b|\bsynchroni[sz]\w+[^.;\n]{0,30}(?:right|fine|work|correct)|(?:加|用)[^。，\n]{0,8}(?:同步|synchronize)[^。\n]{0,12}(?:正常|对了|好了)"
"""That it depends on when the copy is read."""
_PEER_WORDS = ("P2P", "p2p", "peer", "IOMMU", "iommu", "ACS")
_NO_PEERS = r"(?:\w+_)?P2P(?:_DISABLE|_LEVEL)\s?=?\s?\w+|(?:\b(?:without|no|disabl\w+|turn\w* off|switch\w* off)\b|关(?:掉|闭)|禁用|不用)[^.。\n]{0,16}(?:P2P|peer|IOMMU|ACS)\w*"
_NO_PEERS_RIGHT = rf"(?:{_NO_PEERS})(?:(?!\bhang|\bstuck\b|\bfail|\bwrong\b|卡[住死]|报)[^.;。；\n]){{0,40}}?(?:{RIGHT}|{GOES}|就?对了|就?好了|\bruns\b|\bhelps\b|\bsolv\w+|\bfix(?:ed|es)\b|\bcure[sd]\b)|(?:{RIGHT}|{GOES}|\bruns\b)[^.;,。；，\n]{{0,24}}(?:{_NO_PEERS})"


_PEERS = r"\bIOMMU\b|\bACS\b|peer[- ](?:to[- ]peer|access)|(?<!_)\bP2P\b(?!_)"
"""How copies go between GPUs; that a variable is set tells nothing, only that it helps."""

_COPIED = (
    r"(?:cop(?:y|ied|ies|ying)|mov(?:e|ed|es|ing)|transfer\w*)[^.\n]{0,60}"
    r"(?:(?:one|a|the first) GPU to (?:an)?other|between (?:two )?GPUs|cuda:\d[^.\n]{0,20}cuda:\d)|(?:拷贝|复制)到另"
)

_COPIED_OTHERWISE = r"(?:\bequal|allclose)\((\w{1,20})(?:\.cpu\(\))?, ?\1\.to\(['\"]?(?:cuda:)?\d['\"]?\)(?:\.to\([^()\n]{1,12}\)|\.cpu\(\)){0,2}\)[^.\n]{0,24}\bfalse\b|\.to\(['\"]cuda:\d['\"]\)\s{1,4}tensor\(\[+(?:0\.?,? ?){1,40}\]+, device='cuda:\d'\)"
"""A copy beside its original, as a session prints them, or a comparison of the two."""

_OTHER_VALUES = r"\b(?:full|pure|only|just|random) (?:of )?noise\b|\bnoisy (?:image|picture|output)|\b(?:all |completely )?black (?:image|picture|output|frame)s?\b|tensor\(\[+0\.,? +(?:0\.,? *){1,9}|\b(?:weights?|values?|results?|outputs?)\b[^.;\n]{0,24}(?:are not|is not|were not) (?:right|correct|the same)|\b(?:sums?|values?|results?|outputs?|numbers?)\b[^.;\n]{0,24}\b(?:is|are|was|were) (?:all )?(?:wrong|garbage|zeros?|nan)\b|other values|wrong (?:values?|sums?|results?|outputs?|numbers?|answers?)|(?:all|only|just|prints?|returns?|gives?) zeros?|nonsense|gibberish|garbage|corrupt\w*|\bnans?\b|values differ|乱码|感叹号|!!!!|exclamation marks?|全是? ?0|数值不对"
