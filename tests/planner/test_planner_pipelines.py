"""Components of a diffusion pipeline on GPUs: the best placement of whole ones, and its trial."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from samedevice.cli.commands.plan import app as command
from samedevice.errors import UsageError
from samedevice.machines import parse_machine
from samedevice.planner.pipelines import (
    Component,
    Picture,
    PipelineProfile,
    _plan,
    find_pipeline,
    is_pipeline,
    load_of,
    machines_for_pipeline,
    place_pipeline,
    place_whole,
)
from samedevice.planner.pipelines._offload import OFFLOADS, tiled
from samedevice.report import error_text, render
from samedevice.report.plain import plain_text
from samedevice.report.plan import pipeline_document, pipeline_script, pipeline_shown
from samedevice.report.web import pipeline_page

GIB = 1 << 30
SMALL = {
    "text_encoder": {
        "hidden_size": 32, "intermediate_size": 37, "num_attention_heads": 4, "num_hidden_layers": 2,
        "vocab_size": 1000, "projection_dim": 32,
    },
    "text_encoder_2": {
        "d_ff": 37, "d_kv": 8, "d_model": 32, "num_heads": 4, "num_layers": 2, "vocab_size": 1000,
    },
    "transformer": {
        "attention_head_dim": 16, "axes_dims_rope": [4, 4, 8], "in_channels": 4, "joint_attention_dim": 32,
        "num_attention_heads": 2, "num_layers": 1, "num_single_layers": 1, "pooled_projection_dim": 32,
    },
    "vae": {
        "block_out_channels": [4], "down_block_types": ["DownEncoderBlock2D"],
        "up_block_types": ["UpDecoderBlock2D"], "layers_per_block": 1, "latent_channels": 1,
        "norm_num_groups": 1, "sample_size": 32,
    },
}  # fmt: skip
"""What makes the components of FLUX small."""


SMALL_WAN = {
    "text_encoder": {
        "d_ff": 37, "d_kv": 8, "d_model": 32, "num_heads": 4, "num_layers": 2, "vocab_size": 1000,
    },
    "transformer": {
        "attention_head_dim": 12, "ffn_dim": 32, "freq_dim": 32, "in_channels": 4, "num_attention_heads": 2,
        "num_layers": 2, "out_channels": 4, "text_dim": 32,
    },
    "vae": {
        "base_dim": 4, "dim_mult": [1, 1, 1, 1], "latents_mean": [0.0] * 4, "latents_std": [1.0] * 4,
        "num_res_blocks": 1, "z_dim": 4,
    },
}  # fmt: skip
"""The same for Wan, which makes films."""


def small(name, values, tmp_path) -> Path:
    """A pipeline of this kind without weights and without tokenizers."""
    source = find_pipeline(name).folder
    for file in source.rglob("*.json"):
        read = json.loads(file.read_text("utf-8"))
        target = tmp_path / "tiny" / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({**read, **values.get(file.parent.name, {})}), "utf-8")
    return tmp_path / "tiny"


@pytest.fixture
def folder(tmp_path) -> Path:
    return small("FLUX.1-schnell", SMALL, tmp_path)


@pytest.fixture
def films(tmp_path) -> Path:
    return small("Wan2.1-T2V-1.3B-Diffusers", SMALL_WAN, tmp_path)


def component(name, weights, working=0):
    return Component(name, "Model", weights, weights, working)


def test_no_placement_of_whole_components_is_better_than_the_one_that_is_found():
    parts = [component("vae", 1, 9), component("text", 4, 1), component("unet", 7, 3), component("clip", 2)]
    budgets = [20, 14, 14]

    def room(places):
        own = {
            gpu: [part for part, at in zip(parts, places, strict=True) if at == gpu] for gpu in set(places)
        }
        held = {gpu: 2 if parts[0] in group else 0 for gpu, group in own.items()}
        return min(budgets[gpu] - load_of(group, held[gpu]) for gpu, group in own.items())

    best = max(map(room, itertools.product(range(3), repeat=len(parts))))
    found = place_whole(parts, budgets, held=2)
    assert found.room == best == room([found.gpus[part.name] for part in parts])


def test_a_gpu_that_does_not_help_gets_nothing():
    parts = [component("unet", 9), component("vae", 1), component("text", 1)]
    assert len(place_whole(parts, [10] * 8).loads) == 2


def test_machines_on_which_whole_components_fit(folder, monkeypatch, tmp_path):
    parts = (
        component("vae", GIB, 3 * GIB),
        component("text", 9 * GIB, GIB),
        component("unet", 23 * GIB, GIB),
    )
    measured = PipelineProfile(parts, 2 * GIB, True, {}, Picture(), {}, ())
    monkeypatch.setattr(_plan, "profile_pipeline", lambda source, picture: measured)
    _, found = machines_for_pipeline(str(folder), Picture(), reserve=GIB)
    rooms = {offer.spec: offer.room for offer in found}
    for name in ("A100-40G", "RTX5090"):
        offer = next(each for each in found if each.gpu.key == name)
        budgets = [offer.gpu.total_memory - GIB] * offer.count
        assert offer.room == place_whole(parts, budgets, measured.held).room
    assert min(rooms["1xA100-40G"], rooms["2xRTX5090"]) >= 0
    assert not any(name.partition("x")[2] == "T4" for name in rooms), "its largest component fits on no T4"
    asked = [
        str(folder),
        "--which",
        "--image-size",
        "64x32",
        "--batch",
        "2",
        "--json",
        str(tmp_path / "which.json"),
    ]
    done = CliRunner().invoke(command, asked)
    assert done.exit_code == 0, done.output
    assert f"--machine {found[0].spec} --batch 2 --image-size 64x32 proves the first" in " ".join(
        done.output.split()
    )
    read = json.loads((tmp_path / "which.json").read_text())
    assert read["workload"] == {"batch": 2, "width": 64, "height": 32, "frames": None}
    assert read["machines"][0]["spec"] == found[0].spec
    page = CliRunner().invoke(command, [str(folder), "--which", "--html", str(tmp_path / "page.html")])
    assert page.exit_code == 2 and not (tmp_path / "page.html").exists()


def test_what_is_no_pipeline_is_told_apart(tmp_path):
    assert is_pipeline("black-forest-labs/flux.1-schnell")
    assert not is_pipeline("Qwen/Qwen2.5-7B-Instruct")
    (tmp_path / "config.json").write_text("{}")
    assert not is_pipeline(str(tmp_path))
    (tmp_path / "model_index.json").write_text("[]")
    with pytest.raises(UsageError):
        find_pipeline(str(tmp_path))
    (tmp_path / "model_index.json").write_text('{"_class_name": "P", "unet": ["mine", "Net"]}')
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    with pytest.raises(UsageError):
        find_pipeline(str(tmp_path))


def test_a_pipeline_is_placed_and_proved_and_its_script_runs(folder, monkeypatch, tmp_path):
    pytest.importorskip("diffusers")
    plan = place_pipeline(str(folder), parse_machine("2x8GB"), Picture(size=(256, 128)))
    assert plan.proved, plan.proof
    assert set(plan.placement.gpus) == {"vae", "text_encoder", "text_encoder_2", "transformer"}
    for share in plan.shares:
        assert share.planned == pytest.approx(share.peak.allocated, rel=0.01)
    assert all(each.weights >= 2 * each.parameters for each in plan.components)

    run_script(plan, "2x8GB", monkeypatch, tmp_path)
    assert (tmp_path / "picture-0.png").is_file()


def run_script(plan, machine, monkeypatch, tmp_path):
    """Run a plan's script in this folder, with stand-ins for the tokenizers that it does not have."""
    import diffusers

    from samedevice.planner.pipelines import _trial
    from samedevice.runtime import VirtualMachine

    own, stand_ins = getattr(diffusers, plan.source.kind), _trial._stand_ins(plan.source)
    load = own.from_pretrained
    monkeypatch.setattr(own, "from_pretrained", lambda path, **given: load(path, **given, **stand_ins))
    monkeypatch.setattr(diffusers.utils, "export_to_video", lambda frames, path: Path(path).write_text("."))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["script.py"])
    with VirtualMachine(parse_machine(machine), on_mismatch="raise"):
        exec(compile(pipeline_script(plan), "script.py", "exec"), {})


def test_a_film_has_the_frames_that_were_asked_for_wherever_its_components_are(films, monkeypatch, tmp_path):
    pytest.importorskip("diffusers")
    asked = Picture(batch=2, size=(128, 64), frames=9)
    plan = place_pipeline(str(films), parse_machine("2x8GB"), asked)
    assert plan.proved, plan.proof
    assert plan.profile.made == asked
    assert plan.profile.skipped == {"vae": ("feat_cache", "feat_idx")}
    run_script(plan, "2x8GB", monkeypatch, tmp_path)
    assert {file.name for file in tmp_path.glob("*.mp4")} == {"film-0.mp4", "film-1.mp4"}


def test_a_script_names_the_arguments_of_the_call(folder, monkeypatch, tmp_path):
    diffusers = pytest.importorskip("diffusers")
    own = diffusers.FluxPipeline.__call__

    def call(
        self, image=None, prompt=None, width=None, height=None, output_type="pil", num_inference_steps=2
    ):
        assert image is None
        return own(self, prompt, width=width, height=height, output_type=output_type, num_inference_steps=2)

    monkeypatch.setattr(diffusers.FluxPipeline, "__call__", call)
    plan = place_pipeline(str(folder), parse_machine("2x8GB"), Picture(2, (64, 64)))
    run_script(plan, "2x8GB", monkeypatch, tmp_path)
    assert (tmp_path / "picture-1.png").is_file()


def test_a_pipeline_without_prompt_gets_a_batch(monkeypatch, tmp_path):
    diffusers = pytest.importorskip("diffusers")
    unet = diffusers.UNet2DModel(
        sample_size=8, block_out_channels=(32,), layers_per_block=1, down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
    )  # fmt: skip
    made = diffusers.DDPMPipeline(unet=unet, scheduler=diffusers.DDPMScheduler())
    made.save_pretrained(tmp_path / "tiny")
    steps = diffusers.DDPMScheduler.set_timesteps
    monkeypatch.setattr(diffusers.DDPMScheduler, "set_timesteps", lambda self, count: steps(self, 2))
    # This pipeline makes NumPy arrays of what it computes, which knows no bfloat16.
    plan = place_pipeline(str(tmp_path / "tiny"), parse_machine("1x8GB"), Picture(batch=2), dtype="float32")
    assert plan.proved, plan.proof
    assert plan.profile.wishes == {"batch_size": 2}
    assert "sys" not in pipeline_script(plan)
    run_script(plan, "1x8GB", monkeypatch, tmp_path)
    assert (tmp_path / "picture-1.png").is_file()


def test_what_makes_something_else_where_it_is_placed_does_not_hold(films, monkeypatch):
    diffusers = pytest.importorskip("diffusers")
    monkeypatch.setattr(diffusers.AutoencoderKLWan, "_skip_keys", None)  # accelerate then copies its cache
    plan = place_pipeline(str(films), parse_machine("2x8GB"), Picture(size=(128, 64), frames=9))
    assert plan.profile.made.frames == 9
    assert plan.proof.different is not None
    assert "9 frames" in render(plan.proof.different) and "3 frames" in render(plan.proof.different)
    assert not plan.proved


def test_what_failed_its_proof_is_not_written(films, monkeypatch, tmp_path):
    diffusers = pytest.importorskip("diffusers")
    monkeypatch.setattr(diffusers.AutoencoderKLWan, "_skip_keys", None)
    script, places = tmp_path / "film.py", tmp_path / "map.json"
    asked = ["--image-size", "128x64", "--frames", "9", "--script", str(script), "--device-map", str(places)]
    done = CliRunner().invoke(command, [str(films), "--machine", "2x8GB", *asked])
    assert done.exit_code == 1, done.output
    assert not script.exists()
    assert not places.exists()
    said = " ".join(done.output.split())
    assert said.count("not written") == 2
    assert f"{script}:noplanwasproved" in "".join(said.split())  # a long path is broken anywhere


def test_a_pipeline_that_makes_pictures_takes_no_frames(folder):
    pytest.importorskip("diffusers")
    with pytest.raises(UsageError):
        place_pipeline(str(folder), parse_machine("2x8GB"), Picture(frames=9))


@pytest.fixture
def long_texts(tmp_path) -> Path:
    """A pipeline with two encoders whose weights are most of it."""
    long = {"vocab_size": 400_000}
    values = {**SMALL, **{name: {**SMALL[name], **long} for name in ("text_encoder", "text_encoder_2")}}
    return small("FLUX.1-schnell", values, tmp_path)


def test_where_no_placement_fits_an_offload_is_tried_and_its_script_runs(long_texts, monkeypatch, tmp_path):
    pytest.importorskip("diffusers")
    budget = 48 << 20
    asked = {"picture": Picture(size=(64, 64)), "reserve": (2 << 30) - budget}
    plan = place_pipeline(str(long_texts), parse_machine("1x2GB"), **asked)
    assert not plan.fits
    assert plan.chosen is not None
    assert plan.chosen.offload.whole
    assert plan.shares[0].peak.allocated < budget < sum(each.weights for each in plan.components)
    assert not plan.ways_out
    said = pipeline_document(plan, "en")
    assert said["feasible"] and said["device_map"] is None
    assert said["offload"] == {
        "method": "enable_model_cpu_offload", "arguments": {}, "device": "cuda:0", "vae_tiling": False,
    }  # fmt: skip
    assert said["passed_over"] == []
    (device,) = said["devices"]
    assert device["weights"] is device["working"] is device["planned_peak"] is None
    assert device["measured_peak"] == plan.shares[0].peak.allocated
    words = shown(plan)
    assert "fits with an offload" in words and "does not fit" not in words
    assert "in use" in words and "0 B" not in words
    page = pipeline_page(plan, "en", version="0")
    assert "fits with an offload, and is proved" in page and "does not fit" not in page
    run_script(plan, "1x2GB", monkeypatch, tmp_path)
    assert (tmp_path / "picture-0.png").is_file()


def test_an_autoencoder_that_needs_too_much_works_on_tiles(tmp_path):
    pytest.importorskip("diffusers")
    wide = {
        "block_out_channels": [64, 64], "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2, "norm_num_groups": 8, "sample_size": 256,
    }  # fmt: skip
    folder = small("FLUX.1-schnell", {**SMALL, "vae": {**SMALL["vae"], **wide}}, tmp_path)
    picture = Picture(size=(512, 512))
    measured = place_pipeline(str(folder), parse_machine("1x8GB"), picture).components
    budget = next(each.working for each in measured if each.name == "vae") - (1 << 20)
    plan = place_pipeline(str(folder), parse_machine("1x2GB"), picture, reserve=(2 << 30) - budget)
    assert not plan.fits
    assert plan.chosen is not None
    assert plan.chosen.offload.tiled
    assert plan.shares[0].peak.allocated < budget


def test_an_offload_keeps_all_weights_on_the_host(long_texts):
    pytest.importorskip("diffusers")
    machine = replace(parse_machine("1x2GB"), host_memory=16 << 20)
    asked = {"picture": Picture(size=(64, 64)), "reserve": (2 << 30) - (48 << 20)}
    plan = place_pipeline(str(long_texts), machine, **asked)
    assert not plan.fits and not plan.offloads
    assert plan.host_lacks == plan.weights - (16 << 20) > 0
    assert "keeps all weights on the host" in shown(plan)
    assert place_pipeline(str(long_texts), replace(machine, host_memory=1 << 30), **asked).chosen


def test_an_offload_that_lacks_memory_by_calculation_is_passed_over(tmp_path):
    pytest.importorskip("diffusers")
    values = {**SMALL, "text_encoder_2": {**SMALL["text_encoder_2"], "vocab_size": 900_000}}
    folder = small("FLUX.1-schnell", values, tmp_path)
    budget = 50 << 20
    plan = place_pipeline(
        str(folder), parse_machine("1x2GB"), Picture(size=(64, 64)), reserve=(2 << 30) - budget
    )
    first, *tried = plan.offloads
    assert first.offload.whole and first.proof is None
    most = max(load_of([each]) for each in plan.components)
    assert first.room == budget - most < 0
    assert all(each.proof is not None for each in tried)
    assert "enable_model_cpu_offload(): needs" in pipeline_document(plan, "en")["passed_over"][0]


def test_advice_goes_to_what_is_too_large(folder, tmp_path):
    pytest.importorskip("diffusers")
    picture = Picture(batch=2, size=(512, 512))
    whole = place_pipeline(str(folder), parse_machine("1x8GB"), picture)
    most = {each.name: each.working for each in whole.components}
    assert most["vae"] > 4 << 20 > most["text_encoder"]
    asked = {"picture": picture, "reserve": (2 << 30) - (4 << 20)}
    plan = place_pipeline(str(folder), parse_machine("2x2GB"), **asked)
    assert not plan.proved
    said = [render(way) for way in plan.ways_out]
    for name, working in most.items():
        assert any(each.startswith(f"{name} needs") for each in said) == (working > 4 << 20)
    assert any(each.endswith("--batch, --image-size") for each in said)
    assert any("enable_tiling" in each for each in said)
    assert not any("device_map" in each for each in said)

    heavy = small(
        "FLUX.1-schnell", {**SMALL, "text_encoder": {**SMALL["text_encoder"], "vocab_size": 900_000}},
        tmp_path / "heavy",
    )  # fmt: skip
    for machine, cut in (("1x2GB", False), ("2x2GB", True)):
        said = [render(way) for way in place_pipeline(str(heavy), parse_machine(machine), **asked).ways_out]
        assert any(each.startswith("text_encoder alone needs") for each in said)
        assert any("text_encoder by itself can be cut" in each for each in said) == cut


def test_what_is_made_is_told_where_it_is_not_what_was_asked_for(films):
    pytest.importorskip("diffusers")
    plan = place_pipeline(str(films), parse_machine("2x8GB"), Picture(size=(128, 64), frames=10))
    assert plan.profile.made.frames == 9
    assert "1 film of 128x64, 9 frames; prompts of full length" in shown(plan)
    assert "asked for 128x64, 10 frames, the pipeline makes 128x64, 9 frames" in shown(plan)
    assert plan.proved


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda folder: (folder / "vae" / "config.json").write_text("{"), "vae/config.json is no conf"),
        (lambda folder: (folder / "vae" / "config.json").write_text("[]"), "vae/config.json is no conf"),
        (lambda folder: (folder / "vae" / "config.json").unlink(), "vae/config.json is missing: vae is"),
        (lambda folder: index(folder, vae=["diffusers", "NoSuch"]), "has no NoSuch, which"),
        (lambda folder: index(folder, _class_name="NoPipeline"), "has no NoPipeline, which"),
        (
            lambda folder: (folder / "vae" / "config.json").write_text('{"down_block_types": ["What"]}'),
            "vae/config.json describes what cannot be loaded",
        ),
    ],
)  # fmt: skip
def test_a_broken_pipeline_names_its_file(folder, broken, said):
    pytest.importorskip("diffusers")
    broken(folder)
    told = refused(folder, Picture(size=(64, 64)))
    assert said in told and str(folder) in told


def refused(folder, picture) -> str:
    """The message of a refusal."""
    with pytest.raises(UsageError) as raised:
        place_pipeline(str(folder), parse_machine("2x8GB"), picture)
    return error_text(raised.value, "en")


def index(folder, **values):
    """Write these into a pipeline's index."""
    file = folder / "model_index.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **values}), "utf-8")


def test_a_size_that_the_pipeline_refuses_is_no_fault_of_its_code(films):
    pytest.importorskip("diffusers")
    assert "does not make 100x60: ValueError" in refused(films, Picture(size=(100, 60)))
    assert "0x0 is no size" in refused(films, Picture(size=(0, 0)))


def shown(plan) -> str:
    """As on a wide terminal."""
    return plain_text(pipeline_shown(plan, "en"), 1000)


def test_offloads_are_written_as_they_are_asked_for():
    whole, blocks, *_ = OFFLOADS
    assert whole.lines(1) == ["pipe.enable_model_cpu_offload(device='cuda:1')"]
    assert tiled(whole).lines(0)[0] == "pipe.vae.enable_tiling()"
    assert blocks.call() == "enable_group_offload(offload_type='block_level', num_blocks_per_group=1)"


def test_what_does_not_fit_says_by_how_much_and_what_would_do(folder):
    pytest.importorskip("diffusers")
    plan = place_pipeline(str(folder), parse_machine("2x1028MiB"), Picture())
    assert not plan.fits
    assert plan.proof is None
    assert plan.placement.room < 0
    assert plan.ways_out
