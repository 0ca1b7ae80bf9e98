#!/bin/bash
accelerate launch --config_file zero2.yaml --num_processes 1 train.py --model_path ${MODEL:-baichuan-7b} --train_bsz_per_gpu 2
