"""Supervised fine-tuning; which library loads the model depends on the options."""

from dataclasses import dataclass, field

from loaders import load_model
from transformers import HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    model_name_or_path: str = field(metadata={"help": "a folder or a name"})
    use_unsloth: bool = field(default=False, metadata={"help": "load with unsloth"})
    lora_rank: int = field(default=8)
    adapter_name_or_path: str | None = field(default=None)


def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()
    model = load_model(model_args)
    data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 8
    Trainer(model=model, args=training_args, train_dataset=data).train()


if __name__ == "__main__":
    main()
