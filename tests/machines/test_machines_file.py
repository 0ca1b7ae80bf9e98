"""Machine files: what they can say, and what a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samedevice.errors import MachineSpecError
from samedevice.machines import Machine, parse_machine

GIB = 1 << 30
FULL = """
name = "lab box"

[host]
memory = "512GB"
cores = 64

[[gpu]]
model = "RTX3090"
count = 2

[[gpu]]
name = "NVIDIA Prototype"
memory = "20GB"
capability = "12.1"
sm_count = 64
bandwidth_gbps = 1000

[link]
kind = "NVLink"
pairs = [[0, 1]]
"""


def read(folder: Path, text: str) -> Machine:
    path = folder / "machine.toml"
    path.write_text(text)
    return parse_machine(str(path))


def test_full_file(tmp_path: Path):
    machine = read(tmp_path, FULL)
    assert str(machine) == "2 x NVIDIA GeForce RTX 3090 + 1 x NVIDIA Prototype"
    assert (machine.name, machine.host_memory, machine.host_cores) == ("lab box", 512 * GIB, 64)
    prototype = machine.gpus[2]
    assert (prototype.total_memory, prototype.capability, prototype.sm_count) == (20 * GIB, (12, 1), 64)
    assert machine.link(1, 0).kind == "NVLink"
    assert machine.link(0, 1).gbps == 112.5  # the bridge of an RTX 3090
    assert machine.link(1, 2).kind == "PCIe"
    assert parse_machine(machine.spec) == machine
    assert parse_machine(Path(machine.spec)) == machine
    assert machine.describe()["host"] == {"memory": 512 * GIB, "cores": 64}


def test_memory_of_a_product_can_be_changed(tmp_path: Path):
    plain, measured, other = read(
        tmp_path,
        '[[gpu]]\nmodel = "T4"\n[[gpu]]\nmodel = "T4"\ntotal_memory = 15828320256\n[[gpu]]\nmodel = '
        '"T4"\nmemory = "12GB"',
    ).gpus
    assert plain.total_memory == 15637086208
    assert measured.total_memory == 15828320256
    assert other.total_memory == 12 * GIB


def test_one_link_for_all_pairs(tmp_path: Path):
    machine = read(tmp_path, '[[gpu]]\nmodel = "A100-80G"\ncount = 4\n[link]\nkind = "pcie"\n')
    assert machine.link(0, 3).kind == "PCIe"
    machine = read(tmp_path, '[[gpu]]\nmemory = "24GB"\ncount = 4\n[link]\nkind = "NVLink"\ngbps = 300\n')
    assert machine.link(0, 3).gbps == 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'has no [[gpu]] table; add one with `memory = "24GB"` or `model = "A100-80G"`'),
        ("gpu = 3", "has `gpu = 3`, which must be a list"),
        ("gpu = [3]", "[[gpu]] table 1 is not a table; write `[[gpu]]` on a line of its own"),
        ("[[gpus]]", "has an unknown key 'gpus'; did you mean `gpu`?"),
        (
            "[[gpu]]",
            'names neither a model nor a memory size; write `model = "A100-80G"` or `memory = "24GB"`',
        ),
        ('[[gpu]]\nmodle = "T4"', "[[gpu]] table 1 has an unknown key 'modle'; did you mean `model`?"),
        ('[[gpu]]\nmodel = "T5"', "has `model = 'T5'`, which is no known GPU; did you mean `"),
        (
            '[[gpu]]\nmodel = "A100"',
            "has `model = 'A100'`, which fits several GPUs; did you mean `A100-80G` or `A100-40G`?",
        ),
        ("[[gpu]]\nmodel = 4090", "has `model = 4090`, which must be text"),
        ("[[gpu]]\nmemory = 24", 'has `memory = 24` without a unit; write for example `memory = "24GB"`'),
        (
            '[[gpu]]\nmemory = "big"',
            "has `memory = 'big'`, which is no memory size; write for example `memory = \"24GB\"`",
        ),
        ('[[gpu]]\nmemory = "9999TB"', "has `memory = '9999TB'` in one GPU, and 4TB is the most"),
        ('[[gpu]]\nmodel = "T4"\ncount = 0', "has `count = 0`, which must be above 0"),
        ('[[gpu]]\nmodel = "T4"\ncount = true', "has `count = True`, which must be a whole number"),
        ('[[gpu]]\nmodel = "T4"\ncount = 2000', "has `count = 2000`; at most 1024 GPUs are supported"),
        (
            '[[gpu]]\nmodel = "T4"\ncount = 1000\n[[gpu]]\nmodel = "T4"\ncount = 1000',
            "has more than 1024 GPUs",
        ),
        ('[[gpu]]\nmemory = "24GB"\ncapability = 8.9', 'write it as text, for example `capability = "8.9"`'),
        (
            '[[gpu]]\nmemory = "24GB"\nbandwidth_gbps = nan',
            "has `bandwidth_gbps = nan`, which must be above 0",
        ),
        (
            '[[gpu]]\nmodel = "T4"\n[host]\ncores = "8"',
            "[host] has `cores = '8'`, which must be a whole number",
        ),
        (
            '[[gpu]]\nmodel = "T4"\n[link]\nkind = "tape"',
            "[link] has `kind = 'tape'`; it is `NVLink` or `PCIe`",
        ),
        (
            '[[gpu]]\nmodel = "T4"\n[link]\nkind = "PCIe"\npairs = [[0, 1]]',
            "has the pair [0, 1]; a pair is two different GPUs from 0 to 0, like [0, 1]",
        ),
        ("[[gpu", "is not valid TOML: "),
        ("x = " + "[" * 5000, "machine.toml"),
    ],
)
def test_wrong_file_names_the_place_and_the_cure(tmp_path: Path, text: str, message: str):
    with pytest.raises(MachineSpecError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "machine.toml" in str(caught.value)


def test_missing_file_names_its_neighbour(tmp_path: Path):
    (tmp_path / "machine.toml").write_text(FULL)
    with pytest.raises(
        MachineSpecError, match=r"there is no machine file .*machin\.toml'; did you mean `.*machine\.toml`\?"
    ):
        parse_machine(str(tmp_path / "machin.toml"))
    with pytest.raises(MachineSpecError, match="a machine without a file is written like `2x24GB`"):
        parse_machine(str(tmp_path / "nowhere" / "zzz.toml"))


@pytest.mark.parametrize("path", ["a/\0.toml", "\ud800.toml", "x" * 5000 + ".toml", "/", "."])
def test_path_that_cannot_be_one(path: str):
    with pytest.raises(MachineSpecError):
        parse_machine(path)


def test_file_that_is_not_text(tmp_path: Path):
    path = tmp_path / "machine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MachineSpecError, match="is not UTF-8 text"):
        parse_machine(path)


VALUES = st.recursive(
    st.one_of(
        st.integers(-2, 2000).map(str),
        st.sampled_from(
            ["true", "nan", "1e400", "2020-01-01", '"T4"', '"24GB"', '"8.9"', '"NVLink"', "[[0, 1]]", "[[0]]"]
        ),
    ),
    lambda inner: st.lists(inner, max_size=2).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=3,
)
LINES = st.one_of(
    st.sampled_from(["[[gpu]]", "[host]", "[link]"]),
    st.tuples(
        st.sampled_from(
            "model count name memory total_memory capability sm_count "
            "bandwidth_gbps kind gbps pairs cores".split()
        ),
        VALUES,
    ).map(" = ".join),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, max_size=6))
def test_any_file_is_a_machine_or_a_readable_error(tmp_path: Path, lines: list[str]):
    try:
        machine = read(tmp_path, "\n".join(["[[gpu]]", *lines]))
    except MachineSpecError:
        return
    assert machine.gpus
