"""The rules, one file each. Codes SD101 to SD110 say what happened, those from SD111 on why: one for each
cause of the taxonomy; those from SD401 on refuse a launch.
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.diagnosis.rules import (
    adapter_weights_on_other_device,
    block_split_across_devices,
    cache_or_beam_state_on_wrong_device,
    checkpoint_map_location,
    collective_off_its_gpu,
    cross_device_operands,
    data_parallel_replica_device,
    device_from_unordered_set,
    device_map_in_multi_process_launch,
    device_map_incomplete_or_wrong,
    device_ordinal_out_of_range,
    dispatched_model_moved,
    embedding_streams_on_different_devices,
    extra_input_on_wrong_device,
    generation_helper_on_wrong_device,
    generator_on_other_device,
    generator_or_default_device,
    gpu_shared_beyond_its_memory,
    hard_coded_device,
    hardware_or_driver,
    input_not_on_embedding_device,
    kernel_launched_on_current_device,
    launch_config_contradiction,
    launch_conflict,
    launch_variable_not_exported,
    library_version_regression,
    lm_head_or_tied_weight_split,
    loss_or_label_on_other_device,
    meta_tensor_not_materialized,
    metric_state_device,
    misleading_after_effect,
    module_left_on_other_device,
    offload_hook_bypassed,
    optimizer_built_before_move,
    optimizer_state_on_other_device,
    out_of_memory,
    processes_exceed_gpus,
    quantized_state_on_other_device,
    rank_device_not_set,
    ranks_share_a_gpu,
    rope_table_on_wrong_device,
    tensor_created_on_wrong_device,
    trainer_chooses_data_parallel,
    unchecked_kernel,
    undetermined,
    unmaterialized_weights,
    weights_moved_away_by_manager,
)

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        cross_device_operands,
        unmaterialized_weights,
        generator_on_other_device,
        out_of_memory,
        unchecked_kernel,
        device_from_unordered_set,
        ranks_share_a_gpu,
        launch_conflict,
        collective_off_its_gpu,
        gpu_shared_beyond_its_memory,
        input_not_on_embedding_device,
        embedding_streams_on_different_devices,
        extra_input_on_wrong_device,
        module_left_on_other_device,
        tensor_created_on_wrong_device,
        hard_coded_device,
        rope_table_on_wrong_device,
        cache_or_beam_state_on_wrong_device,
        generation_helper_on_wrong_device,
        block_split_across_devices,
        lm_head_or_tied_weight_split,
        device_map_incomplete_or_wrong,
        dispatched_model_moved,
        offload_hook_bypassed,
        weights_moved_away_by_manager,
        meta_tensor_not_materialized,
        adapter_weights_on_other_device,
        quantized_state_on_other_device,
        optimizer_state_on_other_device,
        loss_or_label_on_other_device,
        data_parallel_replica_device,
        device_map_in_multi_process_launch,
        kernel_launched_on_current_device,
        generator_or_default_device,
        metric_state_device,
        checkpoint_map_location,
        device_ordinal_out_of_range,
        library_version_regression,
        hardware_or_driver,
        misleading_after_effect,
        undetermined,
        trainer_chooses_data_parallel,
        rank_device_not_set,
        launch_config_contradiction,
        processes_exceed_gpus,
        optimizer_built_before_move,
        launch_variable_not_exported,
    )
)

_BY_CODE = {rule.code: rule for rule in RULES}
_BY_NAME = {rule.name: rule for rule in RULES}
assert len(_BY_CODE) == len(_BY_NAME) == len(RULES), "codes and names are unique"

REFUSALS: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.code.startswith("SD4"))
"""What only a launch can be refused for; a launch is refused for causes as well."""

CAUSES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.kind is None and rule not in REFUSALS)


def rule_of(code: str) -> Rule:
    """The rule of a code such as `SD111`; raises `KeyError` when there is none."""
    return _BY_CODE[code]


def rule_named(name: str) -> Rule:
    """The rule of a name or slug; raises `KeyError` when there is none."""
    return _BY_NAME[name]


__all__ = ["CAUSES", "REFUSALS", "RULES", "rule_named", "rule_of"]
