"""One process, the model spread over all GPUs: right, since nothing else shards or replicates it."""

import sys

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], device_map="auto")
data = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 8
arguments = TrainingArguments(
    "out", per_device_train_batch_size=1, max_steps=2, report_to="none", save_strategy="no"
)
Trainer(model=model, args=arguments, train_dataset=data).train()
