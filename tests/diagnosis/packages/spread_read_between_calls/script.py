# cause: offload-hook-bypassed
# guilty: self.spread
import kit
import torch

decoder = kit.stream(kit.Decoder().eval(), "cuda:0")
with torch.no_grad():
    out = decoder(torch.randn(2, 4, device="cuda:0"))
    print(decoder.unscale(out).shape)
