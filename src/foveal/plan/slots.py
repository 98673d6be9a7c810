"""Slots: where each image's blocks (tiles, patches, rows) lie in a tensor of all images."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from foveal.spec.schema import Batch

__all__ = ["Slot", "first_block", "slots"]


class Slot(NamedTuple):
    """Where an image's blocks lie in a tensor whose images are padded.

    Attributes
    ----------
    place : tuple of int
        Index of the axes before that of the blocks.
    start : int
        First block.
    """

    place: tuple[int, ...]
    start: int


def slots(batch: Batch, lengths: Sequence[int], samples: Sequence[int]) -> tuple[list[Slot], tuple[int, ...]]:
    """Return where the blocks of each image lie, and the axes up to and with that of the blocks.

    Parameters
    ----------
    batch : Batch
    lengths : sequence of int
        Blocks of each image.
    samples : sequence of int
        Images of each sample.
    """
    if batch.join in ("concat", "largest"):
        starts = accumulate(lengths[:-1], initial=0)
        return [Slot((), start) for start in starts], (sum(lengths),)
    if not batch.by_sample:
        longest = batch.room or max(lengths)
        return [Slot((number,), 0) for number in range(len(lengths))], (len(lengths), longest)
    if batch.join == "room":
        places = [Slot((sample, number), 0) for sample, count in enumerate(samples) for number in range(count)]
        return places, (len(samples), max(samples), batch.room)
    totals, places = [], []
    for sample, part in enumerate(_by_sample(lengths, samples)):
        starts = accumulate(part, initial=0)
        *firsts, total = starts
        places += [Slot((sample,), start) for start in firsts]
        totals.append(total)
    return places, (len(samples), max(totals))


def _by_sample(lengths: Sequence[int], samples: Sequence[int]) -> Iterator[Sequence[int]]:
    start = 0
    for count in samples:
        yield lengths[start : start + count]
        start += count


def first_block(slot: Slot, axes: tuple[int, ...]) -> int:
    """Return the number of blocks before those of a slot; ``axes`` ends with that of the blocks."""
    index = 0
    for position, length in zip((*slot.place, slot.start), axes, strict=True):
        index = index * length + position
    return index
