"""Every sentence that people read, once, in English and in Chinese.

The layers above look a sentence up by its key; none of them holds text of its own. Both languages of a key name the same
values (`tests/report/test_messages.py` checks it), so a report never loses a fact with its language.
"""

# ruff: noqa: RUF001 # Chinese sentences use Chinese punctuation

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Message:
    """One sentence with its values in braces, as `str.format` reads them."""

    en: str
    zh: str


def say(key: str, language: Language, **values: object) -> str:
    """The sentence of `key` in `language`, filled with `values`."""
    message = MESSAGES[key]
    return (message.zh if language == "zh" else message.en).format_map(values)


def language_of(environment: Mapping[str, str]) -> Language:
    """The language that the locale variables ask for; English unless they say Chinese."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(variable):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def enumerate_words(words: Sequence[str], language: Language) -> str:
    """`a`, `a and b`, `a, b and c`."""
    comma, conjunction = ("、", " 和 ") if language == "zh" else (", ", " and ")
    *most, last = words
    return f"{comma.join(most)}{conjunction}{last}" if most else last


def short_operator(op: str) -> str:
    """The operator as people call it: `aten.mul.Tensor` is `mul`; names of other libraries keep their namespace."""
    namespace, _, rest = op.partition(".")
    if not rest:
        return op
    name = rest.rpartition(".")[0] or rest
    return name if namespace == "aten" else f"{namespace}.{name}"


MESSAGES: dict[str, Message] = {
    # Titles: what happened.
    "title.cross-device-operands": Message("{op} got operands on {devices}", "{op} 的操作数分别在 {devices} 上"),
    "title.unmaterialized-weights": Message(
        "{op} met weights that were never loaded: {names}", "{op} 用到了从未加载的权重：{names}"
    ),
    "title.generator-on-other-device": Message(
        "{op} got a random generator of another device", "{op} 的随机数生成器在另一种设备上"
    ),
    "title.out-of-memory": Message("{amount} more does not fit on {devices}", "{devices} 放不下再申请的 {amount}"),
    "title.unchecked-kernel": Message(
        "{op} checks nothing and got tensors on {devices}", "{op} 不做任何检查，却收到了 {devices} 上的张量"
    ),
    "title.device-from-unordered-set": Message(
        "a device was picked from an unordered set", "设备是从无序集合中选出的，每次运行可能不同"
    ),
    # Reasons: why real hardware refuses it.
    "why.cross-device-operands": Message(
        "{op} needs all operands on one device; CUDA moves none of them there by itself",
        "{op} 要求所有操作数在同一设备上；CUDA 不会自动移动它们",
    ),
    "why.cross-device-index": Message(
        "the index may be on the cpu or with the indexed tensor, not on another GPU",
        "索引可以在 cpu 上，也可以与被索引的张量同在一个设备上，但不能在另一块 GPU 上",
    ),
    "why.unmaterialized-weights": Message(
        "a tensor on meta has a shape and no values; nothing filled it before it was used",
        "meta 上的张量只有形状、没有数值；使用之前没有任何代码填充它",
    ),
    "why.generator-on-other-device": Message(
        "a generator belongs to one type of device and draws only for tensors of that type",
        "随机数生成器属于一种设备，只能为这种设备上的张量取数",
    ),
    "why.out-of-memory": Message(
        "more was asked for than was free on the device at that moment",
        "申请的显存多于该设备当时的空闲显存",
    ),
    "why.unchecked-kernel": Message(
        "real hardware raises no error here: it computes wrong results or makes an illegal access",
        "真实硬件在这里不会报错，而是算出错误结果或非法访问内存",
    ),
    "why.device-from-unordered-set": Message(
        "the order of a set of strings changes from run to run, and the device with it",
        "字符串集合的顺序每次运行都可能不同，选出的设备也随之改变",
    ),
    # Fixes.
    "fix.inputs-to-weight": Message(
        "send the ids to the device of {weight}, not to a fixed one", "把输入移到 {weight} 所在的设备，而不是固定的设备"
    ),
    "fix.inputs-to-embedding": Message(
        "send the ids to the device of {weight}: input_ids.to(model.get_input_embeddings().weight.device)",
        "把 input_ids 移到 {weight} 所在的设备：input_ids.to(model.get_input_embeddings().weight.device)",
    ),
    "fix.generator": Message(
        'make the generator where it is used: torch.Generator(device="{device}")',
        '在使用它的设备上创建生成器：torch.Generator(device="{device}")',
    ),
    "fix.sorted-devices": Message(
        "name the main device in the device_map, or run with PYTHONHASHSEED=0",
        "在 device_map 中写明主设备，或设置 PYTHONHASHSEED=0 再运行",
    ),
    # Labels of a finding; at most eight columns wide.
    "label.called": Message("called", "调用处"),
    "label.module": Message("module", "模块"),
    "label.held": Message("held", "已占用"),
    "held": Message("{allocated} of {total} on {device}", "{device}：{allocated} / {total}"),
    "label.why": Message("why", "原因"),
    "label.cause": Message("cause", "根源"),
    "label.maybe": Message("maybe", "可能"),
    "label.note": Message("note", "备注"),
    "label.fix": Message("fix", "修复"),
    "label.count": Message("count", "次数"),
    "times": Message("{count} times", "{count} 次"),
    "at": Message("{place} in {function}", "{place}，{function} 中"),
    "assumed": Message("values assumed", "数值为假定"),
    "tied": Message("tied to {names}", "与 {names} 共享"),
    "made": Message("made at {place}", "创建于 {place}"),
    "made-never-moved": Message("made at {place}, never moved", "创建于 {place}，从未移动"),
    "moved": Message("moved at {place}", "在 {place} 移动"),
    "moved-by": Message("moved by {call} at {place}", "在 {place} 由 {call} 移动"),
    "between-facts": Message(", ", "，"),
    "origin-unknown": Message("origin unknown", "来源未知"),
    "safety.safe": Message("safe", "安全"),
    "safety.check": Message("check the result", "需检查结果"),
    "safety.unsafe": Message("unsafe", "不安全"),
    "confidence.certain": Message("certain", "确定"),
    "confidence.likely": Message("likely", "很可能"),
    "confidence.guess": Message("guess", "猜测"),
    # Summary of a run.
    "summary.none": Message("nothing found on {machine}; {status}", "在 {machine} 上未发现问题；{status}"),
    "summary.one": Message("1 finding on {machine}; {status}", "在 {machine} 上发现 1 个问题；{status}"),
    "summary.many": Message("{count} findings on {machine}; {status}", "在 {machine} 上发现 {count} 个问题；{status}"),
    "status.completed": Message("the script ran to its end", "脚本运行完毕"),
    "status.script-error": Message("the script ended with an error", "脚本出错终止"),
    "status.out-of-memory": Message("the script ran out of GPU memory", "脚本耗尽显存"),
    "status.interrupted": Message("the script was interrupted", "脚本被中断"),
    "memory.device": Message("device", "设备"),
    "memory.allocated": Message("peak allocated", "分配峰值"),
    "memory.reserved": Message("peak reserved", "保留峰值"),
    "memory.total": Message("total", "总量"),
    # While the script runs.
    "progress": Message(
        "{elapsed}  operators {operators}  findings {findings}  {memory}",
        "{elapsed}  算子 {operators}  问题 {findings}  {memory}",
    ),
    # Wrong usage.
    "usage.no-script": Message(
        "no script named: give SCRIPT or -m MODULE, e.g. samedevice run train.py",
        "没有指定脚本：请给出 SCRIPT 或 -m MODULE，例如 samedevice run train.py",
    ),
    "usage.script-missing": Message("can't open script {path}: no such file", "无法打开脚本 {path}：文件不存在"),
    "usage.script-unreadable": Message("can't read script {path}: {reason}", "无法读取脚本 {path}：{reason}"),
    "usage.no-main": Message("can't find __main__.py in {path}", "在 {path} 中找不到 __main__.py"),
    "usage.module-missing": Message("no module named {module}", "没有名为 {module} 的模块"),
    "usage.module-not-runnable": Message(
        "module {module} can't be run: it has no Python code or no __main__ submodule",
        "模块 {module} 无法运行：没有 Python 代码，或缺少 __main__ 子模块",
    ),
    "usage.json-unwritable": Message("can't write --json {path}: {reason}", "无法写入 --json {path}：{reason}"),
    "usage.json-stdout": Message(
        "--json can't write to standard output, which belongs to the script; name a file",
        "--json 不能写到标准输出，它属于脚本；请指定文件",
    ),
    # Trouble of our own.
    "json-failed": Message("could not write {path}: {reason}", "无法写入 {path}：{reason}"),
    "unsupported": Message(
        "the virtual machine lacks something that the script uses: {reason}", "虚拟机还不支持脚本用到的功能：{reason}"
    ),
    "internal-error": Message(
        "internal error: {reason}. This is our bug, please report it; SAMEDEVICE_DEBUG=1 shows the traceback",
        "内部错误：{reason}。这是我们的缺陷，请告知我们；设置 SAMEDEVICE_DEBUG=1 可查看调用栈",
    ),
}
