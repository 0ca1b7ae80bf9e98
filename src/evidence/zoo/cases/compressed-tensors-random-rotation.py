import torch
from compressed_tensors.transform import TransformArgs, TransformFactory, TransformScheme

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)).to("cuda:0")
x = torch.randn(2, 8, device="cuda:0")
before = model(x)
scheme = TransformScheme(
    type="random-matrix",
    apply=[
        TransformArgs(targets=["Linear"], location="input"),
        TransformArgs(targets=["Linear"], location="weight_input", inverse=True),
    ],
)
TransformFactory.from_scheme(scheme, name="rotation", seed=0).apply_to_model(model)
print((model(x) - before).abs().max().item())
print("SCENARIO OK")
