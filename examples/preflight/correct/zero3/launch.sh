deepspeed --num_gpus=8 train.py --model ${MODEL:-Qwen/Qwen1.5-7B} --deepspeed --deepspeed_config zero3.json
