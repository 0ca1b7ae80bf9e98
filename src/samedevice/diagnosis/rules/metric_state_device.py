"""A metric keeps its state on another device than its inputs.

## What happens

A metric object was made outside the module tree, so its state is on the host while predictions and targets
are on the GPU, or the reverse.

## Why it fails

`model.to(device)` moves submodules. A metric held by the script or in a plain list is none.

## Example

```python
metric = torchmetrics.Accuracy(task="binary")          # state on the host
metric.update(predictions, targets)                     # on the GPU
```

## Use instead

```python
metric = torchmetrics.Accuracy(task="binary").to(predictions.device)
```

## Fix safety

Safe.

## Known limits

Metrics of other libraries raise the plain message of torch.

## References

- [Metrics and devices](https://lightning.ai/docs/torchmetrics/stable/pages/overview.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, at, inside, line, said, shown, sign
from samedevice.events import Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    """An object beside the model, without weights of its own, adds its inputs to what it keeps between
    calls; a hook that gives nothing back is beside the model as well, and so is what a step of the model
    counts and only a method without inputs reads.
    """
    running = failure.event.running
    watches = failure.in_model and failure.flow.only_observes
    if not (failure.mismatch or failure.off_its_gpu):
        return None
    if (parked := _parked(failure)) is not None:
        return parked
    state = next((each for each in failure.plain_state if _adds_to(failure, each)), None)
    if state is None or any(each.role == "parameter" for each in failure.event.operands):
        return None
    if running and running[-1].below and not watches and not _reported(failure, state):
        return None
    if watches and failure.two_gpus and failure.activation(state):
        return None  # nothing of its own: what the layers of another GPU gave
    if not watches and failure.flow.combined(state.local or ""):
        return None  # it serves to compute with what it counted
    kept = Phrase("rules.metric-state-device.kept", operand=failure.written(state), device=state.device)
    return Hint(7.7 if watches else 6.5, kept, state.name)


def _parked(failure: Failure) -> Hint | None:
    """What an object collected of a model's results, and sent to the host for the time being, meets another
    part of its own state.
    """
    for state in () if failure.in_model or not failure.mismatch else failure.plain:
        others = [each for each in failure.plain if each.device != state.device]
        collected = failure.activation(state) and failure.from_attribute(state)
        if collected and failure.sent_away(state) and others and all(map(failure.from_attribute, others)):
            values = {"operand": failure.written(state), "device": state.device}
            return Hint(6.4, Phrase("rules.metric-state-device.kept", **values), state.name)
    return None


def _reported(failure: Failure, state: Operand) -> bool:
    """Whether no module keeps it, and nothing but a report is computed from it."""
    local = state.local
    return state.kept_by is None and failure.statistic(state) and failure.flow.only_reported(local or "")


def _adds_to(failure: Failure, state: Operand) -> bool:
    """Whether the failing statement gives the state a new value, or the processes exchange it."""
    if failure.off_its_gpu:
        return state in failure.off_its_gpu
    return failure.is_kept(state)


_CHINESE = """指标（metric）的状态与它的输入不在同一设备上。

## 发生了什么

指标对象不在模块树里，它的状态留在 CPU，而预测值和目标值在 GPU 上，或者反过来。

## 为什么会失败

`model.to(device)` 只移动子模块。由脚本持有、或放在普通列表里的指标不是子模块。

## 示例

```python
metric = torchmetrics.Accuracy(task="binary")          # 状态在 CPU 上
metric.update(predictions, targets)                     # 输入在 GPU 上
```

## 应当这样写

```python
metric = torchmetrics.Accuracy(task="binary").to(predictions.device)
```

## 修复是否安全

安全。

## 已知局限

其他库的指标抛出的是 torch 的普通报错。

## 参考

- [Metrics and devices](https://lightning.ai/docs/torchmetrics/stable/pages/overview.html)
"""

RULE = Rule(
    code="SD135",
    name="metric-state-device",
    title={
        "en": "a metric keeps its state on another device",
        "zh": "指标对象的状态在别的设备上",
    },
    meaning={
        "en": "a metric outside the module tree keeps its state away from its inputs",
        "zh": "不在模块树中的指标对象，其状态与输入不在同一设备",
    },
    cure={
        "en": "move the metric to the device of its inputs, or register it in the module",
        "zh": "把指标移到输入所在的设备，或注册为模块的子模块",
    },
    sentences={
        "kept": {
            "en": "{operand} is kept between calls on {device}, beside the modules that were moved",
            "zh": "{operand} 在两次调用之间保存在 {device} 上，不属于被移动的模块",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.1,
    signs=(
        sign(8, said("metric-device"), certain=True),
        sign(
            4.6,
            at(r"^_?update(?:_\w+)?$"),
            line(r"\bself\.\w+\s?\+=|\bself\.(\w+)\s?=\s?self\.\1\b"),
            said("same-device argument-device", devices="host"),
        ),
        sign(
            6,
            inside(r"^(?:update|compute|_wrapped_func)$"),
            shown(r"\bpred\w*\b.*\b(?:targets?|labels?)\b|\bmetrics?\b"),
        ),
        sign(6, line(r"\bupdate\("), shown(r"\bpred\w*\b.*\b(?:targets?|labels?)\b")),
        sign(4, line(r"\bmetrics?\b.*(?:update|\()|\bupdate\(.*\b(?:preds?|metric|target)\b")),
        sign(
            4,
            said("no-exception unknown-message"),
            anywhere(r"\bmetrics?\b"),
            anywhere(r"\b(?:cpu|cuda|GPU)\b|(?:different|same|wrong) devices?\b|显卡|设备"),
        ),
        sign(2.2, said("numpy-conversion"), inside(r"metric|evaluate|compute_metrics")),
    ),
    detect=_detect,
)
