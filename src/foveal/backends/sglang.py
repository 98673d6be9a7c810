"""Requests for SGLang: normalized pixels of all images in one tensor, and the ranges of feature tokens alone.

Source: smg-grpc-servicer 0.14.1, sglang/servicer.py; sglang 0.5.23, the processor of each model.
"""

from foveal.backends.messages import messages
from foveal.backends.request import Options, Placed, Request, begun, finish
from foveal.backends.tensors import engine_of, engine_tensors, feature_id, pixels, set_tensor
from foveal.errors import RequestError
from foveal.intermediate import Intermediate

__all__ = ["assemble_sglang"]

MM_INPUTS, PIXEL_VALUES, DATA = 3, 4, 1
"""Numbers of fields: of GenerateRequest, MultimodalInputs and TensorData."""


def assemble_sglang(intermediate: Intermediate, options: Options) -> Request:
    """Return a request for SGLang; see `foveal.assemble`."""
    if options.shm:
        raise RequestError("sglang reads no shared memory")
    request = begun("sglang", intermediate.expanded.ids, options)
    if not intermediate.items:
        return finish("sglang", request, [], options)
    pb2, engine = messages("sglang").pb2, engine_of(intermediate.spec, "sglang")
    tensors = engine_tensors(intermediate, engine, engine.primary)
    dtype = options.info.encoder_dtype
    inputs = pb2.MultimodalInputs(im_token_id=feature_id(intermediate), modalities=["image"])
    for ranges in intermediate.expanded.features:
        for offset, length in ranges:
            inputs.mm_placeholders.add(offset=offset, length=length)
    for key, array in tensors.small.items():
        set_tensor(inputs.model_specific_tensors[key], array, "data")
    primary = pb2.TensorData(shape=tensors.batch.shape, dtype=dtype)
    content = pixels(intermediate, tensors.batch, intermediate.items, dtype, options.threads)
    return finish("sglang", request, [Placed(content, [(MM_INPUTS, inputs), (PIXEL_VALUES, primary)], DATA)], options)
