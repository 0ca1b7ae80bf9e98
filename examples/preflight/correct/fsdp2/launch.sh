torchrun --nproc-per-node=gpu --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py ${MODEL:-Qwen/Qwen1.5-7B}
