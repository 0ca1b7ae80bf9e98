"""Small programs with one bug each, as people write them: the cause is named, and a safe fix repairs what it
says.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_diagnosis_fixes import apply, findings_of

from evidence.bugs import programs

LABELLED = programs.PROGRAMS / "seen"
MECHANISMS = """
pinn_lion codebook_from_data collected_policy decoder_trainer late_position_ids molecule_sampler steered_layer
concept_probe reset_codes batch_beam_select typed_nodes multilabel_metric_loop logits_bias_expansion
seq2seq_halves dit_blocks_over_cards hook_adapters_pool swap_ffn_for_experts remote_exp_function
form_reader_batches prompt_bank_builder averaged_two_stage answer_reward_scorer momentum_queue_builder
amateur_contrast_generate model_soup_kitchen choice_loglikelihood_harness pinned_card_critic
diarisation_centroid_bank token_merge_unpooler error_feedback_compressor cross_layer_equaliser
meta_built_fourier
""".split()
PROGRAMS = [
    *sorted((Path(__file__).parent / "programs").glob("*.py")),
    *(LABELLED / f"{name}.py" for name in MECHANISMS),
]
REPAIRED = {
    "averaged_on_host": "ema_v.lerp_(model_v.to(ema_v.device), weight=1.0 - self.decay)",
    "resumed_heavyball": "state = torch.load(checkpoint, map_location=device)",
    "anchor_weights": "net.to(device)\noptimizer = Anchored(",
    "slow_copy": "model.to(device)\nslow = Average(model)\n",
}
"""What the first fix makes of a program that keeps something beside its parameters."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.sample(3)
def test_the_cause_is_named(program, tmp_path):
    source = program.read_text("utf-8")
    causes = source.splitlines()[0].removeprefix("# cause: ").split("|")
    path = tmp_path / program.name
    path.write_text(source, "utf-8")
    found = findings_of(path)
    assert found[0].cause in causes
    for finding in found:
        for fix in finding.fixes:
            if fix.safety == "safe" and fix.diff is not None:
                repaired = tmp_path / f"repaired_{program.name}"
                repaired.write_text(apply(fix.diff, source), "utf-8")
                again = {(each.op, each.at.line) for each in findings_of(repaired)}
                assert (finding.op, finding.at.line) not in again


@pytest.mark.parametrize("name", ["sparse_moe_block_dispatch", "ppo_periodic_evaluation"])
def test_the_cause_is_named_where_one_statement_fails_more_than_once(name):
    program = LABELLED / f"{name}.py"
    assert findings_of(program)[0].cause in programs.labels(program)[0]


@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_kept_beside_parameters_is_brought_together(name, tmp_path):
    source = (LABELLED / f"{name}.py").read_text("utf-8")
    path = tmp_path / "script.py"
    path.write_text(source, "utf-8")
    (fix, *_) = findings_of(path)[0].fixes
    assert fix.safety == "safe"
    assert REPAIRED[name] in apply(fix.diff, source)


DECIDED = {
    "low_vram_clip": "F.normalize(self.text_proj(self.text(ids)), dim=-1)",
    "ema_resume_unet": "        parameters = list(parameters)\n        self.shadow_params = [s_param.to(",
    "resume_text_classifier": "        self.model.to(cfg.device)\n        self.optimizer = torch.optim.",
    "lazy_residual_cnn": "bias=False).to(next(self.conv1.parameters()).device)\n",
    "bert_weighted_pooling": 'batch["token_weights"] = batch["token_weights"].to(device)\n',
    "mc_eval_harness": "        cont = request.target().to(logprobs.device)\n",
}
"""What the first fix makes of a program where the order, a loop, a helper or a caller has to change."""


@pytest.mark.parametrize("name", DECIDED)
def test_what_was_decided_is_changed(name, tmp_path, monkeypatch):
    source = (LABELLED / f"{name}.py").read_text("utf-8")
    path = tmp_path / "script.py"
    monkeypatch.setattr("sys.argv", [str(path)])
    path.write_text(source, "utf-8")
    (fix, *_) = findings_of(path)[0].fixes
    assert fix.safety == "safe"
    repaired = apply(fix.diff, source)
    assert DECIDED[name] in repaired
    assert 'device="cuda")' not in repaired


def test_an_optimizer_of_the_script_is_not_said_to_follow_by_loading(tmp_path):
    source = (LABELLED / "slow_copy.py").read_text("utf-8")
    path = tmp_path / "script.py"
    path.write_text(source, "utf-8")
    fixes = findings_of(path)[0].fixes
    assert all("load_state_dict(" not in (fix.diff or "").partition("+slow.")[2] for fix in fixes)
    late = next(fix for fix in fixes if "is made of it" in fix.title)
    repaired = apply(late.diff, source)
    assert (
        repaired.index('device = "cuda:0"') < repaired.index("model.to(") < repaired.index("slow = Average")
    )


@pytest.mark.parametrize(
    ("written", "repaired"),
    [
        ("device_map = split(2)\n", 'device_map["angles"] = device_map["embed"]\nmodel = dispatch_model('),
        (
            'device_map = {\n    "embed": 1,\n    "layers.0": 0,\n    "layers.1": 1,\n    "head": 1,\n}\n',
            'device_map["angles"] = device_map["embed"]\nmodel = dispatch_model(',
        ),
        (
            'model = dispatch_model(model, {"embed": 1, "layers.0": 0, "layers.1": 1, "head": 1}, '
            "main_device=0)\n",
            '"head": 1, "angles": 1}',
        ),
    ],
)
def test_a_map_gets_its_missing_entry_with_the_value_of_one_beside_it(written, repaired, tmp_path):
    source = (Path(__file__).parent / "programs" / "map_without_the_rotary_module.py").read_text("utf-8")
    begin, end = source.index("device_map = split(2)"), source.index("print(model(")
    call = "model = dispatch_model(model, device_map=device_map, main_device=0, force_hooks=True)\n"
    source = source[:begin] + written + ("" if "dispatch_model" in written else call) + source[end:]
    path = tmp_path / "script.py"
    path.write_text(source, "utf-8")
    (fix, *_) = findings_of(path)[0].fixes
    assert fix.safety == "safe"
    assert repaired in apply(fix.diff, source)
    path.write_text(apply(fix.diff, source), "utf-8")
    assert not findings_of(path)
