"""From what prose states to a cause: each cause has its condition over the stated facts, the narrower first.

Nothing is a cause here because of a name: a condition speaks of things on devices, of how the model was
placed and started, and of what works beside what fails.
"""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from samedevice.diagnosis.paste import Report, Told
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


Condition = Callable[[Told, Report], Reading | None]


def read_story(report: Report) -> Reading | None:
    """The cause that the prose of a report states; None when its facts amount to none."""
    told = report.told
    if told is None or told.words < LEAST_WORDS:
        return None
    return next((found for condition in CONDITIONS if (found := condition(told, report)) is not None), None)


def states_devices(told: Told) -> bool:
    """Whether prose puts two things on devices that are not the same one, or tells of two that met."""
    return (
        bool(told.met)
        or len({device for _, _, device in told.places} - {"cuda"}) > 1
        or told.apart(("cache",), ("keys",))
    )


def _placed(told: Told, *roles: str) -> Phrase:
    devices = told.devices_of(*roles)
    return Phrase("because.told-placed", thing=told.named(*roles), device=devices[0] if devices else "?")


def _fails(told: Told, report: Report) -> bool:
    """Whether a device error is told: by a message, by two stated devices, or in words."""
    return (
        report.kind not in ("unknown-message", "no-exception")
        or states_devices(told)
        or told.says(r"device error|same device|different devices|设备不一致|同一(?:个)?设备|不同(?:的)?设备")
    )


def _spread_under_a_launcher(told: Told, report: Report) -> Reading | None:
    if not (told.spread and told.launched and _fails(told, report)):
        return None
    reasons = (Phrase("because.told-spread"), Phrase("because.told-launched"))
    return Reading("device-map-in-multi-process-launch", reasons, situation="situation.s4")


def _largest_does_not_train(told: Told, report: Report) -> Reading | None:
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


def _cache_left(told: Told, report: Report) -> Reading | None:
    joined = told.apart(("cache",), ("keys",)) or ("cpu" in told.devices_of("cache") and _fails(told, report))
    if not joined:
        return None
    return Reading(
        "cache-or-beam-state-on-wrong-device",
        (_placed(told, "cache"), *((_placed(told, "keys"),) if told.devices_of("keys") else ())),
        situation="situation.s5",
    )


def _state_after_resume(told: Told, report: Report) -> Reading | None:
    if "cpu" not in told.devices_of("optimizer") and not (
        "optimizer" in told.roles and told.says(r"\.step\(\)") and _fails(told, report)
    ):
        return None
    return Reading(
        "optimizer-state-on-other-device", (_placed(told, "optimizer"),), ("optimizer-built-before-move",)
    )


def _adapter_left(told: Told, report: Report) -> Reading | None:
    left = "adapter" if "cpu" in told.devices_of("adapter") else "weights"
    if "adapter" not in told.roles or "cpu" not in told.devices_of(left):
        return None
    return Reading("adapter-weights-on-other-device", (_placed(told, left),))


def _extra_input_left(told: Told, report: Report) -> Reading | None:
    reason: Phrase | None = None
    if "cpu" in told.devices_of("extra") or told.apart(("extra",), ("ids",)):
        reason = _placed(told, "extra")
    elif told.says(_POSITIONS) and _fails(told, report):
        reason = Phrase("because.told-positions")
    if reason is None:
        return None
    return Reading(
        "extra-input-on-wrong-device", (reason,), ("tensor-created-on-wrong-device",), "situation.s3"
    )


_POSITIONS = (
    r"get_rope_index|(?:rotary|rope)[\w -]{0,24}position|position[\w -]{0,24}(?:rotary|rope|index)|位置编码"
)


def _only_the_smallest(told: Told, report: Report) -> Reading | None:
    """A map with the whole model on one GPU: small models with a tied embedding, whose inputs go elsewhere."""
    smallest = bool(told.fails and told.works) and max(told.fails) < min(told.works)
    away = told.on_one is not None and told.on_one not in told.devices_of("ids")
    if not (told.spread or away) or not (smallest or away) or not _fails(told, report):
        return None
    reasons = [Phrase("because.told-smallest")] if smallest else []
    if away and told.on_one is not None:
        reasons.append(Phrase("because.told-on-one", device=told.on_one))
    candidates = ("input-not-on-embedding-device",)
    return Reading("lm-head-or-tied-weight-split", tuple(reasons), candidates, "situation.s1")


def _inputs_elsewhere(told: Told, report: Report) -> Reading | None:
    if not told.apart(("embedding",), ("ids",)):
        return None
    return Reading(
        "input-not-on-embedding-device",
        (_placed(told, "embedding"), _placed(told, "ids")),
        ("embedding-streams-on-different-devices",),
        "situation.s2",
    )


def _labels_elsewhere(told: Told, report: Report) -> Reading | None:
    meets = told.says(r"cross_?entropy|nll_loss|\bloss\b|criterion|损失")
    if not (meets and told.devices_of("labels") and _fails(told, report)):
        return None
    return Reading("loss-or-label-on-other-device", (_placed(told, "labels"),))


def _loss_weight_left(told: Told, report: Report) -> Reading | None:
    """A loss that was given class weights, which are no part of the model."""
    given = told.says(r"(?:loss|cross_entropy)\w*\([^)\n]{0,80}weight\s?=")
    if not (given and "cpu" in told.devices_of("weights")):
        return None
    return Reading("loss-or-label-on-other-device", (_placed(told, "weights"),))


def _weights_left(told: Told, report: Report) -> Reading | None:
    """Weights on the host, and what goes in on a GPU."""
    gpu = [each for each in told.devices_of("ids", "extra", "tensor") if each != "cpu"]
    if "cpu" not in told.devices_of("weights", "model") or not gpu or not _fails(told, report):
        return None
    return Reading("module-left-on-other-device", (_placed(told, "weights", "model"),))


def _made_without_a_device(told: Told, report: Report) -> Reading | None:
    made = told.says(
        r"torch\.(?:ones|zeros|arange|full|tensor|tri[ul]|empty|eye|linspace|randn?|randint)\((?![^\n]{0,120}device)"
    )
    if not (made and "cpu" in told.devices_of("mask", "extra", "outputs", "tensor") and _fails(told, report)):
        return None
    return Reading("tensor-created-on-wrong-device", (_placed(told, "mask", "extra", "outputs", "tensor"),))


def _copy_changes_values(told: Told, report: Report) -> Reading | None:
    """A copy between GPUs that raises nothing and delivers something else."""
    if not (told.says(_COPIED) and told.says(_OTHER_VALUES)):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-copy"),))


_COPIED = (
    r"(?:cop(?:y|ied|ies)|mov(?:e|ed|es|ing)|transfer\w*)[^.\n]{0,60}"
    r"(?:one GPU to another|between (?:two )?GPUs|cuda:\d[^.\n]{0,20}cuda:\d)|(?:拷贝|复制)到另"
)
_OTHER_VALUES = (
    r"other values|wrong values?|all zeros?|garbage|corrupt\w*|\bnans?\b|values differ|乱码|全是? ?0|数值不对"
)


def about_something_else(report: Report) -> str | None:
    """What prose that tells of no device error is about: a topic, `something` where it fits none.

    None where it may be about devices, or is no prose.
    """
    told = report.told
    if told is None or report.kind != "unknown-message" or report.exception or told.words < LEAST_WORDS:
        return None
    if states_devices(told) or told.says(_OF_DEVICES):
        return None
    return next((topic for topic, pattern in _TOPICS if told.says(pattern)), "something")


_OF_DEVICES = (
    r"offload\w*|\bhooks?\b|\bmeta (?:device|tensors?)|on meta\b|device (?:mismatch|error|placement)|same device"
    r"|(?:different|wrong|other|another) (?:device|GPU|card)s?\b|left on the|设备不一致|同一(?:个)?设备|不同(?:的)?(?:设备|卡)"
)
_TOPICS = (
    ("out-of-memory", r"out of memory|\bOOM\b|爆显存|显存不[足够]|省(?:点)?显存|爆内存"),
    ("collective-timeout", r"\bhangs?\b|\bstuck\b|timing out|timed out|time-?out|卡住|超时"),
    ("numbers", r"\bnan\b|overflow|溢出"),
    ("speed", r"\bslow(?:er)?\b|tokens/s|throughput|速度|很慢|太慢"),
    ("import", r"\binstall\w*|\bpip\b|\bwheel\b|\bbuild\b|安装|编译"),
    ("quality", r"repeats?|gibberish|quality|hallucinat\w*|胡说|重复"),
)


CONDITIONS: tuple[Condition, ...] = (
    _copy_changes_values,
    _spread_under_a_launcher,
    _largest_does_not_train,
    _cache_left,
    _state_after_resume,
    _adapter_left,
    _made_without_a_device,
    _extra_input_left,
    _only_the_smallest,
    _loss_weight_left,
    _labels_elsewhere,
    _inputs_elsewhere,
    _weights_left,
)
