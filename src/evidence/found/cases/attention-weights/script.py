import tempfile

import torch
from diffusers import FluxPriorReduxPipeline
from diffusers.pipelines.flux.modeling_flux import ReduxImageEncoder
from transformers import SiglipVisionConfig, SiglipVisionModel
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil as Processor

sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
encoder = SiglipVisionModel(SiglipVisionConfig(image_size=32, **sizes))
processor = Processor(size={"height": 32, "width": 32})
folder = tempfile.mkdtemp()
FluxPriorReduxPipeline(encoder, processor, ReduxImageEncoder(32, 4096)).save_pretrained(folder)
pipe, leaf = (FluxPriorReduxPipeline.from_pretrained(folder) for _ in range(2))
if torch.cuda.is_available():
    pipe.enable_sequential_cpu_offload()
    leaf.enable_group_offload(onload_device=torch.device("cuda"), offload_type="leaf_level")
image = torch.rand(1, 3, 32, 32)
[{**each(image), **each.image_encoder(image)} for each in (pipe, leaf)]
