# cause: quantized-state-on-other-device
# guilty: self.scale
"""Weight-only int8 inference for a small ViT."""
import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        self.scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("qweight", (weight / self.scale).round().to(torch.int8))
        bias = linear.bias
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x):
        y = nn.functional.linear(x, self.qweight.to(x.dtype) * self.scale, self.bias)
        return y


def quantize(module, skip=("classifier",)):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(module, name, Int8Linear(child))
        else:
            quantize(child, skip)
    return module


def size_of(model):
    tensors = [*model.parameters(), *model.buffers()]
    return sum(t.numel() * t.element_size() for t in tensors)


@torch.inference_mode()
def classify(model, images, batch=4):
    mean = images.mean((0, 2, 3), keepdim=True)
    answers = []
    for chunk in (images - mean).split(batch):
        logits = model(pixel_values=chunk.to(model.device)).logits
        answers.append(logits.argmax(-1).cpu())
    return torch.cat(answers)


def main():
    torch.manual_seed(0)
    cfg = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                    image_size=32, patch_size=8, num_labels=5)
    model = ViTForImageClassification(cfg).eval()
    before = size_of(model)
    model = quantize(model).to("cuda:0")
    print(f"{before} -> {size_of(model)} bytes")
    print(classify(model, torch.rand(6, 3, 32, 32)).numpy())


if __name__ == "__main__":
    main()
