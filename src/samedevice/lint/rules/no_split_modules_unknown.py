"""`_no_split_modules` names a class that does not exist.

## What happens

The list tells accelerate which modules to keep on one device. One of its names is no class of the project.

## Why it fails

Accelerate compares names of classes and finds nothing, so it cuts such a block in two, as if the list did
not name it: a renamed class is enough. Residual connections inside then meet two devices.

## Example

```python
from torch import nn
from transformers import PreTrainedModel


class MyDecoderBlock(nn.Module):
    pass


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyDecoderLayer"]
```

## Use instead

```python
from torch import nn
from transformers import PreTrainedModel


class MyDecoderLayer(nn.Module):
    pass


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyDecoderLayer"]
```

## Fix safety

No fix is offered: which class is meant is for a person to say.

## Known limits

Names are looked for in the file, its imports and the whole package around it. Classes that are made while
the program runs are not seen.

## References

- [Big model inference](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from samedevice.lint._rule import Hit, LintRule
from samedevice.lint._source import LintedFile


def _check(file: LintedFile) -> Iterator[Hit]:
    for owner in file.source.class_list:
        for node in owner.body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id="_no_split_modules")],
                    value=ast.List(elts=names) | ast.Tuple(elts=names),
                ):
                    for each in names:
                        if isinstance(each, ast.Constant) and isinstance(each.value, str):
                            if not _exists(file, each.value):
                                yield Hit(each, {"owner": owner.name, "given": each.value})


def _exists(file: LintedFile, name: str) -> bool:
    source = file.source
    if name in source.imports or any(each.name == name for each in source.class_list):
        return True
    if not name or name.startswith("Parametrized"):  # made by torch.nn.utils.parametrize
        return True
    return file.project.has_class(source, name) or _builds_on_others(file)


def _builds_on_others(file: LintedFile) -> bool:
    """Whether the file takes models from another package, whose classes are not read."""
    own = file.source.package.partition(".")[0]
    return any(
        "Model" in dotted
        and dotted.partition(".")[0] not in (own, "torch")
        and not dotted.endswith("PreTrainedModel")
        for dotted in file.source.imports.values()
    )


_CHINESE = """`_no_split_modules` 里有不存在的类名。

## 发生了什么

这个列表告诉 accelerate 哪些模块要放在同一个设备上，其中有个名字在项目里找不到对应的类。

## 为什么会失败

accelerate 按类名比较，找不到就当作没写，于是把这样的块切成两半：类改过名就会这样。块里的残差连接随后遇
到两个设备。

## 示例

```python
from torch import nn
from transformers import PreTrainedModel


class MyDecoderBlock(nn.Module):
    pass


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyDecoderLayer"]
```

## 应当这样写

```python
from torch import nn
from transformers import PreTrainedModel


class MyDecoderLayer(nn.Module):
    pass


class MyModel(PreTrainedModel):
    _no_split_modules = ["MyDecoderLayer"]
```

## 修复是否安全

不提供修复：指的是哪个类，要由人决定。

## 已知局限

在文件、它的导入和所在的整个包里查找名字；运行时才生成的类看不到；从别的包取用模型的文件不查。

## 参考

- [大模型推理](https://huggingface.co/docs/accelerate/usage_guides/big_modeling)
"""

RULE = LintRule(
    code="SD217",
    name="no-split-modules-unknown",
    title={
        "en": "_no_split_modules names no class",
        "zh": "_no_split_modules 里的名字没有对应的类",
    },
    meaning={
        "en": "accelerate compares class names, and cuts what is not named",
        "zh": "accelerate 按类名比较，没写到的块会被切开",
    },
    cure={
        "en": "name the class as it is called now",
        "zh": "写现在的类名",
    },
    sentences={
        "headline": {
            "en": "_no_split_modules of {owner} names {given}, which is no class here",
            "zh": "{owner} 的 _no_split_modules 写了 {given}，这里没有这个类",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    check=_check,
    cause="block-split-across-devices",
    words=("_no_split_modules",),
)
