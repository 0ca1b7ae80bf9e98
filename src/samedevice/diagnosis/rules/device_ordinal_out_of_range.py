"""A rank or index is beyond the visible GPUs.

## What happens

`cuda:7` on a machine that shows two GPUs. Usually a launcher starts more processes than there are GPUs, or a
visibility variable hides some.

## Why it fails

Visible GPUs are numbered from 0. `CUDA_VISIBLE_DEVICES=6,7` makes them `cuda:0` and `cuda:1`; an index of the
whole machine is then out of range.

## Example

```bash
CUDA_VISIBLE_DEVICES=6,7 torchrun --nproc_per_node 8 train.py
```

## Use instead

```bash
CUDA_VISIBLE_DEVICES=6,7 torchrun --nproc_per_node 2 train.py
```

## Fix safety

Safe.

## Known limits

The number of GPUs is not in the message: compare with `nvidia-smi -L` and the environment.

## References

- [CUDA_VISIBLE_DEVICES](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars)
"""

# sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, anywhere, said, shown, sign

_CHINESE = """rank 或 GPU 编号超出了可见的 GPU。

## 发生了什么

机器只露出两块 GPU，代码却要 `cuda:7`。通常是启动的进程比 GPU 多，或者有环境变量隐藏了一部分 GPU。

## 为什么会失败

可见的 GPU 从 0 开始编号。`CUDA_VISIBLE_DEVICES=6,7` 使它们变成 `cuda:0` 和 `cuda:1`；再用整机的编号就越
界了。

## 示例

```bash
CUDA_VISIBLE_DEVICES=6,7 torchrun --nproc_per_node 8 train.py
```

## 应当这样写

```bash
CUDA_VISIBLE_DEVICES=6,7 torchrun --nproc_per_node 2 train.py
```

## 修复是否安全

安全。

## 已知局限

报错里没有 GPU 的数量：请对照 `nvidia-smi -L` 和环境变量。

## 参考

- [CUDA_VISIBLE_DEVICES](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars)
"""

_NAMED_PLACE = (
    r"map_location\s*=\s*(?=\S)(?!None|['\"](?:cpu|cuda:0)|['\"]cuda['\"]|torch\.device\(['\"]cpu|lambda|\{)"
)
"""A file is read onto a device that the call names: then the message is about that one."""

RULE = Rule(
    code="SD137",
    name="device-ordinal-out-of-range",
    title={
        "en": "a GPU index beyond the visible GPUs",
        "zh": "GPU 编号超出了可见范围",
    },
    meaning={
        "en": "a rank or device index is larger than the number of visible GPUs",
        "zh": "rank 或设备编号大于可见 GPU 的数量",
    },
    cure={
        "en": "match the number of processes and all indices to the visible GPUs",
        "zh": "让进程数和所有设备编号与可见 GPU 数一致",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.2,
    signs=(
        sign(8, said("invalid-ordinal"), certain=True),
        sign(
            12,
            said("deserialize"),
            anywhere(r"device_count|CUDA device [1-9]"),
            shown(_NAMED_PLACE),
        ),
    ),
)
