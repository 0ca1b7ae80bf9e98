# cause: hard-coded-device|generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.stop_token (stop_token)
# after: unslothai/unsloth#10684
import argparse
import torch
from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList

class ToyTokenizer:
    eos_token_id = 2
    table = {"<|im_end|>": [7, 2], "###": [11, 12]}

    def encode(self, text):
        return [3 + (ord(c) % 50) for c in text]

    def ids_of(self, marker):
        return self.table[marker]

def create_stopping_criteria(tokenizer, stop_word="eos_token"):
    class StoppingCriteriaSub(StoppingCriteria):
        def __init__(self, stops, device="cuda"):
            super().__init__()
            if stops == "eos_token":
                self.stop_token = torch.tensor([tokenizer.eos_token_id], device="cuda")
            else:
                self.stop_token = torch.tensor(tokenizer.ids_of(stops)).to("cuda")
            self.length = self.stop_token.shape[0]

        def __call__(self, input_ids, scores, **kwargs):
            tail = input_ids[:, -self.length:]
            hit = (tail == self.stop_token).all(dim=-1)
            return hit

    return StoppingCriteriaList([StoppingCriteriaSub(stops=stop_word)])

class ChatSession:
    def __init__(self, model, tokenizer, stop_word):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.criteria = create_stopping_criteria(tokenizer, stop_word)
        self.turns = []

    def ask(self, text, max_new_tokens=6):
        ids = torch.tensor([self.tokenizer.encode(text)], device=self.model.device)
        with torch.no_grad():
            out = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens,
                do_sample=False, pad_token_id=0, stopping_criteria=self.criteria)
        self.turns.append((text, out[0, ids.shape[1]:].tolist()))
        return self.turns[-1][1]

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--stop", default="<|im_end|>")
    args = parser.parse_args()
    torch.manual_seed(0)
    cfg = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    session = ChatSession(LlamaForCausalLM(cfg).to(args.device), ToyTokenizer(), args.stop)
    print(session.ask("hello there"))

if __name__ == "__main__":
    main()
