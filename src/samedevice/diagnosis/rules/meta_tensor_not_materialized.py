"""Parameters or buffers are still empty placeholders when they are moved or used.

## What happens

Loading made the module on the meta device, which has shapes and no values, and nothing filled it: the
checkpoint lacks the key, a wrapper skipped loading, remote code builds a submodule inside an empty-weights
context.

## Why it fails

A meta tensor has no data to copy. `.to(device)` refuses; an operator that meets it refuses too.

## Example

```python
with init_empty_weights():
    model = Model(config)
model.to("cuda")                 # Cannot copy out of meta tensor; no data!
```

## Use instead

```python
model = load_checkpoint_and_dispatch(model, checkpoint, device_map="auto")
# or: model.to_empty(device="cuda"), then load_state_dict
```

## Fix safety

Check the result: `to_empty` leaves random memory in everything that is not loaded afterwards.

## Known limits

An offloaded weight is on meta on purpose; moving or reaching it is another fault (dispatched-model-moved,
offload-hook-bypassed).

## References

- [Meta device](https://docs.pytorch.org/docs/stable/meta.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, anywhere, inside, said, sign
from samedevice.diagnosis.paste import Report
from samedevice.events import EventKind
from samedevice.messages import Phrase


def _expected_meta(report: Report) -> Phrase | None:
    """A real tensor where a placeholder was expected, or the reverse, in a plain module."""
    return (
        Phrase("because.devices", devices=", ".join(report.devices))
        if report.devices[-1:] == ("meta",)
        else None
    )


def _detect(failure: Failure) -> Hint | None:
    if failure.event.kind is not EventKind.UNMATERIALIZED:
        return None
    on_meta = [each for each in failure.event.operands if each.device == "meta"]
    kept = (each for each in on_meta if failure.plain_attribute(each) is not None or each.kept_by)
    empty = next((each for each in on_meta if each.parameter), None) or next(kept, None)
    if empty is not None:
        name = empty.parameter or failure.written(empty)
        return Hint(5.5, Phrase("because.on-meta", operand=name), empty.name)
    return Hint(
        1.2, Phrase("because.on-meta", operand=next((each.name for each in failure.event.operands), "?"))
    )


_CHINESE = """参数或 buffer 还是空的占位，就被移动或使用。

## 发生了什么

加载时模块创建在 meta 设备上，只有形状、没有值，之后却没有填上：checkpoint 里缺这个键，包装代码跳过了加
载，或者 remote code 在 init_empty_weights 里又创建了子模块。

## 为什么会失败

meta 张量没有可复制的数据。`.to(device)` 会拒绝，遇到它的算子也会拒绝。

## 示例

```python
with init_empty_weights():
    model = Model(config)
model.to("cuda")                 # Cannot copy out of meta tensor; no data!
```

## 应当这样写

```python
model = load_checkpoint_and_dispatch(model, checkpoint, device_map="auto")
# 或者先 model.to_empty(device="cuda")，再 load_state_dict
```

## 修复是否安全

需要核对：`to_empty` 之后，没有加载到的部分是随机内存。

## 已知局限

offload 的权重本来就在 meta 上；移动它或绕过 hook 去用它是另外的问题
（dispatched-model-moved、offload-hook-bypassed）。

## 参考

- [Meta device](https://docs.pytorch.org/docs/stable/meta.html)
"""

_LEFT_BY_LOADING = (
    r"\bmateriali[sz]e\b|\bstill on (?:the )?meta\b|\bmeta device context\b"
    r"|\b(?:param\w*|weights?|buffers?)\b[^.\n]{0,40}\bon (?:the )?meta\b"
)
"""What says that nothing has filled a weight, rather than that it was brought away again."""
RULE = Rule(
    code="SD126",
    name="meta-tensor-not-materialized",
    title={
        "en": "weights were never loaded (still on meta)",
        "zh": "权重从未加载，仍在 meta 设备上",
    },
    meaning={
        "en": "parameters or buffers are placeholders without data; loading never filled them",
        "zh": "参数或 buffer 只是没有数据的占位，加载过程从未填充",
    },
    cure={
        "en": "load without the low-memory path, or fill the missing weights; compare checkpoint keys "
        "with the module's",
        "zh": "不用低内存方式加载，或补上缺失的权重；核对 checkpoint 与模型的键",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(3.3, said("meta-copy")),
        sign(2.6, said("meta-copy"), inside(r"from_pretrained|load|__init__|convert|_apply")),
        sign(2.6, said("meta-copy"), anywhere(r"device\(['\"]meta|init_empty_weights|assign ?= ?True")),
        sign(2.2, said("meta-copy"), inside(r"prepare_inputs|multimodal|encode_images")),
        sign(3.2, said("meta-device"), _expected_meta),
        sign(2.2, said("meta-device")),
        sign(2.4, said("meta-device"), anywhere(_LEFT_BY_LOADING)),
        sign(2.0, said("no-exception"), anywhere(r"on meta")),
        sign(5.5, said("meta-value")),
    ),
    detect=_detect,
)
