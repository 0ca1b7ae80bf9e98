"""Preference training: the model that is trained, and a reference model beside it."""

import argparse

from loader import load_model
from workflow import run_dpo

parser = argparse.ArgumentParser()
parser.add_argument("--stage", choices=["sft", "dpo"], default="sft")
parser.add_argument("--model_name_or_path", required=True)
parser.add_argument("--do_train", action="store_true")
parser.add_argument("--output_dir", default="out")
parser.add_argument("--fp16", action="store_true")
options, _ = parser.parse_known_args()

model = load_model(options.model_name_or_path, is_trainable=options.do_train)
if options.stage == "dpo":
    run_dpo(model, load_model(options.model_name_or_path, is_trainable=False), options.output_dir)
