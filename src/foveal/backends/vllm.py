"""Requests for vLLM: structural ranges, hashes, and how each tensor is split into the images' parts.

Source: smg-grpc-servicer 0.14.1, vllm/servicer.py and vllm/mm_keys.py; vllm 0.33.0, the parser of each model.
"""

from typing import Any

from foveal.backends.messages import common, messages
from foveal.backends.request import Options, Placed, Request, finish, token_ids
from foveal.backends.sampling import set_sampling
from foveal.backends.tensors import EngineTensors, engine_of, engine_tensors, feature_id, pixels, set_tensors
from foveal.errors import RequestError
from foveal.intermediate import Intermediate
from foveal.spec.schema import EngineWire

__all__ = ["assemble_vllm"]

MM_INPUTS, PIXEL_VALUES, MODEL_SPECIFIC_TENSORS, INLINE = 7, 2, 3, 1
"""Numbers of fields: of GenerateRequest, MultimodalInputs (two) and TensorData."""

DEFAULT_PRIMARY = "pixel_values"
"""What the receiver calls the primary tensor unless it is told."""


def assemble_vllm(intermediate: Intermediate, options: Options) -> Request:
    """Return a request for vLLM; see `foveal.assemble`."""
    pb2 = messages("vllm").pb2
    request = pb2.GenerateRequest(stream=options.stream)
    request.tokenized.input_ids.extend(token_ids(intermediate.expanded.ids))
    set_sampling(messages("vllm"), request, options.sampling)
    if not intermediate.items:
        return finish("vllm", request, [], options)
    engine = engine_of(intermediate.spec, "vllm")
    name = _primary_name(engine, options.info.architectures)
    tensors = engine_tensors(intermediate, engine, name)
    dtype = _dtype(intermediate, engine, options)
    primary = pb2.TensorData(shape=tensors.batch.shape, dtype=dtype)
    inputs = _inputs(intermediate, tensors, name)
    large = set_tensors(inputs, tensors.small, options, (MODEL_SPECIFIC_TENSORS, INLINE))
    levels = [(MM_INPUTS, inputs), (PIXEL_VALUES, primary)]
    content = pixels(intermediate, tensors.batch, intermediate.items, dtype, options.threads)
    return finish("vllm", request, [Placed(content, levels, INLINE, large)], options)


def _inputs(intermediate: Intermediate, tensors: EngineTensors, name: str) -> Any:
    """Return all that stands beside the tensors."""
    inputs = messages("vllm").pb2.MultimodalInputs(
        im_token_id=feature_id(intermediate),
        mm_hashes=intermediate.checked_identities(),
        batched_keys=tensors.batched,
        flat_keys=tensors.flat,
        keep_on_cpu_keys=tensors.keep_on_cpu,
        modality=common().IMAGE,
    )
    if name != DEFAULT_PRIMARY:
        inputs.encoder_input_key = name
    for offset, length in intermediate.expanded.structural:
        inputs.mm_placeholders.add(offset=offset, length=length)
    return inputs


def _primary_name(engine: EngineWire, architectures: tuple[str, ...]) -> str:
    """Return what the worker's model calls the primary tensor."""
    others = {entry.architecture: entry.primary for entry in engine.architectures}
    return next((others[name] for name in architectures if name in others), engine.primary)


def _dtype(intermediate: Intermediate, engine: EngineWire, options: Options) -> str:
    """Return the dtype of the pixels: bytes where the worker normalizes them itself."""
    if not (engine.device_normalize and options.info.device_normalize):
        return options.info.encoder_dtype
    normalization = intermediate.normalization
    if normalization != intermediate.published or not (normalization.rescale and normalization.normalize):
        raise RequestError(
            "the worker normalizes pixels itself, by the checkpoint's numbers: do_rescale, rescale_factor, "
            "do_normalize, image_mean and image_std cannot be overridden"
        )
    return "uint8"
