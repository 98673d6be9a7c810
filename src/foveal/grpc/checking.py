"""What is wrong with a request although the engine's receiver would take it.

Each engine's receiver trusts its sender: what is found here would give other answers than the images deserve, or fail
deep in the engine. The rules follow from what the receivers were seen to take, and from what the engines then do.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from foveal.errors import MediaError, RequestError
from foveal.grpc.decoding import Batch, Decoded, Item
from foveal.grpc.tensors import FLOATS, Array, listed
from foveal.media.inspection import inspect
from foveal.spec.values import one_line
from foveal.tokens import Range

__all__ = ["check", "in_one_line", "problems"]

_GRIDS = ("image_grid_thw", "video_grid_thw", "grid_thws", "image_grid_hws")
"""Tensors whose rows multiply to an item's rows of patches. Engines read them on the CPU, for positions."""

_MODALITIES = {"vllm": ("IMAGE", "VIDEO"), "sglang": ("IMAGE",), "tokenspeed": ("IMAGE", "VIDEO", "AUDIO")}
_HASH_BYTES = {"vllm": None, "tokenspeed": 8}
"""How many bytes of a hash an engine looks at, all if None."""

_LENGTH = 400
"""Of a problem's text, at most: names of tensors are the sender's."""

_PLACEHOLDERS = {"vllm": "mm_placeholders", "sglang": "mm_placeholders", "tokenspeed": "placeholders"}
_TOKEN_ID = {"vllm": "im_token_id", "sglang": "im_token_id", "tokenspeed": "placeholder_token_id"}


def check(decoded: Decoded, *, device_normalize: bool | None = None) -> None:
    """Refuse a request that is wrong.

    Parameters
    ----------
    decoded : Decoded
    device_normalize : bool, optional
        As in `problems`.

    Raises
    ------
    RequestError
        With the first problem, and the number of others.
    """
    found = problems(decoded, device_normalize=device_normalize)
    if found:
        raise RequestError(in_one_line(found))


def in_one_line(found: Sequence[str]) -> str:
    """Return the first problem, and how many there are beside it."""
    return found[0] if len(found) == 1 else f"{found[0]} (and {len(found) - 1} more)"


def problems(decoded: Decoded, *, device_normalize: bool | None = None) -> list[str]:
    """Return everything that is wrong with a request that was decoded, a line each.

    Parameters
    ----------
    decoded : Decoded
    device_normalize : bool, optional
        Whether the engine normalizes pixels itself, and so needs bytes. Only vLLM can; whether its pixels fit is not
        looked at if not given.

    Returns
    -------
    list of str
        Each names the place in the request, the value and the rule. Empty where nothing is wrong.
    """
    found = [] if len(decoded.input_ids) else ["input_ids is empty; the prompt must be token ids"]
    for batch in decoded.batches:
        found += [f"{batch.name}.{text}" for text in _of_batch(decoded, batch, device_normalize)]
    found += _between(decoded)
    found += _images(decoded)
    return [one_line(text, _LENGTH) for text in found]


def _of_batch(decoded: Decoded, batch: Batch, device_normalize: bool | None) -> Iterator[str]:
    yield from _modality(decoded, batch)
    yield from _pixels(batch, device_normalize if decoded.backend == "vllm" else False)
    yield from _fields(batch)
    yield from _grids(batch)
    yield from _places(decoded, batch)
    yield from _hashes(decoded, batch)


# ---- tensors


def _modality(decoded: Decoded, batch: Batch) -> Iterator[str]:
    known = _MODALITIES[decoded.backend]
    if batch.modality not in known:
        yield f"modality is {batch.modality}; it must be {listed(known)}"
    if decoded.backend != "tokenspeed":
        return
    for key, modality in (("image_grid_thw", "IMAGE"), ("video_grid_thw", "VIDEO")):
        if key in batch.tensors and batch.modality != modality:
            yield f"{key} is of an item that is {batch.modality}; it must be {modality}"
    if batch.modality == "VIDEO" and "video_grid_thw" not in batch.tensors:
        yield "video_grid_thw is missing; an item that is VIDEO must have it"


def _pixels(batch: Batch, device_normalize: bool | None) -> Iterator[str]:
    """Yield what is wrong with the encoder's input."""
    key = batch.primary
    if key not in batch.tensors:
        yield f"{key} is missing, and no encoder would run"
        return
    dtype = _dtype(batch.tensors[key])
    if dtype not in (*FLOATS, "uint8"):
        yield f"{key} is {dtype}; it must be {listed((*FLOATS, 'uint8'))}"
    elif device_normalize and dtype != "uint8":
        yield f"{key} is {dtype}, but the engine normalizes (mm_device_do_normalize); it must be uint8"
    elif device_normalize is False and dtype == "uint8":
        yield f"{key} is uint8, but the engine does not normalize; it must be {listed(FLOATS)}"


def _fields(batch: Batch) -> Iterator[str]:
    """Yield what is wrong with how vLLM divides tensors."""
    for key, field in batch.fields.items():
        if key == batch.primary and field.kind == "shared":
            yield f"{key} is in neither batched_keys nor flat_keys, so each item would get all of it"
        if key in _GRIDS and not field.keep_on_cpu:
            yield f"{key} must be in keep_on_cpu_keys, and in batched_keys or flat_keys"
        if field.sizes is not None:
            rows, sizes = len(batch.tensors[key]), sum(batch.tensors[field.sizes].reshape(-1).tolist())
            if rows != sizes:
                yield f"{key} has {rows} rows, but {field.sizes} divides {sizes}"


def _grids(batch: Batch) -> Iterator[str]:
    for number, item in enumerate(batch.items):
        for key in _GRIDS:
            if key in item.tensors and batch.primary in item.tensors:
                cells, rows = _cells(item.tensors[key]), len(item.tensors[batch.primary])
                if cells != rows:
                    yield f"{key} counts {cells} patches of item {number}, but {batch.primary} has {rows} rows for it"


def _cells(grid: Array) -> int:
    """Return the sum over rows of their product."""
    return sum(map(prod, grid.reshape(-1, grid.shape[-1] if grid.ndim else 1).tolist()))


def _dtype(tensor: Array) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# ---- places in the prompt


def _places(decoded: Decoded, batch: Batch) -> Iterator[str]:
    field, token = _PLACEHOLDERS[decoded.backend], _TOKEN_ID[decoded.backend]
    if not batch.ranges:
        yield f"{field} is empty, so nothing would be placed in the prompt"
    if batch.token_id is None:
        yield f"{token} is missing; the tokens that features replace must have an id"
    for number, where in enumerate(batch.ranges):
        name = f"{field}[{number}]"
        prompt = len(decoded.input_ids)
        if not where.length:
            yield f"{name} has no tokens"
        elif _end(where) > prompt:
            yield f"{name} ends at {_end(where)}, behind the prompt of {prompt} tokens"
        elif batch.token_id is not None:
            yield from _tokens(decoded, where, name, f"{token} {batch.token_id}", batch.token_id)
    named = [(f"{field}[{number}]", where) for number, where in enumerate(batch.ranges)]
    yield from _order(named)


def _tokens(decoded: Decoded, where: Range, name: str, token: str, token_id: int) -> Iterator[str]:
    """Yield what is wrong with the tokens of a range."""
    found = int(np.count_nonzero(decoded.input_ids[where.offset : _end(where)] == token_id))
    if not found:
        yield f"{name} has no token that is {token}"
    elif decoded.backend != "vllm" and found != where.length:
        yield f"{name} has {where.length - found} tokens that are not {token}; features would replace all of them"


def _order(named: Iterable[tuple[str, Range]]) -> Iterator[str]:
    for (before, first), (name, second) in pairwise(named):
        if second.offset < _end(first):
            yield f"{name} starts at {second.offset}, and {before} ends at {_end(first)}; they must follow one another"


def _end(where: Range) -> int:
    return where.offset + where.length


# ---- hashes


def _hashes(decoded: Decoded, batch: Batch) -> Iterator[str]:
    """Yield what is wrong with the hashes of vLLM, which needs one for each item."""
    if decoded.backend != "vllm":
        return
    if len(batch.hashes) != len(batch.items):
        yield f"mm_hashes has {len(batch.hashes)} hashes, but there are {len(batch.items)} items"
    for number, text in enumerate(batch.hashes):
        if not text:
            yield f"mm_hashes[{number}] is empty"


def _same_hashes(decoded: Decoded) -> Iterator[str]:
    """Yield items that an engine would take for one another."""
    if decoded.backend not in _HASH_BYTES:
        return
    length = _HASH_BYTES[decoded.backend]
    by_hash: dict[str, list[tuple[str, Item]]] = {}
    for batch in decoded.batches:
        for number, item in enumerate(batch.items):
            if item.hash:
                name = batch.name if decoded.backend == "tokenspeed" else f"{batch.name} item {number}"
                by_hash.setdefault(item.hash[: 2 * length if length else None], []).append((name, item))
    for text, ((first, item), *others) in by_hash.items():
        for name, other in others:
            if not _same(item, other):
                yield f"{name} has the hash {one_line(text, 16)} of {first}, but other tensors"


def _same(item: Item, other: Item) -> bool:
    return item.tensors.keys() == other.tensors.keys() and all(
        _equal(item.tensors[key], other.tensors[key]) for key in item.tensors
    )


def _equal(first: Array, second: Array) -> bool:
    if first is second:
        return True
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


# ---- several batches, and images


def _between(decoded: Decoded) -> Iterator[str]:
    """Yield what is wrong between batches."""
    if decoded.backend == "tokenspeed":
        yield from _between_items(decoded)
    else:
        yield from _between_modalities(decoded)
    yield from _same_hashes(decoded)


def _between_modalities(decoded: Decoded) -> Iterator[str]:
    modalities: dict[str, str] = {}
    keys: dict[str, str] = {}
    for batch in decoded.batches:
        if batch.modality in modalities:
            yield f"{batch.name} is {batch.modality}, as is {modalities[batch.modality]}; each modality has one batch"
        modalities.setdefault(batch.modality, batch.name)
        for key in batch.tensors:
            if key in keys:
                yield f"{batch.name}.{key} is in {keys[key]} too; batches must not have a tensor in common"
            keys.setdefault(key, batch.name)
    ranges = [
        (f"{batch.name}.mm_placeholders[{number}]", where, batch)
        for batch in decoded.batches
        for number, where in enumerate(batch.ranges)
    ]
    ranges.sort(key=lambda entry: entry[1])
    for (before, first, one), (name, second, other) in pairwise(ranges):
        if one is not other:
            yield from _order([(before, first), (name, second)])


def _between_items(decoded: Decoded) -> Iterator[str]:
    ids: dict[str, tuple[int, str]] = {}
    for batch in decoded.batches:
        if batch.token_id is None:
            continue
        token_id, name = ids.setdefault(batch.modality, (batch.token_id, batch.name))
        if token_id != batch.token_id:
            yield (
                f"{batch.name}.placeholder_token_id is {batch.token_id}, and that of {name} is {token_id}; "
                f"all that are {batch.modality} must have one"
            )
    for before, batch in pairwise(decoded.batches):
        if before.ranges and batch.ranges:
            last = f"{before.name}.placeholders[{len(before.ranges) - 1}]"
            yield from _order([(last, before.ranges[-1]), (f"{batch.name}.placeholders[0]", batch.ranges[0])])


def _images(decoded: Decoded) -> Iterator[str]:
    """Yield encoded images that nobody can read."""
    for number, image in enumerate(decoded.images):
        try:
            inspect(image)
        except MediaError as error:
            yield f"multimodal_input.image_data[{number}]: {error}"
