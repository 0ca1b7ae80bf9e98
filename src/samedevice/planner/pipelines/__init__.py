"""Where the components of a diffusion pipeline go: the best placement of whole ones, and its proof."""

from samedevice.planner.pipelines._placing import Component, Placement, load_of, place_whole
from samedevice.planner.pipelines._plan import PipelinePlan, place_pipeline
from samedevice.planner.pipelines._source import PipelineSource, find_pipeline, is_pipeline
from samedevice.planner.pipelines._trial import (
    Picture,
    PipelinePeak,
    PipelineProfile,
    PipelineProof,
    automatic_map,
    dtype_argument,
    profile_pipeline,
    prove_pipeline,
)

__all__ = [
    "Component",
    "Picture",
    "PipelinePeak",
    "PipelinePlan",
    "PipelineProfile",
    "PipelineProof",
    "PipelineSource",
    "Placement",
    "automatic_map",
    "dtype_argument",
    "find_pipeline",
    "is_pipeline",
    "load_of",
    "place_pipeline",
    "place_whole",
    "profile_pipeline",
    "prove_pipeline",
]
