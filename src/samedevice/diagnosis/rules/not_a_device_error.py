"""The error is about something else than devices.

## What happens

Shapes, types, missing keys, a launcher that reports its worker's exit, a collective that times out, or memory
that does not suffice: the text of the error says what it is about, and it is not where tensors are.

## Why it fails

For a reason of its own. Words such as `cuda:0` or `device_map` beside such an error say nothing about it.

## Example

```text
RuntimeError: mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x5120)
```

## Use instead

The `do` line of the finding says what to look at, by what the error is about.

## Fix safety

Nothing is changed.

## Known limits

What only follows from an error about devices in another process shows as that other error: an exit of a
launcher or a time-out needs the output of the rank that failed first.

## References

- [What explain reads](../explain.md)
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule

_CHINESE = """这个错误与设备无关。

## 发生了什么

形状、数值类型、缺少的键、启动器报告子进程退出、集合通信超时、显存不足：报错本身说明了问题是什么，而问题不在张量的位置。

## 为什么会失败

各有各的原因。旁边出现的 `cuda:0`、`device_map` 之类的字样说明不了什么。

## 示例

```text
RuntimeError: mat1 and mat2 shapes cannot be multiplied (77x768 and 4096x5120)
```

## 应当这样写

看结果里“建议”一行，它按问题的种类给出该查什么。

## 修复是否安全

没有改动任何东西。

## 已知局限

另一个进程里的设备错误可能在这里表现为别的错误：启动器退出或通信超时，要看最先出错的那个 rank 的输出。

## 参考

- [explain 能读什么](../explain.md)
"""

RULE = Rule(
    code="SD142",
    name="not-a-device-error",
    title={
        "en": "this is not a device error",
        "zh": "这不是设备错误",
    },
    meaning={
        "en": "what the text states is about something else than the devices of tensors",
        "zh": "文本陈述的问题与张量所在的设备无关",
    },
    cure={
        "en": "look for the reason that the message itself names",
        "zh": "按报错信息本身所说的原因排查",
    },
    sentences={
        "title-topic": {
            "en": "not a device error: it is about {topic}",
            "zh": "不是设备错误，问题在于{topic}",
        },
        "about": {
            "en": "the message itself is about {topic}",
            "zh": "报错信息说的是{topic}",
        },
        "no-device-named": {
            "en": "the error names no device, and nothing in the text puts two tensors on different ones",
            "zh": "报错没有提到设备，文中也没有说明有张量位于不同设备",
        },
        "topic-shape": {"en": "shapes", "zh": "形状"},
        "topic-dtype": {"en": "types of numbers", "zh": "数值类型"},
        "topic-state-dict": {
            "en": "the names or shapes of weights in a checkpoint",
            "zh": "检查点里权重的名字或形状",
        },
        "topic-out-of-memory": {"en": "memory", "zh": "显存或内存不足"},
        "topic-collective-timeout": {"en": "a collective that waited too long", "zh": "集合通信等待超时"},
        "topic-collective-failure": {"en": "the communication of ranks", "zh": "进程间通信"},
        "topic-launcher-exit": {"en": "the end of a worker", "zh": "工作进程退出"},
        "topic-autograd": {"en": "gradients", "zh": "梯度计算"},
        "topic-index": {"en": "an index out of range", "zh": "下标越界"},
        "topic-import": {"en": "an installation", "zh": "安装与导入"},
        "topic-network": {"en": "the network", "zh": "网络"},
        "topic-files": {"en": "files", "zh": "文件"},
        "topic-process": {"en": "starting a process", "zh": "进程启动"},
        "topic-numbers": {"en": "values that are no numbers", "zh": "数值异常"},
        "topic-python": {"en": "the program itself", "zh": "程序本身"},
        "topic-speed": {"en": "speed", "zh": "速度"},
        "topic-quality": {"en": "what a model answers", "zh": "模型的输出质量"},
        "topic-agreement": {"en": "results that differ between devices", "zh": "不同设备上的结果不一致"},
        "cure-shape": {
            "en": "print the shapes of both operands before the statement; a checkpoint and a configuration of different models are the usual reason",
            "zh": "在出错语句之前打印两个操作数的 shape；常见原因是权重与配置不属于同一个模型",
        },
        "cure-shape-in-a-replica": {
            "en": "DataParallel cuts every tensor of the input along its first dimension, also one that has no row for each sample, such as the patches of pictures: start one process per GPU with torchrun, or make one GPU visible (CUDA_VISIBLE_DEVICES=0)",
            "zh": "DataParallel 把每个输入张量都沿第 0 维切开，哪怕这一维不是样本（例如图像的 patch）：改用 torchrun 每块 GPU 启动一个进程，或只暴露一块 GPU（CUDA_VISIBLE_DEVICES=0）",
        },
        "cure-dtype": {
            "en": "bring both operands to one dtype: load the parts with the same torch_dtype, or run under torch.autocast",
            "zh": "统一两个操作数的 dtype：各部分用同样的 torch_dtype 加载，或放在 torch.autocast 里运行",
        },
        "cure-state-dict": {
            "en": "compare the keys of the checkpoint with model.state_dict(); a prefix such as module. comes from a wrapper and can be removed",
            "zh": "比对检查点与 model.state_dict() 的键；module. 之类的前缀来自外层包装，去掉即可",
        },
        "cure-out-of-memory": {
            "en": "use a smaller batch or context, spread or quantize the model, or take larger GPUs",
            "zh": "减小 batch 或上下文长度，把模型分到更多 GPU 上或做量化，或换更大的 GPU",
        },
        "cure-memory-fragmented": {
            "en": "torch holds {reserved} that it does not use: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the start; then as for plain lack of memory",
            "zh": "torch 预留了 {reserved} 却没有用上：启动前设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True；不行再按显存不足处理",
        },
        "cure-memory-others": {
            "en": "another process holds {others} of this GPU: find it with nvidia-smi and end it, or take another GPU",
            "zh": "别的进程占用了这块 GPU 的 {others}：用 nvidia-smi 找到并结束它，或换一块 GPU",
        },
        "cure-memory-too-large": {
            "en": "{asked} at once can never fit in {total}: shorten the context or the batch, or use an attention that does not keep all scores",
            "zh": "一次申请 {asked}，总容量只有 {total}，怎么都放不下：缩短上下文或减小 batch，或换用不保存全部注意力分数的实现",
        },
        "cure-collective-timeout": {
            "en": "one rank did not arrive: look for the rank that stopped or took another branch; raise the time-out only for work that is really long",
            "zh": "有 rank 没有到达：找出先停下或走了别的分支的那个 rank；只有确实很慢的操作才需要调大超时",
        },
        "cure-collective-failure": {
            "en": "read the first error of each rank: the others only see that it is gone",
            "zh": "查看每个 rank 的第一条报错：其余 rank 只是发现它不在了",
        },
        "cure-launcher-exit": {
            "en": "the launcher only says that a worker ended: the reason is above, in that worker's own output; exit code -9 is mostly a lack of host memory",
            "zh": "启动器只说明某个进程退出了：真正的原因在前面那个进程自己的输出里；退出码 -9 多半是主机内存不足",
        },
        "cure-autograd": {
            "en": "look at which tensors need gradients and where a graph is used twice or written in place",
            "zh": "检查哪些张量需要梯度，计算图是否被用了两次或被原地修改",
        },
        "cure-index": {
            "en": "compare the largest index with the size: token ids with the size of the vocabulary, labels with the number of classes",
            "zh": "比较最大下标与维度大小：token id 与词表大小，标签与类别数",
        },
        "cure-import": {
            "en": "install the package for this Python, torch and CUDA",
            "zh": "为当前的 Python、torch 和 CUDA 安装对应的包",
        },
        "cure-import-missing": {
            "en": "install the package that has {module} (often under the same name: python -m pip install {module}) into the Python that runs the script; if {module} is a file of your own, start in its folder, or put that folder into PYTHONPATH",
            "zh": "把提供 {module} 的包装进运行脚本的那个 Python（包名多半相同：python -m pip install {module}）；如果 {module} 是自己的文件，就在它所在的目录启动，或把该目录加入 PYTHONPATH",
        },
        "cure-import-known": {
            "en": "install it into the Python that runs the script: python -m pip install {package}",
            "zh": "把它装进运行脚本的那个 Python：python -m pip install {package}",
        },
        "cure-import-part": {
            "en": "the installed {package} has no {part}: it is another version than the code was written for (python -m pip show {package} tells which), or a file of your own has the name {package}",
            "zh": "已安装的 {package} 里没有 {part}：版本与代码所针对的不同（用 python -m pip show {package} 查看），或者自己的某个文件也叫 {package}",
        },
        "cure-import-torchvision": {
            "en": "this torchvision was built for another torch: install the pair that belongs together (samedevice doctor names it), or python -m pip install --upgrade torch torchvision",
            "zh": "这个 torchvision 是为另一个版本的 torch 编译的：安装配套的版本（samedevice doctor 会给出），或 python -m pip install --upgrade torch torchvision",
        },
        "cure-import-circular": {
            "en": "{module} is imported while it is still being imported: two files import each other, or a file of your own has the name of a package; rename it, or import inside the function",
            "zh": "{module} 还没导入完就又被导入：两个文件互相导入，或自己的文件与某个包同名；改名，或把 import 放进函数里",
        },
        "cure-network": {"en": "check address, port and access", "zh": "检查地址、端口和访问权限"},
        "cure-files": {"en": "check that the file is there and whole", "zh": "检查文件是否存在且完整"},
        "cure-process": {
            "en": 'start processes with the "spawn" method, from a function of a module, before CUDA is used',
            "zh": "在使用 CUDA 之前，用 spawn 方式从模块级函数启动进程",
        },
        "cure-numbers": {
            "en": "find the first tensor that is not finite: lower the learning rate, use bfloat16 instead of float16",
            "zh": "找到第一个出现 nan 或 inf 的张量：降低学习率，把 float16 换成 bfloat16",
        },
        "cure-python": {
            "en": "read the innermost frame of your own code; a version of a library that differs from what the code was written for is a usual reason",
            "zh": "看自己代码里最内层的那一帧；常见原因是库的版本与代码所针对的不一致",
        },
        "cure-speed": {
            "en": "layers on several GPUs run one after the other: use a launcher with data or tensor parallelism for speed",
            "zh": "分层放在多块 GPU 上是依次执行的：要提速请用数据并行或张量并行",
        },
        "cure-quality": {
            "en": "look at the template, the labels and the sampling, on one GPU first",
            "zh": "先在单卡上检查对话模板、标签和采样参数",
        },
        "cure-agreement": {
            "en": "compare in float64: what is left of the difference is no rounding, and a case for the library, with the smallest input",
            "zh": "用 float64 再比一次：若仍不一致，就不是舍入误差，请用最小的输入向该库反馈",
        },
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
)
