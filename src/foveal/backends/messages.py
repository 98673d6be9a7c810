"""The protobuf messages of each backend, which are those of the package smg-grpc-proto; its only importer."""

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NamedTuple

from foveal.errors import OptionError

__all__ = ["BACKENDS", "Backend", "Messages", "common", "messages", "named_backend", "recognized"]

Backend = Literal["vllm", "sglang", "trtllm", "tokenspeed"]

_MODULES: dict[Backend, tuple[str, str]] = {
    "vllm": ("vllm_engine", "VllmEngine"),
    "sglang": ("sglang_scheduler", "SglangScheduler"),
    "trtllm": ("trtllm_service", "TrtllmService"),
    "tokenspeed": ("tokenspeed_scheduler", "TokenSpeedScheduler"),
}

BACKENDS: tuple[Backend, ...] = tuple(_MODULES)
"""Names of the engines that requests are made for."""


class Messages(NamedTuple):
    """The messages of one backend, and its service.

    Attributes
    ----------
    backend : str
    pb2 : module
        Message classes: ``pb2.GenerateRequest``.
    service : str
        Full name of the gRPC service: ``vllm.grpc.engine.VllmEngine``.
    """

    backend: Backend
    pb2: Any
    service: str

    def method(self, name: str) -> str:
        """Return the path of a method: ``/vllm.grpc.engine.VllmEngine/Generate``."""
        return f"/{self.service}/{name}"

    @property
    def grpc(self) -> Any:
        """The generated module of stubs and servicers; it imports grpc."""
        return _generated(f"{_MODULES[self.backend][0]}_pb2_grpc")

    @property
    def add_to_server(self) -> Callable[[object, object], None]:
        """What registers a servicer with a server."""
        register: Callable[[object, object], None] = getattr(
            self.grpc, f"add_{_MODULES[self.backend][1]}Servicer_to_server"
        )
        return register


@lru_cache
def messages(backend: str) -> Messages:
    """Return the messages of a backend.

    Raises
    ------
    OptionError
        If there is no such backend, or smg-grpc-proto is not installed.
    """
    name = named_backend(backend)
    module, service = _MODULES[name]
    pb2 = _generated(f"{module}_pb2")
    return Messages(name, pb2, pb2.DESCRIPTOR.services_by_name[service].full_name)


def named_backend(name: str) -> Backend:
    """Return a backend's name.

    Raises
    ------
    OptionError
        If there is no such backend.
    """
    for backend in BACKENDS:
        if name == backend:
            return backend
    raise OptionError(f"the backend must be one of {', '.join(BACKENDS)}")


def recognized(data: bytes) -> list[Backend]:
    """Return the backends of which some bytes can be a request: those that know all its fields.

    Requests without images may be of several.
    """
    return [backend for backend in BACKENDS if _is_known(messages(backend).pb2.GenerateRequest, data)]


def _is_known(kind: Any, data: bytes) -> bool:
    from google.protobuf.message import DecodeError

    try:
        message = kind.FromString(data)
    except DecodeError:
        return False
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() == size)


def common() -> Any:
    """Return the module of the messages that backends share: modalities, handles of shared memory."""
    return _generated("common_pb2")


def _generated(name: str) -> ModuleType:
    try:
        return import_module(f"smg_grpc_proto.generated.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("smg_grpc_proto", "google", "grpc"):
            raise
        raise OptionError("requests to engines need more packages: pip install 'foveal[grpc]'") from None
