torchrun --standalone --nproc_per_node ${GPUS:-8} train.py ${MODEL:-Qwen/Qwen1.5-1.8B}
