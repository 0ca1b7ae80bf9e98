"""An offloaded weight is reached without the hook that would bring it in.

## What happens

The weight is kept on the host, on disk or as a placeholder on meta. Code reads `module.weight` directly,
calls a submodule of a pipeline by itself, or shares components between pipelines, and the hook does not run.

## Why it fails

Offloading works by hooks on `forward`. Code that reads the weight without calling `forward` finds it where it
is stored.

## Example

```bash
pipe.enable_model_cpu_offload()
embeds = compel(prompt)          # calls pipe.text_encoder's embedding, not the pipeline
```

## Use instead

```bash
pipe.text_encoder.to(pipe._execution_device)
embeds = compel(prompt)
# or give the helper library its device argument
```

## Fix safety

Check the result: bringing a module in by hand needs memory, and it stays there.

## Known limits

Weights that loading never filled look alike; then no hook would help (meta-tensor-not-materialized).

## References

- [Reduce memory usage](https://huggingface.co/docs/diffusers/optimization/memory) of diffusers
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, frameless, inside, line, said, shown, sign
from samedevice.events import Operand, on_accelerator
from samedevice.messages import Phrase
from samedevice.provenance.syntax import runs_at_calls


def _detect(failure: Failure) -> Hint | None:
    weights = [each for each in failure.event.operands if each.device == "meta" and each.parameter]
    offloaded = any(device in ("cpu", "disk", "meta") for device in failure.event.device_map.values())
    hooked = any(each.hook for each in failure.event.running)
    brought = any(each.decision is not None and each.decision.kind == "hook" for each in failure.plain)
    if weights:
        waits = offloaded or hooked or brought or weights[0].hook is not None
        return _not_run(8 if weights[0].hook else 6, weights[0]) if waits else None
    if failure.mismatch and (skipped := _skipped(failure)) is not None:
        return _not_run(8.2, skipped)
    if failure.mismatch and (back := _sent_back(failure)) is not None:
        return _not_run(8.2, back)
    if failure.mismatch and (away := _between_calls(failure)) is not None:
        return _not_run(8.2, away)
    for each in failure.event.operands if brought else ():
        if each.device == "meta" and failure.from_attribute(each):
            return _not_run(6.5, each)
    if not failure.mismatch:
        return None
    waiting = any(
        each.hook is not None and on_accelerator(each.hook) and set(each.below) == {"cpu"}
        for each in failure.event.running
    )
    for each in failure.weights:
        if each.device == "cpu" and waiting:
            return _not_run(7.4, each)
        mapped = offloaded and failure.mapped(each.parameter or "") == "cpu"
        bypassed = each.hook is not None and each.hook != each.device
        if each.device == "cpu" and (mapped or bypassed):
            return _not_run(6, each)
    for each in failure.plain if brought else ():
        if each.device == "cpu" and failure.follows(each):
            return Hint(6, Phrase("because.on-host", operand=failure.written(each)), each.name)
    if failure.hosted and hooked and not failure.weights:
        away = next((each for each in failure.plain if _of_a_weight(failure, each)), None)
        if away is not None:
            return Hint(5.5, Phrase("because.on-host", operand=failure.written(away)), away.name)
    return None


def _skipped(failure: Failure) -> Operand | None:
    """A weight that stayed on the host from its making, where a function that places weights had others of
    its model on a GPU for their own call: all are on the host again.
    """
    model = failure.event.running[-1] if failure.event.running else None
    if model is None or set(model.below) != {"cpu"}:
        return None
    sent_back = any(place.function != "<module>" for place in failure.event.placed)
    computed = any(
        failure.activation(each)
        and on_accelerator(each.device)
        and (at := each.lineage[0].at) is not None
        and at.function != "<module>"
        and at not in failure.event.placed
        for each in failure.plain
    )
    stayed = (
        each
        for each in failure.weights
        if each.device == "cpu" and each.decision is not None and each.decision.kind in ("created", "loaded")
    )
    return next(stayed, None) if sent_back and computed else None


def _sent_back(failure: Failure) -> Operand | None:
    """What a hook had brought to a GPU for one call, and a hook took back to the host before this one."""
    for each in (*failure.plain, *failure.weights):
        back, *before = each.lineage or (None,)
        if back is None or not before or back.inherited or each.device != "cpu":
            continue
        if back.kind == before[0].kind == "hook" and on_accelerator(before[0].device):
            return each
    return None


def _between_calls(failure: Failure) -> Operand | None:
    """A weight that a hook, or a package, brings to a GPU for each call of its module and takes back after
    it, read where no such call runs: by a function that is no `forward`, say.
    """
    for weight in failure.weights:
        back, *before = weight.lineage or (None,)
        brought = before[0] if before else None
        if back is None or brought is None or back.at is None or brought.at is None:
            continue
        taken = back.device == weight.device == "cpu" and back.kind in ("placed", "moved")
        if not taken or not on_accelerator(brought.device) or brought.at.file != back.at.file:
            continue
        by_package = brought.kind in ("moved", "hook") and not failure.by_user(back.at)
        if (by_package and failure.flow.model_depth is None) or runs_at_calls(back.at.file, back.at.function):
            return weight
    return None


def _not_run(weight: float, operand: Operand) -> Hint:
    phrase = Phrase("rules.offload-hook-bypassed.hook-not-run", operand=operand.parameter or operand.name)
    return Hint(weight, phrase, operand.name)


def _of_a_weight(failure: Failure, operand: Operand) -> bool:
    """Whether the operand of the host was computed from a weight that nothing brought over."""
    newest = operand.decision
    return (
        operand.device == "cpu"
        and newest is not None
        and newest.inherited
        and (newest.name is not None or any(part.role for part in operand.ingredients))
    )


_CHINESE = """offload 的权重被直接使用，绕过了负责取回它的 hook。

## 发生了什么

权重存放在 CPU、磁盘，或者只是 meta 上的占位。代码直接读取 `module.weight`，单独调用 pipeline 的某个子模
块，或在几个 pipeline 之间共用组件，hook 就没有执行。

## 为什么会失败

offload 依靠 `forward` 上的 hook。不经过 `forward` 的代码读到的，是权重在存放处的样子。

## 示例

```bash
pipe.enable_model_cpu_offload()
embeds = compel(prompt)          # 调用的是 pipe.text_encoder 的嵌入层，不是 pipeline
```

## 应当这样写

```bash
pipe.text_encoder.to(pipe._execution_device)
embeds = compel(prompt)
# 或者使用那个库自己的 device 参数
```

## 修复是否安全

需要核对：手动取回的模块会占用显存，并一直留在那里。

## 已知局限

加载时没有填上的权重看起来一样；那种情况 hook 也帮不上忙（meta-tensor-not-materialized）。

## 参考

- diffusers 的 [Reduce memory usage](https://huggingface.co/docs/diffusers/optimization/memory)
"""

RULE = Rule(
    code="SD124",
    name="offload-hook-bypassed",
    title={
        "en": "an offloaded weight was used without its hook",
        "zh": "绕过 hook 使用了被 offload 的权重",
    },
    meaning={
        "en": "a weight that waits on cpu, disk or meta is used by code that its hook does not see",
        "zh": "等待在 CPU、磁盘或 meta 上的权重被 hook 覆盖不到的代码直接使用",
    },
    cure={
        "en": "call the module, not its weight; give helper libraries the execution device; do not share "
        "offloaded components",
        "zh": "调用模块本身而不是它的权重；给辅助库指定执行设备；不要在多个 pipeline 之间共享被 offload 的"
        "组件",
    },
    sentences={
        "hook-not-run": {
            "en": "{operand} is offloaded and its hook did not run",
            "zh": "{operand} 已被 offload，而它的 hook 没有运行",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.65,
    signs=(
        sign(
            4.4,
            said("same-device argument-device meta-device"),
            inside(r"prompt|text_embed|conditioning"),
            anywhere(r"offload|\bhooks?\b|device_map|pipe(?:line)?\b"),
        ),
        sign(3.2, said("meta-device")),
        sign(3.4, said("no-exception"), anywhere(r"on meta")),
        sign(2.7, said("meta-copy")),
        sign(1.0, said("meta-copy"), inside(r"generate|vision|visual|image")),
        sign(
            2.8,
            anywhere(r"cpu_offload|enable_sequential|enable_model_cpu|offload_folder|offloaded|disk_offload"),
        ),
        sign(3.0, said("same-device argument-device", op="index_select", devices="host")),
        sign(1.6, said("same-device argument-device", devices="host"), shown(r"text_encoder|encode_prompt")),
        sign(2.0, line(r"latents_(?:mean|std)|vae\b")),
        sign(
            2.0,
            said("same-device argument-device", devices="host"),
            line(r"\b(?:layer_norm|linear|rms_norm)\(.*\bweight\b"),
        ),
        sign(0.9, said("same-device", devices="host"), frameless()),
        sign(1.5, said("meta-value")),
    ),
    detect=_detect,
)
