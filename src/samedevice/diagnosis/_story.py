"""From what prose states to a cause: each cause has its condition over the stated facts, the narrower first.

Nothing is a cause here because of a name: a condition speaks of things on devices, of how the model was
placed and started, and of what works beside what fails.
"""

# ruff: noqa: E501, RUF001 # patterns of whole phrases, in Chinese, too

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from samedevice.diagnosis._rule import MAPPED
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
    sure: bool = True
    """False where the facts leave others nearly as likely."""


Condition = Callable[[Told, Report], Reading | None]


def read_story(report: Report) -> Reading | None:
    """The cause that the prose of a report states; None when its facts amount to none."""
    told = report.told
    if told is None or told.words < LEAST_WORDS:
        return None
    return next((found for condition in CONDITIONS if (found := condition(told, report)) is not None), None)


def tells_of_devices(report: Report) -> bool:
    """Whether the facts of prose amount to a cause, whatever error it quotes beside them."""
    reading = read_story(report)
    return reading is not None and reading.sure


def states_devices(told: Told) -> bool:
    """Whether prose puts two things on devices that are not the same one, or tells of two that met."""
    return (
        len({*told.met} - {"cuda"}) > 1
        or len({device for _, _, device in told.places} - {"cuda"}) > 1
        or told.apart(("cache",), ("keys",))
    )


def _placed(told: Told, *roles: str) -> Phrase:
    devices = told.devices_of(*roles)
    return Phrase("because.told-placed", thing=told.named(*roles), device=devices[0] if devices else "?")


def _fails(told: Told, report: Report) -> bool:
    """Whether a device error is told: by a message, by two stated devices, or in words."""
    return _worded(report) or bool(told.met) or states_devices(told) or told.says(MEETS)


MEETS = (
    r"devices? (?:error|mismatch)|complain\w* about the device|(?:the two|they|devices) (?:do not|don'?t) match|devices? (?:meet|met|differ|conflict|(?:are|is|get) mixed)|expected [^.\n]{0,40}(?:cuda|gpu)\b[^.\n]{0,20}(?:got|found|is|on) (?:on )?cpu"
    r"|(?:cuda|gpu) and (?:the )?cpu are mixed|(?:cuda|gpu) (?:tensor )?[^.\n]{0,30}(?:weights?|parameters?|model) (?:is|are) not|不在(?:同)?一(?:个|张|块)?\s?(?:设备|卡|GPU)|mismatch\w* (?:of |in )?devices?|same (?:device|GPU|card)\b|(?:different|two|several|multiple|separate) devices"
    r"|(?:\bnot|n'?t|never) (?:all |both )?(?:on|at) (?:one|a single|the same) (?:device|GPU|card)\b"
    r"|设备(?:不一致|不匹配|不同|对不上|冲突)|同一(?:个|张|块)?(?:设备|卡|GPU)|不同(?:的)?(?:设备|卡上)|跨设备|两个设备"
)
"""Words by which people say that tensors met on several devices."""


def _ends(told: Told, report: Report) -> bool:
    """Whether an error is told, of whatever kind: by a message or in words."""
    return told.ended or _worded(report)


def _worded(report: Report) -> bool:
    """Whether the text has the words of an error that is known."""
    return report.kind not in ("unknown-message", "no-exception")


def _spread_under_a_launcher(told: Told, report: Report) -> Reading | None:
    mapped = told.spread or told.says(MAPPED)
    if not (mapped and told.launched and _fails(told, report)):
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


def _moved_behind_a_map(told: Told, report: Report) -> Reading | None:
    if not (told.spread and told.says(_MOVED_WHOLE)):
        return None
    return Reading(
        "dispatched-model-moved",
        (Phrase("because.told-spread"), Phrase("because.told-moved")),
        ("offload-hook-bypassed",),
    )


_MOVED_WHOLE = (
    r"device_map[^\n()]{0,160}\)\s{0,2}\.(?:to|cuda)\(|can'?t move a model|cannot move a model"
    r"|\bmodel\.(?:to\(|cuda\()[^\n]{0,80}(?:after|although|behind|afterwards)|device_map[^。\n]{0,40}(?:之后|后)[^。\n]{0,30}\.(?:to|cuda)\(|device_map[^.\n]{0,80}(?:\bthen\b|\bafter\w*|\blater\b|\balso\b)[^\n]{0,40}\bmodel\.(?:to|cuda)\("
)


def _mapped_without_blocks(told: Told, report: Report) -> Reading | None:
    """A map that was made without the names of the blocks that must stay whole."""
    if not (told.says(_NO_BLOCKS) and _fails(told, report)):
        return None
    reasons = (Phrase("because.told-spread"), Phrase("because.told-no-blocks"))
    return Reading("block-split-across-devices", reasons, ("device-map-incomplete-or-wrong",))


_NO_BLOCKS = r"(?:load_checkpoint_and_dispatch|infer_auto_device_map)\((?![^()]{0,300}no_split)"


def _another_gpu_chosen(told: Told, report: Report) -> Reading | None:
    """A GPU that is not the first was chosen, and something goes to the first one or works there alone."""
    kernel = told.says(_OWN_KERNEL) or report.kind == "illegal-access"
    if told.spread or (told.launched and not kernel) or not told.chosen:
        return None
    met = {*report.devices, *told.met}
    if not ("cuda:0" in met and met & {*told.chosen}) and not told.says(_FIRST_WORKS):
        return None
    reasons = (Phrase("because.told-chosen", device=told.chosen[0]),)
    if kernel:
        return Reading("kernel-launched-on-current-device", reasons, ("hard-coded-device",))
    return Reading("hard-coded-device", reasons, ("module-left-on-other-device",))


_GOES = r"(?:\bworks?\b|\bworked\b|\bfine\b|\bok\b|\btrains\b|\bruns\b|\bran\b|no (?:problem|error)s?\b|(?:doesn'?t|does not|didn'?t) (?:happen|fail|occur)|没问题|没事|正常|不报错|就好了)"
_FIRST = r"(?:cuda:0\b|GPU ?#?0\b|gpu_?id ?= ?0\b|card 0\b|first GPU|0 ?号(?:卡|GPU)|默认(?:的)?(?:卡|GPU))"
_RIGHT = r"(?:\bworks?\b|\bfine\b|\bok\b|\bright\b|\bcorrect\b|no (?:problem|error)|没问题|没事|正常|可以)"
_FIRST_WORKS = rf"{_FIRST}[^.;。；\n]{{0,40}}{_RIGHT}|{_RIGHT}[^.;。；\n]{{0,24}}{_FIRST}"
_OWN_KERNEL = r"CUDA (?:C\+\+ )?extensions?|\bextension\b|cpp_?extension|custom (?:CUDA )?(?:op\w*|kernels?)|triton kernels?|our (?:own )?kernels?|(?:自定义|自己写的)(?:CUDA)? ?(?:算子|kernel|核函数)"


def _several_gpus_give_other_values(told: Told, report: Report) -> Reading | None:
    """The same program is right on fewer GPUs, and on more of them its values are wrong without an error."""
    if not (told.says(_OTHER_VALUES) and told.says(_FEWER_RIGHT)):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-more-gpus"),))


_FEWER_RIGHT = (
    rf"(?:\bone|single|1|each) (?:GPU|card)\b[^.;\n]{{0,40}}{_RIGHT}|{_RIGHT}[^.;\n]{{0,30}}(?:\bone|single|1) (?:GPU|card)\b"
    r"|(?:单|一|两|任意两?|每)(?:张|块)?(?:卡|GPU)[^。；\n]{0,8}(?:正常|没问题|可以|是对的)"
)


def _current_gpu_matters(told: Told, report: Report) -> Reading | None:
    """It works once each process names its GPU to CUDA."""
    if not told.says(_NAMES_ITS_GPU):
        return None
    candidates = ("collective-off-its-gpu", "hard-coded-device")
    return Reading("rank-device-not-set", (Phrase("because.told-current-gpu"),), candidates)


_NAMES_ITS_GPU = (
    r"(?:unless|without|until|missing|forgot\w*|(?:was|were|did) not|didn'?t)[^\n]{0,50}set_device\((?:args\.)?(?:\w+[._])?(?:local_?)?rank"
    r"|set_device\((?:args\.)?(?:\w+[._])?(?:local_?)?rank[^.\n]{0,40}(?:(?:is|was) missing|helps|solves|fixes|fixed|makes it)|(?:不加|没加|没有|去掉|漏了|忘了)[^。\n]{0,16}set_device|加上[^。\n]{0,16}set_device[^。\n]{0,30}(?:就|好了)"
)


def _gpu_unseen(told: Told, report: Report) -> Reading | None:
    """torch sees no GPU, and the machine has one."""
    if not told.says(_UNSEEN):
        return None
    return Reading("hardware-or-driver", (Phrase("because.told-unseen"),))


_UNSEEN = (
    r"is_available\(\)[^.\n]{0,24}\bfalse\b|(?:torch|pytorch|it) (?:does(?:n'?t| not)|can(?:no|')t) (?:see|find|detect|recogni[sz]e) (?:my |the |any )?(?:GPU|cuda|card)"
    r"|(?:识别|检测|找|看)不到\s?(?:GPU|显卡|cuda)"
)


def _modules_in_a_container(told: Told, report: Report) -> Reading | None:
    """Modules in a plain list or dictionary, which `.to` does not know."""
    if not (told.says(_PLAIN_CONTAINER) and (_fails(told, report) or _worded(report))):
        return None
    return Reading("module-left-on-other-device", (Phrase("because.told-plain-container"),))


_KEPT_MODULES = r"(?:modules|layers|blocks|networks|branches|heads|experts)"
_PLAIN_CONTAINER = (
    r"self\.\w+ ?= ?(?:\[|\{|list\(|dict\()[^\n]{0,80}?\b(?:nn\.)?[A-Z]\w+\("
    rf"|(?:plain|python|normal|ordinary) (?:list|dict\w*) of (?:\w+ )?{_KEPT_MODULES}|{_KEPT_MODULES}[^.\n]{{0,30}}in a (?:plain|python|normal|ordinary) (?:\w+ )?(?:list|dict\w*)|普通(?:的)?\s?(?:list|dict|列表|字典)"
)


def _metric_apart(told: Told, report: Report) -> Reading | None:
    """A metric counts on one device what comes from another one."""
    if not (told.says(_METRIC) and (_fails(told, report) or states_devices(told))):
        return None
    return Reading(
        "metric-state-device", (Phrase("because.told-metric"),), ("loss-or-label-on-other-device",)
    )


_METRIC = r"\bmetrics?\b[^\n]{0,160}(?:\bupdate|\bcompute|\bstate|\bis on|\bstays)|指标[^。\n]{0,60}(?:update|compute|更新|状态|在)"


def _all_on_the_first(told: Told, report: Report) -> Reading | None:
    """The processes of other GPUs hold memory on the first one, too."""
    if not (told.says(_EACH_ON_FIRST) and told.says(_HOLDS)):
        return None
    reasons = (Phrase("because.told-first-gpu"),)
    if told.says(_RESUMED):
        return Reading("checkpoint-map-location", reasons, ("rank-device-not-set",))
    return Reading("rank-device-not-set", reasons, ("checkpoint-map-location",))


_EACH_ON_FIRST = (
    r"(?:process|rank|worker)\w*[^.\n]{0,90}(?:GPUs?|cards?|devices?) ?[1-9][^.\n]{0,90}(?:GPU|card|device) ?#?0\b"
    r"|(?:all|every|each)(?: of)?(?: the)?(?: \w+)? (?:process|rank|worker)\w*[^.\n]{0,60}(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b|cuda:0\b)"
    r"|(?:first (?:GPU|card)|(?:GPU|card) ?#?0\b)[^.\n]{0,40}(?:two|three|four|eight|all|several|\d) (?:\w+ )?(?:process|rank|worker)"
    r"|(?:0 ?号(?:卡|GPU)|GPU ?0|第一张卡)[^。\n]{0,12}(?:两|三|四|八|\d|所有|每|好几)个?(?:的)?进程"
    r"|(?:所有|每个|其他)进程[^。\n]{0,24}(?:0 ?号(?:卡|GPU)|GPU ?0\b|第一张卡)"
)


_HOLDS = r"\bmemory\b|\bgigs?\b|\b[GM]i?B\b|\bMB\b|\boccup\w*|allocat\w*|显存|占"


def _index_beyond_the_visible(told: Told, report: Report) -> Reading | None:
    """Each process sees one GPU, and counts them by its rank all the same."""
    if not (told.says(_ONE_VISIBLE) and told.says(r"local_?rank|LOCALID|本地(?:的)?rank")):
        return None
    return Reading("device-ordinal-out-of-range", (Phrase("because.told-one-visible"),))


_ONE_VISIBLE = (
    r"(?:each|every) (?:process|rank|task|worker)\b[^.\n]{0,40}(?:\bone|a single|1) (?:visible )?(?:device|GPU)\b"
    r"|每个进程只(?:能)?看到一(?:张|块)"
)


def _meta_in_use(told: Told, report: Report) -> Reading | None:
    """A weight that is still on meta where an automatic placement sends layers elsewhere."""
    if not (
        told.says(r"\bon meta\b|meta 上|\bmeta\b[^.。\n]{0,30}cuda")
        and (told.spread or told.says(r"offload\w*|卸载"))
    ):
        return None
    candidates = ("meta-tensor-not-materialized", "unmaterialized-weights")
    return Reading("offload-hook-bypassed", (Phrase("because.told-meta"),), candidates)


def _memory_saver(told: Told, report: Report) -> Reading | None:
    """It fails only where something moves weights away to save the GPU's memory."""
    if not (told.says(_SAVES) and (_fails(told, report) or told.met)):
        return None
    return Reading(
        "weights-moved-away-by-manager", (Phrase("because.told-saver"),), ("offload-hook-bypassed",)
    )


_SAVES = r"(?:low|med|medium)[-_ ]?v?ram\b|sleep(?:ing)?[ _]mode|wake[_ ]?up|model management|(?:un)?load(?:s|ing|ed)?/unload\w*|unload\w* (?:the )?(?:model|weights)|省显存模式|低显存模式"


def _wrong_beyond_the_first(told: Told, report: Report) -> Reading | None:
    """Values are right on the first GPU and wrong on another, without an error."""
    if not (
        told.says(_OTHER_VALUES)
        and told.says(_ON_ANOTHER)
        and told.says(rf"{_FIRST}|first card|number 0|\bon the first\b|第一张")
    ):
        return None
    reasons = (Phrase("because.told-more-gpus"),)
    if told.says(rf"{_OWN_KERNEL}|\bfused\b|\bkernels?\b|\b\w+_\w+ (?:gives|returns|writes|computes)|算子"):
        return Reading("kernel-launched-on-current-device", reasons, ("hardware-or-driver",))
    return Reading("hardware-or-driver", reasons, ("kernel-launched-on-current-device",))


_ON_ANOTHER = r"cuda:[1-9]|(?:second|other|another) (?:card|GPU)|GPU ?#?[1-9]\b|第二张卡|1 ?号卡"


def _list_left(told: Told, report: Report) -> Reading | None:
    """What a helper moves only where it is a tensor itself: lists and dictionaries stay."""
    if not (told.says(_CONTAINER) and (_fails(told, report) or states_devices(told))):
        return None
    return Reading("extra-input-on-wrong-device", (Phrase("because.told-container"),))


_CONTAINER = (
    r"\b(?:lists?|tuples?|dict\w*|nested)\b[^.\n]{0,80}(?:not moved|isn'?t moved|aren'?t moved|never moved|stays?|left|skipped)"
    r"|(?:列表|元组|字典)[^\n]{0,40}(?:不是 ?Tensor|没有?搬|不会搬|留在|原样)"
)


def _another_gpu_somewhere(told: Told, report: Report) -> Reading | None:
    """All is meant to be on one GPU that is not the first, and the text tells of the first one, too."""
    met = {*told.met, *report.devices}
    written = told.says(_WRITTEN) and "cuda:0" in met and any(each > "cuda:0" for each in met)
    if told.spread or told.launched or not _fails_at_all(told, report):
        return None
    if written:
        return Reading(
            "hard-coded-device", (Phrase("because.told-written"),), ("module-left-on-other-device",)
        )
    if not told.chosen or not told.says(_FIRST):
        return None
    reasons = (Phrase("because.told-chosen", device=told.chosen[0]),)
    return Reading("hard-coded-device", reasons, ("module-left-on-other-device",), sure=False)


_WRITTEN = r"\.to\(['\"]cuda(?::0)?['\"]\)|\.cuda\((?:0)?\)|device ?= ?['\"]cuda:0"


def _block_cut(told: Told, report: Report) -> Reading | None:
    """A residual, or the list of blocks that stay whole, beside an automatic map."""
    if not (_in_parts(told) and told.says(_WHOLE_BLOCK) and _fails_at_all(told, report)):
        return None
    reasons = (Phrase("because.told-spread"), Phrase("because.told-block"))
    return Reading("block-split-across-devices", reasons, ("device-map-incomplete-or-wrong",))


_WHOLE_BLOCK = r"\bresiduals?\b|\bshortcut\b|skip connection|_no_split_modules|no_split_module|残差"


def _spread_and_met(told: Told, report: Report) -> Reading | None:
    """An automatic map over several GPUs, and two of them met in the model."""
    gpus = [each for each in (*told.met, *report.devices) if each.startswith("cuda:")]
    if not (told.spread and len(set(gpus)) > 1 and _ends(told, report)):
        return None
    candidates = ("input-not-on-embedding-device", "device-map-incomplete-or-wrong")
    return Reading("block-split-across-devices", (Phrase("because.told-spread"),), candidates, sure=False)


def _table_elsewhere(told: Told, report: Report) -> Reading | None:
    """The table of rotary positions is stated to be on one device, and two of them met."""
    if not (told.devices_of("rotary") and (states_devices(told) or _fails(told, report))):
        return None
    candidates = ("offload-hook-bypassed", "device-map-incomplete-or-wrong")
    return Reading("rope-table-on-wrong-device", (_placed(told, "rotary"),), candidates)


def _quantised_left(told: Told, report: Report) -> Reading | None:
    """State of quantised weights that is named where it fails, or a calibration in which devices met."""
    moved = bool(told.chosen) or told.says(_MOVED_AWAY)
    state = "quantised" in told.roles and (moved or _fails(told, report))
    calibrated = told.says(_CALIBRATES) and _fails(told, report)
    if not told.says(_QUANTISED) or not (state or calibrated):
        return None
    candidates = ("hard-coded-device",) if moved else ("module-left-on-other-device",)
    reasons = (Phrase("because.told-quantised"),)
    return Reading("quantized-state-on-other-device", reasons, candidates, sure=state)


_QUANTISED = r"\b(?:4|8|four|eight)[- ]?bits?\b|\bint[48]\b|\bnf4\b|\bfp[48]\b|quanti[sz]\w+|量化"
_CALIBRATES = (
    r"\bquanti[sz]ing\b|calibrat\w+|量化(?:时|过程|的时候|到)|校准|quanti[sz]ation (?:of|run|process|step)"
)
_MOVED_AWAY = (
    r"(?:mov(?:e|ed|es|ing)|\.to\(|sent|sending|put|to) [^.;\n]{0,30}\bcuda:[1-9]|\.to\(['\"]cuda:[1-9]"
    r"|(?:second|other|another) (?:card|GPU)|第二(?:张卡|块)|(?:另一|别的)(?:张|块)?(?:卡|GPU)"
)


def _each_rank_and_the_first(told: Told, report: Report) -> Reading | None:
    """Of several processes one works on its GPU and on the first one: nobody told it which is its own."""
    gpus = {each for each in (*told.met, *report.devices) if each.startswith("cuda:")}
    if told.spread or not told.launched or "cuda:0" not in gpus or len(gpus) < 2:
        return None
    reasons = (Phrase("because.told-launched"), Phrase("because.told-rank-beside-first"))
    if told.says(_ANOTHER_START):
        return Reading("launch-variable-not-exported", reasons, ("rank-device-not-set", "hard-coded-device"))
    candidates = ("hard-coded-device", "launch-variable-not-exported")
    return Reading("rank-device-not-set", reasons, candidates, sure=len(gpus) > 2 or told.says(_OTHERS_TOO))


_ANOTHER_START = (
    r"(?:with|by|using|started (?:with|by)|under|through|用|通过)\s?(?:\w+ )?(?:torchrun|torch\.distributed\.\w+|mpirun|mpiexec|srun|slurm|accelerate|deepspeed)"
    rf"[^.\n。]{{0,40}}(?:{_GOES}|\bit trains)|(?:another|other|different) (?:launcher|way to start)"
)
_OTHERS_TOO = r"(?:the )?others? (?:name|say|show|ranks?|process\w*)|(?:each|every|all|other) (?:ranks?|process\w*|workers?)|其他(?:进程|rank)|每个(?:进程|rank)"


def _past_its_hook(told: Told, report: Report) -> Reading | None:
    """A part of an offloaded model is called, or read, by the program itself."""
    reading = _offloaded(told, report)
    if reading is None or not told.says(r"\bdirectly\b|\bmyself\b|by hand|直接|自己|我用"):
        return None
    return replace(reading, sure=True)


def _offloaded(told: Told, report: Report) -> Reading | None:
    """Layers wait on the host until they are called, and a device error is told."""
    if not (told.says(_OFFLOADS) and _fails(told, report)):
        return None
    candidates = ("tensor-created-on-wrong-device", "weights-moved-away-by-manager")
    return Reading("offload-hook-bypassed", (Phrase("because.told-offloaded"),), candidates, sure=False)


_OFFLOADS = r"(?<!no )(?<!without )\b(?:enable_)?(?:\w+_)?(?:cpu|disk|model|group|layer)[-_ ]?offload\w*|\boffload(?:s|ed|ing)?\b|卸载到|offload"


def _default_is_a_gpu(told: Told, report: Report) -> Reading | None:
    """A GPU is the device that new tensors get, and some come from where nobody asks for it."""
    if not (told.says(_DEFAULT_DEVICE) and _fails(told, report)):
        return None
    return Reading(
        "generator-or-default-device",
        (Phrase("because.told-default-device"),),
        ("tensor-created-on-wrong-device",),
    )


_DEFAULT_DEVICE = r"set_default_(?:device|tensor_type)|default (?:device|tensor type)|with torch\.device\(|默认(?:设备|张量类型)"


def _optimizer_first(told: Told, report: Report) -> Reading | None:
    """The optimizer was built, and then the model was moved."""
    if not (told.says(_BUILT_FIRST) and _ends(told, report)):
        return None
    candidates = ("optimizer-state-on-other-device",)
    return Reading("optimizer-built-before-move", (Phrase("because.told-optimizer-first"),), candidates)


_OPTIMIZER = r"(?:optimi[sz]er|\bAda\w{2,8}|\bSGD|RMSprop|优化器)\w*"
_MOVED_MODEL = r"(?:(?:model|net)\w*\.(?:cuda|to)\b|(?:move|moving|moved|send|sending|put)\b[^.\n]{0,30}(?:model|net)|(?:model|net)\w* (?:is|was) (?:moved|sent)|(?:模型|model|net)[^。\n]{0,10}(?:搬|移|放|\.cuda|\.to))"
_BUILT_FIRST = (
    rf"{_OPTIMIZER}[^.\n]{{0,60}}(?:before|and then|then|and (?:only )?(?:later|afterwards)|之前|然后|再)[^.\n]{{0,30}}{_MOVED_MODEL}"
    rf"|{_OPTIMIZER}[^\n]{{0,60}}{_MOVED_MODEL}[^.\n]{{0,30}}(?:behind|after|later|next line|后面|之后)|{_MOVED_MODEL}[^.\n]{{0,30}}(?:after|behind|之后|后面)[^.\n]{{0,30}}{_OPTIMIZER}"
)


def _checkpoint_from_elsewhere(told: Told, report: Report) -> Reading | None:
    """A file of weights that names a GPU which this machine does not have."""
    if not (
        told.says(_LOADS_FILE)
        and told.says(_FILE_NAMES_GPU)
        and (_ends(told, report) or told.says(r"\bwants?\b"))
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


def _kept_state(told: Told, report: Report) -> Reading | None:
    """It fails with beams or a cache, and where layers are apart; without them it works."""
    without = told.says(_WITHOUT_STATE)
    if not ((told.says(_KEEPS) and (without or _in_parts(told))) and (_fails(told, report) or told.met)):
        return None
    candidates = ("block-split-across-devices", "lm-head-or-tied-weight-split")
    reasons = (Phrase("because.told-kept"),)
    return Reading("cache-or-beam-state-on-wrong-device", reasons, candidates, "situation.s5", sure=without)


_KEEPS = r"num_beams|\bbeams?\b|\bbeam_\w+|束搜索|use_cache|past_key_values|\bkv[ _-]?cache|static cache|缓存"
_WITHOUT_STATE = rf"(?:greedy|use_cache ?= ?False|(?:without|no|disabl\w+|turn\w* off) (?:the |a )?(?:\w+ )?(?:cache|beams?)|num_beams ?= ?1|单束|贪心|(?:关(?:掉|闭)|不用)[^。\n]{{0,6}}(?:缓存|cache|beam))[^.\n。]{{0,60}}(?:{_RIGHT}|{_GOES}|answer|可以|就好)"


def _helper_of_generation(told: Told, report: Report) -> Reading | None:
    """What stops or steers generation holds a tensor of its own."""
    if not (told.says(_HELPS) and _fails(told, report)):
        return None
    candidates = ("tensor-created-on-wrong-device",)
    return Reading("generation-helper-on-wrong-device", (Phrase("because.told-helper"),), candidates)


_HELPS = r"stopping_?\s?criteri\w*|logits_?\s?(?:processor|warper)\w*|stop_?(?:ids|words|tokens)|bad_words\w*|assistant_model|assisted (?:decoding|generation)|draft model|停止条件|停止词"


def _streams_apart(told: Told, report: Report) -> Reading | None:
    """What comes from images or sound is stated to be elsewhere than the text, or fails where text alone works."""
    apart = told.apart(("vision",), ("embedding", "ids", "outputs", "mask"))
    alone = _in_parts(told) and told.says(_TEXT_WORKS) and _fails_at_all(told, report)
    joined = told.says(_MERGES) and _fails_at_all(told, report)
    if not (apart or alone or joined):
        return None
    reason = _placed(told, "vision") if apart else Phrase("because.told-text-works")
    candidates = ("extra-input-on-wrong-device", "block-split-across-devices")
    sure = apart or joined
    return Reading("embedding-streams-on-different-devices", (reason,), candidates, "situation.s3", sure=sure)


_MERGES = (
    r"(?:image|vision|visual|video|audio)[^.\n]{0,40}(?:put|merg|insert|scatter|cop(?:y|ied)|past|writ|join|concat)\w*[^.\n]{0,30}(?:embed|text|prompt|\bids\b)"
    r"|masked_scatter|(?:图像|视觉|图片)(?:的)?特征[^。\n]{0,20}(?:合并|拼|填|写|插)"
)


_TEXT_WORKS = rf"(?:text[- ]only|only text|pure text|without (?:an |the )?(?:image|picture|video)s?|纯文本|不带图|没有图)[^.;\n。]{{0,40}}(?:{_RIGHT}|{_GOES})"


def _head_apart(told: Told, report: Report) -> Reading | None:
    """The output head, which often is the embedding itself, and two GPUs that met."""
    gpus = {each for each in (*told.met, *report.devices) if each.startswith("cuda:")}
    if not (told.says(_HEAD) and len(gpus) > 1 and _fails_at_all(told, report)):
        return None
    candidates = ("device-map-incomplete-or-wrong", "input-not-on-embedding-device")
    return Reading("lm-head-or-tied-weight-split", (Phrase("because.told-head"),), candidates, "situation.s1")


_HEAD = r"\blm_head\b|\btied\b|tie_w\w+|tie_word\w+|output (?:head|layer|projection)|输出(?:头|层)|权重共享|共享权重"


def _in_parts(told: Told) -> bool:
    """Whether the layers of the model are on several GPUs."""
    return told.spread or told.says(rf"{MAPPED}|{_SPLIT}")


_SPLIT = r"(?:spread|split|sharded|distributed|divided) (?:over|across|between|among|onto)|\bover (?:two|three|four|several|\d) (?:GPUs|cards)|model parallel\w*|pipeline parallel\w*|均分|切分|拆分|拆到|分到|双卡|两张卡|(?:两|多|四)卡"


def _fails_at_all(told: Told, report: Report) -> bool:
    """Whether devices met by any sign."""
    return bool(told.met) or _fails(told, report)


def _added_after_the_move(told: Told, report: Report) -> Reading | None:
    """A module came to the model when that had been moved already."""
    if not (told.says(_ADDED_LATER) and (_fails(told, report) or _worded(report))):
        return None
    return Reading("module-left-on-other-device", (Phrase("because.told-added-later"),))


_ADDS = r"(?:attach|add|creat|replac|register|assign|swap|append|insert)\w*"
_MOVES = r"(?:(?:model|net)\w*\.(?:to|cuda)\b|(?:model|net) (?:is|was) moved|moving (?:the )?(?:model|net))"
_ADDED_LATER = rf"{_MOVES}[^.\n]{{0,40}}\bbefore\b[^.\n]{{0,40}}{_ADDS}|{_ADDS}[^.\n]{{0,60}}\bafter\b[^.\n]{{0,30}}{_MOVES}|{_MOVES}[^.\n]{{0,20}}(?:and then|then|之后|然后)[^.\n]{{0,30}}(?:{_ADDS}|替换|添加|加了)"


def _kept_as_an_attribute(told: Told, report: Report) -> Reading | None:
    """A tensor that the module keeps, and that is no buffer, stays where it was made."""
    if not (told.says(_NO_BUFFER) and _fails(told, report)):
        return None
    return Reading(
        "tensor-created-on-wrong-device", (Phrase("because.told-no-buffer"),), ("hard-coded-device",)
    )


_NO_BUFFER = r"(?:\bno|\bnot|n'?t|never|without|instead of)[^.\n]{0,24}\bbuffer|plain (?:attribute|tensor)|普通(?:的)?(?:属性|张量)|没有?(?:注册|用)[^。\n]{0,10}buffer"


def _in_the_loss(told: Told, report: Report) -> Reading | None:
    """It fails where a loss is computed, or where losses are added up."""
    if not (told.says(_LOSES) and _fails(told, report)):
        return None
    candidates = ("tensor-created-on-wrong-device", "input-not-on-embedding-device")
    return Reading("loss-or-label-on-other-device", (Phrase("because.told-in-loss"),), candidates, sure=False)


_LOSES = (
    r"\b\w*(?:_loss|cross_entropy|criterion)\(|\bloss (?:line|fails|call|raises|computation)|in (?:the|my) loss\b|(?:add|sum|accumulat)\w*[^.\n]{0,30}loss\w*"
    r"|(?:算|计算)\s?(?:的)?\s?loss|loss[^。\n]{0,24}(?:相加|累加|加起来)|(?:相加|累加)[^。\n]{0,10}loss"
)


def _never_loaded(told: Told, report: Report) -> Reading | None:
    """A weight that loading left on meta, where nothing is offloaded."""
    if not told.says(_ON_META) or told.spread or told.says(r"offload\w*|卸载") or not told.says(_LOADED):
        return None
    candidates = ("unmaterialized-weights", "offload-hook-bypassed")
    return Reading("meta-tensor-not-materialized", (Phrase("because.told-on-meta"),), candidates)


_ON_META = r"\bon meta\b|meta (?:device|tensors?)|meta 上"
_LOADED = r"\bload\w*|low_cpu_mem\w*|init_empty\w*|from_pretrained|new(?:ly)?\b|custom|加载"


def _replicated(told: Told, report: Report) -> Reading | None:
    """The model is copied to every GPU by threads of one process."""
    in_replica = told.says(r"\breplica ?\d") and _ends(told, report)
    if told.launched or not (in_replica or (told.says(_REPLICATES) and _fails(told, report))):
        return None
    return Reading("data-parallel-replica-device", (Phrase("because.told-replicas"),), ("hard-coded-device",))


_REPLICATES = r"(?<!Distributed)DataParallel\b"


def _inputs_not_sent(told: Told, report: Report) -> Reading | None:
    """The model is moved, and what the tokenizer returns, or the data, goes in as it is."""
    if not (told.says(rf"{_TOKENIZED}|{_NOTHING_DONE}") and told.says(_MODEL_MOVED) and _fails(told, report)):
        return None
    return Reading(
        "input-not-on-embedding-device", (Phrase("because.told-not-sent"),), ("module-left-on-other-device",)
    )


_NOTHING_DONE = r"(?:did(?: not|n'?t)|without|never)[^.\n]{0,20}(?:anything|something|nothing|move\w*|touch\w*)[^.\n]{0,20}(?:data|inputs?|batch\w*|images?)\b|(?:数据|输入)[^。\n]{0,6}(?:没动|没管|没有?处理)"
_TOKENIZED = r"tokeni[sz]er\w*\((?:[^()\n]|\([^()\n]*\)){0,200}\)(?!\.to|\.cuda)(?![^\n]{0,60}\.to\()|(?:tokeni[sz]er|processor)[^.\n]{0,20}(?:returns?|gives?)[^.\n]{0,20}cpu"
_MODEL_MOVED = r"(?:model|net\w*)\b[^.\n]{0,30}(?:on|to) the (?:cuda|gpu|card)|(?:model|net\w*)\b[^\n]{0,30}\.cuda\(\)|\bmodel\w*\.(?:to\(|cuda\()|model[^.\n]{0,20}(?:is|sits|runs|lives) on (?:the )?(?:cuda|GPU)|模型[^。\n]{0,8}(?:在|到)\s?(?:cuda|GPU|显卡)"


def _never_moved(told: Told, report: Report) -> Reading | None:
    """The text says itself what was never moved."""
    if not told.left or not (_fails(told, report) or _worded(report)):
        return None
    role, word = told.left[0]
    if role == "tensor" and report.kind == "input-weight-type":
        return None  # the message itself tells which side it is
    reasons = (Phrase("because.told-never-moved", thing=word),)
    return Reading(
        _LEFT_AS.get(role, "extra-input-on-wrong-device"), reasons, ("module-left-on-other-device",)
    )


_LEFT_AS = {
    "labels": "loss-or-label-on-other-device",
    "model": "module-left-on-other-device",
    "weights": "module-left-on-other-device",
    "adapter": "adapter-weights-on-other-device",
    "ids": "input-not-on-embedding-device",
    "optimizer": "optimizer-state-on-other-device",
    "rotary": "rope-table-on-wrong-device",
    "cache": "cache-or-beam-state-on-wrong-device",
}
"""The cause, by what was not moved."""


def _one_left(told: Told, report: Report) -> Reading | None:
    """One of the things that meet is on the host, and another one on a GPU."""
    left = next((role for role in ("mask", "extra", "ids", "tensor") if "cpu" in told.devices_of(role)), None)
    there = any(device.startswith("cuda") for _, _, device in told.places)
    if left is None or not there or not _ends(told, report):
        return None
    candidates = ("tensor-created-on-wrong-device",)
    return Reading("extra-input-on-wrong-device", (_placed(told, left),), candidates, sure=False)


def _another_release_works(told: Told, report: Report) -> Reading | None:
    several = told.ended and told.says(r"multi-?\s?GPU|多卡")
    if not (told.says(_OLDER_RIGHT) and (several or _fails_at_all(told, report))):
        return None
    return Reading("library-version-regression", (Phrase("because.told-release"),))


_RELEASE = r"\bv?\d+\.\d+(?:\.\w+)*"
_OLDER = (
    rf"(?:\b(?:with|in|on|under|until|before|to|of|and) (?:[a-z]\w+ ){{0,2}}{_RELEASE}|[在用到成回]\s?(?:[a-z]\w+ )?{_RELEASE}"
    r"|\b(?:old(?:er)?|previous|earlier|last) (?:version|release|commit|script|environment|env|image|container|setup|lock ?file)|commit (?:of |from )?(?:before|last|the)|旧版本?|老版本|之前的版本|上一个版本)"
)
_SAME_SENTENCE = r"(?:[^\n。.]|\.(?=\d))"
_OLDER_RIGHT = (
    rf"{_OLDER}{_SAME_SENTENCE}{{0,90}}?{_GOES}|{_RELEASE} (?:\w+ ){{0,2}}{_GOES}|{_GOES}{_SAME_SENTENCE}{{0,40}}{_OLDER}"
    rf"|(?:\bpin\w*|downgrad\w*|revert\w*|roll\w* back|going back)[^.\n]{{0,30}}(?:{_RELEASE}|release|version)|(?:broke|stopped working) (?:with|since|in|after) (?:the |a )?(?:new|latest|last|release|version|update)"
    r"|\b(?:after|since) (?:the |an? )?(?:upgrad\w+|updat\w+)|\bupgrad(?:ed|ing) (?:from|to)\b|(?:升级|更新)(?:到[^，。\n]{0,20})?(?:之|以)?后"
)


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
    steps = told.says(r"\.step\(\)|optimi[sz]er(?:'s)? step") and _fails(told, report)
    resumed = told.says(_RESUMED)
    named = "optimizer" in told.roles and _fails(told, report)
    if "cpu" not in told.devices_of("optimizer") and not named and not (steps and resumed):
        return None
    placed = _placed(told, "optimizer") if told.devices_of("optimizer") else Phrase("because.told-resumed")
    return Reading("optimizer-state-on-other-device", (placed,), ("optimizer-built-before-move",))


_RESUMED = r"(?:load|restor)\w*[^.\n]{0,30}(?:optimi[sz]er|optim\b)|\bresum\w+|start(?:ed)? it again|(?:last|saved|previous) checkpoint|from a saved|断点|续训|恢复训练|second time"


def _adapter_left(told: Told, report: Report) -> Reading | None:
    left = next((each for each in ("adapter", "weights", "model") if "cpu" in told.devices_of(each)), None)
    if "adapter" in told.roles and told.apart(
        ("adapter",), ("model", "weights", "ids", "tensor", "embedding")
    ):
        left = "adapter"
    if "adapter" not in told.roles or left is None:
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
    if (
        not (told.spread or away)
        or not (smallest or away)
        or not (_fails(told, report) or (smallest and told.ended))
    ):
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
    if not told.says(r"(?:loss|cross_entropy)\w*\([^)\n]{0,80}weight\s?="):
        return None
    if report.argument == "weight" and len(set(report.devices)) > 1:
        because = Phrase("because.argument", argument="weight", op=report.op or "?")
        return Reading("loss-or-label-on-other-device", (because,), guilty="weight")
    if "cpu" not in told.devices_of("weights"):
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
        r"torch\.(?:ones|zeros|arange|full|tensor|tri[ul]|empty|eye|linspace|randn?|randint)\((?![^\n]{0,120}device\s?=)"
    )
    if not made or not _fails(told, report):
        return None
    left = ("mask", "extra", "outputs", "tensor")
    if "cpu" in told.devices_of(*left):
        return Reading("tensor-created-on-wrong-device", (_placed(told, *left),))
    met = {*told.met, *report.devices}
    if met <= {"cpu", "cuda", "cuda:0"} and (met or told.says(MEETS)):
        return Reading("tensor-created-on-wrong-device", (Phrase("because.told-made"),))
    return None


def _copy_changes_values(told: Told, report: Report) -> Reading | None:
    """A copy between GPUs that raises nothing and delivers something else."""
    peers = told.says(_PEERS) and (told.says(_OTHER_VALUES) or told.says(rf"{_RIGHT}|\bhang\w*"))
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


CONDITIONS: tuple[Condition, ...] = (
    _copy_changes_values,
    _several_gpus_give_other_values,
    _wrong_beyond_the_first,
    _spread_under_a_launcher,
    _largest_does_not_train,
    _index_beyond_the_visible,
    _gpu_unseen,
    _current_gpu_matters,
    _all_on_the_first,
    _moved_behind_a_map,
    _mapped_without_blocks,
    _each_rank_and_the_first,
    _quantised_left,
    _default_is_a_gpu,
    _checkpoint_from_elsewhere,
    _optimizer_first,
    _helper_of_generation,
    _another_gpu_chosen,
    _cache_left,
    _state_after_resume,
    _adapter_left,
    _loss_weight_left,
    _metric_apart,
    _modules_in_a_container,
    _streams_apart,
    _made_without_a_device,
    _table_elsewhere,
    _extra_input_left,
    _only_the_smallest,
    _meta_in_use,
    _memory_saver,
    _list_left,
    _another_release_works,
    _block_cut,
    _kept_state,
    _head_apart,
    _never_loaded,
    _labels_elsewhere,
    _inputs_elsewhere,
    _past_its_hook,
    _weights_left,
    _replicated,
    _never_moved,
    _added_after_the_move,
    _inputs_not_sent,
    _kept_as_an_attribute,
    _another_gpu_somewhere,
    _offloaded,
    _in_the_loss,
    _spread_and_met,
    _one_left,
)
