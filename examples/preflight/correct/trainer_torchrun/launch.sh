#!/bin/bash
GPUS_PER_NODE=$(python -c 'import torch; print(torch.cuda.device_count())')
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes 1 --master_port 6001"

torchrun $DISTRIBUTED_ARGS train.py \
    --model_name_or_path ${MODEL:-Qwen/Qwen1.5-1.8B} \
    --output_dir out \
    --max_steps 2 \
    --per_device_train_batch_size 1 \
    --save_strategy no \
    --report_to none
