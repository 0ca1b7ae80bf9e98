"""`samedevice plan` as a command: status, output, files, languages, wrong usage."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from samedevice.cli.commands.plan import app as command
from samedevice.planner.inference import PlacementPlan

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128,
    "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 4000,
    "torch_dtype": "float16",
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def plan(shell, *words, **env):
    return shell.call([*shell.real, "plan", *map(str, words)], env=env)


def test_a_plan_with_its_files(shell, model, tmp_path):
    files = {name: tmp_path / name for name in ("plan.json", "map.json", "load.py")}
    done = plan(
        shell, model, "--machine", "2x2GB", "--context", 256, "--json", files["plan.json"],
        "--device-map", files["map.json"], "--script", files["load.py"], "--html", tmp_path / "plan.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "cuda:1" in done.stdout
    assert "holds: no finding" in done.stdout
    assert len(done.stdout.splitlines()) <= 30
    found = json.loads(files["plan.json"].read_text())
    assert (found["schema"], found["feasible"], found["proved"]) == (1, True, True)
    assert found["model"]["dtype"] == "float16"
    assert found["workload"] == {"batch": 1, "context": 256, "new_tokens": 128, "images": 0}
    assert found["pictures"] is None
    assert [device["device"] for device in found["devices"]] == ["cuda:0", "cuda:1"]
    assert found["proof"]["findings"] == []
    for device in found["devices"]:
        peaks = found["proof"]["peaks"][device["device"]]
        assert device["measured_peak"] == max(peaks["load"], peaks["prompt"], peaks["last_token"])
        assert device["free"] == device["budget"] - device["measured_peak"] >= found["room"]
    assert json.loads(files["map.json"].read_text()) == found["device_map"]
    compile(files["load.py"].read_text(), "load.py", "exec")
    page = (tmp_path / "plan.html").read_text("utf-8")
    for device in found["devices"]:
        assert f"<span>{device['device']}</span>" in page
        assert all(block in page for block in device["blocks"])
    shown = done.stdout.partition("device_map=")[2]
    assert str(files["map.json"]) in shown


def test_a_plan_for_training_with_its_launch(shell, model, tmp_path):
    done = plan(
        shell, model, "--train", "--machine", "2x24GB", "--batch", 4, "--context", 128, "--mode", "ddp",
        "--write", tmp_path / "out", "--json", tmp_path / "train.json", "--html", tmp_path / "train.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "holds: a step of the whole model" in done.stdout
    found = json.loads((tmp_path / "train.json").read_text())
    assert (found["schema"], found["feasible"], found["proved"]) == (1, True, True)
    assert (found["training"]["mode"], found["training"]["micro_batch"]) == ("ddp", 2)
    assert {name.rpartition("/")[2] for name in found["files"]} == {
        "accelerate.yaml", "training.yaml", "launch.sh", "train.py"
    }  # fmt: skip
    compile((tmp_path / "out" / "train.py").read_text(), "train.py", "exec")
    page = (tmp_path / "train.html").read_text(encoding="utf-8")
    assert "fits, and is proved" in page and "cuda:0-1" in page
    assert "while the loss is computed" in page and "before the first step" in page
    assert "<script" not in page and f"sh {tmp_path / 'out' / 'launch.sh'} TEXT" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--train", "--which"), "--train plans a launch"),
        (("--train", "--context", "max"), "are numbers"),
        (("--write", "out"), "--write goes with --train"),
        (("--train", "--method", "half"), "half"),
        (("--train", "--mode", "pipeline"), "pipeline"),
    ],
)
def test_wrong_wishes_for_training(shell, model, words, said):
    done = plan(shell, model, *words)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--context", "4096"), ("--new-tokens", "8"), ("--objective", "gpus"), ("--seconds", "30"),
        ("--method", "lora"), ("--batch", "max"), ("--price", "prices.toml"),
    ],
)  # fmt: skip
def test_a_pipeline_refuses_what_does_nothing_for_it(shell, words):
    done = plan(shell, "FLUX.1-schnell", *words)
    assert done.returncode == 2
    assert f"{words[0]}" in done.stderr and "is for models of transformers" in done.stderr


def test_what_failed_its_proof_is_not_written(model, monkeypatch, tmp_path):
    monkeypatch.setattr(PlacementPlan, "proved", False)
    files = [tmp_path / name for name in ("map.json", "load.py")]
    asked = ["--device-map", str(files[0]), "--script", str(files[1])]
    done = CliRunner().invoke(command, [str(model), "--machine", "2x2GB", "--context", "256", *asked])
    assert done.exit_code == 1, done.output
    assert not any(file.exists() for file in files)
    assert done.output.count("no plan was proved") == 2


def test_a_model_makes_no_film(shell, model):
    done = plan(shell, model, "--frames", "9")
    assert done.returncode == 2
    assert "--frames is for a diffusion pipeline" in done.stderr


def test_what_does_not_fit(shell, model, tmp_path):
    done = plan(shell, model, "--machine", "2x2GB", "--reserve", "2047MiB", "--json", tmp_path / "plan.json")
    assert done.returncode == 1, done.stderr
    assert "does not fit" in done.stdout
    found = json.loads((tmp_path / "plan.json").read_text())
    assert not found["feasible"]
    assert found["device_map"] is None
    assert found["room"] < 0


def test_chinese_and_plain_characters(shell, model):
    done = plan(shell, model, "--machine", "2x2GB", "--context", "64", "--lang", "zh")
    assert "验证" in done.stdout
    assert "\u2591" in done.stdout
    plain = plan(shell, model, "--machine", "2x2GB", "--context", "64", PYTHONIOENCODING="ascii")
    assert plain.returncode == 0
    assert plain.stdout.isascii()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing-there"], "neither a model's folder"),
        (["--machine", "2xNOTHING"], "NOTHING"),
        (["--reserve", "much"], "no size"),
        (["--objective", "speed"], "room"),
        (["--context", "0"], "whole number"),
        (["--context", "max", "--batch", "max"], "only one"),
        (["--which", "--check", "map.json"], "do not go together"),
        (["--check", "no-map.json"], "no-map.json"),
        (["--price", "no-prices.toml"], "no-prices.toml"),
        (["--objective", "price"], "--price FILE"),
    ],
)
def test_wrong_usage(shell, model, words, said):
    named = words if words[0] == "nothing-there" else [model, *words]
    done = plan(shell, *named)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_the_longest_context_and_what_engines_serve(shell, model, tmp_path):
    (model / "config.json").write_text(json.dumps({**CONFIG, "max_position_embeddings": 640}))
    words = ("--machine", "2x2GB", "--context", "max", "--concurrent", 3, "--json", tmp_path / "plan.json")
    done = plan(shell, model, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["workload"]["context"] == found["most"]["value"] == 512
    assert found["most"]["limited"]
    assert found["serving"]["sequences"] > 3
    assert found["serving"]["commands"]["vllm"] in done.stdout


def test_machines_for_it(shell, model, tmp_path):
    (tmp_path / "prices.toml").write_text("T4 = 0.4\nH100-80G = 2.5\n")
    words = ("--which", "--context", 512, "--price", tmp_path / "prices.toml")
    words = (*words, "--json", tmp_path / "which.json")
    done = plan(shell, model, *words)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[2].split()
    assert (first[0], first[-1]) == ("1xT4", "0.4")
    assert "--machine 1xT4 --context 512 proves the first" in " ".join(done.stdout.split())
    found = json.loads((tmp_path / "which.json").read_text())
    assert [machine["spec"] for machine in found["machines"][:2]] == ["1xT4", "1xH100-80G"]


def test_a_map_on_trial(shell, model, tmp_path):
    layers = {f"model.layers.{number}": number // 2 for number in range(4)}
    ends = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    (tmp_path / "map.json").write_text(json.dumps({**ends, **layers}))
    words = ("--check", tmp_path / "map.json", "--context", 64, "--json", tmp_path / "trial.json")
    done = plan(shell, model, "--machine", "2x2GB", *words)
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert json.loads((tmp_path / "trial.json").read_text())["proved"]
    assert plan(shell, model, "--machine", "1x2GB", *words).returncode == 2
    small = plan(shell, model, "--machine", "2x2GB", *words, "--reserve", "2047MiB")
    assert small.returncode == 1
    assert "--machine 2x2GB --batch 1 --context 64" in " ".join(small.stdout.split())


def test_a_page_is_for_a_plan(shell, model, tmp_path):
    done = plan(shell, model, "--which", "--html", tmp_path / "page.html")
    assert done.returncode == 2
    assert "--html" in done.stderr
    assert not (tmp_path / "page.html").exists()
