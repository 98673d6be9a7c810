"""Requests for TensorRT-LLM: the images as they were sent, and the prompt as it was. Nothing is decoded.

Source: smg-grpc-proto 0.4.28, trtllm_service.proto, whose MultimodalInput has no tensors.
"""

from foveal.backends.messages import messages
from foveal.backends.request import Fill, Options, Placed, Request, begun, finish
from foveal.errors import MediaError, RequestError
from foveal.intermediate import Intermediate
from foveal.request import Item

__all__ = ["assemble_trtllm"]

MULTIMODAL_INPUT, IMAGE_DATA = 15, 1
"""Numbers of fields: of GenerateRequest and MultimodalInput."""


def assemble_trtllm(intermediate: Intermediate, options: Options) -> Request:
    """Return a request for TensorRT-LLM; see `foveal.assemble`."""
    if options.shm:
        raise RequestError("trtllm reads no shared memory")
    request = begun("trtllm", intermediate.input_ids, options)
    levels = [(MULTIMODAL_INPUT, messages("trtllm").pb2.MultimodalInput())]
    placed = [Placed(_file(item), levels, IMAGE_DATA) for item in intermediate.items]
    return finish("trtllm", request, placed, options)


def _file(item: Item) -> Fill:
    """Return what copies an encoded image."""
    file = item.source.file
    if file is None:
        raise RequestError(f"image {item.index}: trtllm takes encoded images, and this is one of {item.source.kind}")

    def write(out: object) -> None:
        with file.open() as opened:
            if opened.readinto(out) != file.size:  # type: ignore[attr-defined]
                raise MediaError(f"image {item.index}: the file changed after it was opened")

    return Fill(file.size, write)
