"""The reference: a model's own image processor in the installed transformers, as its processor calls it.

transformers and torch are imported when a reference is made.
"""

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt
from PIL import Image

from foveal.errors import OptionError
from foveal.spec import Checkpoint, Spec
from foveal.spec.resolve import ReferenceFields
from foveal.spec.values import FILTERS, channels, edge, one_line

__all__ = ["Answer", "Basis", "Reference", "make_reference", "require_packages"]

PACKAGES = ("torch", "torchvision", "transformers")
DROPPED = frozenset({"rows", "cols"})
"""What processors take out of an image processor's answer beside what they say they do."""

OF_THE_IMAGE_PROCESSOR = {"PixtralProcessor": ("patch_size",)}
"""Arguments of a processor that have the name and the value of a field of its image processor."""

PUBLISHED: dict[str, dict[str, Any]] = {"SmolVLMProcessor": {"image_seq_len": 64}}
"""Arguments of a processor that the published ``processor_config.json`` has and specs do not need."""


_CODE = re.compile(r"(\w+)\.\w+")
"""File and class of a checkpoint's own code; another repository's would have its name before."""


class Answer(NamedTuple):
    """What the reference makes of the images of a call.

    Attributes
    ----------
    tensors : dict
    unused : frozenset of str
        Tensors that the processor keeps from the model.
    tokens : list of int or None
        Feature tokens of each image; None where the reference does not say.
    """

    tensors: dict[str, npt.NDArray[Any]]
    unused: frozenset[str]
    tokens: list[int] | None


class Reference(Protocol):
    """What a certificate compares with.

    Attributes
    ----------
    name : str
    converts : bool
        Whether it is known that images of other modes become RGB.
    """

    name: str
    converts: bool

    def __call__(self, images: list[Image.Image]) -> Answer:
        """Answer a call, or raise whatever the reference raises."""
        ...


class Basis(NamedTuple):
    """What a reference is made from: a resolved spec, where its numbers come from, and how they were changed.

    Attributes
    ----------
    spec : Spec
    fields : ReferenceFields
    overrides : dict
    checkpoint : Checkpoint or None
    directory : Path or None
        Of the checkpoint.
    """

    spec: Spec
    fields: ReferenceFields
    overrides: Mapping[str, Any]
    checkpoint: Checkpoint | None
    directory: Path | None


def require_packages() -> None:
    """Refuse to go on without the packages of the reference.

    Raises
    ------
    OptionError
    """
    missing = [package for package in PACKAGES if not _is_installed(package)]
    if missing:
        raise OptionError(
            f"verify compares with the installed transformers and needs {', '.join(missing)}: "
            "install Foveal with its extra foveal[verify]"
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # what stands in its place was not imported
        return False


def make_reference(basis: Basis, trusted: bool) -> Reference:
    """Return the reference of a model: the class of transformers, or else the checkpoint's own code.

    Raises
    ------
    OptionError
        If there is no such class and no code, the code is not trusted, or the reference cannot be made.
    """
    with _quiet():
        import transformers

        name = _class_name(basis)
        cls = getattr(transformers, name, None)
        missing = f"{basis.spec.name}: transformers {transformers.__version__} has no "
        if cls is None:
            plain = name.removesuffix("Pil")
            shown = name if hasattr(transformers, plain) else plain
            return _own_code(basis, f"{missing}class {one_line(shown, 80)}", trusted)
        if not any(field in cls.valid_kwargs.__annotations__ for field in basis.fields.image_processor):
            # Such a model names a class of transformers, whose fields its own code never reads.
            return _own_code(basis, f"{missing}class that does what this model's own code does", trusted)
        with _making(f"transformers' {name}"):
            return _Transformers(basis, cls)


def _class_name(basis: Basis) -> str:
    """Return the class that the checkpoint names, or else the spec's first that knows every override."""
    import transformers

    named = basis.checkpoint.image_processor_type if basis.checkpoint else ""
    kinds = [named] if named else basis.spec.match.image_processor_type or ["image processor"]
    suffix = "" if basis.spec.reference == "torchvision" else "Pil"
    known = (
        kind for kind in kinds if all(hasattr(getattr(transformers, kind, None), name) for name in basis.overrides)
    )
    return f"{next(known, kinds[0])}{suffix}"


@contextmanager
def _making(what: str) -> Iterator[None]:
    """Turn what other code raises into one line."""
    try:
        yield
    except Exception as error:
        reason = one_line(" ".join(f"{type(error).__name__}: {error}".split()), 200)
        raise OptionError(f"{what} cannot be made here: {reason}") from error


class _Transformers:
    """A class of transformers, called by the model's processor, whose tokenizer is a stand-in."""

    def __init__(self, basis: Basis, cls: Any) -> None:
        self.feature = basis.spec.tokens.feature if basis.spec.tokens else None
        self.recorder = _Recorder(_image_processor(cls, basis))
        self.processor = _processor(basis, self.recorder, self.feature or "<image>")
        self.name = f"transformers.{cls.__name__}"
        if self.processor is not None:
            self.name += f", called by {type(self.processor).__name__}"
        self.converts = bool(getattr(self.recorder, "do_convert_rgb", False))
        self.overrides = {**self._told(basis), **reference_values(basis.overrides)}

    def _told(self, basis: Basis) -> dict[str, Any]:
        """Return the fields of which the processor would pass its own value, whatever the checkpoint says.

        Gemma-3 and SigLIP2 are such: Foveal follows the checkpoint, and so must what it is compared with.
        """
        if self.processor is None:
            return {}
        passed = self.processor._merge_kwargs(images_kwargs={})["images_kwargs"]
        fields = reference_values(basis.fields.image_processor)
        return {name: fields[name] for name in passed if name in fields}

    def __call__(self, images: list[Image.Image]) -> Answer:
        with _quiet(), _one_thread():
            return self._answer(images)

    def _answer(self, images: list[Image.Image]) -> Answer:
        if self.processor is None:
            return Answer(arrays(self.recorder(images, return_tensors="pt", **self.overrides)), DROPPED, None)
        options = self.processor._merge_kwargs(images_kwargs=dict(self.overrides))["images_kwargs"]
        self.recorder.answer = None
        texts: list[str] = []
        try:
            _, texts = self.processor._process_images(images, **{**options, "return_tensors": "pt"})
        except Exception:
            if self.recorder.answer is None:
                raise
            # What failed is the text for the stand-in tokenizer, not the images.
        unused = DROPPED | frozenset(self.processor.unused_input_names)
        counted = self.feature is not None and len(texts) == len(images)
        tokens = [text.count(str(self.feature)) for text in texts] if counted else None
        return Answer(arrays(self.recorder.answer), unused, tokens)


class _Recorder:
    """An image processor that keeps its last answer, which the processor around it reads but does not hand out."""

    def __init__(self, image_processor: Any) -> None:
        self._image_processor = image_processor
        self.answer: Any = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.answer = self._image_processor(*args, **options)
        return self.answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image_processor, name)


class _Tokenizer:
    """Stands in for a tokenizer: special tokens by the name of the attribute, but the token of the features as it is.

    A processor asks for tokens to write the text that takes an image's place, in which features are counted.
    """

    init_kwargs: Mapping[str, Any] = {}
    model_input_names = ("input_ids",)
    FEATURES = ("image_token", "context_image_token")

    def __init__(self, feature: str) -> None:
        self._feature = feature

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_token_id"):
            return 0
        if name.endswith("_token"):
            return self._feature if name in self.FEATURES else f"[{name}]"
        raise AttributeError(name)

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> Any:
        return 0 if isinstance(tokens, str) else [0] * len(tokens)

    def encode(self, text: str, **options: Any) -> list[int]:
        return [0]

    def add_special_tokens(self, tokens: Any) -> int:
        return 0


def _image_processor(cls: Any, basis: Basis) -> Any:
    """Return the image processor with the checkpoint's numbers, or the published ones."""
    if basis.directory is None:
        return cls(**reference_values(basis.fields.image_processor))
    given = {name: value for name, value in reference_values(basis.overrides).items() if value is not None}
    return cls.from_pretrained(str(basis.directory), local_files_only=True, **given)


def _processor(basis: Basis, image_processor: Any, feature: str) -> Any:
    """Return the processor of the model around an image processor; None where transformers has none."""
    cls = _processor_class(basis)
    if cls is None:
        return None
    parts = dict.fromkeys(cls.get_attributes())
    parts.update(image_processor=image_processor, tokenizer=_Tokenizer(feature))
    accepted = inspect.signature(cls.__init__).parameters
    fields = _processor_fields(basis, cls.__name__)
    fields = {name: value for name, value in fields.items() if name in accepted and name not in parts}
    # The stand-ins are of no class that the processor would take.
    unchecked = type(cls.__name__, (cls,), {"check_argument_for_proper_class": lambda *_: None})
    return unchecked(**parts, **fields)


def _processor_class(basis: Basis) -> Any:
    """Return the class that a checkpoint names, or else that of the spec's first model type that has one."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    checkpoint = basis.checkpoint
    named = (
        [tree.get("processor_class") for tree in (checkpoint.processor, checkpoint.preprocessor)] if checkpoint else []
    )
    known = [PROCESSOR_MAPPING_NAMES.get(kind) for kind in basis.spec.match.model_type]
    for name in filter(None, [*named, *known]):
        cls = getattr(transformers, name, None)
        if hasattr(cls, "_process_images"):
            return cls
    return None


def _processor_fields(basis: Basis, kind: str) -> dict[str, Any]:
    """Return the arguments of the processor: the published ones, the checkpoint's, overrides."""
    shared = OF_THE_IMAGE_PROCESSOR.get(kind, ())
    published = {name: value for name, value in basis.fields.image_processor.items() if name in shared}
    overrides = {name: value for name, value in basis.overrides.items() if name in shared}
    given = basis.checkpoint.processor if basis.checkpoint else {}
    if kind == "LlavaOnevisionProcessor":
        published["num_image_tokens"] = _features_of_a_tile(basis)
    layers = (PUBLISHED.get(kind, {}), published, basis.fields.processor, given, overrides)
    return {name: _one_side(value) for layer in layers for name, value in layer.items() if value is not None}


def _features_of_a_tile(basis: Basis) -> int | None:
    patch = getattr(basis.spec.tokens.features, "patch", None) if basis.spec.tokens else None
    return (edge(basis.fields.image_processor["size"]) // patch) ** 2 if patch else None


def _one_side(value: Any) -> Any:
    """Return the number of a field that a processor takes as one and an image processor as height and width."""
    return value["height"] if isinstance(value, dict) and set(value) == {"height", "width"} else value


def reference_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as transformers takes them, which knows no names of filters, means and standard deviations."""
    numbers = {name: number for number, name in FILTERS.items()}
    values = dict(fields)
    for name in ("image_mean", "image_std"):
        if values.get(name) is not None:
            values[name] = channels(values[name], name.removeprefix("image_"))
    if isinstance(values.get("resample"), str):
        values["resample"] = numbers.get(values["resample"], values["resample"])
    return values


# ---- checkpoints that bring their own code


class _OwnCode:
    """An image processor that a checkpoint publishes as code."""

    converts = False

    def __init__(self, directory: Path, file: str, overrides: Mapping[str, Any]) -> None:
        from transformers import AutoImageProcessor

        self.image_processor = AutoImageProcessor.from_pretrained(
            str(directory), trust_remote_code=True, local_files_only=True, **reference_values(overrides)
        )
        self.name = f"{type(self.image_processor).__name__} of the checkpoint's {file}"

    def __call__(self, images: list[Image.Image]) -> Answer:
        with _quiet(), _one_thread():
            return Answer(arrays(self.image_processor(images, return_tensors="pt")), frozenset(), None)


def _own_code(basis: Basis, missing: str, trusted: bool) -> Reference:
    """Return the checkpoint's own code; where that is not possible, say what is missing."""
    if basis.directory is None or basis.checkpoint is None:
        raise OptionError(f"{missing}: pass the directory of a checkpoint that holds the model's own code")
    file = _code_file(basis.checkpoint)
    if file is None:
        raise OptionError(f"{missing}, and the checkpoint names no image processor of its own (AutoImageProcessor)")
    if not (basis.directory / file).is_file():
        raise OptionError(f"{missing}, and the checkpoint does not hold {one_line(file)}, its own code")
    if not trusted:
        raise OptionError(f"{missing}: the checkpoint's own code is the reference; --trust-remote-code runs it")
    with _making(f"the image processor of the checkpoint's {one_line(file)}"):
        return _OwnCode(basis.directory, file, basis.overrides)


def _code_file(checkpoint: Checkpoint) -> str | None:
    """Return the file of a checkpoint's image processor; None where it has none, or names another repository's."""
    for tree in (checkpoint.preprocessor, checkpoint.config):
        names = tree.get("auto_map")
        name = names.get("AutoImageProcessor") if isinstance(names, dict) else None
        if name is not None:
            match = _CODE.fullmatch(name) if isinstance(name, str) else None
            return f"{match[1]}.py" if match else None
    return None


# ---- what comes back


def arrays(tensors: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return an answer's tensors, and lists of tensors or numbers, as arrays."""
    return {name: _array(value) for name, value in tensors.items()}


def _array(value: Any) -> npt.NDArray[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        if value.dtype == torch.bfloat16:
            return np.asarray(value.view(torch.uint16)).view(ml_dtypes.bfloat16)
        return np.asarray(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor | np.ndarray):
        return np.stack([_array(each) for each in value])
    if isinstance(value, list | tuple):
        return np.asarray(_rectangular(value))
    return np.asarray(value)


def _rectangular(rows: Sequence[Any]) -> Sequence[Any]:
    """Fill lists of unequal lengths up with zeros, as Foveal does to make a tensor of them."""
    if not rows or not isinstance(rows[0], list | tuple):
        return rows
    return [list(row) for row in zip(*zip_longest(*rows, fillvalue=0), strict=True)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what other packages warn of to themselves."""
    with warnings.catch_warnings(action="ignore"):
        from transformers.utils import logging

        level = logging.get_verbosity()
        logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: how it rounds a float32 resize depends on the number of threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
