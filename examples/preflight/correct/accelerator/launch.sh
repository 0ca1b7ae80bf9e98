export CUDA_VISIBLE_DEVICES=0,1,2,3
accelerate launch --config_file config.yaml train.py --model ${MODEL:-Qwen/Qwen1.5-1.8B}
