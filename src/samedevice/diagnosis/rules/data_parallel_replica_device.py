"""A model is wrapped in `nn.DataParallel` though it is split, not replicable, or written for one GPU.

## What happens

A trainer that sees several GPUs in one process wraps the model in DataParallel, which copies it to each GPU.
A model whose weights are on several GPUs cannot be copied; code that keeps devices in attributes is wrong in
every copy but the first. What copies on several GPUs computed has to be gathered on one before it is joined
(`torch.cat`, `torch.stack`, `+`).

## Why it fails

DataParallel wants everything on `device_ids[0]` and runs replicas in threads.

## Example

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
model = torch.nn.DataParallel(model)
```

## Use instead

```bash
torchrun --nproc_per_node 2 train.py          # one process per GPU
CUDA_VISIBLE_DEVICES=0 python train.py        # or one GPU
```

## Fix safety

Safe; with several processes the batch per step grows by their number.

## Known limits

The error inside a replica may be a fault of its own; the replica only shows that DataParallel was at work.

## References

- [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
"""

from __future__ import annotations

from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis._rule import Hint, Rule, after, anywhere, inside, said, sign
from samedevice.events import Operand, Place, Running
from samedevice.messages import Phrase
from samedevice.provenance.flow import called_in_file, calls_in_function


def _detect(failure: Failure) -> Hint | None:
    if failure.mismatch and failure.ran_in(r"parallel_apply|nn/parallel/data_parallel"):
        odd = failure.odd(*failure.event.operands)
        return Hint(7, Phrase("because.in-code", where="parallel_apply"), odd.name if odd else None)
    if failure.mismatch and failure.two_gpus and (kept := _not_replicated(failure)) is not None:
        here = kept[0].kind
        key = "rules.data-parallel-replica-device.not-replicated"
        phrase = Phrase(key, operand=failure.written(kept[1]), device=kept[1].device, module=here)
        return Hint(9, phrase, kept[1].name)
    parts = _parts(failure) if failure.mismatch and failure.two_gpus else ()
    if not parts or not _divides(failure.event.at):
        return None
    first, *others = parts
    phrase = Phrase(
        "rules.data-parallel-replica-device.not-gathered",
        operand=failure.written(first),
        others=", ".join(failure.written(each) for each in others[:3]),
    )
    last = next((each for each in others if each.device != first.device), first)
    in_a_list = len({(each.local or "").partition("[")[0] for each in parts}) == 1
    return Hint(6.8 if in_a_list and first.local is not None else 4.5, phrase, last.name)


_DIVIDES = frozenset("chunk tensor_split scatter replicate parallel_apply".split())
"""What gives each replica its part of a batch: members of an ensemble all get the whole one."""


def _divides(place: Place) -> bool:
    """Whether the function around a place divides a batch, or its file has replicas made."""
    in_file = {"DataParallel"} | (_DIVIDES if place.function == "<module>" else set())
    return bool(_DIVIDES & calls_in_function(place)) or any(called_in_file(place, each) for each in in_file)


def _not_replicated(failure: Failure) -> tuple[Running, Operand] | None:
    """What a replica met on another GPU than its copies of the parameters: it was not copied with them."""
    here = next((each for each in failure.event.running if each.replica and each.below), None)
    for operand in failure.event.operands if here is not None else ():
        if here is not None and here.below != (operand.device,) and not failure.activation(operand):
            return here, operand
    return None


def _parts(failure: Failure) -> tuple[Operand, ...]:
    """The operands, where one expression computed them all, as replicas or shards do on several GPUs.

    A factory computes nothing: two tensors from one line of it are no replicas, but a helper that was called
    twice.
    """
    operands = failure.event.operands
    computed = all(
        each.made is not None and each.moved is None and not each.role and failure.activation(each)
        for each in operands
    )
    places = {(each.made.file, each.made.line, each.made.call) for each in operands if each.made is not None}
    weights = {each.decision.name for each in operands if each.decision is not None} - {None}
    if len(weights) > 1:
        return ()  # of parts of one model: replicas have the same weights
    return operands if computed and len(places) == 1 and len(operands) > 1 else ()


_CHINESE = """`nn.DataParallel` 包装的模型已被切分、无法复制，或者只为一块 GPU 而写。

## 发生了什么

训练器在一个进程里看到多块 GPU，就用 DataParallel 包装模型，把它复制到每一块 GPU。权重分布在多块 GPU 上
的模型无法复制；把设备存在属性里的代码，除第一个副本外全都不对。各个副本的结果要先收集到同一块 GPU，才能
合并（`torch.cat`、`torch.stack`、`+`）。

## 为什么会失败

DataParallel 要求一切都在 `device_ids[0]` 上，各个副本在线程里运行。

## 示例

```python
model = AutoModelForCausalLM.from_pretrained(name, device_map="auto")
model = torch.nn.DataParallel(model)
```

## 应当这样写

```bash
torchrun --nproc_per_node 2 train.py          # 每块 GPU 一个进程
CUDA_VISIBLE_DEVICES=0 python train.py        # 或者只用一块 GPU
```

## 修复是否安全

安全；改为多进程后，每一步的 batch 会乘以进程数。

## 已知局限

副本里的错误可能另有原因；看到副本，只说明 DataParallel 起了作用。

## 参考

- [torch.nn.DataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html)
"""

RULE = Rule(
    code="SD131",
    name="data-parallel-replica-device",
    title={
        "en": "DataParallel wraps a model that it cannot replicate",
        "zh": "DataParallel 包装了无法复制的模型",
    },
    meaning={
        "en": "nn.DataParallel (often added by a trainer) meets a split or device-bound model, or what "
        "replicas "
        "computed is joined ungathered",
        "zh": "nn.DataParallel（常由训练器自动添加）遇到了已切分或绑定设备的模型，或各副本在不同 GPU "
        "上的结果未经汇集就被合并",
    },
    cure={
        "en": "start one process per GPU with torchrun or accelerate launch, or make one GPU visible",
        "zh": "用 torchrun 或 accelerate launch 每块 GPU 启动一个进程，或只暴露一块 GPU",
    },
    sentences={
        "not-replicated": {
            "en": "{operand} is on {device}, and the replica of {module} that runs is on another GPU: "
            "DataParallel copies parameters and registered buffers alone",
            "zh": "{operand} 在 {device} 上，而正在运行的 {module} 副本在另一块 GPU 上：DataParallel "
            "只复制参数和注册过的 buffer",
        },
        "not-gathered": {
            "en": "one line computed {operand} and {others} on several GPUs: the parts were not gathered on "
            "one before they were joined",
            "zh": "同一行代码在多块 GPU 上分别算出了 {operand} 和 {others}：合并之前没有把它们汇集到一块 "
            "GPU 上",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.4,
    signs=(
        sign(8, said("data-parallel-module"), certain=True),
        sign(7, said("data-parallel-replica")),
        sign(6, said("data-parallel-wrapped")),
        sign(7, after("data-parallel-replica")),
        sign(6.5, inside(r"^(?:parallel_apply|replicate)$|DataParallel")),
        sign(2.0, said("same-device"), anywhere(r"arguments are located on different GPUs")),
        sign(5, anywhere(r"Caught \w{3,40} in replica|nn\.DataParallel|parallel_apply")),
    ),
    detect=_detect,
)
