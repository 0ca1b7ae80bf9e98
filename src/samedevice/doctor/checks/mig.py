"""GPUs that are divided by MIG, under programs that want whole ones."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.visible import places, seen_gpus, wanted_processes
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    gpus = facts.gpus or ()
    waiting = [gpu for gpu in gpus if gpu.mig != gpu.mig_pending]
    if waiting:
        yield Fault(
            Phrase("checks.mig.pending", places=places(waiting)),
            Phrase("checks.mig.reset", places=places(waiting)),
        )
    divided = [gpu for gpu in gpus if gpu.mig]
    empty = [gpu for gpu in divided if not gpu.mig_devices]
    if empty:
        yield Fault(
            Phrase("checks.mig.empty", places=places(empty)),
            Phrase("checks.mig.create", places=places(empty)),
        )
    wanted = wanted_processes(facts)
    several = facts.project.tensor_parallel or (
        wanted is not None and wanted[0] > 1 and facts.project.processes
    )
    seen = [gpu for gpu in seen_gpus(facts) if gpu.mig and gpu.mig_devices]
    if seen and several:
        yield Fault(
            Phrase("checks.mig.one-device", places=places(seen), place=several[0].place),
            Phrase("checks.mig.off", places=places(seen)),
        )


CHECK = Check(
    code="SD308",
    name="mig",
    title={
        "en": "MIG divides a GPU, and programs see less of it",
        "zh": "GPU 处于 MIG 切分状态，程序看到的不是整卡",
    },
    reads=("driver", "gpus"),
    sources=(
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/: a process uses one MIG device",
        "https://docs.rapids.ai/deployment/stable/guides/mig: no NVLink and no CUDA IPC between MIG devices",
    ),
    look=_look,
    sentences={
        "pending": {
            "en": "the MIG mode of GPU {places} was changed and waits for a reset",
            "zh": "GPU {places} 的 MIG 模式已经改动，但还没有重置生效",
        },
        "empty": {
            "en": "GPU {places} is in MIG mode without an instance: CUDA finds nothing on it",
            "zh": "GPU {places} 打开了 MIG 却没有创建实例：CUDA 在上面什么也找不到",
        },
        "one-device": {
            "en": "GPU {places} is in MIG mode, where a process sees one MIG device and NCCL cannot join "
            "several; "
            "{place} wants several GPUs",
            "zh": "GPU {places} 处于 MIG 模式：一个进程只能看到一个 MIG 设备，NCCL 也连不起多个；而 "
            "{place} 需要多块 GPU",
        },
        "reset": {
            "en": "end what runs on GPU {places}, then sudo nvidia-smi --gpu-reset -i {places}",
            "zh": "结束 GPU {places} 上的程序，然后 sudo nvidia-smi --gpu-reset -i {places}",
        },
        "create": {
            "en": "create instances (sudo nvidia-smi mig -i {places} -cgi PROFILE -C), or switch MIG off: "
            "sudo nvidia-smi -i {places} -mig 0",
            "zh": "创建实例（sudo nvidia-smi mig -i {places} -cgi PROFILE -C），或关闭 MIG：sudo "
            "nvidia-smi -i {places} -mig 0",
        },
        "off": {
            "en": "use whole GPUs (sudo nvidia-smi -i {places} -mig 0), or run one process",
            "zh": "改用整卡（sudo nvidia-smi -i {places} -mig 0），或只运行一个进程",
        },
    },
)
