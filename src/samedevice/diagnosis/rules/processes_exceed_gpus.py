"""A launch starts more processes on a machine than it has visible GPUs.

## What happens

`--nproc_per_node 8` with `CUDA_VISIBLE_DEVICES=0,1`, `num_processes: 8` on a machine with four GPUs.

## Why it fails

The process with the first rank beyond them asks for a GPU that does not exist: "invalid device ordinal".

## Example

```bash
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 train.py
```

## Use instead

```bash
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py
```

## Fix safety

The effective batch changes with the number of processes.

## Known limits

Processes that share a GPU on purpose (the gloo backend, tests) are refused as well.

## References

- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, anywhere, said, sign

_CHINESE = """一台机器上启动的进程比可见的 GPU 多。

## 发生了什么

`CUDA_VISIBLE_DEVICES=0,1` 却写了 `--nproc_per_node 8`；四块 GPU 的机器上写了 `num_processes: 8`。

## 为什么会失败

第一个超出范围的 rank 要用一块不存在的 GPU：“invalid device ordinal”。

## 示例

```bash
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 train.py
```

## 应当这样写

```bash
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py
```

## 修复是否安全

进程数变了，有效 batch 也随之改变。

## 已知局限

有意共用一块 GPU 的进程（gloo 后端、测试）也会被拒绝。

## 参考

- [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
"""

_ONE_GPU = (
    r"\b(?:only|just)(?: have| has| got)? (?:one|1|a single) (?:GPU|card)\b"
    r"|\b(?:a|my|one) single[- ](?:GPU|card)\b|\bsingle[- ]GPU (?:machine|box|server|setup)\b"
    r"|(?:只有|就|单)一?(?:张|块)(?:卡|GPU|显卡)|单卡"
)
"""That the machine has one GPU."""

RULE = Rule(
    code="SD404",
    name="processes-exceed-gpus",
    title={
        "en": "more processes than visible GPUs",
        "zh": "进程数多于可见的 GPU 数",
    },
    meaning={
        "en": "a launch starts more processes on a machine than GPUs are visible there",
        "zh": "启动的进程数多于可见的 GPU 数",
    },
    cure={
        "en": "start as many processes as GPUs are visible, or show more GPUs",
        "zh": "进程数与可见 GPU 数保持一致，或暴露更多 GPU",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    signs=(
        sign(6, said("too-few-gpus")),
        sign(2.8, said("duplicate-gpu")),
        sign(2.4, said("duplicate-gpu"), anywhere(_ONE_GPU)),
    ),
)
