"""Requests for TokenSpeed: one item for each image, with its tensors, its ranges and its hash.

Source: smg-grpc-servicer 0.14.1, tokenspeed/servicer.py.
"""

from foveal.backends.messages import common, messages
from foveal.backends.request import Options, Placed, Request, finish, token_ids
from foveal.backends.sampling import set_sampling
from foveal.backends.tensors import feature_id, pixels, set_tensors, small_tensors, wire_batch
from foveal.intermediate import Intermediate
from foveal.request import Item
from foveal.tokens import Range

__all__ = ["assemble_tokenspeed"]

MM_INPUTS, ITEMS, ENCODER_INPUT, MODEL_SPECIFIC_TENSORS, INLINE = 9, 1, 3, 4, 3
"""Numbers of fields: of GenerateRequest, MultimodalInputs, MultimodalItem (two) and TensorData."""


def assemble_tokenspeed(intermediate: Intermediate, options: Options) -> Request:
    """Return a request for TokenSpeed; see `foveal.assemble`."""
    request = messages("tokenspeed").pb2.GenerateRequest(stream=options.stream)
    request.tokenized.input_ids.extend(token_ids(intermediate.expanded.ids))
    set_sampling(messages("tokenspeed"), request, options.sampling)
    images = zip(intermediate.items, intermediate.expanded.features, strict=True)
    placed = [_item(intermediate, item, ranges, options) for item, ranges in images]
    return finish("tokenspeed", request, placed, options)


def _item(intermediate: Intermediate, item: Item, ranges: tuple[Range, ...], options: Options) -> Placed:
    pb2 = messages("tokenspeed").pb2
    message = pb2.MultimodalItem(
        modality=common().IMAGE,
        content_hash=bytes.fromhex(item.checked_identity()),
        placeholder_token_id=feature_id(intermediate),
    )
    for offset, length in ranges:
        message.placeholders.add(offset=offset, length=length)
    small = small_tensors(intermediate.spec, [item.plan])
    large = set_tensors(message, small, options, (MODEL_SPECIFIC_TENSORS, INLINE))
    _, batch = wire_batch(intermediate.spec, [item.plan])
    dtype = options.info.encoder_dtype
    tensor = pb2.TensorData(shape=batch.shape, dtype=dtype)
    content = pixels(intermediate, batch, [item], dtype, options.threads)
    levels = [(MM_INPUTS, pb2.MultimodalInputs()), (ITEMS, message), (ENCODER_INPUT, tensor)]
    return Placed(content, levels, INLINE, large)
