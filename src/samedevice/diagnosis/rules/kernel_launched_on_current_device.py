"""A Triton or CUDA extension kernel runs on the current device instead of the one that holds the tensors.

## What happens

The kernel is started while `cuda:0` is current and its tensors are on `cuda:1`: Triton says "cannot be
accessed from Triton (cpu tensor?)", an extension makes an illegal access or computes garbage.

## Why it fails

torch's own operators switch the device. A kernel of an extension runs on the current device unless its author
set a guard.

## Example

```python
model.to("cuda:1")
fused_kernel[grid](x, y)               # current device: cuda:0
```

## Use instead

```python
with torch.cuda.device(x.device):
    fused_kernel[grid](x, y)
```

## Fix safety

Safe. As a workaround, make one GPU visible (`CUDA_VISIBLE_DEVICES=1`).

## Known limits

The same Triton message shows for tensors that really are on the host.

## References

- [torch.cuda.device](https://docs.pytorch.org/docs/stable/generated/torch.cuda.device.html)
"""

from __future__ import annotations

from samedevice.device_rules import of_another_library
from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import SEVERAL_GPUS, Hint, Rule, anywhere, inside, said, sign
from samedevice.events import EventKind
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if failure.event.kind is not EventKind.UNCHECKED or of_another_library(failure.event.op):
        return None
    odd = failure.odd(*failure.event.operands)
    return Hint(
        2.0,
        Phrase("rules.kernel-launched-on-current-device.unchecked", op=failure.op),
        odd.name if odd else None,
    )


_CHINESE = """Triton 或 CUDA 扩展的内核在当前设备上运行，而不是在张量所在的设备上。

## 发生了什么

启动内核时当前设备是 `cuda:0`，张量却在 `cuda:1`：Triton 会说 “cannot be accessed from Triton (cpu
tensor?)”，扩展则非法访问或算出乱码。

## 为什么会失败

torch 自己的算子会切换设备。扩展的内核在当前设备上运行，除非作者加了设备保护（device guard）。

## 示例

```python
model.to("cuda:1")
fused_kernel[grid](x, y)               # 当前设备：cuda:0
```

## 应当这样写

```python
with torch.cuda.device(x.device):
    fused_kernel[grid](x, y)
```

## 修复是否安全

安全。临时的办法是只露出一块 GPU（`CUDA_VISIBLE_DEVICES=1`）。

## 已知局限

张量真的在 CPU 上时，Triton 的报错一模一样。

## 参考

- [torch.cuda.device](https://docs.pytorch.org/docs/stable/generated/torch.cuda.device.html)
"""

RULE = Rule(
    code="SD133",
    name="kernel-launched-on-current-device",
    title={
        "en": "a kernel was launched on another GPU than its tensors",
        "zh": "内核启动的 GPU 与张量所在的 GPU 不同",
    },
    meaning={
        "en": "a Triton or CUDA extension kernel uses the current device, not the one of its tensors",
        "zh": "Triton 或 CUDA 扩展内核使用的是当前设备，而不是张量所在的设备",
    },
    cure={
        "en": "set the device around the call (with torch.cuda.device(x.device)), or expose only that GPU",
        "zh": "调用时设定设备（with torch.cuda.device(x.device)），或只暴露那块 GPU",
    },
    sentences={
        "unchecked": {"en": "{op} does not check its tensors' devices", "zh": "{op} 不检查张量所在的设备"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(5.5, said("triton-pointer")),
        sign(3.0, said("illegal-access")),
        sign(1.8, said("illegal-access"), anywhere(SEVERAL_GPUS)),
        sign(
            2.0,
            said("illegal-access triton-pointer"),
            inside(r"triton|kernel|_fwd$|_bwd$|_cuda$|selective_scan|causal_conv"),
        ),
        sign(2.0, said("device-assert no-exception"), inside(r"triton|kernel|_fwd$|_bwd$|_cuda$")),
        sign(3.0, said("cublaslt")),
        sign(
            2.5,
            inside(r"triton|causal_conv|selective_scan|kernel"),
            said("same-device argument-device"),
        ),
    ),
    detect=_detect,
)
