from multiprocessing import shared_memory, resource_tracker
s=shared_memory.SharedMemory(create=True,size=16); s.close(); s.unlink(); print("end")

# /// expect
# must = "silence: nothing is left behind"
# exit = 0
# never = ["left behind"]
# ///
