"""The caching allocator of virtual GPUs: which block an allocation gets, what is reserved, what it shows."""

from __future__ import annotations

import json
import pickle
import threading
from inspect import signature
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.cuda import _memory_viz

import samedevice as sd
from samedevice.errors import UnsupportedFeatureError
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine
from samedevice.runtime.state import parse_settings, segments_of
from samedevice.runtime.state.allocator_settings import AllocatorSettings, settings_of_environment
from samedevice.runtime.state.driver_addresses import DriverAddresses
from samedevice.runtime.state.ledger import DeviceLedger, OutOfDeviceMemoryError

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


@pytest.fixture(autouse=True)
def machine():
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="raise") as entered:
        yield entered


class Plain:
    """The rules as they are written, with lists and without any speed; for default settings."""

    def __init__(self, total):
        self.total = total
        self.driver = DriverAddresses(1 << 40)
        self.segments = []  # [[address, kind, [[size, taken], ...]], ...] in the order of their addresses

    def reserved(self):
        return sum(size for _, _, blocks in self.segments for size, _ in blocks)

    def allocated(self):
        return sum(size for _, _, blocks in self.segments for size, taken in blocks if taken is not None)

    def allocate(self, name, nbytes):
        size = -(-nbytes // 512) * 512
        small = size <= MiB
        if self._from_cache(name, size, small):
            return True
        amount = 2 * MiB if small else 20 * MiB if size < 10 * MiB else -(-size // (2 * MiB)) * 2 * MiB
        if self.reserved() + amount > self.total:
            for segment in list(self.segments):
                address, _, [[size_there, taken], *more] = segment
                if taken is None and not more:
                    self.segments.remove(segment)
                    self.driver.give_back(address, size_there)
            if self.reserved() + amount > self.total:
                return False
        self.segments.append([self.driver.take(amount), small, [[amount, None]]])
        self.segments.sort(key=lambda each: each[0])
        return self._from_cache(name, size, small)

    def _from_cache(self, name, size, small):
        fits = [
            (block[0], at, blocks, block)
            for at, (_, kind, blocks) in enumerate(self.segments)
            if kind == small
            for block in blocks
            if block[1] is None and block[0] >= size
        ]
        if not fits:
            return False
        _, _, blocks, block = min(fits, key=lambda each: each[:2])
        left = block[0] - size
        if left and (small or left > MiB):
            block[0] = size
            blocks.insert(blocks.index(block) + 1, [left, None])
        block[1] = name
        return True

    def free(self, name):
        for _, _, blocks in self.segments:
            for block in blocks:
                if block[1] == name:
                    block[1] = None
            at = 0
            while at + 1 < len(blocks):
                if blocks[at][1] is None and blocks[at + 1][1] is None:
                    blocks[at][0] += blocks.pop(at + 1)[0]
                else:
                    at += 1


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("take"),
            st.one_of(
                st.integers(1, 3 * KiB),
                st.integers(1, 12 * MiB),
                st.integers(8 * MiB, 90 * MiB),
                st.sampled_from([MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 20 * MiB, 21 * MiB]),
            ),
        ),
        st.tuples(st.just("free"), st.integers(0, 100)),
        st.tuples(st.just("ask"), st.just(0)),
    ),
    max_size=60,
)


def checked(ledger):
    """Segments whose blocks fill them, whose neighbours are not both free."""
    segments = segments_of(ledger.settle(), 0, lambda stream: stream)
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
        states = [block["state"] for block in segment["blocks"]]
        assert ("inactive", "inactive") not in pairwise(states)
    assert sum(segment["total_size"] for segment in segments) == ledger.reserved
    assert sum(segment["allocated_size"] for segment in segments) == ledger.allocated
    return segments


@given(STEPS)
@settings(deadline=None, max_examples=150)
def test_blocks_are_those_of_the_written_rules(steps):
    ledger, plain, live = DeviceLedger(256 * MiB), Plain(256 * MiB), []
    for number, (step, value) in enumerate(steps):
        if step == "take":
            try:
                booking = ledger.allocate(value)
            except OutOfDeviceMemoryError:
                assert not plain.allocate(number, value)
                continue
            assert plain.allocate(number, value)
            live.append((number, booking))
        elif step == "free" and live:
            name, booking = live.pop(value % len(live))
            ledger.give_back(booking)
            plain.free(name)
        elif step == "ask":
            assert (ledger.allocated, ledger.reserved) == (plain.allocated(), plain.reserved())
    assert (ledger.allocated, ledger.reserved) == (plain.allocated(), plain.reserved())
    ours = sorted([b["size"] for b in s["blocks"]] for s in checked(ledger))
    assert ours == sorted([size for size, _ in blocks] for _, _, blocks in plain.segments)


class PlainAddresses:
    """The rules of the driver's addresses, page by page."""

    def __init__(self, top):
        self.top = top
        self.windows = {top - 96 * MiB: [True] * 16 + [False] * 32}  # whether a page of 2 MiB is in use

    def take(self, size):
        pages = -(-size // (2 * MiB))
        for start, used in sorted(self.windows.items()):
            for at in range(len(used) - pages + 1):
                if not any(used[at : at + pages]):
                    used[at : at + pages] = [True] * pages
                    return start + at * 2 * MiB
        whole = -(-pages // 16) * 16
        start = self.top - whole * 2 * MiB
        while any(
            start < other + len(used) * 2 * MiB and other < start + whole * 2 * MiB
            for other, used in self.windows.items()
        ):
            start -= 32 * MiB
        self.windows[start] = [True] * pages + [False] * (whole - pages)
        return start

    def give_back(self, start, size):
        window = max(other for other in self.windows if other <= start)
        at, pages = (start - window) // (2 * MiB), -(-size // (2 * MiB))
        self.windows[window][at : at + pages] = [False] * pages
        if not any(self.windows[window]):
            del self.windows[window]


@given(STEPS)
@settings(deadline=None, max_examples=150)
def test_segments_lie_where_the_written_rules_lay_them(steps):
    driver, plain, live = DriverAddresses(1 << 40), PlainAddresses(1 << 40), []
    for step, value in steps:
        if step == "take":
            start = driver.take(value)
            assert start == plain.take(value)
            live.append((start, value))
        elif step == "free" and live:
            gone = live.pop(value % len(live))
            driver.give_back(*gone)
            plain.give_back(*gone)


@given(
    STEPS,
    st.sampled_from(
        [
            "expandable_segments:True",
            "max_split_size_mb:30",
            "roundup_power2_divisions:4",
            "max_split_size_mb:21,max_non_split_rounding_mb:24,garbage_collection_threshold:0.3",
            "expandable_segments:True,garbage_collection_threshold:0.5,large_segment_size_mb:64",
        ]
    ),
)
@settings(deadline=None, max_examples=150)
def test_books_balance_whatever_is_set(steps, text):
    ledger, live = DeviceLedger(256 * MiB, 0, parse_settings(text, AllocatorSettings())), []
    ledger.fraction = 1.0
    for step, value in steps:
        if step == "take":
            try:
                live.append(ledger.allocate(value))
            except OutOfDeviceMemoryError:
                continue
        elif step == "free" and live:
            ledger.give_back(live.pop(value % len(live)))
        else:
            checked(ledger)
            assert ledger.reserved <= 256 * MiB
    checked(ledger)
    for booking in live:
        ledger.give_back(booking)
    ledger.empty_cache()
    assert (ledger.allocated, ledger.reserved, checked(ledger)) == (0, 0, [])


def test_what_waits_never_hides_an_error():
    ledger = DeviceLedger(64 * MiB)
    held = [ledger.allocate(15 * MiB) for _ in range(4)]
    with pytest.raises(OutOfDeviceMemoryError):
        ledger.allocate(15 * MiB)
    assert ledger.reserved == 64 * MiB
    assert len({ledger.address(booking) for booking in held}) == 4


def test_reserved_bytes_are_whole_segments():
    small = torch.empty(100, device="cuda")
    middle = torch.empty(3 * MiB, dtype=torch.uint8, device="cuda")
    large = torch.empty(21 * MiB + 1, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_reserved() == (2 + 20 + 22) * MiB
    # What is left of the large segment is too little to be split off, so the block has it, too.
    assert torch.cuda.memory_allocated() == 512 + 3 * MiB + 22 * MiB
    stats = torch.cuda.memory_stats()
    assert stats["segment.all.current"] == 3
    assert stats["requested_bytes.all.current"] == 400 + 3 * MiB + 21 * MiB + 1
    assert stats["inactive_split_bytes.all.current"] == 2 * MiB - 512 + 17 * MiB
    del middle, large
    assert torch.cuda.memory_reserved() == 44 * MiB
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 2 * MiB
    assert small.device.index == 0


def test_freed_memory_is_given_out_again():
    x = torch.empty(1000, device="cuda")
    address = x.data_ptr()
    del x
    assert torch.empty(1000, device="cuda").data_ptr() == address
    assert torch.empty(0, device="cuda").data_ptr() == 0


def test_fragments_do_not_fit_what_their_sum_would():
    held = [torch.empty(1 * GiB, dtype=torch.uint8, device="cuda") for _ in range(23)]
    del held[::2]
    assert torch.cuda.memory_allocated() == 11 * GiB
    torch.empty(10 * GiB, dtype=torch.uint8, device="cuda")  # the cache is given back first
    stats = torch.cuda.memory_stats()
    assert stats["num_alloc_retries"] == 1
    assert stats["num_device_free"] == 12


def test_the_environment_sets_the_allocator(monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:100")
    assert settings_of_environment().max_split_size == 100 * MiB
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert settings_of_environment().expandable_segments
    with VirtualMachine(parse_machine("1x24GB")):
        x = torch.empty(25 * MiB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() == 40 * MiB
        assert torch.cuda.memory_stats()["segment.all.current"] == 0
        [segment] = torch.cuda.memory_snapshot()
        assert segment["is_expandable"]
        assert x.data_ptr() == segment["address"]


def test_segments_that_grow_take_what_gaps_would_not():
    def program():
        held = [torch.empty(1 * GiB, dtype=torch.uint8, device="cuda") for _ in range(20)]
        smaller = []
        while held:
            held.pop()
            smaller.append(torch.empty(650 * MiB, dtype=torch.uint8, device="cuda"))
        return [*smaller, *(torch.empty(1 * GiB, dtype=torch.uint8, device="cuda") for _ in range(9))]

    with pytest.raises(torch.OutOfMemoryError):
        program()
    with VirtualMachine(parse_machine("1x24GB"), allocator="expandable_segments:True"):
        assert len(program()) == 29


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("foo:1,bar:2", "Unrecognized key 'foo'"),
        ("garbage_collection_threshold:1.2", r"set it in \(0.0, 1.0\)"),
        ("max_split_size_mb:2", "too small, must be >= 20"),
        ("max_split_size_mb", "no value"),
        ("expandable_segments:yes", "Expected 'True' or 'False'"),
        ("roundup_power2_divisions:3", "power of 2"),
        ("roundup_power2_divisions:[64:8", "closing bracket"),
        ("pinned_num_register_threads:1024", "less than or equal to 128"),
        ("backend:cudaMallocAsync", "not there on a virtual machine"),
    ],
)
def test_wrong_settings_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_settings(text, AllocatorSettings())


def test_settings_of_intervals_round_like_torch():
    read = parse_settings("roundup_power2_divisions:[64:8,128:2,256:2,512:2,1024:1,>:1]", AllocatorSettings())
    assert read.divisions(84 * MiB) == 8
    assert read.divisions(400 * MiB) == 2
    again = parse_settings("", read)
    assert again.divisions(84 * MiB) == 0


def plain_text(text, **kwargs):
    return text


def test_torchs_own_viewer_reads_a_snapshot(tmp_path):
    torch.cuda.memory._record_memory_history(max_entries=1000)
    x = torch.rand(311, 411, device="cuda")
    before = torch.cuda.memory_snapshot()

    def made_and_lost():
        y = torch.ones(5 * MiB, device="cuda:1")
        return float(y.numel())

    made_and_lost()
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(30 * GiB, dtype=torch.uint8, device="cuda")
    torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    for draw in (_memory_viz.trace_plot, _memory_viz.segment_plot):
        assert "<html" in draw(snapshot).lower() or "<script" in draw(snapshot)
    assert "test_allocator.py" in _memory_viz.segments(snapshot, format_flamegraph=plain_text)
    assert "active_allocated" in _memory_viz.memory(snapshot, format_flamegraph=plain_text)
    assert "total_reserved: 22.0MiB" in _memory_viz.segsum(snapshot)
    told = _memory_viz.trace(snapshot)
    assert "cudaMalloc" in told
    assert "OutOfMemoryError # 30.0GiB requested" in told
    torch.cuda.empty_cache()
    after = torch.cuda.memory_snapshot()
    assert "only_before" in _memory_viz.compare(before + snapshot["segments"], after, plain_text)
    actions = [entry["action"] for entry in snapshot["device_traces"][1]]
    assert [each for each in actions if each != "snapshot"] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
    ]
    frames = [frame["name"] for entry in snapshot["device_traces"][1] for frame in entry.get("frames", ())]
    assert "made_and_lost" in frames
    assert not any("samedevice/runtime" in str(frame) for frame in snapshot["segments"][0]["frames"])
    address = x.untyped_storage().data_ptr()
    assert torch.cuda.memory._snapshot()["segments"][0]["blocks"][0]["address"] == address
    torch.cuda.memory._record_memory_history(None)
    assert torch.cuda.memory._snapshot()["device_traces"] == [[], []]


@pytest.mark.parametrize(
    ("context", "of_allocation", "of_free"),
    [(None, False, False), ("state", False, False), ("alloc", True, False), ("all", True, True)],
)
def test_a_trace_has_the_frames_that_were_asked_for(context, of_allocation, of_free):
    held = []
    of_the_segment = torch.ones(1, device="cuda")

    def the_allocation():
        held.append(torch.ones(100, device="cuda"))

    def the_free():
        held.clear()

    torch.cuda.memory._record_memory_history(context=context)
    the_allocation()
    the_free()
    text = json.dumps(torch.cuda.memory._snapshot())
    assert ("the_allocation" in text, "the_free" in text) == (of_allocation, of_free)
    assert of_the_segment.device.index == 0


@pytest.mark.parametrize(("stacks", "shown"), [("all", True), ("python", False)])
def test_an_allocation_names_its_operator_where_stacks_of_cpp_are_asked_for(stacks, shown):
    torch.cuda.memory._record_memory_history(stacks=stacks)
    x = torch.rand(5, 7, device="cuda")
    y = torch.nn.functional.linear(x, x)  # C++ calls others for it
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    allocations = [entry["frames"] for entry in trace if entry["action"] == "alloc"]
    innermost = [frames[0]["name"] for frames in allocations]
    assert (innermost[0] == "at::_ops::rand::call") is shown
    assert all(("::" in name) is shown for name in innermost)
    assert all("::" not in frame["name"] for frames in allocations for frame in frames[1:])
    assert y.shape == (5, 5)


@pytest.mark.parametrize(("entries", "kept"), [(2, 2), (100, 4)])
def test_the_history_of_older_programs_keeps_as_many_entries_as_they_ask_for(entries, kept):
    torch.cuda.memory._record_memory_history(
        True, trace_alloc_max_entries=entries, trace_alloc_record_context=True
    )

    def makes_and_loses():
        torch.ones(5 * MiB, device="cuda:1")

    makes_and_loses()
    trace = torch.cuda.memory._snapshot()["device_traces"][1]
    assert len(trace) == kept
    assert "makes_and_loses" in json.dumps(trace)
    torch.cuda.memory._record_memory_history(False)
    assert torch.cuda.memory._snapshot()["device_traces"][1] == []


RECORDS = signature(torch.cuda.memory._record_memory_history).parameters


@pytest.mark.skipif("record_cuda" not in RECORDS, reason="newer than this torch")
def test_a_history_of_host_memory_alone_is_refused_and_none_is_kept_of_the_gpus():
    torch.cuda.memory._record_memory_history(record_cuda=False)
    held = torch.ones(100, device="cuda")
    assert torch.cuda.memory._snapshot()["device_traces"][held.device.index] == []
    with pytest.raises(UnsupportedFeatureError, match="pinned host memory"):
        torch.cuda.memory._record_memory_history(record_pinned_host_memory=True)


def test_a_pool_keeps_its_memory_apart():
    other = torch.ones(1000, device="cuda")
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.ones(1000, device="cuda")
        assert pool.use_count() == 2
    outside = torch.ones(1000, device="cuda")
    assert pool.use_count() == 1
    [segment] = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert segment["blocks"][0]["address"] == inside.data_ptr()
    assert abs(outside.data_ptr() - other.data_ptr()) < 2 * MiB
    assert torch.cuda.memory_reserved() == 4 * MiB
    del inside, segment, pool
    assert torch.cuda.memory_reserved() == 2 * MiB
    with pytest.raises(UnsupportedFeatureError, match="allocator of one's own"):
        torch.cuda.MemPool(object())


def test_memory_of_another_stream_is_not_given_out_while_it_works():
    x = torch.empty(1000, device="cuda")
    address, stream = x.data_ptr(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(300_000_000)
    x.record_stream(stream)
    del x
    states = [block["state"] for block in torch.cuda.memory_snapshot()[0]["blocks"]]
    assert states == ["active_pending_free", "inactive"]
    assert torch.empty(1000, device="cuda").data_ptr() != address
    stream.synchronize()
    torch.empty(1000, device="cuda")
    assert torch.empty(1000, device="cuda").data_ptr() == address


def test_raw_memory_is_counted():
    address = torch.cuda.caching_allocator_alloc(5000)
    assert torch.cuda.memory_allocated() == 5120
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == 0
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        torch.cuda.caching_allocator_delete(address)


def test_raw_memory_without_the_cache_is_the_gpus_alone():
    free, _ = torch.cuda.mem_get_info()
    torch.cuda.caching_allocator_enable(False)
    address = torch.cuda.caching_allocator_alloc(5 * MiB)
    torch.cuda.caching_allocator_enable(True)
    assert torch.cuda.memory_stats()["requested_bytes.all.allocated"] == 0
    assert torch.cuda.mem_get_info()[0] == free - 5 * MiB
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.mem_get_info()[0] == free


@pytest.mark.parametrize("text", ["", "expandable_segments:True"])
def test_threads_share_a_ledger(text):
    ledger = DeviceLedger(1 * GiB, 0, parse_settings(text, AllocatorSettings()))
    seen = []

    def work(seed):
        held = []
        for number in range(400):
            held.append(ledger.allocate((number * 7919 + seed) % (3 * MiB) + 1))
            if number % 3 == 0:
                seen.append(ledger.address(held[-1]))
            if len(held) > 5:
                ledger.give_back(held.pop(seed % 5))
        for booking in held:
            ledger.give_back(booking)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen)
    assert len(seen) == 4 * 134
    assert ledger.allocated == 0
    ledger.empty_cache()
    assert checked(ledger) == []


def test_memory_that_dies_while_the_allocator_works_is_freed_later():
    ledger = DeviceLedger(1 * GiB)
    dying = [ledger.allocate(MiB) for _ in range(3)]
    with ledger.alone():
        for booking in dying:
            ledger.give_back(booking)
        inside = ledger.allocate(2 * MiB)
    assert ledger.allocated == 2 * MiB
    assert ledger.address(inside)


def test_the_largest_gpu_has_addresses_for_segments_that_grow():
    with sd.machine("1x4TB"):
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
        held = [torch.empty(1 << 20, device="cuda") for _ in range(40)]
        assert torch.cuda.memory_allocated() == 40 << 22
        del held
