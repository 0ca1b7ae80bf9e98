"""A shell script sets a variable for the launch, and the program never sees it.

## What happens

`CUDA_VISIBLE_DEVICES=0,1` or `NPROC_PER_NODE=8` on a line of its own is a variable of the shell. Without
`export`, or a backslash that joins it with the command below, the program's environment does not have it.

## Why it fails

The program sees all GPUs, or starts one process where eight were meant, and chooses another kind of
parallelism.

## Example

```bash
NPROC_PER_NODE=8
swift sft --model ...
```

## Use instead

```bash
NPROC_PER_NODE=8 \\
swift sft --model ...
```

## Fix safety

Safe.

## Known limits

Variables that the surrounding environment has exported already pass their new value on without `export`;
whether it has, a script does not say.

## References

- [Bash: environment](https://www.gnu.org/software/bash/manual/html_node/Environment.html)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule

_CHINESE = """shell 脚本为启动设置了变量，程序却看不到。

## 发生了什么

单独一行的 `CUDA_VISIBLE_DEVICES=0,1` 或 `NPROC_PER_NODE=8` 只是 shell 的变量。没有 `export`，行尾也没有
反斜杠把它和下一行的命令连起来，程序的环境里就没有它。

## 为什么会失败

程序看到了全部 GPU，或者本该启动八个进程却只启动了一个，于是选了另一种并行方式。

## 示例

```bash
NPROC_PER_NODE=8
swift sft --model ...
```

## 应当这样写

```bash
NPROC_PER_NODE=8 \\
swift sft --model ...
```

## 修复是否安全

安全。

## 已知局限

如果外层环境已经 export 过这个变量，不写 `export` 新值也会传下去；是否如此，从脚本里看不出来。

## 参考

- [Bash 的环境变量](https://www.gnu.org/software/bash/manual/html_node/Environment.html)
"""

RULE = Rule(
    code="SD406",
    name="launch-variable-not-exported",
    title={
        "en": "a launch variable is set and never exported",
        "zh": "启动变量设置了却没有导出",
    },
    meaning={
        "en": "the shell sets a variable that the program would read, and the program does not get it",
        "zh": "shell 设置了程序会读取的变量，但程序得不到它",
    },
    cure={
        "en": "write export before it, or put it on the command's own line",
        "zh": "在变量前加 export，或写在命令的同一行",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
)
