#!/bin/bash
accelerate launch --config_file config.yaml src/train.py \
    --stage dpo \
    --do_train \
    --model_name_or_path ${MODEL:-out_dir/sft} \
    --output_dir ${OUTPUT:-out_dir/dpo} \
    --fp16
