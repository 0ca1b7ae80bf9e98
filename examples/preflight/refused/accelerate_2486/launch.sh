#!/bin/bash
accelerate launch --config_file config.yaml train.py --model ${MODEL:-Qwen/Qwen1.5-7B}
