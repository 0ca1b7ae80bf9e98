import torch
from accelerate import dispatch_model
from transformers import EuroBertConfig, EuroBertForSequenceClassification

config = EuroBertConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                        num_labels=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                        classifier_pooling="mean")
model = EuroBertForSequenceClassification(config).eval()
device_map = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0",
              "model.layers.1": "cuda:1", "model.norm": "cuda:1", "dense": "cuda:1", "activation": "cuda:1",
              "classifier": "cuda:1"}
model = dispatch_model(model, device_map, main_device="cuda:0")
ids = torch.randint(3, 64, (2, 6), device="cuda:0")
ids[1, 4:] = 0
with torch.no_grad():
    print(model(input_ids=ids, attention_mask=(ids != 0).long()).logits.shape)
print("SCENARIO OK")
