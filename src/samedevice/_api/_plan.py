"""`samedevice.plan`: a device map for a machine, and its proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samedevice.errors import UsageError
from samedevice.machines import Machine, parse_machine
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.planner.inference import RESERVE, Axis, Objective, Workload, place_model
from samedevice.report import worded_errors
from samedevice.report.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping


def plan(
    # Long: what is asked for has many parts, each with its sentence.
    model: str | Path | Mapping[str, Any],
    machine: str | Machine,
    *,
    batch: int | Literal["max"] = 1,
    context: int | Literal["max"] = 2048,
    new_tokens: int = 128,
    images: int = 0,
    image_size: tuple[int, int] | None = None,
    seconds: int | None = None,
    objective: Objective = "room",
    reserve: int = RESERVE,
    dtype: str | None = None,
    prices: Mapping[str, float] | None = None,
    language: Language = SOURCE,
) -> Plan:
    """Where each block of a model goes on a machine, with the proof that it loads and runs.

    ```python
    import samedevice as sd

    small = {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
        "num_attention_heads": 4, "vocab_size": 4000, "torch_dtype": "bfloat16",
    }
    plan = sd.plan(small, "2x24GB", context=512)
    print(plan.proved, plan.device_map["model.embed_tokens"])  # True 0
    ```

    Args:
        model: a folder with `config.json`, that file, a name on the hub, or the values of a configuration.
        machine: as `samedevice run --machine` takes it.
        batch: sequences of one call of `generate`; `"max"` for the most that fit.
        context: tokens of a prompt; `"max"` for the longest that fits.
        new_tokens: tokens that are made behind it.
        images: pictures in each prompt, whose tokens `context` counts.
        image_size: width and height of each in pixels; None for 1024 x 1024. A model that scales every
        picture to one size keeps its own.
        seconds: sound in the place of a prompt, for a model that reads sound; None for 30.
        objective: `room` leaves the most memory on the fullest GPU, `stage` makes the slowest GPU as fast as
        can be, `gpus` takes the fewest, `price` the cheapest.
        reserve: bytes of each GPU that are left alone.
        dtype: type of the weights; None for what configuration or weights say.
        prices: of a GPU by its key in the table.

    `print(plan)` shows it; `plan.device_map` is for `from_pretrained`, `plan.script()` is a program that uses
    it, `plan.as_json()` the whole as a document. `plan.fits` is by calculation, `plan.proved` by running it.

    Raises `samedevice.errors.UsageError` for what is no model and for numbers that cannot be.
    """
    described = machine if isinstance(machine, Machine) else parse_machine(machine)
    asked: list[Axis] = []
    if context == "max":
        asked, context = ["context"], 1
    if batch == "max":
        asked, batch = [*asked, "batch"], 1
    with worded_errors(language):
        if len(asked) > 1:
            raise UsageError(Phrase("place.both-most"))
        placed = place_model(
            model,
            described,
            Workload(batch, context, new_tokens, images, image_size, seconds),
            objective=objective,
            most=next(iter(asked), None),
            reserve=reserve,
            dtype=dtype,
            prices=prices,
        )
    return Plan(placed, language)
