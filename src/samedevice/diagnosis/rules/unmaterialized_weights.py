"""An operator met a tensor on the meta device that nothing ever filled.

## What happens

A tensor on meta has a shape and no values.

## Why it fails

Loading made placeholders and did not fill them, or an offloaded weight was reached without its hook.

Many operators do not fail at all: a product with such a matrix (`@`, `linear` without a bias, a convolution)
raises nothing on a GPU. No kernel runs, and the result is memory that nobody filled, or is on meta itself.
What is printed after it looks like numbers and means nothing. `add`, `mul` and norms compare devices and
raise.

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

_CHINESE = """算子遇到了 meta 设备上从没填过值的张量。

## 发生了什么

meta 上的张量只有形状，没有值。

## 为什么会失败

加载时创建了占位却没有填上，或者绕过 hook 使用了 offload 的权重。

许多算子根本不会报错：在 GPU 上与这样的权重相乘（`@`、没有 bias 的 `linear`、卷积）没有任何提示，
也没有任何内核运行，结果是一块从没填过值的内存，或者结果本身也在 meta 上。
之后打印出来的看起来是数字，却毫无意义。`add`、`mul` 和各种 norm 会比较设备，因此会报错。

## 示例

```python
layer = torch.nn.Linear(4, 4, device="meta")
layer(torch.ones(1, 4))
```

## 应当这样写

```python
layer = layer.to_empty(device="cpu")
layer.load_state_dict(state)
```

## 修复是否安全

需要核对：`to_empty` 之后没有加载到的部分是随机内存。

## 已知局限

脚本为了推算形状而有意创建的 meta 张量没有问题，只要不与真实张量一起计算。

## 参考

- [Meta device](https://docs.pytorch.org/docs/stable/meta.html)
"""

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
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.UNMATERIALIZED,
)
