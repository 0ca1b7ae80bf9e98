"""The machine is at fault, or what is installed there: corrupt copies between GPUs, unlike GPUs, no driver, a torch without CUDA.

## What happens

No exception but garbage, zeros or NaN on the second GPU, or a device-side assert at a place where every index is
valid. It depends on which GPUs are chosen. Or the first use of a GPU fails: `Torch not compiled with CUDA enabled`,
`Found no NVIDIA driver`, `No CUDA GPUs are available`.

## Why it fails

Direct copies between GPUs pass the PCIe switch, the IOMMU and access control. Wrong settings let the copy end without
data, and no error is raised. A build of torch for the CPU has no CUDA in it; a build with CUDA needs the driver.

## Example

```python
x = torch.arange(4., device="cuda:0")
x.to("cuda:1").cpu()                   # tensor([0., 0., 0., 0.])
```

## Use instead

```bash
NCCL_P2P_DISABLE=1 python train.py     # for NCCL only
# switch ACS and IOMMU off in BIOS or kernel, or update the driver
python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"; nvidia-smi
```

## Fix safety

Check the result: compare `x.to('cuda:1').cpu()` with `x.cpu()` first.

## Known limits

A device-side assert has many causes; a true index out of range is the commonest. Run with `CUDA_LAUNCH_BLOCKING=1`.

## References

- [NCCL troubleshooting](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html)
"""

# ruff: noqa: E501 # sentences are whole lines, and Chinese has its own punctuation

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, after, anywhere, said, sign

_CHINESE = """问题出在机器或所安装的软件：GPU 之间的拷贝被破坏、GPU 型号不一致、没有驱动、torch 不带 CUDA。

## 发生了什么

没有异常，但第二块 GPU 上是乱码、全零或 NaN；或者索引全都合法，却触发 device-side assert，而且换几块 GPU
就不一样。也可能第一次使用 GPU 就失败：`Torch not compiled with CUDA enabled`、
`Found no NVIDIA driver`、`No CUDA GPUs are available`。

## 为什么会失败

GPU 之间的直接拷贝要经过 PCIe 交换机、IOMMU 和访问控制（ACS）。设置不对时，拷贝结束了却没有数据，也不报
错。CPU 版的 torch 里没有 CUDA；CUDA 版需要驱动。

## 示例

```python
x = torch.arange(4., device="cuda:0")
x.to("cuda:1").cpu()                   # tensor([0., 0., 0., 0.])
```

## 应当这样写

```bash
NCCL_P2P_DISABLE=1 python train.py     # 只对 NCCL 有效
# 在 BIOS 或内核里关闭 ACS 和 IOMMU，或更新驱动
python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"; nvidia-smi
```

## 修复是否安全

需要核对：先比较 `x.to('cuda:1').cpu()` 和 `x.cpu()`。

## 已知局限

device-side assert 的原因很多，最常见的是索引真的越界。请加上 `CUDA_LAUNCH_BLOCKING=1` 再运行。

## 参考

- [NCCL troubleshooting](https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html)
"""

_HAS_A_GPU = (
    r"\b(?:RTX|GTX|Tesla|Quadro)\b|\b[1-5]0[5-9]0 ?(?:ti|super)\b|\b(?:GPU|card|显卡)\b[^.\n]{0,16}\b[1-5]0[5-9]0\b|\b(?:A|V|H)100\b|\bmy (?:GPU|card|graphics card)\b"
    r"|\bnvidia-smi\b|(?:我的|有|用的?是?)(?:显卡|GPU|N卡)|\bcu\d{3}\b"
)
"""That the machine has a GPU, or a build that is meant for one."""

RULE = Rule(
    code="SD139",
    name="hardware-or-driver",
    title={
        "en": "the machine, its driver or its build of torch is at fault",
        "zh": "问题出在机器、驱动或所安装的 torch",
    },
    meaning={
        "en": "the machine (IOMMU, access control, driver, unlike GPUs) corrupts what moves between GPUs, "
        "or torch finds no GPU there at all",
        "zh": "机器本身（IOMMU、ACS、驱动、型号不同的 GPU）破坏了在 GPU 之间传输的数据，或者 torch 在该机"
        "器上根本找不到 GPU",
    },
    cure={
        "en": "compare torch.version.cuda with nvidia-smi; test a copy GPU to GPU to CPU; fix BIOS or "
        "driver settings; keep to one GPU until then",
        "zh": "核对 torch.version.cuda 与 nvidia-smi；测试 GPU 到 GPU 再到 CPU 的拷贝；修正 BIOS 或驱动设"
        "置；在此之前只用一块 GPU",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.35,
    signs=(
        sign(6.5, said("cuda-not-compiled machine")),
        sign(3.0, said("gpu-required")),
        sign(4, said("cuda-not-compiled"), after("machine")),
        sign(8, said("cuda-not-compiled"), anywhere(_HAS_A_GPU)),
        sign(3.4, said("device-assert")),
        sign(
            3.0,
            said("no-exception unknown-message"),
            anywhere(
                r"\bnan\b|\bzeros\b(?!\()|garbage|nonsense|gibberish|wrong (?:output|result|data)|random (?:text|tokens)|all zero|!!!!|no visible effect|corrupt"
            ),
        ),
        sign(
            2.5,
            said("no-exception"),
            anywhere(r"second GPU|cuda:1|two GPUs|several GPUs|multi-?gpu|both GPUs"),
        ),
        sign(
            3.6,
            said("no-exception unknown-message"),
            anywhere(r"cop(?:y|ied|ies)\b[^.]{0,60}\b(?:zeros?|wrong|garbage|nan|corrupt)"),
        ),
        sign(3.6, anywhere(r"\bIOMMU\b|\bACS\b|(?<!_)p2p(?!_)|peer access|peer-to-peer")),
        sign(1.8, said("illegal-access")),
        sign(1.0, said("no-exception"), anywhere(r"hang|freez|slow")),
    ),
)
