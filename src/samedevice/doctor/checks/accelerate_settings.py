"""accelerate's own configuration of a user, written on another machine."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import seen_gpus
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    settings, seen = facts.settings, len(seen_gpus(facts))
    if not settings or not facts.gpus:
        return
    file, count = settings["file"], settings.get("num_processes", "")
    machines = settings.get("num_machines", "1")
    here = int(count) // max(1, int(machines)) if count.isdigit() and machines.isdigit() else 0
    repair = Phrase("checks.accelerate-settings.again", file=file)
    if settings.get("use_cpu") == "true":
        yield Fault(Phrase("checks.accelerate-settings.cpu", file=file, gpus=len(facts.gpus)), repair)
    elif here > seen and settings.get("distributed_type", "NO") != "NO":
        yield Fault(Phrase("checks.accelerate-settings.more", file=file, count=here, seen=seen), repair)


CHECK = Check(
    code="SD323",
    name="accelerate-settings",
    title={
        "en": "accelerate's configuration is of another machine",
        "zh": "accelerate 的配置是别的机器上的",
    },
    reads=("driver", "gpus"),
    sources=("accelerate/commands/config/config_args.py: default_config.yaml in the cache of Hugging Face",),
    look=_look,
    sentences={
        "more": {
            "en": "{file} starts {count} processes here, and {seen} GPUs are visible: accelerate launch "
            "gives ranks "
            "a GPU that is not there",
            "zh": "{file} 要在本机启动 {count} 个进程，而可见 GPU 只有 {seen} 块：accelerate launch "
            "会把不存在的 GPU 分给进程",
        },
        "cpu": {
            "en": "{file} says use_cpu, and the machine has {gpus} GPUs: accelerate launch leaves them alone",
            "zh": "{file} 里写着 use_cpu，而机器有 {gpus} 块 GPU：accelerate launch 不会用它们",
        },
        "again": {
            "en": "accelerate config default, or accelerate launch --config_file OTHER; the file is {file}",
            "zh": "重新运行 accelerate config default，或用 accelerate launch --config_file "
            "指定别的文件；原文件是 {file}",
        },
    },
)
