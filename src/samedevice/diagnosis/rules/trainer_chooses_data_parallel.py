"""A Trainer will wrap the model in `nn.DataParallel` without saying so.

## What happens

Started with plain `python` where several GPUs are visible, `Trainer` sets `n_gpu` to their number and wraps
the model in `nn.DataParallel`, unless the model is spread over GPUs already.

## Why it fails

Replicas are made in threads at each step: tensors kept in attributes, quantized weights, adapters and hooks
stay on the first GPU. Where it does run it is slower than one process per GPU, and the batch per step grows
silently.

## Example

```bash
python train.py            # on a machine with 8 GPUs; train.py builds a Trainer
```

## Use instead

```bash
torchrun --nproc_per_node 8 train.py          # one process per GPU
CUDA_VISIBLE_DEVICES=0 python train.py        # or one GPU
```

## Fix safety

Safe; with several processes the effective batch is the same as DataParallel's when the batch per device is.

## Known limits

A script that really wants DataParallel is refused as well.

## References

- [transformers: Trainer and `n_gpu`](https://huggingface.co/docs/transformers/main_classes/trainer)
- [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, inside, said, sign

_CHINESE = """Trainer 会不声不响地用 `nn.DataParallel` 包装模型。

## 发生了什么

用普通的 `python` 启动，而可见的 GPU 不止一块时，`Trainer` 把 `n_gpu` 设为 GPU 的数量，并用
`nn.DataParallel` 包装模型；除非模型已经分布在多块 GPU 上。

## 为什么会失败

每一步都在线程里创建副本：存在属性里的张量、量化权重、适配器和 hook 都留在第一块 GPU 上。即使能跑，也比
每块 GPU 一个进程慢，而且每一步的 batch 在不知不觉中变大。

## 示例

```bash
python train.py            # 机器有 8 块 GPU；train.py 里使用 Trainer
```

## 应当这样写

```bash
torchrun --nproc_per_node 8 train.py          # 每块 GPU 一个进程
CUDA_VISIBLE_DEVICES=0 python train.py        # 或者只用一块 GPU
```

## 修复是否安全

安全；每个设备的 batch 不变时，多进程的有效 batch 与 DataParallel 相同。

## 已知局限

确实想用 DataParallel 的脚本也会被拒绝。

## 参考

- [transformers 的 Trainer 与 `n_gpu`](https://huggingface.co/docs/transformers/main_classes/trainer)
- [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
"""

_OF_A_TRAINER = r"^(?:training_step|prediction_step|compute_loss|_inner_training_loop)$"
"""Functions of a trainer that calls the model: so it is the trainer that wrapped it."""

RULE = Rule(
    code="SD401",
    name="trainer-chooses-data-parallel",
    title={
        "en": "a Trainer will wrap the model in DataParallel",
        "zh": "Trainer 会悄悄使用 DataParallel",
    },
    meaning={
        "en": "one process sees several GPUs and the model is on one of them, so the Trainer replicates "
        "it in threads",
        "zh": "单进程看到多块 GPU、模型只在其中一块上时，Trainer 会用 nn.DataParallel 在线程中复制模型",
    },
    cure={
        "en": "start one process per GPU with torchrun, or make one GPU visible",
        "zh": "用 torchrun 每块 GPU 启动一个进程，或只暴露一块 GPU",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    signs=(sign(12, said("data-parallel-module"), inside(_OF_A_TRAINER)),),
)
