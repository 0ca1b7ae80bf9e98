"""What the machine, its GPUs or another release are at fault for."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from samedevice.diagnosis.paste import Report, Told
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
    if not (told.says(_OTHER_VALUES) and told.says(_FEWER_RIGHT)):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-more-gpus"),))


_FEWER_RIGHT = (
    rf"(?:\bone|single|1|each) (?:GPU|card)\b[^.;\n]{{0,40}}{RIGHT}|{RIGHT}[^.;\n]{{0,30}}(?:\bone|single|1) (?:GPU|card)\b"
    r"|(?:单|一|两|任意两?|每)(?:张|块)?(?:卡|GPU)[^。；\n]{0,8}(?:正常|没问题|可以|是对的)"
)


_UNSEEN = (
    r"is_available\(\)[^.\n]{0,24}\bfalse\b|(?:torch|pytorch|it) (?:does(?:n'?t| not)|can(?:no|')t) (?:see|find|detect|recogni[sz]e) (?:my |the |any )?(?:GPU|cuda|card)"
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
    if told.says(
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


_RELEASE = r"\bv?\d+\.\d+(?:\.\w+)*"

_OLDER = (
    rf"(?:\b(?:with|in|on|under|until|before|to|of|and) (?:[a-z]\w+ ){{0,2}}{_RELEASE}|[在用到成回]\s?(?:[a-z]\w+ )?{_RELEASE}"
    r"|\b(?:old(?:er)?|previous|earlier|last) (?:version|release|commit|script|environment|env|image|container|setup|lock ?file)|commit (?:of |from )?(?:before|last|the)|旧版本?|老版本|之前的版本|上一个版本)"
)

_SAME_SENTENCE = r"(?:[^\n。.]|\.(?=\d))"

_OLDER_RIGHT = (
    rf"{_OLDER}{_SAME_SENTENCE}{{0,90}}?{GOES}|{_RELEASE} (?:\w+ ){{0,2}}{GOES}|{GOES}{_SAME_SENTENCE}{{0,40}}{_OLDER}"
    rf"|(?:\bpin\w*|downgrad\w*|revert\w*|roll\w* back|going back)[^.\n]{{0,30}}(?:{_RELEASE}|release|version)|(?:broke|stopped working) (?:with|since|in|after) (?:the |a )?(?:new|latest|last|release|version|update)"
    r"|\b(?:after|since) (?:the |an? )?(?:upgrad\w+|updat\w+)|\bupgrad(?:ed|ing) (?:from|to)\b|(?:升级|更新)(?:到[^，。\n]{0,20})?(?:之|以)?后"
)


def copy_changes_values(told: Told, report: Report) -> Reading | None:
    """A copy between GPUs that raises nothing and delivers something else."""
    peers = told.says(_PEERS) and (told.says(_OTHER_VALUES) or told.says(rf"{RIGHT}|\bhang\w*"))
    copied = told.says(_COPIED) and told.says(_OTHER_VALUES)
    if not (copied or peers or told.says(_COPIED_TO_ZEROS)):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-copy"),))


_PEERS = r"\bIOMMU\b|\bACS\b|peer[- ](?:to[- ]peer|access)|\bP2P\b|NCCL_P2P"

_COPIED = (
    r"(?:cop(?:y|ied|ies)|mov(?:e|ed|es|ing)|transfer\w*)[^.\n]{0,60}"
    r"(?:one GPU to another|between (?:two )?GPUs|cuda:\d[^.\n]{0,20}cuda:\d)|(?:拷贝|复制)到另"
)

_COPIED_TO_ZEROS = r"\.to\(['\"]cuda:\d['\"]\)\s{1,4}tensor\(\[+(?:0\.?,? ?){1,40}\]+, device='cuda:\d'\)"

_OTHER_VALUES = r"other values|wrong (?:values?|sums?|results?|outputs?|numbers?|answers?)|(?:all|only|just|prints?|returns?|gives?) zeros?|nonsense|gibberish|garbage|corrupt\w*|\bnans?\b|values differ|乱码|感叹号|!!!!|exclamation marks?|全是? ?0|数值不对"
