"""The few ways in which libraries say that a device is wrong, missing or asked for.

A row is a way of saying it, never the text of one library. Groups called `side` hold the device that is wanted,
or refused, and `argument` the operand. Must guarantee: every repetition is bounded, so that a search is linear.
"""

# ruff: noqa: E501 # a phrasing is one line

from __future__ import annotations

import re
from itertools import count

from samedevice.diagnosis.paste._pattern import Pattern

_FLAGS = re.IGNORECASE
_NAME = r"(?P<argument>[A-Za-z_]\w{0,40})"
_WANT = r"(?:must|should|need(?:s|ed)? to|ha(?:s|ve) to|expect(?:ed|s|ing)?|requires?|desired|can only)"
_BUT = r"(?:but|got|gets|found|was|were|received?|instead|vs\.?|is (?:now |currently )?on|are on)"
_DEVICE = r"(?:(?:cuda|mps|xpu|npu|hpu)(?::\d{1,3})?|cpu|gpu)"
_CARD = r"(?:CUDA|GPU|MPS|XPU|NPU|HPU|MLU|MUSA|accelerator)"
_SIDE = r"(?P<side>cuda|gpus?|mps|xpu|npu|hpu|cpus?|host)"
_WITHIN = r"(?:[^.\n]|\.(?=\w))"
_TENSORS = r"(?:tensors?|arrays?|inputs?|arguments?|buffers?|memory|devices?)"


def _phrasing(*ways: str) -> Pattern:
    """The ways as one expression, whose groups for a side and for an operand are numbered."""
    number = count()
    return Pattern(
        re.sub(r"\(\?P<(side|argument)>", lambda found: f"(?P<{found[1]}{next(number)}>", "|".join(ways)),
        _FLAGS,
    )


STATES = (
    ("deserialize", _phrasing(r"\btorch\.load\b[^\n]{0,40}\bmap_location\b")),
    (
        "map-off-gpu",
        _phrasing(
            rf"\bdevice_map that contains an? {_DEVICE}(?: or |/)disk device\b|\brequires? an? (?:CUDA|GPU) \W?device_map\b|\bwithout setting \W?device_map\b",
            rf"\b(?:does not|doesn't|do not) support {_DEVICE} or disk (?:offload\w*|in the `?device_map)\b|\bwith {_DEVICE} or disk offload\w*\b",
        ),
    ),
    (
        "duplicate-gpu",
        _phrasing(
            rf"\bsame (?:physical )?(?:CUDA |GPU )?(?:device|GPU)\b{_WITHIN}{{0,80}}\b(?:multiple|several|two|both|distinct|different|more than one)\b{_WITHIN}{{0,30}}\b(?:ranks?|process(?:es)?|roles?|workers?)\b"
        ),
    ),
    (
        "collective-device",
        _phrasing(
            rf"\bNCCL\b{_WITHIN}{{0,60}}?\b(?:only supports?|requires?|{_WANT})\b{_WITHIN}{{0,40}}\b(?:CUDA|GPUs?)(?: device)? ?(?:tensors?|arrays?|device)\b",
            rf"\bNCCL\b{_WITHIN}{{0,30}} {_WANT} be (?:on )?(?:a )?CUDA\b|\bCUDA tensors? with NCCL\b",
            rf"\bdevice(?: type)? {_WANT} be cuda\b{_WITHIN}{{0,20}}\bnccl\b",
            rf"\b{_WANT} be on (?:distinct|unique)(?: GPU| CUDA)? devices\b",
        ),
    ),
    (
        "too-few-gpus",
        _phrasing(
            rf"\b(?:not enough|too few|insufficient|fewer|(?:able|unable|failed) to find enough) (?:visible |available )?(?:{_CARD}|device)s?\b",
            rf"\b(?:greater|larger|higher|more) than (?:the )?(?:number ?of |available |visible )(?:available |visible )?(?:{_CARD}|CUDA device|device)s\b",
            r"\bbut only \d{1,3} (?:CUDA |GPU )?(?:devices?|GPUs?) (?:are |is )?available\b",
            r"\b(?:world[ _-]?size|process(?:es)?|ranks?)\b[^.\n]{0,40}\b(?:but|only) (?:have|has|found|there are)?(?: only)? ?\d{1,3} (?:visible |available )?(?:GPU|device)s?\b",
        ),
    ),
    (
        "invalid-ordinal",
        _phrasing(
            r"\bdevice(?: (?:index|id|ordinal|number))?(?: \W?(?:cuda:)?\d{1,3}\W?)? (?:is )?(?:out of (?:range|bounds)|does not exist)\b",
            r"\b(?:device|GPU)(?: (?:index|id|ordinal|number))? must be (?:between|in (?:the )?range|less than|smaller than|below)\b",
            rf"\b{_CARD} (?:cuda:)?\d{{1,3}} (?:is )?(?:not available|does not exist|not found|is unavailable)\b",
            r"\bgpu[ _]?id\W{0,3}\d{0,3}\W{0,3}should be smaller than\b",
            r"\binvalid (?:\w+ ){0,2}device (?:index|id|ordinal|\d{1,3})\b|\binvalid GPU (?:index|id|ordinal)\b|\binvalid CUDA \W?device=\d",
            r"\bdevice (?:index|id|ordinal) ?(?:<|>=)|\bnot found in (?:the )?(?:set|list) of available (?:GPU|device)s\b|\bdevice\b[^.\n]{0,80}\bwithin the range\b|\bdevice \W?(?:cuda|xpu):\d{1,3}\W? is not available\b",
        ),
    ),
    (
        "cuda-not-compiled",
        _phrasing(
            rf"\b(?:not|n't) (?:been )?(?:compiled|built|linked) with (?:any )?{_CARD}\b",
            rf"\b(?:compiled|built) without {_CARD}\b",
            rf"\bno {_CARD} (?:version|support)\b",
            r"\b(?:Py)?Torch with (?:CUDA|XPU)(?: support)?\b",
            r"\bwithout ATen_cuda\b|\ba CPU library and a CUDA library\b|\bCUDA build\b|\b(?:compile|build) again with CUDA\b|\brecompile\w* with CUDA\b|\bCPU-only (?:version|build)\b|\b(?:compiled|built) with CPU_ONLY\b",
            rf"\brequires? (?:a )?(?:Py)?Torch(?: build)? with {_CARD}\b",
        ),
    ),
    (
        "machine",
        _phrasing(
            rf"\bno (?:\w+ ){{0,2}}(?:{_CARD}s?|CUDA[- ](?:capable )?devices?|(?:available )?devices?)(?: or \w+ \w+)?(?: devices?)?(?: is| are| was| were)?(?: currently)? (?:found|available|detected|present|visible)\b",
            rf"\b(?:{_CARD}s?|CUDA devices?)(?: or {_CARD})? (?:is|are|was|were)? ?(?:currently )?(?:not avail\w{{2,5}}|unavailable|not found|not detected|not present)\b(?! \()",
            rf"\b(?:no|without) (?:an? |any )?(?:\w+ )?{_CARD}s?(?! kernels?\b| versions?\b| graphs?\b)[ ,/][\w ,/]{{0,60}}(?:found|available|detected|present)\b",
            rf"\b(?:cannot find|could not find|couldn't find|didn't find|did not find|might not have) (?:an?|any) (?:CUDA |available )?(?:{_CARD}|device)s?\b",
            rf"\bpresence of an? {_CARD} device\b|\bpresence of (?:cuda|xpu|mps) device\b|\bis_available\(\) should be True\b",
            rf"\b(?:CUDA|GPUs?|XPU|MPS) must be available\b|\b(?:requires?|needs?|have)\b{_WITHIN}{{0,40}}\b{_CARD}s? (?:is |are |to be )?available\b|\bat least (?:one|1) {_CARD}\b",
            rf"\bno {_CARD} or cpu support\b|\bno cuda gpu\b|\bno (?:cuda|gpu)[- ]?capable devices?\b|\bhas no GPUs?\b|\brequires? an? available (?:device|accelerator)\b",
            r"\bunknown CUDA arch\b|\bcannot use (?:the )?GPU\b",
            rf"\b(?:{_CARD}|accelerator)s?\b{_WITHIN}{{0,60}}\bbut (?:none|no \w+ (?:is|was)|not?) (?:is )?(?:available|found|detected)\b",
            rf"\b(?:cannot|can't|unable to|not possible)\b{_WITHIN}{{0,60}}\b(?:without|when no|on an environment without) (?:an? )?{_CARD}s?\b",
            rf"\b{_CARD}\b{_WITHIN}{{0,60}}\bwhen none is available\b",
            rf"\b{_CARD}s?\b{_WITHIN}{{0,50}}\b(?:unable to detect|could not (?:be )?(?:find|found|detect))",
            rf"\b(?:\w{{1,20}} )?(?:driver|libcuda)\b{_WITHIN}{{0,40}}\b(?:not found|cannot be found|could not be (?:found|loaded)|too old|insufficient|missing|(?:failed|fails) to init\w*|initiali[sz]ation failed)\b",
            r"\b(?:could not find|failed to load|error at|unsupported|unable to load)\b[^.\n]{0,20}\b(?:CUDA |display |NVIDIA )?(?:driver|libcuda)\b",
            rf"\b(?:requires?|needs?|only|supported|unsupported|not|at least|suitable|got|current)\b{_WITHIN}{{0,80}}\b(?:compute capability|gpu architectures?)\b",
            rf"\bcompute capability\b{_WITHIN}{{0,80}}\b(?:or (?:higher|newer|later|above)|is not|required?|does not)\b|\bcompute capability ?(?:>=|>|<)",
            rf"\b(?:requires?|needs?|only|supported|supports?)\b{_WITHIN}{{0,60}}\b(?:SM ?\d{{2,3}}|(?:Volta|Turing|Ampere|Ada|Hopper|Blackwell|MI\d{{3}})\b(?:\+| or (?:newer|later|higher)| \(|{_WITHIN}{{0,12}}\bGPUs?\b|\+ GPUs?))",
            r"\bonly supported on CUDA ?>= ?\d|\bminimum compute capability\b",
            rf"\b(?:not (?:be )?(?:supported|available|implemented|suitable)|unsupported) (?:on|by|for|with) (?:this|the current|your|current) (?:\w+ )?(?:{_CARD}|device|hardware|card)\b",
            rf"\b(?:this|your|current)(?: \w+)? (?:{_CARD}|device|card)(?: \w+)? (?:does not|doesn't|do not) (?:support|have)\b(?! enough)",
            r"\bonly available on NVIDIA\b",
        ),
    ),
    (
        "module-apart",
        _phrasing(
            r"\bboth (?:CPU and (?:GPU|CUDA)|(?:GPU|CUDA) and CPU) (?:params|parameters|weights|tensors)\b",
            r"\bplease (?:call|use|run) \W?(?:\w{1,30})?\.?(?:cuda|to)\(",
        ),
    ),
    (
        "move-dispatched",
        _phrasing(
            rf"\b(?:dispatched|offloaded|placed) (?:\w+ ){{0,3}}(?:accelerate|hooks|device_map)\b{_WITHIN}{{0,40}}\b(?:not (?:allow|support)|cannot)"
        ),
    ),
    (
        "meta-value",
        _phrasing(
            r"\bcannot (?:extract|access|get|read|print)\b[^.\n]{0,40}\bmeta (?:device|storage|tensors?)\b"
        ),
    ),
    (
        "meta-device",
        _phrasing(
            r"\b(?:on|with|from|of|in|contains?) (?:the )?`?meta`?(?: device| storage| tensors?)(?! (?:function|kernel|implementation))\b",
            r"\bnot (?:to )?be an? meta tensor\b|\bon (?:the )?`?meta`?\b(?=\s?[.,;]|\s?$)",
        ),
    ),
)
"""What a sentence may state, in the order in which it is looked for."""
REQUIRED = _phrasing(
    r"\b(?:CUDA|GPU|XPU)(?: device)? is (?:required|needed)\b|\bsupports? (?:NVIDIA )?(?:CUDA|GPUs?) only\b|\b(?:CUDA|GPU)(?:/\w+)? only\b",
    rf"\b(?:requires?|needs?|need to have|must have)(?: an?| at least one)?(?: NVIDIA| compatible| available| CUDA-capable){{0,2}} {_CARD}(?:s|(?:[- ]capable)? devices?| GPUs?)?(?:/\w+| or (?:a )?(?:{_CARD}|ROCm)| support)?(?: devices?| GPUs?)?(?= with\b| to\b| for\b|\W{{0,2}}(?:but|and) |\s?\W?\s?$|[.,;:](?:\s|$)| \(not\b)",
)
"""`requires a CUDA device`: none is there, or what it is given is not on one."""
CHOICE = _phrasing(
    rf"\b{_DEVICE}\W{{0,2}}(?:, \W?{_DEVICE}\W{{0,3}}){{0,6}} or \W{{0,2}}(?:an? )?{_DEVICE}\b",
    r"\b(?:be|expected) one of\b|\bone of \W?(?:cpu|cuda)\b",
)
"""Devices that may be chosen."""
NUMBERS = _phrasing(
    r"\b(?:dtypes?|half|bfloat16|float\d{1,2}|fp\d{1,2}|bf16|bool|complex|int\d{1,2}|double|precision|dim(?:ension)?s?)\b"
)
"""A kind of number, or a shape: what is not supported there is that."""
DEMAND = _phrasing(
    rf"\b{_NAME}\W{{0,2}}(?: (?:tensors?|argument|input|array)){{0,2}} {_WANT}(?: to)?(?: always)? be "
    rf"(?:(?:a|an|on|in|put on|placed on|moved to|1D|contiguous|dense|non-empty) ){{0,3}}(?:the )?\W?{_SIDE}\b",
    r"\bonly (?P<side>cuda|gpu|cpu) (?:tensors?|(?:nd)?arrays?) (?:are|is|can)\b|\brequires? (?P<side>cuda|gpu)-based\b",
    r"\bon (?:a )?non-(?P<side>CUDA|GPU|CPU) tensors?\b",
    rf"\b{_WANT} (?:all )?(?:the )?(?:\w+ )??(?:\W?(?P<argument>[A-Za-z_]\w{{0,40}})\W?)(?: \([^)\n]{{0,30}}\)| tensors?)? to be (?:on |in )?(?:(?:a|an|the) )?\W?(?P<side>{_DEVICE})s?\b",
    r"\b(?P<argument>[A-Za-z_]\w{0,40})(?:\.\w+\(\))?\.(?:is_(?P<side>cuda|cpu|xpu)\(\)|(?:device|options)\(\)[.\w()]{0,30} == (?:[\w:]{0,20}::)?k?(?P<side>CUDA|CPU|XPU)) to be true\b",
    r"\b(?P<argument>[A-Za-z_]\w{0,40}) (?:is|was|are|were)(?: not|n't) (?:a |on )?(?:the )?(?P<side>cuda|gpu|cpu)\b(?! (?:memory object|extension))",
    r"\b(?P<argument>[A-Za-z_]\w{0,40}) isnt on (?P<side>cuda|gpu|cpu)\b",
    r"\brequires? (?:an? )?(?P<side>cuda|gpu|cpu) (?P<argument>tensors?|(?:nd)?arrays?|inputs?|[a-z]\w{0,20}_\w{1,20}|[a-z](?=\W|$))\b",
    rf"\brequires? an? (?P<side>cuda|gpu|cpu) device{_WITHIN}{{0,20}}\bgot\b",
    rf"\b(?:{_NAME} )?(?:\w+ )?{_WANT} (?:live|reside|stay|lie|sit|be a? ?(?:[\w-]+ ){{0,6}}tensors?) on (?:the )?(?P<side>cuda|gpu|cpu)\b",
    r"\bexpects? an? (?P<side>cuda|gpu|cpu) (?:tensor|(?:nd)?array)\b|\bmust be of type (?P<side>cuda|cpu)\b",
    rf"\bneeds? be on (?P<side>{_DEVICE})\b",
    rf"\b(?P<side>cuda|gpu|cpu) {_TENSORS} (?:are|is) (?:required|expected|needed)\b",
    rf"\b{_WANT} (?:contain|hold|have|get|receive|take) (?:\w+ )?tensors (?:on|in) (?:the )?(?P<side>cuda|gpu|cpu)\b",
)
"""`q must be on CUDA`, `expected 'mat1' to be a CPU tensor`, `mask.is_cuda() to be true`."""
ONLY = _phrasing(
    r"\b(?:only (?:be )?(?:supports?|accepts?|works?|handles?|implemented|available|supported|expects)|support(?:s|ed)? only)(?: training)?(?: (?:for|on|with|by|in))?(?: an?| the)? (?P<side>cuda|gpus?|cpu)\b"
    r"(?P<others>(?:(?:,? (?:and|or) |, |/)(?:Intel )?(?:cuda|gpu|cpu|mps|xpu|npu|hpu|mlu|musa)\b){0,5})(?! ?(?:graph|version|[<>=]|\d))(?P<tensors> (?:tensors?|(?:nd)?arrays?|inputs?))?"
)
"""`only implemented on CPU tensors`, `only supported on GPU`."""
REFUSAL = _phrasing(
    rf"\b(?:does not|doesn't|do not|don't|cannot|not) (?:yet )?(?:be )?(?:support(?:ed)?|accept|handle|implemented|available|allowed)(?: yet)?(?: (?:for|on|with|by|in))?(?: an?| the)? (?P<side>cuda|gpu|cpu)(?: {_TENSORS}\b| only\b|\s?[.,;!](?:\s|$)|\s?$)",
    rf"\b(?P<side>cuda|gpu|cpu) {_TENSORS} (?:are|is) not (?:supported|allowed|accepted)\b",
)
"""`does not support cuda tensors`."""
CONTRAST = _phrasing(
    rf"\b{_WANT}\b(?:[^.\n]|\.(?=\w)){{0,200}}?\b{_DEVICE}\b[^\n]{{0,120}}?\b{_BUT}\b[^\n]{{0,60}}?\b{_DEVICE}\b",
    rf"\b{_WANT}\b[^\n]{{0,120}}?\bdevices?\b[^\n]{{0,80}}?\b(?:but|got|found)\b[^\n]{{0,60}}?"
    rf"\b{_DEVICE}\b[^\n]{{0,60}}?\b{_DEVICE}\b",
    rf"\bsupport device='?{_DEVICE}\W{{1,3}}got\b",
    rf"\b{_DEVICE}\b[^\n]{{0,80}}?\b(?:but|vs\.?)\b[^\n]{{0,80}}?\b{_DEVICE}\b",
    r"\b(?:do(?:es)? not|must|should|cannot) (?:all )?(?:match|agree)\b",
    r"\b(?:differ(?:s|ent)?|inconsistent|mismatch\w*|mixed|same|both|locate[ds]?|two)\b[^.\n]{0,80}\bdevices?\b",
    r"\bdevices?\b[^.\n]{0,60}\b(?:differ(?:s|ent)?|inconsistent|mismatch\w*|(?:is|are) not the same)\b",
    rf"\b(?:in)?to an? (?:\w+ )?(?:tensor|module|parameter|graph|view|buffer) (?:with|on|of) (?:device(?: type)?[ =])?\W?{_DEVICE}\b",
)
"""Two named devices that ought to be one."""
TOGETHER = _phrasing(
    rf"\b(?:{_WANT}|expect|not|aren't|isn't|are|supposed|unless)\b{_WITHIN}{{0,120}}\b(?:on|in|at|have|has|be|of|from)(?: the| a)? (?:same|single|one|correct|right)(?: type of)? (?:GPU |CUDA )?(?:devices?|GPUs?)(?! mesh)\b",
    rf"\b{_WANT} (?:\w+ ){{0,3}}(?:the )?same \w+(?:,? (?:and )?\w+){{0,2}},? (?:and )?device\b",
    r"\bdevice (?:type |index )?mismatch\b|\bmismatch\w* (?:\w+ ){0,6}devices\b|\bmismatched devices?\b",
    rf"\b(?:{_WITHIN}{{0,80}}\bdevice mismatch|wrong device|device is wrong|not the same device|correct device (?:set|type)|devices? (?:do(?:es)? not|don't|must|should) (?:match|agree))\b",
    r"\b(?P<argument>[A-Za-z_]\w{0,40})(?:\.\w{1,20}\(\))?(?:\.\w+\(\)|->\w+\(\))?\.device\(\)(?:\.type\(\))? == [\w.>()-]{0,60}device\(\)(?:\.type\(\))? to be true\b",
    r"\b(?:tensors?|parameters?|operands?|inputs?|arguments?|data|points|weights?|arrays?)\b[\w ,()]{0,40}\b(?:on|across|in|from) (?:different|distinct|several|multiple|two|other) (?:devices|GPUs)\b",
    r"\b(?:located|resident|is|are|tensors) on an? (?:different|other|another) (?:CUDA )?(?:device|GPU)\b|\bdevices? (?:is|are) (?:different|not consistent|inconsistent)\b|\bdevices?(?: type)?\b[^.\n]{0,30}\bshould be consistent\b|\bmust be on supported devices\b",
    r"\bdevices?\b[^.\n]{0,60}\b(?:must|should|has to|have to|needs? to) be (?:the )?(?:same|equal|identical)\b|\b(?:must|should|have to|to) (?:share an?|have the same|have same|be in the same) device\b|\bon multiple devices\b",
    rf"\bdevice\b{_WITHIN}{{0,30}}\bis not one of the (?:\w+ ){{0,2}}tensor devices\b|\bunsupported devices in GPU\b",
)
"""What ought to be on one device, which the sentence need not name."""
INSTALLS = _phrasing(r"\binstall(?:ed)?\b")
"""A package that is not there."""
RANK = _phrasing(r"\bon rank (\d{1,4})\b")
"""The process that says it."""
PINS = _phrasing(r"\bpin(?:ned|ning)?\b")
"""Memory that a GPU copies from."""
