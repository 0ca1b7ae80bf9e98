"""What a text is about that is not about devices: by what its prose says, or by the check that failed in a kernel."""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis._rule import SEVERAL_GPUS
from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story import LEAST_WORDS, MEETS, states_devices


def about_something_else(report: Report) -> str | None:
    """What prose that tells of no device error is about: a topic, `something` where it fits none.

    None where it may be about devices, or is no prose.
    """
    told = report.told
    unknown = report.kind in ("unknown-message", "no-exception")
    if told is None or not unknown or report.exception or told.words < LEAST_WORDS:
        return None
    if (error := error_told(told)) is not None:
        return error
    if states_devices(told) or told.mentions(MEETS):
        return None
    found = next((topic for topic, pattern in _TOPICS if told.mentions(pattern)), None)
    if told.mentions(_OF_DEVICES):
        return found if told.mentions(_NO_ERROR) else None
    named = bool(told.met) or told.mentions(_MOVES) or (told.ended and told.mentions(rf"\bcuda:\d|{_MAKES}"))
    return found or (None if named else "something")


def error_told(told: Told) -> str | None:
    """The topic of an error that prose names in so many words, where it tells of no devices that met."""
    if len({*told.met} - {"cuda"}) > 1 or told.mentions(MEETS):
        return None
    return next((topic for topic, pattern in _ERRORS if told.mentions(pattern)), None)


def mostly_an_index(report: Report) -> bool:
    """Whether a check failed in a kernel on what seems to be a single GPU: then it is mostly one of an index."""
    return report.kind == "device-assert" and not _SEVERAL.search(report.words)


def check_in_a_kernel(report: Report) -> str | None:
    """What a check is about that failed in a kernel: an index, or values.

    The printed assertion says it, or the statement that looks labels or ids up.
    """
    if report.kind != "device-assert":
        return None
    for topic, pattern in _ASSERTIONS:
        if pattern.search(report.words):
            return topic
    return "index" if _LOOKS_UP.search(report.code) else None


_OF_DEVICES = (
    r"offload\w*|\b(?:forward|dispatch\w*|align\w*) hooks?\b|\bhooks? (?:move|bring|send|run|stay|place)|\bmeta (?:device|tensors?)|on meta\b|device placement"
    r"|(?:different|wrong|other|another) (?:device|GPU|card)s?\b(?! (?:numbers?|counts?|models?))|left on the|不同(?:的)?(?:设备|卡)"
)
_MOVES = r"\.(?:to\((?!torch\.|dtype)|cuda\(|cpu\()|\b(?:torch\.)?cuda\.\w{2,12}Tensor\b"
"""Code that moves tensors, or types that tell where they are: what is amiss may be of devices."""
_MAKES = r"\btorch\.(?:arange|linspace|zeros|ones|full|eye|tri[lu]|rand\w{0,4})\("
"""Code that makes a tensor, which is somewhere."""
_NO_ERROR = r"nothing (?:fails|breaks|is raised)|\bno (?:error|exception|warning)s?\b|without (?:an |any )?(?:error|exception)|(?:不|没有?)报错|没有(?:任何)?错误"
_SHAPES = (
    r"(?:shape|size|dimension)s? (?:mismatch|error)|mismatch\w* (?:in |of )?(?:shape|size|dimension)s?|(?:shape|size|dimension)s? (?:that )?(?:do(?:es)? not|no longer|cannot|must) (?:match|fit|agree|be)"
    r"|(?:wrong|different|incompatible|unequal) (?:shapes?|sizes?|dimensions?|lengths?)|(?:形状|维度|尺寸|长度)(?:不(?:一致|匹配|对|同|符)|对不上|错误|有问题)"
)
_ERRORS = (
    (
        "out-of-memory",
        r"\b(?:cuda|gpu|vram)[- ]OOM\b|\bOOM[- ](?:error|exception|kill)|\b(?:throws?|raises?|gets?|got|gives?|with|an) OOM\b|\bOOM(?:s|ed)\b|(?:报|出现|遇到)\s?OOM",
    ),
    ("shape", _SHAPES),
    (
        "dtype",
        r"\bdtypes? (?:mismatch|error)|(?:mismatch\w*|different|wrong|same) (?:of )?dtypes?\b|(?:half|float\w*|bfloat16|fp16|bf16) (?:and|but (?:got|found)|vs\.?) (?:half|float\w*|bfloat16|fp32|bf16)|(?:数据|数值)?类型(?:不(?:一致|匹配)|对不上)",
    ),
    (
        "state-dict",
        r"(?:missing|unexpected) keys?\b|keys? (?:are|is) missing|缺少(?:的)?(?:键|key)|(?:键|key)s?[^。\n]{0,10}(?:对不上|不匹配|不一致|缺失)|size mismatch for",
    ),
    (
        "index",
        r"index(?:es)? out of (?:range|bounds)|\b(?:ids?|labels?|index\w*) (?:beyond|larger than|outside)|越界|超出(?:词表|类别)",
    ),
)
_TOPICS = (
    (
        "out-of-memory",
        r"(?:out of|not enough|insufficient|lack of) (?:\w+ )?memory|\bOOM\b|爆(?:了)?显存|\b(?:im|un)balanc\w+|\b(?:video |GPU |v)?(?:memory|ram) (?:is |was )?(?:not enough|insufficient)|\bwast\w+ (?:\w+ ){0,3}memory|显存(?:溢出|爆|不[足够]|用完|炸)|省(?:点)?显存|爆内存",
    ),
    ("collective-timeout", r"\bhangs?\b|\bstuck\b|timing out|timed out|time-?out|卡住|超时"),
    (
        "numbers",
        r"\bnan\b|overflow|溢出|\b(?:other|different|something else|not the same|wrong)\b[^.\n]{0,40}\b(?:on|in|between|by) (?:the )?(?:cuda|GPU|CPU)\b[^.\n]{0,16}\b(?:than|and|vs\.?|from)\b[^.\n]{0,16}\b(?:cuda|GPU|CPU)\b|\bCPU[- ](?:and|vs\.?|/)[- ]?GPU\b[^.\n]{0,40}\b(?:differ\w*|mismatch\w*)",
    ),
    (
        "speed",
        r"(?:too|so|very|far too) long\b|\btakes? (?:\w+ ){1,2}(?:seconds|minutes|hours)\b|\bidle\b|utili[sz]ation|drop\w* to 0|利用率|\bslow(?:er)?\b|tokens/s|throughput|速度|很慢|太慢",
    ),
    ("import", r"\binstall\w*|\bpip\b|\bwheel\b|\bbuild\b|安装|编译"),
    (
        "quality",
        r"implausibl\w+|unrealistic|\bblurry\b|\baccuracy\b|(?:does not|did not|cannot|will not|fails? to|never) (?:\w+ )?converge\w*|精度|不收敛|repeats?|gibberish|quality|hallucinat\w*|胡说|重复",
    ),
)
_ASSERTIONS = (
    (
        "index",
        Pattern(
            r"Assertion [`'\"][^`\n]{0,200}(?:index|\bind\b|ind_dim|n_classes|target|srcSelectDimSize|numel|\blabel)|(?:ClassNLLCriterion|NLLLoss2d|ScatterGatherKernel|Indexing|IndexKernel)\w*\.cuh?\b"
        ),
    ),
    (
        "numbers",
        Pattern(
            r"Assertion [`'\"][^`\n]{0,120}(?:>= ?(?:0|zero)|<= ?(?:1|one)|\bval\b|cumdist|isnan|probability)"
        ),
    ),
)
"""What is printed of an assertion of a kernel, or the file that it is in."""
_SEVERAL = Pattern(SEVERAL_GPUS, re.IGNORECASE)
_LOOKS_UP = Pattern(
    r"\b(?:cross_entropy\w*|nll_loss\w*|CrossEntropyLoss|one_hot|gather|scatter_?\w*|index_select|embedding|embed_tokens|wte|word_embeddings)\b"
)
