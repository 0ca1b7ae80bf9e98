"""Where the blocks of a model go for inference: the best device map for a machine, and its proof."""

from samedevice.planner.inference._blocks import Block, Loads, Part, Workload
from samedevice.planner.inference._division import OBJECTIVES, Division, Objective, Run, Slot, divide
from samedevice.planner.inference._plan import RESERVE, PlacementPlan, Share, place_model
from samedevice.planner.inference._profile import Profile, profile_model
from samedevice.planner.inference._proof import Peak, Proof, prove
from samedevice.planner.inference._source import TYPES, Model, ModelSource, find_model

__all__ = [
    "OBJECTIVES",
    "RESERVE",
    "TYPES",
    "Block",
    "Division",
    "Loads",
    "Model",
    "ModelSource",
    "Objective",
    "Part",
    "Peak",
    "PlacementPlan",
    "Profile",
    "Proof",
    "Run",
    "Share",
    "Slot",
    "Workload",
    "divide",
    "find_model",
    "place_model",
    "profile_model",
    "prove",
]
