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
    page=__doc__ or "",
)
