import pathlib
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer
from transformers_interpret import SequenceClassificationExplainer

device = torch.device("cuda:1")
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "very"]
vocabulary = pathlib.Path(tempfile.mkdtemp()) / "vocab.txt"
vocabulary.write_text("\n".join(words))
tokenizer = BertTokenizer(str(vocabulary))
model = BertForSequenceClassification(
    BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
               intermediate_size=24, max_position_embeddings=16)
).to(device).eval()

explainer = SequenceClassificationExplainer(model, tokenizer)
print(explainer("a very good film"))

batch = tokenizer(["a bad film", "a very bad film"], padding=True, return_tensors="pt").to(device)
with torch.no_grad():
    print(model(**batch).logits.argmax(1))
print("SCENARIO OK")
