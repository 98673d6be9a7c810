"""The parity certificate: both sides run on the same images, and everything that differs."""

import os
from collections.abc import Callable, Iterable
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from PIL import Image

from foveal.errors import FovealError, MediaError, OptionError
from foveal.plan.plan import BatchPlan
from foveal.preprocessor import Features, Preprocessor
from foveal.spec import load, match, names, plain_layer, read_checkpoint
from foveal.spec.resolve import reference_fields
from foveal.spec.tokens import Uncounted
from foveal.spec.values import one_line
from foveal.verification import images as media
from foveal.verification.compare import compare_tensors, pixel_channels
from foveal.verification.reference import Answer, Basis, Reference, make_reference, require_packages
from foveal.verification.report import ImageReport, Outcome, Report, TensorReport

__all__ = ["certify", "verify"]

DECODE = "PIL object"
PACKAGES = ("python", "foveal", "numpy", "numba", "pillow", "torch", "torchvision", "transformers")
RGB_ALONE = "the built-in images are RGB alone: the reference does not say that it converts other modes"
TOGETHER, TOGETHER_PIXELS = 3, 4_000_000
"""Images of the batch at most, and pixels of each."""


def verify(
    model: str | os.PathLike[str],
    images: object = None,
    reference: str | None = None,
    *,
    trust_remote_code: bool = False,
    progress: Callable[[str], object] | None = None,
    **overrides: Any,
) -> Report:
    """Run Foveal and the installed transformers on the same images, and report what differs.

    Needs the extra ``foveal[verify]``. Nothing is downloaded.

    Parameters
    ----------
    model : str or path
        A spec's name, a YAML file or the directory of a checkpoint.
    images : path, PIL.Image.Image, or list of them, optional
        Files, folders of files, and Pillow images; a small set that is drawn by default.
    reference : str, optional
        ``torchvision``, ``pillow`` or ``pillow<13``; the spec's own default if not given. ``pillow`` becomes
        ``pillow<13`` where the installed Pillow is older than 13.
    trust_remote_code : bool
        Whether code in the checkpoint's directory may be run, for models that transformers has no class for.
    progress : callable, optional
        Called with the name of the image that is compared next.
    **overrides
        Fields of the model's image processor, given to both sides.

    Returns
    -------
    Report
        ``equal`` says it in one word; ``to_dict`` gives plain values.

    Raises
    ------
    OptionError
        If a package is missing, there is nothing to compare with, or an option cannot be honoured.
    UnknownModelError, SpecError
        If the model cannot be resolved.
    MediaError
        If a path does not exist.
    """
    subjects = None if images is None else media.given(images)
    require_packages()
    opened = _open(model, reference, overrides)
    beside = make_reference(opened.basis, trust_remote_code)
    if subjects is None:
        subjects = media.drawn(beside.converts)
        opened.notes.extend([] if beside.converts else [RGB_ALONE])
    found, batch = certify(opened.preprocessor, beside, subjects, progress)
    from foveal.run.environment import info

    machine = info()
    every = found if batch is None else [*found, batch]
    return Report(
        equal=all(report.outcome in ("equal", "both_refuse") for report in every),
        model=one_line(str(model)),
        spec=opened.preprocessor.name,
        checkpoint=None if opened.basis.directory is None else str(opened.basis.directory),
        overrides=dict(opened.basis.overrides),
        reference=opened.preprocessor.reference,
        compared_with=beside.name,
        decode=DECODE,
        level=machine["level"],
        versions={package: machine["versions"][package] for package in PACKAGES},
        notes=tuple(opened.notes),
        images=tuple(found),
        batch=batch,
    )


class _Opened(NamedTuple):
    preprocessor: Preprocessor
    basis: Basis
    notes: list[str]


def _open(model: str | os.PathLike[str], reference: str | None, overrides: dict[str, Any]) -> _Opened:
    """Return both sides' idea of a model: Foveal's preprocessor, and what its reference is made from."""
    is_directory = str(model) not in names() and os.path.isdir(model)
    checkpoint = read_checkpoint(model) if is_directory else None
    raw = load(match(checkpoint) if checkpoint else model)
    layer = plain_layer(overrides)
    preprocessor = Preprocessor(raw, checkpoint, reference, (layer,))
    installed = version("pillow")
    notes = []
    if preprocessor.reference == "pillow" and _major(installed) < 13:
        preprocessor = Preprocessor(raw, checkpoint, "pillow<13", (layer,))
        notes.append(f"compared with pillow<13: Pillow {installed} always begins with the horizontal pass")
    elif preprocessor.reference == "pillow<13" and _major(installed) >= 13:
        raise OptionError(f"reference pillow<13: the installed Pillow is {installed}, which resizes in another order")
    fields = reference_fields(raw, checkpoint, (layer,), preprocessor.reference)
    directory = Path(model).resolve() if is_directory else None
    return _Opened(preprocessor, Basis(preprocessor.spec, fields, layer, checkpoint, directory), notes)


def _major(text: str) -> int:
    return int(text.partition(".")[0])


def certify(
    preprocessor: Preprocessor,
    reference: Reference,
    subjects: Iterable[media.Subject],
    progress: Callable[[str], object] | None = None,
) -> tuple[list[ImageReport], ImageReport | None]:
    """Compare a preprocessor with a reference: each image alone, then some of them in one call."""
    reports: list[ImageReport] = []
    together: list[Image.Image] = []
    for subject in subjects:
        if progress:
            progress(subject.name)
        try:
            image = subject.load()
        except MediaError as error:
            reports.append(ImageReport(subject.name, None, None, None, "unreadable", refusal=str(error)))
            continue
        report = _compared(preprocessor, reference, [image], subject.name)
        reports.append(report)
        if report.tensors and len(together) < TOGETHER and prod(image.size) <= TOGETHER_PIXELS:
            together.append(image)
    if len(together) < 2:
        return reports, None
    return reports, _compared(preprocessor, reference, together, f"{len(together)} together")


def _compared(preprocessor: Preprocessor, reference: Reference, images: list[Image.Image], name: str) -> ImageReport:
    """Compare the answers of one call; an error of either side is an answer."""
    features, refusal, crash = _foveal(preprocessor, images)
    answer, reference_refusal = _theirs(reference, images)
    single = images[0] if len(images) == 1 else None
    report = ImageReport(
        name,
        single.height if single else None,
        single.width if single else None,
        single.mode if single else None,
        "both_refuse" if features is None and answer is None and not crash else "different",
        refusal=refusal,
        reference_refusal=reference_refusal,
    )
    if features is None or answer is None:
        return report
    return _filled(report, preprocessor, features, answer)


def _foveal(preprocessor: Preprocessor, images: list[Image.Image]) -> tuple[Features | None, str | None, bool]:
    """Return what Foveal answers, or its refusal, and whether that was none of its own errors."""
    try:
        return preprocessor(list(images)), None, False
    except FovealError as error:
        return None, _line(error), False
    except Exception as error:
        return None, f"unexpected {_line(error)}", True


def _theirs(reference: Reference, images: list[Image.Image]) -> tuple[Answer | None, str | None]:
    try:
        return reference(list(images)), None
    except Exception as error:
        return None, _line(error)


def _line(error: Exception) -> str:
    return one_line(" ".join(f"{type(error).__name__}: {error}".split()), 200)


def _filled(report: ImageReport, preprocessor: Preprocessor, features: Features, answer: Answer) -> ImageReport:
    """Return a report with what the tensors and tokens of both sides say."""
    batch = features.batch
    theirs = {name: array for name, array in answer.tensors.items() if name in features or name not in answer.unused}
    primary = features[batch.primary]
    steps = pixel_channels(batch.plans[0].views[0], primary.shape, preprocessor.normalization, str(primary.dtype))
    tensors = compare_tensors(features, theirs, batch.primary, steps)
    grids = [tensor.equal for tensor in tensors if tensor.name != batch.primary]
    tokens = _tokens(preprocessor, batch)
    tokens_equal = None if tokens is None or answer.tokens is None else tokens == answer.tokens
    differing = [tensor.differing for tensor in tensors]
    pixels = tensors[0]
    outcome: Outcome = "equal"
    if not all(tensor.equal for tensor in tensors) or tokens_equal is False:
        outcome = "different"
    return msgspec.structs.replace(
        report,
        outcome=outcome,
        grids_equal=all(grids) if grids else None,
        tensors_alike=all(tensor.alike for tensor in tensors),
        tokens=None if tokens is None else sum(tokens),
        reference_tokens=None if tokens is None or answer.tokens is None else sum(answer.tokens),
        tokens_equal=tokens_equal,
        values=sum(_values(tensor) for tensor in tensors),
        differing=None if None in differing else sum(filter(None, differing)),
        levels=pixels.levels,
        tensors=tensors,
    )


def _tokens(preprocessor: Preprocessor, batch: BatchPlan) -> list[int] | None:
    """Return the feature tokens of each image; None where none stands in a prompt."""
    tokens = preprocessor.spec.tokens
    if tokens is None or isinstance(tokens.features, Uncounted):
        return None
    return [plan.features for plan in batch.plans]


def _values(tensor: TensorReport) -> int:
    return 0 if tensor.differing is None or tensor.shape is None else prod(tensor.shape)
