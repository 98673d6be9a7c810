"""Answer every case with the real transformers and write ``goldens/``.

Run it as ``python tests/parity/make.py`` where ``foveal[reference]`` is installed. Equal versions give equal files.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import ml_dtypes
import numpy as np
import torch
import transformers
from cases import CASES, CHECKPOINTS, FAMILIES, PILLOW_12, TORCHVISION, Case, Options
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


def processor_class(family: str, reference: str) -> type:
    return getattr(transformers, FAMILIES[family].processor + ("" if reference == TORCHVISION else "Pil"))


def processor(case: Case) -> Any:
    cls = processor_class(case.family, case.reference)
    if case.checkpoint is not None:
        return cls.from_pretrained(FOLDER / "checkpoints" / case.checkpoint)
    return cls(**deepcopy(FAMILIES[case.family].arguments))


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def call(case: Case) -> dict[str, np.ndarray]:
    """Return what transformers answers."""
    order = horizontal_first() if case.reference == PILLOW_12 else nullcontext()
    with order, warnings.catch_warnings(action="ignore"):
        tensors = processor(case)(images=draw_all(case.images), return_tensors="pt", **case.options)
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}


def answer(case: Case) -> tuple[Record, dict[str, np.ndarray]]:
    """Return the record of a case, and its arrays; of a refusal, the error and nothing."""
    try:
        arrays = call(case)
    except (ValueError, TypeError, RuntimeError) as error:
        return {"raises": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}, {}
    return {name: record(array) for name, array in arrays.items()}, arrays


def versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}


def write_json(path: Path, value: Options) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_checkpoints() -> None:
    shutil.rmtree(FOLDER / "checkpoints", ignore_errors=True)
    for directory, checkpoint in CHECKPOINTS.items():
        for name, content in checkpoint.files.items():
            if content is None:
                cls = processor_class(checkpoint.family, TORCHVISION)
                content = json.loads(cls(**FAMILIES[checkpoint.family].arguments).to_json_string())
            write_json(FOLDER / "checkpoints" / directory / name, content)


def write_records(family: str, records: dict[str, Record]) -> None:
    """Write one case a line, so that a change shows as the cases that it touches."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in records.items())
    path = FOLDER / f"{family}.json"
    path.write_text(f'{{"versions": {json.dumps(versions(), sort_keys=True)},\n"cases": {{\n{lines}\n}}}}\n')


def main() -> None:
    torch.set_num_threads(1)
    write_checkpoints()
    whole: dict[str, np.ndarray] = {}
    for family in FAMILIES:
        records = {}
        for case in (case for case in CASES if case.family == family):
            records[str(case)], arrays = answer(case)
            if case.name == "small":
                array = arrays["pixel_values"]
                whole[str(case)] = array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
        write_records(family, records)
        print(f"{family}: {len(records)} cases")
    np.savez_compressed(FOLDER / "small.npz", **whole)


if __name__ == "__main__":
    main()
