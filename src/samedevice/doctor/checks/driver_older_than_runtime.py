"""A driver that is older than the CUDA that torch was built with."""

from __future__ import annotations

from collections.abc import Iterator

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.tables import architectures, driver_minimum
from samedevice.doctor.visible import version_tuple
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    if facts.driver is None or not facts.driver.version or facts.torch is None or not facts.torch.cuda:
        return
    row = driver_minimum().get(version_tuple(facts.torch.cuda)[0])
    if row is None or version_tuple(facts.driver.version) >= version_tuple(row["driver"]):
        return
    if _forward(facts) or (facts.cuda is not None and facts.cuda.count):  # it works, whatever the numbers say
        return
    values = {"driver": facts.driver.version, "torch": facts.torch.version, "cuda": facts.torch.cuda}
    yield Fault(
        Phrase("checks.driver-older-than-runtime.older", **values, least=row["driver"]),
        _repair(facts, row["driver"]),
    )


def _forward(facts: Facts) -> bool:
    """Whether NVIDIA's package for forward compatibility stands in for the driver, in a data centre.

    nvidia-smi then names the CUDA of that package beside the release of the driver.
    """
    assert facts.driver is not None and facts.torch is not None
    if version_tuple(facts.driver.cuda)[:1] >= version_tuple(facts.torch.cuda)[:1]:
        return True
    consumer = any("GeForce" in gpu.name for gpu in facts.gpus or ())
    compat = any("compat" in path and name == "libcuda.so.1" for path, (name, _) in facts.searched.items())
    return compat and not consumer


def _repair(facts: Facts, least: str) -> Phrase:
    """A newer driver, or the newest torch build that this driver runs."""
    assert facts.driver is not None
    own = version_tuple(facts.driver.version)
    fitting = [cuda for cuda, row in driver_minimum().items() if own >= version_tuple(row["driver"])]
    builds = [
        row
        for row in architectures()
        if fitting and row["cuda"][-1].isdigit() and version_tuple(row["cuda"])[0] == max(fitting)
    ]
    if not builds:
        return Phrase("checks.driver-older-than-runtime.newer-driver", least=least)
    newest = max(builds, key=lambda row: (version_tuple(row["until"]), version_tuple(row["cuda"])))
    return Phrase(
        "checks.driver-older-than-runtime.either",
        least=least,
        cuda=newest["cuda"],
        until=newest["until"],
        index=newest["cuda"].replace(".", ""),
    )


CHECK = Check(
    code="SD301",
    name="driver-older-than-runtime",
    title={
        "en": "the driver is too old for the CUDA of this torch",
        "zh": "驱动太旧，带不动这个 torch 的 CUDA",
    },
    reads=("driver",),
    sources=("https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",),
    look=_look,
    sentences={
        "older": {
            "en": "torch {torch} was built with CUDA {cuda}, which needs a driver from {least} on; here "
            "is {driver}",
            "zh": "torch {torch} 用 CUDA {cuda} 编译，需要 {least} 以上的驱动，而这台机器的驱动是 {driver}",
        },
        "newer-driver": {
            "en": "install a driver from {least} on",
            "zh": "把驱动升级到 {least} 以上",
        },
        "either": {
            "en": "install a driver from {least} on, or a torch that was built with CUDA {cuda}, known here "
            "up to torch {until}: pip install torch --index-url https://download.pytorch.org/whl/cu{index}",
            "zh": "把驱动升级到 {least} 以上；不能动驱动时，改装用 CUDA {cuda} 编译的 torch"
            "（这里已知到 {until} 都有）："
            "pip install torch --index-url https://download.pytorch.org/whl/cu{index}",
        },
    },
)
