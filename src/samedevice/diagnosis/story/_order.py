"""From what prose states to a cause: each cause has its condition over the stated facts, the narrower first.

Nothing is a cause here because of a name: a condition speaks of things on devices, of how the model was
placed and started, and of what works beside what fails.
"""

from __future__ import annotations

from samedevice.diagnosis.paste import Report
from samedevice.diagnosis.story._chosen import (
    another_gpu_chosen,
    another_gpu_somewhere,
    default_is_a_gpu,
    fails_elsewhere,
    first_in_any_case,
    wanted_on_the_host,
)
from samedevice.diagnosis.story._cured import helped_by_a_move
from samedevice.diagnosis.story._current import kernel_on_the_first, made_on_the_current
from samedevice.diagnosis.story._facts import LEAST_WORDS, Condition, Reading
from samedevice.diagnosis.story._inputs import (
    embedding_meets_ids,
    extra_input_left,
    first_gpu_kept_free,
    inputs_elsewhere,
    inputs_not_sent,
    list_left,
    never_moved,
    one_left,
    part_remains,
    result_thrown_away,
    still_on_the_host,
    weights_left,
)
from samedevice.diagnosis.story._launch import (
    all_on_the_first,
    current_gpu_matters,
    each_rank_and_the_first,
    index_beyond_the_visible,
    largest_does_not_train,
    one_process_sees_all,
    rank_not_given,
    replicated,
    spread_under_a_launcher,
)
from samedevice.diagnosis.story._machine import (
    another_release_works,
    checkpoint_from_elsewhere,
    copy_changes_values,
    gpu_unseen,
    several_gpus_give_other_values,
    wrong_beyond_the_first,
)
from samedevice.diagnosis.story._made import (
    computed_on_the_host,
    kept_as_an_attribute,
    kept_in_code,
    kept_tensor_indexed,
    made_for_a_call,
    made_right_in_the_repair,
    made_without_a_device,
    numpy_reads,
    returned_on_the_host,
)
from samedevice.diagnosis.story._modules import (
    added_after_the_move,
    copied_before_the_move,
    modules_in_a_container,
    own_part_on_current,
)
from samedevice.diagnosis.story._placement import (
    block_cut,
    head_apart,
    mapped_without_blocks,
    memory_saver,
    meta_in_use,
    moved_behind_a_map,
    never_loaded,
    offloaded,
    only_the_smallest,
    parts_apart,
    past_its_hook,
    spread_and_met,
    streams_apart,
)
from samedevice.diagnosis.story._printed_map import block_cut_by_the_map, towers_by_the_map
from samedevice.diagnosis.story._state import (
    adapter_contrasted,
    adapter_left,
    cache_left,
    compared_with_labels,
    helper_of_generation,
    in_the_loss,
    kept_state,
    labels_elsewhere,
    loss_weight_left,
    metric_apart,
    optimizer_first,
    quantised_left,
    state_after_resume,
    state_loaded_before_the_move,
    table_elsewhere,
)
from samedevice.diagnosis.story._unmoved import left_beside_what_moved, nothing_moved


def read_story(report: Report) -> Reading | None:
    """The cause that the prose of a report states; None when its facts amount to none."""
    told = report.told
    if told is None or told.words < LEAST_WORDS:
        return None
    return next((found for condition in CONDITIONS if (found := condition(told, report)) is not None), None)


def tells_of_devices(report: Report) -> bool:
    """Whether the facts of prose amount to a cause, whatever error it quotes beside them."""
    reading = read_story(report)
    return reading is not None and reading.sure


CONDITIONS: tuple[Condition, ...] = (
    nothing_moved,
    copy_changes_values,
    several_gpus_give_other_values,
    wrong_beyond_the_first,
    spread_under_a_launcher,
    largest_does_not_train,
    index_beyond_the_visible,
    rank_not_given,
    gpu_unseen,
    current_gpu_matters,
    all_on_the_first,
    moved_behind_a_map,
    mapped_without_blocks,
    first_gpu_kept_free,
    each_rank_and_the_first,
    made_on_the_current,
    block_cut_by_the_map,
    towers_by_the_map,
    list_left,
    quantised_left,
    kernel_on_the_first,
    default_is_a_gpu,
    checkpoint_from_elsewhere,
    state_loaded_before_the_move,
    optimizer_first,
    helper_of_generation,
    another_gpu_chosen,
    wanted_on_the_host,
    fails_elsewhere,
    cache_left,
    state_after_resume,
    adapter_left,
    adapter_contrasted,
    loss_weight_left,
    compared_with_labels,
    metric_apart,
    modules_in_a_container,
    copied_before_the_move,
    result_thrown_away,
    streams_apart,
    own_part_on_current,
    left_beside_what_moved,
    kept_tensor_indexed,
    returned_on_the_host,
    made_for_a_call,
    made_without_a_device,
    kept_in_code,
    kept_as_an_attribute,
    table_elsewhere,
    extra_input_left,
    only_the_smallest,
    meta_in_use,
    memory_saver,
    another_release_works,
    helped_by_a_move,
    block_cut,
    kept_state,
    head_apart,
    never_loaded,
    labels_elsewhere,
    inputs_elsewhere,
    embedding_meets_ids,
    past_its_hook,
    weights_left,
    one_process_sees_all,
    replicated,
    never_moved,
    added_after_the_move,
    still_on_the_host,
    inputs_not_sent,
    another_gpu_somewhere,
    computed_on_the_host,
    offloaded,
    in_the_loss,
    spread_and_met,
    parts_apart,
    one_left,
    made_right_in_the_repair,
    numpy_reads,
    part_remains,
    first_in_any_case,
)
