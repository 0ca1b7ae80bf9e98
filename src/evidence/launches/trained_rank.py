"""One rank of a launch that trains.

It is the script that `launch-proof` gives to each launcher, with and without a virtual machine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_FSDP1 = ("fsdp1", "fsdp1-offload")


def rank_main(kind: str, out: Path) -> None:
    """Train as one rank; rank 0 writes what came of it."""
    import torch

    train: Callable[..., tuple[list[float], dict[str, Any]]] = {
        "ddp": _plain, "fsdp1": _plain, "fsdp1-offload": _plain, "fsdp2": _plain, "fsdp2-meta": _plain,
        "sync-bn": _synced, "trainer": _trainer,
        "accelerate-ddp": _accelerate, "accelerate-fsdp2": _accelerate,
    }.get(kind, _deepspeed)  # fmt: skip
    losses, parameters = train(kind, out)
    if os.environ["RANK"] == "0":
        told = {name: value.detach().cpu().double().flatten().tolist() for name, value in parameters.items()}
        (out / "told.json").write_text(json.dumps({"losses": losses, "parameters": told}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _device() -> Any:
    import torch

    return (
        torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def _model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def _batch(step: int, device: Any) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(100 * step + int(os.environ["RANK"]))
    return torch.randn(4, 8, generator=generator).to(device), torch.randint(
        0, 4, (4,), generator=generator
    ).to(device)


def _plain(kind: str, out: Path) -> tuple[list[float], dict[str, Any]]:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        set_model_state_dict,
    )
    from torch.distributed.checkpoint.state_dict_loader import load
    from torch.distributed.checkpoint.state_dict_saver import save
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, fully_shard

    device = _device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if kind == "fsdp2-meta":
        with torch.device("meta"):
            model: Any = _model()
    else:
        model = _model().to(device)
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[device] if device.type == "cuda" else None
        )
    elif kind in _FSDP1:
        offload = CPUOffload(offload_params=kind == "fsdp1-offload")
        model = FullyShardedDataParallel(model, device_id=device, use_orig_params=True, cpu_offload=offload)
    else:
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    if (
        kind == "fsdp2-meta"
    ):  # the documented start; then the numbers of the others, which random ones of shards are not
        model.to_empty(device=device)
        for layer in (model[0], model[2]):
            layer.reset_parameters()
        set_model_state_dict(
            model,
            _model().state_dict(),
            options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
        )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for step in range(3):
        x, y = _batch(step, device)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if kind in _FSDP1:
            model.clip_grad_norm_(1.0)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    checkpoint = {"model": get_model_state_dict(model)}
    save(checkpoint, checkpoint_id=out / "checkpoint")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    load(checkpoint, checkpoint_id=out / "checkpoint")
    set_model_state_dict(model, checkpoint["model"])
    return losses, get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def _synced(kind: str, out: Path) -> tuple[list[float], dict[str, Any]]:
    """Synchronized batch norm on each rank's part; on the CPU, which has none, every rank computes the whole
    batch.
    """
    import torch
    import torch.distributed as dist
    from torch import nn

    device = _device()
    torch.manual_seed(0)
    model: Any = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    )
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if device.type == "cuda":
        torch.cuda.set_device(device)
        model = nn.parallel.DistributedDataParallel(
            nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device), device_ids=[device]
        )
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    losses = []
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(4 * size, 3, 8, 8, generator=generator).to(device)
        y = torch.randint(0, 4, (4 * size,), generator=generator).to(device)
        if device.type == "cuda":
            x, y = x.chunk(size)[rank], y.chunk(size)[rank]
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told = loss.detach().clone()
        dist.all_reduce(told)
        losses.append(told.item() / size)
    return losses, {
        name.removeprefix("module."): value
        for name, value in model.state_dict().items()
        if value.is_floating_point()
    }


def _accelerate(kind: str, out: Path) -> tuple[list[float], dict[str, Any]]:
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    losses = []
    for step in range(3):
        x, y = _batch(step, accelerator.device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    accelerator.save_state(str(out / "state"))
    accelerator.wait_for_everyone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(str(out / "state"))
    found = accelerator.get_state_dict(model)
    return losses, {name.removeprefix("module."): value for name, value in (found or {}).items()}


def _trainer(kind: str, out: Path) -> tuple[list[float], dict[str, Any]]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

    set_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, **sizes))
    generator = torch.Generator().manual_seed(1)
    data = [
        {"input_ids": ids, "labels": ids.clone()}
        for ids in torch.randint(0, 64, (64, 8), generator=generator)
    ]

    def trainer(steps: int) -> Any:
        arguments = TrainingArguments(
            output_dir=str(out / "trainer"), per_device_train_batch_size=4, max_steps=steps, logging_steps=1,
            save_steps=2,
            learning_rate=1e-1, optim="sgd", lr_scheduler_type="constant", report_to=[], disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )  # fmt: skip
        return Trainer(model=model, args=arguments, train_dataset=data)

    trainer(2).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    again = trainer(4)
    again.train(resume_from_checkpoint=True)
    losses = [float(entry["loss"]) for entry in again.state.log_history if "loss" in entry]
    return losses, model.state_dict()


def _deepspeed(kind: str, out: Path) -> tuple[list[float], dict[str, Any]]:
    import deepspeed  # type: ignore[import-not-found, unused-ignore]
    import torch

    half = kind.endswith("bf16")
    zero = {
        "stage": int(kind[4]),
        "stage3_param_persistence_threshold": 0,
        "reduce_bucket_size": 1000,
        "allgather_bucket_size": 1000,
    }
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 1.0,
        "zero_optimization": zero,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "bf16": {"enabled": half},
    }
    deepspeed.init_distributed()
    if "init" in kind:
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = _model()
        weights = list(model.parameters())  # the numbers of the CPU: a GPU draws others from the same seed
        with torch.no_grad(), deepspeed.zero.GatheredParameters(weights, modifier_rank=0):
            for weight, drawn in zip(weights, _model().parameters(), strict=True):
                if torch.distributed.get_rank() == 0:
                    weight.copy_(drawn)
    else:
        model = _model()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    losses = []
    for step in range(3):
        x, y = _batch(step, engine.device)
        loss = torch.nn.functional.cross_entropy(engine(x.bfloat16() if half else x).float(), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    engine.save_checkpoint(str(out / "zero"), "tag")
    engine.load_checkpoint(str(out / "zero"), "tag")
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
        return losses, {name: value.detach().clone() for name, value in engine.module.named_parameters()}


def kind_and_folder(words: Sequence[str]) -> tuple[str, Path]:
    """What `launch-proof` gave to the script; DeepSpeed's launcher puts `--local_rank` in front of it."""
    kind, folder = words[-2:]
    return kind, Path(folder)


if __name__ == "__main__":
    rank_main(*kind_and_folder(sys.argv[1:]))
