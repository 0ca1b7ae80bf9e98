"""A program that makes its ranks itself; rank 1 has a bug."""

import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank: int, place: str) -> None:
    """One rank."""
    torch.cuda.set_device(rank)
    if place:
        dist.init_process_group("nccl", init_method=f"file://{place}", rank=rank, world_size=2)
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total)
        assert total.item() == 2
        dist.destroy_process_group()
    if rank == 1:
        torch.ones(2, device="cuda") + torch.ones(2)


if __name__ == "__main__":
    how, place = sys.argv[1:]
    if how == "spawn":
        mp.spawn(work, (place,), nprocs=2)
    elif how == "alone":
        mp.spawn(work, ("",), nprocs=2)
    elif how == "itself":  # as Lightning does
        subprocess.Popen([sys.executable, __file__, "other", place])
        work(0, place)
    elif how == "other":
        work(1, place)
        time.sleep(1.5)
    elif how == "start_processes":
        mp.start_processes(work, (place,), nprocs=2, start_method="fork")
    else:
        context = mp.get_context("spawn")
        processes = [context.Process(target=work, args=(rank, place)) for rank in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
