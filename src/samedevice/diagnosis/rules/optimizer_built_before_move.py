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

Optimizers outside torch that make their state when they are built are not known.

## References

- [torch.optim](https://docs.pytorch.org/docs/stable/optim.html)
- [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule

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

torch 之外、在创建时就建立状态的优化器不在已知之列。

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
    page={"en": __doc__ or "", "zh": _CHINESE},
)
