# cause: adapter-weights-on-other-device|weights-moved-away-by-manager
# guilty: lora_A (self.weight or lora_A.weight)
# after: huggingface/peft#1742
import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import GPT2Config, GPT2LMHeadModel

class AdapterPool:
    """Keeps many adapters, only the recently used ones stay on the accelerator."""

    def __init__(self, model, device, capacity=1):
        self.model, self.device, self.capacity = model, device, capacity
        self.resident = []

    def _place(self, name, device):
        for module in self.model.modules():
            if isinstance(module, BaseTunerLayer):
                for attr in ("lora_A", "lora_B"):
                    layers = getattr(module, attr)
                    if name in layers:
                        layers[name].to(device)

    def register(self, name, config):
        self.model.add_adapter(name, config)
        self.resident.append(name)
        self.evict()

    def evict(self):
        while len(self.resident) > self.capacity:
            self._place(self.resident.pop(0), "cpu")

    def activate(self, name):
        self.model.set_adapter(name)
        return self.model

class Server:
    def __init__(self, device):
        cfg = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                         bos_token_id=0, eos_token_id=1)
        lora = lambda: LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM")
        base = GPT2LMHeadModel(cfg).to(device)
        self.device = device
        self.pool = AdapterPool(get_peft_model(base, lora(), adapter_name="tenant_a"), device)
        self.pool.resident.append("tenant_a")
        for tenant in ("tenant_b", "tenant_c"):
            self.pool.register(tenant, lora())

    @torch.no_grad()
    def handle(self, tenant, ids):
        model = self.pool.activate(tenant).eval()
        return model(input_ids=ids.to(self.device)).logits[:, -1].argmax(-1)

if __name__ == "__main__":
    server = Server("cuda")
    for tenant in ("tenant_c", "tenant_a", "tenant_b"):
        print(tenant, server.handle(tenant, torch.randint(0, 64, (2, 10))))
