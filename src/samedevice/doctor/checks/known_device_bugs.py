"""Releases of libraries with device bugs that the project may meet."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from samedevice.doctor.check import Check, Fault
from samedevice.doctor.facts import Facts
from samedevice.doctor.tables import KnownBug, known_bugs
from samedevice.messages import Phrase


def _look(facts: Facts) -> Iterator[Fault]:
    used = {use.what: use for use in facts.project.bugs}
    groups: dict[tuple[str, str], list[tuple[KnownBug, bool]]] = {}
    for bug in known_bugs():
        package = facts.package(bug.package)
        if bug.case not in used or package is None or package.release is None:
            continue
        if (bug.spread and not facts.project.spread) or (bug.offloaded and not facts.project.offloaded):
            continue
        certain = bug.certain_in(Version(package.release.public))
        if certain is not None:
            groups.setdefault((bug.package, bug.subject or used[bug.case].name), []).append((bug, certain))
    for (name, subject), found in groups.items():
        package = facts.package(name)
        assert package is not None
        bugs = [bug for bug, _ in found]
        certain = all(certain for _, certain in found)
        place = used[bugs[0].case].place
        values = {"name": name, "version": package.version, "subject": subject, "place": place}
        sources = ", ".join(bug.source for bug in bugs)
        repaired = [bug.good for bug in bugs if bug.good is not None]
        yield Fault(
            Phrase(
                "checks.known-device-bugs.one" if len(bugs) == 1 else "checks.known-device-bugs.several",
                **values,
                count=len(bugs),
            ),
            Phrase("checks.known-device-bugs.upgrade", name=name, good=str(max(repaired)))
            if repaired
            else Phrase("checks.known-device-bugs.patch"),
            "certain" if certain else "likely",
            (Phrase("checks.known-device-bugs.sources", sources=sources),)
            + (() if certain else (Phrase("checks.known-device-bugs.between", bad=str(bugs[0].bad)),)),
        )


CHECK = Check(
    code="SD305",
    name="known-device-bugs",
    title={
        "en": "an installed library has known device bugs in what the project uses",
        "zh": "项目用到的库版本有已知的设备缺陷",
    },
    reads=("packages", "project"),
    sources=(
        "docs/zoo.md: each bug was run with the release that has it and with the one that repairs it",
        "docs/found: each bug was run with the release that has it and with a copy that has our patch",
    ),
    look=_look,
    sentences={
        "one": {
            "en": "{name} {version} has {count} known device bug in {subject}, which {place} uses",
            "zh": "{name} {version} 的 {subject} 有 {count} 个已知设备缺陷，{place} 用到了它",
        },
        "several": {
            "en": "{name} {version} has {count} known device bugs in {subject}, which {place} uses",
            "zh": "{name} {version} 的 {subject} 有 {count} 个已知设备缺陷，{place} 用到了它",
        },
        "upgrade": {
            "en": 'pip install "{name}>={good}", where that is repaired',
            "zh": 'pip install "{name}>={good}"，其中已经修复',
        },
        "patch": {
            "en": "no release is known that repairs it; the page has a patch, and on one GPU nothing fails",
            "zh": "还没有已知的修复版本；说明页里有补丁，放在一块 GPU 上不会出错",
        },
        "sources": {"en": "see {sources}", "zh": "参见 {sources}"},
        "between": {
            "en": "tried was {bad}; this release stands between that and the repair, or has the same lines",
            "zh": "实际试过的是 {bad}；当前版本介于它和修复版本之间，或者有相同的代码",
        },
    },
)
