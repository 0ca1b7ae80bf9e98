torchrun --nproc-per-node 4 generate.py ${MODEL:-Qwen/Qwen3-8B}
