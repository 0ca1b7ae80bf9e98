import random
import sys
import tempfile
from pathlib import Path

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.sequential_recommender.bert4rec import BERT4Rec

folder = Path(tempfile.mkdtemp())
(folder / "toy").mkdir()
rows = ["user_id:token\titem_id:token\ttimestamp:float"]
for user in range(12):
    rows += [f"u{user}\ti{item}\t{time}" for time, item in enumerate(random.sample(range(15), 8))]
(folder / "toy" / "toy.inter").write_text("\n".join(rows) + "\n")

sys.argv = sys.argv[:1]
settings = {
    "data_path": str(folder), "use_gpu": False, "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
    "USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "TIME_FIELD": "timestamp",
    "MAX_ITEM_LIST_LENGTH": 10, "n_layers": 1, "n_heads": 2, "hidden_size": 8, "inner_size": 16,
    "mask_ratio": 0.3, "loss_type": "CE", "training_neg_sample_num": 0,
}
config = Config(model="BERT4Rec", dataset="toy", config_dict=settings)
train = data_preparation(config, create_dataset(config))[0]
model = BERT4Rec(config, train.dataset).to("cuda:1")
batch = next(iter(train)).to(torch.device("cuda:1"))
print(model.calculate_loss(batch))
print("SCENARIO OK")
