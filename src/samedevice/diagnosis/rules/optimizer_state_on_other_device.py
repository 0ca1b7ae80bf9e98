"""Optimizer-side tensors are on another device than the parameters.

## What happens

Moments, step counters, or kept copies of parameters (an exponential moving average) are on the host or
another GPU while the parameters are on the GPU; usually after a resume.

## Why it fails

The optimizer keeps its state per parameter. Built or loaded before the model was moved, it keeps state for
tensors that are gone; averages of weights are often held on the host on purpose and then mixed with weights
on the GPU.

## Example

```python
optimizer.load_state_dict(torch.load(path, map_location="cpu"))
optimizer.step()
```

## Use instead

```python
model.to("cuda")
optimizer = AdamW(model.parameters())
optimizer.load_state_dict(torch.load(path, map_location="cuda"))
```

## Fix safety

Safe: the values are the same on another device. Fused optimizers want their step counters on the GPU as well.

## Known limits

ZeRO offload steps with a CPU gradient and a GPU scale look alike; that was a release of DeepSpeed
(library-version-regression).

## References

- [torch.optim.Optimizer.load_state_dict](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html)
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._kept import kept_beside_parameters
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    at,
    below,
    frameless,
    inside,
    line,
    said,
    shown,
    sign,
)
from samedevice.events import Operand
from samedevice.messages import Phrase
from samedevice.provenance.flow import Root


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    if (state := kept_beside_parameters(failure)) is not None:
        name = failure.written(state)
        return Hint(8.5, Phrase("rules.optimizer-state-on-other-device.kept-copy", operand=name), state.name)
    updates = failure.op.startswith(_FUSED) or (
        failure.op.startswith(_UPDATES) and (failure.op.endswith("_") or _of_parameters(failure))
    )
    if (option := _option(failure)) is not None:
        reason = Phrase("rules.optimizer-state-on-other-device.in-optimizer", op=failure.op)
        return Hint(8, reason, option.name)
    if (met := _of_gradients(failure)) is not None:
        key = "rules.optimizer-state-on-other-device.of-gradients"
        return Hint(8, Phrase(key, operand=failure.written(met), device=met.device), met.name)
    if updates or re.search(r"\.step\(", failure.code):
        kept = [each for each in failure.plain if not _of_a_module(each)] or failure.plain
        odd = failure.odd(*kept) or failure.odd(*failure.event.operands)
        return Hint(
            8,
            Phrase("rules.optimizer-state-on-other-device.in-optimizer", op=failure.op),
            odd.name if odd else None,
        )
    return None


def _of_gradients(failure: Failure) -> Operand | None:
    """What comes from gradients of parameters on one GPU, as their norms, beside what comes from those on
    another, outside the model.
    """
    running = any(place.function == "forward" for place in failure.event.stack)
    if running or not failure.two_gpus or failure.feeds_backward or len(failure.event.operands) < _BOTH:
        return None
    if not all(each.role is None and failure.from_gradient(each) for each in failure.event.operands):
        return None
    return failure.odd(*failure.event.operands)


_BOTH = 2


def _option(failure: Failure) -> Operand | None:
    """What an optimizer keeps for all its parameters, or for one, away from what comes from these."""
    if any(place.function == "forward" for place in failure.event.stack):
        return None
    roots = {each.name: failure.flow.roots(failure.expression(each) or "") for each in failure.event.operands}
    for kept in failure.plain:
        own = any(root.kind == "attribute" and root.text in _KEPT for root in roots[kept.name])
        if not own or _from_parameters(roots[kept.name]):
            continue
        if any(
            each.device != kept.device and _from_parameters(roots[each.name])
            for each in failure.event.operands
        ):
            return kept
    return None


def _from_parameters(roots: frozenset[Root]) -> bool:
    """Whether it comes from a parameter that an optimizer goes over."""
    return any(root.kind == "item" and root.text.endswith("['params']") for root in roots)


def _of_a_module(operand: Operand) -> bool:
    """Whether it is where a module was placed: the parameter itself, or its gradient."""
    return operand.decision is not None and operand.decision.kind == "placed"


def _of_parameters(failure: Failure) -> bool:
    """Whether a parameter, or the gradient of one, is among the operands."""
    return any(
        each.role == "parameter" or failure.gradient(each) or failure.of_weights(each)
        for each in failure.event.operands
    )


_KEPT = ("self.param_groups", "self.state")
"""Where an optimizer of torch has its options and what it keeps for each parameter."""
_FUSED = ("_fused_adam", "_fused_sgd", "_foreach", "_group_tensors_by_device")
"""Operators of optimizers, and what groups their tensors."""
_UPDATES = ("addcdiv", "addcmul", "lerp")
"""Operators that update parameters, where they are in place or get parameters."""


_CHINESE = """优化器一侧的张量与参数不在同一设备上。

## 发生了什么

动量、步数计数器，或保留的参数副本（指数滑动平均）在 CPU 或另一块 GPU 上，而参数在 GPU 上；多发生在恢复
训练之后。

## 为什么会失败

优化器按参数保存状态。在模型移动之前创建或加载的优化器，手里是已经不存在的张量的状态；权重的滑动平均常常
有意放在 CPU，后来又和 GPU 上的权重一起运算。

## 示例

```python
optimizer.load_state_dict(torch.load(path, map_location="cpu"))
optimizer.step()
```

## 应当这样写

```python
model.to("cuda")
optimizer = AdamW(model.parameters())
optimizer.load_state_dict(torch.load(path, map_location="cuda"))
```

## 修复是否安全

安全：换一个设备，值不变。fused 优化器要求步数计数器也在 GPU 上。

## 已知局限

ZeRO offload 中 CPU 梯度与 GPU 缩放系数相乘看起来一样；那是 DeepSpeed 某个版本的缺陷
（library-version-regression）。

## 参考

-
  [torch.optim.Optimizer.load_state_dict](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.load_state_dict.html)
"""

_STEPS = r"\b\w*optim(?:i[sz]er)?s?\w*(?:\[\w+\])?\.step\("
"""An optimizer takes its step: what meets in there are parameters, gradients and its state."""

RULE = Rule(
    code="SD129",
    name="optimizer-state-on-other-device",
    title={
        "en": "optimizer state is away from the parameters",
        "zh": "优化器状态与参数不在同一设备",
    },
    meaning={
        "en": "moments, step counters or kept copies of parameters are on another device than the parameters",
        "zh": "动量、步数计数器或参数副本（EMA）与参数不在同一设备",
    },
    cure={
        "en": "move the state to each parameter's device after loading it, or build the optimizer after the "
        "model "
        "was moved",
        "zh": "加载后把状态移到各参数所在设备，或先移动模型再创建优化器",
    },
    sentences={
        "of-gradients": {
            "en": "{operand} comes from gradients of parameters on {device}, and meets those of others",
            "zh": "{operand} 由 {device} 上参数的梯度算出，与其他参数的梯度相遇",
        },
        "kept-copy": {"en": "{operand} is a kept copy of a parameter", "zh": "{operand} 是参数的副本"},
        "in-optimizer": {"en": "{op} is an optimizer's operator", "zh": "{op} 是优化器的算子"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(
            8,
            said(
                "same-device argument-device",
                argument="state_steps|exp_avgs?|exp_avg_sqs?|max_exp_avg|momentum",
            ),
            certain=True,
        ),
        sign(8, said("optimizer-groups")),
        sign(7, said("same-device argument-device", op="fused_adam|fused_sgd|foreach|lerp|addcmul|addcdiv")),
        sign(
            6,
            at(r"^(?:step|_update|update_ema|(?:_single|_multi)_tensor_\w+|_fused_\w+|\w*adamw?\w*)$"),
            line(r"\b(?:add|mul|sub|div|copy|lerp|addcmul|addcdiv|sqrt|dot)_?\b|(?:\b|_)grads?\b"),
        ),
        sign(5.2, said("same-device argument-device", devices="host"), below(_STEPS)),
        sign(
            5, said("same-device argument-device", devices="host"), line(r"\.grad\.\w+_\("), inside(r"^step$")
        ),
        sign(4.2, said("same-device argument-device"), inside(r"^step$", last=4), below(_STEPS)),
        sign(5, said("needs-gpu"), anywhere(r"multi_tensor_apply")),
        sign(5, said("needs-gpu"), below(_STEPS)),
        sign(6, said("needs-gpu triton-pointer"), inside(r"optimi[sz]er", last=2)),
        sign(5.5, line(r"exp_avg\w*|state_steps|addcdiv|addcmul|lerp_|step_t\b|ema_|shadow_param")),
        sign(
            4.2,
            shown(r"\b\w*(?:ema|averag\w+)\w*\.(?:update\w*|step)\("),
            said("same-device argument-device", devices="host"),
        ),
        sign(
            2.5,
            shown(r"resume_from_checkpoint|load_state_dict"),
            said("same-device argument-device", devices="host"),
        ),
        sign(
            3.2,
            line(
                r"\bstep\(.*(?:optimizer|model_engine)|optimizer\.step|model_engine\.step|\bstep\((?:optimizer|lr_scheduler|engine|model_engine)\)"
            ),
        ),
        sign(
            1.0,
            said("same-device", devices="host"),
            anywhere(r"offload_optimizer|zero-?[123]\b|optimizer state"),
        ),
        sign(1.0, said("same-device", devices="host"), frameless()),
        sign(1.9, said("same-device", devices="host"), at(r"^(?:fit|train|_inner_training_loop)$")),
    ),
    detect=_detect,
)
