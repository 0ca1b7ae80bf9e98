"""Where the blocks of a model go for inference: the best device map for a machine, and its proof."""

from samedevice.planner._trial import Peak, Place, Proof
from samedevice.planner.inference._advice import Offer, fewest_of_each, offers
from samedevice.planner.inference._blocks import Block, Loads, Part, Workload
from samedevice.planner.inference._check import CheckedMap, check_map, read_map
from samedevice.planner.inference._division import OBJECTIVES, Division, Objective, Run, Slot, divide
from samedevice.planner.inference._engines import Serving, serving, tensor_sizes
from samedevice.planner.inference._lessons import Lesson
from samedevice.planner.inference._longest import GRAIN, Axis, Most, largest, most_that_fits
from samedevice.planner.inference._pictures import Pictures
from samedevice.planner.inference._plan import RESERVE, PlacementPlan, Share, machines_for, place_model
from samedevice.planner.inference._prices import read_prices
from samedevice.planner.inference._profile import Profile, measuring, profile_model
from samedevice.planner.inference._proof import prove, prove_automatic
from samedevice.planner.inference._published import published
from samedevice.planner.inference._sounds import reads_sound
from samedevice.planner.inference._source import (
    TYPES,
    Model,
    ModelSource,
    build_model,
    find_model,
    model_class,
    model_folder,
)

__all__ = [
    "GRAIN",
    "OBJECTIVES",
    "RESERVE",
    "TYPES",
    "Axis",
    "Block",
    "CheckedMap",
    "Division",
    "Lesson",
    "Loads",
    "Model",
    "ModelSource",
    "Most",
    "Objective",
    "Offer",
    "Part",
    "Peak",
    "Pictures",
    "Place",
    "PlacementPlan",
    "Profile",
    "Proof",
    "Run",
    "Serving",
    "Share",
    "Slot",
    "Workload",
    "build_model",
    "check_map",
    "divide",
    "fewest_of_each",
    "find_model",
    "largest",
    "machines_for",
    "measuring",
    "model_class",
    "model_folder",
    "most_that_fits",
    "offers",
    "place_model",
    "profile_model",
    "prove",
    "prove_automatic",
    "published",
    "read_map",
    "read_prices",
    "reads_sound",
    "serving",
    "tensor_sizes",
]
