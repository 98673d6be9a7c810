"""What a careful receiver gets out of a request: ids, tensors, and each item's part of them.

Source: smg-grpc-servicer 0.14.1, vllm/servicer.py, sglang/servicer.py and tokenspeed/servicer.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from foveal.backends.messages import BACKENDS, Backend, common, messages, named_backend
from foveal.errors import OptionError, RequestError
from foveal.grpc.tensors import Array, Shm, TensorReader, as_torch, dtype_of
from foveal.spec.values import show
from foveal.tokens import Range

__all__ = ["Batch", "Decoded", "Field", "Item", "decode"]

PIXELS = "pixel_values"
ENCODER_INPUT = "encoder_input"

FEW_RANGES = 256
"""That are read whatever the prompt, so that what is wrong with them can be said."""

Ids = npt.NDArray[np.int64]
Tensors = Mapping[str, Array]


class Field(NamedTuple):
    """How a tensor is divided among items.

    Attributes
    ----------
    kind : {"batched", "flat", "shared"}
        By the first axis, into runs of rows, or not at all: each item gets all of it.
    sizes : str, optional
        Of a flat one, the name of the tensor that holds the lengths of the runs.
    keep_on_cpu : bool
    """

    kind: Literal["batched", "flat", "shared"]
    sizes: str | None = None
    keep_on_cpu: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """An image, or what a receiver treats as one.

    Attributes
    ----------
    tensors : mapping of str to ndarray or torch.Tensor
        By the engine's names.
    ranges : tuple of Range
        Where it stands in the prompt.
    is_embed : ndarray or torch.Tensor of bool, optional
        Which tokens of its only range are replaced by features; None if all are.
    hash : str
        As it was sent, bytes as hexadecimal digits; empty if there is none.
    """

    tensors: Tensors
    ranges: tuple[Range, ...]
    is_embed: Array | None = None
    hash: str = ""

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """Places of the first and the last token of each range, as SGLang and TokenSpeed keep them."""
        return tuple((offset, offset + length - 1) for offset, length in self.ranges)

    @property
    def feature_tokens(self) -> int:
        """How many tokens are replaced by features."""
        return sum(length for _, length in self.ranges) if self.is_embed is None else int(self.is_embed.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What is sent together: the images of a vLLM or SGLang request, one item of TokenSpeed.

    Attributes
    ----------
    name : str
        Where it stands in the request.
    modality : str
        ``IMAGE``, or what else the request says.
    primary : str
        Name of the encoder's input.
    tensors : mapping of str to ndarray or torch.Tensor
        Undivided, by the engine's names, the encoder's input first.
    fields : mapping of str to Field
        How each of them is divided; empty where there is only one item.
    token_id : int, optional
        Of the tokens that are replaced by features.
    ranges : tuple of Range
    hashes : tuple of str
    items : tuple of Item
        Of vLLM, one for each range.
    """

    name: str
    modality: str
    primary: str
    tensors: Tensors
    fields: Mapping[str, Field]
    token_id: int | None
    ranges: tuple[Range, ...]
    hashes: tuple[str, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A request, as a receiver reads it.

    Attributes
    ----------
    backend : str
    request_id : str
    input_ids : ndarray of int64
    batches : tuple of Batch
    images : tuple of bytes
        Encoded images, of TensorRT-LLM.
    """

    backend: Backend
    request_id: str
    input_ids: Ids
    batches: tuple[Batch, ...] = ()
    images: tuple[bytes, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        """Items of all batches."""
        return tuple(item for batch in self.batches for item in batch.items)


def decode(
    request: Any, *, backend: str | None = None, torch_dtype: object | None = None, shm: Shm = "unlink"
) -> Decoded:
    """Read a request as the engine's own receiver does.

    Arrays are views of the bytes that the message holds: read-only, and nothing is copied but what protobuf copies
    when its field is read. What the receiver refuses, or could not divide among items, is an error here; what it takes
    although it is wrong, `foveal.grpc.problems` finds.

    Parameters
    ----------
    request : GenerateRequest or bytes-like
        Of any backend.
    backend : {"vllm", "sglang", "trtllm", "tokenspeed"}, optional
        Needed with bytes.
    torch_dtype : str or torch.dtype, optional
        With it, tensors are torch's, with floats cast to it: the engine's own dtype. TokenSpeed casts the encoder's
        input alone. They are copies.
    shm : {"unlink", "keep", "refuse"}
        Segments of shared memory that the request names are removed once they were read, as receivers do it, or kept,
        or not read.

    Returns
    -------
    Decoded

    Raises
    ------
    RequestError
        If it is no request of the backend, or the receiver would refuse it; the text names the place in it.
    OptionError
        If an argument is wrong, or torch is asked for and not installed.
    """
    if shm not in get_args(Shm):
        raise OptionError(f"shm must be one of {', '.join(get_args(Shm))}")
    name, message = _message(request, backend)
    dtype = None if torch_dtype is None else dtype_of(torch_dtype)
    return _DECODERS[name](message, TensorReader(name, shm, dtype))


def _message(request: Any, backend: str | None) -> tuple[Backend, Any]:
    """Return the backend, and its message."""
    if isinstance(request, bytes | bytearray | memoryview):
        if backend is None:
            raise OptionError("bytes need backend, which says whose request they are")
        return named_backend(backend), _parsed(bytes(request), backend)
    kind = getattr(getattr(request, "DESCRIPTOR", None), "full_name", None)
    for name in BACKENDS if backend is None else (named_backend(backend),):
        if kind == messages(name).pb2.GenerateRequest.DESCRIPTOR.full_name:
            return name, request
    raise OptionError(f"request must be a GenerateRequest of {backend or 'a backend'}, or its bytes")


def _parsed(data: bytes, backend: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return messages(backend).pb2.GenerateRequest.FromString(data)
    except DecodeError:
        raise RequestError(f"the bytes are no GenerateRequest of {backend}") from None


def _ids(ids: Sequence[int]) -> Ids:
    return np.fromiter(ids, np.int64, len(ids))


def _ranges(name: str, placeholders: Sequence[Any], ids: Ids) -> tuple[Range, ...]:
    """Return ranges; what is made of them later is not larger than the prompt."""
    if len(placeholders) > max(len(ids), FEW_RANGES):  # each would be an item, with all that items share
        raise RequestError(f"{name} are {len(placeholders)}, more than the {len(ids)} tokens of the prompt")
    ranges = tuple(Range(each.offset, each.length) for each in placeholders)
    total = sum(min(length, max(0, len(ids) - offset)) for offset, length in ranges)
    if total > len(ids):
        raise RequestError(f"{name} overlap: they have {total} tokens of a prompt of {len(ids)}")
    return ranges


def _modality(number: int) -> str:
    names: dict[int, str] = {value: name for name, value in common().Modality.items()}
    return names.get(number, str(number))


def _optional(message: Any, field: str) -> int | None:
    return getattr(message, field) if message.HasField(field) else None


def _tensors(
    reader: TensorReader, name: str, message: Any, field: str, primary: str, key: Callable[[str], str] = str
) -> Tensors:
    """Return the encoder's input, if there is one, and the other tensors in the order of their names.

    Parameters
    ----------
    reader : TensorReader
    name : str
        Of the message.
    message : MultimodalInputs or MultimodalItem
    field : str
        That holds the encoder's input.
    primary : str
        The engine's name for it.
    key : callable, optional
        From the name of another tensor to the engine's.
    """
    others = message.model_specific_tensors
    found = {primary: reader.read(getattr(message, field), f"{name}.{field}")} if message.HasField(field) else {}
    for wire_key in sorted(others):
        if key(wire_key) in found:
            raise RequestError(f"{name}.model_specific_tensors has {show(wire_key)}, which is there already")
        found[key(wire_key)] = reader.read(others[wire_key], f"{name}.{_shown(wire_key)}", primary=False)
    return found


def _shown(key: str) -> str:
    return key if key.isidentifier() and len(key) <= 60 else f"model_specific_tensors[{show(key)}]"


# ---- vLLM


def _vllm(message: Any, reader: TensorReader) -> Decoded:
    if message.HasField("media_refs"):
        raise RequestError("media_refs are not read: images must be tensors")
    named = [("mm_inputs", message.mm_inputs)] if message.HasField("mm_inputs") else []
    named += [(f"extra_mm_inputs[{index}]", extra) for index, extra in enumerate(message.extra_mm_inputs)]
    ids = _ids(message.tokenized.input_ids)
    batches = [_vllm_batch(reader, name, inputs, ids) for name, inputs in named]
    return Decoded("vllm", message.request_id, ids, tuple(batches))


def _vllm_batch(reader: TensorReader, name: str, inputs: Any, ids: Ids) -> Batch:
    modality = _modality(inputs.modality)
    key = _video_key if modality == "VIDEO" else str
    primary = key(inputs.encoder_input_key or PIXELS)
    tensors = _tensors(reader, name, inputs, PIXELS, primary, key)
    fields = _fields(inputs, tensors, key)
    ranges = _ranges(f"{name}.mm_placeholders", inputs.mm_placeholders, ids)
    token_id, hashes = _optional(inputs, "im_token_id"), tuple(inputs.mm_hashes)
    masks = [_is_embed(ids, where, token_id, reader) for where in ranges]
    parts = _divided(name, tensors, fields, len(ranges))
    texts = (*hashes, *[""] * len(ranges))[: len(ranges)]
    items = tuple(Item(part, (ranges[index],), masks[index], texts[index]) for index, part in enumerate(parts))
    return Batch(name, modality, primary, tensors, fields, token_id, ranges, hashes, items)


def _video_key(key: str) -> str:
    return "pixel_values_videos" if key == PIXELS else key


def _fields(inputs: Any, tensors: Tensors, key: Callable[[str], str]) -> dict[str, Field]:
    batched, kept = ({key(each) for each in keys} for keys in (inputs.batched_keys, inputs.keep_on_cpu_keys))
    flat = {key(each): key(sizes) for each, sizes in inputs.flat_keys.items()}
    fields = {}
    for name in tensors:
        if name in batched:
            fields[name] = Field("batched", None, name in kept)
        elif name in flat:
            fields[name] = Field("flat", flat[name], name in kept)
        else:
            fields[name] = Field("shared")
    return fields


def _divided(name: str, tensors: Tensors, fields: Mapping[str, Field], count: int) -> list[Tensors]:
    """Return each item's part of every tensor."""
    columns = {}
    for key, tensor in tensors.items():
        field = fields[key]
        if field.kind == "shared":
            columns[key] = [tensor] * count
            continue
        sizes = None if field.sizes is None else _sizes(name, tensors, key, field.sizes)
        found = len(tensor) if sizes is None else len(sizes)
        if found != count:
            raise RequestError(f"{name}.{_shown(key)} is divided among {found} items, but mm_placeholders has {count}")
        columns[key] = _rows(tensor) if sizes is None else _runs(tensor, sizes)
    return [{key: column[index] for key, column in columns.items()} for index in range(count)]


def _sizes(name: str, tensors: Tensors, key: str, sizes: str) -> list[int]:
    if sizes not in tensors:
        raise RequestError(f"{name}.flat_keys divides {show(key)} by {show(sizes)}, and there is no such tensor")
    numbers: list[int] = tensors[sizes].reshape(-1).tolist()
    if not all(isinstance(number, int) and number > 0 for number in numbers):
        raise RequestError(f"{name}.{_shown(sizes)} divides {show(key)}, and must hold whole numbers above 0")
    return numbers


def _rows(tensor: Array) -> list[Array]:
    return [tensor[index, ...] for index in range(len(tensor))]


def _runs(tensor: Array, sizes: list[int]) -> list[Array]:
    """Return runs of rows; what is there too little, or too much, is not missed."""
    return [tensor[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def _is_embed(ids: Ids, where: Range, token_id: int | None, reader: TensorReader) -> Array | None:
    if token_id is None:
        return None
    found = ids[where.offset : where.offset + where.length] == token_id
    if found.all():
        return None
    return found if reader.torch_dtype is None else as_torch(found)


# ---- SGLang


def _sglang(message: Any, reader: TensorReader) -> Decoded:
    ids = _ids(message.tokenized.input_ids)
    batches = (_sglang_batch(reader, message.mm_inputs, ids),) if message.HasField("mm_inputs") else ()
    return Decoded("sglang", message.request_id, ids, batches)


def _sglang_batch(reader: TensorReader, inputs: Any, ids: Ids) -> Batch:
    """Return all images, which SGLang bundles into one item."""
    tensors = _tensors(reader, "mm_inputs", inputs, PIXELS, PIXELS)
    ranges = _ranges("mm_inputs.mm_placeholders", inputs.mm_placeholders, ids)
    items = (Item(tensors, ranges),)
    return Batch("mm_inputs", "IMAGE", PIXELS, tensors, {}, _optional(inputs, "im_token_id"), ranges, (), items)


# ---- TensorRT-LLM


def _trtllm(message: Any, reader: TensorReader) -> Decoded:
    images = tuple(message.multimodal_input.image_data)
    return Decoded("trtllm", message.request_id, _ids(message.tokenized.input_token_ids), (), images)


# ---- TokenSpeed


def _tokenspeed(message: Any, reader: TensorReader) -> Decoded:
    if message.HasField("mm_inputs") and not message.mm_inputs.items:
        raise RequestError("mm_inputs.items is empty")
    ids = _ids(message.tokenized.input_ids)
    batches = [_tokenspeed_item(reader, index, item, ids) for index, item in enumerate(message.mm_inputs.items)]
    return Decoded("tokenspeed", message.request_id, ids, tuple(batches))


def _tokenspeed_item(reader: TensorReader, index: int, item: Any, ids: Ids) -> Batch:
    name, modality = f"mm_inputs.items[{index}]", _modality(item.modality)
    tensors = _tensors(reader, name, item, ENCODER_INPUT, ENCODER_INPUT)
    ranges, digest = _ranges(f"{name}.placeholders", item.placeholders, ids), item.content_hash.hex()
    items = (Item(tensors, ranges, None, digest),)
    token_id = _optional(item, "placeholder_token_id")
    return Batch(name, modality, ENCODER_INPUT, tensors, {}, token_id, ranges, (digest,) if digest else (), items)


_DECODERS: dict[Backend, Callable[[Any, TensorReader], Decoded]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "tokenspeed": _tokenspeed,
}
