"""Commands as people type them at a shell, taken apart."""

from __future__ import annotations

import shlex

import pytest

from samedevice.errors import UsageError
from samedevice.launchers import begins_command, read_typed


def read(text):
    return read_typed(shlex.split(text))


@pytest.mark.parametrize(
    ("text", "kind", "program", "arguments"),
    [
        ("train.py --lr 1", "script", "train.py", "--lr 1"),
        ("- a", "stdin", "-", "a"),
        ("python train.py --lr 1", "script", "train.py", "--lr 1"),
        ("python3.12 - a", "stdin", "-", "a"),
        ("python -m pkg.mod -m x", "module", "pkg.mod", "-m x"),
        ("python -mpkg.mod", "module", "pkg.mod", ""),
        ("python -c 'import torch' -c x", "code", "import torch", "-c x"),
        ("/opt/bin/python train.py", "script", "train.py", ""),
        ("uv run train.py", "script", "train.py", ""),
        ("uv run --with torch --frozen python train.py", "script", "train.py", ""),
        ("uv run --python=3.12 -m pkg a", "module", "pkg", "a"),
        ("uv run --script train.py", "script", "train.py", ""),
        ("poetry run python -m pkg", "module", "pkg", ""),
        ("conda run -n lab --no-capture-output python train.py", "script", "train.py", ""),
        ("env A=1 timeout -k 5 60 nice -n 10 python train.py", "script", "train.py", ""),
        ("torchrun --nproc_per_node 2 train.py --nproc 3", "script", "train.py", "--nproc 3"),
        ("torchrun --nproc_per_node 2 -m pkg.mod a", "module", "pkg.mod", "a"),
        ("torchrun --no_python bash train.sh", "command", "bash", "train.sh"),
        ("accelerate launch --config_file a.yaml train.py --b", "script", "train.py", "--b"),
        ("accelerate-launch --multi_gpu train.py", "script", "train.py", ""),
        ("deepspeed --include localhost:0,1 --module pkg --deepspeed", "module", "pkg", "--deepspeed"),
        ("python -m torch.distributed.launch --nproc_per_node=2 --use_env t.py", "script", "t.py", ""),
        ("python -m accelerate.commands.launch --num_processes 2 t.py", "script", "t.py", ""),
    ],
)
def test_program_and_its_arguments(text, kind, program, arguments):
    typed = read(text)
    assert (typed.kind, typed.program, " ".join(typed.arguments)) == (kind, program, arguments)


def test_a_launcher_with_its_options():
    typed = read("A=1 uv run torchrun --standalone --nproc-per-node=4 --tee 3 train.py --lr 1")
    assert typed.call.launcher.name == "torchrun"
    assert (typed.call.processes(8), typed.call.nodes) == (4, 1)
    assert typed.launcher_options == ("--standalone", "--nproc-per-node=4", "--tee", "3")
    assert typed.words == (
        *("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "--tee", "3"),
        *("train.py", "--lr", "1"),
    )
    assert read("accelerate launch --num_machines 2 train.py").call.nodes == 2


def test_what_stands_in_front():
    typed = read("A=1 B='x y' env C= nohup poetry run python -u -W error::UserWarning -OBX dev train.py")
    assert typed.environment == {"A": "1", "B": "x y", "C": ""}
    assert typed.python_options == ("-u", "-Werror::UserWarning", "-O", "-B", "-Xdev")
    assert (typed.passed_over, typed.environments) == (("nohup", "poetry run"), ("poetry run",))
    assert read("python -um pkg").python_options == ("-u",)


@pytest.mark.parametrize(
    ("text", "key", "named"),
    [
        ("python", "command.no-program", "python"),
        ("python -u", "command.no-program", "python -u"),
        ("A=1", "command.no-program", "A=1"),
        ("torchrun --nproc_per_node 2", "command.no-program", "torchrun --nproc_per_node 2"),
        ("uv run", "command.no-program", "uv run"),
        ("python -i train.py", "command.option", "-i"),
        ("python -IB train.py", "command.option", "-IB"),
        ("python --version", "command.option", "--version"),
        ("uv run --env-file .env python train.py", "command.option", "--env-file"),
        ("env -u HOME python train.py", "command.option", "-u"),
        ("srun -n 2 python train.py", "command.tasks", "srun"),
        ("env A=1 mpirun -np 2 python train.py", "command.tasks", "mpirun"),
    ],
)
def test_refused_by_name(text, key, named):
    with pytest.raises(UsageError) as refused:
        read(text)
    phrase = refused.value.args[0]
    assert phrase.key == key
    assert named in dict(phrase.values).values()


def test_a_file_of_that_name_is_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert begins_command(["torchrun", "train.py"])
    (tmp_path / "torchrun").write_text("print(1)")
    assert not begins_command(["torchrun", "train.py"])
    (tmp_path / "python").mkdir()  # a folder of sources is common
    assert begins_command(["python", "train.py"])
    assert read("torchrun train.py").kind == "script"
