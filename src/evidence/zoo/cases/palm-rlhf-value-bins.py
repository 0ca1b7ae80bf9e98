import torch
from palm_rlhf_pytorch import PaLM, RewardModel, RLHFTrainer

device = torch.device("cuda:0")
palm = PaLM(num_tokens=20, dim=16, depth=1, dim_head=8, heads=2).to(device)
reward = RewardModel(palm, num_binned_output=5).to(device)
prompts = torch.randint(1, 20, (4, 5), device=device)
trainer = RLHFTrainer(palm=palm, reward_model=reward, prompt_token_ids=prompts, minibatch_size=2)
trainer.train(num_episodes=1, max_timesteps=2, update_timesteps=2, max_seq_len=8)
print("SCENARIO OK")
