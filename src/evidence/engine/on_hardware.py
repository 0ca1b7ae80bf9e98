"""The situations as they are on one GPU and its host: broken, diagnosed, healed; for `hardware-proof`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import samedevice as sd
from evidence.environments import no_gpus
from samedevice.findings import Finding

GPU, HOST = "cuda:0", "cpu"
MACHINE = "1x24GB"
CALLS = 4
VIRTUAL = "a virtual GPU"
NO_GPU = 2


@dataclass
class Situation:
    """A broken placement: what is called, on what, and where things should have been."""

    model: torch.nn.Module
    call: Callable[[], torch.Tensor]
    """One run; its tensor is what is compared."""
    repair: Callable[[], None]
    """Puts everything on one device, for the reference."""


@dataclass
class Shown:
    """What one situation showed."""

    diagnosis: dict[str, Any] = field(default_factory=dict)
    birthplaces: list[str] = field(default_factory=list)
    """What a replay on a virtual machine adds: operands that the failing call made, or why there was no
    replay; not compared.
    """
    healed: str = ""
    """How the healed numbers compare with those of the run on one device: `equal`, `close` or `other`."""
    statements: list[str] = field(default_factory=list)


def _language(tied: bool) -> torch.nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    model: torch.nn.Module = Qwen2ForCausalLM(config).eval()
    return model


def s1() -> Situation:
    """A tied chat model on one device without hooks, its inputs on another."""
    model = _language(tied=True).to(GPU)
    batch = {"input_ids": torch.arange(1, 9)[None], "attention_mask": torch.ones(1, 8, dtype=torch.long)}

    def repair() -> None:
        batch.update({name: tensor.to(GPU) for name, tensor in batch.items()})

    return Situation(model, lambda: model(**batch).logits, repair)


def s2() -> Situation:
    """The embedding on another device than the ids and than the layers."""
    model: Any = _language(tied=False).to(GPU)
    model.model.embed_tokens.to(HOST)
    ids = torch.arange(1, 9, device=GPU)[None]
    return Situation(model, lambda: model(input_ids=ids).logits, lambda: model.to(GPU))


def s3() -> Situation:
    """Qwen2.5-VL with its ids on the GPU and its pixels left on the host."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    torch.manual_seed(0)
    text = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
    }
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 32,
        "fullatt_block_indexes": [0],
        "tokens_per_second": 2,
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=61,
        video_token_id=62,
        vision_start_token_id=60,
        vision_end_token_id=59,
    )
    model = Qwen2_5_VLForConditionalGeneration(config).eval().to(GPU)
    ids = torch.tensor([[5, 60] + [61] * 4 + [59, 6, 7]], device=GPU)
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == 61).long(),
        "pixel_values": torch.randn(16, 3 * 2 * 14 * 14),
        "image_grid_thw": torch.tensor([[1, 4, 4]], device=GPU),
    }

    def repair() -> None:
        batch.update({name: tensor.to(GPU) for name, tensor in batch.items()})

    return Situation(model, lambda: model(**batch).logits, repair)


def s5() -> Situation:
    """A served block whose cache was allocated on the host."""
    from transformers import DynamicCache, LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=1)
    config._attn_implementation = "eager"
    block = LlamaDecoderLayer(config, 0).eval().to(GPU)
    rotary = LlamaRotaryEmbedding(config).to(GPU)
    hidden, positions = torch.randn(1, 1, 64).to(GPU), torch.tensor([[3]], device=GPU)
    past: Any = [torch.randn(1, 4, 3, 16) for _ in range(2)]

    def call() -> torch.Tensor:
        cache = DynamicCache(config=config)
        cache.update(*past, 0)
        rotated = rotary(hidden, positions)
        answer = block(
            hidden, past_key_values=cache, position_ids=positions, position_embeddings=rotated, use_cache=True
        )
        found: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer
        return found

    def repair() -> None:
        past[:] = [part.to(GPU) for part in past]

    return Situation(block, call, repair)


SITUATIONS: dict[str, Callable[[], Situation]] = {"S1": s1, "S2": s2, "S3": s3, "S5": s5}


def diagnosis_of(finding: Finding[Any]) -> dict[str, Any]:
    """What must be equal on the hardware and on the virtual machine."""
    return {
        "code": finding.code,
        "cause": finding.cause,
        "at": finding.at and [Path(finding.at.file).name, finding.at.line],
        "module": finding.module,
        "devices": sorted({operand.device for operand in finding.operands}),
        "message": finding.message,
    }


@torch.no_grad()
def diagnose(name: str) -> dict[str, Any]:
    """The diagnosis of the broken run; empty when it does not fail."""
    broken = SITUATIONS[name]()
    try:
        with sd.guard(broken.model):
            broken.call()
    except Exception as error:
        finding = getattr(error, "finding", None)
        return (
            diagnosis_of(finding) if finding is not None else {"message": f"{type(error).__name__}: {error}"}
        )
    return {}


@torch.no_grad()
def birthplaces(name: str) -> list[str]:
    """Where a replay says that the operands were made."""
    broken = SITUATIONS[name]()
    try:
        with sd.guard(broken.model, replay=True):
            broken.call()
    except Exception as error:
        finding = getattr(error, "finding", None)
        if finding is not None:
            made = [
                f"{each.name} made at {Path(each.made.file).name}:{each.made.line}"
                for each in finding.operands
                if each.made
            ]
            return [*made, *finding.notes]
    return []


@torch.no_grad()
def show(name: str) -> Shown:
    """Diagnose the broken run, then heal it and compare its numbers."""
    found = Shown(diagnose(name), birthplaces(name))
    whole = SITUATIONS[name]()
    whole.repair()
    expected = whole.call()
    broken = SITUATIONS[name]()
    healing = sd.heal(broken.model)
    answers = [broken.call() for _ in range(CALLS)]
    found.healed = compared(answers, expected)
    found.statements = [
        f"{each.module}: {each.operand} {each.source} -> {each.target}" for each in healing.repairs
    ]
    healing.remove()
    return found


def compared(answers: list[torch.Tensor], expected: torch.Tensor) -> str:
    """`close` is what the host rounds otherwise, where a part of a model stays there and computes."""
    there = [answer.to(expected.device) for answer in answers]
    if all(torch.equal(answer, expected) for answer in there):
        return "equal"
    near = all(torch.allclose(answer, expected, rtol=1e-4, atol=1e-5) for answer in there)
    return "close" if near else "other"


def virtual_diagnoses() -> dict[str, Any]:
    """The diagnoses of a virtual machine, in a process of its own that sees no GPU; what it could not run has
    an `error`.
    """
    command = [sys.executable, "-m", "evidence", "hardware-proof", "--diagnose"]
    done = subprocess.run(
        command, env=no_gpus.environment(), stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextlib.contextmanager
def as_on_hardware() -> Any:
    """Errors of a virtual machine carry nothing in here that errors of real hardware do not."""
    from samedevice.runtime.tracking import recorder

    kept = recorder._as_raised
    recorder._as_raised = lambda error, event: error
    try:
        yield
    finally:
        recorder._as_raised = kept


@contextlib.contextmanager
def stand_in() -> Any:
    """A virtual machine in the place of the hardware."""
    with as_on_hardware(), sd.machine(MACHINE):
        yield


def cost(device: str, pairs: int) -> list[str]:
    """What `guard-cost` measures there."""
    command = [sys.executable, "-m", "evidence", "guard-cost", "--device", device, "--pairs", str(pairs)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout.splitlines()


def told(error: BaseException) -> str:
    """An error in one line."""
    return traceback.format_exception_only(error)[-1].strip()


def run(chosen: argparse.Namespace) -> int:
    """Run everything, print and write what was shown."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    if chosen.diagnose:
        no_gpus.resolve()
        diagnoses = {}
        for name in SITUATIONS:  # each on a machine of its own, since a machine lists a statement once
            try:
                with sd.machine(MACHINE):
                    diagnoses[name] = diagnose(name)
            except Exception as error:
                diagnoses[name] = {"error": told(error)}
        print(json.dumps(diagnoses))
        return 0
    if not chosen.self_check and not torch.cuda.is_available():
        print("hardware-proof: torch sees no GPU; --self-check runs without one", file=sys.stderr)
        return NO_GPU
    if chosen.self_check:
        no_gpus.resolve()
    path = chosen.json or (None if chosen.self_check else Path("hardware_proof.json"))
    hardware = VIRTUAL if chosen.self_check else torch.cuda.get_device_name(0)
    results: dict[str, Any] = {
        "hardware": hardware,
        "torch": torch.__version__,
        "complete": False,
        "situations": {},
    }
    print(f"{hardware}, torch {torch.__version__}", flush=True)
    expected = virtual_diagnoses()
    good = True
    for name in SITUATIONS:
        with stand_in() if chosen.self_check else contextlib.nullcontext():
            good = situation(name, hardware, expected[name], results) and good
        write(results, path)
    try:
        results["cost"] = cost(HOST if chosen.self_check else GPU, 50)
        print(*results["cost"], sep="\n", flush=True)
    except (subprocess.SubprocessError, OSError) as error:
        good = False
        print(f"cost: {told(error)}")
    results["complete"] = True
    write(results, path)
    return 0 if good else 1


def situation(name: str, hardware: str, expected: dict[str, Any], results: dict[str, Any]) -> bool:
    """Show one situation, print it and add it to the results; whether all is as it should be."""
    try:
        found = show(name)
    except Exception as error:
        print(f"{name}: could not run: {told(error)}", flush=True)
        traceback.print_exc()
        results["situations"][name] = {"error": told(error), "virtual": expected}
        return False
    same = bool(found.diagnosis) and found.diagnosis == expected
    results["situations"][name] = {**asdict(found), "virtual": expected, "diagnosis_equal": same}
    print(f"{name}: diagnosis equal {same}, healed numbers {found.healed} ({found.diagnosis.get('cause')})")
    for key in [key for key in expected if found.diagnosis.get(key) != expected[key]]:
        print(f"    {key}: {hardware} {found.diagnosis.get(key)!r}, virtual machine {expected[key]!r}")
    for line in (*found.birthplaces, *found.statements):
        print(f"    {line}", flush=True)
    return same and (found.healed == "equal" or (found.healed == "close" and hardware != VIRTUAL))


def write(results: dict[str, Any], path: Path | None) -> None:
    """What there is so far."""
    if path is not None:
        path.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
