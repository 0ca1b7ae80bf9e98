"""A training step of litgpt, as its fine-tuning scripts take it, on the current GPU.

litgpt's model, its adapters and its loss in chunks run under Lightning's Fabric, which hands a model's output
on in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CHUNK = 128
"""Positions that the head is applied to at once (`lm_head_chunk_size` of `litgpt/finetune/lora.py`)."""


@dataclass(frozen=True, slots=True)
class LitgptStep:
    """What a row says of a run."""

    model: str
    micro_batch: int
    tokens: int
    lora: Mapping[str, Any] | None
    accumulation: int = 1
    """Micro-batches of a step: gradients stay from one backward to the next."""

    def take(self, steps: int = 2) -> None:
        """Take training steps. Raises ImportError where litgpt is not installed."""
        import lightning
        import torch

        fabric: Any = lightning.Fabric(accelerator="cuda", devices=1, precision="bf16-true")
        fabric.launch()
        with fabric.init_module(empty_init=True):
            model = self._model()
        model = fabric.setup_module(model)
        model.train()
        model.max_seq_length = self.tokens
        trained = [each for each in model.parameters() if each.requires_grad]
        optimizer = fabric.setup_optimizers(torch.optim.AdamW(trained, lr=3e-4))
        ids = torch.zeros(self.micro_batch, self.tokens, dtype=torch.long, device="cuda")
        for _ in range(steps):
            for _ in range(self.accumulation):
                fabric.backward(self._loss(model, ids))
            optimizer.step()
            optimizer.zero_grad()

    def _loss(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        from litgpt.utils import chunked_cross_entropy

        loss: torch.Tensor
        if self.lora is None:
            loss = chunked_cross_entropy(model(ids)[..., :-1, :], ids[..., 1:])
        else:
            logits = model(ids, lm_head_chunk_size=CHUNK)
            logits[-1] = logits[-1][..., :-1, :]
            loss = chunked_cross_entropy(logits, ids[..., 1:])
        return loss

    def _model(self) -> Any:
        if self.lora is None:
            from litgpt.model import GPT, Config

            return GPT(Config.from_name(self.model))
        from litgpt.lora import GPT as Adapted
        from litgpt.lora import Config as Settings
        from litgpt.lora import mark_only_lora_as_trainable

        targets = [part.strip() for part in str(self.lora["targets"]).split(",")]
        chosen = {f"lora_{target}": True for target in targets}
        model = Adapted(
            Settings.from_name(
                self.model,
                lora_r=self.lora["rank"],
                lora_alpha=self.lora["alpha"],
                lora_dropout=0.05,
                **chosen,
            )
        )
        mark_only_lora_as_trainable(model)
        return model
