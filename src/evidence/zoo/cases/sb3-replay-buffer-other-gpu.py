import os
import tempfile

from stable_baselines3 import DQN

settings = dict(learning_starts=20, batch_size=8, train_freq=4, seed=0, policy_kwargs=dict(net_arch=[16]))
first = DQN("MlpPolicy", "CartPole-v1", device="cuda:0", **settings)
first.learn(40)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "buffer.pkl")
    first.save_replay_buffer(path)
    second = DQN("MlpPolicy", "CartPole-v1", device="cuda:1", **settings)
    second.load_replay_buffer(path)
second.learn(40)
print("SCENARIO OK")
