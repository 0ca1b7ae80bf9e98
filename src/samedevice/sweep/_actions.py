"""What is done with a model: each action is what a user's script would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samedevice.sweep._case import Given, Untried

NEW_TOKENS = 3

Action = Callable[[Any, Given, Given], object]


def _forward(model: Any, inputs: Given, labels: Given) -> object:
    import torch

    with torch.no_grad():
        return model(**inputs, **labels)


def _train(model: Any, inputs: Given, labels: Given) -> object:
    if not labels:
        raise Untried("no loss")
    model.train()
    loss = _loss_of(model(**inputs, **labels))
    loss.backward()
    return loss


def _loss_of(made: Any) -> Any:
    loss = getattr(made, "loss", None)
    if loss is None:
        raise Untried("no loss")
    return loss if loss.dim() == 0 else loss.mean()


def _checkpointing(model: Any, inputs: Given, labels: Given) -> object:
    if not getattr(model, "supports_gradient_checkpointing", False):
        raise Untried("does not support gradient checkpointing")
    model.gradient_checkpointing_enable()
    return _train(model, inputs, labels)


def _generating(**settings: Any) -> Action:
    def act(model: Any, inputs: Given, labels: Given) -> object:
        return _generate(model, inputs, settings)

    return act


def _generate(model: Any, inputs: Given, settings: Given) -> object:
    can = getattr(model, "can_generate", None)
    if can is None or not can():
        raise Untried("does not generate")
    pad = getattr(getattr(model, "generation_config", None), "pad_token_id", None)
    given = dict(inputs)
    if pad is None:
        given["pad_token_id"] = 0
    for left_out in ("decoder_input_ids", "token_type_ids"):
        given.pop(left_out, None)
    return model.generate(**given, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, **settings)


def _batch(model: Any, inputs: Given, labels: Given) -> object:
    """Generate for a batch whose first text is shorter, padded on the left."""
    mask = inputs.get("attention_mask")
    if mask is None or mask.dim() != 2:
        raise Untried("takes no attention mask")
    padded = mask.clone()
    padded[0, :2] = 0
    return _generate(model, {**inputs, "attention_mask": padded}, {"do_sample": False})


def _assisted(model: Any, inputs: Given, labels: Given) -> object:
    """Guess with the prompt's own tokens, one text at a time."""
    one = {name: value[:1] if hasattr(value, "dim") else value for name, value in inputs.items()}
    return _generate(model, one, {"do_sample": False, "prompt_lookup_num_tokens": 2})


def _lora(model: Any, inputs: Given, labels: Given) -> object:
    from peft import LoraConfig, get_peft_model

    try:
        adapted = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear"))
    except Exception as error:  # a model that adapters do not know
        raise Untried(f"no adapters: {error}") from error
    return _train(adapted, inputs, labels)


ACTIONS: dict[str, Action] = {
    "loss": _forward,
    "greedy": _generating(do_sample=False),
    "beam": _generating(do_sample=False, num_beams=2),
    "sample": _generating(do_sample=True, top_k=5, top_p=0.9, temperature=0.7, repetition_penalty=1.1),
    "static-cache": _generating(do_sample=False, cache_implementation="static"),
    "assisted": _assisted,
    "batch": _batch,
    "train": _train,
    "checkpointing": _checkpointing,
    "lora": _lora,
    "offload": _forward,
}
"""By the names that `--actions` takes."""
DEFAULT_ACTIONS = ("loss", "greedy")
CHANGES_MODEL = {"train", "checkpointing", "lora"}
"""Actions after which another one needs a fresh model."""
