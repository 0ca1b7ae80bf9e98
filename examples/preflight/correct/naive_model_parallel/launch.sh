python train.py ${MODEL:-Qwen/Qwen1.5-7B}
