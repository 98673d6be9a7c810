"""Tensors of a message as arrays: views of the bytes that hold them."""

import errno
import math
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from foveal.backends.messages import Backend
from foveal.backends.shm import DIRECTORY
from foveal.errors import OptionError, RequestError
from foveal.spec.values import show

__all__ = ["FLOATS", "Array", "Shm", "TensorReader", "as_torch", "dtype_of", "listed"]

Array = Any
"""A NumPy array, or a torch tensor."""

Shm = Literal["unlink", "keep", "refuse"]

FLOATS = ("float32", "bfloat16", "float16")
"""Of an encoder's normalized input."""

_DTYPES = {
    "float32": np.dtype("<f4"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype("<f2"),
    "uint8": np.dtype(np.uint8),
    "int64": np.dtype("<i8"),
    "uint32": np.dtype("<u4"),
}
"""Of vLLM and SGLang, by their names. Source: smg-grpc-servicer 0.14.1, tensor_wire.py."""

_MORE_DTYPES = {
    name: np.dtype(name).newbyteorder("<") for name in ("bool", "int8", "int16", "int32", "uint16", "uint64", "float64")
}
"""What TokenSpeed takes beside them: NumPy's own names. Source: smg-grpc-servicer 0.14.1, tokenspeed/servicer.py."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would wait for a writer
_DIMENSIONS = 32
"""At most; NumPy and torch have 64."""


class TensorReader(NamedTuple):
    """How the tensors of a request are read.

    Attributes
    ----------
    backend : str
    shm : {"unlink", "keep", "refuse"}
        Whether tensors are read from shared memory, and whether a segment is removed after it was read.
    torch_dtype : str, optional
        Of floating tensors, which then are torch's, as all others.
    """

    backend: Backend
    shm: Shm = "unlink"
    torch_dtype: str | None = None

    def read(self, tensor: Any, name: str, primary: bool = True) -> Array:
        """Return a tensor.

        Parameters
        ----------
        tensor : TensorData
        name : str
            Where it stands in the request, for messages.
        primary : bool
            Whether it is an encoder's input. TokenSpeed casts no other.

        Returns
        -------
        ndarray or torch.Tensor
            The array is read-only and owns no memory.

        Raises
        ------
        RequestError
        """
        dtype = self._dtype(tensor.dtype, name)
        if primary and self.backend == "tokenspeed" and tensor.HasField("shm") and tensor.dtype not in FLOATS:
            raise RequestError(f"{name} is {tensor.dtype} in shared memory, which must be {listed(FLOATS)}")
        shape = self._shape(tensor.shape, name, primary)
        payload = self._payload(tensor, name, f"{tensor.dtype} {list(shape)}", math.prod(shape) * dtype.itemsize)
        array = np.frombuffer(payload, dtype).reshape(shape)
        if self.torch_dtype is None:
            return array
        return as_torch(array, self.torch_dtype if primary or self.backend != "tokenspeed" else None)

    def _dtype(self, wanted: str, name: str) -> np.dtype[Any]:
        dtypes = _DTYPES | _MORE_DTYPES if self.backend == "tokenspeed" else _DTYPES
        if wanted not in dtypes:
            raise RequestError(f"{name} has the dtype {show(wanted)}; it must be {listed(dtypes)}")
        dtype: np.dtype[Any] = dtypes[wanted]
        return dtype

    def _shape(self, sizes: Any, name: str, primary: bool) -> tuple[int, ...]:
        if len(sizes) > _DIMENSIONS:
            raise RequestError(f"{name} has {len(sizes)} dimensions, more than {_DIMENSIONS}")
        shape = tuple(sizes)
        if not shape and (primary or self.backend != "tokenspeed"):
            raise RequestError(f"{name} has the shape []; one number must have the shape [1]")
        if 0 in shape:
            raise RequestError(f"{name} has the shape {list(shape)} and no elements; it must be left out")
        return shape

    def _payload(self, tensor: Any, name: str, what: str, size: int) -> bytes:
        kind = "data" if self.backend == "sglang" else tensor.WhichOneof("payload")
        if kind is None:
            raise RequestError(f"{name} has no bytes, neither inline nor in shared memory")
        if kind == "remote":
            raise RequestError(f"{name} is on another host, from where nothing is read; it must be inline")
        payload: bytes = self._shared(tensor.shm, name, what, size) if kind == "shm" else getattr(tensor, kind)
        if len(payload) != size:
            raise _length(name, len(payload), what, size)
        return payload

    def _shared(self, handle: Any, name: str, what: str, size: int) -> bytes:
        """Return the bytes of a segment of shared memory; it is removed once it was opened, whatever it holds.

        Notes
        -----
        Source: smg-grpc-servicer 0.14.1, mm_shm.py.
        """
        if self.shm == "refuse":
            raise RequestError(f"{name} is in shared memory, which is not read here; it must be inline")
        segment = handle.name.lstrip("/")
        if not segment or "/" in segment or segment in (".", "..") or "\0" in segment:
            raise RequestError(f"{name} names a segment of shared memory by something that is no file's name")
        path = f"{DIRECTORY}/{segment}"
        with _opened(path, name) as file:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise RequestError(f"{name} names a segment of shared memory that is no regular file")
            try:
                if handle.nbytes != size:
                    raise _length(name, handle.nbytes, what, size)
                if handle.offset + size > status.st_size:
                    raise RequestError(
                        f"{name} ends at byte {handle.offset + size} of a segment of shared memory that has "
                        f"{status.st_size}"
                    )
                return _pread(file, size, handle.offset)
            except (MemoryError, OverflowError):
                raise RequestError(f"{name} has {size} bytes in shared memory, more than can be read") from None
            finally:
                if self.shm == "unlink":
                    with suppress(OSError):  # it is gone, or its sender's alone to remove
                        os.unlink(path)


@contextmanager
def _opened(path: str, name: str) -> Iterator[int]:
    """Open a segment; an error does not show its path."""
    try:
        file = os.open(path, _OPEN)
    except OSError as error:
        if error.errno == errno.ELOOP:
            reason = "it is a symbolic link"
        elif error.errno == errno.ENOENT:
            reason = "it does not exist (one that was read is removed)"
        else:
            reason = (error.strerror or type(error).__name__).lower()
        raise RequestError(f"{name} names a segment of shared memory that cannot be opened: {reason}") from None
    try:
        yield file
    finally:
        os.close(file)


def _pread(file: int, size: int, offset: int) -> bytes:
    """Read all of it; the system returns at most 2 GiB at once."""
    parts = []
    while size:
        part = os.pread(file, size, offset)
        if not part:
            break
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _length(name: str, found: int, what: str, size: int) -> RequestError:
    return RequestError(f"{name} has {found} bytes, but {what} needs {size}")


def listed(names: Iterable[str]) -> str:
    """Return names of which one must be chosen."""
    *first, last = names
    return f"{', '.join(first)} or {last}"


# ---- torch


def dtype_of(torch_dtype: object) -> str:
    """Return the name of a floating dtype, of torch's or by name.

    Raises
    ------
    OptionError
        If it is none that encoders compute in, or torch is not installed.
    """
    name = str(torch_dtype).removeprefix("torch.")
    if name not in FLOATS:
        raise OptionError(f"torch_dtype must be {listed(FLOATS)}")
    _torch()
    return name


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise OptionError("torch tensors need the package torch: pip install torch") from None
    return torch


def as_torch(array: npt.NDArray[Any], dtype: str | None = None) -> Array:
    """Return a copy, with floats cast to ``dtype``; torch has no tensors that are read-only."""
    torch = _torch()
    copied = bytearray(array.reshape(-1).view(np.uint8).data)
    tensor = torch.frombuffer(copied, dtype=getattr(torch, array.dtype.name)).reshape(array.shape)
    return tensor.to(getattr(torch, dtype)) if dtype and tensor.is_floating_point() else tensor
