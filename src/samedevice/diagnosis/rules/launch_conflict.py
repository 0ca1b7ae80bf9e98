"""A library is asked for a placement that the launch forbids.

## What happens

One of several ranks loads a model with a map over several GPUs, or a model is loaded with any map while
ZeRO-3 is on.

## Why it fails

Each rank has one GPU, and the launcher's own sharding decides what is there. accelerate refuses to prepare
such a model, transformers refuses to load it under ZeRO-3, DDP refuses to wrap it.

## Example

```python
# torchrun --nproc_per_node 8
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
```

## Use instead

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map={"": int(os.environ["LOCAL_RANK"])})
```

## Fix safety

Each rank now needs the whole model on its GPU. With FSDP or ZeRO-3 give no map at all.

## Known limits

It is told when the model is loaded; a script that never trains, and whose ranks do not meet, may work all the
same.

## References

- [accelerate: `Accelerator.prepare`](https://huggingface.co/docs/accelerate/package_reference/accelerator)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind

_CHINESE = """要求库做一种启动方式不允许的放置。

## 发生了什么

多个 rank 中的一个用 `device_map` 把模型加载到多块 GPU 上；或者在启用 ZeRO-3 时，用任何一种 `device_map`
加载模型。

## 为什么会失败

每个 rank 只有一块 GPU，放什么由启动方式自己的切分决定。accelerate 拒绝 prepare 这样的模型，transformers
在 ZeRO-3 下拒绝加载，DDP 拒绝包装。

## 示例

```python
# torchrun --nproc_per_node 8
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
```

## 应当这样写

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map={"": int(os.environ["LOCAL_RANK"])})
```

## 修复是否安全

改了之后，每个 rank 都要在自己的 GPU 上放下整个模型。使用 FSDP 或 ZeRO-3 时，完全不要写 `device_map`。

## 已知局限

在加载模型时就会指出；如果脚本从不训练、各 rank 也从不通信，它照样可能跑得通。

## 参考

-
  [accelerate 的 `Accelerator.prepare`](https://huggingface.co/docs/accelerate/package_reference/accelerator)
"""

RULE = Rule(
    code="SD108",
    name="launch-conflict",
    title={
        "en": "the launch forbids this placement",
        "zh": "这种启动方式不允许这样放置模型",
    },
    meaning={
        "en": "one of several ranks asks for a map over several GPUs, or for any map under ZeRO-3",
        "zh": "多个进程之一要求把模型铺到多块 GPU 上，或在 ZeRO-3 下使用了 device_map",
    },
    cure={
        "en": 'give each rank its own GPU, {{"": local_rank}}, or no map at all',
        "zh": '让每个进程使用自己的 GPU（{{"": local_rank}}），或者不用 device_map',
    },
    sentences={
        "headline": {
            "en": "{op} is asked for a map that this launch forbids",
            "zh": "{op} 被要求使用这种启动方式不允许的 device_map",
        },
        "why": {
            "en": "the launcher gives each process one GPU and shards by itself; a map over several GPUs "
            "fights with that",
            "zh": "启动器给每个进程一块 GPU，并自行切分；铺到多块 GPU 的 device_map 与之冲突",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.LAUNCH_CONFLICT,
)
