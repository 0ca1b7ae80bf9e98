"""The driver and its GPUs, from nvidia-smi; from NVML where that is not there.

Layouts: `nvidia-smi -q -x` (the DTDs nvsmi_device_v11 to v13), `--query-gpu` as CSV, `topo -m` and
`topo -p2p r` as text. A field that a driver does not have says `N/A`, `None` or `[N/A]`.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from samedevice.doctor.facts import Driver, Facts, GpuFacts, GpuProcess, Topic, Unread
from samedevice.doctor.host import Answer, Host
from samedevice.machines import gpu_table
from samedevice.messages import Phrase

_SECONDS = 30.0
"""A driver without persistence takes some seconds to wake eight GPUs."""
_LAST = 400
"""Characters of what a command said that are kept."""
NVML = str(Path(__file__).with_name("nvml_child.py"))


def read_driver(host: Host, facts: Facts) -> Facts:
    """Driver, GPUs, links and peers; what cannot be read is noted."""
    answer = host.run(["nvidia-smi", "-q", "-x"], _SECONDS)
    if answer.status == 0 and (found := _of_xml(host, answer.output)) is not None:
        driver, gpus = found
        facts = replace(facts, driver=driver, gpus=_with_capabilities(host, gpus))
        return _with_links(host, facts)
    if answer.failure is None:
        said = _said(answer)
        none = "No devices were found" in said
        facts = replace(facts, driver=Driver(trouble=said), gpus=() if none else None)
        return _unread(facts, Phrase("doctor.smi-failed", text=said), "driver", "links", "peers")
    if answer.late:
        facts = replace(facts, driver=Driver(hangs=True))
        return _unread(facts, answer.failure, "driver", "gpus", "links", "peers")
    return _by_nvml(host, facts, answer.failure)


def _by_nvml(host: Host, facts: Facts, why: Phrase) -> Facts:
    """NVML's own answer, in a child process; `why` nvidia-smi did not give one."""
    answer = host.run([host.python, NVML], _SECONDS)
    if answer.late:
        facts = replace(facts, driver=Driver(hangs=True))
    try:
        document = json.loads(answer.output)
    except ValueError:
        return _unread(facts, why, "driver", "gpus", "links", "peers")
    if trouble := document.get("trouble"):
        if document.get("missing"):  # no library: no driver, so nothing went wrong
            return _unread(facts, why, "driver", "gpus", "links", "peers")
        facts = replace(facts, driver=Driver(trouble=str(trouble)[-_LAST:]))
        return _unread(facts, Phrase("doctor.nvml-failed", text=str(trouble)), "driver", "links", "peers")
    gpus = tuple(_of_nvml(host, row) for row in document["gpus"])
    return replace(
        facts,
        driver=Driver(document["driver"], document["cuda"]),
        gpus=gpus,
        links={(one, other): said for one, other, said in document["links"]},
        peers={(one, other): said for one, other, said in document["peers"]},
    )


def _of_nvml(host: Host, row: Mapping[str, Any]) -> GpuFacts:
    capability = row.get("capability")
    return GpuFacts(
        index=row["index"],
        name=row["name"],
        uuid=row["uuid"],
        bus=row["bus"],
        memory_mib=row["memory_mib"],
        used_mib=row["used_mib"],
        capability=None if capability is None else (capability[0], capability[1]),
        mig=row["mig"],
        mig_pending=row["mig_pending"],
        mig_devices=row["mig_devices"],
        compute_mode=row["compute_mode"],
        processes=tuple(GpuProcess(*each) for each in row["processes"] if not host.own(each[0])),
    )


def _of_xml(host: Host, text: str) -> tuple[Driver, tuple[GpuFacts, ...]] | None:
    if "<!ENTITY" in text:  # a driver declares none; what does is not from one
        return None
    try:
        root = ET.fromstring(text)
    except ET.ParseError:
        return None
    if root.tag != "nvidia_smi_log":
        return None
    gpus = tuple(_of_gpu(host, number, gpu) for number, gpu in enumerate(root.findall("gpu")))
    return Driver(_field(root, "driver_version"), _field(root, "cuda_version")), gpus


def _of_gpu(host: Host, number: int, gpu: ET.Element) -> GpuFacts:
    return GpuFacts(
        index=number,
        name=_field(gpu, "product_name"),
        uuid=_field(gpu, "uuid"),
        bus=gpu.get("id", ""),
        memory_mib=_mib(_field(gpu, "fb_memory_usage/total")),
        used_mib=_mib(_field(gpu, "fb_memory_usage/used")),
        mig=_field(gpu, "mig_mode/current_mig") == "Enabled",
        mig_pending=_field(gpu, "mig_mode/pending_mig") == "Enabled",
        mig_devices=len(gpu.findall("mig_devices/mig_device")),
        compute_mode=_field(gpu, "compute_mode"),
        fabric=_field(gpu, "fabric/state"),
        fabric_status=_field(gpu, "fabric/status"),
        reset_required=_field(gpu, "gpu_reset_status/reset_required") == "Yes",
        rows_pending=_field(gpu, "remapped_rows/remapped_row_pending") == "Yes",
        uncorrectable=_errors(gpu),
        processes=tuple(_processes(host, gpu)),
    )


def _processes(host: Host, gpu: ET.Element) -> Sequence[GpuProcess]:
    found = []
    for process in gpu.findall("processes/process_info"):
        pid = _field(process, "pid")
        if pid.isdigit() and not host.own(int(pid)) and "C" in _field(process, "type"):
            found.append(
                GpuProcess(int(pid), _field(process, "process_name"), _mib(_field(process, "used_memory")))
            )
    return found


def _errors(gpu: ET.Element) -> int:
    """Errors that ECC could not correct, since the driver was loaded; older boards call them double."""
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None:
        return 0
    counts = [each.text or "" for each in volatile if "uncorrectable" in each.tag]
    counts.append(volatile.findtext("double_bit/total") or "")
    return sum(int(count) for count in counts if count.strip().isdigit())


def _field(element: ET.Element, path: str) -> str:
    """The text of an element; empty where there is none or the driver does not have it."""
    text = (element.findtext(path) or "").strip()
    return "" if text in ("N/A", "[N/A]", "None") else text


def _mib(text: str) -> int | None:
    found = re.fullmatch(r"(\d+) MiB", text)
    return int(found[1]) if found else None


def _with_capabilities(host: Host, gpus: Sequence[GpuFacts]) -> tuple[GpuFacts, ...]:
    """The compute capability of each: from the CSV, or from the table where the driver does not tell it."""
    query = ["nvidia-smi", "--query-gpu=index,compute_cap", "--format=csv,noheader"]
    answer = host.run(query, _SECONDS)
    told = dict(re.findall(r"^(\d+), (\d+\.\d+)$", answer.output, re.MULTILINE)) if answer.status == 0 else {}
    known = {gpu.name: gpu.capability for gpu in gpu_table()}
    found = []
    for gpu in gpus:
        text = told.get(str(gpu.index))
        major, _, minor = (text or "").partition(".")
        found.append(replace(gpu, capability=(int(major), int(minor)) if text else known.get(gpu.name)))
    return tuple(found)


def _with_links(host: Host, facts: Facts) -> Facts:
    if facts.gpus is None or len(facts.gpus) < 2:
        return replace(facts, links={}, peers={})
    topics: Mapping[Topic, list[str]] = {"links": ["-m"], "peers": ["-p2p", "r"]}
    for topic, words in topics.items():
        answer = host.run(["nvidia-smi", "topo", *words], _SECONDS)
        matrix = _matrix(answer.output) if answer.status == 0 else {}
        if matrix:
            facts = replace(facts, links=matrix) if topic == "links" else replace(facts, peers=matrix)
        else:
            why = answer.failure or Phrase("doctor.smi-failed", text=_said(answer))
            facts = _unread(facts, why, topic)
    return facts


def _matrix(text: str) -> dict[tuple[int, int], str]:
    """The cells between GPUs of a matrix as `nvidia-smi topo` prints it, with or without colours."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    columns: list[str] = []
    found = {}
    for line in plain.splitlines():
        words = line.split()
        if not columns:
            columns = [word for word in words if re.fullmatch(r"GPU\d+", word)]
            continue
        row = re.fullmatch(r"GPU(\d+)", words[0]) if words else None
        if row is None:
            continue
        for column, cell in zip(columns, words[1:], strict=False):
            one, other = int(row[1]), int(column.removeprefix("GPU"))
            if one != other:
                found[one, other] = cell
    return found


def _said(answer: Answer) -> str:
    """What a command said, in one line."""
    return " ".join(f"{answer.output} {answer.errors}".split())[-_LAST:]


def _unread(facts: Facts, why: Phrase, *topics: Topic) -> Facts:
    return replace(facts, unread=(*facts.unread, *(Unread(topic, why) for topic in topics)))
