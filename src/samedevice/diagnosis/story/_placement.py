"""Maps over GPUs and the host: what they cut, leave out, offload or move away."""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from dataclasses import replace

from samedevice.diagnosis.paste import Report, Told
from samedevice.diagnosis.story._facts import (
    GOES,
    RIGHT,
    Reading,
    ends,
    fails,
    gpus_met,
    in_parts,
    placed_at,
    when,
)
from samedevice.messages import Phrase


def moved_behind_a_map(told: Told, report: Report) -> Reading | None:
    if not (told.spread and told.says(_MOVED_WHOLE)):
        return None
    return Reading(
        "dispatched-model-moved",
        (Phrase("because.told-spread"), Phrase("because.told-moved")),
        ("offload-hook-bypassed",),
    )


_MOVED_WHOLE = (
    r"device_map[^()]{0,160}\)\s{0,2}\.(?:to|cuda)\(|cannot move a model"
    r"|\bchang\w+ (?:the )?(?:model(?:'s)? )?device\b[^.\n]{0,24}(?:after|with|of)|\bcall\w*[^.\n]{0,16}`?\.?(?:cuda|to)(?:\(\w*\))?`? method|(?:loaded|moved|put|sent) (?:again )?(?:to|onto|on) (?:the )?(?:default|first|one|a single) (?:GPU|device)[^.\n]{0,16} again"
    r"|\bmodel\.(?:to\(|cuda\()[^\n]{0,80}(?:after|although|behind|afterwards)|device_map[^。\n]{0,40}(?:之后|后)[^。\n]{0,30}\.(?:to|cuda)\(|device_map[^.\n]{0,80}(?:\bthen\b|\bafter\w*|\blater\b|\balso\b)[^\n]{0,40}\bmodel\.(?:to|cuda)\("
)


_NO_BLOCKS = r"(?:load_checkpoint_and_dispatch|infer_auto_device_map)\((?![^()]{0,300}no_split)"

mapped_without_blocks = when(
    _NO_BLOCKS,
    Reading(
        "block-split-across-devices",
        (Phrase("because.told-spread"), Phrase("because.told-no-blocks")),
        ("device-map-incomplete-or-wrong",),
    ),
)
"""A map that was made without the names of the blocks that must stay whole."""


_OFFLOAD = r"offload\w*|卸载"


def meta_in_use(told: Told, report: Report) -> Reading | None:
    """A weight that is still on meta where an automatic placement sends layers elsewhere."""
    if not (
        told.says(r"\bon meta\b|meta 上|\bmeta\b[^.。\n]{0,30}cuda") and (told.spread or told.says(_OFFLOAD))
    ):
        return None
    candidates = ("meta-tensor-not-materialized", "unmaterialized-weights")
    return Reading("offload-hook-bypassed", (Phrase("because.told-meta"),), candidates)


_SAVES = r"free\w*[^.\n]{0,24}(?:VRAM|GPU memory)|bring\w* (?:it|them) back|out of VRAM|释放显存|(?:low|med|medium)[-_ ]?v?ram\b|sleep(?:ing)?[ _]mode|wake[_ ]?up|model management|(?:un)?load(?:s|ing|ed)?/unload\w*|unload\w* (?:the )?(?:model|weights)|省显存模式|低显存模式"


def memory_saver(told: Told, report: Report) -> Reading | None:
    """It fails only where something moves weights away to save the GPU's memory, and no hook is named that does."""
    if (
        not told.says(_SAVES)
        or told.says(r"enable_(?:model|sequential)_cpu_offload")
        or not fails(told, report)
    ):
        return None
    reasons = (Phrase("because.told-saver"),)
    return Reading("weights-moved-away-by-manager", reasons, ("offload-hook-bypassed",))


def block_cut(told: Told, report: Report) -> Reading | None:
    """A residual, or the list of blocks that stay whole, beside an automatic map."""
    if not (in_parts(told) and told.says(_WHOLE_BLOCK) and fails(told, report)):
        return None
    reasons = (Phrase("because.told-spread"), Phrase("because.told-block"))
    return Reading("block-split-across-devices", reasons, ("device-map-incomplete-or-wrong",))


_WHOLE_BLOCK = r"\bresiduals?\b|\bshortcut\b|skip connection|_no_split_modules|no_split_module|残差"


def spread_and_met(told: Told, report: Report) -> Reading | None:
    """An automatic map over several GPUs, and two of them met in the model."""
    if not (told.spread and len(gpus_met(told, report)) > 1 and ends(told, report)):
        return None
    candidates = ("input-not-on-embedding-device", "device-map-incomplete-or-wrong")
    return Reading("block-split-across-devices", (Phrase("because.told-spread"),), candidates, sure=False)


def past_its_hook(told: Told, report: Report) -> Reading | None:
    """A part of an offloaded model is called, or read, by the program itself, or has no hook of its own."""
    if not told.says(_OFFLOADS) or told.says(_NO_OFFLOAD):
        return None
    if told.mentions(_HOOK_ABSENT) and (fails(told, report) or told.says(_STAYS)):
        reasons, others = (Phrase("because.told-no-hook"),), ("module-left-on-other-device",)
        return Reading("offload-hook-bypassed", reasons, others)
    reading = offloaded(told, report)
    if reading is None or not told.says(r"\bdirectly\b|\bmyself\b|by hand|直接|自己|我用"):
        return None
    return replace(reading, sure=True)


_HOOK_ABSENT = (
    r"\b(?:no|not|never|nobody|nothing|without|lacks?|missing|misses)\b[^.\n]{0,40}\bhooks?\b|\bhooks?\b[^.\n]{0,40}(?:\bnot\b|\bnever\b|\bonly\b)"
    r"|\bhooks? (?:sits|is|are|hangs?|lives?) on (?:the |its )?\W?forward\b|(?:bypass\w*|skip\w*|circumvent\w*|(?:go|goes|going|gets?) (?:around|past)) (?:\w+ ){0,2}hooks?\b|\borphan\w*|\bonly\b[^.\n]{0,20}\bforward\b[^.\n]{0,30}\bhooks?\b"
    r"|\b(?:not|nothing|never|no)\b[^.\n]{0,30}\bregister\w*(?![^.\n]{0,30}\b(?:buffer|parameter))|(?:\bnot\b|\bno\b)[^.\n]{0,24}\b(?:entry|listed|part|included|contained|mentioned|in)\b[^.\n]{0,16}(?:offload|sequence)"
    r"|\bhooks?[^。，\n]{0,10}(?:没|不|未)|(?:没有?|未|不会?|绕过|跳过)[^。，\n]{0,10}\bhooks?|没有?(?:被)?注册|(?:没有?|不)(?:走|经过|调用)[^。，\n]{0,4}forward|(?:没有?|不)(?:写|列|放)?在[^。，\n]{0,12}(?:offload|序列|列表)"
)
"""That nothing brings the weights of a part when it is used."""
_STAYS = r"\b(?:stay|remain|sit|lie|wait|left|stuck|still)\w*\b[^.,;\n]{0,16} (?:on|in) (?:the )?(?:cpu|host|RAM)\b|\bnever leaves (?:the )?(?:cpu|host|RAM)\b|(?:留|停|还|仍|一直)[^。，\n]{0,4}在\s?(?:cpu|内存|主机)"


_OFFLOADS = r"(?<!no )(?<!without )\b(?:enable_)?(?:\w+_)?(?:cpu|disk|model|group|layer)[-_ ]?offload\w*|\boffload(?:s|ed|ing)?\b|卸载到|offload"

_NO_OFFLOAD = r"(?:\bnot|\bnever|\bno|\bwithout)\b(?: (?:use|using|used|enabled?|have|any|hooks?|or|cpu|disk|model)){0,4} offload\w*|\boffload\w* (?:is|are|was)(?: not| never| off\b| disabled)|(?:没有?|不|未|关)(?:开启?|启用|使用|用|闭|掉)?\s?(?:cpu )?(?:offload|卸载)"


def offloaded(told: Told, report: Report) -> Reading | None:
    """Layers wait on the host until they are called, and a device error is told."""
    if not told.says(_OFFLOADS) or told.says(_NO_OFFLOAD) or not fails(told, report):
        return None
    reasons = (Phrase("because.told-offloaded"),)
    others = ("tensor-created-on-wrong-device", "weights-moved-away-by-manager")
    return Reading("offload-hook-bypassed", reasons, others, sure=False)


def streams_apart(told: Told, report: Report) -> Reading | None:
    """What comes from images or sound is stated to be elsewhere than the text, or fails where text alone works."""
    apart = told.apart(("vision",), ("embedding", "ids", "outputs", "mask"))
    alone = in_parts(told) and told.says(_TEXT_WORKS) and fails(told, report)
    joined = told.says(_MERGES) and fails(told, report)
    stated = told.apart(("ids",), ("embedding",)) and not (apart or joined)
    if stated or not (apart or alone or joined):
        return None
    reason = placed_at(told, "vision") if apart else Phrase("because.told-text-works")
    candidates = ("extra-input-on-wrong-device", "block-split-across-devices")
    sure = apart or joined
    advice = "situation.s3" if told.says(_PROCESSED) else "advice.streams"
    return Reading("embedding-streams-on-different-devices", (reason,), candidates, advice, sure=sure)


_PROCESSED = r"processor|second_per_grid|grid_thw|\bvideos?\b|batch(?:es|ed)?\b|视频|批量|Qwen"
"""What a processor makes of images and sound goes to the model as a whole."""


def parts_apart(told: Told, report: Report) -> Reading | None:
    """Two parts of a model are stated to be on two GPUs, by nothing that moves what goes between them."""
    placed = (each for each in told.places if each[0] == "model" and each[2].startswith("cuda:"))
    parts = {device: word for _, word, device in placed}
    other_place = told.spread or told.launched or told.says(r"\bloss|\blabels?\b|损失|标签")
    if other_place or len(parts) < _TWO or not ends(told, report):
        return None
    device, word = next(iter(parts.items()))
    reason = Phrase("because.told-placed", thing=word, device=device)
    others = ("module-left-on-other-device", "embedding-streams-on-different-devices")
    return Reading("block-split-across-devices", (reason,), others, "advice.between-parts")


_TWO = 2


_MERGES = (
    r"\b(?:concat\w*|cat|merg\w*|join\w*)\b[^.\n]{0,30}(?:image|vision|visual|video|audio|clip)[ _-]?(?:features?|embed\w*|tokens?)|(?:image|vision|visual|video|audio)[^.\n]{0,40}(?:put|merg|insert|scatter|cop(?:y|ied)|past|writ|join|concat)\w*[^.\n]{0,30}(?:embed|text|prompt|\bids\b)"
    r"|masked_scatter|(?:图像|视觉|图片)(?:的)?特征[^。\n]{0,20}(?:合并|拼|填|写|插)"
)

_TEXT_WORKS = rf"(?:text[- ]only|only text|pure text|without (?:an |the )?(?:image|picture|video)s?|纯文本|不带图|没有图)[^.;\n。]{{0,40}}(?:{RIGHT}|{GOES})"


def head_apart(told: Told, report: Report) -> Reading | None:
    """The output head, which often is the embedding itself, and two GPUs that met."""
    if not (told.says(_HEAD) and len(gpus_met(told, report)) > 1 and fails(told, report)):
        return None
    candidates = ("device-map-incomplete-or-wrong", "input-not-on-embedding-device")
    return Reading("lm-head-or-tied-weight-split", (Phrase("because.told-head"),), candidates, "situation.s1")


_HEAD = r"\blm_head\b|\btied\b|tie_w\w+|tie_word\w+|output (?:head|layer|projection)|输出(?:头|层)|权重共享|共享权重"


def never_loaded(told: Told, report: Report) -> Reading | None:
    """A weight that loading left on meta, where nothing is offloaded."""
    if not told.says(_ON_META) or told.spread or told.says(_OFFLOAD) or not told.says(_LOADED):
        return None
    candidates = ("unmaterialized-weights", "offload-hook-bypassed")
    return Reading("meta-tensor-not-materialized", (Phrase("because.told-on-meta"),), candidates)


_ON_META = r"\bon meta\b|meta (?:device|tensors?)|meta['\"]? ?上|device ?= ?['\"]meta"

_LOADED = r"\bload\w*|low_cpu_mem\w*|init_empty\w*|from_pretrained|new(?:ly)?\b|custom|加载"


def only_the_smallest(told: Told, report: Report) -> Reading | None:
    """A map with the whole model on one GPU: small models with a tied embedding, whose inputs go elsewhere."""
    smallest = bool(told.fails and told.works) and max(told.fails) < min(told.works)
    away = told.on_one is not None and told.on_one not in told.devices_of("ids")
    if (
        not (told.spread or away)
        or not (smallest or away)
        or not (fails(told, report) or (smallest and told.ended))
    ):
        return None
    reasons = [Phrase("because.told-smallest")] if smallest else []
    if away and told.on_one is not None:
        reasons.append(Phrase("because.told-on-one", device=told.on_one))
    candidates = ("input-not-on-embedding-device",)
    return Reading("lm-head-or-tied-weight-split", tuple(reasons), candidates, "situation.s1")
