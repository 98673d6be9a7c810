"""A decoded image to a serialized request, the usual way: transformers' class, and messages that protobuf builds."""

import numpy as np
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2

from comparison.peers import peer_of_spec


def usual_request(name: str, kind: str, dtype: str):
    """Return a function from an image to the bytes of a vLLM request; None where the class cannot be had."""
    theirs = peer_of_spec(name, kind)
    if theirs is None:
        return None

    def request(image, ids):
        pixels = theirs(image)
        array = pixels if isinstance(pixels, np.ndarray) else pixels.numpy()
        return serialized(array.astype(dtype, copy=False), ids)

    return request


def serialized(pixels: np.ndarray, ids: list[int]) -> bytes:
    """Return a request for one image of Qwen's, built by constructors inside of constructors."""
    rows = np.array([len(pixels)], np.int64)
    pb2 = vllm_engine_pb2
    return pb2.GenerateRequest(
        request_id="r",
        tokenized=pb2.TokenizedInput(input_ids=ids),
        mm_inputs=pb2.MultimodalInputs(
            pixel_values=pb2.TensorData(shape=pixels.shape, dtype=str(pixels.dtype), inline=pixels.tobytes()),
            model_specific_tensors={
                "patches_per_image": pb2.TensorData(shape=rows.shape, dtype="int64", inline=rows.tobytes())
            },
            mm_placeholders=[pb2.PlaceholderRange(offset=1, length=len(ids) - 1)],
            mm_hashes=["0" * 64],
            flat_keys={"pixel_values": "patches_per_image"},
            batched_keys=["patches_per_image"],
            modality=common_pb2.IMAGE,
        ),
    ).SerializeToString()
