"""`[tool.samedevice]` of a project's `pyproject.toml`: what holds for every command run in it.

The nearest `pyproject.toml` with such a table counts, from the working directory upwards. Must guarantee: a
key or a value that is not understood is an error that names the file, the key and what is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from samedevice import rulebook
from samedevice.errors import UsageError
from samedevice.findings import OUTPUT_FORMATS, IgnoredCode, OutputFormat
from samedevice.messages import Language, Phrase, languages

_FILE = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class LintSettings:
    """What a project settled for `samedevice lint`, in `[tool.samedevice.lint]`."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project settled; None and nothing where it says nothing."""

    file: Path | None = None
    """The file that it stands in; None without one."""
    machine: str | None = None
    language: Language | None = None
    launcher: str | None = None
    nproc: int | None = None
    output_format: OutputFormat | None = None
    baseline: Path | None = None
    ignore: tuple[IgnoredCode, ...] = ()
    lint: LintSettings = LintSettings()

    @property
    def given(self) -> tuple[str, ...]:
        """The keys that the file has, as it writes them."""
        values = {name: getattr(self, name.replace("-", "_")) for name in _KEYS}
        return tuple(name for name, value in values.items() if value not in (None, (), LintSettings()))


def find_settings(folder: Path) -> Settings:
    """The settings that hold in a folder; raises `UsageError` for a table that is not understood."""
    try:
        folder = folder.resolve()
    except OSError:  # the working directory is gone
        return Settings()
    for candidate in (folder, *folder.parents):
        table = _table(candidate / _FILE)
        if table is not None:
            return _read(candidate / _FILE, table)
    return Settings()


def _table(file: Path) -> Any:
    """The value of `tool.samedevice` in a file; None where there is none."""
    try:
        content = file.read_bytes()
    except OSError:  # no such file, or one that other tools complain about
        return None
    if b"samedevice" not in content:
        return None
    import tomllib

    try:
        tool = tomllib.loads(content.decode("utf-8-sig")).get("tool")
    except (ValueError, RecursionError) as error:
        raise UsageError(Phrase("settings.no-toml", file=str(file), reason=str(error))) from None
    return tool.get("samedevice") if isinstance(tool, dict) else None


def _read(file: Path, table: Any) -> Settings:
    if not isinstance(table, dict):
        raise _wrong(file, "", table, "settings.a-table")
    for key in table:
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise UsageError(Phrase("settings.unknown-key", file=str(file), key=key, known=known))
    values = {key.replace("-", "_"): _KEYS[key](file, key, value) for key, value in table.items()}
    return Settings(file, **values)


def _machine(file: Path, key: str, value: Any) -> str:
    """A specification; a file is named from the folder of the settings."""
    from samedevice.machines import is_file_spec, parse_machine

    spec = _text(file, key, value)
    if is_file_spec(spec):
        spec = str(file.parent / spec)
    try:
        parse_machine(spec)
    except UsageError as error:
        raise UsageError(Phrase("settings.machine", file=str(file), key=key, reason=error.args[0])) from None
    return spec


def _launcher(file: Path, key: str, value: Any) -> str:
    from samedevice.launchers import PYTHON, STARTED

    return _one_of(file, key, value, (PYTHON.name, *STARTED))


def _language(file: Path, key: str, value: Any) -> Language:
    return _one_of(file, key, value, languages())


def _format(file: Path, key: str, value: Any) -> str:
    return _one_of(file, key, value, OUTPUT_FORMATS)


def _processes(file: Path, key: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(file, key, value, "settings.a-number")
    return value


def _path(file: Path, key: str, value: Any) -> Path:
    return file.parent / _text(file, key, value)


def _ignore(file: Path, key: str, value: Any) -> tuple[IgnoredCode, ...]:
    if not isinstance(value, list):
        raise _wrong(file, key, value, "settings.a-list-of-codes")
    return tuple(_ignored(file, f"{key}[{number}]", row) for number, row in enumerate(value))


def _ignored(file: Path, key: str, row: Any) -> IgnoredCode:
    names = ("code", "reason")
    if not isinstance(row, dict) or set(row) != set(names):
        raise _wrong(file, key, row, "settings.a-code-with-reason")
    code, reason = (_text(file, f"{key}.{name}", row[name]) for name in names)
    rule = rulebook.find_rule(code)
    if rule is None or rule.code != code:
        raise UsageError(Phrase("settings.unknown-code", file=str(file), key=f"{key}.code", given=code))
    return IgnoredCode(code, reason, str(file))


def _lint(file: Path, key: str, value: Any) -> LintSettings:
    if not isinstance(value, dict):
        raise _wrong(file, key, value, "settings.a-table")
    names = tuple(each.name for each in fields(LintSettings))
    for name in value:
        if name not in names:
            known = ", ".join(f"{key}.{each}" for each in names)
            raise UsageError(Phrase("settings.unknown-key", file=str(file), key=f"{key}.{name}", known=known))
    return LintSettings(**{name: _words(file, f"{key}.{name}", row) for name, row in value.items()})


def _words(file: Path, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong(file, key, value, "settings.a-list-of-texts")
    return tuple(_text(file, f"{key}[{number}]", each) for number, each in enumerate(value))


def _text(file: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(file, key, value, "settings.a-text")
    return value.strip()


def _one_of(file: Path, key: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise UsageError(
            Phrase("settings.wrong-value", file=str(file), key=key, given=repr(value), known=", ".join(known))
        )
    return str(value)


def _wrong(file: Path, key: str, value: Any, wanted: str) -> UsageError:
    where = f"tool.samedevice.{key}" if key else "tool.samedevice"
    return UsageError(
        Phrase("settings.wrong-type", file=str(file), key=where, wanted=Phrase(wanted), given=_shown(value))
    )


def _shown(value: Any) -> str:
    return repr(value)[:80]


_KEYS: Mapping[str, Callable[[Path, str, Any], Any]] = {
    "machine": _machine,
    "language": _language,
    "launcher": _launcher,
    "nproc": _processes,
    "output-format": _format,
    "baseline": _path,
    "ignore": _ignore,
    "lint": _lint,
}
"""Each key with what reads its value. A new one is a row here, a field above, a row of docs/settings.md."""
