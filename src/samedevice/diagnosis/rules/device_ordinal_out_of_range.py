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

from samedevice.diagnosis._rule import Rule, said, sign

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
    page=__doc__ or "",
    common=0.2,
    signs=(sign(8, said("invalid-ordinal"), certain=True),),
)
