"""Write the releases with known device bugs into the doctor's tables: from the zoo, and from the sweep.

python -m tools.known_bad            # write known_bad.toml and found_bad.toml in src/samedevice/doctor/tables
python -m tools.known_bad --check    # exit status 1 when one is stale

A case of the zoo names the release that has a bug, the one that has not, the file of the library where it
fails, and a script that shows it. From the script comes what a project must use to meet the bug: the classes
that it imports, without those that cases import which fail in several files (`get_peft_model`). A case that
has no other names has no row.

A page of docs/found names the release, the classes that meet the bug, and older releases with the same lines.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from evidence.found.case import Case, cases

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "src" / "evidence" / "zoo"
TABLES = ROOT / "src" / "samedevice" / "doctor" / "tables"
TABLE = TABLES / "known_bad.toml"
FOUND = TABLES / "found_bad.toml"
_COMMON = 3
"""A name that cases import which fail in so many files of a library says nothing of one of them."""
_LEAST = 4
"""Letters of a word that may tell."""
_HEAD = """\
# Releases of libraries with device bugs, from the zoo of released bugs (docs/zoo.md), each of which was run
# with both releases. Written by `python -m tools.known_bad`.
#
# bad    a release that has the bug    names     classes and functions that meet it, any or all (together)
# good   a release that repairs it     stems     beginnings of the names of a model's classes
"""
_FOUND_HEAD = """\
# Releases of libraries with device bugs that the sweep found (docs/found). Each was run with the release, and
# with a copy of it that has a patch; no release is known that repairs it. Written by
# `python -m tools.known_bad`.
#
# bad    a release that has the bug          names    classes that meet it, any of them
# since  an older one with the same lines    stems    beginnings of the names of a model's classes
# spread whether only a model that a device map spreads meets it
# offloaded  whether only a model meets it whose weights wait in host memory
"""


def main(arguments: Sequence[str]) -> int:
    """Write or check the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    written = {TABLE: table(), FOUND: found_table()}
    if options.check:
        stale = [path for path, text in written.items() if _text_of(path) != text]
        for path in written:
            told = "stale: run python -m tools.known_bad" if path in stale else "up to date"
            print(f"{path.name} is {told}")
        return int(bool(stale))
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _text_of(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def found_table() -> str:
    """The table of what the sweep found, as the pages have it now."""
    return "\n".join([_FOUND_HEAD, *(_found_row(case) for case in cases())])


def _found_row(case: Case) -> str:
    seen = case.seen
    if not seen["classes"]:
        raise ValueError(f"{case.name}: a row without classes would be told to every project")
    offloaded = re.search(r"\benable_\w+_offload\(", case.script.read_text("utf-8")) is not None
    family = Path(seen["statement"]).parts[2].replace("_", "")
    stems = {_beginning(name, family) for name in seen["classes"]}
    alike = len(stems) == 1 and "" not in stems
    stem = stems.pop() if alike else ""
    facts: dict[str, Any] = {
        "case": case.name,
        "package": seen["package"],
        "module": seen["package"].replace("-", "_"),
        "bad": seen["version"],
        "subject": stem,
        "names": [] if alike else seen["classes"],
        "together": False,
        "stems": [stem] if alike else [],
        "offloaded" if offloaded else "spread": True,
        "source": f"docs/found/{case.name}.md",
    }
    if seen["same_lines"]:
        facts["since"] = min(seen["same_lines"], key=Version)
    return _written(facts)


def _written(facts: Mapping[str, Any]) -> str:
    return "\n".join(["[[bug]]", *(f"{key} = {json.dumps(value)}" for key, value in facts.items()), ""])


def table() -> str:
    """The table as the zoo has it now."""
    entries = json.loads((ZOO / "index.json").read_text(encoding="utf-8"))
    imported = {entry["id"]: _imported(entry, _module(entry)) for entry in entries}
    files = {
        (entry["package"], name, entry["expect"]["file"])
        for entry in entries
        for name in imported[entry["id"]]
    }
    counts = Counter((package, name) for package, name, _ in files)
    rows = []
    for entry in sorted(entries, key=lambda each: (each["package"], each["id"])):
        package = entry["package"]
        names = [name for name in imported[entry["id"]] if counts[package, name] < _COMMON]
        if imported[entry["id"]] and not names:
            continue  # whatever a project imports from the library would be told of it
        rows.append(_row(entry, _module(entry), names))
    return "\n".join([_HEAD, *rows])


def _row(entry: Mapping[str, Any], module: str, names: Sequence[str]) -> str:
    package = entry["package"]
    stems = _stems(entry, names) if module in ("transformers", "diffusers") else []
    if stems:
        names = []
    telling = [name for name in names if _tells(name, entry)]
    subject = ", ".join(stems or telling or names) or package
    source = entry["fix"] or entry["issue"] or f"zoo: {entry['id']}"
    facts = {
        "case": entry["id"],
        "package": package,
        "module": module,
        "bad": entry["bad"][package],
        "good": entry["good"][package],
        "subject": subject,
        "names": telling or names,
        "together": not telling and not stems,
        "stems": stems,
        "source": source,
    }
    return _written(facts)


def _module(entry: Mapping[str, Any]) -> str:
    """The name that the package is imported by: it is in the script."""
    first = Path(entry["expect"]["file"]).parts[0]
    given = entry["package"].replace("-", "_")
    modules = {name.partition(".")[0] for name, _ in _imports(entry)}
    return given if given in modules else first if first in modules else _like(given, modules)


def _like(given: str, modules: set[str]) -> str:
    """`pyro` of `pyro_ppl`, `ignite` of `pytorch_ignite`."""
    return next((module for module in sorted(modules) if module in given.split("_")), given)


def _imported(entry: Mapping[str, Any], module: str) -> list[str]:
    """What the script imports from the package, in its order."""
    names = [name for source, name in _imports(entry) if source.partition(".")[0] == module and name]
    return list(dict.fromkeys(names))


def _imports(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    tree = ast.parse((ZOO / "cases" / f"{entry['id']}.py").read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return found


def _stems(entry: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The beginnings of the classes of the model that fails: `Qwen2_5_VL` of `Qwen2_5_VLConfig`."""
    parts = Path(entry["expect"]["file"]).parts
    family = parts[2] if parts[:2] == ("transformers", "models") else ""
    classes = [name for name in names if name.endswith("Config")] or list(names)
    stems = [name.removesuffix("Config") for name in classes if name.endswith("Config")]
    plain = family.replace("_", "")
    found = [_beginning(stem, plain) for stem in stems] if plain else []
    return sorted({stem for stem in found if stem})


def _beginning(stem: str, plain: str) -> str:
    """`Mllama` of `MllamaVision` for the family `mllama`; empty for another family."""
    ends = range(1, len(stem) + 1)
    return next((stem[:end] for end in ends if stem[:end].lower().replace("_", "") == plain), "")


def _tells(name: str, entry: Mapping[str, Any]) -> bool:
    """Whether a name is what the case is about, by the file that fails and the name of the case."""
    path = Path(entry["expect"]["file"]).with_suffix("")
    words = {part.replace("_", "") for part in path.parts[1:]} | set(entry["id"].split("-"))
    plain = name.lower().replace("_", "")
    whole = "".join((*path.parts, entry["id"])).lower().replace("_", "").replace("-", "")
    return plain in whole or any(len(word) >= _LEAST and word in plain for word in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
