import adapters
import torch
from transformers import BertConfig, BertModel

config = BertConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                    num_attention_heads=4, max_position_embeddings=32)
model = BertModel(config)
adapters.init(model)
model.add_adapter("task", config="seq_bn")
model.set_active_adapters("task")
model = torch.nn.DataParallel(model.to("cuda:0"), device_ids=[0, 1])
ids = torch.randint(3, 64, (4, 6), device="cuda:0")
states = model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=False)[0]
states.mean().backward()
print(states.shape)
print("SCENARIO OK")
