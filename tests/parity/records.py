"""How tensors are recorded: shape, dtype, a digest of the bytes, and a few values to see what went wrong."""

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FOLDER", "Record", "differences", "golden", "record", "sample_indices"]

FOLDER = Path(__file__).parent / "goldens"
SAMPLES = 13
FEW = 64
"""Integers that are kept whole at most."""

Record = dict[str, Any]


def sample_indices(size: int) -> list[int]:
    """Return flat indices spread evenly from the first element to the last."""
    return sorted({i * (size - 1) // (SAMPLES - 1) for i in range(SAMPLES)}) if size else []


def number(value: np.generic) -> int | float:
    """Return a value as JSON shows it best: the shortest decimal that stands for it in its own dtype."""
    return int(value) if np.issubdtype(value.dtype, np.integer) else float(str(value))


def record(array: np.ndarray) -> Record:
    """Describe a tensor; a few 64-bit integers, as sizes and grids are, are kept whole."""
    described: Record = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.dtype == np.int64 and array.size <= FEW:
        return described | {"values": array.tolist()}
    flat = np.ascontiguousarray(array).reshape(-1)
    digest = blake2b(flat.view(np.uint8), digest_size=16).hexdigest()
    return described | {"blake2b": digest, "samples": [number(flat[i]) for i in sample_indices(flat.size)]}


def golden(family: str) -> Record:
    """Return what was recorded of a family: ``versions`` and ``cases``."""
    return json.loads((FOLDER / f"{family}.json").read_text())


def sampled(name: str, actual: Record, expected: Record) -> str:
    """Say which of the kept values differ, where the bytes do."""
    indices = sample_indices(int(np.prod(expected["shape"])))
    wrong = [k for k, pair in enumerate(zip(actual["samples"], expected["samples"], strict=True)) if pair[0] != pair[1]]
    if not wrong:
        return f"{name}: the bytes differ, none of {len(indices)} samples does"
    k = wrong[0]
    place = tuple(int(i) for i in np.unravel_index(indices[k], expected["shape"]))
    return (
        f"{name}: {len(wrong)} of {len(indices)} samples differ, "
        f"first at {place}: {actual['samples'][k]} instead of {expected['samples'][k]}"
    )


def differences(actual: dict[str, Record], expected: dict[str, Record]) -> list[str]:
    """Return a line for everything that is not as expected."""
    if actual.keys() != expected.keys():
        return [f"keys are {sorted(actual)} instead of {sorted(expected)}"]
    lines = []
    for name in expected:
        if actual[name] == expected[name]:
            continue
        wrong = [key for key in ("dtype", "shape", "values") if actual[name].get(key) != expected[name].get(key)]
        lines += [f"{name}: {key} is {actual[name].get(key)} instead of {expected[name].get(key)}" for key in wrong]
        lines += [] if wrong else [sampled(name, actual[name], expected[name])]
    return lines
