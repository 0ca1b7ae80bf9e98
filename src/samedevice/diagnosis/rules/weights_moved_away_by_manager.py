"""A memory manager moved weights away, and they are used all the same.

## What happens

A user interface with a low-memory mode, a serving or reinforcement-learning engine that sleeps, or FSDP moved
weights to the host, or left a part of them behind.

## Why it fails

The manager knows only of the models that are used through it. Code that calls a model directly finds the
weights where the manager put them.

## Example

```python
encoder = clip.cond_stage_model            # taken from the manager, which then unloads it
encoder(tokens.cuda())
```

## Use instead

```python
model_management.load_models_gpu([clip.patcher])    # ask the manager first
encoder(tokens.cuda())
```

## Fix safety

Check the result: the manager may move another model away to make room.

## Known limits

From the message it looks like inputs on the wrong device; frames of the manager, or its settings, tell it
apart.

## References

- Memory options of ComfyUI (`--highvram`, `--gpu-only`)
"""

# ruff: noqa: E501 # patterns of whole phrases

from __future__ import annotations

from samedevice.diagnosis._failure import Failure, largest_first
from samedevice.diagnosis._rule import Hint, Rule, anywhere, frameless, inside, line, said, sign, unless
from samedevice.diagnosis.paste import short_file
from samedevice.events import Decision, Place, on_accelerator
from samedevice.messages import Phrase
from samedevice.provenance.syntax import runs_at_calls


def _detect(failure: Failure) -> Hint | None:
    """A weight that was on a GPU before a function, and no line of the script's own, sent its whole model to
    the host, or a part of it that it had brought there as well.
    """
    model = failure.event.running[-1] if failure.event.running else None
    if model is None:
        return None
    if (moved := _taken_from_the_script(failure) or _was_in_place(failure)) is not None:
        return moved
    whole = set(model.below) == {"cpu"}
    for weight in largest_first(failure.weights) if failure.mismatch else ():
        newest, *before = weight.lineage or (None,)
        if newest is None or newest.kind != "placed" or newest.device != "cpu" or newest.at is None:
            continue
        was_there = any(
            each.kind == "placed" and on_accelerator(each.device) and (whole or _same_function(each, newest))
            for each in before
        )
        at = newest.at
        called_back = runs_at_calls(at.file, at.function)  # after each call of the module
        if was_there and not called_back and at.function not in ("<module>", "__init__"):  # there it was made
            operand = weight.parameter or weight.name
            key = "rules.weights-moved-away-by-manager.sent-away"
            return Hint(8, Phrase(key, operand=operand, function=at.function), weight.name)
    return None


def _taken_from_the_script(failure: Failure) -> Hint | None:
    """A weight that the script had put on a GPU, where all that it meets is, and that a package has sent to
    another device since.
    """
    for weight in largest_first(failure.weights) if failure.mismatch else ():
        newest, *before = weight.lineage or (None,)
        put = before[0] if before else None
        if newest is None or put is None or (newest.kind, put.kind) != ("placed", "placed"):
            continue
        met = {each.device for each in failure.event.operands if not each.role}
        chose = _chosen_by_package(failure, newest)
        if chose is not None and _by_script(failure, put) and met == {put.device}:
            key = "rules.weights-moved-away-by-manager.sent-elsewhere"
            values = {"operand": weight.parameter or weight.name, "device": newest.device}
            where = f"{short_file(chose.file)}:{chose.line}"
            return Hint(8, Phrase(key, where=where, before=put.device, **values), weight.name)
    return None


def _was_in_place(failure: Failure) -> Hint | None:
    """A weight that had been put where all is that it meets, which layers computed, and that a function, which
    chose no GPU itself, has sent to another GPU since.
    """
    computed = bool(failure.plain) and all(map(failure.activation, failure.plain))
    met = {each.device for each in failure.plain}
    if not computed or not failure.two_gpus or len(met) != 1 or failure.dispatched:
        return None
    for weight in largest_first(failure.weights):
        newest = weight.decision
        if newest is None or newest.at is None or newest.kind != "placed" or weight.tied:
            continue
        by_function = newest.at.function not in ("<module>", "__init__", "main")
        chose = newest.source in ("literal", "current-gpu")
        if by_function and failure.was_placed_on(weight, *met) and not chose and newest.entry is None:
            operand, device = weight.parameter or weight.name, newest.device
            key = "rules.weights-moved-away-by-manager.no-longer-there"
            values = {"function": newest.at.function, "before": met.pop()}
            return Hint(6.2, Phrase(key, operand=operand, device=device, **values), weight.name)
    return None


def _chosen_by_package(failure: Failure, decision: Decision) -> Place | None:
    """The line of a package that chose the device: that sent the weight and names it there, or made it."""
    if decision.taken is not None:
        return None
    named = decision.source in ("literal", "current-gpu")
    chose = decision.device_at or (decision.at if named else None)
    return None if failure.by_user(chose) else chose


def _by_script(failure: Failure, decision: Decision) -> bool:
    """Whether the script sent it: its own line, or a device that it made and gave to a package's method."""
    return failure.by_user(decision.at if decision.device_at is None else decision.device_at)


def _same_function(one: Decision, other: Decision) -> bool:
    places = [(each.at.file, each.at.function) for each in (one, other) if each.at is not None]
    return len(places) == 2 and places[0] == places[1]


_CHINESE = """显存管理器把权重移走了，代码却还在用。

## 发生了什么

带低显存模式的图形界面、会休眠的推理或强化学习引擎，或者 FSDP，把权重移到了 CPU，或者漏下了一部分。

## 为什么会失败

管理器只知道通过它使用的模型。绕过它直接调用模型的代码，遇到的是权重被管理器放到的位置。

## 示例

```python
encoder = clip.cond_stage_model            # 从管理器里直接取出，随后被它卸载
encoder(tokens.cuda())
```

## 应当这样写

```python
model_management.load_models_gpu([clip.patcher])    # 先通知管理器
encoder(tokens.cuda())
```

## 修复是否安全

需要核对：管理器可能会为了腾出空间移走另一个模型。

## 已知局限

只看报错，像是输入放错了设备；要靠调用栈里的管理器或它的设置来区分。

## 参考

- ComfyUI 的显存选项（`--highvram`、`--gpu-only`）
"""

RULE = Rule(
    code="SD125",
    name="weights-moved-away-by-manager",
    title={
        "en": "a memory manager moved the weights away",
        "zh": "权重被显存管理器移走",
    },
    meaning={
        "en": "a UI, serving engine, RL engine or FSDP moved weights to the host (or left some there) before "
        "they "
        "were used",
        "zh": "界面、推理引擎、RL 引擎或 FSDP 在使用前把权重移到了内存，或遗留了一部分",
    },
    cure={
        "en": "have the manager load the model before use, or switch its offload or low-VRAM mode off; "
        "change the order of the steps",
        "zh": "使用前让管理器加载模型，或关闭其低显存/offload 模式；调整步骤顺序",
    },
    sentences={
        "no-longer-there": {
            "en": "{operand} had been on {before}, until {function} sent it to {device}",
            "zh": "{operand} 原在 {before} 上，后来被 {function} 移到了 {device}",
        },
        "sent-elsewhere": {
            "en": "{operand} was sent to {device}, which {where} chose; the script had put it on {before}",
            "zh": "脚本把 {operand} 放在 {before} 上，后来它被移到了 {device}，那是 {where} 选定的设备",
        },
        "sent-away": {
            "en": "{function} sent {operand} back to the host after it had been on a GPU",
            "zh": "{operand} 原在 GPU 上，后来被 {function} 移回了 CPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(6, inside(r"low_?vram|load_models?_gpu|unload_model|model_unload|wake_up|^sleep$|free_memory")),
        sign(
            4.5,
            said("same-device argument-device meta-device triton-pointer illegal-access no-exception"),
            anywhere(
                r"wake_up|sleep_mode|engine\.sleep|summon_full_params|fully.?sharded|\bfsdp\b|(?:low|med)[-_]?vram|\b(?:loaded partially|partially loaded)\b"
            ),
            unless(anywhere(r"\b(?:not|without|no)\b[^.\n]{0,40}(?:low|med)[-_]?vram")),
        ),
        sign(3, said("triton-pointer"), anywhere(r"\b(?:loaded partially|partially loaded)\b")),
        sign(2.6, said("argument-device", op="index_select", devices="host")),
        sign(
            2.2,
            said("same-device argument-device", devices="host"),
            line(r"embed_scale"),
        ),
        sign(
            2.3,
            said("same-device argument-device", devices="host"),
            line(r"\b(?:layer_norm|linear|rms_norm|embedding)\(.*\bweight\b"),
        ),
        sign(0.3, said("same-device argument-device", devices="host"), frameless()),
    ),
    detect=_detect,
)
