import tempfile

import torch
from diffusers import PNDMPipeline, PNDMScheduler, UNet2DModel

unet = UNet2DModel(
    16, block_out_channels=(32, 32), norm_num_groups=8, layers_per_block=1,
    down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
)
folder = tempfile.mkdtemp()
PNDMPipeline(unet, PNDMScheduler()).save_pretrained(folder)
pipe = PNDMPipeline.from_pretrained(folder)
if torch.cuda.is_available():
    pipe.enable_sequential_cpu_offload()
torch.from_numpy(pipe(num_inference_steps=4, output_type="np").images)
