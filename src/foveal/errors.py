"""The errors that Foveal raises: one family, each also the builtin that fits.

Whatever bad input causes is a ``ValueError`` (a server answers 400); a model that nobody knows is a ``LookupError``.
A message is one line and names the item, the value, the limit and the rule. It never holds a payload, a repr, the
directories of a path or an address inside the network. Every kind can be made from its text alone.
"""

__all__ = [
    "CorruptImage",
    "FetchFailed",
    "FovealError",
    "HostNotAllowed",
    "ImageSizeError",
    "MediaError",
    "MediaTooLarge",
    "OptionError",
    "OutputError",
    "PlaceholderError",
    "RequestError",
    "SpecError",
    "TargetError",
    "UnknownModelError",
    "UnsupportedFormat",
    "WorkerError",
    "WorkerTimeout",
]


class FovealError(Exception):
    """Base of every error raised on purpose."""


class SpecError(FovealError, ValueError):
    """A spec, or a checkpoint's configuration, that cannot be resolved to numbers."""


class UnknownModelError(FovealError, LookupError):
    """No spec, or more than one, fits the model that was named."""


class OptionError(FovealError, ValueError):
    """An override or argument that is unknown, has a wrong value, or cannot be honoured."""


class MediaError(FovealError, ValueError):
    """An image that cannot be read, or is of a kind that is not accepted."""


class MediaTooLarge(MediaError):
    """An image, or the images of a request together, above a limit of `foveal.Limits`."""


class UnsupportedFormat(MediaError):
    """Bytes of a format that is not read, or not here: not allowed, or its decoder is not installed."""


class CorruptImage(MediaError):
    """An encoded image that is truncated or damaged, or is not what its header says."""


class FetchFailed(MediaError):
    """A URL that gave no image: refused, unreachable, too slow, or not found."""


class HostNotAllowed(MediaError):
    """A URL whose scheme, host, address or directory the settings do not allow."""


class ImageSizeError(MediaError):
    """An image whose height and width a model's rule, or the limit of the aspect ratio, refuses."""


class OutputError(FovealError, ValueError):
    """An ``out`` array of wrong shape, dtype or memory order."""


class PlaceholderError(FovealError, ValueError):
    """A prompt whose placeholders do not fit the images, or whose ids cannot be known."""


class RequestError(FovealError, ValueError):
    """A request that a backend cannot take as it is, or bytes that are no such request."""


class WorkerError(FovealError, ConnectionError):
    """A worker that cannot be reached, is gone, or failed; a server answers 502, not 400."""


class WorkerTimeout(WorkerError, TimeoutError):
    """A request that was not complete in time; a server answers 504."""


class TargetError(FovealError, ValueError):
    """An instruction level that does not exist or that this CPU cannot run."""
