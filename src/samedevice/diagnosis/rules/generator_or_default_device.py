"""A random generator has another device than the tensor it fills.

## What happens

A CPU generator is used for a CUDA tensor, or the reverse. Often a global default
(`torch.set_default_device("cuda")`) sends a sampler's or shuffle's tensor to the GPU while its generator is
on the host.

## Why it fails

A generator belongs to one type of device and draws only for tensors there.

## Example

```python
generator = torch.Generator().manual_seed(0)
latents = torch.randn(shape, generator=generator, device="cuda")
```

## Use instead

```python
generator = torch.Generator(device="cuda").manual_seed(0)
latents = torch.randn(shape, generator=generator, device="cuda")
```

## Fix safety

Safe, but a CUDA generator draws other numbers than a CPU one with the same seed. To keep them, draw on the
host and move the result.

## Known limits

With a global default device the sampler is not the script's line; do not set the default to CUDA around a
DataLoader.

## References

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, line, said, sign
from samedevice.events import EventKind
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if failure.event.kind is not EventKind.GENERATOR:
        return None
    return Hint(8, Phrase("rules.generator-or-default-device.generator"), "generator", certain=True)


_CHINESE = """随机数生成器与它要填充的张量设备类型不同。

## 发生了什么

CPU 生成器用在 CUDA 张量上，或者反过来。常见的情形是全局默认设备（`torch.set_default_device("cuda")`）把
采样器或打乱操作的张量放到了 GPU，而它的生成器在 CPU 上。

## 为什么会失败

一个生成器属于一种设备，只能为那种设备上的张量取数。

## 示例

```python
generator = torch.Generator().manual_seed(0)
latents = torch.randn(shape, generator=generator, device="cuda")
```

## 应当这样写

```python
generator = torch.Generator(device="cuda").manual_seed(0)
latents = torch.randn(shape, generator=generator, device="cuda")
```

## 修复是否安全

安全，但种子相同时，CUDA 生成器与 CPU 生成器取出的数不同。要保持原来的数，就在 CPU 上取，再把结果移过去。

## 已知局限

设置了全局默认设备时，采样器不在脚本的代码里；不要在 DataLoader 外层把默认设备设为 CUDA。

## 参考

- [torch.Generator](https://docs.pytorch.org/docs/stable/generated/torch.Generator.html)
"""

_MAKER_OF_THE_HOST = (
    r"\b(?:randperm|randint|randn?|arange|linspace|eye|zeros|ones|empty|full)\b"
    r" is only (?:implemented|available)"
)
"""What makes a tensor was asked for one on a GPU: nobody hands it an input, so a default says so."""

RULE = Rule(
    code="SD134",
    name="generator-or-default-device",
    title={
        "en": "a generator belongs to another device",
        "zh": "随机数生成器属于另一种设备",
    },
    meaning={
        "en": "a random generator and the tensor it fills are on different types of device, often because "
        "of a global default device",
        "zh": "随机数生成器与要填充的张量设备类型不同，常因设置了全局默认设备",
    },
    cure={
        "en": "make the generator on the tensor's device; do not set a global CUDA default around "
        "samplers and shuffles",
        "zh": "在张量所在的设备上创建生成器；不要在采样器和打乱操作外层设置全局 CUDA 默认设备",
    },
    sentences={
        "generator": {"en": "the generator belongs to another type of device", "zh": "生成器属于另一种设备"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.3,
    signs=(
        sign(2.2, said("pin-device")),
        sign(8, said("generator-device"), certain=True),
        sign(3.6, said("rng-state")),
        sign(
            3.2,
            said("numpy-conversion"),
            anywhere(r"set_default_device|set_default_tensor_type|default_device|sampler|randperm|shuffle"),
        ),
        sign(2.4, said("numpy-conversion")),
        sign(4, anywhere(r"set_default_device|set_default_tensor_type")),
        sign(4.4, said("needs-host"), anywhere(_MAKER_OF_THE_HOST)),
        sign(
            2.5,
            line(r"randperm|random_split|\bgenerator\s?=|torch\.Generator|\bsampler\b"),
            said("same-device argument-device"),
        ),
    ),
    detect=_detect,
)
