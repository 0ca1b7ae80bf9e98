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
    page=__doc__ or "",
)
