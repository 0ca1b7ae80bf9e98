# cause: embedding-streams-on-different-devices
# guilty: prefix
"""Image captioning: CLIP tower on the second card, Llama on the first."""
import torch
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaForCausalLM


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = CLIPVisionModel(CLIPVisionConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            image_size=32, patch_size=16))
        self.project = nn.Linear(32, 48)
        self.text = LlamaForCausalLM(LlamaConfig(
            vocab_size=100, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64))

    def place(self, vision_device, text_device):
        self.vision.to(vision_device)
        self.project.to(vision_device)
        self.text.to(text_device)
        return self

    def image_tokens(self, pixels):
        pixels = pixels.to(self.vision.device)
        patches = self.vision(pixel_values=pixels).last_hidden_state[:, 1:]
        return self.project(patches)

    def forward(self, pixels, ids, labels=None):
        prefix = self.image_tokens(pixels)
        words = self.text.get_input_embeddings()(ids)
        joined = torch.cat([prefix, words], dim=1)
        if labels is not None:
            ignore = labels.new_full((labels.size(0), prefix.size(1)), -100)
            labels = torch.cat([ignore, labels], dim=1)
        return self.text(inputs_embeds=joined, labels=labels, use_cache=False)


def batches(n, device):
    for _ in range(n):
        ids = torch.randint(0, 100, (2, 7))
        yield torch.rand(2, 3, 32, 32), ids.to(device), ids.clone().to(device)


def main():
    torch.manual_seed(0)
    text_device = torch.device("cuda:0")
    model = Captioner().place(torch.device("cuda:1"), text_device)
    optimizer = torch.optim.AdamW(model.project.parameters(), lr=1e-3)
    for pixels, ids, labels in batches(2, text_device):
        loss = model(pixels, ids, labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
