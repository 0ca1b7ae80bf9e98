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

# ruff: noqa: RUF001 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule
from samedevice.messages import Message

RULE = Rule(
    code="SD406",
    name="launch-variable-not-exported",
    title=Message(
        "a launch variable is set and never exported",
        "启动变量设置了却没有导出",
    ),
    meaning=Message(
        "the shell sets a variable that the program would read, and the program does not get it",
        "shell 设置了程序会读取的变量，但程序得不到它",
    ),
    cure=Message(
        "write export before it, or put it on the command's own line",
        "在变量前加 export，或写在命令的同一行",
    ),
    page=__doc__ or "",
)
