"""`samedevice sweep`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._completion import complete_machine
from samedevice.cli._options import (
    DEFAULT_MACHINE,
    Lang,
    chosen_language,
    command_alone,
    listed,
    open_closed_output,
)

app = command_alone()


@app.command(epilog="Exit status: 0 nothing found, 1 something found, 2 wrong usage, 130 interrupted.")
def sweep(
    # Long: a parameter for each option, with its help.
    *,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE|FOLDER",
            help="The library whose models are tried: transformers, diffusers, peft, "
            "sentence-transformers, timm, torchvision, torch_geometric or torchmetrics. Or a folder of "
            "checkpoints, whose code is run as trust_remote_code does; weights are not needed.",
            show_default=False,
        ),
    ],
    models: Annotated[
        str, typer.Option(metavar="GLOB", help="Only classes of these names: 'Qwen2*', '*ForCausalLM'.")
    ] = "*",
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Machine to split over; may be given several times.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    actions: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="What is done with each model: loss, greedy, beam, sample, static-cache, assisted, batch, "
            "train, checkpointing, lora, offload.",
        ),
    ] = "loss,greedy",
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Processes at a time.")] = 1,
    on: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Where the processes run: local, ray (the cluster of RAY_ADDRESS, or one on this computer), "
            "ray://host:port.",
        ),
    ] = "local",
    cuts: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most places at which one model is cut for two GPUs.")
    ] = 16,
    seconds: Annotated[
        float, typer.Option(min=1, metavar="N", help="Processor time for one class, after which it is ended.")
    ] = 120.0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for one class, after which it is ended.")
    ] = "6GiB",
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where results are kept; what is there and did not change is not tried again.",
            show_default="in the cache folder of the user",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write everything as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: models by actions and machines, with all findings.",
            show_default=False,
        ),
    ] = None,
    scripts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the smallest script of each root cause there, and run it to confirm the finding.",
            show_default=False,
        ),
    ] = None,
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Sweep two releases of the package, installed in the cache folder, and compare them.",
            show_default=False,
        ),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="With --versions: find the release that brought or repaired each."),
    ] = False,
    full_size: Annotated[
        bool,
        typer.Option(
            "--full-size",
            help="Look for what is found in released sizes of transformers, too, without weights: on 2x24GB, "
            "2xA100-80G, 4xA100-80G and 8xA100-80G.",
        ),
    ] = False,
    lang: Lang = None,
) -> None:
    """Try every model of a library on several virtual GPUs, and list its device bugs by root cause.

    Each class is built in a small size from its own default configuration, run on one GPU, and then cut at
    every place that automatic placement (`device_map="auto"`) may choose. What fails on one GPU is no device
    bug and is left out. What is found is loaded again through `from_pretrained`. A sweep that was stopped
    goes on where it was.
    """
    from samedevice.cli._sweep import Options, sweep_package
    from samedevice.machines import size_in_mib

    most = size_in_mib(memory)
    if not most:
        raise typer.BadParameter(f"{memory!r} is no size.", param_hint="'--memory'")
    open_closed_output()
    asked = Options(
        package,
        models,
        tuple(machine or (DEFAULT_MACHINE,)),
        tuple(dict.fromkeys(listed(actions))),
        jobs,
        on,
        cuts,
        seconds,
        most << 20,
        store,
        json,
        html,
        scripts,
        listed(versions),
        bisect,
        full_size,
        chosen_language(lang),
    )
    raise typer.Exit(sweep_package(asked))
