"""The device message is an after-effect, or words a type error as a device error.

## What happens

An earlier failure (a failed load, an out-of-memory, an interrupted move) left the model half placed; or a
message about types differs only by the `cuda` part.

## Why it fails

A user interface or a server catches the first error and goes on. The next request meets weights that never
arrived.

## Example

```text
torch.OutOfMemoryError: CUDA out of memory ...
...
RuntimeError: Expected all tensors to be on the same device ...
```

## Use instead

```text
# cure the first error, restart the process, and try again
```

## Fix safety

Safe.

## Known limits

Without the earlier lines of the log it cannot be told.

## References

- `python -X faulthandler`, `CUDA_LAUNCH_BLOCKING=1`
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, after, anywhere, said, sign

RULE = Rule(
    code="SD140",
    name="misleading-after-effect",
    title={
        "en": "an after-effect of an earlier failure",
        "zh": "这是先前错误的后果",
    },
    meaning={
        "en": "the device message follows an earlier failure (load, out of memory), or is a type error in "
        "disguise",
        "zh": "设备报错是先前失败（加载失败、显存不足）的后果，或其实是类型错误",
    },
    cure={
        "en": "cure the first error in the log and start afresh",
        "zh": "先解决日志中的第一个错误，然后重新启动",
    },
    page=__doc__ or "",
    common=0.1,
    signs=(
        sign(5.5, after("out-of-memory")),
        sign(4.8, said("type-combination")),
        sign(2.2, said("unknown-message"), anywhere(r"torch\.cuda\.\w*Tensor|expected scalar type")),
        sign(
            2.6,
            anywhere(
                r"out of memory|OutOfMemoryError|failed to load|Error\(s\) in loading state_dict|size "
                r"mismatch"
            ),
            said("same-device argument-device meta-device meta-copy"),
        ),
    ),
)
