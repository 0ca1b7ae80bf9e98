# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: scale_fct (target_sizes)
# after: huggingface/transformers#20160, huggingface/transformers#21974
from dataclasses import dataclass
from typing import List, Tuple
import torch
import torch.nn as nn

@dataclass
class DetectionOutput:
    logits: torch.Tensor
    pred_boxes: torch.Tensor

def center_to_corners_format(boxes):
    cx, cy, w, h = boxes.unbind(-1)
    return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=-1)

class DetectorImageProcessor:
    def __init__(self, size=32):
        self.size = size
    def __call__(self, images):
        resized = [nn.functional.interpolate(i[None], (self.size, self.size)) for i in images]
        return {"pixel_values": torch.cat(resized)}
    def post_process_object_detection(self, outputs, threshold=0.3, target_sizes=None):
        prob = outputs.logits.softmax(-1)
        scores, labels = prob[..., :-1].max(-1)
        boxes = center_to_corners_format(outputs.pred_boxes)
        if target_sizes is not None:
            if isinstance(target_sizes, list):
                img_h = torch.Tensor([s[0] for s in target_sizes])
                img_w = torch.Tensor([s[1] for s in target_sizes])
            else:
                img_h, img_w = target_sizes.unbind(1)
            scale_fct = torch.stack([img_w, img_h, img_w, img_h], dim=1)
            boxes = boxes * scale_fct[:, None, :]
        results = []
        for s, l, b in zip(scores, labels, boxes):
            keep = s > threshold
            results.append({"scores": s[keep], "labels": l[keep], "boxes": b[keep]})
        return results

class MiniDetr(nn.Module):
    def __init__(self, queries=6, classes=4, d=24):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, d, 8, stride=8), nn.ReLU())
        self.query = nn.Embedding(queries, d)
        self.decoder = nn.TransformerDecoderLayer(d, 4, 48, dropout=0.0, batch_first=True)
        self.class_head = nn.Linear(d, classes + 1)
        self.box_head = nn.Linear(d, 4)
    def forward(self, pixel_values):
        memory = self.backbone(pixel_values).flatten(2).transpose(1, 2)
        hs = self.decoder(self.query.weight[None].expand(memory.shape[0], -1, -1), memory)
        return DetectionOutput(self.class_head(hs), self.box_head(hs).sigmoid())

class LayoutExtractor:
    def __init__(self, device="cuda"):
        self.device = torch.device(device)
        self._processor = DetectorImageProcessor()
        self._model = MiniDetr().to(self.device).eval()
    def extract(self, images: List[torch.Tensor]) -> List[Tuple[int, list]]:
        inputs = {k: v.to(self.device) for k, v in self._processor(images).items()}
        with torch.no_grad():
            outputs = self._model(**inputs)
        target_sizes = torch.tensor([list(i.shape[-2:]) for i in images])
        results = self._processor.post_process_object_detection(outputs, 0.2, target_sizes=target_sizes)
        return [(len(r["scores"]), r["boxes"].tolist()) for r in results]

if __name__ == "__main__":
    torch.manual_seed(0)
    pages = [torch.rand(3, 60, 40), torch.rand(3, 48, 64)]
    print(LayoutExtractor().extract(pages))
