"""Code writes a literal device although the model runs elsewhere.

## What happens

`.cuda()`, `"cuda:0"`, `device="cuda"` or the index 0 stands in the code. The user chose another GPU, the
host, an Apple or another accelerator, so one operator gets tensors of both.

## Why it fails

`.cuda()` and `"cuda"` mean the *current* device, GPU 0 unless somebody changed it. A model on `cuda:1` then
meets tensors on `cuda:0`; on a machine without CUDA the call itself fails.

## Example

```python
model = model.to("cuda:1")
mask = torch.ones(n).cuda()            # cuda:0
model(x) * mask
```

## Use instead

```python
model = model.to("cuda:1")
mask = torch.ones(n, device=x.device)
model(x) * mask
```

## Fix safety

Safe. As a workaround, `CUDA_VISIBLE_DEVICES=1` before torch is imported makes the chosen GPU `cuda:0`.

## Known limits

From a message alone, `cuda:0` against another index is no proof: it is also where automatic maps begin.

## References

- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from samedevice.diagnosis._failure import Failure, made_text, moved_text, writes_itself
from samedevice.diagnosis._rule import (
    Hint,
    Rule,
    anywhere,
    beside_the_first,
    frameless,
    inside,
    line,
    said,
    shown,
    sign,
    unless,
)
from samedevice.events import Decision, EventKind, Operand
from samedevice.messages import Phrase
from samedevice.provenance.named_devices import has_default, takes_arguments, writes_gpu
from samedevice.provenance.syntax import methods_called


def _detect(failure: Failure) -> Hint | None:
    shared = failure.event.kind is EventKind.DUPLICATE_GPU
    for operand in failure.event.operands if shared else failure.off_its_gpu:
        text = moved_text(operand) or made_text(operand)
        if re.search(r"\.cpu\(\)|\.cuda\(\d*\)|['\"](?:cpu|cuda(?::\d+)?)['\"]", text):
            return Hint(
                6,
                Phrase("rules.hard-coded-device.literal", operand=failure.written(operand), text=text[:60]),
                operand.name,
            )
    return (
        (_by_literal(failure) or _whole_model(failure) or _weight_taken(failure))
        if failure.mismatch
        else None
    )


def _by_literal(failure: Failure) -> Hint | None:
    """A call inside a function names a device itself, where all that it meets follows another decision."""
    for operand in failure.plain:
        newest = operand.decision
        kept = operand.from_argument is not None or operand.holder is not None
        if newest is not None and newest.at is not None and not kept and failure.sent_away(operand):
            text = (newest.at.call or newest.at.code)[:60]
            key = "rules.hard-coded-device.literal"
            return Hint(4.8, Phrase(key, operand=failure.written(operand), text=text), operand.name)
        others = [each for each in failure.event.operands if each is not operand]
        if newest is None or newest.at is None or _loaded(others):
            continue
        nowhere = _to_nowhere(failure, operand, newest)
        if failure.activation(operand) and not nowhere:
            continue
        if any(each.device == operand.device or failure.made_here(each) for each in others):
            continue
        if (
            not _names_a_gpu(newest, nowhere or not failure.by_user(newest.at))
            or newest.at.function == "<module>"
            or failure.left_others(operand)
        ):
            continue
        if failure.two_gpus or not failure.by_user(newest.at):
            said = Phrase(
                "rules.hard-coded-device.literal",
                operand=failure.written(operand),
                text=(newest.at.call or newest.at.code)[:60],
            )
            mine = failure.by_user(newest.at)
            by_literals = any(
                step.source == "literal" and _names_a_gpu(step) and failure.by_user(step.at) == mine
                for each in others
                for step in each.lineage
            )
            handed = takes_arguments(newest.at) or _given_back(failure, operand, newest)
            handed = handed or (_any_gpu(newest) and all(map(failure.from_attribute, others)))
            own = handed and (not by_literals or nowhere) and not _made_by_mover(operand)
            own = own or _changed(newest, others) or _kept_on_any_gpu(failure, operand, newest)
            return Hint((7.1 if mine else 8.1) if own else 4.4, said, operand.name)
    return None


def _kept_on_any_gpu(failure: Failure, operand: Operand, decision: Decision) -> bool:
    """Whether a package put it on whatever GPU was current, for a module whose weights are all on another one
    and which keeps it.
    """
    here = failure.event.running[0] if failure.event.running else None
    whole = here is not None and len(here.below) == 1 and operand.device not in here.below
    any_gpu = decision.source == "current-gpu" or _any_gpu(decision)
    return whole and bool(operand.kept_by) and any_gpu and not failure.by_user(decision.at)


def _changed(decision: Decision, others: Sequence[Operand]) -> bool:
    """Whether all are where the current GPU was, at different times."""
    newest = [each.decision for each in others]
    return decision.source == "current-gpu" and all(
        each is not None and each.source == "current-gpu" and each.device != decision.device
        for each in newest
    )


def _whole_model(failure: Failure) -> Hint | None:
    """A package put all of a model on a GPU that it names itself, and the script its data on another one."""
    model = failure.event.running[-1] if failure.event.running else None
    if not failure.two_gpus or failure.dispatched or model is None or len(model.below) != 1:
        return None
    brought = [each for each in failure.plain if (each.device,) != model.below]
    weight = next((each for each in failure.weights if (each.device,) == model.below), None)
    placed = None if weight is None else weight.decision
    if weight is None or placed is None or placed.kind != "placed" or not brought or placed.at is None:
        return None
    by_script = all(failure.decided_by_user(each) for each in brought)
    named = placed.source in ("literal", "current-gpu") or writes_itself(placed)
    if not by_script or not named or failure.by_user(placed.at):
        return None
    values = {"operand": weight.parameter or weight.name, "text": (placed.at.call or placed.at.code)[:60]}
    return Hint(8.1, Phrase("rules.hard-coded-device.literal", **values), weight.name)


def _weight_taken(failure: Failure) -> Hint | None:
    """A weight that had been put where all is that it meets, until a function took it to whatever GPU was
    current.
    """
    met = {each.device for each in failure.plain}
    for weight in failure.weights if failure.two_gpus and len(met) == 1 else ():
        newest = weight.decision
        if newest is None or newest.at is None or newest.source != "current-gpu" or failure.dispatched:
            continue
        if failure.was_placed_on(weight, *met):
            values = {"operand": weight.parameter or weight.name}
            text = (newest.at.call or newest.at.code)[:60]
            return Hint(7.1, Phrase("rules.hard-coded-device.literal", text=text, **values), weight.name)
    return None


def _given_back(failure: Failure, operand: Operand, decision: Decision) -> bool:
    """Whether a function that the failing one called, and that names the GPU without its number, made it and
    gave it back.
    """
    text = failure.expression(operand)
    if text is None or decision.at is None or failure.weights or not _any_gpu(decision):
        return False
    called = {each.rpartition(".")[2] for each in failure.flow.given_by(text)} | methods_called(text)
    return decision.at.function in called


def _any_gpu(decision: Decision) -> bool:
    """Whether it says `cuda` without a number."""
    return decision.without_index or (decision.said or "").strip("\"'") == "cuda"


def _made_by_mover(operand: Operand) -> bool:
    """Whether the function that sent it to a GPU had made it: nobody gave it to that function."""
    newest, *before = operand.lineage
    made = before[0].at if before and before[0].kind == "created" else None
    sent = newest.at if newest.kind == "moved" else None
    if made is None or sent is None or made.line == sent.line:
        return False
    return (made.file, made.function) == (sent.file, sent.function)


def _to_nowhere(failure: Failure, operand: Operand, decision: Decision) -> bool:
    """Whether a line that ran while the model did names a GPU on which the model has no weight."""
    model = failure.event.running[-1] if failure.event.running else None
    if model is None or decision.at is None or not failure.placements:
        return False
    on_stack = failure.runs(decision.at)
    later = decision.order > max(each.last for each in failure.placements) and takes_arguments(decision.at)
    made = later and operand.from_argument is None and not failure.from_attribute(operand)
    away = all(each.device != decision.device for each in failure.placements)
    return away and decision.device not in model.below and (on_stack or made)


def _loaded(operands: list[Operand]) -> bool:
    """Whether one of them is where a checkpoint put it."""
    return any(each.decision is not None and each.decision.kind == "loaded" for each in operands)


def _made_for_any_gpu(decision: Decision) -> bool:
    """Whether the parameter that named the device has a default, and what it was given says `cuda` without a
    number, in its own file.
    """
    made, at, said = decision.device_at, decision.at, decision.said
    if decision.source != "argument" or not decision.without_index or None in (made, at, said):
        return False
    return made is not None and at is not None and made.file == at.file and has_default(at, said or "")


def _names_a_gpu(decision: Decision, constant: bool = False) -> bool:
    """Whether the very line that decided names the GPU, and with `constant` also a variable for one."""
    if decision.kind not in ("created", "moved") or decision.device == "cpu":
        return False
    if decision.source == "current-gpu":
        return True
    if writes_itself(decision) or _made_for_any_gpu(decision):
        return True
    if decision.source != "literal":
        return False
    in_a_name = (decision.said or "").isidentifier()
    return constant or not in_a_name or (decision.at is not None and writes_gpu(decision.at))


_ON_HOST = (
    r"\b(?:python[\d.]{0,4}|torchrun|launch|deepspeed) [^\n`\[]{0,240}"
    r"--(?:no[_-]cuda\b|use[_-]cpu\b|device[ =]['\"]?cpu\b)"
    r"|\bno_cuda ?= ?True\b"
)
"""That everything was asked to be on the host: what is on a GPU was sent there by the code."""

_CHINESE = """代码里写死了设备，而模型运行在别处。

## 发生了什么

代码里有 `.cuda()`、`"cuda:0"`、`device="cuda"` 或编号 0。使用者选了另一块 GPU、CPU、Apple 或其他加速器，
两边的张量就碰到了一起。

## 为什么会失败

`.cuda()` 和 `"cuda"` 指的是*当前*设备，没有改过就是 0 号 GPU。模型在 `cuda:1` 上，便遇到 `cuda:0` 上的
张量；在没有 CUDA 的机器上，这个调用本身就失败。

## 示例

```python
model = model.to("cuda:1")
mask = torch.ones(n).cuda()            # cuda:0
model(x) * mask
```

## 应当这样写

```python
model = model.to("cuda:1")
mask = torch.ones(n, device=x.device)
model(x) * mask
```

## 修复是否安全

安全。临时的办法：在导入 torch 之前设置 `CUDA_VISIBLE_DEVICES=1`，选中的 GPU 就成了 `cuda:0`。

## 已知局限

只凭报错信息，`cuda:0` 与另一个编号不能证明什么：自动 `device_map` 也从那里开始。

## 参考

- [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html)
"""

RULE = Rule(
    code="SD116",
    name="hard-coded-device",
    title={
        "en": "code names a fixed device",
        "zh": "代码里写死了设备",
    },
    meaning={
        "en": 'a literal device (.cuda(), "cuda:0", index 0) meets a model that runs elsewhere',
        "zh": '代码里写死的设备（.cuda()、"cuda:0"、下标 0）与模型实际所在的设备不一致',
    },
    cure={
        "en": "use the device of the tensors at hand; as a workaround expose only the wanted GPU with "
        "CUDA_VISIBLE_DEVICES",
        "zh": "使用现有张量的 .device；临时办法是用 CUDA_VISIBLE_DEVICES 只暴露需要的 GPU",
    },
    sentences={
        "literal": {
            "en": "{operand} was placed by a literal device: {text}",
            "zh": "{operand} 的设备是写死的：{text}",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(2, said("pin-device")),
        sign(4.4, anywhere(r"(?<!not )\bforced (?:to|onto) (?:the )?['\"`]?cuda:\d")),
        sign(8, said("same-device argument-device", devices="host"), anywhere(_ON_HOST)),
        sign(4.4, said("cuda-not-compiled")),
        sign(
            4.5,
            line(r"\.cuda\(|\bcuda\(|['\"]cuda(?::\d)?['\"]|\.to\(0\)|device=0\b"),
            unless(said("index-device")),
        ),
        sign(
            4.5, said("index-device"), line(r"(?<!\])\.cuda\(|['\"]cuda(?::\d)?['\"]")
        ),  # not what is done with the rows
        sign(2.0, shown(r"\.cuda\(\)|['\"]cuda(?::\d)?['\"]")),
        sign(
            2.2,
            said("triton-pointer mps-placeholder"),
            anywhere(r"\bmps\b|\bnpu\b|\bxpu\b"),
        ),
        sign(
            2.3, said("argument-device same-device", op="index_select|convolution|embedding", devices="gpus")
        ),
        sign(
            3.6,
            said("cuda-not-compiled"),
            anywhere(
                r"\bmps\b|\bnpu\b|\bxpu\b|\bmac\w*\b|--?cpu\b|--?device[ =]cpu|Apple"
                r"|no (?:NVIDIA |CUDA )?(?:GPU|card)(?!s are available)|没有(?:显卡|GPU|N卡)"
            ),
        ),
        sign(
            4.2,
            said("argument-device same-device", devices="gpus"),
            anywhere(r"torch\.cuda\.(?!Tensor\b)\w{3,8}Tensor\(\s{0,3}[\[(\d\w]"),
        ),
        sign(3.9, line(r"\bself\.\w"), beside_the_first()),
        sign(1.2, said("mask-device", devices="gpus")),
        sign(0.9, said("same-device argument-device", devices="gpus"), frameless()),
        sign(1.8, inside(r"fused_linear_cross|cut_cross")),
        sign(1.2, said("generator-device"), anywhere(r"\bmps\b|\bxpu\b|\bnpu\b")),
    ),
    detect=_detect,
)
