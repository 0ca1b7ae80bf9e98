"""A script through real launchers: every rank on the same virtual machine."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from samedevice.torch_versions.adapter import TORCH
from tests.warm_python import CHILDREN

pytestmark = pytest.mark.usefixtures("warm_children")

SCRIPTS = Path(__file__).parent / "scripts"
SOURCES = Path(__file__).parents[2] / "src"


@pytest.fixture
def fresh_children(warm_children, monkeypatch):
    """What the program starts begins without torch: for what its start, its end or its number decides."""
    monkeypatch.delenv(CHILDREN)


def start(folder, *words, **options):
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "samedevice", "run", *map(str, words)]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(folder, *words):
    process = start(folder, *words)
    out, error = process.communicate(timeout=300)
    # gloo of torch 2.10 prints whom it met
    kept = "".join(line for line in out.splitlines(keepends=True) if not line.startswith("[Gloo] Rank "))
    return process.returncode, kept, error


def test_collectives_and_ddp_agree_with_gloo(tmp_path):
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    code, _, error = run(tmp_path, *launch, SCRIPTS / "collectives.py", tmp_path, "--bug")
    assert (tmp_path / "0.done").exists() and (tmp_path / "1.done").exists(), error
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (1, "completed"), error
    (finding,) = document["findings"]
    assert (finding["code"], finding["op"], finding["ranks"], finding["count"]) == (
        "SD101",
        "aten.add.Tensor",
        [0, 1],
        2,
    )
    assert finding["user_at"]["file"] == str(SCRIPTS / "collectives.py")
    ranks = {each["rank"]: each["memory"] for each in document["ranks"]}
    assert ranks[0]["cuda:0"]["peak_allocated"] > 0 and ranks[1]["cuda:1"]["peak_allocated"] > 0
    assert document["memory"]["cuda:1"]["peak_allocated"] >= ranks[1]["cuda:1"]["peak_allocated"]


@pytest.mark.parametrize("script", ["sync_batch_norm.py", "dtensors.py", "joined.py"])
def test_a_script_checks_itself(tmp_path, script):
    code, out, error = run(
        tmp_path, "--machine", "2x24GB", "--launcher", "torchrun", "--nproc", 2, SCRIPTS / script
    )
    assert (code, out.count("done")) == (0, 2), error


@pytest.mark.usefixtures("fresh_children")
def test_other_children_inherit_the_machine(tmp_path):
    code, _, error = run(
        tmp_path, "--machine", "2x24GB", "--json", "found.json", SCRIPTS / "family.py", "spawn", "fork"
    )
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (1, "completed"), error
    counts = sorted(finding["count"] for finding in document["findings"])
    assert sum(counts) == 3, error  # one for each child, the same statement once
    held = [
        set(device for device, own in each["memory"].items() if own["peak_allocated"])
        for each in document["ranks"]
    ]
    assert sorted(map(len, held)) == [0, 1, 1, 1]  # the script itself holds nothing
    assert (
        document["memory"]["cuda:1"]["peak_allocated"] > 0
    )  # the child that sees GPU 1 alone calls it cuda:0


@pytest.mark.parametrize("how", ["spawn", "alone", "start_processes", "Process", "itself"])
def test_ranks_that_a_program_makes_itself_have_their_numbers(tmp_path, how):
    code, _, error = run(
        tmp_path,
        "--machine",
        "2x24GB",
        "--json",
        "found.json",
        SCRIPTS / "own_ranks.py",
        how,
        tmp_path / "meeting",
    )
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (1, "completed"), error
    (finding,) = document["findings"]
    assert (finding["code"], finding["ranks"]) == ("SD101", [1])
    held = {each["rank"]: each["memory"] for each in document["ranks"]}
    assert held[1]["cuda:1"]["peak_allocated"] > 0 == held[1]["cuda:0"]["peak_allocated"]
    assert (how == "alone") != (held.get(0, {}).get("cuda:0", {}).get("peak_allocated", 0) > 0)
    assert "rank 1 cuda:1" in error and "process" not in error  # nor was one left behind


@pytest.mark.parametrize(("words", "status"), [(("--fail",), 3), (("--forget",), 1)])
def test_exit_status(tmp_path, words, status):
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    code, _, error = run(tmp_path, *launch, SCRIPTS / "ends.py", *words)
    document = json.loads((tmp_path / "found.json").read_text())
    assert code == status, error
    if status == 3:
        assert (document["status"], document["findings"]) == ("script-error", [])
        assert "ValueError: rank 1 gives up" in error
    else:
        (finding,) = document["findings"]
        assert (finding["code"], finding["cause"], finding["ranks"]) == (
            "SD107",
            "rank-device-not-set",
            [0, 1],
        )
        assert "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10000" in finding["message"]
        assert "GPU 0: rank 0 + rank 1" in error


def test_tensors_of_collectives_that_are_not_on_the_gpu_of_their_group(tmp_path):
    each_checked = TORCH.nccl_checks_each_tensor("nccl")
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    code, _, error = run(tmp_path, *launch, SCRIPTS / "off_its_gpu.py")
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (1, "completed"), error
    assert (
        len(document["findings"]) == 8
    )  # the model on the host twice: its shapes are compared, then its values sent
    seen = {each["user_at"]["function"]: each for each in reversed(document["findings"])}
    assert {
        name: (each["code"], each["cause"], each["guilty"], each["ranks"]) for name, each in seen.items()
    } == {
        "on_the_host": ("SD109", "tensor-created-on-wrong-device", "tensor", [0, 1]),
        "moved_to_the_host": ("SD109", "hard-coded-device", "tensor", [0, 1]),
        "outputs_on_the_host": ("SD109", "tensor-created-on-wrong-device", "output_tensors[0]", [0, 1]),
        "coalesced_on_two_gpus": ("SD109", "hard-coded-device", "tensors[1]", [0, 1]),
        "on_two_gpus": ("SD109", "hard-coded-device", "output_tensor", [1])
        if each_checked
        else ("SD105", "tensor-created-on-wrong-device", "output_tensor", [1]),
        "all_on_one_gpu": ("SD109", "hard-coded-device", "tensor", [1]),
        "model_on_the_host": ("SD109", "module-left-on-other-device", "input_tensor", [0, 1]),
    }
    literal = seen["on_two_gpus"]  # two literals, one of which means the current GPU
    assert each_checked or (literal["confidence"] == "guess" and "hard-coded-device" in literal["candidates"])
    texts = {name: each["message"] for name, each in seen.items() if each["code"] == "SD109"}
    of_each = {
        "outputs_on_the_host": "Expected all_gather output tensor on CUDA but found tensor on cpu",
        "coalesced_on_two_gpus": "Expected tensor on cuda:0 but found tensor on cuda:1",
        "on_two_gpus": "Expected tensor on cuda:1 but found tensor on cuda:0",
        "all_on_one_gpu": "Expected tensor on cuda:1 but found tensor on cuda:0",
    }
    of_all = {
        "outputs_on_the_host": "Tensors must be CUDA and dense",
        "coalesced_on_two_gpus": "Expected list of tensors on the same device",
        "all_on_one_gpu": None,  # NCCL raises nothing: everyone waits
    }
    assert texts == {
        "on_the_host": "No backend type associated with device type cpu",
        "moved_to_the_host": "No backend type associated with device type cpu",
        "model_on_the_host": "No backend type associated with device type cpu",
        **(of_each if each_checked else of_all),
    }
    operands = seen["on_the_host"]["operands"]
    assert [(each["name"], each["device"]) for each in operands] == [("tensor", "cpu"), ("group", "cuda:0")]
    assert (
        operands[0]["made"]["function"] == "on_the_host"
        and seen["model_on_the_host"]["operands"][0]["parameter"] == "module.weight"
    )
    (fix,) = seen["on_the_host"]["fixes"]  # good on every rank
    assert '+    seen = torch.tensor(float(local_rank + 1), device=f"cuda:{local_rank}")' in fix["diff"]
    assert not any(
        ".to(" in line
        for each in seen.values()
        for fix in each["fixes"]
        for line in (fix["diff"] or "").splitlines()
        if "dist." in line
    )


@pytest.mark.usefixtures("fresh_children")
def test_a_rank_that_exits_with_a_status_is_a_script_error(tmp_path):
    """A process cannot see the status that it ends with: who waited for it tells."""
    (tmp_path / "family.py").write_text(
        "import multiprocessing, subprocess, sys, torch\ndef child(status):\n    torch.ones(1, "
        "device='cuda')\n    sys.exit(status)\nif __name__ == '__main__':\n    for status in (0, 3):\n       "
        " fork = multiprocessing.get_context('fork').Process(target=child, args=(status,))\n        "
        "fork.start()\n        fork.join()\n    subprocess.run([sys.executable, '-c', 'from family import "
        "child; child(3)'])\n"
        # after ours
        "    crash = 'import atexit, os; atexit.register(os.abort); from family import child; child(0)'\n"
        "    subprocess.run([sys.executable, '-c', crash])\n"
    )
    code, _, error = run(tmp_path, "--machine", "2x24GB", "--json", "found.json", "family.py")
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (0, "completed"), error
    assert (
        sorted(each["status"] for each in document["ranks"]) == ["completed"] * 2 + ["script-error"] * 3
    )  # the script itself is one
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    code, _, error = run(tmp_path, *launch, SCRIPTS / "ends.py", "--exit")
    document = json.loads((tmp_path / "found.json").read_text())
    assert (code, document["status"]) == (3, "script-error"), error
    assert {each["rank"]: each["status"] for each in document["ranks"]}[1] == "script-error"


@pytest.mark.usefixtures("fresh_children")
def test_interrupt_leaves_nothing_behind(tmp_path):
    launch = ("--machine", "2x24GB", "--json", "found.json", "--launcher", "torchrun", "--nproc", 2)
    process = start(tmp_path, *launch, SCRIPTS / "ends.py", "--sleep")
    while process.poll() is None and len(list(tmp_path.glob("*.pid"))) < 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert json.loads((tmp_path / "found.json").read_text())["status"] == "interrupted"
    for file in tmp_path.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.stem), 0)


def test_one_rank_stands_for_eight(tmp_path):
    launch = (
        "--machine",
        "8xA100-80G",
        "--json",
        "found.json",
        "--launcher",
        "torchrun",
        "--nproc",
        8,
        "--ranks",
        "one",
    )
    code, out, error = run(tmp_path, *launch, SCRIPTS / "one_rank.py")
    assert (code, out) == (0, "0 of 8\n"), error
    ((rank, memory),) = (
        (each["rank"], each["memory"]) for each in json.loads((tmp_path / "found.json").read_text())["ranks"]
    )
    assert rank == 0 and [device for device, own in memory.items() if own["peak_allocated"]] == ["cuda:0"]


@pytest.mark.parametrize(("backend", "assumed"), [("cpu:gloo,cuda:nccl", False), ("nccl", True)])
def test_groups_bound_to_a_device_split(tmp_path, backend, assumed):
    """A mesh over such groups is split from the whole launch, as tensor parallelism in transformers does with
    `device_id=`.
    """
    if torch.__version__.startswith("2.8.") and backend != "nccl":
        pytest.skip("torch 2.8 splits groups of one backend alone, on hardware, too")
    launch = (
        "--machine",
        "4x24GB",
        "--launcher",
        "torchrun",
        "--nproc",
        4,
        *(["--ranks", "one"] if assumed else []),
    )
    code, out, error = run(
        tmp_path, *launch, SCRIPTS / "splits.py", backend, *(["--assumed"] if assumed else [])
    )
    # not the whole output: gloo of torch 2.10 prints whom it met, in the middle of other lines
    assert (code, out.split().count("split")) == (0, 1 if assumed else 4), error


@pytest.mark.usefixtures("fresh_children")
def test_a_launch_as_it_is_typed(tmp_path):
    """Options stay the launcher's own; `gpu` counts the virtual ones that an assignment leaves."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text(
        "import os, sys, torch\n"
        "torch.ones(2, device='cuda', requires_grad=True) + torch.ones(2)\n"
        "told = ' '.join([os.environ['WORLD_SIZE'], *sys.argv[1:]])\n"
        "open(f'rank{os.environ[\"RANK\"]}', 'w').write(told)\n"
    )
    typed = (
        "CUDA_VISIBLE_DEVICES=0,2",
        "torchrun",
        "--nproc_per_node",
        "gpu",
        "-m",
        "pkg.train",
        "--lr",
        "1",
    )
    status, _, error = run(tmp_path, "--machine", "3x24GB", "--json", "found.json", *typed)
    assert status == 1, error
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["2 --lr 1"] * 2
    (finding,) = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert finding["ranks"] == [0, 1]


@pytest.mark.parametrize(
    "typed", [("torchrun", "--no-such-option", "1"), ("accelerate", "launch", "--num_processes", "many")]
)
def test_a_launcher_that_refuses_its_options_is_wrong_usage(tmp_path, typed):
    (tmp_path / "train.py").write_text("print('ran')")
    status, out, error = run(tmp_path, *typed, "train.py")
    assert status == 2
    assert f"samedevice: {typed[0]} did not accept its command line" in error
    assert not out


@pytest.mark.parametrize(
    "words", [("--nproc", "2"), ("--launcher", "mpirun"), ("--launcher", "torchrun", "--ranks", "two")]
)
def test_wrong_usage(tmp_path, words):
    code, _, error = run(tmp_path, *words, "script.py")
    assert code == 2 and words[-2] in error


@pytest.mark.usefixtures("fresh_children")
def test_asking_for_torch_is_not_importing_it(tmp_path):
    """transformers asks for torch's spec long before it imports it; the machine must be there after the
    import all the same.
    """
    (tmp_path / "child.py").write_text(
        "import importlib.util\nassert importlib.util.find_spec('torch') is not None\nimport "
        "torch\nprint(torch.cuda.device_count())\n"
    )
    (tmp_path / "parent.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'child.py']).returncode)\n"
    )
    code, out, error = run(tmp_path, "--machine", "3x24GB", "parent.py")
    assert (code, out) == (0, "3\n"), error


def test_an_error_that_ends_a_rank_is_explained_as_one_of_a_script(tmp_path):
    """A check of a library raises before any operator: the machine has no event of it."""
    text = "Calculated loss must be on the original device: cuda:0 but device in use is cuda:1"
    script = tmp_path / "checks.py"
    script.write_text(
        "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        f"if os.environ['RANK'] == '1':\n    raise ValueError({text!r})\ndist.barrier()\n"
    )
    code, _, error = run(tmp_path, "--machine", "2x24GB", "--launcher", "torchrun", "--nproc", 2, script)
    assert code == 1
    assert "loss-or-label-on-other-device" in error and "checks.py:5" in error


def test_an_error_of_a_rank_about_something_else_is_told_in_one_line(tmp_path):
    script = tmp_path / "lacks.py"
    script.write_text("import torch\nimport a_package_that_is_not_there\n")
    code, _, error = run(tmp_path, "--machine", "2x24GB", "--launcher", "torchrun", "--nproc", 2, script)
    assert code == 3
    assert "a_package_that_is_not_there" in error
    assert error.count("samedevice: the error that") == 1
    assert "installation" in error.partition("samedevice: the error that")[2]


def test_an_error_of_a_rank_whose_cause_is_told_already_is_no_second_finding(tmp_path):
    script = tmp_path / "spread.py"
    script.write_text(
        "import os, torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "model = torch.nn.Linear(2, 2)\n"
        "model.cuda()\nlabels = torch.zeros(2, 2)\n"
        "loss = torch.nn.functional.mse_loss(model(torch.ones(2, 2).cuda()), labels)\n"
        "raise ValueError('Calculated loss must be on the original device: cuda:0 but device in use '\n"
        "                 'is cpu')\n"
    )
    code, _, error = run(tmp_path, "--machine", "2x24GB", "--launcher", "torchrun", "--nproc", 2, script)
    assert code == 1
    assert error.count("loss-or-label-on-other-device") == 1, error
