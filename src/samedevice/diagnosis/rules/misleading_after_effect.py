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

_CHINESE = """这条设备报错是前一个错误的后果，或者其实是类型错误。

## 发生了什么

更早的一次失败（加载失败、显存不足、移动被打断）使模型只放好了一半；或者报错说的是类型，两个类型只差
`cuda` 这一部分。

## 为什么会失败

图形界面或服务程序捕获了第一个错误后继续运行，下一个请求就遇到了没有就位的权重。

## 示例

```text
torch.OutOfMemoryError: CUDA out of memory ...
...
RuntimeError: Expected all tensors to be on the same device ...
```

## 应当这样写

```text
# 先解决第一个错误，重启进程，再试一次
```

## 修复是否安全

安全。

## 已知局限

没有日志前面的内容就看不出来。

## 参考

- `python -X faulthandler`、`CUDA_LAUNCH_BLOCKING=1`
"""

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
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.1,
    signs=(
        sign(5.5, after("out-of-memory")),
        sign(3, said("type-combination")),
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
