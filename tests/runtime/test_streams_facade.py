"""Streams and events of virtual GPUs."""

from __future__ import annotations

import ctypes
import threading

import pytest
import torch

from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.torch_versions.adapter import TORCH

pytestmark = pytest.mark.usefixtures("machine")

RealStream = torch.Stream
EarlyStream, EarlyEvent = torch.cuda.Stream, torch.cuda.Event


def test_a_stream_is_a_torch_stream():
    stream = torch.cuda.Stream(device="cuda:1", priority=-9)
    assert isinstance(stream, torch.Stream)
    assert isinstance(stream, RealStream)
    assert issubclass(torch.cuda.Stream, torch.Stream)
    assert torch.Stream in torch.cuda.Stream.mro()
    assert torch.Event in torch.cuda.Event.mro()
    assert not isinstance(torch.Stream("cpu"), torch.cuda.Stream)
    assert stream.device == torch.device("cuda", 1)
    assert stream.priority == -3
    assert torch.cuda.Stream.priority_range() == (0, -3)
    assert stream.query()
    assert stream.synchronize() is None
    assert repr(stream) == f"<torch.cuda.Stream device=cuda:1 cuda_stream={stream.cuda_stream:#x}>"
    assert stream != torch.cuda.Stream(device=1)
    assert len({stream, torch.cuda.Stream(stream_id=stream.stream_id, device_index=1, device_type=1)}) == 1


def test_the_default_stream():
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.default_stream(1).cuda_stream == 0
    assert torch.cuda.default_stream(0) != torch.cuda.default_stream(1)


def test_stream_contexts_switch_device_and_stream_and_come_back():
    here, there = torch.cuda.Stream(), torch.cuda.Stream(device=1)
    with torch.cuda.stream(here):
        assert torch.cuda.current_stream() == here
        with torch.cuda.stream(there):
            assert torch.cuda.current_device() == 1
            assert torch.cuda.current_stream() == there
            assert torch.ones(1, device="cuda").device.index == 1
        assert torch.cuda.current_device() == 0
        assert torch.cuda.current_stream() == here
        assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == here
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def test_a_stream_is_a_context_itself():
    stream = torch.Stream("cuda:1")
    with pytest.raises(ZeroDivisionError), stream:
        assert torch.accelerator.current_stream() == stream
        1 / 0  # noqa: B018  # the exception is the point
    assert torch.cuda.current_device() == 0
    assert torch.accelerator.current_stream() == torch.cuda.default_stream(0)


def test_the_current_stream_belongs_to_the_thread():
    seen = []
    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.cuda.default_stream()]


def test_waiting_and_recording():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(2, device="cuda")
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.current_stream().wait_event(stream.record_event())
    x.record_stream(torch.cuda.current_stream())
    assert x.tolist() == [1.0, 1.0]


def test_events_measure_host_time():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    assert repr(start) == "<torch.cuda.Event uninitialized>"
    assert isinstance(start, torch.Event)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    end.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert end.query()
    assert start.elapsed_time(end) >= 0.0
    assert start.device == torch.device("cuda", 0)
    with pytest.raises(RuntimeError, match="does not match"):
        start.record(torch.cuda.Stream(device=1))
    untimed = torch.cuda.Event()
    untimed.record()
    with pytest.raises(ValueError, match="enable_timing"):
        untimed.elapsed_time(end)


def test_events_do_not_cross_processes():
    with pytest.raises(UnsupportedFeatureError, match="ipc_handle"):
        torch.cuda.Event(interprocess=True).ipc_handle()
    with pytest.raises(UnsupportedFeatureError, match="from_ipc_handle"):
        torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), b"")


def test_an_external_stream_keeps_its_handle():
    stream = torch.cuda.ExternalStream(0x1230, device=1)
    assert stream.cuda_stream == 0x1230
    assert stream.device.index == 1
    if hasattr(torch.cuda, "get_stream_from_external"):  # newer than torch 2.6
        assert torch.cuda.get_stream_from_external(0x1230, 1) == stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream


def test_torch_event_and_stream_take_any_device():
    assert isinstance(torch.Event("cuda"), torch.cuda.Event)
    assert isinstance(torch.Event("cpu"), torch.Event)
    assert not isinstance(torch.Event("cpu"), torch.cuda.Event)
    assert torch.Stream(1).device == torch.device("cuda", 1)
    assert torch.Stream(device="cuda", priority=-1).priority == -1


def test_classes_imported_before_make_virtual_ones():
    assert isinstance(EarlyStream(device=1), torch.cuda.Stream)
    assert isinstance(EarlyEvent(enable_timing=True), torch.cuda.Event)
    with VirtualMachine(parse_machine("1x24GB")):
        assert EarlyStream().device.index == 0


CYCLES = 60_000_000


def test_a_stream_that_sleeps_is_busy_and_others_are_not():
    here, there = torch.cuda.current_stream(0), torch.cuda.current_stream(1)
    event = torch.cuda.Event()
    with torch.cuda.device(1):
        torch.cuda._sleep(CYCLES)
        event.record()
    assert here.query()
    assert not there.query()
    assert not event.query()
    torch.cuda.synchronize(0)
    assert not event.query()
    torch.cuda.synchronize(1)
    assert event.query()
    assert there.query()


def test_a_stream_waits_for_an_event_and_the_host_for_what_it_reads():
    side = torch.cuda.Stream()
    value = torch.ones(1, device="cuda")
    torch.cuda._sleep(CYCLES)
    assert side.query()
    side.wait_stream(torch.cuda.current_stream())
    assert not side.query()
    assert value.cpu() == 1
    assert side.query()
    torch.cuda._sleep(CYCLES)
    value.to("cpu", non_blocking=True)
    assert not torch.cuda.current_stream().query()
    assert value.item() == 1
    assert torch.cuda.current_stream().query()


def test_elapsed_time_contains_the_sleep_and_wants_two_events_of_one_gpu_that_are_over():
    begin, end, elsewhere = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    begin.record()
    torch.cuda._sleep(CYCLES)
    end.record()
    elsewhere.record(torch.cuda.current_stream(1))
    with pytest.raises(TORCH.accelerator_error, match="device not ready"):
        begin.elapsed_time(end)
    end.synchronize()
    assert begin.elapsed_time(end) >= CYCLES / 1.5e6
    with pytest.raises(TORCH.accelerator_error, match="invalid resource handle"):
        begin.elapsed_time(elsewhere)


def test_a_stream_of_the_runtime_is_an_external_stream():
    handle = ctypes.c_uint64(0)
    assert torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle)) == 0
    stream = torch.cuda.ExternalStream(handle.value, device=torch.cuda.device(1))
    assert handle.value
    assert stream.cuda_stream == handle.value
    assert stream.device.index == 1
    assert torch.cuda.cudart().cudaStreamDestroy(handle.value) == 0
