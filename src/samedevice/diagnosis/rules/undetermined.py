"""The cause cannot be told from what is there.

## What happens

The message is known, but neither frames nor operands point to one cause.

## Why it fails

One message has some thirty causes. A guess that is stated as a fact costs more time than none.

## Example

```text
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!
```

## Use instead

```bash
samedevice explain traceback.txt        # the whole traceback, not its last line
samedevice run --machine 2x24GB script.py
```

## Fix safety

Nothing is changed.

## Known limits

The candidates are ordered by how well they fit and how often they were the cause in collected reports.

## References

- `corpus/README.md`
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule

_CHINESE = """现有的信息不足以判断根源。

## 发生了什么

报错是已知的，但调用栈和操作数都没有指向某一个根源。

## 为什么会失败

同一条报错有三十来种原因。把猜测当成事实说出来，比什么都不说更浪费时间。

## 示例

```text
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and
cuda:1!
```

## 应当这样写

```bash
samedevice explain traceback.txt        # 完整的调用栈，不只是最后一行
samedevice run --machine 2x24GB script.py
```

## 修复是否安全

没有改动任何东西。

## 已知局限

候选根源按符合的程度，以及在收集到的报告中出现的多少排列。

## 参考

- `corpus/README.md`
"""

RULE = Rule(
    code="SD141",
    name="undetermined",
    title={
        "en": "the cause cannot be told",
        "zh": "无法判断根源",
    },
    meaning={
        "en": "what is known does not point to one cause",
        "zh": "已知信息不足以指向某一个原因",
    },
    cure={
        "en": "record the whole traceback, model.hf_device_map and the versions of torch, transformers "
        "and accelerate; or run the script under samedevice run",
        "zh": "请记录完整的 traceback、model.hf_device_map 以及 torch、transformers、accelerate 的版本；或"
        "用 samedevice run 运行脚本",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
)
