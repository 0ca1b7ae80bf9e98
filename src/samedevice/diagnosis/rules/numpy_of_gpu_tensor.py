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

from samedevice.diagnosis._rule import Rule, said, sign

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
    page=__doc__ or "",
    common=0.1,
    signs=(sign(6, said("numpy-conversion")),),
)
