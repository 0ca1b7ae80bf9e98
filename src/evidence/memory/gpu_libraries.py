"""What libraries take on a GPU beside a program's tensors, and how fast the GPU and its link are.

Each step runs in a process of its own. `driver` is what the driver counts as used on the whole GPU, so
nothing else may run there meanwhile.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def _context() -> None:
    torch.cuda.init()
    torch.cuda.synchronize()


def _matmul(dtype: torch.dtype) -> Callable[[], None]:
    def run() -> None:
        x = torch.ones(256, 256, device="cuda", dtype=dtype)
        x @ x

    return run


def _linear() -> None:
    x = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.linear(x, x, x[0])


def _linear_without_bias() -> None:
    x = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.linear(x, x)


def _linear_backward() -> None:
    layer = torch.nn.Linear(256, 256, device="cuda", dtype=torch.bfloat16)
    layer(torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)).sum().backward()


def _attention() -> None:
    x = torch.ones(1, 8, 256, 64, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)


def _convolution() -> None:
    x = torch.ones(4, 64, 56, 56, device="cuda")
    torch.nn.functional.conv2d(x, torch.ones(64, 64, 3, 3, device="cuda"))


def _recurrent() -> None:
    torch.nn.LSTM(64, 64, device="cuda")(torch.ones(4, 4, 64, device="cuda"))


def _fourier() -> None:
    torch.fft.fft(torch.ones(1000, 1000, device="cuda"))


def _solver() -> None:
    torch.linalg.solve(torch.eye(64, device="cuda"), torch.eye(64, device="cuda"))


def _backward() -> None:
    x = torch.ones(256, 256, device="cuda", requires_grad=True)
    (x @ x).sum().backward()


def _second_stream() -> None:
    _matmul(torch.bfloat16)()
    with torch.cuda.stream(torch.cuda.Stream()):
        _matmul(torch.bfloat16)()


def _communicator() -> None:
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
    dist.init_process_group("nccl", rank=0, world_size=1)
    dist.all_reduce(torch.ones(1 << 20, device="cuda"))
    torch.cuda.synchronize()


def _compiled() -> None:
    torch.compile(lambda x: (x.sin() + 1).sum())(torch.ones(1000, 1000, device="cuda"))


STEPS: dict[str, Callable[[], object]] = {
    "context": _context,
    "one tensor": lambda: torch.ones(1, device="cuda"),
    "matmul float32": _matmul(torch.float32),
    "matmul bfloat16": _matmul(torch.bfloat16),
    "linear with bias": _linear,
    "linear without bias": _linear_without_bias,
    "linear with bias and backward": _linear_backward,
    "matmul with backward": _backward,
    "matmul on two streams": _second_stream,
    "attention": _attention,
    "convolution": _convolution,
    "LSTM": _recurrent,
    "FFT": _fourier,
    "solve": _solver,
    "NCCL, one rank": _communicator,
    "torch.compile": _compiled,
}


def taken(name: str) -> dict[str, int]:
    """Bytes that stay after a step and the end of its tensors."""
    before = used()
    STEPS[name]()
    torch.cuda.synchronize()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return {
        "allocated": allocated,
        "reserved": reserved,
        "reserved_after_empty_cache": torch.cuda.memory_reserved(),
        "driver": used() - before,
        "free": free,
        "total": total,
    }


def used() -> int:
    """Bytes that the driver counts as used on the first GPU; no context is made to ask."""
    import pynvml  # type: ignore[import-untyped] # it has no types

    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used)


def seconds(call: Callable[[], Any], repeats: int = 20) -> float:
    """Median of one call by the GPU's clock."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) / 1e3)
    return statistics.median(times)


def rates() -> dict[str, float]:
    """Floating-point operations and bytes a second, and seconds of one small kernel."""
    found: dict[str, float] = {}
    size = 8192
    for name, dtype, tf32 in (
        ("float16", torch.float16, False),
        ("bfloat16", torch.bfloat16, False),
        ("tf32", torch.float32, True),
        ("float32", torch.float32, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, y = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        found[f"matmul {name}, FLOP/s"] = 2 * size**3 / seconds(lambda x=x, y=y: x @ y, 10)  # type: ignore[misc]
    torch.backends.cuda.matmul.allow_tf32 = False
    del x, y
    amount = 1 << 30
    source, target = (torch.empty(amount, dtype=torch.uint8, device="cuda") for _ in range(2))
    found["copy on the GPU, bytes read and written/s"] = 2 * amount / seconds(lambda: target.copy_(source))
    matrix, vector = (
        torch.randn(1, 16384, 16384, device="cuda").bfloat16(),
        torch.ones(16384, device="cuda").bfloat16(),
    )
    found["matrix by vector bfloat16, bytes/s"] = 2 * 16384**2 / seconds(lambda: matrix[0] @ vector)
    pinned, plain = (
        torch.empty(amount // 4, dtype=torch.uint8).pin_memory(),
        torch.ones(amount // 4, dtype=torch.uint8),
    )
    part = source[: amount // 4]
    for name, host in (("pinned", pinned), ("pageable", plain)):
        found[f"host to GPU, {name}, bytes/s"] = amount / 4 / seconds(lambda host=host: part.copy_(host), 8)  # type: ignore[misc]
        found[f"GPU to host, {name}, bytes/s"] = amount / 4 / seconds(lambda host=host: host.copy_(part), 8)  # type: ignore[misc]
    small = torch.ones(1, device="cuda")
    begin = time.perf_counter()
    for _ in range(10000):
        small.add_(1)
    torch.cuda.synchronize()
    found["one small kernel, s"] = (time.perf_counter() - begin) / 10000
    return found


def step_times() -> dict[str, float]:
    """Seconds of steps of language models, to hold time that is derived from bytes and rates against."""
    from evidence.memory.gpu_cases import config_of, language_model, tokens

    found: dict[str, float] = {}
    for name, layers in (("Qwen2.5-0.5B", None), ("Llama-3.1-8B", 8), ("Qwen2.5-7B", None)):
        model = language_model(config_of(name, layers))
        label = f"{name}{f', {layers} layers' if layers else ''}, bfloat16"
        with torch.no_grad():
            for batch, context in ((1, 2048), (4, 2048), (1, 8192)):
                ids = tokens(batch, context)
                call = partial(model, ids, use_cache=True, logits_to_keep=1)
                found[f"{label}: prefill {batch}x{context}"] = seconds(call, 5)
            for batch, context in ((1, 128), (1, 4096), (16, 1024)):
                past = model(tokens(batch, context), use_cache=True, logits_to_keep=1).past_key_values
                call = partial(
                    model, tokens(batch, 1), past_key_values=past, use_cache=True, logits_to_keep=1
                )
                found[f"{label}: decode {batch} after {context}"] = seconds(call, 20)
                del past
        del model
        torch.cuda.empty_cache()
    return found
