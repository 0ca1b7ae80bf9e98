"""The same fine-tuning with one process for all GPUs: the map places the model, and nothing moves it
afterwards.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--device-map", default="auto")
arguments = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(arguments.model)
model = AutoModelForCausalLM.from_pretrained(
    arguments.model, torch_dtype="auto", device_map=arguments.device_map
)
device = model.get_input_embeddings().weight.device
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

texts = ["Give me a short introduction to large language models.", "You are a helpful assistant."]
batch = tokenizer(texts, padding=True, return_tensors="pt").to(device)
labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)

for step in range(2):
    loss = model(**batch, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss on", loss.device)
