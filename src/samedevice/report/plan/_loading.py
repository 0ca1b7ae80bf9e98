"""How a program loads a model by a plan: one line of Python, or a whole script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from itertools import groupby

from packaging.version import Version

from samedevice.planner import inference
from samedevice.planner.inference import PlacementPlan, Proof

_SCRIPT = '''\
"""Load a model by a device map that samedevice made and tried, and continue a text."""

import sys

from transformers import {loader}, AutoTokenizer

MODEL = {path!r}
DEVICE_MAP = {{
{entries}}}

model = {loader}.from_pretrained(MODEL, {argument}={dtype!r}, device_map=DEVICE_MAP)
tokenizer = AutoTokenizer.from_pretrained(MODEL)
text = " ".join(sys.argv[1:]) or "The first thing to know about several GPUs is"
inputs = tokenizer(text, return_tensors="pt").to("cuda:{home}")
tokens = model.generate(**inputs, max_new_tokens={new_tokens})
print(tokenizer.decode(tokens[0], skip_special_tokens=True))
'''


_SCRIPT_OF_PICTURES = '''\
"""Load a model by a device map that samedevice made and tried, and ask it about pictures.

Usage: python THIS PICTURE ... QUESTION
"""

import sys

from transformers import AutoProcessor, {loader}

MODEL = {path!r}
DEVICE_MAP = {{
{entries}}}

*pictures, question = sys.argv[1:]
model = {loader}.from_pretrained(MODEL, {argument}={dtype!r}, device_map=DEVICE_MAP)
processor = AutoProcessor.from_pretrained(MODEL)
content = [{{"type": "image", "path": picture}} for picture in pictures]
content.append({{"type": "text", "text": question}})
inputs = processor.apply_chat_template(
    [{{"role": "user", "content": content}}],
    add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
).to("cuda:{home}")
tokens = model.generate(**inputs, max_new_tokens={new_tokens})
print(processor.decode(tokens[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True))
'''


_SCRIPT_OF_SOUND = '''\
"""Load a model by a device map that samedevice made and tried, and write down what sound files say.

Usage: python THIS SOUND ...
"""

import sys

from transformers import AutoProcessor, {loader}
from transformers.audio_utils import load_audio

MODEL = {path!r}
DEVICE_MAP = {{
{entries}}}

model = {loader}.from_pretrained(MODEL, {argument}={dtype!r}, device_map=DEVICE_MAP)
processor = AutoProcessor.from_pretrained(MODEL)
for sound in sys.argv[1:]:
    inputs = processor(load_audio(sound, sampling_rate=16000), sampling_rate=16000, return_tensors="pt")
    inputs = inputs.to("cuda:{home}").to(model.dtype)
    tokens = model.generate(**inputs, max_new_tokens={new_tokens})
    print(processor.batch_decode(tokens, skip_special_tokens=True)[0])
'''


_EXPANDABLE = """
import os
import sys

# Without it torch's allocator leaves gaps, and runs out of memory. Before torch is imported.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
"""


def loading_line(placed: PlacementPlan, map_file: str | None = None) -> str:
    """The line that loads the model by this plan."""
    source = placed.profile.source
    placement = f"json.load(open({map_file!r}))" if map_file else _map_text(placed.device_map)
    arguments = f'{source.path!r}, {_argument()}="{source.dtype}", device_map={placement}'
    return f"model = {_loader(source)}.from_pretrained({arguments})"


def loading_script(placed: PlacementPlan) -> str:
    """A program that loads the model by this plan and continues a text."""
    profile = placed.profile
    template = _SCRIPT if profile.pictures is None else _SCRIPT_OF_PICTURES
    template = template if profile.sound is None else _SCRIPT_OF_SOUND
    entries = "".join(f"    {name!r}: {gpu},\n" for name, gpu in placed.device_map.items())
    return prepared(template, placed.proof).format(
        loader=_loader(placed.profile.source),
        path=placed.profile.source.path,
        argument=_argument(),
        dtype=placed.profile.source.dtype,
        entries=entries,
        home=placed.shares[0].gpu,
        new_tokens=placed.workload.new_tokens,
    )


def prepared(template: str, proof: Proof | None) -> str:
    """A script that imports sys first, with the setting of the allocator that its proof needed."""
    if proof is None or not proof.expandable:
        return template
    return template.replace("\nimport sys\n", _EXPANDABLE, 1)


def _argument() -> str:
    """How the installed transformers calls the type of the weights; the name is `dtype` since 4.56."""
    return "dtype" if Version(version("transformers")) >= Version("4.56") else "torch_dtype"


def _loader(source: inference.ModelSource) -> str:
    """The class that a script loads the model with."""
    names = source.values.get("architectures")
    architecture = source.architecture
    known = (
        isinstance(names, list) and architecture.isidentifier() and not architecture.endswith("ForCausalLM")
    )
    return architecture if known else "AutoModelForCausalLM"


def _map_text(device_map: Mapping[str, int]) -> str:
    """A device map as a short Python expression: numbered layers as ranges."""
    entries: list[str] = []
    for (stem, gpu), group in groupby(device_map.items(), key=lambda pair: (_numbered(pair[0])[0], pair[1])):
        names = [name for name, _ in group]
        numbers = [_numbered(name)[1] for name in names]
        if len(names) > 2 and numbers == list(range(numbers[0], numbers[0] + len(names))):
            first = f"{numbers[0]}, " if numbers[0] else ""
            entries.append(f'**{{f"{stem}.{{n}}": {gpu} for n in range({first}{numbers[-1] + 1})}}')
        else:
            entries += [f"{json.dumps(name)}: {gpu}" for name in names]
    return "{" + ", ".join(entries) + "}"


def _numbered(name: str) -> tuple[str, int]:
    """`model.layers` and 3 of `model.layers.3`; the name itself and -1 of another."""
    stem, _, number = name.rpartition(".")
    return (
        (stem, int(number))
        if stem and number.isdecimal() and stem.replace(".", "_").isidentifier()
        else (name, -1)
    )
