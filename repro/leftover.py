import torch, torch.multiprocessing as mp
def f(rank): torch.ones(2, device=rank)
if __name__ == "__main__":
    mp.spawn(f, nprocs=2)
    from multiprocessing import resource_tracker
    print("resource tracker:", resource_tracker._resource_tracker._pid)

# /// expect
# must = "silence: nothing is left behind"
# exit = 0
# never = ["left behind"]
# ///
