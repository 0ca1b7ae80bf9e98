"""A training of BERT by transformers' own Trainer, as its documentation measured it.

The documentation is from the time of CUDA 11.2, before torch 2.0: `zero_grad` kept gradients and filled them
with zeros then, and lets go of them since.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Any

_STEPS = 2
"""Optimizer steps: with the second one everything that stays has been made."""


@dataclass(frozen=True, slots=True)
class BertTraining:
    """What the documentation's program was told."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocabulary: int
    length: int
    micro_batch: int
    accumulation: int
    checkpointing: bool
    half: bool
    """Autocast to fp16."""
    optimizer: str
    """By the name that TrainingArguments has for it."""

    def train(self) -> None:
        """Train on random tokens, and leave the memory as the program did."""
        import torch
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

        attention: Any = {"attn_implementation": "eager"}  # which the types of BertConfig leave out
        config = BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            **attention,
        )
        model = BertForSequenceClassification(config)
        let_go = model.zero_grad
        model.zero_grad = lambda set_to_none=False: let_go(set_to_none=set_to_none)  # type: ignore[method-assign]
        samples = _STEPS * self.accumulation * self.micro_batch
        tokens = torch.randint(100, 30_000, (samples, self.length))
        labels = torch.randint(0, 2, (samples,))
        data: Any = [{"input_ids": ids, "labels": label} for ids, label in zip(tokens, labels, strict=True)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                output_dir=folder,
                num_train_epochs=1,
                per_device_train_batch_size=self.micro_batch,
                gradient_accumulation_steps=self.accumulation,
                gradient_checkpointing=self.checkpointing,
                fp16=self.half,
                optim=self.optimizer,
                logging_strategy="no",
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            )
            Trainer(model=model, args=arguments, train_dataset=data).train()
