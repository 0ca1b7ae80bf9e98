"""A tensor goes to the current GPU and meets one that may be on another.

## What happens

A function asks whether its input is on a GPU (`x.is_cuda`), and then calls `.cuda()` or writes `"cuda"`. What
it moved so is used together with the input.

## Why it fails

`.cuda()` means the current GPU, GPU 0 unless somebody changed it. An input on `cuda:1` is on a GPU, too, and
the two are on different ones: it works with one GPU and fails on the second.

## Example

```python
import torch


def smooth(x: torch.Tensor) -> torch.Tensor:
    kernel = torch.ones(1, 1, 3, 3) / 9
    if x.is_cuda:
        kernel = kernel.cuda()
    return torch.nn.functional.conv2d(x, kernel)
```

## Use instead

```python
import torch


def smooth(x: torch.Tensor) -> torch.Tensor:
    kernel = torch.ones(1, 1, 3, 3) / 9
    kernel = kernel.to(x.device)
    return torch.nn.functional.conv2d(x, kernel)
```

## Fix safety

No fix is offered: which tensor's device is meant is for a person to say.

## Known limits

Only files of a package are looked at, no scripts and tests, and only functions that do not choose the current
GPU themselves. Where nothing asks for CUDA, `device-written-in-library-code` speaks instead.

## References

- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Call, LintedFile, short
from samedevice.static.tensors import CURRENT, Tensor

_CHOOSERS = ("torch.cuda.device", "torch.cuda.set_device", "torch.cuda.device_of")


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.is_script or file.source.changes_default:
        return
    moves = {id(call.node): call for call in file.calls("cuda", "to")}
    done: set[int] = set()
    for call in moves.values():
        function = call.around.function
        if function is None or id(function) in done or "cuda" not in ast.unparse(call.node):
            continue
        done.add(id(function))
        if not _chooses(file, call.around):
            yield from _in_function(file, call.around, moves)


def _in_function(file: LintedFile, around: Around, moves: dict[int, Call]) -> Iterator[Hit]:
    told: set[int] = set()
    for meeting in file.told(around).meetings:
        sent = [(node, tensor) for node, tensor in meeting.operands if _is_sent(tensor)]
        others = [node for node, tensor in meeting.operands if tensor.where.follows]
        if not sent or not others:
            continue
        call = moves.get(id(sent[0][1].made))
        if call is None or id(call.node) in told or not _asks_a_tensor(file, call):
            continue
        told.add(id(call.node))
        line = str(getattr(meeting.node, "lineno", 0))
        meets = RULE.phrase("meets", line=line, stray=short(sent[0][0], 40), other=short(others[0], 40))
        yield Hit(call.node, {"text": short(call.node)}, (meets,))


def _is_sent(tensor: Tensor) -> bool:
    """Whether a tensor was sent to the current GPU, on one way at least."""
    where = tensor.where
    current = where.kind == "literal" and where.of == ("cuda",)
    return (current or CURRENT in where.of) and tensor.scalar is not True


def _asks_a_tensor(file: LintedFile, call: Call) -> bool:
    """Whether a condition around a call asks where a tensor is, so that no flag of the program decides."""
    node: ast.AST | None = call.node
    while node is not None and node is not call.around.function:
        node = file.parents.get(id(node))
        if isinstance(node, ast.If | ast.IfExp) and any(
            isinstance(each, ast.Attribute) and each.attr in ("is_cuda", "device")
            for each in ast.walk(node.test)
        ):
            return True
    return False


def _chooses(file: LintedFile, around: Around) -> bool:
    """Whether a function says itself which GPU is the current one, or is about GPUs by its name."""
    function = around.function
    assert function is not None
    if any(word in function.name.lower() for word in ("cuda", "gpu", "bench", "main")):
        return True
    return any(
        isinstance(node, ast.Call) and file.source.dotted_call(node) in _CHOOSERS
        for node in ast.walk(function)
    )


_CHINESE = """张量被送到当前 GPU，遇到的另一个张量却可能在别的 GPU 上。

## 发生了什么

函数先问输入是不是在 GPU 上（`x.is_cuda`），接着调用 `.cuda()` 或者写 `"cuda"`，再把移过去的张量和输入一起
使用。

## 为什么会失败

`.cuda()` 指的是当前 GPU，没有改过就是 0 号。输入在 `cuda:1` 上时条件同样成立，于是两个张量在不同的 GPU
上：只有一块 GPU 时正常，到第二块上就失败。

## 示例

```python
import torch


def smooth(x: torch.Tensor) -> torch.Tensor:
    kernel = torch.ones(1, 1, 3, 3) / 9
    if x.is_cuda:
        kernel = kernel.cuda()
    return torch.nn.functional.conv2d(x, kernel)
```

## 应当这样写

```python
import torch


def smooth(x: torch.Tensor) -> torch.Tensor:
    kernel = torch.ones(1, 1, 3, 3) / 9
    kernel = kernel.to(x.device)
    return torch.nn.functional.conv2d(x, kernel)
```

## 修复是否安全

不提供修复：应当跟随哪个张量的设备，要由人决定。

## 已知局限

只看包里的文件，不看脚本和测试；自己选定当前 GPU 的函数不算。没有任何条件判断 CUDA 的写法，由
`device-written-in-library-code` 负责。

## 参考

- [CUDA 语义](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

RULE = LintRule(
    code="SD220",
    name="current-gpu-meets-placed",
    title={
        "en": "what goes to the current GPU meets an input on another",
        "zh": "送到当前 GPU 的张量遇到另一块 GPU 上的输入",
    },
    meaning={
        "en": "`.cuda()` means the current GPU, which need not be that of the input",
        "zh": "`.cuda()` 指当前 GPU，不一定是输入所在的那一块",
    },
    cure={
        "en": "follow the tensor that it meets: `.to(x.device)`",
        "zh": "跟随它要遇到的张量：`.to(x.device)`",
    },
    sentences={
        "headline": {
            "en": "{text} sends to the current GPU what meets an input that may be on another",
            "zh": "{text} 把张量送到当前 GPU，而它要遇到的输入可能在另一块 GPU 上",
        },
        "meets": {
            "en": "line {line} uses {stray} together with {other}",
            "zh": "第 {line} 行把 {stray} 与 {other} 一起使用",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="hard-coded-device",
    words=(".cuda()", '"cuda"', "'cuda'"),
)
