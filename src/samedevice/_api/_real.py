"""The functions for real runs, in the language of who asks.

They are `samedevice.guard`, `heal`, `align`, `check`, `placement` and `guard_cache`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from samedevice import guards
from samedevice.guards import CacheGuard, Guard, Healing
from samedevice.messages import SOURCE, Language
from samedevice.report import TextRenderer, render, worded_errors
from samedevice.report.placement import Alignment, Placement, printable_alignment, printable_placement

if TYPE_CHECKING:
    import torch

_Batch = TypeVar("_Batch")


def guard(
    model: torch.nn.Module | None = None,
    language: Language = SOURCE,
    replay: bool = False,
    record: bool = False,
) -> Guard:
    """A guard around a run on real GPUs.

    No cost until something fails, then the same exception with its diagnosis.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("2x24GB"):
        model = torch.nn.Embedding(8, 4, device="cuda:1")
        try:
            with sd.guard(model):
                model(torch.tensor([1], device="cuda:0"))
        except RuntimeError as error:
            print(error.finding.operands[0].parameter)  # weight
    ```

    The exception is the one that torch raised, with the finding as `error.finding` and its text as a note,
    once. Also a decorator, `@sd.guard(model)`, of functions, `async` ones too, and of generators.
    `sd.guard().install()` explains whatever nobody catches (`samedevice guard script.py` does that for a
    whole script) and returns a function that takes it out again. `model` names parameters when the failure is
    outside all of its methods. Under a launcher the ranks agree, through the store of the process group, on
    one that tells it whole.

    With `replay` the failing call is made once more after the failure, without its values, on a virtual
    machine in a forked process: operands that were made in the call then have their birthplaces. That takes a
    minute and 4 GiB at most, and where there is none, the finding says why.

    With `record` where each tensor was made and moved is kept while the program runs, as a virtual machine
    keeps it, so that a finding tells why each operand is where it is. That costs time in each operator, and
    compiled code runs as it was written.
    """
    return Guard(model, TextRenderer(language), replay, record)


def placement(model: torch.nn.Module) -> Placement:
    """Where everything of `model` is: modules, devices, bytes, tied groups, hooks, and what will not work.

    ```python
    import torch
    import samedevice as sd

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    print(sd.placement(model).devices)  # {'cpu': 160}
    ```

    `print(sd.placement(model))` shows a table, `.warnings` are in it and in the data, `.log()` writes a line
    for each device, `.as_json()` is the whole as a document.
    """
    with worded_errors():
        return printable_placement(guards.placement(model))


def check(batch: Any, model: torch.nn.Module, language: Language = SOURCE) -> Alignment:
    """Which tensors of `batch` are not where `model` wants them; moves nothing.

    ```python
    import torch
    import samedevice as sd

    model = torch.nn.Embedding(8, 4)
    print(bool(sd.check({"input_ids": torch.tensor([1, 2])}, model)))  # True
    ```

    Raises `samedevice.errors.UsageError` when a tensor, or the model's entry, is on meta, and for a model
    that is no module.
    """
    with worded_errors(language):
        return printable_alignment(guards.check(batch, model))


def align(
    batch: _Batch,
    model: torch.nn.Module,
    tell: Callable[[str], object] | None = None,
    language: Language = SOURCE,
) -> _Batch:
    """`batch` with every tensor where `model` wants it.

    Ids with the embedding, pixels with the vision tower, labels with the logits.

    ```python
    import torch
    import samedevice as sd

    model = torch.nn.Embedding(8, 4)
    batch = {"input_ids": torch.tensor([1, 2])}
    print(sd.align(batch, model) is batch)  # True: everything fits already
    ```

    Takes mappings, BatchEncoding, dataclasses, tuples and lists, nested as they come, and leaves the caller's
    own untouched. Each move is told to `tell` (`print`, say), or else logged on `samedevice` at INFO. What
    the code reads on the host stays there, and so do caches where they are: each layer's part belongs with
    its layer. What is no tensor, arrays of numpy too, is left alone.

    Raises `samedevice.errors.UsageError` when a tensor, or the model's entry, is on meta, and for a model
    that is no module.
    """
    logger = logging.getLogger("samedevice")
    speak = tell or logger.info
    with worded_errors(language):
        return guards.align(
            batch,
            model,
            lambda phrase: speak(render(phrase, language)),
            lambda phrase: logger.warning("%s", render(phrase, language)),
        )


def heal(model: torch.nn.Module | None = None, language: Language = SOURCE) -> Healing:
    """Repair device mismatches of `model` while it runs.

    Opt-in, logged, removable, and never at the price of other numbers.

    ```python
    import torch
    import samedevice as sd

    with sd.machine("2x24GB"):
        model = torch.nn.Embedding(8, 4, device="cuda:1")
        healing = sd.heal(model)
        print(model(torch.tensor([1], device="cuda:0")).device)  # cuda:1
        healing.remove()
    ```

    An operator that torch refuses is diagnosed, and made again with a copy of the operand that is in the
    wrong place; the copy lives for this one operator, and nothing else sees it. Each statement is logged once
    on `samedevice`, as a warning, and `healing.repairs` has them. `healing.diffs()` shows the permanent
    changes where a diff can, `healing.remove()` takes everything off.

    Raises `samedevice.errors.UsageError` for a model that is replicated, and for one that a device map
    spreads in a job of several processes. What would hide a wrong result (optimizer state, weights without
    values, generators) is not healed: torch's exception comes out, with the finding and the reason on it.
    """
    with worded_errors(language):
        return guards.heal(model, TextRenderer(language))


def guard_cache(
    block: torch.nn.Module, on_parted: Literal["move", "raise"] = "move", language: Language = SOURCE
) -> CacheGuard:
    """Keep the cache that `block` is called with on the device of the block.

    ```python
    import torch
    import samedevice as sd

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.key = torch.nn.Linear(2, 2)

        def forward(self, x, past=None):
            return torch.cat([past, self.key(x)])

    with sd.machine("1x24GB"):
        block = Block().to("cuda:0")
        handle = sd.guard_cache(block)
        print(block(torch.ones(1, 2, device="cuda:0"), past=torch.ones(3, 2)).shape)
        print(handle.moves)  # {'past': 1}
    ```

    Looks at the arguments that are caches by name (`past_key_value`, `layer_past`, `cache`, ...) or by class
    (`...Cache`): tensors, tuples, dictionaries and cache objects, static, hybrid and quantized ones as far as
    their parts are tensors. Where a part is elsewhere, each operator of the block that torch would refuse
    gets a copy of what it reads (`heal`), and `samedevice` logs the part once. The cache itself stays where
    it is, and what the block writes to it is in it. With `on_parted="raise"` it raises a RuntimeError that
    names the part instead.

    A block of `tensor_parallel`, which is what Petals serves (`backend.module`), is guarded shard by shard,
    each with the part of the cache that is its own.
    """
    return guards.guard_cache(block, on_parted, TextRenderer(language))
