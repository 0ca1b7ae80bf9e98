# cause: dispatched-model-moved
# guilty: self.weight (weight)
# after: brain-score/language#404, huggingface/accelerate#1613
import torch
from accelerate import dispatch_model
from transformers import GPT2Config, GPT2Model

class HuggingfaceSubject:
    def __init__(self, device_map, region_layers):
        cfg = GPT2Config(vocab_size=60, n_positions=32, n_embd=32, n_layer=4, n_head=4,
                         bos_token_id=0, eos_token_id=1)
        self.basemodel = GPT2Model(cfg).eval()
        self.basemodel = dispatch_model(self.basemodel, device_map)
        self.region_layers = region_layers
        self.localizer = None

    @property
    def device(self):
        return self.basemodel.wte.weight.device

    def tokenize(self, sentences):
        rows = [[(hash(w) % 58) + 2 for w in s.split()] for s in sentences]
        width = max(map(len, rows))
        return torch.tensor([r + [1] * (width - len(r)) for r in rows]).to(self.device)

    @torch.no_grad()
    def digest(self, sentences):
        out = self.basemodel(input_ids=self.tokenize(sentences), output_hidden_states=True)
        return {l: out.hidden_states[l + 1][:, -1].cpu() for l in self.region_layers}

class Localizer:
    """Finds the units whose response differs between two sets of stimuli."""

    def __init__(self, model, device, top_k=5):
        self.model, self.device, self.top_k = model, device, top_k

    def extract_representations(self, batches, layers):
        self.model.to(self.device)
        store = {l: [] for l in layers}
        for ids in batches:
            hidden = self.model(input_ids=ids.to(self.device), output_hidden_states=True).hidden_states
            for l in layers:
                store[l].append(hidden[l + 1][:, -1].cpu())
        return {l: torch.cat(v) for l, v in store.items()}

    @torch.no_grad()
    def select(self, positive, negative, layers):
        pos, neg = (self.extract_representations(b, layers) for b in (positive, negative))
        masks = {}
        for l in layers:
            t = (pos[l].mean(0) - neg[l].mean(0)) / (pos[l].var(0) + neg[l].var(0) + 1e-6).sqrt()
            masks[l] = t.topk(self.top_k).indices
        return masks

if __name__ == "__main__":
    device_map = {"wte": "cuda:0", "wpe": "cuda:0", "h.0": "cuda:0", "h.1": "cuda:0",
                  "h.2": "cuda:1", "h.3": "cuda:1", "ln_f": "cuda:1"}
    subject = HuggingfaceSubject(device_map, region_layers=[1, 3])
    print({k: v.shape for k, v in subject.digest(["the cat sat", "a dog ran off"]).items()})
    stimuli = lambda: [torch.randint(2, 60, (3, 6)) for _ in range(2)]
    localizer = Localizer(subject.basemodel, subject.device)
    print(localizer.select(stimuli(), stimuli(), subject.region_layers))
