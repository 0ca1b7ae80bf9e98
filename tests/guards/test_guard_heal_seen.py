"""Who would see what healing does: modes, readers of what autograd keeps, threads of autograd."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

import samedevice as sd
from samedevice.guards import _rehearsal
from samedevice.guards._live import event_of
from samedevice.guards._queue import OneQueue
from samedevice.provenance import syntax
from tests.guards.older_torch import inside_of_hooks

GPU = "cuda:0"
FAR = pytest.mark.parametrize("far", ["cuda:1", "cpu"])


def values(count, place, shift=0):
    return (torch.arange(float(count)) * 0.37 - 0.9 + 0.13 * shift).to(place)


@pytest.mark.usefixtures("machine")
class TestModesOfTorch:
    @FAR
    def test_a_count_of_operations_sees_no_trial(self, far):
        """What writes is tried first, and would be counted twice."""
        x, other = values(4, GPU).view(2, 2), values(4, far).view(2, 2)
        with FlopCounterMode(display=False), sd.heal(), pytest.raises(RuntimeError) as caught:
            x.addmm_(other, other)
        assert any("would see the copy, or what is tried" in note for note in caught.value.__notes__)

    @inside_of_hooks
    @FAR
    def test_a_selective_checkpoint_keeps_no_result_of_a_trial(self, far):
        """It hands the results that it kept to the calls of an operator in their order."""

        def policy(context, operator, *args, **kwargs):
            saves = operator == torch.ops.aten.mul.Tensor
            return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

        x, factor = values(4, GPU).requires_grad_(), values(4, far, 2).requires_grad_()
        with sd.heal(), pytest.raises(RuntimeError, match="device"):
            checkpoint(
                lambda p, q: ((p * q).sin() * q).cos(),
                x,
                factor,
                use_reentrant=False,
                context_fn=lambda: create_selective_checkpoint_contexts(policy),
            ).sum().backward()


@pytest.mark.usefixtures("machine")
class TestWhatAutogradKeeps:
    @FAR
    @pytest.mark.parametrize("grads", [True, False])
    def test_only_a_backward_pass_reads_it(self, far, grads):
        """On one device it is the original itself, and a write to it is a write to the original."""
        x, factor = values(4, GPU).requires_grad_(), values(4, far).requires_grad_()
        with sd.heal():
            y = x * factor
        with torch.set_grad_enabled(grads), pytest.raises(RuntimeError, match="only a backward pass"):
            y.grad_fn._saved_other  # noqa: B018 # what is tried
        y.sum().backward()
        assert torch.equal(x.grad.cpu(), factor.detach().cpu())

    @FAR
    def test_a_hook_inside_of_a_backward_pass_reads_it_neither(self, far):
        x, factor = values(4, GPU).requires_grad_(), values(4, far).requires_grad_()
        with sd.heal():
            y = x * factor
        y.grad_fn.register_prehook(lambda gradients: (gradients[0] * y.grad_fn._saved_other,))
        with pytest.raises(RuntimeError, match="only a backward pass"):
            y.sum().backward()

    @FAR
    def test_a_tensor_that_was_swapped_for_another(self, far):
        """One device refuses the swap, for autograd holds the tensor; healed, hooks hold it."""
        x, factor, other = values(4, GPU).requires_grad_(), values(4, far), values(4, far, 3)
        with sd.heal():
            y = x * factor
        torch.utils.swap_tensors(factor, other)
        with pytest.raises(RuntimeError, match="swapped for another"):
            y.sum().backward()

    @FAR
    def test_where_hooks_are_switched_off(self, far):
        x, factor = values(4, GPU).requires_grad_(), values(4, far).requires_grad_()
        with (
            torch.autograd.graph.disable_saved_tensors_hooks("none here"),
            sd.heal(),
            pytest.raises(RuntimeError, match="device") as caught,
        ):
            x * factor
        assert any("switched off" in note for note in caught.value.__notes__)


@pytest.mark.usefixtures("machine")
class TestTrials:
    @FAR
    def test_memory_of_a_copy_is_not_taken_over_by_what_is_written(self, far):
        """`set_` gives a tensor the memory of another; it must not have done so when it is refused."""
        x, other = values(4, GPU), values(4, far, 2)
        before = x.clone()
        with pytest.raises(RuntimeError) as caught, sd.heal():
            x.set_(other)
        assert any("not healed" in note for note in caught.value.__notes__)
        assert torch.equal(x, before)

    def test_what_a_trial_made_is_judged(self):
        x, other = torch.zeros(2), torch.ones(2)
        seen = []
        assert _rehearsal.refusal_of(torch.Tensor.set_, (x, other), {}, [x], seen.append) is None
        ((result, (written,)),) = seen
        assert result is written
        assert written.data_ptr() == other.data_ptr() != x.data_ptr()

    @pytest.mark.parametrize(
        "text",
        [
            "Expected tensor to have cuda:0 Device, but got tensor with cpu Device (while checking arguments "
            "for torch.take_along_dim():)",
            'Attempted to set the storage of a tensor on device "cuda:0" to a storage on different device',
            "Function DBackward returned an invalid gradient at index 0 - expected device cuda:0 but got cpu",
            "Bad in-place call: input tensor device cuda:0 and output tensor device cuda:1 should match",
        ],
    )
    def test_refusals_in_other_words_are_about_devices(self, text):
        try:
            raise RuntimeError(text)
        except RuntimeError as error:
            assert event_of(error) is not None


class TestThreads:
    def test_of_two_threads_that_read_sources_none_fails(self, monkeypatch):
        """CPython counts the depths of trees that two threads make at once in one place."""
        inside, most = [], []
        own = syntax.ast.parse

        def parse(*args, **kwargs):
            inside.append(1)
            most.append(len(inside))
            try:
                return own(*args, **kwargs)
            finally:
                inside.pop()

        monkeypatch.setattr(syntax.ast, "parse", parse)
        source = "x = [" + "1 + 2, " * 2000 + "]"
        threads = [threading.Thread(target=syntax.tree_of, args=(source,)) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert max(most) == 1

    def test_autograd_has_one_queue_as_long_as_a_healed_graph_lives(self):
        def work():
            seen = [torch._C._is_multithreading_enabled()]
            tickets = [OneQueue(), OneQueue()]
            while tickets:
                seen.append(torch._C._is_multithreading_enabled())
                tickets.pop()
            return [*seen, torch._C._is_multithreading_enabled()]

        assert in_a_thread(work) == [True, False, False, True]

    def test_what_the_program_had_chosen_stays(self):
        def work():
            with torch.autograd.set_multithreading_enabled(False):
                ticket = OneQueue()
                del ticket
                return torch._C._is_multithreading_enabled()

        assert not in_a_thread(work)

    @pytest.mark.usefixtures("machine")
    def test_a_healed_graph_holds_a_ticket(self):
        def work():
            x, factor = values(4, GPU).requires_grad_(), values(4, "cuda:1").requires_grad_()
            with sd.heal():
                y = x * factor
            seen = [torch._C._is_multithreading_enabled()]
            y.sum().backward()
            del y
            return [*seen, torch._C._is_multithreading_enabled()]

        assert in_a_thread(work) == [False, True]


def in_a_thread(work):
    """What a function returns in a thread of its own, whose autograd nobody has changed."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()
