"""A machine that answers from a description, in the layouts in which the real probes answer.

`RecordedHost` is a `Host` of the doctor whose answers are written from `recorded_environments.toml`; where
each layout is documented stands there.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from evidence.zoo.zoo import drawn
from samedevice.doctor import Answer, Metadata
from samedevice.doctor.probes.cuda import CHILD
from samedevice.doctor.probes.driver import NVML
from samedevice.doctor.tables import companions, torch_builds
from samedevice.machines import Gpu, gpu_table
from samedevice.messages import Phrase

TABLE = Path(__file__).with_name("recorded_environments.toml")
SITE = "/env/lib/python3.11/site-packages"
USER_SITE = "/home/u/.local/lib/python3.11/site-packages"
PROJECT = "/home/u/project"
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Recorded:
    """One environment; `expect` is the check that must find it, None for a healthy one."""

    id: str
    description: Mapping[str, Any]
    expect: str | None

    @property
    def half(self) -> str:
        """The half that it belongs to, drawn from its name."""
        return drawn(self.id)


def environments() -> list[Recorded]:
    """All of them: healthy ones, then broken ones."""
    document = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [
        Recorded(row["id"], _changed(document["base"][row["base"]], row.get("set", {})), row.get("expect"))
        for row in (*document["healthy"], *document["broken"])
    ]


def _changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A base with one fact changed; packages, torch's facts and files are changed one by one."""
    found = deepcopy(dict(base))
    for key, value in changes.items():
        merges = key in ("packages", "torch", "files") and key in found
        found[key] = {**found[key], **value} if merges else value
    return found


class RecordedHost:
    """A machine that answers from a description."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._of = description
        self._files = dict(_files(description))
        self._links = dict(description.get("libraries", {}))
        self._files.update({path: "" for path in self._links})

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of the description, and a home."""
        return {"HOME": "/home/u", **self._of.get("variables", {})}

    @property
    def python(self) -> str:
        """A name that only `run` here understands."""
        return "python"

    def run(self, words: Sequence[str], seconds: float) -> Answer:
        """What the probes of the doctor start; everything else is not installed."""
        gpus = gpus_of(self._of)
        match [PurePosixPath(words[0]).name, *words[1:]]:
            case ["nvidia-smi", *options] if gpus and not self._of.get("smi", {}).get("missing"):
                return self._smi(options)
            case ["python", child, *modules] if child == CHILD:
                return self._torch(modules)
            case ["python", child] if child == NVML:
                return Answer(0, json.dumps({"trouble": "NVML Shared Library Not Found", "missing": True}))
            case ["nvcc", "--version"] if "nvcc" in self._of:
                release = self._of["nvcc"]
                return Answer(
                    0,
                    "nvcc: NVIDIA (R) Cuda compiler driver\n"
                    f"Cuda compilation tools, release {release}, V{release}.89\n",
                )
            case ["lspci", "-vvv"] if gpus:
                return Answer(0, _lspci(self._of.get("acs", False)))
        return Answer(None, failure=Phrase("doctor.no-command", command=words[0]))

    def _smi(self, options: Sequence[str]) -> Answer:
        if failing := self._of.get("smi"):
            return Answer(failing["status"], failing["text"])
        gpus = gpus_of(self._of)
        match list(options):
            case ["-q", "-x"]:
                return Answer(0, smi_xml(self._of, gpus))
            case ["--query-gpu=index,compute_cap", *_]:
                rows = (f"{index}, {gpu.capability[0]}.{gpu.capability[1]}" for index, gpu in enumerate(gpus))
                return Answer(0, "\n".join(rows) + "\n")
            case ["topo", "-m"]:
                return Answer(0, _topology(len(gpus), self._of.get("link", "PHB")))
            case ["topo", "-p2p", "r"]:
                return Answer(0, _peers(len(gpus), self._of.get("peer", "OK")))
        return Answer(2, "", "Invalid combination of input arguments.\n")

    def _torch(self, modules: Sequence[str]) -> Answer:
        torch = self._of["torch"]
        if torch.get("silent"):
            return Answer(None, failure=Phrase("doctor.too-slow", command="python", seconds="90"))
        count = torch.get("count", len(gpus_of(self._of)))
        broken = torch.get("broken", {})
        access = self._of.get("peer", "OK") == "OK"
        pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
        document = {
            "architectures": torch.get("archs", "").split(),
            "count": count,
            "warnings": torch.get("warnings", []),
            "trouble": torch.get("trouble", ""),
            "broken": {module: broken[module] for module in modules if module in broken},
            "access": [[one, other, access] for one, other in pairs],
        }
        return Answer(0, f"\n{json.dumps(document)}\n")

    def text(self, path: str) -> str | None:
        """A file of the description."""
        return self._files.get(path)

    def names(self, folder: str) -> tuple[str, ...]:
        """What the files of the description make of a folder."""
        inside = f"{folder.rstrip('/')}/"
        found = {
            path.removeprefix(inside).partition("/")[0] for path in self._files if path.startswith(inside)
        }
        return tuple(sorted(found))

    def target(self, path: str) -> str:
        """Where a library of the description leads."""
        return str(self._links.get(path, path))

    def capacity(self, folder: str) -> int | None:
        """The shared memory of the description."""
        return self._of.get("shm") if folder == "/dev/shm" else 100 * _GIB

    def own(self, pid: int) -> bool:
        """No process of the description is ours."""
        return False

    def installed(self) -> Sequence[Metadata]:
        """The packages of the description, with the requirements that PyPI's wheels have."""
        return list(_metadata(self._of))


def gpus_of(description: Mapping[str, Any]) -> list[Gpu]:
    """The GPUs of a description, from the table of products."""
    keys = (
        description.get("gpus") or [description["gpu"]] * description["count"]
        if _has_gpus(description)
        else []
    )
    known = {gpu.key: gpu for gpu in gpu_table()}
    return [known[key] for key in keys]


def _has_gpus(description: Mapping[str, Any]) -> bool:
    return "gpu" in description or "gpus" in description


def _bus(index: int) -> str:
    return f"{0x01 + 0x20 * index:02X}"


def smi_xml(description: Mapping[str, Any], gpus: Sequence[Gpu]) -> str:
    """As `nvidia-smi -q -x` writes it, with the elements around those that are read."""
    body = "\n".join(_gpu_xml(description, index, gpu) for index, gpu in enumerate(gpus))
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Tue Mar 11 09:14:05 2025</timestamp>
	<driver_version>{description["driver"]}</driver_version>
	<cuda_version>{description["driver_cuda"]}</cuda_version>
	<attached_gpus>{len(gpus)}</attached_gpus>
{body}
</nvidia_smi_log>
"""


def _gpu_xml(description: Mapping[str, Any], index: int, gpu: Gpu) -> str:
    own = description.get("gpu_changes", {}).get(str(index), {})
    instances = description.get("mig_devices")
    mig = (
        "Enabled"
        if instances is not None
        else "Disabled"
        if gpu.capability in ((8, 0), (9, 0), (10, 0))
        else "N/A"
    )
    pending = "Enabled" if description.get("mig_pending") else mig
    fabric = description.get("fabric") or "N/A"
    status = "Success" if fabric == "Completed" else "N/A"
    ecc = "N/A" if "GeForce" in gpu.name else str(own.get("uncorrectable", 0))
    rows = f"""
			<remapped_row_corr>0</remapped_row_corr>
			<remapped_row_unc>{int(own.get("rows_pending", False))}</remapped_row_unc>
			<remapped_row_pending>{"Yes" if own.get("rows_pending") else "No"}</remapped_row_pending>
			<remapped_row_failure>No</remapped_row_failure>
		"""
    return f"""	<gpu id="00000000:{_bus(index)}:00.0">
		<product_name>{gpu.name}</product_name>
		<product_brand>{"GeForce" if "GeForce" in gpu.name else "NVIDIA"}</product_brand>
		<display_mode>Disabled</display_mode>
		<display_active>Disabled</display_active>
		<persistence_mode>Enabled</persistence_mode>
		<addressing_mode>None</addressing_mode>
		<mig_mode>
			<current_mig>{mig}</current_mig>
			<pending_mig>{pending}</pending_mig>
		</mig_mode>
		<mig_devices>{_mig_xml(instances or 0)}</mig_devices>
		<uuid>{uuid_of(index)}</uuid>
		<minor_number>{index}</minor_number>
		<gpu_reset_status>
			<reset_required>{"Yes" if own.get("reset") else "No"}</reset_required>
			<drain_and_reset_recommended>No</drain_and_reset_recommended>
		</gpu_reset_status>
		<fb_memory_usage>
			<total>{gpu.memory_mib} MiB</total>
			<reserved>623 MiB</reserved>
			<used>{own.get("used", 4)} MiB</used>
			<free>{gpu.memory_mib - 623 - own.get("used", 4)} MiB</free>
		</fb_memory_usage>
		<compute_mode>{own.get("mode", "Default")}</compute_mode>
		<ecc_errors>
			<volatile>
				<sram_correctable>{"N/A" if ecc == "N/A" else "0"}</sram_correctable>
				<sram_uncorrectable>{"N/A" if ecc == "N/A" else "0"}</sram_uncorrectable>
				<dram_correctable>{"N/A" if ecc == "N/A" else "0"}</dram_correctable>
				<dram_uncorrectable>{ecc}</dram_uncorrectable>
			</volatile>
			<aggregate>
				<sram_correctable>{"N/A" if ecc == "N/A" else "0"}</sram_correctable>
				<dram_uncorrectable>{ecc}</dram_uncorrectable>
			</aggregate>
		</ecc_errors>
		<remapped_rows>{"N/A" if ecc == "N/A" else rows}</remapped_rows>
		<temperature>
			<gpu_temp>31 C</gpu_temp>
		</temperature>
		<fabric>
			<state>{fabric}</state>
			<status>{status}</status>
		</fabric>
		<processes>{_processes_xml(own.get("process"))}</processes>
		<accounted_processes>
		</accounted_processes>
	</gpu>"""


def uuid_of(index: int) -> str:
    """The UUID of a described GPU."""
    return f"GPU-5b1b3f7e-9d0c-4c1e-8a55-0f2c6a7d1e{index:02x}"


def _mig_xml(count: int) -> str:
    if not count:
        return "\n\t\t\tNone\n\t\t"
    return "".join(
        f"""
			<mig_device>
				<index>{index}</index>
				<gpu_instance_id>{index + 1}</gpu_instance_id>
				<compute_instance_id>0</compute_instance_id>
				<fb_memory_usage>
					<total>40192 MiB</total>
					<used>37 MiB</used>
				</fb_memory_usage>
			</mig_device>"""
        for index in range(count)
    )


def _processes_xml(process: Sequence[Any] | None) -> str:
    display = """
			<process_info>
				<gpu_instance_id>N/A</gpu_instance_id>
				<compute_instance_id>N/A</compute_instance_id>
				<pid>2311</pid>
				<type>G</type>
				<process_name>/usr/lib/xorg/Xorg</process_name>
				<used_memory>4 MiB</used_memory>
			</process_info>"""
    if process is None:
        return f"{display}\n\t\t"
    pid, name, used = process
    return f"""{display}
			<process_info>
				<gpu_instance_id>N/A</gpu_instance_id>
				<compute_instance_id>N/A</compute_instance_id>
				<pid>{pid}</pid>
				<type>C</type>
				<process_name>{name}</process_name>
				<used_memory>{used} MiB</used_memory>
			</process_info>
		"""


def _topology(count: int, link: str) -> str:
    """As `nvidia-smi topo -m` prints it: the head underlined, cells behind tabs."""
    head = "\t".join(
        ["", *(f"\x1b[4mGPU{index}" for index in range(count)), "CPU Affinity", "NUMA Affinity\x1b[0m"]
    )
    rows = [
        "\t".join([f"GPU{row}", *(" X " if row == column else link for column in range(count)), "0-31", "0"])
        for row in range(count)
    ]
    return "\n".join(
        [
            head,
            *rows,
            "",
            "Legend:",
            "",
            "  X    = Self",
            "  NV#  = Connection traversing a bonded set of # NVLinks",
            "",
        ]
    )


def _peers(count: int, status: str) -> str:
    head = "\t".join([" ", *(f"\x1b[4mGPU{index}" for index in range(count))]) + "\x1b[0m"
    rows = [
        "\t".join([f" GPU{row}", *("X" if row == column else status for column in range(count))])
        for row in range(count)
    ]
    return "\n".join([head, *rows, "", "Legend:", "", "  X    = Self", "  OK   = Status Ok", ""])


def _lspci(redirects: bool) -> str:
    set_to = "ReqRedir+ CmpltRedir+" if redirects else "ReqRedir- CmpltRedir-"
    return f"""00:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] GPP Bridge (prog-if 00 [Normal decode])
	Capabilities: [2a0 v1] Access Control Services
		ACSCap:	SrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
		ACSCtl:	SrcValid+ TransBlk- {set_to} UpstreamFwd+ EgressCtrl- DirectTrans-

01:00.0 3D controller: NVIDIA Corporation Device 20b2 (rev a1)
	Capabilities: [100 v2] Advanced Error Reporting
"""


def _files(description: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    gpus = gpus_of(description)
    for index in range(len(gpus)):
        folder = f"/sys/bus/pci/devices/0000:{_bus(index).lower()}:00.0"
        yield f"{folder}/vendor", "0x10de\n"
        yield f"{folder}/class", "0x030200\n"
        if kind := description.get("iommu"):
            yield f"{folder}/iommu_group/type", f"{kind}\n"
    yield "/sys/bus/pci/devices/0000:00:00.0/vendor", "0x1022\n"
    usual = [*(f"nvidia{index}" for index in range(len(gpus))), "nvidiactl", "nvidia-uvm"] if gpus else []
    yield "/dev/null", ""
    for name in description.get("nodes", usual):
        yield f"/dev/{name}", ""
    if description.get("container"):
        yield "/.dockerenv", ""
    if torch := description.get("torch"):
        yield f"{SITE}/torch/version.py", _version_py(torch)
    for name, text in description.get("project", {}).items():
        yield f"{PROJECT}/{name}", text
    yield from description.get("files", {}).items()


def _version_py(torch: Mapping[str, Any]) -> str:
    cuda, hip = (repr(torch[key]) if torch.get(key) else "None" for key in ("cuda", "hip"))
    return (
        "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
        f"__version__ = '{torch['version']}'\ndebug = False\ncuda: Optional[str] = {cuda}\n"
        f"git_version = 'e2d141dbde55c2a4370fac5165b0561b6af4798b'\nhip: Optional[str] = {hip}\n"
    )


def _metadata(description: Mapping[str, Any]) -> Iterator[Metadata]:
    installed = dict(description.get("packages", {}))
    if torch := description.get("torch"):
        installed["torch"] = torch["version"]
    requires = description.get("requires", {})
    for name, version in installed.items():
        needs = requires.get(name) or _needs(name, version)
        origin = description.get("origins", {}).get(name)
        direct = json.dumps({"url": origin, "archive_info": {}}) if origin else ""
        yield Metadata(SITE, _metadata_text(name, version, needs), direct)
    for name, version in description.get("again", {}).items():
        yield Metadata(USER_SITE, _metadata_text(name, version, _needs(name, version)))


def _needs(name: str, version: str) -> list[str]:
    """What the wheel on PyPI requires of torch and triton."""
    public, _, local = version.partition("+")
    if name == "torch" and not local.startswith(("cpu", "rocm")):
        pin = torch_builds().get(public, {}).get("triton", "")
        return [f'triton{pin}; platform_system == "Linux" and platform_machine == "x86_64"'] if pin else []
    row = companions().get((name, public))
    return ["numpy", f"torch{row['torch']}"] if row is not None else []


def _metadata_text(name: str, version: str, needs: Sequence[str]) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Summary: recorded"]
    return "\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs), "", "Text: of no matter"])
