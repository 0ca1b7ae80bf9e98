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
from functools import lru_cache

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Around, Call, Function, LintedFile, called, nodes, short
from samedevice.static.tensors import CURRENT, MAKERS, Tensor

_CHOOSERS = ("torch.cuda.device", "torch.cuda.set_device", "torch.cuda.device_of")


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or file.is_script or file.source.changes_default:
        return
    moves = {id(call.node): call for call in file.calls("cuda", "to", *MAKERS)}
    own = [call.around for call in moves.values() if _names_current(file, call)]
    done: set[int] = set()
    for around in (*own, *file.that_call(_may_send)):
        if around.function is not None and id(around.function) not in done:
            done.add(id(around.function))
            if not _chooses(file, around):
                yield from _in_function(file, around, moves)


def _names_current(file: LintedFile, call: Call) -> bool:
    """Whether a call sends something to the current GPU, or makes it on a device with a name."""
    if call.name in ("cuda", "to"):
        return "cuda" in ast.unparse(call.node)
    return any("cuda" in ast.unparse(each) for each in _device_of(file, call))


def _device_of(file: LintedFile, call: Call) -> list[ast.expr]:
    """What a call's `device=` is, as its function gives it to a name."""
    device = call.keyword("device")
    if isinstance(device, ast.Name):
        return file.assignments(call.around, device.id)
    return [] if device is None else [device]


@lru_cache(maxsize=4096)
def _may_send(function: Function) -> bool:
    """Whether a function sends something to the current GPU because a tensor is on one."""
    inside = nodes(function)
    asks = any(isinstance(each, ast.Attribute) and each.attr == "is_cuda" for each in inside)
    return asks and any(
        isinstance(each, ast.Call) and called(each) == "cuda" and not each.args and not each.keywords
        for each in inside
    )


def _in_function(file: LintedFile, around: Around, moves: dict[int, Call]) -> Iterator[Hit]:
    told: set[int] = set()
    for meeting in file.told(around).meetings:
        sent = [(node, tensor) for node, tensor in meeting.operands if _is_sent(tensor)]
        others = [node for node, tensor in meeting.operands if tensor.where.follows]
        made = sent[0][1].made if sent and others else None
        if made is None or id(made) in told:
            continue
        line = str(getattr(meeting.node, "lineno", 0))
        meets = RULE.phrase("meets", line=line, stray=short(sent[0][0], 40), other=short(others[0], 40))
        call = moves.get(id(made))
        home = file.reading.maker_of(sent[0][1])
        if call is not None and _asks_a_tensor(file, call):
            told.add(id(made))
            yield Hit(call.node, {"text": short(call.node)}, (meets,))
        elif call is None and home is not None and home is not file.source:
            told.add(id(made))
            at = str(getattr(made, "lineno", 0))
            sends = RULE.phrase("sent-elsewhere", file=home.name, line=at, text=short(made))
            yield Hit(sent[0][0], {"text": short(sent[0][0])}, (sends, meets))


def _is_sent(tensor: Tensor) -> bool:
    """Whether a tensor was sent to the current GPU, on one way at least."""
    where = tensor.where
    current = where.kind == "literal" and where.of == ("cuda",)
    return (current or CURRENT in where.of) and tensor.scalar is not True


def _asks_a_tensor(file: LintedFile, call: Call) -> bool:
    """Whether a condition around a call asks where a tensor is, so that no flag of the program decides."""
    nodes: list[ast.AST] = [call.node, *_device_of(file, call)]
    return any(_is_asked(file, call, node) for node in nodes)


def _is_asked(file: LintedFile, call: Call, node: ast.AST | None) -> bool:
    while node is not None and node is not call.around.function:
        if isinstance(node, ast.If | ast.IfExp) and any(
            isinstance(each, ast.Attribute) and each.attr in ("is_cuda", "device")
            for each in nodes(node.test)
        ):
            return True
        node = file.parents.get(id(node))
    return False


def _chooses(file: LintedFile, around: Around) -> bool:
    """Whether a function says itself which GPU is the current one, or is about GPUs by its name."""
    function = around.function
    assert function is not None
    if any(word in function.name.lower() for word in ("cuda", "gpu", "bench", "main")):
        return True
    return any(
        isinstance(node, ast.Call) and file.source.dotted_call(node) in _CHOOSERS for node in nodes(function)
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
        "sent-elsewhere": {
            "en": "line {line} of {file} sends it: {text}",
            "zh": "它由 {file} 第 {line} 行送过去：{text}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="hard-coded-device",
    words=(".cuda()", '"cuda"', "'cuda'", "import torch", "from torch"),
)
