"""A library picked a device out of an unordered set.

## What happens

The order of a set of strings changes from run to run, and the device with it.

## Why it fails

Python's string hashes are seeded anew in each process.

## Example

```python
main_device = list({"cuda:0", "cuda:1"})[0]
```

## Use instead

```bash
PYTHONHASHSEED=0 python script.py
dispatch_model(model, device_map, main_device="cuda:0")
```

## Fix safety

Safe.

## Known limits

With integer devices the order is stable by luck.

## References

- `dispatch_model` of accelerate
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule
from samedevice.events import EventKind
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    """A tensor or a weight is on a device that a line took out of a set."""
    for operand in failure.event.operands if failure.mismatch else ():
        newest = operand.decision
        apart = any(each.device != operand.device for each in failure.event.operands)
        if newest is not None and newest.source == "unordered" and apart and not failure.activation(operand):
            key = "rules.device-from-unordered-set.picked"
            picked = Phrase(
                key, operand=failure.written(operand), device=operand.device, text=newest.said or "?"
            )
            return Hint(9, picked, operand.name)
    return None


_CHINESE = """库从无序集合里选出了一个设备。

## 发生了什么

字符串集合的顺序每次运行都可能不同，选出的设备也跟着变。

## 为什么会失败

Python 在每个进程里都会给字符串哈希换一个种子。

## 示例

```python
main_device = list({"cuda:0", "cuda:1"})[0]
```

## 应当这样写

```bash
PYTHONHASHSEED=0 python script.py
dispatch_model(model, device_map, main_device="cuda:0")
```

## 修复是否安全

安全。

## 已知局限

设备写成整数时，顺序碰巧是稳定的。

## 参考

- accelerate 的 `dispatch_model`
"""

RULE = Rule(
    code="SD106",
    name="device-from-unordered-set",
    title={
        "en": "a device was picked from an unordered set",
        "zh": "设备选自无序集合",
    },
    meaning={
        "en": "the chosen device changes from run to run",
        "zh": "每次运行选出的设备可能不同",
    },
    cure={
        "en": "name the main device, or fix PYTHONHASHSEED",
        "zh": "写明主设备，或固定 PYTHONHASHSEED",
    },
    sentences={
        "picked": {
            "en": "{operand} went to {device}, which {text} took out of a set: it might be any device in it",
            "zh": "{operand} 在 {device} 上，这个设备由 {text} 从集合里取出：取到的可能是集合里的任何一个",
        },
        "headline": {
            "en": "a device was picked from an unordered set",
            "zh": "设备是从无序集合中选出的，每次运行可能不同",
        },
        "why": {
            "en": "the order of a set of strings changes from run to run, and the device with it",
            "zh": "字符串集合的顺序每次运行都可能不同，选出的设备也随之改变",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    kind=EventKind.NONDETERMINISTIC_DEVICE,
    detect=_detect,
)
