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

from samedevice.diagnosis._rule import Rule, anywhere, frameless, said, sign

_CHINESE = """某个库的某个版本弄坏了设备处理。

## 发生了什么

同一个脚本换一个版本就正常，而这里的其他类别都不能说明原因。最有名的一例：ZeRO-3 优化器 offload 时，用
CPU 上的梯度去乘 GPU 上的缩放系数。

## 为什么会失败

测试设备处理需要多块 GPU，库很少测；改动就这样混进版本，直到使用者发现。

## 示例

```bash
pip install deepspeed==0.14.1        # 开启 offload 时，优化器的 step 会出错
```

## 应当这样写

```bash
pip install deepspeed==0.14.0        # 或已经修复的版本
```

## 修复是否安全

需要核对：换一个版本，变的不只是这个缺陷。

## 已知局限

只有调用栈或版本号指向已知的版本时，才会选这个根源。

## 参考

- 已知的版本：`samedevice/diagnosis/releases.json`
"""

_ANOTHER_RELEASE = (
    r"(?:works?|worked|fine|no error|does not (?:fail|happen)) "
    r"(?:with|in|on|under|before|until) (?:v|version )?\d{1,4}\.\d{1,4}(?:\.\w{1,20}){0,4}(?!\w)"
    r"(?!\s?-?(?:bit|bpw|[BKMGT]i?B?\b|%))"
    r"|(?:after|since) (?:an? )?(?:upgrad\w+|updat\w+)|downgrad\w+(?! (?:my|the|an?) "
    r"(?:image|picture|quality|resolution|batch)\w*)|roll(?:ed|ing)? back to|regression"
    r"|(?:升级|更新)(?:之)?后|降级|旧版本"
)
"""A text that says of two releases that one works and the other one does not."""

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
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.4,
    signs=(
        sign(
            4.2,
            anywhere(_ANOTHER_RELEASE),
            said("same-device argument-device index-device meta-copy meta-device"),
        ),
        sign(0.4, said("same-device argument-device", devices="gpus"), frameless()),
        sign(0.6, said("same-device", devices="host"), frameless()),
    ),
)
