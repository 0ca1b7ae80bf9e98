"""What starts launches beside plain commands: shells in all their forms, SLURM, containers, CI, Makefiles;
and what starts none.
"""

from __future__ import annotations

import pytest

from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.preflight import Request, preflight
from samedevice.report import render, worded_errors

MACHINE = parse_machine("8x24GB")
DDP = """\
import os, torch
torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda(), device_ids=[rank])
"""
K8S = """\
apiVersion: v1
kind: ConfigMap
data: {a: b}
---
kind: PyTorchJob
spec:
  containers:
    - command: ["/bin/bash", "-c"]
      args:
        - |
          torchrun --nproc_per_node=8 \\
            ddp.py
      resources: {limits: {nvidia.com/gpu: 4}}
"""
COMPOSE = """\
services:
  train:
    command: torchrun --nproc_per_node=4 ddp.py
    environment: ["CUDA_VISIBLE_DEVICES=0,1"]
  db:
    command: postgres -c shared_buffers=256MB
"""
WORKFLOW = """\
jobs:
  test:
    steps:
      - run: pip install accelerate torch
      - env: {CUDA_VISIBLE_DEVICES: "0"}
        run: |
          export X=1
          torchrun --nproc_per_node=2 ddp.py
"""
DOCKERFILE = """\
FROM pytorch/pytorch
ENV CUDA_VISIBLE_DEVICES=0,1
RUN pip install accelerate
ENTRYPOINT ["torchrun"]
CMD ["--nproc_per_node=4", "ddp.py"]
"""
SLURM = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:a100:4
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE ddp.py
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ddp.py").write_text(DDP)
    return tmp_path


def judge(folder, name, content):
    (folder / name).write_text(content)
    with worded_errors():
        return preflight(Request(folder / name, MACHINE, environment={}))


@pytest.mark.parametrize(
    ("name", "content", "processes", "visible"),
    [
        ("a.yaml", K8S, [8], [4]),
        ("compose.yml", COMPOSE, [4], [2]),
        ("ci.yml", WORKFLOW, [2], [1]),
        ("Dockerfile", DOCKERFILE, [4], [2]),
        ("Makefile", "N ?= 3\nall: x\n\t@torchrun --nproc_per_node=$(N) ddp.py\n", [3], [8]),
        ("a.sbatch", SLURM, [4], [4]),
        ("a.sh", "#SBATCH --ntasks-per-node=8\nsrun python ddp.py\n", [8], [8]),
        ("a.sh", "srun -n 4 --cpu-bind=none bash -c 'LOCAL_RANK=$SLURM_LOCALID python ddp.py'\n", [4], [8]),
        ("a.sh", "mpirun -np 2 python ddp.py\n", [2], [8]),
        ("a.sh", "mpirun -n 32 -npernode 4 -x A=1 python ddp.py\n", [4], [8]),
        ("a.sh", "uv run torchrun --nproc_per_node 2 ddp.py\n", [2], [8]),
        ("a.sh", "conda run -n x python -m torch.distributed.run --nproc_per_node 2 ddp.py\n", [2], [8]),
        ("a.sh", "timeout 60 torchrun --nproc_per_node=2 ddp.py 2>&1 | tee log\n", [2], [8]),
        ("a.sh", "env A=1 CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=1 ddp.py\n", [1], [1]),
        ("a.sh", "(cd . && exec torchrun --nproc_per_node=2 ddp.py)\n", [2], [8]),
        ("a.sh", "case $1 in multi) torchrun --nproc_per_node=2 ddp.py;; esac\n", [2], [8]),
        ("a.sh", "eval 'torchrun --nproc_per_node=2 ddp.py'\n", [2], [8]),
        (
            "a.sh",
            'run() {\n  local n=$1; shift\n  torchrun --nproc_per_node=$n "$@"\n}\nrun 2 ddp.py\nrun 4 '
            "ddp.py\n",
            [2, 4],
            [8, 8],
        ),
        (
            "a.sh",
            "cat > x.py <<EOF\ntorchrun --nproc_per_node=64 no.py\nEOF\ntorchrun --nproc_per_node=2 ddp.py\n",
            [2],
            [8],
        ),
        ("a.sh", "bash <<'EOF'\ntorchrun --nproc_per_node=2 ddp.py\nEOF\n", [2], [8]),
        ("a.sh", 'echo "torchrun --nproc_per_node=9 x.py"\ntorchrun --nproc_per_node=2 ddp.py\n', [2], [8]),
        ("a.sh", "nohup torchrun --nproc_per_node=2 ddp.py > log 2>&1 &\n", [2], [8]),
    ],
)
def test_a_launch_is_read(folder, name, content, processes, visible):
    launches = [judgement.launch for judgement in judge(folder, name, content)]
    assert [launch.processes for launch in launches] == processes
    assert [len(launch.visible) for launch in launches] == visible
    assert all(launch.script == folder / "ddp.py" for launch in launches)
    assert all("log" not in launch.arguments for launch in launches)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "foo: bar\n"),
        ("a.yaml", "kind: Service\nspec: {ports: [{port: 80}]}\n"),
        ("a.yaml", ""),
        ("a.yaml", "jobs: {test: {steps: [{run: pip install torch accelerate}]}}\n"),
        ("a.json", '{"a": 1}\n'),
        ("a.sh", ""),
        ("a.sh", "# torchrun ddp.py\necho torchrun ddp.py\n"),
        ("Makefile", "all:\n\techo python\n"),
        ("Dockerfile", "FROM x\nRUN pip install torch\n"),
    ],
)
def test_no_launch_is_said_to_be_none(folder, name, content):
    with pytest.raises(UsageError):
        judge(folder, name, content)


def test_what_cannot_be_read_is_named(folder):
    (judgement,) = judge(
        folder, "a.sh", "source gone.sh\npython - <<EOF\nEOF\ntorchrun --nproc_per_node=2 ddp.py\n"
    )
    assert any("gone.sh" in note and "python -" in note for note in map(render, judgement.notes))
    with pytest.raises(UsageError, match=r"gone\.sh"):
        judge(folder, "b.sh", "bash gone.sh\n")


def test_scripts_that_scripts_call_are_read(folder):
    (folder / "env.sh").write_text("export CUDA_VISIBLE_DEVICES=0,1\n")
    (folder / "inner.sh").write_text("torchrun --nproc_per_node=gpu ddp.py\n")
    (judgement,) = judge(folder, "a.sh", "source env.sh\nbash inner.sh\n")
    assert (judgement.launch.processes, len(judgement.launch.visible)) == (2, 2)


def test_scripts_that_call_themselves_end(folder):
    with pytest.raises(UsageError):
        judge(folder, "a.sh", "f() { f; f; }\nf\nbash a.sh\n")


def test_a_count_is_changed_in_the_command_that_has_it(folder):
    judgements = judge(
        folder, "a.sh", "N=16\ntorchrun --nproc_per_node $N ddp.py\ntorchrun --nproc_per_node 12 ddp.py\n"
    )
    first, second = (judgement.findings[0].fixes for judgement in judgements)
    assert not any(fix.diff and "12" in fix.diff.split("@@")[-1].split("-torchrun")[-1][:30] for fix in first)
    assert any("+torchrun --nproc_per_node 8 ddp.py" in (fix.diff or "") for fix in second)


def test_a_script_without_anything_to_judge_says_so(folder):
    (judgement,) = judge(folder, "nothing.py", "print(1)\n")
    assert any("nothing.py" in note for note in map(render, judgement.notes))
