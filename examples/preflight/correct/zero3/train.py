"""ZeRO-3 without the Trainer: transformers is told before the model is loaded, and no map is given."""

import argparse
import json
import os
from pathlib import Path

import deepspeed
import torch
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig, is_deepspeed_zero3_enabled

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen1.5-7B")
parser.add_argument("--local_rank", type=int, default=-1)
parser = deepspeed.add_config_arguments(parser)
options = parser.parse_args()

config = json.loads(Path(options.deepspeed_config).read_text())
deepspeed.init_distributed()
torch.cuda.set_device(options.local_rank)
kept = HfDeepSpeedConfig(config)
device_map = None if is_deepspeed_zero3_enabled() else {"": int(os.environ.get("LOCAL_RANK", "0"))}
model = AutoModelForCausalLM.from_pretrained(options.model, torch_dtype=torch.bfloat16, device_map=device_map)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

ids = torch.ones(1, 8, dtype=torch.long, device=engine.device)
for _ in range(2):
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
