#!/bin/bash
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
srun python hf_auto.py

# /// expect
# must = "read: eight processes"
# command = "preflight --machine 8xA100-80G"
# exit = 0
# prints = ["srun starts 8 processes"]
# ///
