"""Requests over gRPC: a client, what receivers make of a request, and a worker that receives them without a model."""

from importlib import import_module
from typing import Any

__all__ = ["AsyncClient", "Client", "Finished", "Tokens", "Worker", "check", "decode", "describe", "problems"]

_MODULES = {
    "AsyncClient": "client",
    "Client": "client",
    "Finished": "client",
    "Tokens": "client",
    "Worker": "worker",
    "check": "checking",
    "decode": "decoding",
    "describe": "description",
    "problems": "checking",
}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is asked for: reading a request does not need grpcio."""
    if name in _MODULES:
        return getattr(import_module(f"foveal.grpc.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'foveal.grpc' has no attribute {name!r}")
