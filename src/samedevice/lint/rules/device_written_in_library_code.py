"""A library writes a GPU into its code.

## What happens

`.cuda()`, `.to("cuda")` or `device="cuda:0"` stands in a module that other programs import.

## Why it fails

It means the current GPU, GPU 0 unless somebody changed it. A program whose model is on `cuda:1`, on the
host or on another accelerator meets tensors on `cuda:0`, or fails at the call.

## Example

```python
import torch


def mask_of(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[0], device="cuda")
    return x * mask[:, None]
```

## Use instead

```python
import torch


def mask_of(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[0], device=x.device)
    return x * mask[:, None]
```

## Fix safety

No fix is offered: which tensor's device is meant is for a person to say.

## Known limits

Only files of a package are looked at: no scripts, tests, examples and benchmarks. A device under a
condition that asks for CUDA, and one that is the default of a parameter, are left out.

## References

- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import Call, LintedFile, nodes, short

_NO_LIBRARY = (
    "example",
    "benchmark",
    "script",
    "tutorial",
    "demo",
    "profil",
    "tools",
    "bench",
    "debug",
    "_vendor",
    "cookbook",
    ".cli",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    path = f"{file.source.package}.{file.path.stem}".lower()
    if (
        file.is_test
        or file.is_script
        or not file.source.functions
        or any(word in path for word in _NO_LIBRARY)
    ):
        return
    for call in file.source.every_call():
        if call.around.function is None or not _names_a_gpu(file, call) or _asked_for(file, call):
            continue
        if _is_thrown_away(call) or _talks_to_others(file, call):
            continue
        yield Hit(call.node, {"text": short(call.node)})


def _is_thrown_away(call: Call) -> bool:
    """Whether a tensor is made for nothing but to begin the work with a GPU."""
    statement = call.around.statement
    return (
        call.name not in ("to", "cuda") and isinstance(statement, ast.Expr) and statement.value is call.node
    )


def _talks_to_others(file: LintedFile, call: Call) -> bool:
    """Whether its function sends tensors to other processes, which NCCL does from the current GPU."""
    function = call.around.function
    return function is not None and any(
        isinstance(node, ast.Call) and file.source.dotted(node.func).startswith("torch.distributed.")
        for node in nodes(function)
    )


def _names_a_gpu(file: LintedFile, call: Call) -> bool:
    """Whether a call puts tensors on a GPU that it names itself."""
    node = call.node
    if call.name == "cuda" and isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
        return not file.dotted(call).startswith("torch.") and not isinstance(node.func.value, ast.Call)
    given = node.args[0] if call.name == "to" and node.args else call.keyword("device")
    named = (
        isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value.startswith("cuda")
    )
    return named and (call.name == "to" or file.dotted(call).startswith("torch."))


def _asked_for(file: LintedFile, call: Call) -> bool:
    """Whether a condition around it, or its function's name, speaks of CUDA."""
    function = call.around.function
    if function is not None and any(
        word in function.name.lower() for word in ("cuda", "gpu", "bench", "main")
    ):
        return True
    node: ast.AST | None = call.node
    while node is not None and node is not function:
        parent = file.parents.get(id(node))
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and _speaks(parent.test):
            return True
        node = parent
    return function is not None and any(
        isinstance(each, ast.If) and _speaks(each.test) and _leaves(each) for each in function.body
    )


def _speaks(test: ast.expr) -> bool:
    text = ast.unparse(test).lower()
    return any(word in text for word in ("cuda", "gpu", "device", "accelerator", "nccl"))


def _leaves(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return | ast.Raise)


_CHINESE = """库把某块 GPU 写死在代码里。

## 发生了什么

供其他程序导入的模块里写着 `.cuda()`、`.to("cuda")` 或 `device="cuda:0"`。

## 为什么会失败

它指的是当前 GPU，没有改过就是 0 号。模型在 `cuda:1`、CPU 或其他加速器上的程序，会遇到 `cuda:0` 上的张量，
或者在这个调用处失败。

## 示例

```python
import torch


def mask_of(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[0], device="cuda")
    return x * mask[:, None]
```

## 应当这样写

```python
import torch


def mask_of(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(x.shape[0], device=x.device)
    return x * mask[:, None]
```

## 修复是否安全

不提供修复：应当跟随哪个张量的设备，要由人决定。

## 已知局限

只看包里的文件，不看脚本、测试、示例和基准测试。处在判断 CUDA 的条件之下的，以及作为参数默认值的设备，都
不算。

## 参考

- [CUDA 语义](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

RULE = LintRule(
    code="SD202",
    name="device-written-in-library-code",
    title={
        "en": "a library writes a GPU into its code",
        "zh": "库把某块 GPU 写死在代码里",
    },
    meaning={
        "en": "a literal GPU is the wrong one for a program that uses another",
        "zh": "写死的 GPU，对使用其他设备的程序来说是错的",
    },
    cure={
        "en": "follow the device of a tensor that is at hand, or take a device as an argument",
        "zh": "跟随手边张量的设备，或者把设备作为参数传入",
    },
    sentences={
        "headline": {
            "en": "{text} puts tensors on one GPU for every program",
            "zh": "{text} 让所有程序都用同一块 GPU",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="hard-coded-device",
    words=(".cuda()", '"cuda', "'cuda"),
)
