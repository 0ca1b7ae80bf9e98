"""ultralytics trains a detector on a few images that are made here."""

import os
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path(tempfile.mkdtemp())
os.environ["YOLO_CONFIG_DIR"] = str(folder)
os.environ["YOLO_OFFLINE"] = "true"
for split in ("train", "val"):
    for kind in ("images", "labels"):
        (folder / kind / split).mkdir(parents=True)
    for number in range(4):
        noise = np.random.default_rng(number).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "images" / split / f"{number}.png")
        (folder / "labels" / split / f"{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
(folder / "data.yaml").write_text(
    f"path: {folder}\ntrain: images/train\nval: images/val\nnames:\n  0: thing\n"
)

from ultralytics import YOLO  # noqa: E402  # reads its settings when it is imported

YOLO("yolov8n.yaml").train(
    data=str(folder / "data.yaml"),
    epochs=1,
    imgsz=64,
    batch=2,
    device=0,
    workers=0,
    amp=False,
    plots=False,
    project=str(folder),
)
print("done")
