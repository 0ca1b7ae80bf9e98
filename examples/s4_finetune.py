"""Fine-tune Qwen1.5, one training process per GPU as the launcher starts them; this is one of them."""

import argparse
import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--device-map")  # auto: the larger model and its optimizer do not fit on one card
arguments = parser.parse_args()

local_rank = int(os.environ.get("LOCAL_RANK", "0"))
device = torch.device("cuda", local_rank)
torch.cuda.set_device(device)

tokenizer = AutoTokenizer.from_pretrained(arguments.model)
model = AutoModelForCausalLM.from_pretrained(
    arguments.model, torch_dtype="auto", device_map=arguments.device_map
)
model.to(device)  # DistributedDataParallel and DeepSpeed ask for this process's replica on its own GPU
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
