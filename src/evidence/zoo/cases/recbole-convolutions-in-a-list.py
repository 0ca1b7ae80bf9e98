import random
import sys
import tempfile
from pathlib import Path

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.context_aware_recommender.xdeepfm import xDeepFM

folder = Path(tempfile.mkdtemp())
(folder / "toy").mkdir()
rows = ["user_id:token\titem_id:token\trating:float"]
for user in range(12):
    rows += [f"u{user}\ti{item}\t{random.randint(1, 5)}" for item in random.sample(range(15), 6)]
(folder / "toy" / "toy.inter").write_text("\n".join(rows) + "\n")

sys.argv = sys.argv[:1]
settings = {
    "data_path": str(folder), "use_gpu": False, "threshold": {"rating": 3},
    "load_col": {"inter": ["user_id", "item_id", "rating"]},
    "embedding_size": 4, "mlp_hidden_size": [8], "cin_layer_size": [4, 4],
}
config = Config(model="xDeepFM", dataset="toy", config_dict=settings)
train = data_preparation(config, create_dataset(config))[0]
model = xDeepFM(config, train.dataset).to("cuda:0")
batch = next(iter(train)).to(torch.device("cuda:0"))
print(model(batch).shape)
print("SCENARIO OK")
