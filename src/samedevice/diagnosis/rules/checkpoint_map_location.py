"""A checkpoint is loaded without a remap of its devices.

## What happens

`torch.load` puts each tensor back on the device it was saved from. That GPU does not exist here, or it is not
where the script wants the tensors. Or `map_location` sends all of a file to a GPU, and a part of it has to
stay on the host: `torch.set_rng_state` refuses a state on a GPU ("RNG state must be a torch.ByteTensor").

## Why it fails

The device is part of the file. Without `map_location`, an index beyond the GPUs of this machine is refused,
and one that exists is used silently.

## Example

```python
state = torch.load("model.pt")
```

## Use instead

```python
state = torch.load("model.pt", map_location="cpu")
```

## Fix safety

Safe: `load_state_dict` copies into parameters where they are.

## Known limits

A library that calls `torch.load` by itself needs its own option or a release that passes the device on.

## References

- [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
"""

# sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure, largest_first, made_text, moved_text
from samedevice.diagnosis._rule import Hint, Rule, beside_the_first, line, said, sign
from samedevice.events import Operand
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    if not failure.mismatch:
        return None
    for operand in failure.plain:
        newest = operand.decision
        apart = any(each.device != operand.device for each in failure.event.operands)
        own = newest is not None and newest.kind == "loaded" and newest.name is None
        named = newest is not None and (newest.source != "tensor" or _beside_a_weight(failure, operand))
        if newest is not None and own and named and apart:
            text = newest.at.code if newest.at is not None else ""
            phrase = Phrase(
                "rules.checkpoint-map-location.loaded-there",
                operand=failure.written(operand),
                device=operand.device,
                text=text[:60],
            )
            return Hint(7.5, phrase, operand.name)
    if (assigned := _assigned(failure)) is not None:
        return assigned
    for operand in failure.event.operands:
        if operand.lineage:
            continue  # the decision says more than the line
        text = moved_text(operand) or made_text(operand)
        if re.search(r"\btorch\.load\(", text) and "map_location" not in text:
            return Hint(
                6.5,
                Phrase(
                    "rules.checkpoint-map-location.loaded",
                    operand=failure.written(operand),
                    text=text[:60],
                ),
                operand.name,
            )
    return None


def _beside_a_weight(failure: Failure, operand: Operand) -> bool:
    """Whether it is where one weight of the model is, and meets one of those that are on another GPU."""
    homes = {each.device for each in failure.event.placements if each.root == 0}
    return operand.device in homes and any(
        each.role == "parameter" and each.device != operand.device and each.device in homes
        for each in failure.event.operands
    )


def _assigned(failure: Failure) -> Hint | None:
    """A weight that is where the script's own `torch.load` put it: it was assigned, not copied into a weight
    that was placed.
    """
    for operand in largest_first(failure.event.operands):
        newest = operand.decision
        apart = any(each.device != operand.device for each in failure.event.operands)
        loaded = newest is not None and newest.kind == "loaded" and newest.name is not None
        if loaded and newest is not None and newest.at is not None and failure.by_user(newest.at) and apart:
            text = newest.at.call or newest.at.code
            key = "rules.checkpoint-map-location.loaded-there"
            phrase = Phrase(
                key, operand=operand.parameter or newest.name or "?", device=operand.device, text=text[:60]
            )
            return Hint(8.4, phrase, operand.name)
    return None


_CHINESE = """加载 checkpoint 时没有重新指定设备。

## 发生了什么

`torch.load` 会把每个张量放回保存时所在的设备。那块 GPU 在这台机器上可能不存在，或者不是脚本想要的那一块。
也可能是 `map_location` 把文件里的所有内容都放到了 GPU，而其中有一部分必须留在主机上：随机数状态在 GPU 上时，
`torch.set_rng_state` 会拒绝（“RNG state must be a torch.ByteTensor”）。

## 为什么会失败

设备信息写在文件里。不写 `map_location` 时，超出本机范围的 GPU 编号会被拒绝；编号存在时，则会不声不响地
用上那块 GPU。

## 示例

```python
state = torch.load("model.pt")
```

## 应当这样写

```python
state = torch.load("model.pt", map_location="cpu")
```

## 修复是否安全

安全：`load_state_dict` 会把值复制到参数当前所在的位置。

## 已知局限

如果是库自己调用 `torch.load`，需要该库提供相应的选项，或者换用会传递设备的版本。

## 参考

- [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
"""

RULE = Rule(
    code="SD136",
    name="checkpoint-map-location",
    title={
        "en": "a checkpoint is loaded without map_location",
        "zh": "加载 checkpoint 时没有指定 map_location",
    },
    meaning={
        "en": "tensors of a checkpoint go back to the device they were saved from",
        "zh": "checkpoint 中的张量会回到保存时所在的设备",
    },
    cure={
        "en": 'load with map_location="cpu" or the wanted device',
        "zh": '加载时指定 map_location="cpu" 或目标设备',
    },
    sentences={
        "loaded": {
            "en": "{operand} was loaded without map_location: {text}",
            "zh": "加载 {operand} 时没有 map_location：{text}",
        },
        "loaded-there": {
            "en": "{operand} was loaded to {device}: {text}",
            "zh": "{operand} 被加载到 {device}：{text}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.1,
    signs=(
        sign(4.2, line(r"\bself\.\w{1,40}\[\w{1,40}\]"), beside_the_first()),
        sign(8, said("deserialize"), certain=True),
        sign(5.4, said("rng-state")),
        sign(2.0, line(r"torch\.load\("), said("same-device argument-device invalid-ordinal")),
    ),
    detect=_detect,
)
