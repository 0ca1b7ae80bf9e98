"""Every sentence that people read, once, in English and in Chinese.

The layers above look a sentence up by its key; none of them holds text of its own. Both languages of a key
name the same values (`tests/report/test_messages.py` checks it), so a report never loses a fact with its
language.
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
    """The operator as people call it: `aten.mul.Tensor` is `mul`; names of other libraries keep their
    namespace.
    """
    namespace, _, rest = op.partition(".")
    if not rest:
        return op
    name = rest.rpartition(".")[0] or rest
    return name if namespace == "aten" else f"{namespace}.{name}"


MESSAGES: dict[str, Message] = {
    # Titles: what happened.
    "title.cross-device-operands": Message(
        "{op} got operands on {devices}", "{op} 的操作数分别在 {devices} 上"
    ),
    "title.unmaterialized-weights": Message(
        "{op} met weights that were never loaded: {names}", "{op} 用到了从未加载的权重：{names}"
    ),
    "operator-untold": Message("the operator", "该算子"),
    "unnamed": Message("a tensor that has no name here", "一个此处没有名字的张量"),
    "title.generator-on-other-device": Message(
        "{op} got a random generator of another device", "{op} 的随机数生成器在另一种设备上"
    ),
    "title.out-of-memory": Message(
        "{amount} more does not fit on {devices}", "{devices} 放不下再申请的 {amount}"
    ),
    "title.library-operator": Message(
        "{op} wants one device and got tensors on {devices}",
        "{op} 要求张量在同一设备上，却收到了 {devices} 上的张量",
    ),
    "title.unchecked-kernel": Message(
        "{op} checks nothing and got tensors on {devices}", "{op} 不做任何检查，却收到了 {devices} 上的张量"
    ),
    "title.device-from-unordered-set": Message(
        "a device was picked from an unordered set", "设备是从无序集合中选出的，每次运行可能不同"
    ),
    "title.ranks-share-a-gpu": Message(
        "two ranks of a process group use the same GPU", "同一进程组的两个 rank 使用同一块 GPU"
    ),
    "title.launch-conflict": Message(
        "{op} is asked for a map that this launch forbids", "{op} 被要求使用这种启动方式不允许的 device_map"
    ),
    "title.collective-off-its-gpu": Message(
        "{op} got a tensor on {devices}, and its process group works on {home}",
        "{op} 收到了 {devices} 上的张量，而它的进程组在 {home} 上工作",
    ),
    "title.gpu-shared-beyond-its-memory": Message(
        "processes that share {devices} need more memory than it has",
        "共用 {devices} 的进程需要的显存超过它的总量",
    ),
    "title.no-cuda-build": Message("this torch was built without CUDA", "所安装的 torch 不带 CUDA"),
    "title.no-cuda-device": Message("torch finds no GPU on this machine", "torch 在这台机器上找不到 GPU"),
    "title.devices-met": Message("tensors on {devices} met", "{devices} 上的张量相遇"),
    # Reasons: why real hardware refuses it.
    "why.cross-device-operands": Message(
        "{op} needs all operands on one device; CUDA moves none of them there by itself",
        "{op} 要求所有操作数在同一设备上；CUDA 不会自动移动它们",
    ),
    "why.launch-conflict": Message(
        "the launcher gives each process one GPU and shards by itself; a map over several GPUs fights with "
        "that",
        "启动器给每个进程一块 GPU，并自行切分；铺到多块 GPU 的 device_map 与之冲突",
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
    "why.library-operator": Message(
        "an operator of another library wants all its tensors on one device; it raises an error of its own, "
        "or computes wrong results",
        "第三方库的算子要求所有张量在同一设备上；否则它会自行报错，或算出错误结果",
    ),
    "why.unchecked-kernel": Message(
        "real hardware raises no error here: it computes wrong results or makes an illegal access",
        "真实硬件在这里不会报错，而是算出错误结果或非法访问内存",
    ),
    "why.device-from-unordered-set": Message(
        "the order of a set of strings changes from run to run, and the device with it",
        "字符串集合的顺序每次运行都可能不同，选出的设备也随之改变",
    ),
    "why.ranks-share-a-gpu": Message(
        "NCCL makes a communicator with one rank per GPU; every process begins on cuda:0 until it chooses "
        "another",
        "NCCL 的通信组要求每块 GPU 只有一个 rank；进程若不自行选择，都从 cuda:0 开始",
    ),
    "why.collective-off-its-gpu": Message(
        "each rank of a process group takes part with one GPU, and the call moves no tensor there",
        "进程组的每个 rank 只用一块 GPU 参与通信，调用不会把张量移过去",
    ),
    "why.collective-waits": Message(
        "the group has a communicator on another GPU of this rank; NCCL asks for a new one, and all ranks "
        "wait until the timeout",
        "该进程组在这个 rank 的另一块 GPU 上已有通信组；NCCL 会请求新建一个，所有 rank 一直等到超时",
    ),
    "why.gpu-shared-beyond-its-memory": Message(
        "each process keeps what it held at its peak; on real hardware one of them runs out of memory",
        "每个进程都保留自己峰值时的显存；在真实硬件上，其中一个进程会耗尽显存",
    ),
    # Reasons: why a cause was thought of.
    "record-next": Message(
        "the evidence does not tell which operand is wrong: follow the made and moved lines above, and "
        "compare model.hf_device_map",
        "证据不足以判断哪个操作数放错了：请沿上面的创建与移动位置查找，并核对 model.hf_device_map",
    ),
    "note.ranks": Message("seen on ranks {ranks}", "出现在 rank {ranks}"),
    "note.earlier": Message("before it: an error of kind {kind}", "在此之前：{kind} 类错误"),
    "because.no-cuda-build": Message(
        "torch {version} of this environment was built for the CPU; the script is not at fault",
        "此环境中的 torch {version} 是 CPU 版本，与脚本无关",
    ),
    "because.no-cuda-device": Message(
        "torch {version} was built with CUDA {built} and sees no GPU here: no driver, no GPU, or "
        "CUDA_VISIBLE_DEVICES hides them",
        "torch {version} 带有 CUDA {built}，但在此看不到 GPU：没有驱动、没有 GPU，或被 CUDA_VISIBLE_DEVICES "
        "隐藏",
    ),
    "cure.no-cuda-build": Message(
        "install a torch with CUDA where the GPUs are; without a GPU, samedevice run --machine 2x24GB runs "
        "the script on virtual ones",
        "在有 GPU 的机器上安装带 CUDA 的 torch；没有 GPU 时，用 samedevice run --machine 2x24GB 在虚拟 GPU "
        "上运行脚本",
    ),
    "cure.no-cuda-device": Message(
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES; without a GPU, samedevice run --machine 2x24GB runs "
        "the script on virtual ones",
        "检查 nvidia-smi 和 CUDA_VISIBLE_DEVICES；没有 GPU 时，用 samedevice run --machine 2x24GB 在虚拟 "
        "GPU 上运行脚本",
    ),
    "because.argument": Message(
        "the message names argument {argument} of {op}", "报错信息指明了 {op} 的参数 {argument}"
    ),
    "because.devices": Message("the message names {devices}", "报错信息中的设备是 {devices}"),
    "because.message": Message("the message is of kind {kind}", "报错信息属于 {kind} 类"),
    "because.line": Message("a printed line has: {text}", "打印出的代码行中有：{text}"),
    "because.frame": Message("a frame is in {file}, {function}", "调用栈经过 {file} 的 {function}"),
    "because.words": Message("the text says: {text}", "文本中提到：{text}"),
    "because.earlier": Message("another error came before: {kind}", "之前还有另一个错误：{kind}"),
    "because.neighbours": Message(
        "neighbouring GPUs in the middle of a model: {devices}", "模型中段相邻的两块 GPU：{devices}"
    ),
    "because.placed-by-user": Message(
        "the script put {operand} on {device}", "脚本把 {operand} 放在了 {device} 上"
    ),
    "because.away-from-weight": Message(
        "{operand} is away from {weight}", "{operand} 与 {weight} 不在同一设备"
    ),
    "because.joined": Message("{op} joins two streams", "{op} 把两路特征合并"),
    "because.streams": Message(
        "{op} joins streams ({word}) from two GPUs", "{op} 合并来自两块 GPU 的特征（{word}）"
    ),
    "because.sent-to-model-device": Message(
        "{operand} was sent to {device}, the device of the module's first parameter",
        "{operand} 被送到了 {device}，即模块第一个参数所在的设备",
    ),
    "because.from-input": Message(
        "{operand} was computed from an input on the host", "{operand} 由 CPU 上的输入计算而来"
    ),
    "because.never-moved": Message("{operand} never left the host", "{operand} 一直留在 CPU 上"),
    "because.made-without-device": Message(
        "{operand} was made without a device: {text}", "创建 {operand} 时没有指定设备：{text}"
    ),
    "because.not-registered": Message(
        "{module} is kept in a plain list or attribute, so it is no part of {parent}: .to() does not reach "
        "it",
        "{module} 保存在普通列表或属性中，不是 {parent} 的子模块：.to() 不会移动它",
    ),
    "because.not-gathered": Message(
        "one line computed {operand} and {others} on several GPUs: the parts were not gathered on one "
        "before they were joined",
        "同一行代码在多块 GPU 上分别算出了 {operand} 和 {others}：合并之前没有把它们汇集到一块 GPU 上",
    ),
    "because.kept-plain": Message(
        "{operand} is a plain attribute of {module}: .to() moves parameters and buffers, and leaves it "
        "where it was made",
        "{operand} 是 {module} 的普通属性：.to() 只移动参数和 buffer，它留在了创建时的设备上",
    ),
    "because.computed-from": Message(
        "{operand} was computed from {source}, which was made without a device: {text}",
        "{operand} 由 {source} 计算而来，而创建 {source} 时没有指定设备：{text}",
    ),
    "because.made-elsewhere": Message(
        "{operand} was made on {device}: {text}", "{operand} 创建在 {device} 上：{text}"
    ),
    "because.owned-directly": Message(
        "{operand} belongs to the parent itself, and no hook moves what it meets",
        "{operand} 直接属于父模块，没有 hook 搬运与之运算的张量",
    ),
    "because.on-host": Message("{operand} is on the host", "{operand} 在 CPU 上"),
    "because.literal": Message(
        "{operand} was placed by a literal device: {text}", "{operand} 的设备是写死的：{text}"
    ),
    "because.ranks-share": Message(
        "every process begins on cuda:0; nothing moved one of these ranks to a GPU of its own",
        "每个进程一开始都在 cuda:0；这些 rank 中至少有一个没有切换到自己的 GPU",
    ),
    "because.rotary": Message("{operand} is a rotary table", "{operand} 是旋转位置编码表"),
    "because.in-code": Message("it happened in {where}", "发生在 {where}"),
    "because.made-in": Message("{operand} was made in {where}", "{operand} 创建于 {where}"),
    "because.kept": Message(
        "{operand} is kept between steps by {holder}", "{operand} 由 {holder} 在各步之间保存"
    ),
    "because.cut": Message("{module} is spread over {devices}", "{module} 分布在 {devices} 上"),
    "because.tied": Message("{operand} is the same memory as {names}", "{operand} 与 {names} 共享同一块内存"),
    "because.logits-apart": Message("the logits are on {device}", "logits 在 {device} 上"),
    "because.unmapped": Message("the device_map does not reach {operand}", "device_map 没有覆盖 {operand}"),
    "because.moved-after-dispatch": Message(
        "{operand} was moved after the model was dispatched: {text}",
        "模型分配之后 {operand} 又被移动：{text}",
    ),
    "because.hook-elsewhere": Message(
        "the hook of {module} sends inputs to {hook}, its weights are on {devices}",
        "{module} 的 hook 把输入送到 {hook}，而权重在 {devices}",
    ),
    "because.hook-not-run": Message(
        "{operand} is offloaded and its hook did not run", "{operand} 已被 offload，而它的 hook 没有运行"
    ),
    "because.on-meta": Message("{operand} is on meta", "{operand} 在 meta 上"),
    "because.adapter": Message("{operand} is an adapter's weight", "{operand} 是适配器的权重"),
    "because.kept-copy": Message("{operand} is a kept copy of a parameter", "{operand} 是参数的副本"),
    "because.in-optimizer": Message("{op} is an optimizer's operator", "{op} 是优化器的算子"),
    "because.loss": Message("{op} computes a loss", "{op} 在计算损失"),
    "because.label": Message("{operand} belongs to the loss", "{operand} 属于损失计算"),
    "because.unchecked": Message("{op} does not check its tensors' devices", "{op} 不检查张量所在的设备"),
    "because.generator": Message("the generator belongs to another type of device", "生成器属于另一种设备"),
    "because.launched": Message(
        "{processes} processes were launched and the model has a device_map",
        "启动了 {processes} 个进程，而模型又用了 device_map",
    ),
    "because.loaded": Message(
        "{operand} was loaded without map_location: {text}", "加载 {operand} 时没有 map_location：{text}"
    ),
    # Fixes.
    "fix.inputs-to-weight": Message(
        "send the ids to the device of {weight}, not to a fixed one",
        "把输入移到 {weight} 所在的设备，而不是固定的设备",
    ),
    "fix.inputs-to-embedding": Message(
        "send the ids to the device of {weight}: input_ids.to(model.get_input_embeddings().weight.device)",
        "把 input_ids 移到 {weight} 所在的设备：input_ids.to(model.get_input_embeddings().weight.device)",
    ),
    "fix.input-to": Message(
        "send {operand} to {device} like the other inputs", "把 {operand} 与其他输入一样移到 {device}"
    ),
    "fix.made-on": Message("make {operand} on {device}", "在 {device} 上创建 {operand}"),
    "fix.buffer": Message(
        "make {operand} a buffer, which moves with its module",
        "把 {operand} 注册为 buffer，让它随模块一起移动",
    ),
    "fix.module-list": Message(
        "keep the modules in nn.ModuleList, so that they are parts of {module}",
        "用 nn.ModuleList 保存这些模块，使其成为 {module} 的子模块",
    ),
    "fix.guard-cache": Message(
        "where the cache comes from a server: sd.guard_cache(block) once for the served {block} moves it "
        "there at every step",
        "缓存由服务端提供时：对所服务的 {block} 调用一次 sd.guard_cache(block)，"
        "每一步都会把缓存移到该块所在的设备",
    ),
    "fix.labels": Message(
        "send {operand} to the device of the logits, {device}", "把 {operand} 移到 logits 所在的设备 {device}"
    ),
    "fix.at-use": Message(
        "move {operand} where it is used: {operand}.to({target})",
        "在使用处移动 {operand}：{operand}.to({target})",
    ),
    "fix.one-device": Message(
        'a model that fits on one GPU: device_map={{"": "cuda:0"}}',
        '模型放得下一块 GPU 时：device_map={{"": "cuda:0"}}',
    ),
    "fix.one-visible": Message(
        "show one GPU to the whole program: CUDA_VISIBLE_DEVICES=0",
        "只让程序看到一块 GPU：CUDA_VISIBLE_DEVICES=0",
    ),
    "fix.map-location": Message("load with map_location={device}", "加载时加上 map_location={device}"),
    "fix.no-move": Message("do not move the dispatched model: {where}", "不要移动已分配的模型：{where}"),
    "fix.model-to": Message("move the model as well: .to({device})", "把模型也移过去：.to({device})"),
    "fix.device-map": Message(
        "keep {module} whole: device_map={map}", "让 {module} 保持完整：device_map={map}"
    ),
    "fix.map-key": Message(
        'add "{name}": "{device}" to the device_map', '在 device_map 中加入 "{name}": "{device}"'
    ),
    "fix.library": Message(
        "library code: {operand} has to be on {device} at {where}; use a release that moves it, report it, "
        "or keep both modules on one GPU",
        "库代码的问题：{where} 处 {operand} 需要在 {device} 上；换用会移动它的版本、反馈给维护者，"
        "或把两个模块放在同一块 GPU 上",
    ),
    "fix.release": Message(
        "{package} {version} is known to have this bug: pip install {package}=={good} ({source})",
        "已知 {package} {version} 有此缺陷：pip install {package}=={good}（{source}）",
    ),
    "fix.release-maybe": Message(
        "{package} {bad} is known to fail here: if that is yours, pip install {package}=={good} ({source})",
        "已知 {package} {bad} 会在此处出错：若版本相符，请 pip install {package}=={good}（{source}）",
    ),
    "fix.generator": Message(
        'make the generator where it is used: torch.Generator(device="{device}")',
        '在使用它的设备上创建生成器：torch.Generator(device="{device}")',
    ),
    "fix.sorted-devices": Message(
        "name the main device in the device_map, or run with PYTHONHASHSEED=0",
        "在 device_map 中写明主设备，或设置 PYTHONHASHSEED=0 再运行",
    ),
    "page-summary": Message(
        "**In short**: {title}: {meaning}. **What to do**: {cure}.",
        "**{title}**：{meaning}。\n\n**怎么办**：{cure}。",
    ),
    # Labels of a finding; at most eight columns wide.
    "label.called": Message("called", "调用处"),
    "label.module": Message("module", "模块"),
    "label.held": Message("held", "已占用"),
    "held": Message("{allocated} of {total} on {device}", "{device}：{allocated} / {total}"),
    "label.why": Message("why", "原因"),
    "label.cause": Message("cause", "根源"),
    "label.because": Message("because", "依据"),
    "label.do": Message("do", "建议"),
    "label.more": Message("more", "详情"),
    "label.message": Message("message", "报错"),
    "label.maybe": Message("maybe", "可能"),
    "label.note": Message("note", "备注"),
    "label.fix": Message("fix", "修复"),
    "label.count": Message("count", "次数"),
    "label.ranks": Message("ranks", "rank"),
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
    "summary.many": Message(
        "{count} findings on {machine}; {status}", "在 {machine} 上发现 {count} 个问题；{status}"
    ),
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
    "usage.no-script-to-guard": Message(
        "no script named: give SCRIPT, e.g. samedevice guard train.py",
        "没有指定脚本：请给出 SCRIPT，例如 samedevice guard train.py",
    ),
    "usage.explain-binary": Message("{path} is not a text file", "{path} 不是文本文件"),
    "usage.script-missing": Message(
        "can't open script {path}: no such file", "无法打开脚本 {path}：文件不存在"
    ),
    "usage.script-unreadable": Message("can't read script {path}: {reason}", "无法读取脚本 {path}：{reason}"),
    "usage.no-main": Message("can't find __main__.py in {path}", "在 {path} 中找不到 __main__.py"),
    "usage.module-missing": Message("no module named {module}", "没有名为 {module} 的模块"),
    "usage.module-not-runnable": Message(
        "module {module} can't be run: it has no Python code or no __main__ submodule",
        "模块 {module} 无法运行：没有 Python 代码，或缺少 __main__ 子模块",
    ),
    "usage.json-unwritable": Message(
        "can't write --json {path}: {reason}", "无法写入 --json {path}：{reason}"
    ),
    "usage.json-stdout": Message(
        "--json can't write to standard output, which belongs to the script; name a file",
        "--json 不能写到标准输出，它属于脚本；请指定文件",
    ),
    "usage.nothing-to-explain": Message(
        "nothing to explain: name a file or a code, or pipe a traceback in, e.g. samedevice explain "
        "error.txt",
        "没有可解释的内容：请给出文件或代码，或用管道传入 traceback，例如 samedevice explain error.txt",
    ),
    "usage.explain-unreadable": Message(
        "can't read {path}, and it is no code of a rule: {reason}",
        "无法读取 {path}，它也不是规则代码：{reason}",
    ),
    # Guarding a real run.
    "placement.line": Message(
        "{model}: {device} holds {amount}: {modules}", "{model}：{device} 上有 {amount}：{modules}"
    ),
    "placement.split-block": Message(
        "{modules} is one block and lies on {devices}: its own operators will meet tensors of both; keep "
        "each block on one device",
        "{modules} 是一个完整的块，却分布在 {devices} 上：块内算子会遇到两边的张量；请让每个块位于同一设备",
    ),
    "placement.tied-apart": Message(
        "{modules} are tied and are wanted on {devices}: one memory cannot be on both",
        "{modules} 是绑定的权重，却要求分别位于 {devices}：同一块内存不可能同时在两处",
    ),
    "placement.meta-left": Message(
        "on meta, without values, and no hook brings them in: {modules}",
        "在 meta 上没有数值，也没有 hook 会载入它们：{modules}",
    ),
    "placement.no-hooks": Message(
        "{modules} lies on {devices} and has no hooks: nothing moves activations from one device to the next",
        "{modules} 分布在 {devices} 上却没有 hook：没有任何代码在设备之间搬运激活值",
    ),
    "placement.inputs-not-moved": Message(
        "{modules} is all on {device} and has no hooks: nothing will move its inputs there",
        "{modules} 全部在 {device} 上且没有 hook：没有任何代码会把输入移过去",
    ),
    "placement.own-without-hook": Message(
        "parameters of their own and no hook, so their inputs come from wherever they are: {modules}",
        "自身带有参数却没有 hook，输入停留在原来的设备上：{modules}",
    ),
    "model.no-module": Message(
        "a model is a torch.nn.Module, not {kind}; of a pipeline, give the module inside",
        "模型应当是 torch.nn.Module，而不是 {kind}；对于 pipeline，请传入其中的模块",
    ),
    "align.parted": Message(
        "{paths} share memory and are wanted on several devices: what is written to one of them is no "
        "longer seen in the others",
        "{paths} 共享内存，却要放在不同设备上：写入其中一个，其他的不会再看到",
    ),
    "align.moved": Message(
        "{path}: {source} -> {target}, {amount}, for {reason}",
        "{path}：{source} -> {target}，{amount}，用于 {reason}",
    ),
    "align.wanted": Message(
        "{path} is on {source}, {reason} is on {target}", "{path} 在 {source} 上，而 {reason} 在 {target} 上"
    ),
    "align.fits": Message(
        "{count} tensors, all where {model} wants them", "共 {count} 个张量，都在 {model} 需要的设备上"
    ),
    "align.meta": Message(
        "{path} is on meta: it has a shape and no values, so there is nothing to move; make it with values, "
        "outside torch.device('meta')",
        "{path} 在 meta 上：只有形状、没有数值，无法移动；请在 torch.device('meta') 之外创建它并填充数值",
    ),
    "align.meta-model": Message(
        "{reason} of {model} is on meta and no hook brings it in: load its weights first",
        "{model} 的 {reason} 在 meta 上，也没有 hook 会载入它：请先加载权重",
    ),
    "guard.other-rank": Message(
        "{code}, {cause}: another rank of this job tells it whole",
        "{code}，{cause}：详情由本任务的另一个 rank 给出",
    ),
    "replay.none": Message("no birthplaces: {reason}", "没有创建位置：{reason}"),
    "replay.no-fork": Message(
        "a replay needs a system that can fork a process", "重放需要能够 fork 进程的系统"
    ),
    "replay.no-call": Message("no method of a module is on the traceback", "调用栈上没有模块的方法"),
    "replay.no-copy": Message("{module} could not be copied: {reason}", "无法复制 {module}：{reason}"),
    "replay.elsewhere": Message("the replay failed at another statement", "重放在另一条语句处失败"),
    "replay.too-long": Message("the replay took longer than {seconds} s", "重放超过 {seconds} 秒"),
    "replay.too-large": Message("the replay needed more than {amount}", "重放所需内存超过 {amount}"),
    "replay.died": Message("the replay ended early: {reason}", "重放提前结束：{reason}"),
    "replay.other-error": Message("the replay failed otherwise: {reason}", "重放因其他原因失败：{reason}"),
    "replay.no-error": Message("the replay did not fail", "重放没有失败"),
    "cache.moved": Message(
        "{path} of {block} is on {source} while the block is on {target}: moved {amount} for each operator "
        "that reads it; allocate it on {target}",
        "{block} 的 {path} 在 {source} 上，而该块在 {target} 上：每个读取它的算子都会移动 {amount}；"
        "请直接在 {target} 上分配",
    ),
    "cache.parted": Message(
        "{path}, the cache of {block}, is on {source} while the block is on {target}; allocate the cache on "
        "{target}",
        "{block} 的缓存 {path} 在 {source} 上，而该块在 {target} 上；请在 {target} 上分配缓存",
    ),
    "heal.moved": Message(
        "{at}: {operand} {source} -> {target}, {amount} ({cause}); copied for this operator each time, in "
        "{module}",
        "{at}：{operand} {source} -> {target}，{amount}（{cause}）；在 {module} 中每次只为这个算子复制",
    ),
    "heal.copy-returned": Message(
        "the operator returns memory of its operand, and a copy's memory must not get into the program",
        "该算子返回的结果与操作数共享内存，而副本的内存不能进入程序",
    ),
    "heal.copy-written": Message(
        "the operator wrote to its operand, and a write to a copy would be lost",
        "该算子写入了操作数，而对副本的写入会丢失",
    ),
    "heal.kind": Message(
        "what a tensor of this kind is made of cannot be told, so nobody knows what a copy would miss",
        "无法判断这类张量由哪些内存组成，因此不知道副本会遗漏什么",
    ),
    "heal.graph-of-gradients": Message(
        "samedevice: a graph of the gradients (create_graph=True) would keep a copy that was moved for one "
        "operator only; move the operand in the script, as healing.diffs() or the log shows",
        "samedevice：梯度的计算图（create_graph=True）会保留只为单个算子移动的副本；请按 healing.diffs() "
        "或日志的提示在脚本中移动该操作数",
    ),
    "heal.next-call": Message(
        "not healed in this call: this statement was not met while its calls were watched, and no call is "
        "made twice; the next one learns",
        "本次调用未修复：观察期间没有遇到这条语句，而任何调用都不会执行两次；下一次调用会学习它",
    ),
    "heal.recorded": Message(
        "not healed: a graph is recorded, and nothing is learned then; call the model once before it is "
        "exported or traced",
        "未修复：正在录制计算图，此时不会学习；请在导出或 trace 之前先调用一次模型",
    ),
    "heal.full-graph": Message(
        "{model}: what is healed breaks the one graph of fullgraph=True, so the model runs as it was "
        "written, not compiled",
        "{model}：所做的修复会打断 fullgraph=True 要求的单一计算图，因此模型按原代码运行，不再编译",
    ),
    "heal.not-healed": Message("not healed: {reason}", "未修复：{reason}"),
    "heal.cause": Message(
        "moving a tensor would hide a wrong result when the cause is {cause}",
        "原因是 {cause} 时，移动张量会掩盖错误的结果",
    ),
    "heal.partly-done": Message(
        "the call has done a part of its work already, so that making it again would do that part twice",
        "这次调用已经完成了一部分工作，重做会把这部分执行两次",
    ),
    "heal.unclear": Message(
        "the evidence does not tell which operand is in the wrong place", "证据不足以判断哪个操作数放错了位置"
    ),
    "heal.launcher": Message(
        "{model} is spread by a device_map in a job of {world} processes: each process trains its own copy "
        "on the same GPUs",
        "{model} 在 {world} 个进程的任务中按 device_map 分布：每个进程都在同一批 GPU 上训练自己的副本",
    ),
    "heal.replicas": Message(
        "{model} is replicated: a replica that needs healing is not equal to the others",
        "{model} 有多个副本：需要修复的副本与其他副本不一致",
    ),
    # Trouble of our own.
    "left-over": Message(
        "processes that the script had started and left behind were ended: {processes}",
        "脚本启动后遗留的进程已被结束：{processes}",
    ),
    "json-failed": Message("could not write {path}: {reason}", "无法写入 {path}：{reason}"),
    "unsupported": Message(
        "the virtual machine lacks something that the script uses: {reason}",
        "虚拟机还不支持脚本用到的功能：{reason}",
    ),
    "internal-error": Message(
        "internal error: {reason}. This is our bug, please report it; SAMEDEVICE_DEBUG=1 shows the traceback",
        "内部错误：{reason}。这是我们的缺陷，请告知我们；设置 SAMEDEVICE_DEBUG=1 可查看调用栈",
    ),
    # The monitor.
    "monitor.line": Message(
        "step {step}  {device}  peak {peak}, reserved {reserved}",
        "第 {step} 步  {device}  峰值 {peak}，保留 {reserved}",
    ),
    "monitor.compared": Message(
        "step {step}  {device}  peak {peak}, reserved {reserved}; predicted {predicted} ({error})",
        "第 {step} 步  {device}  峰值 {peak}，保留 {reserved}；预测 {predicted}（{error}）",
    ),
    # Launch plans.
    "plan.what": Message(
        "{way}: micro-batch {micro} on each of {ranks} GPUs, {accumulation} of them a step, {batch} samples "
        "in all",
        "{way}：{ranks} 块 GPU，每块的 micro-batch 为 {micro}，每步累积 {accumulation} 次，共 {batch} 个样本",
    ),
    "plan.needs": Message(
        "needs {peak} of {limit} on each GPU, most of it {moment}",
        "每块 GPU 需要 {peak}，可用 {limit}，峰值出现在{moment}",
    ),
    "plan.too-much": Message(
        "does not fit: {peak} on each GPU, {moment}, where {limit} are free",
        "放不下：每块 GPU 需要 {peak}（{moment}），而可用的只有 {limit}",
    ),
    "plan.host": Message(", and {host} on the host", "；主机需要 {host}"),
    "plan.first": Message("nothing that saves memory is needed", "不需要任何节省显存的手段"),
    "plan.before": Message(
        "{number} cheaper ways did not fit; the last one, {way}, needs {peak} on each GPU",
        "更省事的 {number} 种方式放不下；其中最后一种（{way}）每块 GPU 需要 {peak}",
    ),
    "moment.gather": Message("while the first layer's weights are gathered", "收集第一层权重时"),
    "moment.forward": Message("while the loss is computed", "计算损失时"),
    "moment.loss": Message("while the loss goes backward", "损失反向时"),
    "moment.head": Message("while the backward goes through the head", "反向经过输出层时"),
    "moment.layer": Message("while the backward enters the last layer", "反向进入最后一层时"),
    "moment.reduce": Message("while gradients of a layer are reduced", "规约某层梯度时"),
    "moment.first": Message("in the backward of the first layer", "反向经过第一层时"),
    "moment.backward": Message("at the end of the backward", "反向结束时"),
    "moment.step": Message("while the optimizer works", "优化器更新时"),
    "mode.single": Message("one GPU", "单卡"),
    "mode.ddp": Message("DDP", "DDP"),
    "mode.fsdp": Message("FSDP2", "FSDP2"),
    "mode.hybrid": Message("FSDP2 in groups", "分组 FSDP2"),
    "mode.zero1": Message("DeepSpeed ZeRO-1", "DeepSpeed ZeRO-1"),
    "mode.zero2": Message("DeepSpeed ZeRO-2", "DeepSpeed ZeRO-2"),
    "mode.zero3": Message("DeepSpeed ZeRO-3", "DeepSpeed ZeRO-3"),
    "plan.lora": Message("LoRA of rank {rank}", "秩为 {rank} 的 LoRA"),
    "plan.qlora": Message("QLoRA of rank {rank}", "秩为 {rank} 的 QLoRA"),
    "plan.checkpointing": Message("activation checkpointing", "激活检查点"),
    "offload.optimizer": Message("optimizer state on the host", "优化器状态放在主机"),
    "offload.parameters": Message("parameters and optimizer state on the host", "参数和优化器状态放在主机"),
    "plan.context": Message("{context} tokens a sample", "每个样本 {context} 个 token"),
    # Preflight: what a launch results in, and what it is refused for.
    "parallel.line": Message("{name}: {reason}", "{name}：{reason}"),
    "parallel.single-gpu": Message("one GPU", "单卡"),
    "parallel.naive-model-parallel": Message("naive model parallel", "朴素模型并行"),
    "parallel.data-parallel": Message("DataParallel", "DataParallel"),
    "parallel.ddp": Message("DDP", "DDP"),
    "parallel.fsdp": Message("FSDP", "FSDP"),
    "parallel.fsdp2": Message("FSDP2", "FSDP2"),
    "parallel.zero": Message("DeepSpeed ZeRO-{stage}", "DeepSpeed ZeRO-{stage}"),
    "parallel.tensor-parallel": Message("tensor parallel", "张量并行"),
    "parallel.independent": Message("independent processes", "彼此独立的进程"),
    "parallel.unknown": Message("cannot be told", "无法判断"),
    "parallel-because.plan": Message(
        "the model is loaded with a tensor-parallel plan in {processes} processes",
        "模型以张量并行方案加载，共 {processes} 个进程",
    ),
    "parallel-because.configured": Message(
        "DeepSpeed is configured; processes: {processes}, visible GPUs: {gpus}",
        "配置了 DeepSpeed，{processes} 个进程、{gpus} 块可见 GPU",
    ),
    "parallel-because.no-stage": Message(
        "DeepSpeed is asked for, and its configuration is not at hand", "要求使用 DeepSpeed，但找不到它的配置"
    ),
    "parallel-because.sharded": Message(
        "parameters are sharded over {processes} processes", "参数切分到 {processes} 个进程"
    ),
    "parallel-because.one-each": Message(
        "{launcher} starts {processes} processes on {gpus} visible GPUs, a replica in each",
        "{launcher} 在 {gpus} 块可见 GPU 上启动 {processes} 个进程，每个进程一份副本",
    ),
    "parallel-because.one-each-machines": Message(
        "{launcher} starts {processes} processes on {nodes} machines, {gpus} visible GPUs in each, a "
        "replica in each process",
        "{launcher} 在 {nodes} 台机器上启动 {processes} 个进程，每台可见 {gpus} 块 GPU，每个进程一份副本",
    ),
    "parallel-because.nothing-joins": Message(
        "{processes} processes, and nothing joins them", "{processes} 个进程，之间没有任何通信"
    ),
    "parallel-because.tasks": Message(
        "{launcher} starts {processes} processes; whether the program joins them cannot be told without it",
        "{launcher} 启动 {processes} 个进程；没有程序本身，无法判断它们是否协同训练",
    ),
    "parallel-because.from-cluster": Message(
        "a cluster's environment (RANK, WORLD_SIZE) makes each started process one of a group",
        "集群的环境变量（RANK、WORLD_SIZE）使每个启动的进程成为进程组的一员",
    ),
    "parallel-because.wrapped": Message(
        "one process, and the script wraps the model itself", "单进程，脚本自己包装了模型"
    ),
    "parallel-because.spread": Message(
        "one process, and the model is spread over several of {gpus} visible GPUs",
        "单进程，模型分布在 {gpus} 块可见 GPU 中的多块上",
    ),
    "parallel-because.trainer": Message(
        "one process sees {gpus} GPUs and a Trainer", "单进程看到 {gpus} 块 GPU，并且使用 Trainer"
    ),
    "parallel-because.untold": Message(
        "one process with {gpus} visible GPUs, and the model's map is not known before it runs",
        "单进程、{gpus} 块可见 GPU，运行之前无法得知模型的 device_map",
    ),
    "parallel-because.hidden": Message(
        "one process with a Trainer, which decides by the number of visible GPUs",
        "单进程使用 Trainer，并行方式取决于可见 GPU 的数量",
    ),
    "parallel-because.one-process": Message(
        "one process, and the model is on one GPU", "单进程，模型在一块 GPU 上"
    ),
    "because.asked-for-map": Message(
        "a map is asked for in a launch of {processes} processes",
        "{processes} 个进程的启动中要求使用 device_map",
    ),
    "because.map-launched": Message(
        "each of {processes} processes would spread the model over {devices}: {map}",
        "{processes} 个进程中的每一个都会把模型铺到 {devices} 上：{map}",
    ),
    "because.map-quantized": Message(
        "a quantized model cannot be moved later, and each of {processes} processes would spread it over "
        "{devices}: {map}",
        "量化模型之后无法移动，而 {processes} 个进程中的每一个都会把它铺到 {devices} 上：{map}",
    ),
    "because.map-fsdp": Message(
        "FSDP shards the parameters over {processes} processes, and each would spread them over {devices} "
        "as well: {map}",
        "FSDP 会把参数切分到 {processes} 个进程，而每个进程又把它们铺到 {devices} 上：{map}",
    ),
    "because.map-deepspeed": Message(
        "DeepSpeed places parameters itself, even with one process, and the model would be spread over "
        "{devices}: {map}",
        "即使只有一个进程，DeepSpeed 也会自己放置参数，而模型已铺到 {devices} 上：{map}",
    ),
    "because.map-zero3": Message(
        "ZeRO-3 partitions parameters while they are loaded; transformers refuses any map: {map}",
        "ZeRO-3 在加载时就切分参数；transformers 拒绝任何 device_map：{map}",
    ),
    "because.low-memory-zero3": Message(
        "transformers before 5 refuses low_cpu_mem_usage=True with ZeRO-3",
        "transformers 5 之前的版本在 ZeRO-3 下拒绝 low_cpu_mem_usage=True",
    ),
    "because.map-same-gpu": Message(
        "all of {processes} processes would load onto {devices}: {map}",
        "{processes} 个进程都会加载到 {devices}：{map}",
    ),
    "because.tool-maps": Message(
        "{tool} loads with a map of its own when {option} is on, and ZeRO-3 refuses any map",
        "开启 {option} 时 {tool} 会自己使用 device_map 加载，而 ZeRO-3 拒绝任何 device_map",
    ),
    "because.tool-maps-alone": Message(
        '{tool} starts as one process, sees {gpus} GPUs and loads with device_map="auto"; the environment '
        "makes it a rank of a group",
        '{tool} 以单进程启动并看到 {gpus} 块 GPU，因此用 device_map="auto" 加载；而环境中的 rank '
        "又使它成为进程组的一员",
    ),
    "because.wrapped-split": Message(
        "{by} copies a model from one GPU, and this one is on {devices}",
        "{by} 只能从一块 GPU 复制模型，而这个模型在 {devices} 上",
    ),
    "because.wrapped-elsewhere": Message(
        "the model is on {device}, and DataParallel starts from {first}",
        "模型在 {device} 上，而 DataParallel 从 {first} 开始",
    ),
    "because.moved-whole": Message(
        "the model was spread over {devices} by {map}", "模型已按 {map} 分布在 {devices} 上"
    ),
    "because.current-device": Message(
        "no rank chose its GPU, so each of {processes} processes means {device}",
        "没有进程选择自己的 GPU，{processes} 个进程都会使用 {device}",
    ),
    "because.fixed-device": Message(
        "{device} is written down for all of {processes} processes",
        "{device} 是写死的，{processes} 个进程都会使用它",
    ),
    "because.state-at-birth": Message(
        "{optimizer} makes its state when it is built, on the host; line {line} moves the model afterwards",
        "{optimizer} 在创建时就在 CPU 上建立状态，而模型到第 {line} 行才移动",
    ),
    "because.state-before-move": Message(
        "the state is loaded while the parameters are on the host; line {line} moves them afterwards and "
        "leaves the state there",
        "加载状态时参数还在 CPU 上；参数到第 {line} 行才移动，状态却留在原处",
    ),
    "because.parameters-replaced": Message(
        "line {line} shards the model afterwards, which replaces its parameters",
        "模型到第 {line} 行才切分，它的参数会被替换",
    ),
    "because.loaded-by-all": Message(
        "each of {processes} processes would load it to the GPU that it was saved from",
        "{processes} 个进程都会把它加载到保存时所在的 GPU 上",
    ),
    "because.loss-apart": Message("its operands are on {devices}", "它的操作数在 {devices} 上"),
    "because.trainer-sees": Message(
        "one process sees {gpus} GPUs, and {trainer} gets a model that is on one of them",
        "单进程看到 {gpus} 块 GPU，而交给 {trainer} 的模型只在其中一块上",
    ),
    "because.too-many": Message(
        "{processes} processes, {gpus} visible GPUs", "{processes} 个进程，{gpus} 块可见 GPU"
    ),
    "because.not-exported": Message("set for the shell alone: {name}", "只对 shell 本身有效：{name}"),
    "because.kind-and-number": Message(
        "distributed_type is {kind} and the number of processes {processes}",
        "distributed_type 为 {kind}，而进程数为 {processes}",
    ),
    "because.one-id": Message(
        "MULTI_GPU with gpu_ids {ids}; accelerate refuses fewer than two",
        "MULTI_GPU 却只有 gpu_ids {ids}；accelerate 要求至少两个",
    ),
    "because.keys-twice": Message(
        "beside deepspeed_config_file accelerate refuses {keys}",
        "有 deepspeed_config_file 时 accelerate 拒绝 {keys}",
    ),
    "because.section-unused": Message(
        "{section} is filled in, and distributed_type {kind} does not read it",
        "填写了 {section}，但 distributed_type {kind} 不会读取它",
    ),
    "because.batch-sizes": Message(
        "train_batch_size is {batch}, and micro-batch {micro} times accumulation {steps} times {processes} "
        "processes is {product}",
        "train_batch_size 为 {batch}，而 micro-batch {micro} × 梯度累积 {steps} × {processes} 个进程 = "
        "{product}",
    ),
    "because.not-read": Message(
        "{launcher} does not read accelerate's configuration", "{launcher} 不读取 accelerate 的配置"
    ),
    "fix.rank-map": Message("give each process its own GPU", "让每个进程使用自己的 GPU"),
    "fix.one-process": Message(
        "or start one process: python, without the launcher", "或只启动一个进程：直接用 python，不用启动器"
    ),
    "fix.no-map": Message(
        "load without a map; the engine shards the parameters", "加载时不用 device_map；由引擎切分参数"
    ),
    "fix.no-low-memory": Message("load without low_cpu_mem_usage", "加载时不用 low_cpu_mem_usage"),
    "fix.unwrap": Message(
        "do not wrap it: the model already runs on its GPUs", "不要再包装：模型已经在多块 GPU 上运行"
    ),
    "fix.set-device": Message("let each rank choose its GPU first", "让每个进程先选择自己的 GPU"),
    "fix.rank-device": Message("name the rank's own GPU", "使用该进程自己的 GPU"),
    "fix.move-first": Message("move or shard the model first", "先移动或切分模型"),
    "fix.loss-together": Message(
        "send the target to the device of the prediction", "把目标移到预测所在的设备"
    ),
    "fix.torchrun": Message(
        "start one process per GPU: torchrun --nproc_per_node {count} {script}",
        "每块 GPU 启动一个进程：torchrun --nproc_per_node {count} {script}",
    ),
    "fix.fewer-processes": Message("start {count} processes", "启动 {count} 个进程"),
    "fix.export": Message("export {name}", "导出 {name}"),
    "fix.setting": Message("set {name} to {value}", "把 {name} 设为 {value}"),
    "fix.remove-keys": Message("remove {keys}", "删除 {keys}"),
    "fix.no-option": Message("remove {name}", "去掉 {name}"),
    "assumed-read": Message(
        "values that nobody computed were read at {places}: tensors above SAMEDEVICE_VALUE_LIMIT (1 MiB "
        "unless set) have shapes and "
        "devices only, so what hangs on such values may go another way on hardware",
        "在 {places} 读取了没有计算过的值：超过 SAMEDEVICE_VALUE_LIMIT（默认 1 MiB）的张量只有形状和设备，"
        "因此取决于这些值的结果在真实硬件上可能不同",
    ),
    "asked-values": Message(
        "nobody computed the values that were asked for at {places}, so what was printed or decided there "
        "means nothing; a smaller "
        "model, or a larger SAMEDEVICE_VALUE_LIMIT (bytes, 1 MiB unless set), has true ones",
        "{places} 读取的值没有真正计算过，那里打印的数字和所做的判断没有意义；"
        "换用更小的模型，或调大 SAMEDEVICE_VALUE_LIMIT（字节数，默认 1 MiB），即可得到真实值",
    ),
    "assumed-read.more": Message("{count} more", "其他 {count} 处"),
    "preflight.no-file": Message("there is no file {path}", "没有文件 {path}"),
    "preflight.too-large": Message(
        "{path} is too large: at most {most} are read", "{path} 太大：最多读取 {most}"
    ),
    "preflight.unwritable": Message("{path} cannot be written: {reason}", "无法写入 {path}：{reason}"),
    "preflight.unreadable": Message("{path} cannot be read: {reason}", "无法读取 {path}：{reason}"),
    "preflight.binary": Message("{path} is not a text file", "{path} 不是文本文件"),
    "preflight.broken": Message("{path}, line {line}: {reason}", "{path} 第 {line} 行：{reason}"),
    "preflight.too-deep": Message("{path} is nested too deeply", "{path} 嵌套过深"),
    "preflight.aliases": Message(
        "{path}, line {line}: aliases are not followed, since a few can stand for gigabytes",
        "{path} 第 {line} 行：不展开别名，因为几个别名就可能膨胀到数 GB",
    ),
    "preflight.no-mapping": Message("{path} holds no settings by name", "{path} 中没有按名称给出的设置"),
    "preflight.no-launch": Message(
        "{path} starts no Python program that can be read", "{path} 没有启动可读取的 Python 程序"
    ),
    "preflight.only-unread": Message(
        "{path} starts what cannot be read here, so there is nothing to judge: {commands}",
        "{path} 启动的内容在此无法读取，因此无从判断：{commands}",
    ),
    "preflight.unread": Message(
        "started as well, but cannot be read here, so not judged: {commands}",
        "还会启动以下内容，但在此无法读取，未作判断：{commands}",
    ),
    "preflight.no-training": Message(
        "{path} says nothing of a launch: no training arguments, no configuration of accelerate or "
        "DeepSpeed, no command that starts one",
        "{path} 与启动无关：其中没有训练参数，没有 accelerate 或 DeepSpeed 的配置，也没有启动 Python 的命令",
    ),
    "preflight.unknown-kind": Message(
        "{path} is neither a script nor a configuration (.py, .sh, .yaml, .yml, .json)",
        "{path} 既不是脚本也不是配置（.py、.sh、.yaml、.yml、.json）",
    ),
    "preflight.launcher": Message(
        "the launcher {given} is none of {known}", "启动器 {given} 不在 {known} 之中"
    ),
    "preflight.needs-launcher": Message(
        "{option} needs --launcher torchrun, accelerate or deepspeed: python starts one process",
        "{option} 需要配合 --launcher torchrun、accelerate 或 deepspeed：python 只启动一个进程",
    ),
    "preflight.own-configuration": Message(
        "{path} names its configurations itself; --config is for Python scripts and training arguments",
        "{path} 自己指定配置文件；--config 用于 Python 脚本和训练参数文件",
    ),
    "preflight.count": Message("the number of processes must be at least 1", "进程数至少为 1"),
    "preflight.samples": Message("samples and tokens must be at least 1", "样本数和 token 数至少为 1"),
    "preflight.method": Message(
        "the method {given} is none of {known}", "训练方法 {given} 不在 {known} 之中"
    ),
    "preflight.in-the-way": Message(
        "{path} is there already, with another content", "{path} 已经存在，内容不同"
    ),
    "preflight.mode": Message("the mode {given} is none of {known}", "模式 {given} 不在 {known} 之中"),
    "preflight.asked-mode": Message("{mode} was asked for", "按要求使用 {mode}"),
    "preflight.no-fit": Message(
        "nothing that keeps {mode} fits on {machine}", "在 {machine} 上，保持 {mode} 的任何方式都放不下"
    ),
    "preflight.no-model": Message(
        "to write a launch, its model must be known: --model FOLDER with a config.json",
        "要写出启动配置，需要知道模型：--model 指向含 config.json 的目录",
    ),
    "preflight.written": Message("wrote {files}", "已写出 {files}"),
    "preflight.unlike": Message(
        "the GPUs are not alike ({kinds}); each process gets the same share, so {least} sets the limit",
        "GPU 型号不同（{kinds}）；各进程的份额相同，因此上限由 {least} 决定",
    ),
    "preflight.alone": Message(
        "each process trains a model of its own: no DDP, FSDP, DeepSpeed, Trainer or accelerate was seen "
        "that exchanges gradients",
        "每个进程各训练各的模型：没有看到 DDP、FSDP、DeepSpeed、Trainer 或 accelerate 来同步梯度",
    ),
    "preflight.visible-untold": Message(
        "which GPUs CUDA_VISIBLE_DEVICES shows could not be told before it runs",
        "运行之前无法得知 CUDA_VISIBLE_DEVICES 会暴露哪些 GPU",
    ),
    "preflight.map-untold": Message(
        "{where}: the device_map could not be told before it runs; it was not judged",
        "{where}：运行之前无法得知 device_map，未作判断",
    ),
    "preflight.maybe-map": Message(
        "{where}: a map that splits the model, under a condition that could not be told; it was not refused",
        "{where}：在无法判断的条件下使用了切分模型的 device_map，未予拒绝",
    ),
    "preflight.no-script": Message(
        "the program of this command is not at hand, so only the command was judged: {words}",
        "找不到该命令的程序，只判断了命令本身：{words}",
    ),
    "preflight.no-facts": Message(
        "{script}: no model, trainer, optimizer or process group was seen in it, so there was little to "
        "judge",
        "{script}：其中没有看到模型、Trainer、优化器或进程组，可判断的内容很少",
    ),
    "preflight.passed": Message(
        "nothing speaks against this launch on {machine}", "在 {machine} 上没有发现问题"
    ),
    "preflight.unfit": Message(
        "nothing else speaks against this launch on {machine}, but trained this way it does not fit",
        "在 {machine} 上没有发现其他问题，但这样训练显存放不下",
    ),
    "preflight.refused": Message(
        "{count} reasons not to start this on {machine}", "有 {count} 条理由不应在 {machine} 上启动"
    ),
    "preflight.refused-one": Message(
        "1 reason not to start this on {machine}", "有 1 条理由不应在 {machine} 上启动"
    ),
    "needs.headline": Message(
        "{model}, {count} billion parameters: {way}, {precision}, {optimizer}; each GPU at its worst moment",
        "{model}，{count}B 参数：{way}，{precision}，{optimizer}；每块 GPU 在占用最多的时刻",
    ),
    "needs.full": Message("all weights trained, {way}", "全参数训练，{way}"),
    "needs.plain": Message("as it is", "原样"),
    "needs.checkpointing": Message("checkpointing", "激活检查点"),
    "needs.plan": Message("next way", "备选方案"),
    "needs.micro-batch": Message("micro-batch", "micro-batch"),
    "part.weights": Message("weights", "权重"),
    "part.gradients": Message("gradients", "梯度"),
    "part.optimizer": Message("optimizer", "优化器"),
    "part.activations": Message("activations", "激活"),
    "part.gathered": Message("gathered, cast", "收集与转换"),
    "part.buckets": Message("buckets", "通信桶"),
    "part.working": Message("working", "临时空间"),
    "needs.peak": Message("peak", "峰值"),
    "needs.total": Message("of", "总显存"),
    "needs.largest": Message("largest micro-batch", "最大 micro-batch"),
    "needs.no-model": Message(
        "the memory was not estimated: the model is not known; --model FOLDER with a config.json",
        "未估算显存：不知道是哪个模型；请用 --model 指向含 config.json 的目录",
    ),
    "needs.unreadable": Message(
        "the memory of {path} was not estimated: {reason}", "未估算 {path} 的显存：{reason}"
    ),
    "needs.no-formula": Message(
        "the memory of {path} was not estimated: the activations of the type {kind} have no formula",
        "未估算 {path} 的显存：类型 {kind} 没有激活显存公式",
    ),
    "needs.no-mode": Message(
        "the memory of this mode ({mode}) has no formula; what follows is another way",
        "这种并行方式（{mode}）没有显存公式；下面是另一种方案",
    ),
    "needs.text-only": Message(
        "of {kind}, only the activations of its {text} part are counted",
        "{kind} 的激活只计入其中的 {text} 部分",
    ),
    "needs.nodes": Message(
        "how many ranks share the model on other machines was not judged; what follows is this machine alone",
        "未判断其他机器上有多少进程分摊模型；下面只算这一台机器",
    ),
    "needs.no-fit": Message(
        "does not fit: {way}: needs {peak} of {limit} on each GPU, and {again} with activation checkpointing",
        "放不下：{way}，在每块 GPU 上需要 {peak}，可用 {limit}；用激活检查点时需要 {again}",
    ),
    "needs.only-checkpointing": Message(
        "fits with activation checkpointing only: without it {peak} of {limit} are needed on each GPU",
        "只有使用激活检查点才放得下：否则每块 GPU 需要 {peak}，可用 {limit}",
    ),
    "label.memory": Message("memory", "显存"),
    "label.next": Message("next", "下一步"),
    "label.mode": Message("mode", "并行方式"),
    "label.launch": Message("launch", "启动"),
}
