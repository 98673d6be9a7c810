"""Answer every case with the real transformers and write ``goldens/``.

Run it as ``python tests/parity/make.py`` where ``foveal[reference]`` is installed, or with the names of some families
to write those alone. Equal versions give equal files.
"""

import itertools
import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import ml_dtypes
import numpy as np
import restated
import torch
import transformers
from cases import CASES, CHECKPOINTS, FAMILIES, Case, DescribedCheckpoint
from family import PILLOW_12, TORCHVISION, Family, Options
from images import draw_all
from PIL import Image
from records import FOLDER, Record, record

PACKAGES = ("numpy", "pillow", "torch", "torchvision", "transformers")


@contextmanager
def horizontal_first() -> Iterator[None]:
    """Resize as Pillow before 13 did. One call for each axis leaves Pillow 13 no choice of order."""
    resize = Image.Image.resize

    def resize_by_axis(image: Image.Image, size: tuple[int, int], resample: int, **options: None) -> Image.Image:
        width, height = size
        return resize(resize(image, (width, image.height), resample, **options), (width, height), resample, **options)

    Image.Image.resize = resize_by_axis
    try:
        yield
    finally:
        Image.Image.resize = resize


def processor_class(family: Family, reference: str) -> Any:
    if hasattr(restated, family.processor):
        return getattr(restated, family.processor)
    return getattr(transformers, family.processor + ("" if reference == TORCHVISION else "Pil"))


def processor(case: Case) -> Any:
    family = FAMILIES[case.family]
    cls = processor_class(family, case.reference)
    if case.checkpoint is not None:
        return cls.from_pretrained(FOLDER / "checkpoints" / case.checkpoint)
    constructed = {name: value for name, value in case.options.items() if name in family.constructed}
    return cls(**deepcopy(family.arguments | constructed))


def passed(case: Case) -> Options:
    """Return what the processor around the image processor passes to it."""
    checkpoint = CHECKPOINTS[case.checkpoint].checkpoint if case.checkpoint is not None else None
    if checkpoint is not None and checkpoint.passed is not None:
        return checkpoint.passed
    return FAMILIES[case.family].passed


def rectangular(rows: list[Any]) -> list[Any]:
    """Fill lists of unequal lengths up with zeros."""
    if not isinstance(rows[0], list):
        return rows
    return [list(column) for column in zip(*itertools.zip_longest(*rows, fillvalue=0), strict=True)]


def to_numpy(value: Any) -> np.ndarray:
    if isinstance(value, list):
        return np.asarray(rectangular(value))
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def call(case: Case) -> dict[str, np.ndarray]:
    """Return what transformers answers."""
    order = horizontal_first() if case.reference == PILLOW_12 else nullcontext()
    with order, warnings.catch_warnings(action="ignore"):
        options = passed(case) | case.options
        tensors = processor(case)(images=draw_all(case.images), return_tensors="pt", **deepcopy(options))
    return {name: to_numpy(value) for name, value in tensors.items()}


def refusal(error: Exception) -> str:
    """Describe an error by its first line, up to where values in no fixed order may begin."""
    message = str(error).splitlines()[0].split("{")[0][:100] if str(error) else ""
    return f"{type(error).__name__}: {message}"


def answer(case: Case) -> tuple[Record, dict[str, np.ndarray]]:
    """Return the record of a case, and its arrays; of a refusal, the error and nothing."""
    try:
        arrays = call(case)
    except Exception as error:
        return {"raises": refusal(error)}, {}
    return {name: record(array) for name, array in arrays.items()}, arrays


def versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}


def write_json(path: Path, value: Options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_checkpoint(directory: str, described: DescribedCheckpoint) -> None:
    family = FAMILIES[described.family]
    for name, content in described.checkpoint.files.items():
        if content is None:
            cls = processor_class(family, family.references[0])
            content = json.loads(cls(**family.arguments).to_json_string())
        write_json(FOLDER / "checkpoints" / directory / name, content)


def write_records(family: str, records: dict[str, Record]) -> None:
    """Write one case a line, so that a change shows as the cases that it touches."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in records.items())
    path = FOLDER / f"{family}.json"
    path.write_text(f'{{"versions": {json.dumps(versions(), sort_keys=True)},\n"cases": {{\n{lines}\n}}}}\n')


def whole(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the primary tensor, the first one, in a dtype that NumPy's files know."""
    primary = next(iter(arrays.values()))
    return primary.view(np.uint16) if primary.dtype == ml_dtypes.bfloat16 else primary


def write_family(name: str) -> dict[str, np.ndarray]:
    """Write a family's checkpoints and records; return the primary tensors that are kept whole."""
    for old in (FOLDER / "checkpoints" / name, *(FOLDER / "checkpoints").glob(f"{name}-*")):
        shutil.rmtree(old, ignore_errors=True)
    for directory, described in CHECKPOINTS.items():
        if described.family == name:
            write_checkpoint(directory, described)
    records, small = {}, {}
    for case in (case for case in CASES if case.family == name):
        records[str(case)], arrays = answer(case)
        if case.name == "small":
            small[str(case)] = whole(arrays)
    write_records(name, records)
    return small


def of_other_families(names: list[str]) -> dict[str, np.ndarray]:
    """Return the primary tensors kept whole of the families that are not made anew."""
    kept = {str(case) for case in CASES if case.name == "small" and case.family not in names}
    with np.load(FOLDER / "small.npz") as arrays:
        return {name: arrays[name] for name in arrays.files if name in kept}


def main(names: list[str]) -> None:
    if unknown := set(names) - FAMILIES.keys():
        raise SystemExit(f"no such family: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    small = of_other_families(names) if names else {}
    if not names:
        shutil.rmtree(FOLDER, ignore_errors=True)
    for name in names or FAMILIES:
        started = perf_counter()
        small |= write_family(name)
        count = sum(case.family == name for case in CASES)
        print(f"{name}: {count} cases, {perf_counter() - started:.0f} s", flush=True)
    np.savez_compressed(FOLDER / "small.npz", **dict(sorted(small.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
