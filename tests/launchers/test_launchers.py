"""The table of launchers agrees with the programs themselves."""

from __future__ import annotations

import argparse

import pytest
from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser

from samedevice.launchers import (
    ACCELERATE,
    DEEPSPEED,
    LAUNCHERS,
    STARTED,
    TORCHRUN,
    launcher_at,
    options_of,
    starter_of_tasks,
)


def flags_of(parser):
    """Options of a parser that take no value, with `_`."""
    return {
        name.lstrip("-").replace("-", "_")
        for action in parser._actions
        if action.nargs == 0 and not isinstance(action, argparse._HelpAction)
        for name in action.option_strings
    }


@pytest.mark.parametrize(
    ("launcher", "parser"), [(TORCHRUN, get_args_parser), (ACCELERATE, launch_command_parser)]
)
def test_flags_are_those_of_the_installed_parser(launcher, parser):
    """The row may know more: what other releases take."""
    assert flags_of(parser()) <= set(launcher.options.flags)


@pytest.mark.parametrize(
    ("launcher", "parser"), [(TORCHRUN, get_args_parser), (ACCELERATE, launch_command_parser)]
)
def test_options_that_are_read_exist(launcher, parser):
    options = launcher.options
    known = {name for action in parser()._actions for name in action.option_strings}
    read = (*options.processes, *options.all_processes, *options.nodes, *options.gpus)
    for name in (*read, *options.module, options.configuration):
        assert not name or f"--{name}" in known or f"-{name}" in known


def test_names_are_told_apart():
    assert len({launcher.name for launcher in LAUNCHERS}) == len(LAUNCHERS)
    spelled = [words for launcher in LAUNCHERS for words in launcher.commands]
    assert len(set(spelled)) == len(spelled)
    assert {"torchrun", "accelerate", "deepspeed"} <= set(STARTED)


@pytest.mark.parametrize(
    ("words", "name", "count"),
    [
        (["torchrun", "train.py"], "torchrun", 1),
        (["/opt/bin/torchrun", "train.py"], "torchrun", 1),
        (["accelerate", "launch", "train.py"], "accelerate", 2),
        (["accelerate", "test"], None, 0),
        (["srun", "python", "train.py"], None, 0),
        ([], None, 0),
    ],
)
def test_named_by_the_first_words(words, name, count):
    found = launcher_at(words)
    assert (found and (found[0].name, found[1])) == (name and (name, count))


def test_named_behind_python_m():
    assert launcher_at(["torch.distributed.launch", "train.py"], module=True) == (TORCHRUN, 1)
    assert launcher_at(["accelerate", "launch", "train.py"], module=True) == (ACCELERATE, 2)
    assert launcher_at(["torchrun", "train.py"], module=True) is None


def test_tasks_of_any_command():
    launcher, position = starter_of_tasks(["time", "/usr/bin/srun", "-n", "4"])
    assert (launcher.name, position) == ("srun", 1)
    assert starter_of_tasks(["torchrun", "train.py"]) is None


@pytest.mark.parametrize(
    ("launcher", "words", "program", "processes", "nodes"),
    [
        (TORCHRUN, "--nproc-per-node 4 train.py --lr 1", "train.py --lr 1", 4, 1),
        (TORCHRUN, "--nproc_per_node=gpu --nnodes 1:3 -m pkg.train -x", "pkg.train -x", 8, 3),
        (TORCHRUN, "--standalone train.py --nproc_per_node 2", "train.py --nproc_per_node 2", None, 1),
        (TORCHRUN, "--of-a-newer-release 3 --standalone train.py", "train.py", None, 1),
        (ACCELERATE, "--multi_gpu --num_processes 6 train.py", "train.py", 6, 1),
        (
            DEEPSPEED,
            "--include=localhost:0,2 train.py --deepspeed z.json",
            "train.py --deepspeed z.json",
            None,
            1,
        ),
    ],
)
def test_options_end_at_the_program(launcher, words, program, processes, nodes):
    told = options_of(launcher, words.split())
    assert (told.program, told.processes(8), told.nodes) == (program.split(), processes, nodes)


def test_no_program():
    assert options_of(TORCHRUN, ["--nproc_per_node", "4"]) is None


@pytest.mark.parametrize(
    ("launcher", "words", "gpus"),
    [
        (DEEPSPEED, "--include localhost:1,3 t.py", (3,)),
        (ACCELERATE, "--gpu_ids 3,2 t.py", (3, 2)),
        (ACCELERATE, "--gpu_ids all t.py", (2, 3)),
        (TORCHRUN, "t.py", (2, 3)),
    ],
)
def test_gpus_that_are_asked_for(launcher, words, gpus):
    assert options_of(launcher, words.split()).gpus((2, 3)) == gpus
