"""The grammar of machine specifications, and what a wrong one is told."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.errors import MachineSpecError
from samedevice.machines import gpu_table, parse_machine

GIB = 1 << 30


@pytest.mark.parametrize(
    ("spec", "canonical", "shown"),
    [
        ("2x24GB", "2x24GB", "2 x NVIDIA Virtual 24GB"),
        ("24 GiB", "24GB", "1 x NVIDIA Virtual 24GB"),
        ("1.5g", "1536MiB", "1 x NVIDIA Virtual 1536MiB"),
        ("1TB", "1024GB", "1 x NVIDIA Virtual 1024GB"),
        ("8xA100-80G", "8xA100-80G", "8 x NVIDIA A100-SXM4-80GB"),
        ("8 x a100 80gb", "8xA100-80G", "8 x NVIDIA A100-SXM4-80GB"),
        ("8\u00d7A100_80GiB", "8xA100-80G", "8 x NVIDIA A100-SXM4-80GB"),
        ("8*A100-81920MiB", "8xA100-80G", "8 x NVIDIA A100-SXM4-80GB"),
        ("A100-80GB-PCIe", "A100-80G-PCIe", "1 x NVIDIA A100 80GB PCIe"),
        ("a100 sxm4 40g", "A100-40G", "1 x NVIDIA A100-SXM4-40GB"),
        ("4xRTX4090", "4xRTX4090", "4 x NVIDIA GeForce RTX 4090"),
        ("4x4090", "4xRTX4090", "4 x NVIDIA GeForce RTX 4090"),
        ("GeForce RTX 4090 24GB", "RTX4090", "1 x NVIDIA GeForce RTX 4090"),
        ("h200", "H200", "1 x NVIDIA H200"),
        ("A6000", "RTXA6000", "1 x NVIDIA RTX A6000"),
        ("tesla t4", "T4", "1 x Tesla T4"),
        (
            " 2xH100-80G + 2xA100-40G ",
            "2xH100-80G+2xA100-40G",
            "2 x NVIDIA H100 80GB HBM3 + 2 x NVIDIA A100-SXM4-40GB",
        ),
        ("2xT4+24GB+1xT4", "2xT4+24GB+T4", "2 x Tesla T4 + 1 x NVIDIA Virtual 24GB + 1 x Tesla T4"),
        ("1024x24GB", "1024x24GB", "1024 x NVIDIA Virtual 24GB"),
    ],
)
def test_valid_specification(spec: str, canonical: str, shown: str):
    machine = parse_machine(spec)
    assert machine.spec == canonical
    assert str(machine) == shown
    assert parse_machine(canonical) == machine
    assert parse_machine(shown) == machine


@pytest.mark.parametrize(
    ("spec", "reason", "instead"),
    [
        ("8xA100-80B", "names no known GPU: 'A100-80B'", "8xA100-80G"),
        ("2xA100-80B+2x24GB", "names no known GPU: 'A100-80B'", "2xA100-80G+2x24GB"),
        (
            "2x24GB+RTX409",
            "names no known GPU: 'RTX409'",
            "2x24GB+RTX4090` or `2x24GB+RTX4090D` or `2x24GB+RTX4090-Laptop",
        ),
        ("0x24GB", "asks for 0 GPUs", "1x24GB"),
        ("2x", "names no GPU after the `x`", "2x24GB"),
        ("x24GB", "has no number before the `x`", "1x24GB"),
        ("2x2x24GB", "has two counts for one GPU", "2x24GB"),
        ("2x9999XB", "has '9999XB', which is no memory size (units are GB and MiB)", "2x9999MiB"),
        ("24XB", "has '24XB', which is no memory size (units are GB and MiB)", "24GB"),
        ("2x0GB", "has '0GB', which is no memory size (units are GB and MiB)", "2x24GB"),
        ("2x99999GB", "asks for 99999GB in one GPU, and 4TB is the most", "2x80GB"),
        ("2x24", "has the number '24' alone: a size needs a unit", "2x24GB"),
        ("99999999999x24GB", "asks for far more than 1024 GPUs", "1024x24GB"),
        ("A100", "does not say which A100", "A100-80G` or `A100-40G"),
        ("8xH100+1xT4", "does not say which H100", "8xH100-80G+1xT4` or `8xH100-NVL+1xT4"),
        ("2xH100+1xA100", "does not say which H100", "2xH100-80G+A100-80G` or `2xH100-NVL+A100-80G"),
        ("RTX6000", "names no known GPU: 'RTX6000'", "RTX6000Ada` or `QuadroRTX6000"),
    ],
)
def test_wrong_specification_gets_the_nearest_valid_one(spec: str, reason: str, instead: str):
    with pytest.raises(MachineSpecError) as caught:
        parse_machine(spec)
    assert str(caught.value) == f"machine specification {spec!r} {reason}; did you mean `{instead}`?"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "the machine specification is empty; write for example `2x24GB` or `8xA100-80G`"),
        (
            "2x24GB+",
            "machine specification '2x24GB+' has nothing on one side of a `+`; write for example `2x24GB` "
            "or `8xA100-80G`",
        ),
        (
            "hello",
            "machine specification 'hello' names no known GPU: 'hello'; write for example `2x24GB` or "
            "`8xA100-80G`",
        ),
        (
            "2000x24GB",
            "machine specification '2000x24GB' has 2000 GPUs; at most 1024 are supported, as in `1024x24GB`",
        ),
    ],
)
def test_wrong_specification_without_a_near_one(spec: str, message: str):
    with pytest.raises(MachineSpecError) as caught:
        parse_machine(spec)
    assert str(caught.value) == message


def test_specification_of_another_type():
    with pytest.raises(MachineSpecError, match="not int"):
        parse_machine(2)  # type: ignore[arg-type]


NEAR_MISSES = st.lists(
    st.sampled_from(
        [
            "2",
            "x",
            "+",
            "24",
            "GB",
            "A100",
            "-80G",
            " ",
            "RTX",
            "4090",
            "0",
            ".",
            "XB",
            "MiB",
            "Ti",
            "PCIe",
            "h100",
        ]
    ),
    max_size=8,
).map("".join)


@given(st.one_of(st.text(max_size=40), NEAR_MISSES))
def test_any_text_is_a_machine_or_a_readable_error(text: str):
    try:
        machine = parse_machine(text)
    except MachineSpecError as error:
        offers = re.findall(r"`([^`]+)`", str(error).rpartition(";")[2] or str(error))
        assert "Traceback" not in str(error)
        if "machine file" not in str(error):
            assert any(parses(offer) for offer in offers), str(error)
    else:
        assert parse_machine(machine.spec) == machine


def parses(spec: str) -> bool:
    try:
        return bool(parse_machine(spec).gpus)
    except MachineSpecError:
        return False


PARTS = st.tuples(
    st.integers(1, 40),
    st.one_of(st.sampled_from([gpu.key for gpu in gpu_table()]), st.integers(1, 4096).map("{}GB".format)),
)


@given(st.lists(PARTS, min_size=1, max_size=6))
def test_round_trip(parts: list[tuple[int, str]]):
    machine = parse_machine("+".join(f"{count}x{what}" for count, what in parts))
    assert len(machine.gpus) == sum(count for count, _ in parts)
    assert parse_machine(machine.spec) == machine


def test_generic_gpu():
    gpu = parse_machine("24GB").gpus[0]
    assert gpu.total_memory == 24 * GIB
    assert gpu.capability == (9, 0)
    assert gpu.bandwidth_gbps is None
    assert "generic" in gpu.source


def test_links():
    board = parse_machine("8xA100-80G")
    assert str(board.link(0, 7)) == "NVLink"
    assert board.link(0, 1).gbps == 600
    assert str(board.link(3, 3)) == "Self"
    mixed = parse_machine("2xH100-80G+2xA100-40G+1xRTX4090+1xT4")
    assert [str(mixed.link(0, other)) for other in (1, 2, 4)] == ["NVLink", "PCIe", "PCIe"]
    assert mixed.link(4, 5) == mixed.link(5, 4) == mixed.gpus[5].pcie  # the slower slot decides
    assert str(parse_machine("2xRTX3090").link(0, 1)) == "PCIe"  # its bridge is optional
    with pytest.raises(IndexError, match="has no GPU 8; its GPUs are 0 to 7"):
        board.link(0, 8)


def test_description_is_json():
    description = json.loads(json.dumps(parse_machine("1xA100-80G+1x24GB").describe()))
    assert description["spec"] == "A100-80G+24GB"
    assert [gpu["total_memory"] for gpu in description["gpus"]] == [84974239744, 24 * GIB]
    assert description["gpus"][0]["name"] == "NVIDIA A100-SXM4-80GB"
    assert description["gpus"][0]["capability"] == [8, 0]


def measure(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_is_light():
    code = """
import sys
from samedevice.machines import parse_machine
parse_machine("2x24GB")
print(sorted({"torch", "tomllib", "difflib", "pathlib"} & set(sys.modules)))
"""
    assert measure(code) == "[]"


def test_that_the_light_test_can_fail():
    code = (
        "import sys; from samedevice.machines import parse_machine; parse_machine('T4'); print('tomllib' in "
        "sys.modules)"
    )
    assert measure(code) == "True"
