"""Signals that come while a machine is entered or left."""

from __future__ import annotations

import signal
import threading

import pytest
import torch

from samedevice.runtime import machine as machines
from samedevice.runtime.patching import SignalsWait
from tests.virtual import machine


class Stopped(Exception):
    pass


@pytest.fixture
def stops():
    """A signal whose handler raises."""

    def handler(*_):
        raise Stopped

    before = signal.signal(signal.SIGUSR1, handler)
    yield handler
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_waits_and_reaches_its_handler_once(stops):
    done = []
    with pytest.raises(Stopped), SignalsWait():
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGUSR1) is stops


def test_what_raises_before_its_handler_is_put_aside_comes_at_the_end(stops, monkeypatch):
    put_aside, came = SignalsWait._put_aside, []

    def late(self, number):
        if number == signal.SIGUSR1 and not came:
            came.append(number)
            signal.raise_signal(number)
        put_aside(self, number)

    monkeypatch.setattr(SignalsWait, "_put_aside", late)
    with pytest.raises(Stopped), SignalsWait():
        came.append("done")
    assert came == [signal.SIGUSR1, "done"]
    assert signal.getsignal(signal.SIGUSR1) is stops


def test_other_threads_have_nothing_to_wait_for(stops):
    found = []

    def work():
        with SignalsWait():
            found.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [stops]


def interrupted(monkeypatch, owner, name):
    """Let a signal come in the middle of what `owner.name` does."""
    own = getattr(owner, name)

    def late(*args, **kwargs):
        signal.raise_signal(signal.SIGUSR1)
        return own(*args, **kwargs)

    monkeypatch.setattr(owner, name, late)


def test_a_machine_that_a_signal_interrupts_while_it_is_left_is_left(stops, monkeypatch):
    before = torch.Tensor.to, torch.cuda.device_count
    entered = machine()
    entered.__enter__()
    interrupted(monkeypatch, entered._patches, "undo")
    entered._stack.callback(signal.raise_signal, signal.SIGUSR1)
    with pytest.raises(Stopped):
        entered.__exit__(None, None, None)
    assert (torch.Tensor.to, torch.cuda.device_count) == before
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


def test_a_machine_that_a_signal_interrupts_while_it_is_entered_is_left(stops, monkeypatch):
    before = torch.Tensor.to, torch.cuda.device_count
    interrupted(monkeypatch, machines.TABLE, "install")
    with pytest.raises(Stopped), machine():
        raise AssertionError("nobody is inside")
    assert (torch.Tensor.to, torch.cuda.device_count) == before
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert not machines._inside


def test_a_thread_that_ends_after_the_machine_leaves_torchs_flags_as_they_were():
    from torch.utils import _python_dispatch

    begun, go = threading.Event(), threading.Event()

    def work():
        begun.set()
        go.wait(30)

    before = _python_dispatch.is_in_torch_dispatch_mode()
    with machine():
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(30)
    go.set()
    thread.join()
    assert _python_dispatch.is_in_torch_dispatch_mode() == before
