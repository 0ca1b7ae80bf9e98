"""A tensor on a GPU is given to NumPy, or to something that reads it through NumPy.

## What happens

`.numpy()`, `np.asarray`, a plot or a metric asks for the memory of a tensor that is on a GPU.

## Why it fails

NumPy reads the memory of the host. A copy to the host waits for the GPU, so torch does not make one unasked.

## Example

```python
losses.append(loss)              # on cuda:0
plt.plot(losses)
```

## Use instead

```python
losses.append(loss.item())       # a number; or loss.detach().cpu() for a tensor
```

## Fix safety

Safe: values do not change. A copy in each step costs a wait for the GPU.

## Known limits

Where a global default device makes tensors on a GPU that a library takes for host tensors, such as indices of
a sampler, the default is at fault (generator-or-default-device).

## References

- [Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
"""

from __future__ import annotations

from samedevice.diagnosis._rule import Rule, anywhere, inside, said, sign

_CHINESE = """NumPy（或通过 NumPy 读数据的代码）读取了 GPU 上的张量。

## 发生了什么

`.numpy()`、`np.asarray`、画图或指标需要访问张量的内存，而张量在 GPU 上。

## 为什么会失败

NumPy 只能读主机内存。拷回主机要等 GPU 算完，torch 不会替您做这件事。

## 示例

```python
losses.append(loss)              # 在 cuda:0 上
plt.plot(losses)
```

## 应当这样写

```python
losses.append(loss.item())       # 一个数；要张量就用 loss.detach().cpu()
```

## 修复是否安全

安全：数值不变。但每一步都拷贝就要每一步等 GPU。

## 已知局限

如果是全局默认设备让库以为在主机上的张量（例如采样器的下标）落到了 GPU 上，那么该改的是默认设备
（generator-or-default-device）。

## 参考

- [Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
"""

RULE = Rule(
    code="SD143",
    name="numpy-of-gpu-tensor",
    title={
        "en": "a tensor on a GPU is read by NumPy",
        "zh": "NumPy 读取了 GPU 上的张量",
    },
    meaning={
        "en": "code reads a GPU tensor through NumPy, which knows only the memory of the host",
        "zh": "代码通过 NumPy 读取 GPU 上的张量，而 NumPy 只能访问主机内存",
    },
    cure={
        "en": "bring it to the host first: loss.item() for a number, x.detach().cpu().numpy() for an array",
        "zh": "先取回主机：单个数用 loss.item()，数组用 x.detach().cpu().numpy()",
    },
    page={"en": __doc__ or "", "zh": _CHINESE},
    common=0.1,
    signs=(
        sign(6, said("numpy-conversion")),
        sign(
            4.5,
            said("unknown-message"),
            inside(r"^(?:__array__|<__array_function__.*)$|^_check_1d$", last=2),
            anywhere(r"\bGPU\b|\bcuda\b|_tensor\.py"),
        ),
    ),
)
