"""The smallest program that shows a finding: a checkpoint made on the spot, loaded as users load it.

Must guarantee: at most twenty lines, nothing but the library and torch, and nothing of ours; whether it shows
the finding is for a run of it to say.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from samedevice.sweep._case import Case

MOST_LINES = 20
_WIDTHS = (100, 160, 300, 10_000)
"""Lines are this long; longer ones where the script would have too many."""

_CALLS = {
    "loss": "model(**inputs)",
    "offload": "model(**inputs)",
    "greedy": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)",
    "batch": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)",
    "beam": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False, num_beams=2)",
    "sample": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=True, top_k=5)",
    "static-cache": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, "
    'cache_implementation="static")',
    "assisted": "model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, prompt_lookup_num_tokens=2)",
    "train": "model.train()(**inputs).loss.backward()",
    "checkpointing": "model.gradient_checkpointing_enable(); model.train()(**inputs).loss.backward()",
}


def script_of(case: Case, action: str, mode: str, memory: Mapping[Any, int]) -> str | None:
    """The program, or None where it has no public form as short as that."""
    if case.origin is None or action not in _CALLS:
        return None
    library, kind, config, changes = case.origin
    given = {**case.inputs, **(case.labels if "generate" not in _CALLS[action] else {})}
    if "generate" in _CALLS[action]:
        given.pop("decoder_input_ids", None)
    for width in _WIDTHS:
        lines = [
            "import tempfile",
            "",
            "import torch",
            f"from {library} import {config}, {kind}",
            "",
            *_call(f"config = {config}(", [f"{name}={value!r}" for name, value in changes.items()], width),
            "folder = tempfile.mkdtemp()",
            f"{kind}(config).save_pretrained(folder)",
            f"model = {kind}.from_pretrained(folder, device_map={mode!r}, max_memory={_budgets(memory)!r})",
            *_call("inputs = dict(", [f"{name}={literal(value)}" for name, value in given.items()], width),
            "inputs = {name: x.to(model.device) if hasattr(x, 'to') else x for name, x in inputs.items()}",
            _CALLS[action],
        ]
        if len(lines) <= MOST_LINES:
            return "\n".join(lines) + "\n"
    return None


def _budgets(memory: Mapping[Any, int]) -> dict[Any, int | str]:
    """Budgets as people write them."""
    return {device: "1000GB" if budget >= 1 << 40 else budget for device, budget in memory.items()}


def _call(head: str, parts: list[str], width: int) -> list[str]:
    """A call in one line, or with its arguments in lines of their own."""
    whole = head + ", ".join(parts) + ")"
    if len(whole) <= width:
        return [whole]
    lines, line = [head], ""
    for part in parts:
        if line and len(line) + len(part) > width - 6:
            lines.append(f"    {line.rstrip()}")
            line = ""
        line += f"{part}, "
    return [*lines, f"    {line.rstrip()}", ")"]


def literal(value: Any) -> str:
    """An expression that makes a tensor like this one: whole numbers as they are, others by their shape."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return repr(value)
    size = ", ".join(map(str, shape))
    if value.dtype.is_floating_point:
        return f"torch.randn({size})"
    if bool((value == value.flatten()[0]).all()):
        kind = "" if str(value.dtype) == "torch.int64" else f", dtype={value.dtype}"
        return f"torch.full(({size},), {value.flatten()[0].item()!r}{kind})"
    rows = value.reshape(-1, shape[-1]).tolist()
    if all(row == rows[0] for row in rows[1:]):
        return f"torch.tensor({_runs(rows[0])}).expand({size}).clone()"
    return f"torch.tensor({_joined(_runs(row) for row in rows)}).reshape({size})"


def _joined(rows: Iterator[str]) -> str:
    return "[" + ", ".join(rows) + "]"


def _runs(row: list[Any]) -> str:
    """A list; where a value is repeated often, as `[1, 2] + [7] * 64 + [3]`."""
    parts: list[str] = []
    plain: list[Any] = []
    for value, group in itertools.groupby(row):
        count = len(list(group))
        if count < 6:
            plain += [value] * count
            continue
        if plain:
            parts.append(repr(plain))
            plain = []
        parts.append(f"[{value!r}] * {count}")
    if plain:
        parts.append(repr(plain))
    return " + ".join(parts)


def changes_of(default: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that differ from its default; of its parts only those, too."""
    changed: dict[str, Any] = {}
    for name, value in made.items():
        if name in _NOT_GIVEN or not isinstance(name, str) or name.startswith("_"):
            continue
        before = default.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inside = changes_of(before, value)
            if inside:
                kind = {"model_type": value["model_type"]} if "model_type" in value else {}
                changed[name] = {**kind, **inside}
        elif value != before and not (value is None and name not in default):
            changed[name] = value
    return changed


_NOT_GIVEN = {"transformers_version", "architectures", "dtype", "torch_dtype", "model_type"}
