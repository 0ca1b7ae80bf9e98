# cause: offload-hook-bypassed|weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.weight (weight or self.pipe.text_encoder.get_input_embeddings() or self.pipe.text_encoder)
# after: huggingface/diffusers#5060
import re
import torch
import torch.nn as nn
from accelerate import cpu_offload_with_hook
from transformers import CLIPTextConfig, CLIPTextModel

class MiniUnet(nn.Module):
    def __init__(self, cross=32):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, padding=1)
        self.ctx = nn.Linear(cross, 8)
        self.out = nn.Conv2d(8, 4, 3, padding=1)
    def forward(self, sample, t, encoder_hidden_states):
        ctx = self.ctx(encoder_hidden_states).mean(dim=1)[:, :, None, None]
        return self.out(torch.relu(self.conv(sample) + ctx * t))

class MiniPipeline:
    def __init__(self):
        config = CLIPTextConfig(vocab_size=90, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                num_attention_heads=4, max_position_embeddings=32, eos_token_id=2)
        self.text_encoder = CLIPTextModel(config).eval()
        self.unet = MiniUnet().eval()
        self._execution_device = torch.device("cpu")
        self._all_hooks = []
    def enable_model_cpu_offload(self, device):
        self._execution_device = torch.device(device)
        hook = None
        for model in (self.text_encoder, self.unet):
            _, hook = cpu_offload_with_hook(model, self._execution_device, prev_module_hook=hook)
            self._all_hooks.append(hook)
    @torch.no_grad()
    def __call__(self, prompt_embeds, steps=3):
        latents = torch.randn(1, 4, 8, 8, device=self._execution_device)
        for i in range(steps):
            noise = self.unet(latents, 1 - i / steps, encoder_hidden_states=prompt_embeds)
            latents = latents - 0.1 * noise
        for hook in self._all_hooks:
            hook.offload()
        return latents

class WeightedPromptParser:
    """'(word:1.3)' syntax: token embeddings get scaled before the encoder layers run."""
    def __init__(self, pipe):
        self.pipe = pipe
    def tokenize(self, prompt):
        pairs = [(w, float(s or 1)) for w, s in re.findall(r"\(?([a-z]+):?([0-9.]*)\)?", prompt)]
        ids = [1] + [3 + len(w) * 7 % 80 for w, _ in pairs] + [2]
        return torch.tensor([ids]), torch.tensor([1.0] + [s for _, s in pairs] + [1.0])
    @torch.no_grad()
    def encode(self, prompt):
        ids, weights = self.tokenize(prompt)
        device = self.pipe._execution_device
        emb = self.pipe.text_encoder.get_input_embeddings()(ids.to(device))
        mean = emb.mean()
        emb = emb * weights.to(device)[None, :, None]
        return emb * (mean / emb.mean())

if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = MiniPipeline()
    pipe.enable_model_cpu_offload("cuda")
    parser = WeightedPromptParser(pipe)
    print(pipe(parser.encode("a (red:1.3) boat (calm:0.8) sea")).shape)
