"""What is kept between steps, and what belongs to a loss, an optimizer, an adapter or a quantised layer."""

# ruff: noqa: E501 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

import re

from samedevice.diagnosis._rule import names_argument
from samedevice.diagnosis.paste import Pattern, Report, Told
from samedevice.diagnosis.story._contrast import breaks_with, works_in_one_part, works_without
from samedevice.diagnosis.story._facts import (
    GOES,
    RESUMED,
    RIGHT,
    Reading,
    ends,
    fails,
    in_parts,
    placed_at,
    when,
)
from samedevice.diagnosis.story._steps import precedes
from samedevice.messages import Phrase

_METRIC = r"\b(?:torch)?metrics\.[A-Z]\w{0,40}\(|\bmetrics?\b[^\n]{0,160}(?:\bupdate|\bcompute|\bstate|\bis on|\bstays|\b(?:is|was) (?:cast|moved|sent|put|placed) (?:on|to))|指标[^。\n]{0,60}(?:update|compute|更新|状态|在)"

metric_apart = when(
    _METRIC,
    Reading("metric-state-device", (Phrase("because.told-metric"),), ("loss-or-label-on-other-device",)),
)
"""A metric counts on one device what comes from another one."""


def table_elsewhere(told: Told, report: Report) -> Reading | None:
    """The table of rotary positions is stated to be on one device, and two of them met."""
    stated = bool(told.devices_of("rotary"))
    if not ((stated or told.says(_ROTARY_ELSEWHERE)) and fails(told, report)):
        return None
    candidates = ("offload-hook-bypassed", "device-map-incomplete-or-wrong")
    reasons = (placed_at(told, "rotary") if stated else Phrase("because.told-rotary"),)
    return Reading("rope-table-on-wrong-device", reasons, candidates)


_ROTARY_ELSEWHERE = r"(?:gather|index_select)\((?:cos|sin)\b|\b(?:cos|sin)(?:_cached)?\[position|\b(?:\w*rotary_emb\w*|inv_freq|freqs_cis|cos_cached|sin_cached)\b[^.\n]{0,60}(?:different|other|another|wrong) (?:GPUs?|devices?|cards?)|(?:旋转(?:位置)?编码|inv_freq)[^。\n]{0,20}(?:不同|别的|另一)"


def quantised_left(told: Told, report: Report) -> Reading | None:
    """State of quantised weights that is named where it fails, or a calibration in which devices met."""
    moved = bool(told.chosen) or told.says(_MOVED_AWAY)
    state = "quantised" in told.roles and (moved or fails(told, report))
    calibrated = told.says(_CALIBRATES) and fails(told, report)
    if not told.says(_QUANTISED) or not (state or calibrated):
        return None
    candidates = ("hard-coded-device",) if moved else ("module-left-on-other-device",)
    reasons = (Phrase("because.told-quantised"),)
    return Reading("quantized-state-on-other-device", reasons, candidates, sure=state)


_QUANTISED = r"(?:\b|_)(?:4|8|four|eight)[- ]?bits?\b|\bint[48]\b|\bnf4\b|\bfp[48]\b|quanti[sz]\w+|量化"

_CALIBRATES = (
    r"\bquanti[sz]ing\b|calibrat\w+|量化(?:时|过程|的时候|到)|校准|quanti[sz]ation (?:of|run|process|step)"
)

_MOVED_AWAY = (
    r"(?:mov(?:e|ed|es|ing)|\.to\(|sent|sending|put|to) [^.;\n]{0,30}\bcuda:[1-9]|\.to\(['\"]cuda:[1-9]"
    r"|(?:second|other|another) (?:card|GPU|(?:cuda )?device)\b|第二(?:张卡|块)|(?:另一|别的)(?:张|块)?(?:卡|GPU)"
)


_OPTIMIZER = r"(?:optimi[sz]er|\bAda\w{2,8}|\bSGD|RMSprop|优化器)\w*"

_MOVED_MODEL = r"(?:(?:model|net)\w*\.(?:cuda|to)\b|(?:move|moving|moved|send|sending|put)\b[^.\n]{0,30}(?:model|net)|(?:model|net)\w* (?:is|was) (?:moved|sent)|(?:模型|model|net)[^。\n]{0,10}(?:搬|移|放|\.cuda|\.to))"

_BUILT_FIRST = (
    rf"{_OPTIMIZER}[^.\n]{{0,60}}(?:before|and then|then|and (?:only )?(?:later|afterwards)|之前|然后|再)[^.\n]{{0,30}}{_MOVED_MODEL}"
    rf"|{_OPTIMIZER}[^\n]{{0,60}}{_MOVED_MODEL}[^.\n]{{0,30}}(?:behind|after|later|next line|后面|之后)|{_MOVED_MODEL}[^.\n]{{0,30}}(?:after|behind|之后|后面)[^.\n]{{0,30}}{_OPTIMIZER}"
)


def optimizer_first(told: Told, report: Report) -> Reading | None:
    """The optimizer was built, and then the model was moved."""
    first = told.says(_BUILT_FIRST) or (told.says(_STEPS) and precedes(told.text, "optimizer", "move"))
    if not (first and ends(told, report)):
        return None
    reasons = (Phrase("because.told-optimizer-first"),)
    return Reading("optimizer-built-before-move", reasons, ("optimizer-state-on-other-device",))


def kept_state(told: Told, report: Report) -> Reading | None:
    """It fails with beams or a cache, and where layers are apart; without them it works."""
    without = told.says(_WITHOUT_STATE)
    off = told.says(r"\buse_cache\s?=\s?False") and not without
    beams = told.says(r"num_beams|\bbeams?\b|\bbeam_\w+|束搜索") and in_parts(told) and ends(told, report)
    if off or not (beams or (told.says(_KEEPS) and (without or in_parts(told)) and fails(told, report))):
        return None
    candidates = ("block-split-across-devices", "lm-head-or-tied-weight-split")
    reasons = (Phrase("because.told-kept"),)
    return Reading("cache-or-beam-state-on-wrong-device", reasons, candidates, "situation.s5", sure=without)


_KEEPS = r"num_beams|\bbeams?\b|\bbeam_\w+|束搜索|use_cache|past_key_values|\bkv[ _-]?cache|static cache|缓存"

_WITHOUT_STATE = rf"(?:greedy|use_cache ?= ?False|(?:without|no|disabl\w+|turn\w* off) (?:the |a )?(?:\w+ )?(?:cache|beams?)|num_beams ?= ?1|单束|贪心|(?:关(?:掉|闭)|不用)[^。\n]{{0,6}}(?:缓存|cache|beam))[^.\n。]{{0,60}}(?:{RIGHT}|{GOES}|answer|可以|就好)"


_HELPS = r"stopping_?\s?criteri\w*|logits_?\s?(?:processor|warper)\w*|stop_?(?:ids|words|tokens)|bad_words\w*|assistant_model|assisted (?:decoding|generation)|draft model|停止条件|停止词"

helper_of_generation = when(
    _HELPS,
    Reading(
        "generation-helper-on-wrong-device",
        (Phrase("because.told-helper"),),
        ("tensor-created-on-wrong-device",),
    ),
)
"""What stops or steers generation holds a tensor of its own."""


_LOSES = (
    r"\b\w*loss\w* ?\+ ?\w*loss|\b\w*(?:_loss|cross_entropy|criterion)\(|\bloss (?:line|fails|call|raises|computation)|in (?:the|my) loss\b|\b(?:kl_div|\w{0,20}cross[_ ]entropy\w{0,20}|[a-z]\w*_loss)\b|(?:add|sum|accumulat)\w*[^.\n]{0,30}loss\w*"
    r"|(?:算|计算)\s?(?:的)?\s?loss|loss[^。\n]{0,24}(?:相加|累加|加起来)|(?:相加|累加)[^。\n]{0,10}loss"
)

in_the_loss = when(
    _LOSES,
    Reading(
        "loss-or-label-on-other-device",
        (Phrase("because.told-in-loss"),),
        ("tensor-created-on-wrong-device", "input-not-on-embedding-device"),
        sure=False,
    ),
)
"""It fails where a loss is computed, or where losses are added up."""


def cache_left(told: Told, report: Report) -> Reading | None:
    joined = told.apart(("cache",), ("keys",)) or ("cpu" in told.devices_of("cache") and fails(told, report))
    below = (
        told.apart(("cache",), ("model",)) and "cuda" not in told.devices_of("model") and ends(told, report)
    )
    if not (joined or below):
        return None
    return Reading(
        "cache-or-beam-state-on-wrong-device",
        (placed_at(told, "cache"), *((placed_at(told, "keys"),) if told.devices_of("keys") else ())),
        situation="situation.s5",
    )


def state_loaded_before_the_move(told: Told, report: Report) -> Reading | None:
    """The optimizer's state was loaded where the parameters were then, and the model was moved without it."""
    if not (precedes(told.text, "load", "move") and fails(told, report)):
        return None
    reasons, candidates = (Phrase("because.told-state-first"),), ("optimizer-built-before-move",)
    sure = told.says(_STEPS)
    return Reading("optimizer-state-on-other-device", reasons, candidates, "advice.move-first", sure=sure)


_STEPS = (
    r"\.step\b|optimi[sz]er(?:'s)? step|\bexp_avg|moment(?:s|um)|更新参数|优化器[^。\n]{0,6}(?:更新|step)"
)
"""Where an optimizer reads its state."""


def state_after_resume(told: Told, report: Report) -> Reading | None:
    steps = told.says(_STEPS_OR_FAILS) and fails(told, report)
    resumed = told.says(rf"{RESUMED}|optim\w*\.load_state_dict")
    named = "optimizer" in told.roles and fails(told, report)
    restored = resumed and told.ended and told.says(rf"{_RESTORED}|multi_tensor_apply")
    if not ("cpu" in told.devices_of("optimizer") or named or (steps and resumed) or restored):
        return None
    placed = placed_at(told, "optimizer") if told.devices_of("optimizer") else Phrase("because.told-resumed")
    sure = named or bool(steps) or not restored
    others = ("optimizer-built-before-move",)
    return Reading("optimizer-state-on-other-device", (placed,), others, sure=sure)


_STEPS_OR_FAILS = r"multi_tensor_apply|\.step\(\)|optimi[sz]er(?:'s)? step|optim\w*\.load_state_dict|\boptimi[sz]er\b[^.\n]{0,16}\b(?:fails?|failed|raises?|breaks?|errors?)\b|优化器[^。\n]{0,8}报"
_RESTORED = r"map_location\W{0,4}(?:torch\.device\()?['\"]?cpu[^\n]{0,80}(?:optim|优化器)|(?:optim|优化器)[^\n]{0,80}map_location\W{0,4}(?:torch\.device\()?['\"]?cpu"
"""A checkpoint on the host that brings the optimizer's state."""


def adapter_left(told: Told, report: Report) -> Reading | None:
    left = next((each for each in ("adapter", "weights", "model") if "cpu" in told.devices_of(each)), None)
    if "adapter" in told.roles and told.apart(
        ("adapter",), ("model", "weights", "ids", "tensor", "embedding")
    ):
        left = "adapter"
    if "adapter" not in told.roles or left is None:
        return None
    return Reading("adapter-weights-on-other-device", (placed_at(told, left),))


def adapter_contrasted(told: Told, report: Report) -> Reading | None:
    """It works without the adapter, or the adapter works where its base is not split."""
    named = re.search(r"lora|adapter|适配器", told.evidence, re.IGNORECASE)
    if named is None or not fails(told, report):
        return None
    comes_in = breaks_with(told, _ADAPTER) and not told.says(_TRAINING)
    if comes_in or works_without(told, _ADAPTER):
        reason = Phrase("because.told-without", thing=named[0])
    elif works_in_one_part(told, _ADAPTER):
        reason = Phrase("because.told-one-part", thing=named[0])
    else:
        return None
    candidates = ("block-split-across-devices", "weights-moved-away-by-manager")
    return Reading("adapter-weights-on-other-device", (reason,), candidates)


_TRAINING = (
    r"\btrain(?!ed)\w*|fine-?tun\w+|\bloss\b|\blabels?\b|optimi[sz]er|训练(?!好)|微调|损失|标签|优化器"
)
"""What comes beside the adapter where that is trained, and may be at fault as well."""
_ADAPTER = r"(?:\b|_)(?:lora|adapter)s?(?:\b|_)|适配器"


_AMISS = r"\bproblem\w*|\bwrong\b|\bfault\b|\bculprit\b|问题|原因"


def labels_elsewhere(told: Told, report: Report) -> Reading | None:
    meets = told.says(r"cross_?entropy|nll_loss|\bloss\b|criterion|损失")
    if (
        "cpu" in told.devices_of("labels")
        and not fails(told, report)
        and (ends(told, report) or (meets and told.says(_AMISS)))
    ):
        others = ("extra-input-on-wrong-device",)
        return Reading("loss-or-label-on-other-device", (placed_at(told, "labels"),), others, sure=False)
    if not (meets and told.devices_of("labels") and fails(told, report)):
        return None
    return Reading("loss-or-label-on-other-device", (placed_at(told, "labels"),))


def compared_with_labels(told: Told, report: Report) -> Reading | None:
    """Code compares what a model gives with labels, which nothing in the text moves."""
    found = _COMPARED.search(told.text)
    if found is None or not fails(told, report) or told.launched or told.spread:
        return None
    name = re.escape(found["name"])
    if told.says(rf"\b{name}\.(?:to|cuda)\(|\b{name} ?= ?[\w.]+\.(?:to|cuda)\("):
        return None
    reason = Phrase("because.told-not-moved", operand=found["name"], text=found[0])
    others = ("extra-input-on-wrong-device",)
    return Reading("loss-or-label-on-other-device", (reason,), others, "advice.hand-over", found["name"])


_COMPARED = Pattern(
    r"\b(?:pred\w*|out\w*|logits|scores|y_hat|y_pred)(?:\.\w{1,20}\([^()\n]{0,20}\)){0,2} ?== ?(?P<name>(?:y|gt|label|target|tgt)\w{0,12})\b",
    re.IGNORECASE,
)


def loss_weight_left(told: Told, report: Report) -> Reading | None:
    """A loss that was given class weights, which are no part of the model."""
    if not told.says(_CLASS_WEIGHTS):
        return None
    if report.argument == "weight" and len(set(report.devices)) > 1:
        because = names_argument("weight", report.op)
        return Reading("loss-or-label-on-other-device", (because,), (), "advice.class-weights", "weight")
    if "cpu" in told.devices_of("weights"):
        return Reading(
            "loss-or-label-on-other-device", (placed_at(told, "weights"),), (), "advice.class-weights"
        )
    named = re.search(r"weight\s?=\s?([A-Za-z_]\w{0,30})\b(?![.(])", told.text)
    made = rf"(?<![.\w]){named[1]} ?= ?{_MADE}" if named else _WEIGHT_MADE
    if told.says(made) and fails(told, report):
        reasons = (Phrase("because.told-made"),)
        return Reading("loss-or-label-on-other-device", reasons, (), "advice.class-weights", "weight")
    return None


_CLASS_WEIGHTS = (
    r"(?:loss|cross_entropy)\w*\([^)\n]{0,80}weight\s?="
    r"|(?:class|loss|类别)(?:[ -]|的)?(?:weights?|权重)[^.\n。]{0,20}\w\s?=|(?:loss|损失)[^.\n。]{0,20}\bweight\s?="
)
"""The class weights of a loss, as code or prose gives them."""
_MADE = r"(?:torch\.)?(?:tensor|as_tensor|from_numpy|ones|(?:Float|Double)?Tensor)\((?![^\n]{0,80}(?:\.to\(|\.cuda\(|device\s?=))"
_WEIGHT_MADE = rf"weight\s?=\s?{_MADE}"
"""Weights of classes that are made in the call, without a device."""
