#!/bin/bash
deepspeed --num_gpus 4 src/train.py \
    --deepspeed ds_z3_offload_config.json \
    --do_train \
    --model_name_or_path Qwen/Qwen1.5-72B-Chat \
    --use_unsloth true \
    --lora_rank 8 \
    --output_dir saves/sft \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 2 \
    --fp16
