"""Errors about something else than devices: how sure that is, what they are about, and what to do.

For memory that goes by the amounts that the error names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from samedevice.diagnosis._topic import about_something_else, check_in_a_kernel, error_told, mostly_an_index
from samedevice.diagnosis._weigh import UNDETERMINED, Verdict, Weighed, decide, weigh_report
from samedevice.diagnosis.paste import Pattern, Report, names_a_device
from samedevice.diagnosis.rules import rule_named
from samedevice.diagnosis.story import MEETS, read_story, tells_of_devices
from samedevice.findings import Confidence
from samedevice.messages import Bytes, Phrase, Several

ELSEWHERE = "not-a-device-error"
_TOPICS = {
    "shape": ("rules.not-a-device-error.topic-shape", "rules.not-a-device-error.cure-shape"),
    "dtype": ("rules.not-a-device-error.topic-dtype", "rules.not-a-device-error.cure-dtype"),
    "state-dict": ("rules.not-a-device-error.topic-state-dict", "rules.not-a-device-error.cure-state-dict"),
    "out-of-memory": (
        "rules.not-a-device-error.topic-out-of-memory",
        "rules.not-a-device-error.cure-out-of-memory",
    ),
    "collective-timeout": (
        "rules.not-a-device-error.topic-collective-timeout",
        "rules.not-a-device-error.cure-collective-timeout",
    ),
    "collective-failure": (
        "rules.not-a-device-error.topic-collective-failure",
        "rules.not-a-device-error.cure-collective-failure",
    ),
    "launcher-exit": (
        "rules.not-a-device-error.topic-launcher-exit",
        "rules.not-a-device-error.cure-launcher-exit",
    ),
    "autograd": ("rules.not-a-device-error.topic-autograd", "rules.not-a-device-error.cure-autograd"),
    "index": ("rules.not-a-device-error.topic-index", "rules.not-a-device-error.cure-index"),
    "import": ("rules.not-a-device-error.topic-import", "rules.not-a-device-error.cure-import"),
    "network": ("rules.not-a-device-error.topic-network", "rules.not-a-device-error.cure-network"),
    "files": ("rules.not-a-device-error.topic-files", "rules.not-a-device-error.cure-files"),
    "process": ("rules.not-a-device-error.topic-process", "rules.not-a-device-error.cure-process"),
    "numbers": ("rules.not-a-device-error.topic-numbers", "rules.not-a-device-error.cure-numbers"),
    "python": ("rules.not-a-device-error.topic-python", "rules.not-a-device-error.cure-python"),
    "speed": ("rules.not-a-device-error.topic-speed", "rules.not-a-device-error.cure-speed"),
    "quality": ("rules.not-a-device-error.topic-quality", "rules.not-a-device-error.cure-quality"),
    "agreement": ("rules.not-a-device-error.topic-agreement", "rules.not-a-device-error.cure-agreement"),
}
"""For each topic its name and what to do."""
_MISSING_MODULE = Pattern(r"No module named '?(?P<module>[A-Za-z_][\w.]{0,80})")
_MISSING_NAME = Pattern(
    r"cannot import name '(?P<name>\w{1,80})' from (?P<partial>partially initialized module )?"
    r"'(?P<module>[A-Za-z_][\w.]{0,80})'"
)
_CIRCULAR = "circular import"
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dotenv": "python-dotenv",
    "flash_attn": "flash-attn --no-build-isolation",
    "git": "GitPython",
    "hydra": "hydra-core",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}
"""What is to be installed, by the name that is imported, where PyPI has the package under another name."""
_FOR_A_GPU = re.compile(r"\b(?:GPU|CUDA|NCCL)\b", re.IGNORECASE)
"""Of what does not load: that it is a build for GPUs, which may also be a fault of the machine."""
_AFTER_EFFECTS = frozenset(
    {
        "launcher-exit",
        "collective-timeout",
        "collective-failure",
        "out-of-memory",
        "numbers",
        "process",
        "python",
        "agreement",
    }
)
"""What may also follow from tensors in the wrong place, in this process or in another one."""
_IN_A_REPLICA = Pattern(r"Caught \w{3,40} in replica \d{1,3} on device \d{1,3}")
"""What `torch.nn.DataParallel` puts before an error of one of its threads."""
_OTHERS_SHARE = 5
"""Another process matters when it holds more than one part in so many."""
_UNUSED_SHARE = 20
"""Memory that torch keeps unused matters when it is more than one part in so many."""
_NOTES = {
    "total": "note.memory-total",
    "free": "note.memory-free",
    "allocated": "note.memory-allocated",
    "reserved": "note.memory-reserved",
    "others": "note.memory-others",
}


_OF_A_GPU = ("hardware-or-driver", "kernel-launched-on-current-device")
"""Causes that may make an index wrong which a kernel then refuses."""


_OF_SHAPES = Pattern(r"\s*assert\b[^#\n]{0,80}(?:\.shape\b|\.size\(|\.ndim\b|\bdim\b)")
"""An assertion about sizes."""


def with_topic(report: Report) -> Report:
    """The report; with what it is about, where that is not devices.

    Prose that tells of a device error is about that one, whatever else it quotes.
    """
    if report.topic is not None:
        if report.topic == "out-of-memory" and _told_no_mismatch(report):
            return report
        told = replace(report, topic=None, kind="unknown-message", whole=False)
        raised = report.exception is not None and report.whole
        return told if tells_of_devices(told) and not (raised and _told_no_mismatch(report)) else report
    if report.frames and "AssertionError" in report.words and _OF_SHAPES.match(report.frames[-1].code):
        return replace(report, topic="shape", whole=False)
    reading = read_story(report)
    if (checked := check_in_a_kernel(report)) is not None:
        machine = reading is not None and reading.sure and reading.cause in _OF_A_GPU
        return report if machine else replace(report, topic=checked)
    if reading is None and mostly_an_index(report):
        return replace(report, topic="index", whole=False)
    topic = about_something_else(report)
    if topic is None or report.told is None:
        return report
    if report.kind == "no-exception" and decide(weigh_report(report)).cause != UNDETERMINED:
        return report
    if reading is not None and (reading.sure or error_told(report.told) is None):
        return report
    return replace(report, topic=topic, whole=False)


def _told_no_mismatch(report: Report) -> bool:
    """Whether the prose around an error that was raised says nowhere that devices met."""
    return report.told is not None and not report.told.mentions(MEETS)


def verdict_elsewhere(report: Report) -> Verdict:
    """The verdict on an error that is about something else: certain where its own wording says so."""
    if report.topic is not None and (report.whole or report.kind == "device-assert"):
        about = Phrase("rules.not-a-device-error.about", topic=_name(report.topic))
        if report.kind == "device-assert":  # wrong values may also come from a copy between GPUs
            machine = (Weighed(rule_named("hardware-or-driver"), 0.0, ()),)
            sure = report.whole and report.topic == "index"
            return Verdict(ELSEWHERE, "likely" if sure else "guess", machine, (about,))
        of_a_build = report.topic == "import" and _FOR_A_GPU.search(report.message or "") is not None
        later = report.topic in _AFTER_EFFECTS or of_a_build
        return Verdict(ELSEWHERE, "likely" if later else "certain", reasons=(about,))
    named = report.message is not None and names_a_device(report.message)
    confidence: Confidence = "likely" if report.exception is not None and not named else "guess"
    if named and report.topic in _TOPICS:
        return Verdict(
            ELSEWHERE,
            confidence,
            reasons=(Phrase("rules.not-a-device-error.about", topic=_name(report.topic)),),
        )
    return Verdict(ELSEWHERE, confidence, reasons=(Phrase("rules.not-a-device-error.no-device-named"),))


def title_elsewhere(report: Report) -> Phrase:
    """One line: what did not fit, or what the error is about."""
    if report.memory is not None and "asked" in report.memory.amounts:
        amount, device = Bytes(report.memory.amounts["asked"]), report.memory.device or "cuda"
        return Phrase("rules.out-of-memory.headline", amount=amount, devices=device)
    if report.topic not in _TOPICS:
        return Phrase("rules.not-a-device-error.title")
    return Phrase("rules.not-a-device-error.title-topic", topic=_name(report.topic))


def cure_elsewhere(report: Report) -> Phrase:
    """What to do, by what the error is about; for memory by its amounts."""
    amounts = report.memory.amounts if report.memory is not None else {}
    asked, total, others = (amounts.get(name, 0) for name in ("asked", "total", "others"))
    reserved = amounts.get("reserved") or amounts.get("held", 0) - amounts.get("allocated", 0)
    if asked and total and asked > total:
        key = "rules.not-a-device-error.cure-memory-too-large"
        return Phrase(key, asked=Bytes(asked), total=Bytes(total))
    if others * _OTHERS_SHARE > total > 0:
        return Phrase("rules.not-a-device-error.cure-memory-others", others=Bytes(others))
    if asked and reserved > 2 * asked and reserved * _UNUSED_SHARE > total:
        return Phrase("rules.not-a-device-error.cure-memory-fragmented", reserved=Bytes(reserved))
    if report.topic == "import" and (cure := _cure_of_import(report.message or "")) is not None:
        return cure
    if report.topic == "shape" and _IN_A_REPLICA.search(report.words):
        return Phrase("rules.not-a-device-error.cure-shape-in-a-replica")
    return Phrase(_TOPICS[report.topic][1] if report.topic in _TOPICS else "rules.not-a-device-error.cure")


def _cure_of_import(message: str) -> Phrase | None:
    """What to do about a package, a part of one or a name that Python does not find; None for all else."""
    if (found := _MISSING_NAME.search(message)) is not None:
        package = found["module"].partition(".")[0]
        if found["partial"] or _CIRCULAR in message:
            return Phrase("rules.not-a-device-error.cure-import-circular", module=found["module"])
        return Phrase("rules.not-a-device-error.cure-import-part", part=found["name"], package=package)
    if "torchvision::" in message:
        return Phrase("rules.not-a-device-error.cure-import-torchvision")
    if (found := _MISSING_MODULE.search(message)) is None:
        return None
    module = found["module"].rstrip(".")
    package, _, part = module.partition(".")
    if part:
        return Phrase("rules.not-a-device-error.cure-import-part", part=module, package=package)
    if (known := _DISTRIBUTIONS.get(package)) is not None:
        return Phrase("rules.not-a-device-error.cure-import-known", package=known)
    return Phrase("rules.not-a-device-error.cure-import-missing", module=module)


def memory_notes(amounts: Mapping[str, int]) -> list[Phrase]:
    """What a GPU held when memory did not suffice."""
    parts = tuple(Phrase(key, amount=Bytes(amounts[name])) for name, key in _NOTES.items() if name in amounts)
    return [Phrase("note.memory", parts=Several(parts, "comma"))] if parts else []


def _name(topic: str) -> Phrase:
    return Phrase(_TOPICS[topic][0])
