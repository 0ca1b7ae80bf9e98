"""Operators whose memory is recorded: what a kernel keeps, and what it takes in passing, on large inputs.

One row an operator: bytes that its results hold, and bytes that were there at most beside them. Sizes are
large, so that rounding hides nothing, and uneven, so that no two amounts look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

Call = Callable[[], Any]
Row = tuple[str, Callable[[], Call]]
"""A name, and what makes the inputs and gives the call."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large inputs are."""

    rows: int = 3000
    columns: int = 2048
    """A multiple of 8."""
    length: int = 1500
    """Of sequences in attention."""
    pictures: int = 16
    side: int = 112


SIZES = {"": Sizes(), "other sizes": Sizes(1777, 1032, 777, 5, 90)}


def made(*shape: int, dtype: torch.dtype = torch.float32, gradient: bool = False) -> torch.Tensor:
    """A drawn tensor on the GPU."""
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(gradient)


def whole(*shape: int, below: int = 1000) -> torch.Tensor:
    """Indices on the GPU."""
    return torch.randint(0, below, shape, device="cuda")


def _one(name: str, call: Callable[..., Any], *shapes: tuple[int, ...], dtype: torch.dtype) -> Row:
    def make() -> Call:
        inputs = [made(*shape, dtype=dtype) for shape in shapes]
        return lambda: call(*inputs)

    return f"{name} {str(dtype).removeprefix('torch.')}", make


def _matrix(dtype: torch.dtype, sizes: Sizes) -> Iterator[Row]:
    rows, columns = sizes.rows, sizes.columns
    wide = (rows, columns)
    for name, call in {
        "add": lambda x, y: x + y,
        "gt": lambda x, y: x > y,
        "where": lambda x, y: torch.where(x > 0, x, y),
        "lerp": lambda x, y: torch.lerp(x, y, 0.3),
        "addcmul": lambda x, y: torch.addcmul(x, x, y),
        "cat": lambda x, y: torch.cat([x, y]),
        "stack": lambda x, y: torch.stack([x, y]),
        "cdist": lambda x, y: torch.cdist(x.float(), y.float()),
        "cosine similarity": F.cosine_similarity,
        "mse loss": F.mse_loss,
        "kl divergence": lambda x, y: F.kl_div(x, y, reduction="batchmean"),
        "index copy": lambda x, y: x.clone().index_copy_(
            0, torch.arange(rows // 2, device="cuda"), y[: rows // 2]
        ),
    }.items():
        yield _one(name, call, wide, wide, dtype=dtype)
    alone: dict[str, Callable[[torch.Tensor], Any]] = {
        "softmax": lambda x: x.softmax(-1),
        "log softmax": lambda x: x.log_softmax(-1),
        "softmax in float32": lambda x: x.softmax(-1, dtype=torch.float32),
        "logsumexp": lambda x: x.logsumexp(-1),
        "sum of all": lambda x: x.sum(),
        "sum of columns": lambda x: x.sum(0),
        "mean of rows": lambda x: x.mean(-1),
        "variance": lambda x: x.var(-1),
        "norm": lambda x: x.norm(),
        "vector norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
        "max of rows": lambda x: x.max(-1),
        "argmax of rows": lambda x: x.argmax(-1),
        "argmax of all": lambda x: x.argmax(),
        "amax of all": lambda x: x.amax(),
        "median of rows": lambda x: x.median(-1),
        "quantile": lambda x: x[:64].float().quantile(0.5, dim=-1),
        "sort of rows": lambda x: x.sort(-1),
        "sort of all": lambda x: x.flatten().sort(),
        "stable sort of columns": lambda x: x.sort(dim=0, stable=True),
        "argsort": lambda x: x.argsort(-1),
        "topk of rows": lambda x: x.topk(50, -1),
        "topk of all": lambda x: x.flatten().topk(50),
        "kthvalue": lambda x: x.kthvalue(9, -1),
        "cumsum of rows": lambda x: x.cumsum(-1),
        "cumsum of all": lambda x: x.flatten().cumsum(0),
        "cumprod": lambda x: x.cumprod(-1),
        "cummax": lambda x: x.cummax(-1),
        "logcumsumexp": lambda x: x.logcumsumexp(-1),
        "nonzero": lambda x: (x > 0).nonzero(),
        "masked select": lambda x: x[x > 0],
        "masked fill": lambda x: x.masked_fill(x > 0, 0.0),
        "unique": lambda x: x.round().unique(),
        "isnan any": lambda x: x.isnan().any(),
        "all close to itself": lambda x: torch.allclose(x, x),
        "equal": lambda x: torch.equal(x, x),
        "transpose copied": lambda x: x.t().contiguous(),
        "roll": lambda x: x.roll(7, 0),
        "flip": lambda x: x.flip(0),
        "tril": lambda x: x.tril(),
        "repeat": lambda x: x.repeat(2, 1),
        "repeat interleave": lambda x: x.repeat_interleave(2, dim=0),
        "pad": lambda x: F.pad(x, (3, 5)),
        "gelu": F.gelu,
        "silu": F.silu,
        "dropout": lambda x: F.dropout(x, 0.1),
        "layer norm": lambda x: F.layer_norm(x, (columns,)),
        "rms norm": lambda x: F.rms_norm(x, (columns,)),
        "normalize": lambda x: F.normalize(x, dim=-1),
        "pow": lambda x: x**2,
        "exp in place": lambda x: x.clone().exp_(),
        "to float64": lambda x: x.double(),
        "to bool": lambda x: x.bool(),
        "to the host": lambda x: x.cpu(),
        "multinomial": lambda x: torch.multinomial(x.float().softmax(-1), 1),
        "multinomial of many": lambda x: torch.multinomial(x.float().softmax(-1), 20, replacement=True),
        "bernoulli": lambda x: x.float().sigmoid().bernoulli(),
        "histc": lambda x: x.float().histc(100),
        "bincount": lambda x: (x.abs() * 10).long().flatten().bincount(),
        "searchsorted": lambda x: torch.searchsorted(x.float()[0].sort().values, x.float()),
        "rand like": torch.rand_like,
        "normal in place": lambda x: x.clone().normal_(),
        "cross entropy": lambda x: F.cross_entropy(x, whole(rows)),
        "embedding": lambda x: F.embedding(whole(rows), x),
        "gather": lambda x: x.gather(1, whole(rows, 64)),
        "index select": lambda x: x.index_select(0, whole(rows)),
        "index put": lambda x: x.clone().index_put_((whole(rows),), x[0]),
        "index put, summed": lambda x: x.clone().index_put_((whole(rows),), x, accumulate=True),
        "index add": lambda x: torch.zeros_like(x).index_add_(0, whole(rows), x),
        "scatter add": lambda x: torch.zeros_like(x).scatter_add_(0, whole(rows, columns), x),
        "one hot": lambda x: F.one_hot(whole(rows), 1000),
        "unfold": lambda x: x.unfold(1, 4, 2).contiguous(),
        "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
        "matmul": lambda x: x @ x.t(),
        "matmul by a vector": lambda x: x @ x[0],
        "addmm": lambda x: torch.addmm(x[:, 0], x, x.t()),
        "linear with bias": lambda x: F.linear(x, x, x[:, 0]),
        "bmm": lambda x: x[:1000].view(10, 100, columns) @ x[:1000].view(10, 100, columns).transpose(1, 2),
        "batched by one": lambda x: x[:1000].view(10, 100, columns) @ x.t(),
    }
    for name, single in alone.items():
        yield _one(name, single, wide, dtype=dtype)


def _attention(dtype: torch.dtype, sizes: Sizes) -> Iterator[Row]:
    length = sizes.length
    shape = (2, 16, length, 64)
    for name, call in {
        "attention": F.scaled_dot_product_attention,
        "causal attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "masked attention": lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.ones(2, 1, length, length, dtype=torch.bool, device="cuda")
        ),
        "attention with dropout": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1),
        "grouped attention": lambda q, k, v: F.scaled_dot_product_attention(
            q, k[:, :4], v[:, :4], enable_gqa=True
        ),
        "causal attention of one query": lambda q, k, v: F.scaled_dot_product_attention(q[:, :, :1], k, v),
    }.items():
        yield _one(name, call, shape, shape, shape, dtype=dtype)


def _pictures(dtype: torch.dtype, sizes: Sizes) -> Iterator[Row]:
    pictures, side = sizes.pictures, sizes.side
    image, wide = (pictures, 64, side, side), (pictures, 3, 2 * side, 2 * side)
    for name, call, shapes in (
        ("conv 3x3", lambda x, w: F.conv2d(x, w, padding=1), (image, (128, 64, 3, 3))),
        ("conv 1x1", F.conv2d, (image, (128, 64, 1, 1))),
        ("conv 7x7 stride 2", lambda x, w: F.conv2d(x, w, stride=2, padding=3), (wide, (64, 3, 7, 7))),
        ("depthwise conv", lambda x, w: F.conv2d(x, w, padding=3, groups=64), (image, (64, 1, 7, 7))),
        ("dilated conv", lambda x, w: F.conv2d(x, w, padding=2, dilation=2), (image, (64, 64, 3, 3))),
        ("conv with channels last", lambda x, w: F.conv2d(
            x.contiguous(memory_format=torch.channels_last), w, padding=1), (image, (128, 64, 3, 3))),
        ("transposed conv", lambda x, w: F.conv_transpose2d(x, w, stride=2), (image, (64, 32, 2, 2))),
        ("conv1d", lambda x, w: F.conv1d(x, w, padding=1), ((8, 80, 3000), (768, 80, 3))),
        ("conv3d", lambda x, w: F.conv3d(x, w, padding=1), ((2, 16, 16, 56, 56), (32, 16, 3, 3, 3))),
        ("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), (image,)),
        ("average pool", lambda x: F.avg_pool2d(x, 2), (image,)),
        ("adaptive pool", lambda x: F.adaptive_avg_pool2d(x, 1), (image,)),
        ("batch norm in training", lambda x: F.batch_norm(
            x, None, None, training=True), (image,)),
        ("group norm", lambda x: F.group_norm(x, 32), (image,)),
        ("instance norm", F.instance_norm, (image,)),
        ("bilinear resize", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image,)),
        ("bicubic resize", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), (image,)),
        ("grid sample", lambda x: F.grid_sample(
            x, torch.zeros(pictures, side, side, 2, device="cuda", dtype=x.dtype), align_corners=False),
         (image,)),
        ("pixel shuffle", lambda x: F.pixel_shuffle(x, 2), (image,)),
    ):  # fmt: skip
        yield _one(name, call, *shapes, dtype=dtype)


def _float32_only(sizes: Sizes) -> Iterator[Row]:
    square = (side := sizes.rows * 2 // 5, side)
    for name, call in {
        "svd": torch.linalg.svd,
        "eigh": lambda x: torch.linalg.eigh(x + x.t()),
        "qr": torch.linalg.qr,
        "cholesky": lambda x: torch.linalg.cholesky(x @ x.t() + side * torch.eye(side, device="cuda")),
        "inverse": torch.linalg.inv,
        "solve": lambda x: torch.linalg.solve(x, x),
        "det": torch.linalg.det,
        "fft": torch.fft.fft,
        "rfft of two dimensions": torch.fft.rfft2,
        "stft": lambda x: torch.stft(
            x, 400, 160, window=torch.hann_window(400, device="cuda"), return_complex=True
        ),
    }.items():
        yield _one(name, call, square, dtype=torch.float32)

    def recurrent(kind: str) -> Callable[[], Call]:
        def make() -> Call:
            cell = getattr(torch.nn, kind)(256, 512, num_layers=2, batch_first=True, device="cuda")
            x = made(16, 200, 256)
            return lambda: cell(x)

        return make

    for kind in ("LSTM", "GRU", "RNN"):
        yield f"{kind} float32", recurrent(kind)


def _backward(sizes: Sizes) -> Iterator[Row]:
    rows, columns = sizes.rows, sizes.columns

    def row(
        name: str, call: Callable[..., torch.Tensor], *shapes: tuple[int, ...], dtype: torch.dtype
    ) -> Row:
        def make() -> Call:
            inputs = [made(*shape, dtype=dtype, gradient=True) for shape in shapes]
            result = call(*inputs)
            gradient = torch.ones_like(result)
            return lambda: torch.autograd.grad(result, inputs, gradient, retain_graph=True)

        return f"backward of {name} {str(dtype).removeprefix('torch.')}", make

    wide, heads = (rows, columns), (2, 16, sizes.length, 64)
    image = (sizes.pictures, 64, sizes.side, sizes.side)
    for dtype in (torch.float32, torch.bfloat16):
        for name, call, shapes in (
            ("matmul", lambda x: x @ x.t(), (wide,)),
            ("linear", F.linear, (wide, (512, columns))),
            ("linear with bias", F.linear, (wide, (512, columns), (512,))),
            ("softmax", lambda x: x.softmax(-1), (wide,)),
            ("log softmax", lambda x: x.log_softmax(-1), (wide,)),
            ("cross entropy", lambda x: F.cross_entropy(x, whole(rows)), (wide,)),
            ("layer norm", lambda x, w, b: F.layer_norm(x, (columns,), w, b), (wide, (columns,), (columns,))),
            ("rms norm", lambda x, w: F.rms_norm(x, (columns,), w), (wide, (columns,))),
            ("gelu", F.gelu, (wide,)),
            ("silu", F.silu, (wide,)),
            ("dropout", lambda x: F.dropout(x, 0.1), (wide,)),
            ("embedding", lambda x: F.embedding(whole(rows), x), (wide,)),
            ("index select", lambda x: x.index_select(0, whole(rows)), (wide,)),
            ("gather", lambda x: x.gather(1, whole(rows, 64)), (wide,)),
            ("cumsum", lambda x: x.cumsum(-1), (wide,)),
            ("max of rows", lambda x: x.max(-1).values, (wide,)),
            ("norm", lambda x: x.norm(), (wide,)),
            ("attention", F.scaled_dot_product_attention, (heads,) * 3),
            ("causal attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
             (heads,) * 3),
            ("conv 3x3", lambda x, w: F.conv2d(x, w, padding=1), (image, (128, 64, 3, 3))),
            ("conv 1x1", F.conv2d, (image, (128, 64, 1, 1))),
            ("depthwise conv", lambda x, w: F.conv2d(x, w, padding=3, groups=64), (image, (64, 1, 7, 7))),
            ("max pool", lambda x: F.max_pool2d(x, 3, 2, 1), (image,)),
            ("batch norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
             (image, (64,), (64,))),
            ("group norm", lambda x, w, b: F.group_norm(x, 32, w, b), (image, (64,), (64,))),
            ("bilinear resize", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image,)),
        ):  # fmt: skip
            yield row(name, call, *shapes, dtype=dtype)


def rows(sizes: Sizes) -> Iterator[Row]:
    """All rows, a name once."""
    for dtype in (torch.float32, torch.bfloat16):
        yield from _matrix(dtype, sizes)
        yield from _pictures(dtype, sizes)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield from _attention(dtype, sizes)
    yield from _float32_only(sizes)
    yield from _backward(sizes)


def measured(make: Callable[[], Call]) -> dict[str, int]:
    """Bytes that the results hold, and at most beside them; the second call counts, when libraries have what
    they keep. `first` is what the first call left beyond its results.
    """
    call = make()
    torch.cuda.synchronize()
    start = torch.cuda.memory_allocated()
    result = call()
    held = torch.cuda.memory_allocated()
    del result
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    peak, after = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
    del result
    return {
        "results": after - before,
        "passing": peak - after,
        "kept": before - start,
        "first": held - start - (after - before),
    }
