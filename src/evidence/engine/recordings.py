"""A recording of the rules and the journals that it is made of; for `record-rules` and `replay-rules`.

Must guarantee: what a worker has noted is there when it dies, and every run, with however many workers, goes
on from all journals. A journal has a line of JSON for each thing noted: `{"machine": ...}`, the digest of a
sample, the outcome of a case, an operator that is done.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 2

KINDS = ("call", "in-place", "out", "alone")
"""In `alone` it is the argument that is on the GPU, and everything else on the CPU."""
META = "meta"
"""The kind with the argument on the meta device, as a weight is that nobody has loaded."""
GRADIENT, GRADIENT_META = "gradient", "gradient-meta"
"""All arguments are on the GPU, and what `backward` is given for the result is elsewhere."""
MODULE, MODULE_META, OPTIMIZER = "module", "module-meta", "optimizer"
"""One tensor of a module, or of what an optimizer keeps, is elsewhere."""
STATEMENT = "statement"
"""A statement with tensors of both devices, as it is."""
ASKED = (META, GRADIENT, GRADIENT_META, MODULE, MODULE_META, OPTIMIZER, STATEMENT)
"""Kinds that are recorded only where they are named."""


@dataclass
class Recording:
    """What a machine did."""

    machine: dict[str, Any] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the key of the case."""
    samples: dict[str, str] = field(default_factory=dict)
    """Digests: another release of torch may have other samples under the same numbers."""


@dataclass
class Written(Recording):
    """What journals hold, which may be half of it."""

    done: set[str] = field(default_factory=set)
    """Operators without a case left."""


@dataclass(frozen=True)
class Journals:
    """Those of one recording, on a GPU or on a virtual machine."""

    recording: Path
    virtual: bool

    def of(self, worker: int) -> Path:
        """One worker's."""
        return self.recording.with_suffix(f"{self._kind}-{worker}.jsonl")

    @property
    def _kind(self) -> str:
        return ".virtual.partial" if self.virtual else ".partial"

    def paths(self) -> list[Path]:
        """Those that are there."""
        start = self.recording.with_suffix(f"{self._kind}-").name
        folder = self.recording.parent
        return sorted(path for path in folder.glob("*.jsonl") if path.name.startswith(start))

    @contextlib.contextmanager
    def noting(self, worker: int) -> Iterator[Callable[..., None]]:
        """A function that adds a line to a worker's journal."""
        with self.of(worker).open("a", encoding="utf-8") as file:
            file.write("\n")  # a killed worker's half line ends here

            def note(**what: Any) -> None:
                file.write(json.dumps(what) + "\n")
                file.flush()

            yield note

    def read(self) -> Written:
        """Everything that was noted."""
        found = Written()
        for path in self.paths():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    noted = json.loads(line)
                except ValueError:
                    continue  # an empty line, or a killed worker's half one
                if "key" in noted:
                    found.results[noted.pop("key")] = noted
                elif "sample" in noted:
                    found.samples[noted["sample"]] = noted["digest"]
                elif "done" in noted:
                    found.done.add(noted["done"])
                elif found.machine not in ({}, noted["machine"]):
                    raise SystemExit(f"{path} is of another machine: {noted['machine']}, {found.machine}")
                else:
                    found.machine = noted["machine"]
        return found

    def pack(self) -> None:
        """Write the recording: what machine, and the results with each distinct one once."""
        written = self.read()
        if not written.results:
            return
        distinct: dict[str, int] = {}
        numbers = {
            key: distinct.setdefault(json.dumps(result, sort_keys=True), len(distinct))
            for key, result in written.results.items()
        }
        whole = {
            "format": FORMAT,
            "machine": written.machine,
            "results": [json.loads(text) for text in distinct],
            "samples": written.samples,
            "cases": numbers,
        }
        partial = self.recording.with_suffix(".writing")  # the file is complete or not there at all
        with gzip.open(partial, "wt", encoding="utf-8", compresslevel=9) as file:
            json.dump(whole, file, separators=(",", ":"))
        partial.replace(self.recording)
        outcomes = Counter(result["outcome"] for result in written.results.values())
        counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        print(f"{len(numbers)} cases: {counted}")
        print(f"{self.recording}: {self.recording.stat().st_size / 1024:.0f} KiB")

    def remove(self) -> None:
        """They are in the recording."""
        for path in self.paths():
            path.unlink()


def load(path: Path) -> Recording:
    """A recording that was packed."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        whole = json.load(file)
    if whole["format"] != FORMAT:
        raise SystemExit(f"{path} has format {whole['format']}, {FORMAT} is needed: record it again")
    results = {key: whole["results"][number] for key, number in whole["cases"].items()}
    return Recording(whole["machine"], results, whole["samples"])
