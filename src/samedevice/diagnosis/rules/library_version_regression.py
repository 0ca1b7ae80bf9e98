"""A release of a library broke the device handling.

## What happens

The same script works with another release, and no other class here describes the mechanism. The best-known
one: ZeRO-3 optimizer offload that multiplies a CPU gradient with a GPU scale.

## Why it fails

Device handling is tested little by libraries, since it takes several GPUs; a change slips through until users
find it.

## Example

```bash
pip install deepspeed==0.14.1        # broken step with offload
```

## Use instead

```bash
pip install deepspeed==0.14.0        # or the release that has the repair
```

## Fix safety

Check the result: another release changes more than this bug.

## Known limits

It is chosen only where frames or versions point to a known release.

## References

- Known releases: `samedevice/diagnosis/releases.json`
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, anywhere, at, frameless, inside, line, said, shown, sign

RULE = Rule(
    code="SD138",
    name="library-version-regression",
    title={
        "en": "a library release broke device handling",
        "zh": "某个库版本的设备处理有缺陷",
    },
    meaning={
        "en": "a known release mixes devices; another release does not",
        "zh": "已知某个版本会混用设备，换一个版本即可",
    },
    cure={
        "en": "use the release that works, and report both versions",
        "zh": "换用正常的版本，并在反馈时给出两个版本号",
    },
    page=__doc__ or "",
    common=0.4,
    signs=(
        sign(
            6.6,
            at(r"deepspeed/runtime/zero|deepspeed/runtime/engine"),
            line(r"unscale_and_clip|combined_scale|mul_|step"),
        ),
        sign(5.5, inside(r"deepspeed/runtime/zero"), said("same-device", devices="host")),
        sign(4, inside(r"deepspeed"), said("same-device", devices="host")),
        sign(
            4.5, shown(r"model_engine|unscale_and_clip|combined_scale"), said("same-device", devices="host")
        ),
        sign(1.4, anywhere(r"deepspeed|zero-?3|offload_optimizer"), said("same-device", devices="host")),
        sign(0.4, said("same-device argument-device", devices="gpus"), frameless()),
        sign(0.6, said("same-device", devices="host"), frameless()),
        sign(
            1.6,
            said("same-device", devices="gpus"),
            line(r"generate\(.*(?:model|inputs)"),
            at(r"script|notebook|__call__|<module>|context"),
        ),
    ),
)
