torchrun --standalone --nproc_per_node 8 train.py ${MODEL:-Qwen/Qwen1.5-1.8B} ${CHECKPOINT:-last.pt}
