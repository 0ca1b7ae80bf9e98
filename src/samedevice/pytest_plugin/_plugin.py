"""The hooks, the options, the fixture and the marker."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from samedevice.findings import Finding
    from samedevice.pytest_plugin._machine import SuiteMachine
    from samedevice.settings import Settings

_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
"""On the configuration: `[tool.samedevice]` of the project."""
_SUITE: pytest.StashKey[SuiteMachine] = pytest.StashKey()
"""On the configuration: the machine of the whole run."""
_OWN: pytest.StashKey[SuiteMachine] = pytest.StashKey()
"""On a test: the machine that was entered for it alone."""
_JUDGED: pytest.StashKey[int] = pytest.StashKey()
"""On a test: how many findings its outcome already tells."""
_BEFORE: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
"""On the configuration: what was found while the tests were collected and is not yet told."""

_MARKER = (
    'machine(spec, on_mismatch="raise"): run this test on a virtual machine of its own, such as "2x24GB" '
    "(samedevice). "
    'on_mismatch="record" notes what CUDA would refuse, moves the operand and goes on.'
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--machine`, `--on-mismatch`, `--device-findings` and the ini option `machine`."""
    group = parser.getgroup("samedevice", "virtual GPUs (samedevice)")
    group.addoption(
        "--machine",
        metavar="SPEC",
        help="run the tests on a virtual machine: 2x24GB, 8xA100-80G, 4xRTX4090, a + of those, or a TOML "
        'file; "" for none',
    )
    group.addoption(
        "--on-mismatch",
        choices=("raise", "record"),
        default="raise",
        help="what CUDA would refuse raises its error (default), or is noted, repaired and passed over",
    )
    group.addoption(
        "--device-findings",
        choices=("error", "report"),
        help="a test with findings fails, or is only reported; "
        "default: error with --on-mismatch=record, else report",
    )
    parser.addini("machine", "virtual machine for the tests, as for --machine", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Enter the machine before anything of the suite is imported."""
    given = early_config.known_args_namespace
    if not (given.help or given.version):
        _enter(early_config, given)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the plugins behind a machine."""
    from samedevice.pytest_plugin._summary import Summary

    config.addinivalue_line("markers", _MARKER)
    _enter(config, config.option)  # this plugin may have come with a conftest
    config.pluginmanager.register(Summary(config), "samedevice-summary")
    config.pluginmanager.register(_Tracebacks(), "samedevice-tracebacks")
    if _SUITE in config.stash:
        from samedevice.pytest_plugin._machine import Isolation

        config.pluginmanager.register(Isolation(config.stash[_SUITE]), "samedevice-isolation")


def _enter(config: pytest.Config, given: Any) -> None:
    spec = config.getini("machine") if given.machine is None else given.machine
    if not spec or _SUITE in config.stash or _only_hands_out(given):
        return
    from samedevice.pytest_plugin._machine import SuiteMachine

    machine = SuiteMachine(spec, given.on_mismatch)
    stack = ExitStack()
    stack.enter_context(machine.entered())
    config.add_cleanup(stack.close)
    config.stash[_SUITE] = machine


def _settings(config: pytest.Config) -> Settings:
    """The settings of the project, read once and not before a machine is there."""
    if _SETTINGS not in config.stash:
        from samedevice.errors import UsageError
        from samedevice.report import error_text
        from samedevice.settings import find_settings

        try:
            config.stash[_SETTINGS] = find_settings(config.rootpath)
        except UsageError as error:
            raise pytest.UsageError(f"samedevice: {error_text(error)}") from None
    return config.stash[_SETTINGS]


def _left(
    config: pytest.Config, machine: SuiteMachine
) -> tuple[list[Finding[str]], list[list[Any]], list[str]]:
    """What a machine found and is to be told, the statements that are left out, and comments that fail to."""
    from samedevice.pytest_plugin._summary import statement_of
    from samedevice.report import problem_lines, render_finding

    sifted = machine.sifted(_settings(config).ignore)
    left_out = [statement_of(render_finding(each.finding)) for each in sifted.ignored]
    told = [render_finding(finding) for finding in sifted.findings]
    return told, left_out, problem_lines(sifted)


def _only_hands_out(given: Any) -> bool:
    """Whether this process runs no test itself: the controller of xdist."""
    distributes = bool(getattr(given, "numprocesses", None) or getattr(given, "tx", None))
    return distributes and "PYTEST_XDIST_WORKER" not in os.environ


def pytest_report_header(config: pytest.Config) -> str | None:
    """The machine, if there is one."""
    spec = config.getini("machine") if config.option.machine is None else config.option.machine
    return f"machine: {spec} (virtual), on mismatch: {config.option.on_mismatch}" if spec else None


# -- tests


@pytest.fixture
def virtual_machine(request: pytest.FixtureRequest) -> Iterator[SuiteMachine]:
    """The virtual machine of this test, with its `findings` and its `memory()`.

    The machine of `@pytest.mark.machine(...)`, or else that of the run, or else a 2x24GB.
    """
    from samedevice.pytest_plugin._machine import DEFAULT_MACHINE, SuiteMachine

    marker = request.node.get_closest_marker("machine")
    suite = request.config.stash.get(_SUITE, None)
    if marker is None and suite is not None:
        yield suite
        return
    spec = _settings(request.config).machine or DEFAULT_MACHINE
    mode = request.config.option.on_mismatch
    if marker is not None:
        spec, mode = _of_marker(*marker.args, **{"on_mismatch": mode, **marker.kwargs})
    own = SuiteMachine(spec, mode)
    with own.entered(), own.isolated():
        request.node.stash[_OWN] = own
        yield own


def _of_marker(spec: str, on_mismatch: Any) -> tuple[str, Any]:
    return spec, on_mismatch


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test uses the fixture, inside those of wider scope and outside all others."""
    if item.get_closest_marker("machine") is None or not isinstance(item, pytest.Function):
        return
    names = item.fixturenames
    if "virtual_machine" not in names:
        known = item._fixtureinfo.name2fixturedefs
        inner = (
            place for place, name in enumerate(names) if name in known and known[name][-1].scope == "function"
        )
        names.insert(next(inner, len(names)), "virtual_machine")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was found while test modules were imported."""
    from samedevice.pytest_plugin._summary import as_entries

    suite = session.config.stash.get(_SUITE, None)
    if suite is not None and suite.found:
        findings, _, _ = _left(session.config, suite)
        session.config.stash[_BEFORE] = as_entries(findings, "while the tests were imported")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """With `--device-findings=error`, a test that got through with findings fails."""
    try:
        result = yield
        _refuse_findings(item)
        return result
    finally:
        item.stash[_JUDGED] = sum(machine.found for machine in _machines(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Attach the findings: to a failure as a section, to the last report of a test as data."""
    report: Any = yield
    machines = _machines(item)
    reads = [
        place for machine in machines for place in machine.assumed_reads if "/_pytest/" not in place.file
    ]
    if report.failed and reads:
        from samedevice.report import assumed_text

        report.sections.append(("Assumed values", assumed_text(reads)))
    if not any(machine.found for machine in machines) and _BEFORE not in item.config.stash:
        return report
    from samedevice.pytest_plugin._summary import as_entries, as_text

    parted = [_left(item.config, machine) for machine in machines]
    findings = [finding for told, _, _ in parted for finding in told]
    if report.failed and findings and not _told(call):
        report.sections.append(("Device findings", as_text(findings)))
    if report.when == "teardown":
        entries = as_entries(findings, item.nodeid)
        report.user_properties += [("device_finding", entry["line"]) for entry in entries]
        report.device_findings = item.config.stash.get(_BEFORE, []) + entries
        report.device_findings_ignored = [each for _, left_out, _ in parted for each in left_out]
        report.device_problems = [line for _, _, lines in parted for line in lines]
        if _BEFORE in item.config.stash:
            del item.config.stash[_BEFORE]
    return report


class _Tracebacks:
    """Plugin of its own: one plugin cannot both wrap a hook and take part in it."""

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """End a traceback at the failing statement, as on real hardware.

        `--full-trace` shows our frames, too.
        """
        if call.excinfo is None or not _machines(item) or item.config.getoption("fulltrace", False):
            return
        from samedevice.provenance import without_ours

        trimmed = without_ours(call.excinfo.tb)
        if trimmed is not None:
            call.excinfo = pytest.ExceptionInfo.from_exc_info(
                (call.excinfo.type, call.excinfo.value, trimmed)
            )


def _machines(item: pytest.Item) -> list[SuiteMachine]:
    found = (item.config.stash.get(_SUITE, None), item.stash.get(_OWN, None))
    return [machine for machine in found if machine is not None]


def _refuse_findings(item: pytest.Item) -> None:
    choice = item.config.option.device_findings
    findings = [
        finding
        for machine in _machines(item)
        if choice == "error" or (choice is None and machine.on_mismatch == "record")
        for finding in _left(item.config, machine)[0]
    ]
    if findings:
        from samedevice.pytest_plugin._summary import as_text

        failure = pytest.fail.Exception(as_text(findings), pytrace=False)
        failure.device_findings = True  # type: ignore[attr-defined]  # so that they are not told twice
        raise failure


def _told(call: pytest.CallInfo[None]) -> bool:
    return call.excinfo is not None and hasattr(call.excinfo.value, "device_findings")
