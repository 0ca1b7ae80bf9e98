# cause: input-not-on-embedding-device|hard-coded-device
# guilty: input_ids (tokens or input)
# after: mimic-video/mimic-video#11
import torch
from torch import nn
from transformers import T5Config, T5EncoderModel

class T5TextEncoder(nn.Module):
    def __init__(self, device):
        super().__init__()
        cfg = T5Config(vocab_size=90, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
        self.device = device
        self.text_encoder = T5EncoderModel(cfg).to(device).eval()

    def tokenize(self, prompts, length=12):
        ids = [[(ord(c) % 88) + 2 for c in p[:length]] for p in prompts]
        mask = [[1] * len(i) + [0] * (length - len(i)) for i in ids]
        ids = [i + [0] * (length - len(i)) for i in ids]
        return torch.tensor(ids), torch.tensor(mask)

    @torch.inference_mode()
    def encode_prompts(self, prompts):
        input_ids, mask = self.tokenize(prompts)
        input_ids, mask = input_ids.to(self.device), mask.to(self.device)
        out = self.text_encoder(input_ids=input_ids, attention_mask=mask).last_hidden_state
        return out * mask.unsqueeze(-1)

class ActionDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.obs, self.ctx, self.act = nn.Linear(20, 32), nn.Linear(32, 32), nn.Linear(32, 7)

    def forward(self, obs, context):
        return self.act(torch.tanh(self.obs(obs) + self.ctx(context.mean(1))))

class Video2WorldPipeline:
    def __init__(self, device, offload_text_encoder):
        self.device = device
        self.offload_text_encoder = offload_text_encoder
        self.text_encoder = T5TextEncoder(device="cpu" if offload_text_encoder else device)
        self.decoder = ActionDecoder().to(device)

    def encode_prompt(self, prompts):
        if self.offload_text_encoder:
            self.text_encoder.to(self.device)
        emb = self.text_encoder.encode_prompts(prompts)
        if self.offload_text_encoder:
            self.text_encoder.to("cpu")
        return emb

    @torch.inference_mode()
    def rollout(self, prompts, steps):
        context = self.encode_prompt(prompts)
        obs, actions = torch.randn(len(prompts), 20, device=self.device), []
        for _ in range(steps):
            actions.append(self.decoder(obs, context))
            obs = obs + 0.01 * torch.randn_like(obs)
        return torch.stack(actions, dim=1)

if __name__ == "__main__":
    pipe = Video2WorldPipeline("cuda", offload_text_encoder=True)
    print(pipe.rollout(["open the drawer", "pick up the mug"], steps=4).shape)
