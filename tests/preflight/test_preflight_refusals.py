"""Each refusal: a launch that has it, and the nearest one that has not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from samedevice.errors import UsageError
from samedevice.report import render

HEAD = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
"""
TORCHRUN = {"launcher": "torchrun"}
PYTHON = {"launcher": "python"}

PAIRS = [
    (
        "SD132",
        TORCHRUN,
        'AutoModelForCausalLM.from_pretrained("m", device_map="auto")',
        'AutoModelForCausalLM.from_pretrained("m")',
    ),
    (
        "SD132",
        TORCHRUN,
        'AutoModelForCausalLM.from_pretrained("m", device_map={"": 0})',
        'AutoModelForCausalLM.from_pretrained("m", device_map={"": int(os.environ.get("LOCAL_RANK") or 0)})',
    ),
    (
        "SD132",
        TORCHRUN,
        'device_map = {"": int(os.environ["LOCAL_RANK"])} if "SLURM_PROCID" in os.environ else "balanced"\n'
        'AutoModelForCausalLM.from_pretrained("m", device_map=device_map)',
        'device_map = {"": int(os.environ["LOCAL_RANK"])} if int(os.environ.get("WORLD_SIZE", 1)) > 1 else '
        '"balanced"\nAutoModelForCausalLM.from_pretrained("m", device_map=device_map)',
    ),
    (
        "SD131",
        PYTHON,
        'model = AutoModelForCausalLM.from_pretrained("m", device_map="auto")\nmodel = '
        "nn.DataParallel(model)",
        'model = AutoModelForCausalLM.from_pretrained("m").cuda()\nmodel = nn.DataParallel(model)',
    ),
    (
        "SD131",
        PYTHON,
        'model = AutoModelForCausalLM.from_pretrained("m").to("cuda:1")\nmodel = nn.DataParallel(model)',
        'model = AutoModelForCausalLM.from_pretrained("m").to("cuda:1")\nmodel = nn.DataParallel(model, '
        "device_ids=[1, 2])",
    ),
    (
        "SD123",
        PYTHON,
        'model = AutoModelForCausalLM.from_pretrained("m", device_map="auto")\nmodel.to("cuda")',
        'model = AutoModelForCausalLM.from_pretrained("m", device_map={"": 0})\nmodel.to("cuda:0")',
    ),
    (
        "SD402",
        TORCHRUN,
        'dist.init_process_group("nccl")\nmodel = AutoModelForCausalLM.from_pretrained("m").cuda()\nmodel = '
        "DDP(model)",
        'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\ndist.init_process_group("nccl")\n'
        'model = AutoModelForCausalLM.from_pretrained("m").cuda()\nmodel = DDP(model)',
    ),
    (
        "SD402",
        TORCHRUN,
        'dist.init_process_group("nccl")\nmodel = '
        'AutoModelForCausalLM.from_pretrained("m").to("cuda:0")\nmodel = DDP(model)',
        'dist.init_process_group("nccl")\nrank = dist.get_rank()\n'
        'model = AutoModelForCausalLM.from_pretrained("m").to(f"cuda:{rank}")\nmodel = DDP(model, '
        "device_ids=[rank])",
    ),
    (
        "SD405",
        PYTHON,
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.Adagrad(model.parameters())\nmodel.cuda()",
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.AdamW(model.parameters())\nmodel.cuda()",
    ),
    (
        "SD405",
        TORCHRUN,
        'from torch.distributed.fsdp import fully_shard\nmodel = AutoModelForCausalLM.from_pretrained("m")\n'
        "optimizer = torch.optim.AdamW(model.parameters())\nfully_shard(model)",
        'from torch.distributed.fsdp import fully_shard\nmodel = AutoModelForCausalLM.from_pretrained("m")\n'
        "fully_shard(model)\noptimizer = torch.optim.AdamW(model.parameters())",
    ),
    (
        "SD129",
        PYTHON,
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.AdamW(model.parameters())\n"
        'optimizer.load_state_dict(torch.load("o.pt", map_location="cpu"))\nmodel.cuda()',
        "model = nn.Linear(2, 2)\noptimizer = torch.optim.AdamW(model.parameters())\nmodel.cuda()\n"
        'optimizer.load_state_dict(torch.load("o.pt", map_location="cpu"))',
    ),
    (
        "SD136",
        TORCHRUN,
        'model = AutoModelForCausalLM.from_pretrained("m")\nstate = '
        'torch.load("last.pt")\nmodel.load_state_dict(state["model"])',
        'data = torch.load("dataset.pt")\nmodel = AutoModelForCausalLM.from_pretrained("m")\nstate = '
        'torch.load("last.pt", "cpu")\nmodel.load_state_dict(state["model"])',
    ),
    (
        "SD130",
        PYTHON,
        "loss_fn = nn.CrossEntropyLoss()\nlogits = torch.randn(2, 3, device='cuda:1')\nlabels = "
        "torch.tensor([0, 1]).to('cuda:0')\nloss = loss_fn(logits, labels)",
        "loss_fn = nn.CrossEntropyLoss()\nlogits = torch.randn(2, 3, device='cuda:1')\nlabels = "
        "torch.tensor([0, 1]).to('cuda:1')\nloss = loss_fn(logits, labels)",
    ),
    (
        "SD401",
        PYTHON,
        'model = AutoModelForCausalLM.from_pretrained("m")\nTrainer(model=model, '
        'args=TrainingArguments("out")).train()',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\nmodel = AutoModelForCausalLM.from_pretrained("m")\n'
        'Trainer(model=model, args=TrainingArguments("out")).train()',
    ),
    (
        "SD401",
        PYTHON,
        'model = AutoModelForCausalLM.from_pretrained("m", device_map={"": 0})\nTrainer(model, '
        'TrainingArguments("out")).train()',
        'model = AutoModelForCausalLM.from_pretrained("m", device_map="balanced")\nTrainer(model, '
        'TrainingArguments("out")).train()',
    ),
]


@pytest.mark.parametrize(
    ("code", "options", "bad", "good"),
    PAIRS,
    ids=[f"{number}-{pair[0]}" for number, pair in enumerate(PAIRS)],
)
def test_bad_and_good(code, options, bad, good, codes):
    assert codes(HEAD + bad, **options) == [code]
    assert codes(HEAD + good, **options) == []


@pytest.mark.parametrize(
    ("code", "options", "bad", "good"),
    PAIRS,
    ids=[f"{number}-{pair[0]}" for number, pair in enumerate(PAIRS)],
)
def test_the_repair_repairs(code, options, bad, good, judged, codes):
    """Where there is a diff, the launch passes with it."""
    before = HEAD + bad + "\n"
    finding = judged(before, **options).findings[0]
    diff = next((fix.diff for fix in finding.fixes if fix.diff), None)
    if code in ("SD401",) or diff is None:
        assert finding.fixes or code == "SD131"
        return
    after = patched(before, diff)
    ast.parse(after)
    assert codes(after, **options) == []


def patched(source, diff):
    """The source with a unified diff applied."""
    lines, out, at = source.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1][1:].split(",")[0])
            count = line.split()[1].partition(",")[2] or "1"
            wanted = start - 1 if count != "0" else start
            out += lines[at:wanted]
            at = wanted
        elif line.startswith("+"):
            out.append(line[1:])
        elif line.startswith("-"):
            assert lines[at] == line[1:]
            at += 1
        elif line.startswith(" "):
            out.append(lines[at])
            at += 1
    return "".join(out + lines[at:])


def test_low_memory_is_refused_by_old_releases_only(codes, monkeypatch):
    source = HEAD + (
        "from transformers.integrations import HfDeepSpeedConfig\n"
        'kept = HfDeepSpeedConfig({"zero_optimization": {"stage": 3}})\n'
        'AutoModelForCausalLM.from_pretrained("m", low_cpu_mem_usage=True)'
    )
    monkeypatch.setattr("samedevice.preflight.verdict.program.version", lambda name: "4.51.0")
    assert codes(source, launcher="deepspeed") == ["SD132"]
    monkeypatch.setattr("samedevice.preflight.verdict.program.version", lambda name: "5.0.0")
    assert codes(source, launcher="deepspeed") == []


ACCELERATE = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\nnum_machines: 1\nnum_processes: {count}\n"
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ACCELERATE.format(kind="MULTI_GPU", count=4), []),
        (ACCELERATE.format(kind="'NO'", count=1), []),
        (ACCELERATE.format(kind="'NO'", count=4), ["SD403"]),
        (ACCELERATE.format(kind="MULTI_GPU", count=1), ["SD403"]),
        (ACCELERATE.format(kind="MULTI_GPU", count=8), ["SD404"]),
        (ACCELERATE.format(kind="MULTI_GPU", count=4) + "gpu_ids: '0'\n", ["SD403", "SD404"]),
        (ACCELERATE.format(kind="MULTI_GPU", count=2) + "gpu_ids: 0,3\n", []),
        (ACCELERATE.format(kind="MULTI_GPU", count=4) + "fsdp_config:\n  fsdp_version: 2\n", ["SD403"]),
        (ACCELERATE.format(kind="FSDP", count=4) + "fsdp_config:\n  fsdp_version: 2\n", []),
        (
            ACCELERATE.format(kind="DEEPSPEED", count=4)
            + "deepspeed_config:\n  deepspeed_config_file: ds.json\n  zero_stage: 3\n",
            ["SD403"],
        ),
        (
            ACCELERATE.format(kind="DEEPSPEED", count=4)
            + "deepspeed_config:\n  deepspeed_config_file: ds.json\n",
            [],
        ),
    ],
)
def test_accelerate_files(text, wanted, codes):
    assert sorted(codes({"config.yaml": text, "ds.json": '{"zero_optimization": {"stage": 3}}'})) == wanted


@pytest.mark.parametrize(
    ("shell", "wanted"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 train.py", ["SD404"]),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 train.py", []),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node=gpu train.py", []),
        ("CUDA_VISIBLE_DEVICES=2,3\ntorchrun --nproc_per_node 2 train.py", ["SD406"]),
        ("CUDA_VISIBLE_DEVICES=0,1\ntorchrun --nproc_per_node 2 train.py", []),
        ("accelerate launch --multi_gpu --num_processes 8 train.py", ["SD404"]),
        ("deepspeed --include localhost:1,3 train.py", []),
        ("deepspeed --num_gpus 6 train.py", ["SD404"]),
        ("python -m torch.distributed.run --nproc-per-node 4 train.py", []),
    ],
)
def test_shell_scripts(shell, wanted, codes):
    files = {"launch.sh": shell + "\n", "train.py": HEAD + 'AutoModelForCausalLM.from_pretrained("m")'}
    assert codes(files) == wanted


def test_a_map_from_the_command_line(codes):
    script = (
        "import argparse\nfrom transformers import AutoModelForCausalLM\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--device-map", default={default})\noptions = parser.parse_args()\n'
        'AutoModelForCausalLM.from_pretrained("m", device_map=options.device_map)\n'
    )
    given = {
        "launch.sh": "torchrun --nproc_per_node 4 train.py --device-map auto\n",
        "train.py": script.format(default="None"),
    }
    assert codes(given) == ["SD132"]
    assert codes({**given, "launch.sh": "torchrun --nproc_per_node 4 train.py\n"}) == []
    assert codes(
        {
            **given,
            "train.py": script.format(default='"auto"'),
            "launch.sh": "torchrun --nproc_per_node 4 train.py\n",
        }
    ) == ["SD132"]


LOCAL_RANK = HEAD + (
    'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--local_rank", type=int, '
    "default=-1)\n"
    "options = "
    "parser.parse_args()\ntorch.cuda.set_device(options.local_rank)\ndist.init_process_group('nccl')\n"
    'model = DDP(AutoModelForCausalLM.from_pretrained("m").cuda())\n'
)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("python -m torch.distributed.launch --nproc_per_node 4 train.py", []),
        ("deepspeed --num_gpus 4 train.py", []),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 4 train.py", ["SD402"]),
        ("torchrun --nproc_per_node 4 train.py", ["SD402"]),
    ],
)
def test_local_rank_as_an_argument(command, wanted, codes):
    """Only some launchers pass it; with the others -1 stays, which `set_device` takes as no change."""
    assert codes({"launch.sh": command + "\n", "train.py": LOCAL_RANK}) == wanted


def test_a_map_from_the_environment(codes):
    files = {
        "launch.sh": "export DEVICE_MAP=auto\ntorchrun --nproc_per_node 4 train.py\n",
        "train.py": "import os\nfrom transformers import AutoModel\n"
        'AutoModel.from_pretrained("m", device_map=os.environ.get("DEVICE_MAP"))\n',
    }
    assert codes(files) == ["SD132"]
    assert codes({**files, "launch.sh": "torchrun --nproc_per_node 4 train.py\n"}) == []


def test_a_map_in_training_arguments(codes):
    text = "model_name_or_path: m\noutput_dir: out\n{more}"
    assert codes({"sft.yaml": text.format(more="device_map: auto\n")}) == ["SD132"]
    assert codes({"sft.yaml": text.format(more="")}) == []
    files = {
        "sft.yaml": text.format(more="device_map: cuda\ndeepspeed: ds.json\n"),
        "ds.json": '{"zero_optimization": {"stage": 3}}',
    }
    assert codes(files) == ["SD132"]


TWO_HALVES = (
    HEAD
    + """
class TwoHalves(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.devices = (first, second)
        self.one = nn.Linear(8, 8).to(first)
        self.two = nn.Linear(8, 8).to(second)

    def forward(self, x):
        hidden = self.one(x.to(self.devices[0])).relu()
        return self.two(hidden.to(self.devices[1]))


model = TwoHalves("cuda:0", "cuda:1")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{wrap}
logits = model(torch.randn(4, 8))
labels = torch.randn(4, 8).to("{device}")
nn.MSELoss()(logits, labels).backward()
"""
)


def test_a_model_split_by_hand(judged):
    """The devices of its parts, and of what its forward gives, are followed."""
    right = judged(TWO_HALVES.format(wrap="", device="cuda:1"), launcher="python")
    assert (right.findings, right.mode.name) == ((), "naive-model-parallel")
    wrong = judged(TWO_HALVES.format(wrap="", device="cuda:0"), launcher="python")
    assert [finding.code for finding in wrong.findings] == ["SD130"]
    assert "labels.to(logits.device)" in wrong.findings[0].fixes[0].diff
    wrapped = judged(TWO_HALVES.format(wrap="nn.DataParallel(model)", device="cuda:1"), launcher="python")
    assert [finding.code for finding in wrapped.findings] == ["SD131"]


def test_processes_that_the_script_spawns(judged):
    source = HEAD + (
        "import torch.multiprocessing as mp\n"
        "def work(rank, world):\n    dist.init_process_group('nccl', rank=rank, world_size=world)\n"
        "    model = DDP(AutoModelForCausalLM.from_pretrained('m').to({device}))\n"
        "mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())\n"
    )
    right = judged(source.format(device="rank"), launcher="python")
    assert (right.findings, right.mode.name) == ((), "ddp")
    assert [
        finding.code for finding in judged(source.format(device="'cuda'"), launcher="python").findings
    ] == ["SD402"]


def test_one_visible_gpu_makes_auto_harmless(codes):
    source = HEAD + 'model = AutoModelForCausalLM.from_pretrained("m", device_map="auto")\nmodel.to("cuda")'
    assert codes(source, machine="1x24GB", launcher="python") == []
    per_rank = HEAD + (
        'os.environ["CUDA_VISIBLE_DEVICES"] = '
        'os.environ["LOCAL_RANK"]\nAutoModelForCausalLM.from_pretrained("m", device_map="auto")'
    )
    assert codes(per_rank, launcher="torchrun") == []


def test_what_cannot_be_told_is_a_note(judged):
    judgement = judged(
        HEAD + 'AutoModelForCausalLM.from_pretrained("m", device_map=choose())', launcher="torchrun"
    )
    assert judgement.findings == ()
    assert "could not be told" in judgement.notes[0]


def test_unlike_gpus_are_a_note(judged):
    judgement = judged(
        HEAD + 'AutoModelForCausalLM.from_pretrained("m")',
        machine="2xH100-80G+2xA100-40G",
        launcher="torchrun",
    )
    assert judgement.findings == ()
    assert "A100-40G" in judgement.notes[0]


@pytest.mark.parametrize(
    ("source", "options", "mode"),
    [
        ('AutoModelForCausalLM.from_pretrained("m").cuda()', PYTHON, "single-gpu"),
        ('AutoModelForCausalLM.from_pretrained("m", device_map="auto")', PYTHON, "naive-model-parallel"),
        ('nn.DataParallel(AutoModelForCausalLM.from_pretrained("m").cuda())', PYTHON, "data-parallel"),
        (
            'Trainer(AutoModelForCausalLM.from_pretrained("m"), TrainingArguments("o"))',
            PYTHON,
            "data-parallel",
        ),
        ('Trainer(AutoModelForCausalLM.from_pretrained("m"), TrainingArguments("o"))', TORCHRUN, "ddp"),
        ('AutoModelForCausalLM.from_pretrained("m", tp_plan="auto")', TORCHRUN, "tensor-parallel"),
        ('AutoModelForCausalLM.from_pretrained("m")', TORCHRUN, "independent"),
    ],
)
def test_modes(source, options, mode, judged):
    judgement = judged(HEAD + source, **options)
    assert judgement.mode.name == mode
    assert render(judgement.mode.phrase, "en") != render(judgement.mode.phrase, "zh")


def test_gpus_that_are_computed_from_the_rank(judged):
    """Two GPUs for each rank are no mistake, and neither is another order; a GPU that all ranks name is."""
    source = HEAD + (
        'dist.init_process_group("nccl")\nrank = int(os.environ["LOCAL_RANK"])\n'
        "first, second = nn.Linear(2, 2).to({first}), nn.Linear(2, 2).to({second})\nmodel = "
        "DDP(nn.Sequential(first, second))\n"
    )
    for first, second in (("2 * rank", "2 * rank + 1"), ("3 - rank", "3 - rank")):
        assert (
            judged(source.format(first=first, second=second), launcher="torchrun", processes=2).findings == ()
        )
    (finding,) = judged(source.format(first="rank", second="1"), launcher="torchrun", processes=2).findings
    assert "cuda:1 is written down for all" in finding.reasons[0]


ZERO = '{{"zero_optimization": {{"stage": {stage}}}, "train_batch_size": "auto"}}'


@pytest.mark.parametrize(
    ("given", "mode", "reason"),
    [
        ("deepspeed='ds.json'", "zero-3", "ZeRO-3 partitions"),
        ("deepspeed={'zero_optimization': {'stage': 3}}", "zero-3", "ZeRO-3 partitions"),
        ("fsdp='full_shard auto_wrap'", "fsdp", "FSDP shards"),
        ("fsdp='full_shard', fsdp_config={'version': 2}", "fsdp2", "FSDP shards"),
    ],
)
def test_sharding_that_the_script_asks_for(given, mode, reason, judged):
    """As `TrainingArguments` have it, in the script itself: the mode, the refusal and a repair that is right
    for it.
    """
    source = HEAD + (
        f"arguments = TrainingArguments('out', {given})\n"
        "model = AutoModelForCausalLM.from_pretrained('m', device_map={'': int(os.environ['LOCAL_RANK'])})\n"
    )
    source = (
        source if mode.startswith("zero") else source.replace("{'': int(os.environ['LOCAL_RANK'])}", "'auto'")
    )
    files = {"train.py": source + "Trainer(model, arguments).train()\n", "ds.json": ZERO.format(stage=3)}
    judgement = judged(files, launcher="torchrun")
    (finding,) = judgement.findings
    assert (judgement.mode.name, finding.code) == (mode, "SD132")
    assert reason in finding.reasons[0]
    repaired = patched(files["train.py"], finding.fixes[0].diff)
    assert "device_map=None" in repaired
    assert judged({**files, "train.py": repaired}, launcher="torchrun").findings == ()


def test_a_stage_that_replicates_keeps_the_ranks_own_map(judged):
    source = HEAD + (
        "arguments = TrainingArguments('out', deepspeed='ds.json')\n"
        "model = AutoModelForCausalLM.from_pretrained('m', device_map={'': int(os.environ['LOCAL_RANK'])})\n"
        "Trainer(model, arguments).train()\n"
    )
    judgement = judged({"train.py": source, "ds.json": ZERO.format(stage=2)}, launcher="deepspeed")
    assert (judgement.findings, judgement.mode.name) == ((), "zero-2")


def test_statements_that_a_repair_leaves_without_use_go(judged):
    """`model = DataParallel(model)` and `model.to(...)` go whole, and a block that has nothing else keeps a
    `pass`.
    """
    head = HEAD + 'model = AutoModelForCausalLM.from_pretrained("m", device_map="auto")\n'
    (wrapped,) = judged(
        head + "if torch.cuda.device_count() > 1:\n    model = nn.DataParallel(model)\n"
    ).findings
    assert "+    pass" in wrapped.fixes[0].diff
    (moved,) = judged(head + 'model.to("cuda")\nmodel.eval()\n').findings
    assert [line for line in moved.fixes[0].diff.splitlines()[2:] if line.startswith(("+", "-"))] == [
        '-model.to("cuda")'
    ]
    source = head + 'model.to("cuda"); model.eval()\n'
    (beside,) = judged(source).findings
    assert patched(source, beside.fixes[0].diff) == head + "model.eval()\n"


def test_a_section_that_nothing_reads_is_put_to_use(judged):
    text = ACCELERATE.format(kind="MULTI_GPU", count=4) + "fsdp_config:\n  fsdp_version: 2\n"
    (finding,) = judged({"config.yaml": text}).findings
    judgement = judged({"config.yaml": patched(text, finding.fixes[0].diff)})
    assert (judgement.findings, judgement.mode.name) == ((), "fsdp2")


def test_a_repaired_json_is_json(judged):
    text = (
        '{\n  "compute_environment": "LOCAL_MACHINE",\n  "distributed_type": "NO",\n  "num_machines": 1,\n  '
        '"num_processes": 4\n}\n'
    )
    (finding,) = judged({"config.json": text}).findings
    assert judged({"config.json": patched(text, finding.fixes[0].diff)}).findings == ()


def test_models_that_bitsandbytes_quantized_are_never_replicated(codes):
    """transformers wraps no such model in DataParallel, so a Trainer that sees several GPUs trains it on its
    one GPU.
    """
    source = (
        HEAD + 'model = AutoModelForCausalLM.from_pretrained("m", {}device_map={{"": 0}})\nTrainer(model, '
        'TrainingArguments("out")).train()'
    )
    assert codes(source.format(""), **PYTHON) == ["SD401"]
    assert codes(source.format("load_in_4bit=True, "), **PYTHON) == []


LIGHTNING = """
import os
import lightning as L
from lightning.pytorch.strategies import DeepSpeedStrategy
from transformers import AutoModelForCausalLM


class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained("m"{map})


L.Trainer({options}).fit(Lit())
"""


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ("devices=4, strategy='ddp'", "ddp"),
        ("", "ddp"),
        ("devices='0,2', strategy='fsdp'", "fsdp"),
        ("devices=[0, 1], strategy='deepspeed_stage_3'", "zero-3"),
        ("devices=-1, strategy=DeepSpeedStrategy(stage=1)", "zero-1"),
        ("devices=1", "single-gpu"),
        ("accelerator='cpu'", "single-gpu"),
    ],
)
def test_processes_that_lightning_starts(options, mode, judged):
    """A map over several GPUs is refused in each of them; the rank's own GPU is right, also in the process
    that Python started.
    """
    judgement = judged(LIGHTNING.format(map="", options=options), **PYTHON)
    assert (judgement.findings, judgement.mode.name) == ((), mode)
    several = ["SD132"] if mode != "single-gpu" else []
    spread = judged(LIGHTNING.format(map=", device_map='auto'", options=options), **PYTHON)
    assert [finding.code for finding in spread.findings] == several
    own = ", device_map={'': int(os.environ.get('LOCAL_RANK', 0))}"
    assert judged(LIGHTNING.format(map=own, options=options), **PYTHON).findings == ()


def test_lightning_under_a_launcher(judged):
    judgement = judged(LIGHTNING.format(map="", options="devices=2"), **TORCHRUN)
    assert (judgement.findings, judgement.mode.name, judgement.launch.launcher.name) == (
        (),
        "ddp",
        "torchrun",
    )
    assert [
        finding.code for finding in judged(LIGHTNING.format(map="", options="devices=8"), **PYTHON).findings
    ] == ["SD404"]


@pytest.mark.parametrize(
    ("shell", "wanted", "mode"),
    [
        (
            "for gpu in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$gpu python train.py > $gpu.log &\ndone\n",
            [],
            "single-gpu",
        ),
        ("for ((i=0; i<4; i++)); do CUDA_VISIBLE_DEVICES=${i} python train.py & done\n", [], "single-gpu"),
        (
            "for pair in 0,1 2,3; do CUDA_VISIBLE_DEVICES=$pair python train.py; done\n",
            ["SD401"],
            "data-parallel",
        ),
        ("export CUDA_VISIBLE_DEVICES=$(python free_gpu.py)\npython train.py\n", [], "unknown"),
        ("while read gpu; do CUDA_VISIBLE_DEVICES=$gpu python train.py; done < gpus.txt\n", [], "unknown"),
        ("CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node 4 train.py\n", [], "ddp"),
    ],
)
def test_gpus_that_a_shell_script_hands_out(shell, wanted, mode, judged):
    """Nothing is refused for GPUs of which reading cannot tell whether they are visible; a note says so."""
    source = (
        HEAD + 'model = AutoModelForCausalLM.from_pretrained("m")\nTrainer(model, '
        'TrainingArguments("out")).train()\n'
    )
    judgement = judged({"sweep.sh": shell, "train.py": source})
    assert ([finding.code for finding in judgement.findings], judgement.mode.name) == (wanted, mode)
    assert ("CUDA_VISIBLE_DEVICES" in " ".join(judgement.notes)) == (
        "$(" in shell or "read" in shell or "$1" in shell
    )


def test_gpus_that_cannot_be_told_excuse_no_map(judged):
    source = (
        HEAD + 'model = AutoModelForCausalLM.from_pretrained("m", device_map="auto")\nTrainer(model, '
        'TrainingArguments("out")).train()\n'
    )
    files = {
        "launch.sh": "CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node 4 train.py\n",
        "train.py": source,
    }
    assert [finding.code for finding in judged(files).findings] == ["SD132"]


def test_a_repair_imports_what_it_needs(judged):
    """An import inside a function is none for the others."""
    source = (
        "import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import "
        "DistributedDataParallel\n\n\n"
        "def version():\n    import os\n\n    return os.environ['VERSION']\n\n\n"
        "dist.init_process_group('nccl')\nmodel = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())\n"
    )
    (finding,) = judged(source, **TORCHRUN).findings
    assert patched(source, finding.fixes[0].diff).startswith("import os\n")


def test_a_configuration_names_its_launcher(judged):
    """Beside a script it is read with it, also when no launcher is named; what would be ignored is
    refused.
    """
    source = (
        HEAD + 'model = AutoModelForCausalLM.from_pretrained("m")\nTrainer(model, '
        'TrainingArguments("out")).train()\n'
    )
    files = {
        "train.py": source,
        "fsdp.yaml": ACCELERATE.format(kind="FSDP", count=4),
        "ds.json": ZERO.format(stage=2),
    }
    folder = Path(judged(files, **TORCHRUN).launch.script).parent
    for name, launcher, mode in (("fsdp.yaml", "accelerate", "fsdp"), ("ds.json", "deepspeed", "zero-2")):
        judgement = judged(files, configuration=folder / name)
        assert (judgement.launch.launcher.name, judgement.mode.name, judgement.findings) == (
            launcher,
            mode,
            (),
        )
    for options in (
        {"processes": 4},
        {"configuration": folder / "fsdp.yaml", "launcher": "python"},
        {"configuration": folder / "none.yaml"},
    ):
        with pytest.raises(UsageError):
            judged(files, **options)
    with pytest.raises(UsageError):
        judged({"launch.sh": "torchrun train.py\n", **files}, configuration=folder / "fsdp.yaml")


def test_a_model_that_the_trainer_loads_itself(judged):
    """Releases of trl differ in the map that they load it by."""
    judgement = judged(
        'from trl import SFTConfig, SFTTrainer\nSFTTrainer(model="m", args=SFTConfig("out")).train()\n',
        **PYTHON,
    )
    assert (judgement.mode.name, judgement.findings) == ("unknown", ())


LOOP = HEAD + (
    'model = AutoModelForCausalLM.from_pretrained("m").to(f"cuda:{{os.environ[\'LOCAL_RANK\']}}")\n{more}'
    "optimizer = torch.optim.AdamW(model.parameters())\nmodel().loss.backward()\noptimizer.step()\n"
)


@pytest.mark.parametrize("configuration", [None, "fsdp.yaml"])
def test_processes_that_train_alone_get_a_note(configuration, judged, tmp_path):
    """A plain loop under a launcher trains as many models as there are processes, whatever the configuration
    says.
    """
    files = {"train.py": LOOP.format(more=""), "fsdp.yaml": ACCELERATE.format(kind="FSDP", count=4)}
    options = TORCHRUN if configuration is None else {"configuration": tmp_path / configuration}
    (tmp_path / "fsdp.yaml").write_text(files["fsdp.yaml"])
    alone = judged(files, **options)
    assert (alone.mode.name, alone.findings) == ("independent", ())
    assert "exchanges gradients" in alone.notes[0]
    together = judged({**files, "train.py": LOOP.format(more="model = DDP(model)\n")}, **TORCHRUN)
    assert (together.mode.name, together.notes) == ("ddp", ())


@pytest.mark.parametrize(
    ("numbers", "product"),
    [
        ('"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1', 8),
        ('"train_batch_size": 10, "train_micro_batch_size_per_gpu": 2', 8),
        ('"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2', None),
        (
            '"train_batch_size": 4, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1',
            None,
        ),
        (
            '"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4',
            None,
        ),
        (
            '"train_batch_size": 100, "train_micro_batch_size_per_gpu": "auto", '
            '"gradient_accumulation_steps": 1',
            None,
        ),
        ('"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 3', None),
    ],
)
def test_numbers_of_deepspeed_agree(numbers, product, judged):
    """What DeepSpeed asserts before the first step: batch = micro-batch x accumulation x processes."""
    text = f'{{"zero_optimization": {{"stage": 2}}, {numbers}}}\n'
    judgement = judged({"ds.json": text})
    assert [finding.code for finding in judgement.findings] == ([] if product is None else ["SD403"])
    if product is not None:
        (fix,) = judgement.findings[0].fixes
        repaired = patched(text, fix.diff)
        assert f'"train_batch_size": {product},' in repaired
        assert judged({"ds.json": repaired}).findings == ()


def test_deepspeed_in_one_process_is_no_data_parallel(judged):
    source = HEAD + (
        "model = AutoModelForCausalLM.from_pretrained('m')\n"
        "Trainer(model, TrainingArguments('out', deepspeed={'zero_optimization': {'stage': 2}})).train()\n"
    )
    judgement = judged(source, **PYTHON)
    assert (judgement.findings, judgement.mode.name) == ((), "zero-2")


def test_processes_on_several_machines(judged):
    text = ACCELERATE.format(kind="MULTI_GPU", count=8).replace("num_machines: 1", "num_machines: 2")
    judgement = judged({"config.yaml": text})
    assert judgement.findings == ()
    assert "8 processes on 2 machines, 4 visible GPUs in each" in render(judgement.mode.phrase)


def test_a_diff_names_the_file_from_the_working_folder(judged, tmp_path, monkeypatch):
    """As `patch -p1` and `git apply` look for it."""
    files = {"src/train.py": HEAD + 'AutoModelForCausalLM.from_pretrained("m", device_map="auto")\n'}
    monkeypatch.chdir(tmp_path)
    diff = judged(files, **TORCHRUN).findings[0].fixes[0].diff
    assert diff.startswith("--- a/src/train.py\n+++ b/src/train.py\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert judged(files, **TORCHRUN).findings[0].fixes[0].diff.startswith("--- a/train.py\n")


# -- options from a file


_FROM_A_FILE = """
    import argparse
    import os
    from dataclasses import dataclass, field
    import torch
    from transformers import (
        AutoModelForCausalLM, BitsAndBytesConfig, HfArgumentParser, Trainer, TrainingArguments,
    )

    TEMPLATES = {"plain": 1}

    @dataclass
    class Ours:
        model: str = field(metadata={"help": "a folder"})
        template: str = field(default="")
        bits: int = field(default=0)

    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", default="settings.json")
    options = parser.parse_args()
    ours, arguments = HfArgumentParser((Ours, TrainingArguments)).parse_json_file(json_file=options.settings)
    quantization = None
    if ours.bits == 8:
        quantization = BitsAndBytesConfig(load_in_8bit=True)
    placed = {"": int(os.environ.get("LOCAL_RANK", 0))} if quantization is not None else None
    model = AutoModelForCausalLM.from_pretrained(
        ours.model, device_map=placed, quantization_config=quantization
    )
    if ours.template not in TEMPLATES:
        raise ValueError(ours.template)
    Trainer(model=model, args=arguments).train()
"""


def _with_settings(text, name="settings.json"):
    return {"train.py": _FROM_A_FILE, name: text}


def test_options_come_from_the_file_that_a_parser_is_handed(judged):
    files = _with_settings('{"model": "m", "template": "plain", "output_dir": "out"}')
    assert judged(files, launcher="torchrun").mode.name == "ddp"


def test_a_file_that_is_not_there_tells_no_option(judged):
    judgement = judged(_FROM_A_FILE, launcher="torchrun", arguments=("--settings", "made_at_run_time.json"))
    assert judgement.mode.name == "ddp"
    assert not judgement.findings


def test_deepspeed_that_such_a_file_asks_for(judged):
    files = _with_settings('{"model": "m", "template": "plain", "output_dir": "out", "deepspeed": "ds.json"}')
    files["ds.json"] = '{"zero_optimization": {"stage": 2}}'
    assert judged(files, launcher="torchrun").mode.name == "zero-2"


def test_quantization_that_such_a_file_asks_for(judged):
    files = _with_settings('{"model": "m", "template": "plain", "output_dir": "out", "bits": 8}')
    judgement = judged(files, arguments=("--settings", "settings.json"))
    assert (judgement.mode.name, judgement.findings) == ("single-gpu", ())


def test_the_launch_that_is_advised_keeps_the_options(judged):
    files = _with_settings('{"model": "m", "template": "plain", "output_dir": "out"}', "a b.json")
    (finding,) = judged(files, arguments=("--settings", "a b.json")).findings
    assert "torchrun --nproc_per_node 4 train.py --settings 'a b.json'" in finding.fixes[0].title


# -- what cannot be told


def test_processes_that_may_be_joined_are_not_called_independent(judged):
    source = """
        import sys
        import torch
        import torch.distributed as dist
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel as DDP

        dist.init_process_group("nccl")
        model = nn.Linear(2, 2).cuda()
        if torch.rand(1) > 0.5:
            model = DDP(model)
    """
    judgement = judged(source, launcher="torchrun")
    assert judgement.mode.name == "unknown"
    assert "train.py:11" in render(judgement.mode.phrase)


def test_a_program_without_a_model_is_not_said_to_have_one(judged):
    judgement = judged("import json\nprint(json.dumps({}))\n", launcher="python")
    assert judgement.mode.name == "unknown"
    assert "on one GPU" not in render(judgement.mode.phrase)


@pytest.mark.parametrize("read", ["read -r -d '' words <<EOF", 'read -d "" words << EOF'])
def test_a_command_that_a_script_keeps_in_a_here_document(judged, read):
    files = {
        "run.sh": f"steps=2\n{read}\ntrain.py \\\n  --epochs 1 \\\n  --steps $steps\nEOF\n"
        "torchrun --nproc_per_node 2 $words\n",
        "train.py": HEAD + 'dist.init_process_group("nccl")\nDDP(nn.Linear(2, 2).cuda())\n',
    }
    judgement = judged(files)
    assert judgement.launch.script is not None
    assert [str(word) for word in judgement.launch.arguments] == ["--epochs", "1", "--steps", "2"]


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ("fsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n", "fsdp2"),
        ("fsdp_config:\n  reshard_after_forward: true\n", "ddp"),
    ],
)
def test_a_version_of_fsdp_with_its_options_asks_for_it(judged, settings, mode):
    judgement = judged({"train.yaml": f"base_model: m\nlearning_rate: 1e-4\n{settings}"}, launcher="torchrun")
    assert judgement.mode.name == mode
