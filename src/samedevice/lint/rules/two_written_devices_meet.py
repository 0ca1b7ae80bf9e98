"""Tensors meet that the program itself put on two devices.

## What happens

One operand is on a device that the source names, such as `"cuda:0"`; the other was sent to another one, or to
the host with `.cpu()`. Both places follow from the source alone.

## Why it fails

An operator needs its tensors on one device: "Expected all tensors to be on the same device". No other input,
model or machine changes that.

## Example

```python
import torch
from torch import nn

first, second = torch.device("cuda:0"), torch.device("cuda:1")
left = torch.ones(4, device=first)
right = torch.ones(4, device=second)
print(torch.cat([left, right]))
```

## Use instead

```python
import torch
from torch import nn

first, second = torch.device("cuda:0"), torch.device("cuda:1")
left = torch.ones(4, device=first)
right = torch.ones(4, device=second)
print(torch.cat([left, right.to(left.device)]))
```

## Fix safety

No fix is offered: on which of the two devices the result is wanted is for a person to say.

## Known limits

Only devices that are written, in the file or in what its own statements give its functions. `"cuda"` and
`"cuda:0"` are taken for the same; tensors of no dimensions are left out, and so are indices of the host.

## References

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Call, LintedFile, short
from samedevice.static.tensors import Meeting, Tensor, picks


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.source.changes_default:
        return
    named = {id(call.around.function) for call in file.source.every_call() if _names_a_gpu(call)}
    around = [
        Around(function, each.owner)
        for function, each in file.source.functions
        if file.is_script or id(function) in named
    ]
    if not named:
        return
    told: set[int] = set()
    for meeting in (each for at in (Around(None, None), *around) for each in file.meetings(at)):
        pair = _apart(meeting)
        if pair is not None and id(meeting.node) not in told:
            told.add(id(meeting.node))
            (one, first), (other, second) = pair
            yield Hit(
                meeting.node,
                {
                    "one": short(one, 40),
                    "first": first.where.of[0],
                    "other": short(other, 40),
                    "second": second.where.of[0],
                },
            )


def _names_a_gpu(call: Call) -> bool:
    given = [
        each.value
        for each in (*call.node.args, *(x.value for x in call.node.keywords))
        if isinstance(each, ast.Constant)
    ]
    return call.name == "cuda" or any(isinstance(each, str) and each.startswith("cuda") for each in given)


Operand = tuple[ast.expr, Tensor]


def _apart(meeting: Meeting) -> tuple[Operand, Operand] | None:
    """Two operands that are on two written devices."""
    placed = [
        (node, tensor)
        for node, tensor in meeting.operands
        if tensor.where.kind == "literal" and (tensor.scalar is False or meeting.strictly)
    ]
    if meeting.indexed:
        placed = placed[:1] + [each for each in placed[1:] if picks(each[1]) and _name(each[1]) != "cpu"]
        if placed and placed[0] is not None and placed[0][0] is not meeting.operands[0][0]:
            return None
    for each in placed[1:]:
        if _name(each[1]) != _name(placed[0][1]):
            return placed[0], each
    return None


def _name(tensor: Tensor) -> str:
    """A device by its full name: `cuda` is the first GPU unless something else was chosen."""
    device = tensor.where.of[0]
    return "cuda:0" if device == "cuda" else device


_CHINESE = """相遇的两个张量，是程序自己放到两个设备上的。

## 发生了什么

一个操作数在源代码写明的设备上，例如 `"cuda:0"`；另一个被送到了别的设备，或者用 `.cpu()` 送回了内存。两边的
位置只看源代码就能确定。

## 为什么会失败

算子要求张量在同一设备上：“Expected all tensors to be on the same device”。换输入、换模型、换机器都一样
会失败。

## 示例

```python
import torch
from torch import nn

first, second = torch.device("cuda:0"), torch.device("cuda:1")
left = torch.ones(4, device=first)
right = torch.ones(4, device=second)
print(torch.cat([left, right]))
```

## 应当这样写

```python
import torch
from torch import nn

first, second = torch.device("cuda:0"), torch.device("cuda:1")
left = torch.ones(4, device=first)
right = torch.ones(4, device=second)
print(torch.cat([left, right.to(left.device)]))
```

## 修复是否安全

不提供修复：结果要放在哪个设备上，由人决定。

## 已知局限

只看写明的设备：写在文件里，或由文件自己的语句传给它的函数。`"cuda"` 与 `"cuda:0"` 视为相同；零维张量和内存里
的索引不算。

## 参考

- [Tensor.to](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html)
"""

RULE = LintRule(
    code="SD222",
    name="two-written-devices-meet",
    title={
        "en": "tensors meet that were put on two written devices",
        "zh": "写明放在两个设备上的张量相遇",
    },
    meaning={
        "en": "an operator needs its tensors on one device, and the source puts them on two",
        "zh": "算子要求张量在同一设备上，而源代码把它们放在了两个设备上",
    },
    cure={
        "en": "move one to the device of the other: `.to(x.device)`",
        "zh": "把一个移动到另一个的设备：`.to(x.device)`",
    },
    sentences={
        "headline": {
            "en": "{one} is on {first} and {other} on {second}",
            "zh": "{one} 在 {first} 上，而 {other} 在 {second} 上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="hard-coded-device",
    words=("cuda",),
)
