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

# ruff: noqa: RUF001 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.events import EventKind
from samedevice.messages import Message

RULE = Rule(
    code="SD106",
    name="device-from-unordered-set",
    title=Message(
        "a device was picked from an unordered set",
        "设备选自无序集合",
    ),
    meaning=Message(
        "the chosen device changes from run to run",
        "每次运行选出的设备可能不同",
    ),
    cure=Message(
        "name the main device, or fix PYTHONHASHSEED",
        "写明主设备，或固定 PYTHONHASHSEED",
    ),
    page=__doc__ or "",
    kind=EventKind.NONDETERMINISTIC_DEVICE,
)
