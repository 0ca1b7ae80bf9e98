"""Several processes, or several replicas, and which GPU each of them takes."""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from samedevice.diagnosis._rule import MAPPED
from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._facts import (
    GOES,
    RESUMED,
    Reading,
    ends,
    fails,
    gpus_met,
    when,
)
from samedevice.messages import Phrase


def spread_under_a_launcher(told: Told, report: Report) -> Reading | None:
    mapped = told.spread or told.says(MAPPED)
    if not (mapped and told.launched and fails(told, report)) or told.says(_ALSO_WITHOUT):
        return None
    reasons = (Phrase("because.told-spread"), Phrase("because.told-launched"))
    return Reading("device-map-in-multi-process-launch", reasons, situation="situation.s4")


_ALSO_WITHOUT = r"\bpython\s?(?:和|与|and|or|as well as|/)\s?(?:with )?(?:torchrun|deepspeed|accelerate)[^.。\n]{0,20}(?:都|both|all|fail|same)|\bboth\b[^.\n]{0,20}\bpython\b[^.\n]{0,16}\b(?:torchrun|accelerate|deepspeed)"
"""That it fails the same way without a launcher."""


def largest_does_not_train(told: Told, report: Report) -> Reading | None:
    """A map over several GPUs under training: the small model fits on one GPU, and the large one is spread."""
    largest = bool(told.fails and told.works) and min(told.fails) > max(told.works)
    small = largest or (bool(told.fails) and told.says(r"(?:small(?:er)?|tiny) (?:one|model)|小(?:的)?模型"))
    if not (told.spread and small and told.says(_TRAINS)):
        return None
    return Reading(
        "device-map-in-multi-process-launch",
        (Phrase("because.told-spread"), Phrase("because.told-largest")),
        ("input-not-on-embedding-device",),
        "situation.s4",
    )


_TRAINS = r"\btrain\w*|fine-?tun\w+|\bsft\b|训练|微调"


_NAMES_ITS_GPU = (
    r"(?:unless|without|until|missing|forgot\w*|(?:was|were|did) not)[^\n]{0,50}set_device\((?:args\.)?(?:\w+[._])?(?:local_?)?rank"
    r"|set_device\((?:args\.)?(?:\w+[._])?(?:local_?)?rank[^.\n]{0,40}(?:(?:is|was) missing|helps|solves|fixes|fixed|makes it)|(?:不加|没加|没有|去掉|漏了|忘了)[^。\n]{0,16}set_device|加上[^。\n]{0,16}set_device[^。\n]{0,30}(?:就|好了)"
)

current_gpu_matters = when(
    _NAMES_ITS_GPU,
    Reading(
        "rank-device-not-set",
        (Phrase("because.told-current-gpu"),),
        ("collective-off-its-gpu", "hard-coded-device"),
    ),
    error=None,
)
"""It works once each process names its GPU to CUDA."""


def all_on_the_first(told: Told, report: Report) -> Reading | None:
    """The processes of other GPUs hold memory on the first one, too."""
    together = told.launched and told.says(_ALL_MEMORY_ON_FIRST)
    if not (together or (told.says(_EACH_ON_FIRST) and told.says(_HOLDS))):
        return None
    reasons = (Phrase("because.told-first-gpu"),)
    if told.says(RESUMED):
        return Reading("checkpoint-map-location", reasons, ("rank-device-not-set",))
    return Reading("rank-device-not-set", reasons, ("checkpoint-map-location",))


_EACH_ON_FIRST = (
    r"(?:process|rank|worker)\w*[^.\n]{0,90}(?:GPUs?|cards?|devices?) ?[1-9][^.\n]{0,90}(?:GPU|card|device) ?#?0\b"
    r"|(?:all|every|each)(?: of)?(?: the)?(?: \w+)? (?:process|rank|worker)\w*[^.\n]{0,60}(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b|cuda:0\b)"
    r"|(?:two|three|four|eight|all|several|\d) (?:\w+ )?(?:process|rank|worker)\w*(?! on (?:two|three|four|\d))[^.\n]{0,16}(?:on|at|in) (?:the )?(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b|cuda:0\b)"
    r"|(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b)[^.\n]{0,40}(?:two|three|four|eight|all|several|more|extra|additional|\d) (?:\w+ )?(?:process|rank|worker)"
    r"|(?:0 ?号(?:卡|GPU)|GPU ?0|第一张卡)[^。\n]{0,12}(?:两|三|四|八|\d|所有|每|好几)个?(?:的)?进程"
    r"|(?:所有|每个|其他)进程[^。\n]{0,24}(?:0 ?号(?:卡|GPU)|GPU ?0\b|第一张卡)"
)

_ALL_MEMORY_ON_FIRST = (
    r"(?:memory|everything)\b[^.\n]{0,16}\b(?:all|only)\b[^.\n]{0,12}(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b|cuda:0\b)|(?:all|only)[^.\n]{0,20}memory[^.\n]{0,16}(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b|cuda:0\b)"
    r"|(?:显存|内存)[^。\n]{0,6}(?:全|都|只)[^。\n]{0,6}(?:0 ?号?(?:卡|GPU)|(?:GPU|卡) ?0\b|第一(?:张|块))"
)

_HOLDS = r"\bmemory\b|\b\d+(?:\.\d+)? ?[GM]\b|\bgigs?\b|\b[GM]i?B\b|\bMB\b|\boccup\w*|allocat\w*|显存|占|挤"


_NOT_EXPORTED = (
    r"\b(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR)\b[^.\n]{0,24}(?:not set|unset|missing|undefined|empty|没有设置|没设置|未设置|不存在)"
    r"|(?:not|never|没有?)\s?(?:set|export|pass|设置|导出|传)\w*[^.\n]{0,24}\b(?:LOCAL_RANK|RANK|WORLD_SIZE|MASTER_ADDR)\b"
)

rank_not_given = when(
    _NOT_EXPORTED,
    Reading("launch-variable-not-exported", (Phrase("because.told-no-variable"),), ("rank-device-not-set",)),
    error=None,
)
"""The variable that tells a process its number is not set by what starts it."""


def index_beyond_the_visible(told: Told, report: Report) -> Reading | None:
    """Each process sees one GPU, and counts them by its rank all the same; or the GPUs that are seen are chosen,
    and one of them is named by its number among all.
    """
    if told.says(_ONE_VISIBLE) and told.says(r"local_?rank|LOCALID|本地(?:的)?rank"):
        return Reading("device-ordinal-out-of-range", (Phrase("because.told-one-visible"),))
    if told.says(_ORDINAL) and told.says(_SHOWN):
        return Reading("device-ordinal-out-of-range", (Phrase("because.told-renumbered"),))
    return None


_ORDINAL = r"\bordinal\b|\b(?:no such|unknown|invalid) (?:cuda )?(?:device|GPU)\b|序号"
_SHOWN = r"\b(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES\b|\bvisible (?:devices?|GPUs?|cards?)\b|\b(?:hid(?:e|es|den|ing)|shows?|shown) [^.\n]{0,30}\b(?:GPUs?|cards?)\b|可见(?:的)?(?:卡|GPU|设备|显卡)"


_ONE_VISIBLE = (
    r"(?:each|every) (?:process|rank|task|worker)\b[^.\n]{0,40}(?:\bone|a single|1) (?:visible )?(?:device|GPU)\b"
    r"|每个进程只(?:能)?看到一(?:张|块)"
)


def each_rank_and_the_first(told: Told, report: Report) -> Reading | None:
    """Of several processes one works on its GPU and on the first one: nobody told it which is its own."""
    gpus = gpus_met(told, report)
    if told.launched and told.says(_UNEQUAL_NODES) and fails(told, report):
        return Reading(
            "rank-device-not-set", (Phrase("because.told-unequal-nodes"),), ("processes-exceed-gpus",)
        )
    if told.spread or not told.launched or "cuda:0" not in gpus or len(gpus) < 2 or told.says(_ALSO_WITHOUT):
        return None
    reasons = (Phrase("because.told-launched"), Phrase("because.told-rank-beside-first"))
    if told.says(_ANOTHER_START):
        return Reading("launch-variable-not-exported", reasons, ("rank-device-not-set", "hard-coded-device"))
    candidates = ("hard-coded-device", "launch-variable-not-exported")
    return Reading("rank-device-not-set", reasons, candidates, sure=len(gpus) > 2 or told.says(_OTHERS_TOO))


_UNEQUAL_NODES = r"\b(?:unequal|uneven|different|unbalanced)\b[^.\n]{0,24}\b(?:GPUs?|devices?|cards?)\b[^.\n]{0,24}\b(?:each|every|per|on the|across)\b[^.\n]{0,12}\bnodes?\b|(?:每个|各个?)节点[^。\n]{0,12}(?:GPU|卡)[^。\n]{0,8}(?:不同|不一样|不等|不一致)"
_ANOTHER_START = (
    r"(?:with|by|using|started (?:with|by)|under|through|用|通过)\s?(?:\w+ )?(?:torchrun|torch\.distributed\.\w+|mpirun|mpiexec|srun|slurm|accelerate|deepspeed)"
    rf"[^.\n。]{{0,40}}(?:{GOES}|\bit trains)|(?:another|other|different) (?:launcher|way to start)"
)

_OTHERS_TOO = r"(?:the )?others? (?:name|say|show|ranks?|process\w*)|(?:each|every|all|other) (?:ranks?|process\w*|workers?)|其他(?:进程|rank)|每个(?:进程|rank)"


def one_process_sees_all(told: Told, report: Report) -> Reading | None:
    """Training is started as one process that sees several GPUs, and with one GPU it works: a trainer makes
    replicas of the model then.
    """
    if told.launched or told.spread or told.says(MAPPED) or len(gpus_met(told, report)) < 2:
        return None
    started = _ONE_PROCESS.search(told.text)
    shown = told.says(r"CUDA_VISIBLE_DEVICES\s?=\s?['\"]?\d ?,")
    works = told.says(_ONE_WORKS) and (told.says(_SEVERAL_VISIBLE) or told.gpus > 1)
    if started is None or not (shown or works):
        return None
    if not told.says(r"\btrain\w*|fine-?tun\w+|\bsft\b|训练|微调"):
        return None
    reasons = (Phrase("because.told-one-process", text=started[0]),)
    others = ("data-parallel-replica-device", "block-split-across-devices")
    return Reading("trainer-chooses-data-parallel", reasons, others, sure=False)


_ONE_PROCESS = Pattern(r"\bpython\d? (?!-m (?:torch\.distributed|accelerate|deepspeed))[\w./-]{1,60}")
_ONE_WORKS = rf"(?:\b(?:single|one|1) (?:GPU|card)\b|单(?:机单)?(?:张|块)?卡)[^.。\n]{{0,16}}{GOES}|{GOES}[^.。\n]{{0,20}}(?:\b(?:single|one|1) (?:GPU|card)\b|单(?:机单)?(?:张|块)?卡)"
_SEVERAL_VISIBLE = r"CUDA_VISIBLE_DEVICES\s?=\s?['\"]?\d ?,|\bmulti-?\s?GPU\b|(?:单机)?多卡"


def replicated(told: Told, report: Report) -> Reading | None:
    """The model is copied to every GPU by threads of one process."""
    in_replica = told.says(r"\breplica ?\d") and ends(told, report)
    if told.launched or not (in_replica or (told.says(_REPLICATES) and fails(told, report))):
        return None
    kept = _KEPT_ON_GPU.search(told.text)
    reasons, others = (Phrase("because.told-replicas"),), ("hard-coded-device",)
    if kept is None:
        return Reading("data-parallel-replica-device", reasons, others)
    return Reading("data-parallel-replica-device", reasons, others, "advice.buffer-of-replica", kept["name"])


_KEPT_ON_GPU = Pattern(
    r"\bself\.(?P<name>\w{1,40}) ?= ?torch\.\w{1,30}\([^\n`]{0,120}?(?:\.cuda\(|\.to\(|device ?=)"
)
"""A tensor that a module keeps as a plain attribute on a GPU."""


_REPLICATES = r"(?<!Distributed)DataParallel\b|\bdata_parallel\b"
