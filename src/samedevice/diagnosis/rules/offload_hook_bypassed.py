"""An offloaded weight is reached without the hook that would bring it in.

## What happens

The weight is kept on the host, on disk or as a placeholder on meta. Code reads `module.weight` directly,
calls a submodule of a pipeline by itself, or shares components between pipelines, and the hook does not run.

## Why it fails

Offloading works by hooks on `forward`. Code that reads the weight without calling `forward` finds it where it
is stored.

## Example

```bash
pipe.enable_model_cpu_offload()
embeds = compel(prompt)          # calls pipe.text_encoder's embedding, not the pipeline
```

## Use instead

```bash
pipe.text_encoder.to(pipe._execution_device)
embeds = compel(prompt)
# or give the helper library its device argument
```

## Fix safety

Check the result: bringing a module in by hand needs memory, and it stays there.

## Known limits

Weights that loading never filled look alike; then no hook would help (meta-tensor-not-materialized).

## References

- [Reduce memory usage](https://huggingface.co/docs/diffusers/optimization/memory) of diffusers
"""

from __future__ import annotations

import re

from samedevice.diagnosis._failure import Failure, made_text, spelled
from samedevice.diagnosis._rule import Hint, Rule, anywhere, frameless, inside, line, said, shown, sign
from samedevice.messages import Phrase


def _detect(failure: Failure) -> Hint | None:
    weights = [each for each in failure.event.operands if each.device == "meta" and each.parameter]
    offloaded = (
        any(device in ("cpu", "disk", "meta") for device in failure.event.device_map.values())
        and len(failure.event.device_map) > 0
    )
    hooked = any(each.hook for each in failure.event.running)
    if weights and (offloaded or hooked):
        return Hint(
            6,
            Phrase(
                "rules.offload-hook-bypassed.hook-not-run", operand=weights[0].parameter or weights[0].name
            ),
            weights[0].name,
        )
    if weights:
        return Hint(
            2.5, Phrase("because.on-meta", operand=weights[0].parameter or weights[0].name), weights[0].name
        )
    if failure.mismatch and offloaded:
        away = next(
            (
                each
                for each in failure.weights
                if each.device == "cpu" and failure.mapped(each.parameter or "") == "cpu"
            ),
            None,
        )
        if away is not None:
            return Hint(
                6,
                Phrase("rules.offload-hook-bypassed.hook-not-run", operand=away.parameter or away.name),
                away.name,
            )
    if failure.mismatch and failure.hosted and hooked and not failure.weights:
        away = next((each for each in failure.plain if each.device == "cpu"), None)
        if away is not None and re.search(r"embed|weight|table", f"{spelled(away)} {made_text(away)}"):
            return Hint(3.7, Phrase("because.on-host", operand=away.local or away.name), away.name)
    return None


_CHINESE = """offload 的权重被直接使用，绕过了负责取回它的 hook。

## 发生了什么

权重存放在 CPU、磁盘，或者只是 meta 上的占位。代码直接读取 `module.weight`，单独调用 pipeline 的某个子模
块，或在几个 pipeline 之间共用组件，hook 就没有执行。

## 为什么会失败

offload 依靠 `forward` 上的 hook。不经过 `forward` 的代码读到的，是权重在存放处的样子。

## 示例

```bash
pipe.enable_model_cpu_offload()
embeds = compel(prompt)          # 调用的是 pipe.text_encoder 的嵌入层，不是 pipeline
```

## 应当这样写

```bash
pipe.text_encoder.to(pipe._execution_device)
embeds = compel(prompt)
# 或者使用那个库自己的 device 参数
```

## 修复是否安全

需要核对：手动取回的模块会占用显存，并一直留在那里。

## 已知局限

加载时没有填上的权重看起来一样；那种情况 hook 也帮不上忙（meta-tensor-not-materialized）。

## 参考

- diffusers 的 [Reduce memory usage](https://huggingface.co/docs/diffusers/optimization/memory)
"""

RULE = Rule(
    code="SD124",
    name="offload-hook-bypassed",
    title={
        "en": "an offloaded weight was used without its hook",
        "zh": "绕过 hook 使用了被 offload 的权重",
    },
    meaning={
        "en": "a weight that waits on cpu, disk or meta is used by code that its hook does not see",
        "zh": "等待在 CPU、磁盘或 meta 上的权重被 hook 覆盖不到的代码直接使用",
    },
    cure={
        "en": "call the module, not its weight; give helper libraries the execution device; do not share "
        "offloaded components",
        "zh": "调用模块本身而不是它的权重；给辅助库指定执行设备；不要在多个 pipeline 之间共享被 offload 的"
        "组件",
    },
    sentences={
        "hook-not-run": {
            "en": "{operand} is offloaded and its hook did not run",
            "zh": "{operand} 已被 offload，而它的 hook 没有运行",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.65,
    signs=(
        sign(4.4, said("same-device argument-device meta-device"), inside(r"prompt|text_embed|conditioning")),
        sign(3.2, said("meta-device")),
        sign(3.4, said("no-exception"), anywhere(r"on meta")),
        sign(2.7, said("meta-copy")),
        sign(1.0, said("meta-copy"), inside(r"generate|vision|visual|image")),
        sign(
            2.8,
            anywhere(r"cpu_offload|enable_sequential|enable_model_cpu|offload_folder|offloaded|disk_offload"),
        ),
        sign(3.0, said("same-device argument-device", op="index_select", devices="host")),
        sign(1.6, said("same-device argument-device", devices="host"), shown(r"text_encoder|encode_prompt")),
        sign(2.0, line(r"latents_(?:mean|std)|vae\b")),
        sign(
            2.0,
            said("same-device argument-device", devices="host"),
            line(r"\b(?:layer_norm|linear|rms_norm)\(.*\bweight\b"),
        ),
        sign(0.9, said("same-device", devices="host"), frameless()),
        sign(1.5, said("meta-value")),
    ),
    detect=_detect,
)
