"""`torch.load` without `map_location` puts each tensor where it was saved.

## What happens

The file was written by a run whose tensors were on `cuda:3`. Loading it puts them there again, whatever the
program that loads it uses.

## Why it fails

On a machine without that GPU the call itself fails. With several ranks each of them loads onto the same GPU,
and what is kept of the file (a table, a state of the optimizer) is on another GPU than the model.

## Example

```python
import torch

state = torch.load("model.pt")
print(state.keys())
```

## Use instead

```python
import torch

state = torch.load("model.pt", map_location="cpu")
print(state.keys())
```

## Fix safety

Safe where the result goes into `load_state_dict`, which copies it to where the model is; else look at what
uses the result, since it is on the host then.

## Known limits

A file that holds no tensors is flagged as well. What is written and read again in the same function is not,
nor what a dataset reads, nor what is called a scheduler, a scaler, a state of random numbers, a vocabulary
or a configuration. Whoever wrote the file may have moved its tensors to the host first: of ten findings in
libraries five were such, so the rule is off by default.

## References

- [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from samedevice.diagnosis.fixes import with_keyword
from samedevice.lint._rule import Hit, LintRule, Repair
from samedevice.lint._source import Call, LintedFile, called, short

_NO_TENSORS = ("scheduler", "rng", "scaler", "config", "vocab", "args", "meta")
_MEMORY = ("BytesIO", "buffer", "buf", "bytes")


def _check(file: LintedFile) -> Iterator[Hit]:
    if file.is_test or any("dataset" in part.lower() for part in file.path.parts[-3:]):
        return
    saved = {id(call.around.function) for call in file.calls("save") if file.dotted(call) == "torch.save"}
    for call in file.calls("load"):
        if file.dotted(call) != "torch.load" or id(call.around.function) in saved:
            continue
        if call.around.owner is not None and "Dataset" in call.around.owner.name:
            continue
        if len(call.node.args) > 1 or any(each.arg in ("map_location", None) for each in call.node.keywords):
            continue
        named = ast.unparse(call.node.args[0]) if call.node.args else ""
        if any(word in named for word in _MEMORY) or any(word in named.lower() for word in _NO_TENSORS):
            continue
        yield Hit(call.node, {"call": short(call.node)}, repair=partial(_repair, file, call))


def _repair(file: LintedFile, call: Call) -> Repair:
    parent = file.parents.get(id(call.node))
    direct = isinstance(parent, ast.Call) and called(parent) == "load_state_dict"
    text = with_keyword(file.script, call.node, "map_location", '"cpu"')
    return Repair(RULE.phrase("fix"), text, "safe" if direct else "check")


_CHINESE = """`torch.load` 没有写 `map_location`，张量会回到保存时所在的设备。

## 发生了什么

文件是张量在 `cuda:3` 上时保存的。再读取时，不管当前程序用哪块 GPU，张量都会回到 `cuda:3`。

## 为什么会失败

没有这块 GPU 的机器上，读取本身就失败。多进程时，每个进程都把内容读到同一块 GPU 上；文件里留用的东西（一张
表、优化器状态）与模型不在同一块 GPU 上。

## 示例

```python
import torch

state = torch.load("model.pt")
print(state.keys())
```

## 应当这样写

```python
import torch

state = torch.load("model.pt", map_location="cpu")
print(state.keys())
```

## 修复是否安全

结果直接交给 `load_state_dict` 时安全：它会把内容复制到模型所在的设备。其他情况请看一下后面怎么用，因为结果
这时在内存里。

## 已知局限

文件里没有张量时也会提示。同一个函数里先写后读的、数据集读取的不提示，名字像调度器、缩放器、随机数状态、词表
或配置的也不提示。写文件的一方可能已经先把张量
移到内存里：在几个库里的十处提示中有五处如此，所以这条规则默认关闭。

## 参考

- [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html)
"""

RULE = LintRule(
    code="SD205",
    name="load-without-map-location",
    title={"en": "torch.load without map_location", "zh": "torch.load 没有写 map_location"},
    meaning={
        "en": "each tensor goes back to the device on which it was saved, which this machine or this rank "
        "may "
        "not have",
        "zh": "张量会回到保存时的设备，而这台机器或这个进程未必有它",
    },
    cure={
        "en": 'give map_location="cpu" and move what is used, or the device that this process uses',
        "zh": '写上 map_location="cpu" 再移动要用的部分，或者写本进程使用的设备',
    },
    sentences={
        "headline": {
            "en": "{call} puts tensors where they were saved",
            "zh": "{call} 会把张量放回保存时所在的设备",
        },
        "fix": {"en": "load to the host", "zh": "读到内存里"},
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="checkpoint-map-location",
    words=("torch.load(",),
    default=False,
)
