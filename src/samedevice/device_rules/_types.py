"""Types of elements for which CUDA has no kernel though the CPU has one: a row for each operator.

Source: `dtypes` and `dtypesIfCUDA` of torch's operator database, which torch's own tests prove on both; a
test compares. The name in a row is the one by which CUDA's kernel complains (ATen/native/cuda).
"""

from __future__ import annotations

from dataclasses import dataclass

_INTEGERS = frozenset({"Byte", "Char", "Short", "Int", "Long"})
_HALVES = frozenset({"Half", "BFloat16"})
_LONG = frozenset({"Long"})
_BYTE = frozenset({"Byte"})


@dataclass(frozen=True, slots=True)
class Lack:
    """What CUDA's kernel does not take."""

    kernel: str
    types: frozenset[str]
    """Names of types as C++ has them."""


_ROWS: dict[str, Lack] = {
    **dict.fromkeys(("addmm", "mm", "addbmm"), Lack("addmm_cuda", _INTEGERS)),
    **dict.fromkeys(("bmm", "baddbmm", "_trilinear"), Lack("baddbmm_cuda", _INTEGERS)),
    **dict.fromkeys(("mv", "addmv"), Lack("addmv_impl_cuda", _INTEGERS)),
    **dict.fromkeys(("dot", "vdot"), Lack("dot", _INTEGERS)),
    "max_pool2d_with_indices": Lack("max_pool2d_with_indices_out_cuda_frame", _INTEGERS),
    "max_pool3d_with_indices": Lack("max_pool3d_with_indices_out_frame", _INTEGERS),
    "avg_pool2d": Lack("avg_pool2d_out_cuda_frame", _LONG),
    "avg_pool3d": Lack("avg_pool3d_out_cuda", _LONG),
    "upsample_bilinear2d": Lack("upsample_bilinear2d_out_frame", _BYTE),
    "upsample_bicubic2d": Lack("upsample_bicubic2d_out_frame", _BYTE),
    "_upsample_bilinear2d_aa": Lack("upsample_bilinear2d_out_frame", _BYTE),
    "igamma": Lack("igamma_cuda", _HALVES),
    "igammac": Lack("igammac_cuda", _HALVES),
    "angle": Lack("angle_cuda", _HALVES),
}
"""By operator, without overload and without the underscore of a variant in place."""


def lacking(short: str) -> Lack | None:
    """The row of an operator; nearly all have none."""
    return _ROWS.get(short) or _ROWS.get(short.removesuffix("_"))
