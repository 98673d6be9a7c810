"""A checkpoint's configuration files, read but not interpreted."""

import json
import os
import re
import stat
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from foveal.errors import SpecError, UnknownModelError
from foveal.spec.files import file_mode, path_text, read_file, shown_path

__all__ = ["MODEL_ID", "Checkpoint", "is_cached", "read_checkpoint"]

MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Of a model on the Hub: ``organization/model``."""


class Checkpoint(msgspec.Struct, frozen=True):
    """What a checkpoint directory says about preprocessing.

    Attributes
    ----------
    name : str
        Name of the directory, or the model's id on the Hub.
    config : dict
        ``config.json``; empty where the file is missing.
    preprocessor : dict
        The image processor's fields.
    processor : dict
        ``processor_config.json``; empty where the file is missing.
    file : str
        Name of the file that held ``preprocessor``, for messages.
    """

    name: str
    config: dict[str, Any]
    preprocessor: dict[str, Any]
    processor: dict[str, Any] = {}
    file: str = "preprocessor_config.json"

    @property
    def image_processor_type(self) -> str:
        """Name of the reference's class without its backend; empty if no file says it.

        Source: transformers 5.24.0, models/auto/image_processing_auto.py.
        """
        kind = self.preprocessor.get("image_processor_type")
        if kind is None:
            kind = self.preprocessor.get("feature_extractor_type")
            kind = kind.replace("FeatureExtractor", "ImageProcessor") if isinstance(kind, str) else None
        if kind is None:
            kind = self.config.get("image_processor_type")
        return kind.removesuffix("Fast").removesuffix("Pil") if isinstance(kind, str) else ""

    @property
    def model_type(self) -> str:
        """The ``model_type`` of ``config.json``; empty if it has none."""
        kind = self.config.get("model_type")
        return kind if isinstance(kind, str) else ""

    @property
    def architectures(self) -> tuple[str, ...]:
        """The ``architectures`` of ``config.json``; empty if it has none."""
        names = self.config.get("architectures")
        return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Names under which the checkpoint may be known."""
        origin = self.config.get("_name_or_path")
        return (self.name, origin) if isinstance(origin, str) else (self.name,)


def read_checkpoint(directory: str | PathLike[str]) -> Checkpoint:
    """Read the configuration files of a checkpoint directory, or of a model's id on the Hub that is in its local cache.

    Nothing is downloaded.

    The image processor's fields are those under ``image_processor`` in ``processor_config.json`` if it has them, else
    all of ``preprocessor_config.json``. Source: transformers 5.24.0, image_processing_base.py.

    Raises
    ------
    SpecError
        If the directory or both of those files are missing, or a file is not a JSON object.
    """
    text = path_text(directory, "the directory of a checkpoint")
    mode, name = file_mode(text), None
    if mode is None and MODEL_ID.fullmatch(text):
        text, name = _cached(text), text
        mode = file_mode(text)
    if mode is None or not stat.S_ISDIR(mode):
        raise SpecError(f"{shown_path(text)}: {'no such directory' if mode is None else 'not a directory'}")
    path = Path(text)
    config, processor = _read_json(path / "config.json"), _read_json(path / "processor_config.json")
    file, preprocessor = "processor_config.json", (processor or {}).get("image_processor")
    if preprocessor is None:
        file, preprocessor = "preprocessor_config.json", _read_json(path / "preprocessor_config.json")
    if preprocessor is None:
        raise SpecError(
            f"{shown_path(text)}: no preprocessor_config.json, and no image_processor in a processor_config.json"
        )
    if not isinstance(preprocessor, dict):
        raise SpecError(f"{shown_path(str(path / file))}: image_processor is not an object")
    return Checkpoint(name or path.resolve().name, config or {}, preprocessor, processor or {}, file)


def is_cached(model_id: str) -> bool:
    """Return whether a text is the id of a model that is in the Hub's local cache."""
    try:
        return MODEL_ID.fullmatch(model_id) is not None and os.path.isdir(_cached(model_id))
    except UnknownModelError:
        return False


def _cached(model_id: str) -> str:
    """Return the directory of a model in the Hub's local cache: the revision that ``main`` names.

    Source: huggingface_hub 1.0, "Understand caching".

    Raises
    ------
    UnknownModelError
        If it is not there.
    """
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    model = cache / f"models--{model_id.replace('/', '--')}"
    revision = read_file(str(model / "refs" / "main"))
    if revision is None:
        raise UnknownModelError(
            f"{model_id}: neither a directory nor a model in {shown_path(str(cache))}; nothing is downloaded"
        )
    return str(model / "snapshots" / revision.decode(errors="replace").strip())


def _read_json(path: Path) -> dict[str, Any] | None:
    data, name = read_file(str(path)), shown_path(str(path))
    if data is None:
        return None
    try:
        tree = json.loads(data)
    except json.JSONDecodeError as error:
        raise SpecError(f"{name}: line {error.lineno}: not JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError):
        raise SpecError(f"{name}: not JSON") from None
    except ValueError:
        raise SpecError(f"{name}: a number has too many digits") from None
    if not isinstance(tree, dict):
        raise SpecError(f"{name}: not a JSON object")
    return tree
