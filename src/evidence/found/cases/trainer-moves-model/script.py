import tempfile

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from transformers import BertConfig, BertModel, BertTokenizer

folder = tempfile.mkdtemp()
config = BertConfig(vocab_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
BertModel(config).save_pretrained(folder)
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat"]
BertTokenizer(vocab={word: place for place, word in enumerate(words)}).save_pretrained(folder)
kwargs = dict(dtype=torch.float32, device_map="auto", max_memory={0: 120000, 1: "1000GB"})
model = SentenceTransformer(folder, model_kwargs=kwargs)
trainer = SentenceTransformerTrainer(model, loss=CosineSimilarityLoss(model))
trainer.model.encode("a cat", convert_to_tensor=True)
