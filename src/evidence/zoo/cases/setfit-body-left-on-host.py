import tempfile

from sentence_transformers import SentenceTransformer, models
from setfit import SetFitModel
from transformers import BertConfig, BertModel, BertTokenizerFast

texts = ["good film", "bad film", "very good", "very bad"]
folder = tempfile.mkdtemp()
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "very", "film"]
with open(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(words))
BertTokenizerFast(f"{folder}/vocab.txt").save_pretrained(folder)
BertModel(BertConfig(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                     intermediate_size=16, max_position_embeddings=32)).save_pretrained(folder)
body = models.Transformer(folder, max_seq_length=16)
SentenceTransformer(modules=[body, models.Pooling(16)], device="cpu").save(f"{folder}/sentences")

model = SetFitModel.from_pretrained(f"{folder}/sentences", use_differentiable_head=True,
                                    head_params={"out_features": 2})
model.fit(texts, [1, 0, 1, 0], num_epochs=1, batch_size=2, learning_rate=1e-3)
print(model.model_head.linear.weight.device)
print("SCENARIO OK")
