"""What a request holds, as plain values that can be printed."""

from typing import Any

from foveal.errors import MediaError
from foveal.grpc.decoding import Batch, Decoded, Item
from foveal.grpc.tensors import Array
from foveal.media.inspection import inspect

__all__ = ["describe"]


def describe(decoded: Decoded) -> dict[str, Any]:
    """Return what a request holds, in types that JSON has.

    Parameters
    ----------
    decoded : Decoded

    Returns
    -------
    dict
        ``backend``, ``request_id``, ``prompt_tokens``, and ``items``: of each ``name``, ``modality``, ``ranges``
        (offset and length), ``feature_tokens``, ``hash`` and ``tensors`` (``name``, ``dtype``, ``shape``, ``bytes``).
        An encoded image has ``format``, ``size`` (height and width) and ``bytes`` instead; the first two are None where
        its header cannot be read.
    """
    items = [_item(batch, item, number) for batch in decoded.batches for number, item in enumerate(batch.items)]
    return {
        "backend": decoded.backend,
        "request_id": decoded.request_id,
        "prompt_tokens": len(decoded.input_ids),
        "items": items + [_image(image, number) for number, image in enumerate(decoded.images)],
    }


def _item(batch: Batch, item: Item, number: int) -> dict[str, Any]:
    return {
        "name": f"{batch.name} {number}" if batch.fields else batch.name,
        "modality": batch.modality,
        "ranges": [list(where) for where in item.ranges],
        "feature_tokens": item.feature_tokens,
        "hash": item.hash,
        "tensors": [_tensor(name, tensor) for name, tensor in item.tensors.items()],
    }


def _tensor(name: str, tensor: Array) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "bytes": tensor.nbytes,
    }


def _image(image: bytes, number: int) -> dict[str, Any]:
    entry = {"name": f"image_data {number}", "modality": "IMAGE", "format": None, "size": None, "bytes": len(image)}
    try:
        found = inspect(image)
    except MediaError:
        return entry
    return entry | {"format": found.format, "size": [found.height, found.width]}
