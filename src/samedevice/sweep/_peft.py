"""Methods of peft over a small model that is placed on several GPUs, as users adapt what they have loaded."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from samedevice.sweep._case import Case, Listed, Untried
from samedevice.sweep._small import reason_of
from samedevice.sweep._transformers import case_of

_BASES = {
    "llama": ("transformers.models.llama.modeling_llama", "LlamaForCausalLM", "CAUSAL_LM"),
    "t5": ("transformers.models.t5.modeling_t5", "T5ForConditionalGeneration", "SEQ_2_SEQ_LM"),
    "bert": (
        "transformers.models.bert.modeling_bert",
        "BertForSequenceClassification",
        "SEQ_CLS",
    ),
}
"""Models that the methods adapt: a decoder, an encoder with a decoder, an encoder."""


class PeftLibrary:
    """A target for each method and each base model."""

    def prepare(self) -> None:
        """Import what all methods share."""
        for name in ("peft", "transformers", "accelerate", *(base[0] for base in _BASES.values())):
            importlib.import_module(name)

    def bring(self, name: str) -> None:
        """All is imported."""

    def targets(self) -> Iterator[Listed]:
        """The methods that peft lists, each over every base."""
        mapping = importlib.import_module("peft.mapping")
        for kind, config in mapping.PEFT_TYPE_TO_CONFIG_MAPPING.items():
            folder = Path(inspect.getfile(config)).parent
            mark = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(folder.glob("*.py"))))
            for base in _BASES:
                yield Listed(f"peft.{kind.value}:{kind.value}-{base}", mark.hexdigest()[:16])

    def case(self, name: str, actions: tuple[str, ...]) -> Case:
        """The small base model, to be adapted wherever it is placed. Raises `Untried`."""
        kind, _, base = name.rpartition(":")[2].rpartition("-")
        module, model_name, task = _BASES[base]
        model_class = getattr(importlib.import_module(module), model_name)
        case = case_of(model_class, model_class.config_class().to_dict())
        adapt = _adapting(kind, task)
        try:
            adapt(importlib.import_module("copy").deepcopy(case.model))
        except Exception as error:  # anything: it is foreign code
            raise Untried(f"adapt: {reason_of(error)}") from error
        return _adapted(case, adapt)


def _adapting(kind: str, task: str) -> Callable[[Any], Any]:
    """What puts the adapter on a model: the method's own defaults, or the first numbers that fit."""
    peft = importlib.import_module("peft")
    config_class = importlib.import_module("peft.mapping").PEFT_TYPE_TO_CONFIG_MAPPING[kind]
    fields = inspect.signature(config_class).parameters
    base: dict[str, Any] = {"task_type": task}
    if "num_virtual_tokens" in fields:
        base["num_virtual_tokens"] = 4
    if "total_step" in fields:
        base["total_step"] = 10
    layers = [{}, {"target_modules": "all-linear"}] if "target_modules" in fields else [{}]
    ranks = [{}, {"r": 2}, {"r": 8}, {"r": 0, "oft_block_size": 4}] if "r" in fields else [{}]
    given = [{**base, **layer, **rank} for rank in ranks for layer in layers]

    def adapt(model: Any) -> Any:
        first: Exception | None = None
        for values in given:
            try:
                return peft.get_peft_model(model, config_class(**values))
            except Exception as error:  # its defaults do not fit this model
                first = first or error
        raise first or Untried("no configuration")

    return adapt


def _adapted(case: Case, adapt: Callable[[Any], Any]) -> Case:
    spread, load = case.spread, case.load
    if spread is None:
        return case

    def spread_and_adapt(model: Any, device_map: dict[str, Any]) -> Any:
        return adapt(spread(model, device_map))

    def load_and_adapt(mode: str, memory: Mapping[Any, int]) -> Any:
        assert load is not None
        return adapt(load(mode, memory))

    return replace(case, spread=spread_and_adapt, load=load and load_and_adapt, finish=adapt, origin=None)
