"""Bytes that arrive changed when they are copied from GPU to GPU: what `--gpu-test` finds."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    if facts.copies is None:
        return
    for copied in facts.copies.copied:
        if not copied.wrong:
            continue
        values = {"wrong": copied.wrong, "size": copied.size, "first": copied.first or 0}
        if copied.source == copied.target:
            yield Fault(
                Phrase("checks.copies-corrupted.own", index=copied.source, **values),
                Phrase("checks.copies-corrupted.replace", index=copied.source),
            )
        else:
            yield Fault(
                Phrase("checks.copies-corrupted.pair", one=copied.source, other=copied.target, **values),
                Phrase("checks.copies-corrupted.through-host"),
            )


CHECK = Check(
    code="SD327",
    name="copies-corrupted",
    title={
        "en": "bytes change on their way between GPUs",
        "zh": "数据在 GPU 之间拷贝时被改变",
    },
    reads=(),
    sources=("samedevice doctor --gpu-test: every byte of six patterns for each pair",),
    look=_look,
    sentences={
        "pair": {
            "en": "from cuda:{one} to cuda:{other} {wrong} of {size} bytes arrived wrong, the first at "
            "{first}; no error was raised",
            "zh": "从 cuda:{one} 到 cuda:{other}，{size} 字节里有 {wrong} 字节到达后是错的，"
            "首个在 {first}；没有报错",
        },
        "own": {
            "en": "{wrong} of {size} bytes came back wrong from cuda:{index}, the first at {first}; no error "
            "was raised",
            "zh": "cuda:{index} 传回的 {size} 字节里有 {wrong} 字节是错的，首个在 {first}；没有报错",
        },
        "through-host": {
            "en": "until it is repaired, go through the host: x.cpu().to(device), NCCL_P2P_DISABLE=1; then "
            "look at the IOMMU and ACS (SD311), the driver's release (SD312) and the riser",
            "zh": "修好之前绕道主机：x.cpu().to(device)，并设 NCCL_P2P_DISABLE=1；"
            "再检查 IOMMU 与 ACS（SD311）、驱动版本（SD312）和转接线",
        },
        "replace": {
            "en": "do not use GPU {index}; look at its seat and riser, at dmesg for Xid, and replace it if "
            "it comes back",
            "zh": "停用 GPU {index}；检查插槽和转接线，查 dmesg 里的 Xid，若再次出现就更换",
        },
    },
)
