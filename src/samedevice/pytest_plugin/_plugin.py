"""The hooks, the options, the fixture and the marker."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from samedevice.pytest_plugin._known import Known, Left
    from samedevice.pytest_plugin._machine import SuiteMachine
    from samedevice.pytest_plugin._summary import Notes

_KNOWN: pytest.StashKey[Known] = pytest.StashKey()
"""On the configuration: what the project decided not to be told."""
_SUITE: pytest.StashKey[SuiteMachine] = pytest.StashKey()
"""On the configuration: the machine of the whole run."""
_OWN: pytest.StashKey[SuiteMachine] = pytest.StashKey()
"""On a test: the machine that was entered for it alone."""
_RAN: pytest.StashKey[bool] = pytest.StashKey()
"""On a test: that it ran to its end."""
_BEFORE: pytest.StashKey[Notes] = pytest.StashKey()
"""On the configuration: what was found while the tests were collected and is not yet told."""

_MARKER = (
    'machine(spec, on_mismatch="raise"): run this test on a virtual machine of its own, such as "2x24GB" '
    "(samedevice). "
    'on_mismatch="record" notes what CUDA would refuse, moves the operand and goes on.'
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the group `samedevice` and the ini option `machine`."""
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
    group.addoption(
        "--device-baseline",
        metavar="FILE",
        help="leave out what each test is known to find; default: baseline of [tool.samedevice]",
    )
    group.addoption(
        "--write-device-baseline",
        action="store_true",
        help="write what is found into that file instead",
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
    option = config.option
    chosen = _known(config) if option.device_baseline or option.write_device_baseline else None
    written = chosen.baseline if chosen is not None and chosen.write else None
    config.pluginmanager.register(Summary(config, written), "samedevice-summary")
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


def _known(config: pytest.Config) -> Known:
    """What the project decided, read once, and without an option for it not before something asks."""
    if _KNOWN not in config.stash:
        from samedevice.pytest_plugin._known import read_known

        config.stash[_KNOWN] = read_known(config)
    return config.stash[_KNOWN]


def _left(item: pytest.Item, machines: Sequence[SuiteMachine]) -> Left:
    """What a test found on these machines, parted by what the project decided."""
    from samedevice.pytest_plugin._known import program_of

    found = [each for machine in machines for each in machine.judged()]
    return _known(item.config).left(found, program_of(item), whole=item.stash.get(_RAN, False))


def _only_hands_out(given: Any) -> bool:
    """Whether this process runs no test itself: the controller of xdist."""
    distributes = bool(getattr(given, "numprocesses", None) or getattr(given, "tx", None))
    return distributes and "PYTEST_XDIST_WORKER" not in os.environ


def pytest_report_header(config: pytest.Config) -> list[str]:
    """The machine, if there is one, and a torch that is too new to know."""
    spec = config.getini("machine") if config.option.machine is None else config.option.machine
    if not spec:
        return []
    from samedevice.torch_versions.installed import newer_than_tested, newer_torch

    lines = [f"machine: {spec} (virtual), on mismatch: {config.option.on_mismatch}"]
    if version := newer_than_tested():
        from samedevice.report import render

        lines.append(f"samedevice: {render(newer_torch(version))}")
    return lines


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
    spec = _known(request.config).settings.machine or DEFAULT_MACHINE
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
    suite = session.config.stash.get(_SUITE, None)
    if suite is not None and suite.found:
        from samedevice.pytest_plugin._known import IMPORTS, notes_of

        # other tests may import more: what an earlier run found there is kept
        left = _known(session.config).left(suite.judged(), IMPORTS, whole=False)
        session.config.stash[_BEFORE] = notes_of(left, "while the tests were imported")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """With `--device-findings=error`, a test that got through with findings fails."""
    result = yield
    item.stash[_RAN] = True
    _refuse_findings(item)
    return result


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
    before = item.config.stash.get(_BEFORE, None)
    if not machines or not (before or any(each.found for each in machines) or _known(item.config).baseline):
        return report
    from samedevice.pytest_plugin._known import notes_of
    from samedevice.pytest_plugin._summary import as_text

    left = _left(item, machines)
    if report.failed and left.told and not _told(call):
        report.sections.append(("Device findings", as_text(left.told)))
    if report.when == "teardown":
        own = notes_of(left, item.nodeid)
        report.user_properties += [("device_finding", entry["line"]) for entry in own["findings"]]
        report.device_notes = [own] if before is None else [before, own]
        if before is not None:
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
    counting = [
        machine
        for machine in _machines(item)
        if machine.found and (choice == "error" or (choice is None and machine.on_mismatch == "record"))
    ]
    told = _left(item, counting).told if counting else ()
    if told:
        from samedevice.pytest_plugin._summary import as_text

        failure = pytest.fail.Exception(as_text(told), pytrace=False)
        failure.device_findings = True  # type: ignore[attr-defined]  # so that they are not told twice
        raise failure


def _told(call: pytest.CallInfo[None]) -> bool:
    return call.excinfo is not None and hasattr(call.excinfo.value, "device_findings")
