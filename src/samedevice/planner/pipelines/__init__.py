"""Where the components of a diffusion pipeline go: the best placement of whole ones, and its proof."""

from samedevice.planner.pipelines._offload import OFFLOADS, Offload
from samedevice.planner.pipelines._placing import Component, Placement, load_of, place_whole
from samedevice.planner.pipelines._plan import (
    Offloaded,
    PipelinePlan,
    PipelineShare,
    machines_for_pipeline,
    place_pipeline,
)
from samedevice.planner.pipelines._source import PipelineSource, find_pipeline, is_pipeline, shipped_pipelines
from samedevice.planner.pipelines._trial import (
    Picture,
    PipelineProfile,
    dtype_argument,
    made_phrase,
    profile_pipeline,
    prove_balanced,
    prove_offload,
    prove_pipeline,
)

__all__ = [
    "OFFLOADS",
    "Component",
    "Offload",
    "Offloaded",
    "Picture",
    "PipelinePlan",
    "PipelineProfile",
    "PipelineShare",
    "PipelineSource",
    "Placement",
    "dtype_argument",
    "find_pipeline",
    "is_pipeline",
    "load_of",
    "machines_for_pipeline",
    "made_phrase",
    "place_pipeline",
    "place_whole",
    "profile_pipeline",
    "prove_balanced",
    "prove_offload",
    "prove_pipeline",
    "shipped_pipelines",
]
