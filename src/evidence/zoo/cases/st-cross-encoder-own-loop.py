import tempfile

import torch
from sentence_transformers import CrossEncoder, InputExample
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "sun", "wet", "dry"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
config = BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=16, max_position_embeddings=32, num_labels=1)
BertForSequenceClassification(config).save_pretrained(folder)

encoder = CrossEncoder(folder, num_labels=1, max_length=16, device="cuda:0")
pairs = [InputExample(texts=["rain", "wet"], label=1.0), InputExample(texts=["sun", "wet"], label=0.0)]
features, labels = encoder.smart_batching_collate(pairs)
optimizer = torch.optim.SGD(encoder.model.parameters(), lr=0.1)
logits = encoder.model(**features).logits
loss = torch.nn.functional.binary_cross_entropy_with_logits(logits.flatten(), labels)
loss.backward()
optimizer.step()
print(loss)
print("SCENARIO OK")
