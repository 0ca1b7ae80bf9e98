import torch
from adapters import BertAdapterModel
from transformers import BertConfig

config = BertConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                    num_attention_heads=4, max_position_embeddings=32)
model = BertAdapterModel(config).eval().to("cuda:0")
model.add_adapter("task")
model.add_classification_head("task", num_labels=2)
model.set_active_adapters("task")
model.adapter_to("task", device="cuda:0")
ids = torch.randint(3, 64, (2, 6), device="cuda:0")
with torch.no_grad():
    print(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.shape)
print("SCENARIO OK")
