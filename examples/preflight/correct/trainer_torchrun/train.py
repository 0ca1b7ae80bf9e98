"""The Trainer under torchrun; options come from the command line."""

from dataclasses import dataclass, field

from modeling import build
from transformers import HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="Qwen/Qwen1.5-1.8B")
    device_map: str | None = field(default=None, metadata={"help": "for one process only"})


def main():
    model_args, training_args = HfArgumentParser(
        (ModelArguments, TrainingArguments)
    ).parse_args_into_dataclasses()
    data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 16
    Trainer(model=build(model_args, training_args), args=training_args, train_dataset=data).train()


if __name__ == "__main__":
    main()
