"""A configuration file and the launch that uses it disagree.

## What happens

`distributed_type: "NO"` with several processes, `MULTI_GPU` with one, keys for DeepSpeed that its own
configuration file has already, torchrun with a file that only `accelerate launch` reads.

## Why it fails

The launcher refuses, or one of the two wins without a word: processes that should train together do not know
of each other.

## Example

```yaml
distributed_type: "NO"
num_processes: 8
```

## Use instead

```yaml
distributed_type: MULTI_GPU
num_processes: 8
```

## Fix safety

Read it: the file may be the right one and the command the wrong one.

## Known limits

Only keys that bear on processes and devices are read.

## References

- [accelerate launch](https://huggingface.co/docs/accelerate/package_reference/cli)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, said, sign

_CHINESE = """配置文件与使用它的启动命令互相矛盾。

## 发生了什么

`distributed_type: "NO"` 却有多个进程；`MULTI_GPU` 却只有一个进程；DeepSpeed 自己的配置文件里已有的键又
写了一遍；把只有 `accelerate launch` 才读的文件交给 torchrun。

## 为什么会失败

启动器会拒绝，或者悄悄以其中一方为准：本该一起训练的进程互不知道对方。

## 示例

```yaml
distributed_type: "NO"
num_processes: 8
```

## 应当这样写

```yaml
distributed_type: MULTI_GPU
num_processes: 8
```

## 修复是否安全

请先读一遍：对的也可能是文件，错的是命令。

## 已知局限

只看与进程和设备有关的键。

## 参考

- [accelerate launch](https://huggingface.co/docs/accelerate/package_reference/cli)
"""

RULE = Rule(
    code="SD403",
    name="launch-config-contradiction",
    title={
        "en": "the configuration contradicts the launch",
        "zh": "配置与启动方式互相矛盾",
    },
    meaning={
        "en": "a configuration of accelerate or DeepSpeed says something else than the command that uses it",
        "zh": "accelerate 或 DeepSpeed 的配置与使用它的启动命令不一致",
    },
    cure={
        "en": "let one place say how many processes there are and what kind of parallelism is wanted",
        "zh": "只在一个地方说明进程数和并行方式，并保持一致",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    signs=(sign(6, said("launch-slots visible-ignored")),),
)
