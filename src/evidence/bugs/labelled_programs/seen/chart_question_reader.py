# cause: embedding-streams-on-different-devices
# guilty: patches (self.projector(...), image features)
# line: 53
# repair: in ChartReader.embed move the projected patches to the text embeddings: patches.to(embeds.device, embeds.dtype) before masked_scatter OR put tower and projector on the card of embed_tokens
"""Chart question answering: a small tower's patches take the place of image tokens in a Llama prompt."""
import tempfile
import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaForCausalLM

IMAGE_TOKEN = 3


class ChartTower(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.conv = nn.Conv2d(1, dim, 8, stride=8)
        self.block = nn.TransformerEncoderLayer(dim, 4, 48, batch_first=True, dropout=0.0)

    def forward(self, image):
        return self.block(self.conv(image).flatten(2).transpose(1, 2))


def load_text_model(folder):
    cfg = LlamaConfig(vocab_size=90, hidden_size=32, intermediate_size=64, num_hidden_layers=4,
                      num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
                      pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
    LlamaForCausalLM(cfg).save_pretrained(folder)
    plan = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.norm": "cuda:1",
            "lm_head": "cuda:1"}
    plan.update({f"model.layers.{i}": "cuda:0" if i < 3 else "cuda:1" for i in range(4)})
    return LlamaForCausalLM.from_pretrained(folder, device_map=plan).eval()


class ChartReader:
    def __init__(self, language, tower_device):
        self.language = language
        self.tower = ChartTower().to(tower_device).eval()
        self.projector = nn.Linear(24, language.config.hidden_size).to(tower_device)
        self.tower_device = tower_device

    @classmethod
    def build(cls):
        with tempfile.TemporaryDirectory() as folder:
            language = load_text_model(folder)
        spare = language.lm_head.weight.device
        return cls(language, spare)

    def embed(self, ids, image):
        embeds = self.language.get_input_embeddings()(ids)
        patches = self.projector(self.tower(image.to(self.tower_device)))
        mask = (ids == IMAGE_TOKEN).unsqueeze(-1).expand_as(embeds)
        return embeds.masked_scatter(mask, patches)

    @torch.no_grad()
    def answer(self, ids, image):
        embeds = self.embed(ids, image)
        logits = self.language(inputs_embeds=embeds).logits
        return logits[:, -1].argmax(-1).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    reader = ChartReader.build()
    prompt = torch.tensor([[1] + [IMAGE_TOKEN] * 4 + [20, 21, 22]], device="cuda:0")
    print(reader.answer(prompt, torch.rand(1, 1, 16, 16)))
