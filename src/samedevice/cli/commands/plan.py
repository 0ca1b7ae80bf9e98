"""`samedevice plan`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._completion import complete_machine
from samedevice.cli._options import DEFAULT_MACHINE, Lang, chosen_language, command_alone, open_closed_output

app = command_alone()


@app.command(epilog="Exit status: 0 fits and proved, 1 does not fit or failed its proof, 2 wrong usage.")
def plan(
    # Long: a parameter for each option, with its help.
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model's folder, its config.json, or its name on the hub (owner/name); or a diffusion "
            "pipeline's folder.",
            show_default=False,
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="The machine it is to run on: 8xA100-80G, 2xRTX4090+1xA100-40G, or a TOML file.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            metavar="N|max", help="Sequences of one call of generate; max: the most of them that fit."
        ),
    ] = "1",
    context: Annotated[
        str | None,
        typer.Option(
            metavar="N|max",
            help="Tokens of a prompt; max: the longest one that fits.",
            show_default="2048",
        ),
    ] = None,
    images: Annotated[
        int,
        typer.Option(metavar="N", help="Pictures in each prompt; --context counts their tokens."),
    ] = 0,
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="Pixels of each picture; a model that scales every picture to one size keeps its own.",
            show_default="1024x1024",
        ),
    ] = None,
    seconds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Sound in the place of a prompt, for a model that reads sound.",
            show_default="30",
        ),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Frames of each film that a diffusion pipeline makes; without it, as many as it has itself.",
            show_default=False,
        ),
    ] = None,
    new_tokens: Annotated[
        int | None,
        typer.Option("--new-tokens", metavar="N", help="Tokens that are made behind it.", show_default="128"),
    ] = None,
    concurrent: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Also tell how many such sequences vLLM and SGLang can serve at once, with their commands.",
            show_default=False,
        ),
    ] = None,
    which: Annotated[
        bool, typer.Option("--which", help="List the machines of the table on which it fits, instead.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="MAP.json",
            help="Try a device map that is there already on this machine, instead.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What is best: room (most memory left on the fullest GPU), stage (the slowest GPU as fast "
            "as can be), gpus (the fewest), or price (the cheapest; needs --price).",
            show_default="room",
        ),
    ] = None,
    price: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices of GPUs, in TOML: a line such as H100-80G = 2.5 for each.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="float32, float16 or bfloat16; default: what configuration or weights say.",
            show_default=False,
        ),
    ] = None,
    reserve: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of each GPU that is left alone, for the CUDA context and fragmentation.",
            show_default="1GiB",
        ),
    ] = None,
    device_map: Annotated[
        Path | None,
        typer.Option(
            "--device-map", metavar="FILE", help="Write the device map as JSON.", show_default=False
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a script that loads the model by this plan.", show_default=False
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the plan as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: what each GPU holds, block by block, in one file.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Plan training instead: --batch samples of a step over all GPUs, each of --context tokens.",
        ),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --train: full, lora or qlora.", show_default="full"),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --train: ddp, fsdp, zero2 or zero3, instead of the first that fits.",
            show_default=False,
        ),
    ] = None,
    sharding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --train: fsdp or deepspeed, where one GPU is not enough.",
            show_default="fsdp",
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --train: write the launch, its configuration and a program that trains by it.",
            show_default=False,
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Place a model on the GPUs of a machine, and prove on a virtual one that it loads and runs.

    Prints what each GPU holds, the device map for from_pretrained, and what makes sure that no better one
    exists. No weight is read and no code of the model's folder is run.
    """
    from samedevice.cli._choices import settings_here
    from samedevice.cli._plan import Options, plan_model

    open_closed_output()
    chosen = chosen_language(lang)
    settings = settings_here(chosen)
    options = Options(
        model=model,
        machine=machine or settings.machine or DEFAULT_MACHINE,
        batch=batch,
        context=context,
        images=images,
        image_size=image_size,
        seconds=seconds,
        frames=frames,
        new_tokens=new_tokens,
        concurrent=concurrent,
        which=which,
        check=check,
        objective=objective,
        prices=price,
        reserve=reserve,
        dtype=dtype,
        json=json,
        device_map=device_map,
        script=script,
        html=html,
        train=train,
        method=method,
        mode=mode,
        sharding=sharding,
        write=write,
        language=chosen or settings.language,
    )
    raise typer.Exit(plan_model(options))
