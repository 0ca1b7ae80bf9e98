CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 ddp.py
CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=gpu ddp.py
torchrun --nproc-per-node auto ddp_bad.py
LOCAL_RANK=0 python ddp.py
NPROC=8
torchrun --nproc_per_node $NPROC ddp.py &
for i in 0 1 2; do CUDA_VISIBLE_DEVICES=$i python hf_auto.py & done
if [ "$1" = multi ]; then accelerate launch --multi_gpu --num_processes 8 hf_auto.py; else python hf_auto.py; fi
uv run torchrun --nproc_per_node 8 hf_auto.py
poetry run accelerate launch hf_auto.py
conda run -n x python -m torch.distributed.run --nproc_per_node 8 hf_auto.py
nohup python -m torch.distributed.launch --nproc_per_node=8 ddp_bad.py > log 2>&1 &
torchrun --nproc_per_node=8 hf_auto.py \
   --foo $(date) "$@"

# /// expect
# must = "each launch read, or said to be unreadable"
# command = "preflight --machine 8xA100-80G"
# exit = 1
# prints = ["uv run torchrun", "poetry run accelerate launch", "conda run -n x", "4 processes, 2 visible GPUs"]
# ///
