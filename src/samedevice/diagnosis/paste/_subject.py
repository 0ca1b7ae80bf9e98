"""What an error is about that states nothing of devices: by the class of its exception, or by its sentence.

Must guarantee: a sentence that puts something on a device is not called anything else.
"""

# ruff: noqa: E501 # patterns of whole phrases

from __future__ import annotations

import re

from samedevice.diagnosis.paste._operands import DEVICE_NAME
from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._sentence import offers_devices

_COMPOUNDS = Pattern(
    r"['\"][\w./\\-]{1,200}\.(?:cu|cuh|cpp|h|py)['\"]|\bmeta[- ]?(?:data|info\w*|kernels?|functions?|key|class|attributes?|tensors? variant|commands?|graph|param\w*|device_type)\b|\bmeta_\w+|\w*\.meta\b|\b(?:node|image|tensor|graph|op|parameter) meta\b|\bmodified meta\b|\bmeta for\b|\bin meta\b"
    r"|\bdevice[_ ]mesh\w*|\bdevice[_ ]code\b|\b(?:cuda[- ]?graphs?|CUDA (?:versions?|toolkit|extensions?|kernel launch \w+)|cuda[-_]version)\b|\bcuda[_ ]stream\b|\btorch\.cuda\.(?!\w+Tensor\b)\w+"
    r"|\b(?:per|num|multi|n)[-_ ]gpus?\b|--[\w-]+|\bgpus? (?:were )?given\b|\b(?:nvidia|NGC|CUDA)[-_]\w+|\bnvidia/\w+|\b\w+[-_](?:gpu|cuda|cpu|xpu|npu|offload\w*|device)\b|\b(?!device_map)(?:gpu|cuda|cpu|xpu|npu|offload\w*|device|accelerator)[-_]\w+"
    r"|\b(?:CPU|GPU|TPU) (?:cores?|resources|indices|threads|affinity|sets?)\b|\bGPU name\b|\bshare memory\b|\bmemory on disk\b|\bDeviceMesh\w*|\bmeta(?:=\w+|\[)|\bCUDA kernels? must\b|\bCPU number\b|\bmemory[- ](?:format|mapped|pool|handles?)\b|\bmeta section\b|\bin[- ]memory\b|\baccelerator\.\w+|\b`?Accelerator`?\b(?= object|\(|\.)|\bon-device\b|\bdevice (?:strings?|type at|arguments?|option|identifier|index \W)\b",
    re.IGNORECASE,
)
"""Names that have a device in them and are of something else than a place."""
_DEVICE_WORD = Pattern(
    r"\b(?:devices?|cuda|gpus?|cpu|meta|mps|npu|xpu|ordinal|offload\w*|nccl|memory|hook)\b|device_map",
    re.IGNORECASE,
)
_CLASSES = (
    ("import", ("ImportError", "ModuleNotFoundError", "PackageNotFoundError", "VersionConflict")),
    ("files", ("FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError")),
    ("files", ("JSONDecodeError", "UnpicklingError", "BadZipFile", "UnicodeDecodeError", "YAMLError")),
    ("network", ("HTTPError", "ConnectionError", "SSLError", "URLError", "ConnectTimeout", "ReadTimeout")),
    ("python", ("SyntaxError", "IndentationError", "NameError", "UnboundLocalError", "RecursionError")),
    ("python", ("KeyError", "ZeroDivisionError", "UsageError", "CLIError", "ValidationError")),
)
"""Exceptions whose class says what they are about."""
_SENTENCES = (
    (
        "import",
        r"\b(?:pip3?|conda|apt(?:-get)?) install\b|\b(?:please |need to |must |should )(?:re)?install\b|\b(?:is|are|was) not (?:been )?installed\b|\bfail(?:ed|s)? to import\b|\b(?:could not|couldn't|cannot|unable to) (?:be )?import(?:ed)?\b"
        r"|\bcompiled with (?:a )?(?:different|version)|\bbeing compiled\b|\bversions?\b[^.\n]{0,60}\b(?:does not match|do not match|mismatch|is not supported|not supported|is too old|conflict\w*)|\bconflicting versions\b|\bminimum version\b"
        r"|\brequires? [\w./+-]{1,40}(?: [\w.]{1,30}){0,3}? ?(?:version )?(?:>=|<=|==|<|>|\d+\.\d[\w.]* (?:or|and) (?:newer|later|higher|above|newer))|\bplease (?:upgrade|update|reinstall)\b|\bmust be installed\b|\bnvcc\b|\bversion (?:>=|<=|>|<|==)|\bhas not been built\b|\b(?:unexpected|unknown|unsupported) CUDA version|\bCUDA path\b|\b(?:supported|available|requires?|needs?)\b[^.\n]{0,20}\bCUDA \d{1,2}\.\d|\bhas not been compiled\b",
    ),
    (
        "out-of-memory",
        r"\b(?:out of|not enough|insufficient|not have enough) (?:[\w-]+ )?memory\b|\bfailed to allocate \d+|\bbytes of shared memory\b|\bmemory usage\b[^.\n]{0,30}\btoo high\b|\bshared[- ]memory\b[^.\n]{0,40}\b(?:requires?|exceeds?|too)\b",
    ),
    (
        "dtype",
        r"\bd?types? (?:mismatch|must|should|of|is|are)\b|\bdtypes?\b|\b\d bits\b|\bscalar[_ ]types?\b|\bdata types?\b|\bfloating[- ]point\b|\b(?:fp16|bf16|fp8|fp4|float16|float32|bfloat16|int32|int64|half)\b|\b(?:mixed[- ])?precision\b|\bquantized\b",
    ),
    (
        "files",
        r"\bis not a (?:file|directory)\b|\bno (?:such )?files? (?:found|named|at|or)\b|\b(?:file|folder|directory|path)\b[^.\n]{0,60}\b(?:does not exist|not found)\b",
    ),
    ("numbers", r"\b(?:found|got|contains?|is) (?:NaN|inf)s?\b"),
    (
        "shape",
        r"\bshapes?\b|\b(?:non-)?contiguous\b|\bdimensions?\b|\bdims?\b|\b[1-6]-?D\b|\bdivisible\b|\bdivide\b|\bbatch[ _]sizes?\b|\b(?:same|equal|different) (?:lengths?|sizes?|number)|\blengths?\b[^.\n]{0,60}\b(?:match|same|equal)|\bnumber of (?:elements|channels|features|columns|rows)\b|\bsizes?\b[^.\n]{0,40}\b(?:match|mismatch|same|equal|incompatible)|\bbroadcast\w*\b|\b(?:have|has) \w+ elements\b|\brank\b (?:should|must)",
    ),
    (
        "python",
        r"\b(?:must|should|can only|has to|have to|needs? to|expected)(?: only)? (?:be )?(?:one of|either|an? (?:instance|subclass|str\w*|int\w*|bool\w*|list|dict\w*|tuple|sequence|function|method|path|class|module|key)|an? [\w.]+(?: object| instance)?, (?:got|but got|not)|of type|positive|non-?negative|non-?empty|specified|provided|passed|set|given|called|used|smaller|greater|larger|>|<|strictly|unique|finite|`?torch\.)"
        r"|(?:but )?(?:got|received|found|not)(?: type)? `?<class '|\btype\(|\bgot type\b|\b(?:invalid|unknown|unrecogni[sz]ed|unexpected|unsupported) (?:\w+ ){0,3}(?:type|value|name|mode|option|argument|key|format|version|parameter)s?\b|\bcould not parse\b|\bnot a valid\b|\bvalid \w+ (?:are|is)\b|\bpossible values\b"
        r"|\bplease (?:specify|provide|pass|set|choose|call|give|don't|make sure|do not|disable|try again|only)\b|\bcannot (?:be )?(?:used?|specif\w+|set|pass|combine\w*|modified)\b|\b(?:in)?compatible with\b|\bmutually exclusive\b|\bonly (?:be )?(?:one|used|supported|takes?|support|allowed|valid)\b|\bis (?:required|deprecated|read-only|missing|not (?:found|registered|added|defined|implemented|initiali[sz]ed|allowed|set|specified|a))\b"
        r"|\balready (?:exists?|been|registered|initiali[sz]ed|has|have)\b|\bnot (?:be )?(?:empty|found|registered|support(?:ed)?|configured)\b|\brequires? (?:that|the|--?\w|`|\w+[= ])|\bwhen (?:passing|using)\b|\b(?:argument )?device (?:should|must) be None\b|\bshould not\b|\bshouldn't\b|\bexpected\b[^.\n]{0,60}\b(?:Node|FakeTensor|meta\[)|\bexpired\b|\btime-?out\b|\bunless\b|\boverwrite\b|\bno suitable\b|\bfalling back\b|\bdeprecated\b|\bcannot schedule\b",
    ),
)
"""What a sentence speaks of, the nearest to a cause first."""
_READ = tuple((topic, Pattern(pattern, re.IGNORECASE)) for topic, pattern in _SENTENCES)
_OF_A_DRIVER = Pattern(r"(?:CUDA|HIP|cuDNN|cuBLAS|NCCL)\w* (?:runtime |driver )?error\b", re.IGNORECASE)
"""An error of CUDA, which tells of another one before it."""
_ASKS = Pattern(
    r"\b(?:requires?|needs?|support\w*|available|without)\b[^.\n]{0,60}\b(?:CUDA|GPUs?|accelerator|XPU|MPS)\b"
    r"|\b(?:CUDA|GPUs?|XPU)\b[^.\n]{0,20}\b(?:required|needed)\b|\.cuda\(",
    re.IGNORECASE,
)
"""A device that something needs."""
_VALUE = Pattern(
    r"[`'\"]?[\w.-]{2,60}[`'\"]? (?:argument to \S{1,40} )?(?:must|should|cannot|has to) (?:not )?be (?:>=?|<=?|at least|greater|smaller|less|positive|non-negative|None\b|an? (?:int|str|bool|list|dict))"
    r"|[^.\n]{0,80}, please choose\b",
    re.IGNORECASE,
)
"""The value of an argument, with which a sentence begins."""
_PLACES = Pattern(
    r"\b(?:on|onto|to|from|in|at|of|between|across|with|by) (?:an? |the |this |your |that |which |another |other |different |all |its )?(?:\w+ )?[`'\"]?(?:cuda(?::\d+)?|cpu|gpus?|meta|mps|xpu|npu|hpu|devices?|accelerators?)\b(?! (?:graph|version|and dtype))"
    r"|\b(?:cuda|cpu|gpu|meta|mps|xpu|npu)(?::\d+)? (?:tensors?|arrays?|device|backend|memory|parameters?|weights?|inputs?)\b|\btensors? device\b|\b(?:cuda|cpu|gpu)\b(?=\W*$)|\boffload(?:ed|ing)?\b|\bmeta tensors?\b|\bdevice_map\b",
    re.IGNORECASE,
)
"""Words that put something on a device."""


def names_a_device(message: str) -> bool:
    """Whether an error's own words name a device, a memory or what moves between them."""
    return _DEVICE_WORD.search(_COMPOUNDS.sub(" ", message)) is not None


def subject_of(message: str, exception: str | None) -> str | None:
    """The topic of an error that no row knows; None where it may be about devices.

    The class of an exception says it, or a sentence in which nothing is on a device.
    """
    topic = next((topic for topic, names in _CLASSES if exception in names), None)
    about = topic or next((topic for topic, pattern in _READ if pattern.search(message)), None)
    if not names_a_device(message):
        return about or "python"
    if topic == "python" or _OF_A_DRIVER.match(message):
        return None
    if about in ("import", "out-of-memory", "files", "network"):
        return about
    if _VALUE.match(message) or offers_devices(message):
        return about or "python"
    if (
        about in ("shape", "dtype", "numbers")
        and not _ASKS.search(message)
        and len({found[0].lower() for found in DEVICE_NAME.finditer(message)}) < 2
    ):
        return about
    return None if _PLACES.search(_COMPOUNDS.sub(" ", message)) or _ASKS.search(message) else about
