python train.py ${MODEL:-Qwen/Qwen1.5-0.5B}
