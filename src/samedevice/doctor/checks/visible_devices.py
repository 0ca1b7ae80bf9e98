"""CUDA_VISIBLE_DEVICES that hides, repeats or exceeds the GPUs of the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import SETTING, entries, seen_gpus, wanted_processes
from samedevice.messages import Phrase

_TROUBLES = {
    "empty": "checks.visible-devices.empty",
    "repeats": "checks.visible-devices.repeats",
    "exceeds": "checks.visible-devices.exceeds",
    "unknown": "checks.visible-devices.unknown",
    "unreadable": "checks.visible-devices.unreadable",
}


def _look(facts: Facts) -> Iterator[Fault]:
    gpus = facts.gpus
    if not gpus:
        return
    setting, listed, seen = facts.variables.get(SETTING), entries(facts), seen_gpus(facts)
    everything = Phrase("checks.visible-devices.name", last=len(gpus) - 1)
    if setting is not None and not (setting.strip().startswith("MIG-") and seen):
        key, entry = _trouble(listed, [gpu.uuid for gpu in gpus])
        if key:
            yield Fault(
                Phrase(
                    _TROUBLES[key],
                    setting=setting,
                    entry=entry,
                    seen=len(seen),
                    gpus=len(gpus),
                ),
                Phrase("checks.visible-devices.unset") if key == "empty" else everything,
            )
            return
    wanted = wanted_processes(facts)
    if wanted is not None and setting is not None and len(seen) < wanted[0] <= len(gpus):
        yield Fault(
            Phrase(
                "checks.visible-devices.too-few",
                setting=setting,
                seen=len(seen),
                wanted=wanted[0],
                place=wanted[1],
            ),
            Phrase("checks.visible-devices.fewer", seen=len(seen), wanted=wanted[0]),
        )


def _trouble(listed: list[str], uuids: list[str]) -> tuple[str, str]:
    """What is wrong with the entries, and the first that is; two empty texts for nothing."""
    if listed in ([""], ["-1"]) or listed[0].startswith("-"):
        return "empty", listed[0]
    for position, entry in enumerate(listed):
        if entry in listed[:position]:
            return "repeats", entry
        if re.fullmatch(r"\d+", entry):
            if int(entry) >= len(uuids):
                return "exceeds", entry
        elif entry.startswith("GPU-"):
            if not any(uuid.startswith(entry) for uuid in uuids):
                return "unknown", entry
        elif not entry.startswith("MIG-"):
            return "unreadable", entry
    return "", ""


CHECK = Check(
    code="SD306",
    name="visible-devices",
    title={
        "en": "CUDA_VISIBLE_DEVICES does not name the GPUs of this machine",
        "zh": "CUDA_VISIBLE_DEVICES 与本机的 GPU 对不上",
    },
    reads=("driver", "gpus"),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables",
        "torch/cuda/__init__.py, _parse_visible_devices",
    ),
    look=_look,
    sentences={
        "empty": {
            "en": "CUDA_VISIBLE_DEVICES={setting} hides all GPUs, of which the machine has {gpus}",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 把 {gpus} 块 GPU 全部隐藏了",
        },
        "repeats": {
            "en": "CUDA_VISIBLE_DEVICES={setting} names {entry} twice, and CUDA then shows no GPU at all",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 里 {entry} 出现了两次，这时 CUDA 一块 GPU 都不给",
        },
        "exceeds": {
            "en": "CUDA_VISIBLE_DEVICES={setting} names {entry}, and the machine has {gpus} GPUs; CUDA "
            "shows only "
            "what stands before it: {seen}",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 写了 {entry}，但机器只有 {gpus} 块 GPU；CUDA "
            "只认它前面的 {seen} 块",
        },
        "unknown": {
            "en": "CUDA_VISIBLE_DEVICES={setting} names {entry}, which is no GPU of this machine; CUDA "
            "shows only "
            "what stands before it: {seen}",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 里的 {entry} 不是本机的 GPU；CUDA 只认它前面的 {seen} 块",
        },
        "unreadable": {
            "en": "CUDA_VISIBLE_DEVICES={setting} has {entry}, which CUDA cannot read; it shows only "
            "what stands "
            "before it: {seen} of {gpus} GPUs",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 里的 {entry} 无法识别；CUDA 只认它前面的，{gpus} 块 "
            "GPU 中可见 {seen} 块",
        },
        "too-few": {
            "en": "CUDA_VISIBLE_DEVICES={setting} shows {seen} GPUs, and {place} starts {wanted} processes",
            "zh": "CUDA_VISIBLE_DEVICES={setting} 只显示 {seen} 块 GPU，而 {place} 要启动 {wanted} 个进程",
        },
        "unset": {"en": "unset CUDA_VISIBLE_DEVICES", "zh": "unset CUDA_VISIBLE_DEVICES"},
        "name": {
            "en": "unset it, or name each GPU once, from 0 to {last} or by the UUIDs of nvidia-smi -L",
            "zh": "取消这个变量，或把每块 GPU 只写一次：用 0 到 {last} 的编号，或 nvidia-smi -L 给出的 UUID",
        },
        "fewer": {
            "en": "start {seen} processes, or let CUDA_VISIBLE_DEVICES show {wanted} GPUs",
            "zh": "只启动 {seen} 个进程，或让 CUDA_VISIBLE_DEVICES 显示 {wanted} 块 GPU",
        },
    },
)
