#!/bin/bash
# Started on each machine by a cluster that sets WORLD_SIZE, RANK and MASTER_ADDR.
GPUS_PER_NODE=8
NNODES=$WORLD_SIZE
NODE_RANK=$RANK
NPROC_PER_NODE=$GPUS_PER_NODE

CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
swift sft \
    --model_type internvl2-8b \
    --dataset data.jsonl \
    --output_dir out \
    --batch_size 3 \
    --gradient_checkpointing true \
    --sft_type lora \
    --max_length 5120
