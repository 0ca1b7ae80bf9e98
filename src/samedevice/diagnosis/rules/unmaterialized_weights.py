"""An operator met a tensor on the meta device that nothing ever filled.

## What happens

A tensor on meta has a shape and no values.

## Why it fails

Loading made placeholders and did not fill them, or an offloaded weight was reached without its hook.

## Example

```python
layer = torch.nn.Linear(4, 4, device="meta")
layer(torch.ones(1, 4))
```

## Use instead

```python
layer = layer.to_empty(device="cpu")
layer.load_state_dict(state)
```

## Fix safety

Check the result: what is not loaded after `to_empty` holds random memory.

## Known limits

Meta tensors that a script makes on purpose, to ask for shapes, are fine as long as they meet nothing real.

## References

- [Meta device](https://docs.pytorch.org/docs/stable/meta.html)
"""

# sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

RULE = Rule(
    code="SD102",
    name="unmaterialized-weights",
    title={
        "en": "weights were never loaded",
        "zh": "权重从未加载",
    },
    meaning={
        "en": "an operator met a tensor that has a shape and no values",
        "zh": "算子用到了只有形状、没有数值的张量",
    },
    cure={
        "en": "fill the weights before they are used",
        "zh": "使用之前先填充权重",
    },
    sentences={
        "headline": {
            "en": "{op} met weights that were never loaded: {names}",
            "zh": "{op} 用到了从未加载的权重：{names}",
        },
        "why": {
            "en": "a tensor on meta has a shape and no values; nothing filled it before it was used",
            "zh": "meta 上的张量只有形状、没有数值；使用之前没有任何代码填充它",
        },
    },
    page=__doc__ or "",
    kind=EventKind.UNMATERIALIZED,
)
