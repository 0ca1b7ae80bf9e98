"""A Triton kernel is launched without entering the device of its tensors.

## What happens

`kernel[grid](x, ...)` launches on the current GPU, whatever GPU `x` is on.

## Why it fails

With tensors of another GPU the kernel reads addresses that mean nothing there: "an illegal memory access
was encountered", "Pointer argument cannot be accessed from Triton", or wrong numbers.

## Example

```python
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    double[(triton.cdiv(x.numel(), 128),)](x, x.numel(), BLOCK=128)
    return x
```

## Use instead

```python
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device):
        double[(triton.cdiv(x.numel(), 128),)](x, x.numel(), BLOCK=128)
    return x
```

## Fix safety

No fix is offered: the guard belongs around all launches of the function.

## Known limits

Only kernels that the same file decorates with `triton.jit`, and functions that get tensors. A guard in a
caller, or by torch's own operators, is not seen.

## References

- [triton-lang/triton#2441](https://github.com/triton-lang/triton/issues/2441)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile

_GUARDS = (
    "cuda.device",
    "device_guard",
    "set_device",
    "device_ctx",
    "custom_device",
    "accelerator",
    "get_device_module",
)


def _check(file: LintedFile) -> Iterator[Hit]:
    kernels = {
        function.name
        for function, _ in file.source.functions
        if any(
            "jit" in ast.unparse(each) or "autotune" in ast.unparse(each) for each in function.decorator_list
        )
    }
    if file.is_test or not kernels:
        return
    for call in file.calls(""):
        match call.node.func:
            case ast.Subscript(value=ast.Name(id=name)) if (
                name in kernels and call.around.function is not None
            ):
                text = ast.get_source_segment(file.source.text, call.around.function) or ""
                decorators = " ".join(map(ast.unparse, call.around.function.decorator_list))
                if not any(
                    word in text or word in decorators for word in (*_GUARDS, "triton_op", "wrap_triton")
                ):
                    yield Hit(call.node, {"kernel": name})


_CHINESE = """启动 Triton 内核时，没有进入张量所在的设备。

## 发生了什么

`kernel[grid](x, ...)` 在当前 GPU 上启动，不管 `x` 在哪块 GPU 上。

## 为什么会失败

张量在另一块 GPU 上时，内核读到的地址在这块 GPU 上毫无意义：“an illegal memory access was encountered”、
“Pointer argument cannot be accessed from Triton”，或者结果是错的。

## 示例

```python
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    double[(triton.cdiv(x.numel(), 128),)](x, x.numel(), BLOCK=128)
    return x
```

## 应当这样写

```python
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def doubled(x: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device):
        double[(triton.cdiv(x.numel(), 128),)](x, x.numel(), BLOCK=128)
    return x
```

## 修复是否安全

不提供修复：保护应当包住函数里的全部启动。

## 已知局限

只看同一个文件里用 `triton.jit` 装饰的内核，以及收到张量的函数。调用者或 torch 算子提供的保护看不到。

## 参考

- [triton-lang/triton#2441](https://github.com/triton-lang/triton/issues/2441)
"""

RULE = LintRule(
    code="SD214",
    name="kernel-launched-without-guard",
    title={
        "en": "a Triton kernel is launched on the current GPU",
        "zh": "Triton 内核在当前 GPU 上启动",
    },
    meaning={
        "en": "a launch goes to the current GPU, which may not be that of its tensors",
        "zh": "内核在当前 GPU 上启动，未必是张量所在的那块",
    },
    cure={
        "en": "enter `torch.cuda.device(x.device)` around the launch",
        "zh": "启动时用 `torch.cuda.device(x.device)` 包住",
    },
    sentences={
        "headline": {
            "en": "{kernel} is launched on the current GPU, wherever its tensors are",
            "zh": "{kernel} 在当前 GPU 上启动，不管张量在哪里",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="kernel-launched-on-current-device",
    words=("triton",),
)
