"""Load one of the largest open models over all GPUs, and generate four tokens.

    samedevice run --machine 16xH200 examples/giants/generate.py DeepSeek-V3

The script has nothing in it that knows of samedevice. It writes the model's `config.json` into a temporary
folder and loads that folder as transformers loads any model. There are no weights in it and nothing is
downloaded; on a virtual machine the weights have names, shapes, types and devices, and no values.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from configs import CONFIGS
from transformers import AutoModelForCausalLM
from transformers.utils import logging

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=CONFIGS)
name = parser.parse_args().model
logging.disable_progress_bar()

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "config.json").write_text(json.dumps(CONFIGS[name]), "utf-8")
    begin = time.process_time()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, device_map="auto")
    loaded = time.process_time()

    prompt = torch.tensor([[1, 15, 7, 128]], device=model.device)
    tokens = model.generate(prompt, max_new_tokens=4, do_sample=False)
    generated = time.process_time()

parameters = sum(parameter.numel() for parameter in model.parameters())
devices = {parameter.device for parameter in model.parameters()}
print(f"{name}: {parameters / 1e9:.1f} billion parameters on {len(devices)} GPUs")
print(
    f"CPU time: loaded in {loaded - begin:.1f} s, {tokens.shape[1] - 4} tokens in {generated - loaded:.1f} s"
)
