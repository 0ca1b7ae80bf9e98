# cause: weights-moved-away-by-manager|dispatched-model-moved|module-left-on-other-device
# guilty: self.weight (weight or module.weight or self.embed_tokens or embed)
# after: unslothai/unsloth#8272
import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM

class EmbeddingOffloader:
    """Keeps the token table in host memory and sends its output back to the GPU."""

    def __init__(self, model, return_device):
        self.embedding = model.get_input_embeddings()
        self.return_device = torch.device(return_device)
        self.saved = 0

    def _pre(self, module, args):
        ids = args[0]
        target = module.weight.device
        return (ids.to(target),) + tuple(args[1:])

    def _post(self, module, args, output):
        return output.to(self.return_device)

    def install(self):
        self.saved = self.embedding.weight.numel() * self.embedding.weight.element_size()
        self.embedding.to("cpu")
        self.embedding.register_forward_pre_hook(self._pre)
        self.embedding.register_forward_hook(self._post)
        print(f"Offloading embeddings to RAM to save {self.saved} B.")

class FastModel:
    @staticmethod
    def make_device_map(config, device):
        device_map = {"model.embed_tokens": device, "model.rotary_emb": device,
                      "model.norm": device, "lm_head": device}
        for i in range(config.num_hidden_layers):
            device_map[f"model.layers.{i}"] = device
        return device_map

    @classmethod
    def from_config(cls, config, device, offload_embedding=False):
        model = LlamaForCausalLM(config).eval()
        model = dispatch_model(model, device_map=cls.make_device_map(config, device), force_hooks=True)
        if offload_embedding:
            EmbeddingOffloader(model, return_device=device).install()
        return model

def perplexity(model, rows, device):
    losses = []
    with torch.no_grad():
        for row in rows:
            ids = row.to(device)[None]
            losses.append(model(input_ids=ids, labels=ids).loss.item())
    return sum(losses) / len(losses)

if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = FastModel.from_config(cfg, "cuda:0", offload_embedding=True)
    print(perplexity(model, torch.randint(0, 128, (2, 16)), "cuda:0"))
