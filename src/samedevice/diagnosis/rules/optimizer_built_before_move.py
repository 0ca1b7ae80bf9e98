"""An optimizer is built before the model is where it stays.

## What happens

`module.to(device)` keeps each `Parameter`, so most optimizers do not mind. Some do: Adagrad makes its state
when it is built, on the device of that moment; FSDP replaces the parameters, and the optimizer goes on with
the old ones.

## Why it fails

State on the host meets gradients on the GPU; or the optimizer updates tensors that no layer uses any more,
and nothing is learnt.

## Example

```python
optimizer = torch.optim.Adagrad(model.parameters())
model.to("cuda")
```

## Use instead

```python
model.to("cuda")
optimizer = torch.optim.Adagrad(model.parameters())
```

## Fix safety

Safe.

## Known limits

A launch is refused for the optimizers of torch alone; of others, the state is seen when it meets a parameter.

## References

- [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
- [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._kept import kept_beside_parameters
from samedevice.diagnosis._rule import Hint, Rule, anywhere, said, sign
from samedevice.events import Operand, Place
from samedevice.messages import Phrase
from samedevice.provenance.syntax import methods_called


def _detect(failure: Failure) -> Hint | None:
    """State that an object made like a parameter when it was built, and that a parameter meets elsewhere."""
    state = (_built_with(failure) or _made_alike(failure)) if failure.mismatch else None
    if state is None:
        return None
    key = "rules.optimizer-built-before-move.made-when-built"
    return Hint(9.6, Phrase(key, operand=failure.written(state), device=state.device), state.name)


def _built_with(failure: Failure) -> Operand | None:
    """What an optimizer's step meets on a device of its own, made where the optimizer got its parameters."""
    odd = failure.odd(*failure.event.operands) if "step" in methods_called(failure.code) else None
    if odd is None or odd.made is None or odd.made == failure.event.at or not _created(odd):
        return None
    return odd if {"parameters", "named_parameters"} & methods_called(odd.made.code) else None


def _made_alike(failure: Failure) -> Operand | None:
    """What somebody keeps beside each parameter, made like another tensor in an `__init__`, or like the
    parameter where that was before it moved; while gradients are taken, no optimizer runs.
    """
    state = kept_beside_parameters(failure)
    if state is None or failure.takes_gradients or not _created(state):
        return None
    made = [state.made, *(each.made for each in state.ingredients if each.device == state.device)]
    alike = any(each is not None and each.function == "__init__" and _like_another(each) for each in made)
    left = failure.left_by_move(state) and state.made is not None and _like_another(state.made)
    return state if alike or left else None


def _created(operand: Operand) -> bool:
    """Whether a factory put it where it is."""
    return operand.decision is not None and operand.decision.kind == "created"


def _like_another(place: Place) -> bool:
    """Whether a line makes a tensor like another one, with values of its own."""
    return any(name.endswith("_like") or name.startswith("new_") for name in methods_called(place.code))


_CHINESE = """模型还没就位，优化器就创建好了。

## 发生了什么

`module.to(device)` 保留每个 `Parameter` 对象，所以多数优化器不受影响。少数会：Adagrad 在创建时就建立状
态，状态在当时的设备上；FSDP 会替换参数，优化器却还拿着旧的。

## 为什么会失败

CPU 上的状态遇到 GPU 上的梯度；或者优化器更新的是已经没有层在用的张量，什么也学不到。

## 示例

```python
optimizer = torch.optim.Adagrad(model.parameters())
model.to("cuda")
```

## 应当这样写

```python
model.to("cuda")
optimizer = torch.optim.Adagrad(model.parameters())
```

## 修复是否安全

安全。

## 已知局限

启动前的检查只认识 torch 自己的优化器；其他优化器的状态，要到它遇到参数时才看得出来。

## 参考

- [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
- [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
"""

RULE = Rule(
    code="SD405",
    name="optimizer-built-before-move",
    title={
        "en": "the optimizer is built before the parameters are final",
        "zh": "优化器在参数就位之前创建",
    },
    meaning={
        "en": "an optimizer holds state or parameters that a later move or sharding leaves behind",
        "zh": "优化器持有的状态或参数被之后的移动或切分留在了原处",
    },
    cure={
        "en": "move or shard the model first, then build the optimizer",
        "zh": "先移动或切分模型，再创建优化器",
    },
    sentences={
        "made-when-built": {
            "en": "{operand} was made on {device} when the optimizer was built, and its parameter was moved "
            "later",
            "zh": "{operand} 是创建优化器时在 {device} 上建立的，而它所属的参数后来移走了",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    signs=(sign(6, said("same-device"), anywhere(r"\bcreated an optimizer (?:around|for|of) your model\b")),),
    detect=_detect,
)
