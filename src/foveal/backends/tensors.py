"""A request's tensors as one engine takes them: names, dtypes, and how each is split into the images' parts."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from foveal.backends.request import Fill, Options, Placed
from foveal.backends.wire import copied, little_endian
from foveal.errors import ImageSizeError, RequestError
from foveal.intermediate import Intermediate
from foveal.plan import make_batch_plan
from foveal.plan.plan import BatchPlan, Plan
from foveal.plan.tensors import batch_tensors
from foveal.request import Item
from foveal.spec.schema import EngineWire, Spec
from foveal.timings import stage
from foveal.types import DTYPES

__all__ = [
    "EngineTensors",
    "engine_of",
    "engine_tensors",
    "feature_id",
    "pixels",
    "set_tensor",
    "set_tensors",
    "small_tensors",
    "wire_batch",
]

Array = npt.NDArray[Any]

ENTRY_VALUE = 2
"""Number of the value in an entry of any map."""


class EngineTensors(NamedTuple):
    """Tensors of the images of a request.

    Attributes
    ----------
    batch : BatchPlan
        Of the primary tensor.
    small : dict of ndarray
        All others, by the engine's names.
    batched : list of str
        Names of those that an index of the first axis splits, the primary tensor's among them.
    flat : dict of str
        Of those that are split into runs of rows: the name of the tensor that holds their lengths.
    keep_on_cpu : list of str
    """

    batch: BatchPlan
    small: dict[str, Array]
    batched: list[str]
    flat: dict[str, str]
    keep_on_cpu: list[str]


def engine_of(spec: Spec, backend: Literal["vllm", "sglang"]) -> EngineWire:
    """Return how an engine takes a model's tensors.

    Raises
    ------
    RequestError
        If it does not, or nobody has looked.
    """
    engine: EngineWire | None = getattr(spec.wire, backend)
    if engine is None:
        raise RequestError(f"{spec.name} is not known to be taken by {backend}: its spec has no wire.{backend}")
    if engine.refusal is not None:
        raise RequestError(f"{backend} cannot serve {spec.name} over gRPC: {engine.refusal}")
    return engine


def feature_id(intermediate: Intermediate) -> int:
    """Return the id of the feature token.

    Raises
    ------
    RequestError
        If the model has none: its features stand in no prompt.
    """
    if intermediate.feature_id is None:
        raise RequestError(f"the features of {intermediate.spec.name} stand in no prompt, and cannot be placed there")
    return intermediate.feature_id


def engine_tensors(intermediate: Intermediate, engine: EngineWire, name: str) -> EngineTensors:
    """Return the tensors of a request, without pixels.

    Parameters
    ----------
    intermediate : Intermediate
    engine : EngineWire
    name : str
        The engine's name for the primary tensor.
    """
    spec = intermediate.spec
    wire_spec, batch = wire_batch(spec, intermediate.plans)
    with stage("apply_hf_processor"), stage("small_tensors"):
        values = batch_tensors(wire_spec, batch, hf=False)
    by_name = {tensor.name: tensor for tensor in spec.tensors}
    names = {entry.tensor: entry.name or entry.tensor for entry in engine.tensors} | {spec.primary.name: name}
    small, batched, flat = {}, [], {}
    for tensor in (spec.primary, *(by_name[entry.tensor] for entry in engine.tensors)):
        if tensor.split == "images":
            batched.append(names[tensor.name])
        elif tensor.split != "shared" and tensor.split in names:
            flat[names[tensor.name]] = names[tensor.split]
    for entry in engine.tensors:
        array = values[entry.tensor]
        small[names[entry.tensor]] = array.astype(DTYPES[entry.dtype]) if entry.dtype else array
    if engine.token_id:
        small[engine.token_id] = np.array([feature_id(intermediate)], np.int64)
    kept = [names[entry.tensor] for entry in engine.tensors if by_name[entry.tensor].keep_on_cpu]
    return EngineTensors(batch, small, batched, flat, kept)


def small_tensors(spec: Spec, plans: Sequence[Plan]) -> dict[str, Array]:
    """Return the reference's small tensors of images, with one part for each image, by its own names."""
    wire_spec, batch = wire_batch(spec, plans)
    of_samples = {tensor.name for tensor in spec.tensors if tensor.value == "images_of_sample"}
    with stage("apply_hf_processor"), stage("small_tensors"):
        values = batch_tensors(wire_spec, batch)
    return {name: array for name, array in values.items() if name not in of_samples}


def wire_batch(spec: Spec, plans: Sequence[Plan]) -> tuple[Spec, BatchPlan]:
    """Return the plan of one tensor for all images of a request, and the spec that says how others are joined to it.

    Images of which an engine takes runs of rows stand one after the other; all else is joined as the reference joins
    images that are samples of their own.

    Raises
    ------
    ImageSizeError
        If images would have to be padded to one size, which engines count as pixels of the image.
    """
    wire_spec = _wire_spec(spec)
    if wire_spec.image.batch.join == "largest":
        _check_one_size(spec, plans)
    return wire_spec, make_batch_plan(wire_spec, plans, (1,) * len(plans))


@lru_cache(maxsize=64)
def _wire_spec(spec: Spec) -> Spec:
    if spec.primary.split in ("images", "shared"):
        return spec
    batch = msgspec.structs.replace(spec.image.batch, join="concat", count=None, spare=0, by_sample=False)
    return msgspec.structs.replace(spec, image=msgspec.structs.replace(spec.image, batch=batch))


def _check_one_size(spec: Spec, plans: Sequence[Plan]) -> None:
    for number, plan in enumerate(plans):
        if plan.shape != plans[0].shape:
            sizes = ["x".join(map(str, each.shape[-2:])) for each in (plan, plans[0])]
            raise ImageSizeError(
                f"image {number} is {plan.height}x{plan.width} (height x width): it becomes {sizes[0]}, and image 0 "
                f"becomes {sizes[1]}; a request holds images of {spec.name} of one size: send one request for each"
            )


def pixels(
    intermediate: Intermediate, batch: BatchPlan, items: Sequence[Item], dtype: str, threads: int | None
) -> Fill:
    """Return what decodes images and writes their primary tensor."""

    def write(out: npt.NDArray[np.uint8]) -> None:
        array = out.view(DTYPES[dtype]).reshape(batch.shape)
        intermediate.write(batch, dtype, array, threads, items)

    return Fill(math.prod(batch.shape) * DTYPES[dtype].itemsize, write)


LARGE = 1 << 18
"""Bytes from which a tensor beside the pixels is written in place: protobuf would copy it four times."""


def set_tensors(message: Any, tensors: Mapping[str, Array], options: Options, numbers: tuple[int, int]) -> list[Placed]:
    """Put tensors into the map ``model_specific_tensors`` of a message, and return those that are written in place.

    Parameters
    ----------
    message : message
    tensors : mapping of ndarray
    options : Options
        With shared memory, all are put into the message.
    numbers : tuple of int
        Numbers of the map in the message, and of the payload in a TensorData.
    """
    placed = []
    for name, array in tensors.items():
        if options.shm or array.nbytes < LARGE:
            set_tensor(message.model_specific_tensors[name], array)
        else:
            placed.append(_entry(type(message).ModelSpecificTensorsEntry(key=name), array, *numbers))
    return placed


def _entry(entry: Any, array: Array, number: int, field: int) -> Placed:
    """Return an entry of a map whose value is a TensorData that is written in place."""
    tensor = type(entry.value)(shape=array.shape, dtype=array.dtype.name)
    first = array.flat[0]
    if (array == first).all():  # a mask of whole tiles: its memory is not needed beside the request's
        array = np.broadcast_to(first, array.shape)
    return Placed(Fill(array.size * array.itemsize, copied(array)), [(number, entry), (ENTRY_VALUE, tensor)], field)


def set_tensor(message: Any, array: Array, payload: str = "inline") -> None:
    """Put a small array into a TensorData message; ``payload`` is the name of its field of bytes."""
    message.shape.extend(array.shape)
    message.dtype = array.dtype.name
    setattr(message, payload, little_endian(array))
