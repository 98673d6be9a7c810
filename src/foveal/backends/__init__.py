"""Requests as each engine's gRPC server takes them: what it needs, where it needs it, and nothing else."""

import uuid
from collections.abc import Mapping
from typing import Any, Literal

from foveal.backends.messages import BACKENDS, Backend, named_backend
from foveal.backends.request import Options, Request
from foveal.backends.server import ServerInfo
from foveal.backends.sglang import assemble_sglang
from foveal.backends.shm import namespace_id
from foveal.backends.tokenspeed import assemble_tokenspeed
from foveal.backends.trtllm import assemble_trtllm
from foveal.backends.vllm import assemble_vllm
from foveal.errors import OptionError, RequestError
from foveal.intermediate import Intermediate
from foveal.timings import timed

__all__ = ["BACKENDS", "Backend", "Request", "ServerInfo", "assemble"]

ASSEMBLE = {
    "vllm": assemble_vllm,
    "sglang": assemble_sglang,
    "trtllm": assemble_trtllm,
    "tokenspeed": assemble_tokenspeed,
}
REQUEST_ID_LENGTH = 256


def assemble(
    intermediate: Intermediate,
    backend: str,
    server_info: ServerInfo | None = None,
    *,
    request_id: str | None = None,
    sampling: Mapping[str, Any] | None = None,
    stream: bool = True,
    transport: Literal["inline", "shm"] = "inline",
    threads: int | None = None,
) -> Request:
    """Return the request that a backend needs. Only now images are decoded, where it needs pixels at all.

    Images that the cache of `Preprocessor.process` holds are copied from there.

    Parameters
    ----------
    intermediate : Intermediate
        From `Preprocessor.process`.
    backend : {"vllm", "sglang", "trtllm", "tokenspeed"}
    server_info : ServerInfo, optional
        What the worker says of itself; by default what every worker takes.
    request_id : str, optional
        A random one by default.
    sampling : mapping, optional
        ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``stop``, ``seed``, and so on.
    stream : bool
        Whether tokens are sent as they come.
    transport : {"inline", "shm"}
        Where pixels lie: in the request, or in shared memory, which vLLM and TokenSpeed read on the same host.
    threads : int, optional
        Threads to use at most; all that are available by default.

    Returns
    -------
    Request

    Raises
    ------
    RequestError
        If the backend cannot take the request; the text says why.
    ImageSizeError
        If the images become different sizes, where the backend has one tensor for all.
    MediaError
        If an image cannot be decoded; the text starts with its index.
    OptionError
        If an argument is wrong, or smg-grpc-proto is not installed.
    """
    name = named_backend(backend)
    info = ServerInfo() if server_info is None else server_info
    if not isinstance(info, ServerInfo):
        raise OptionError("server_info must be a ServerInfo")
    if not isinstance(stream, bool):
        raise OptionError("stream must be true or false")
    if not isinstance(sampling, Mapping | None):
        raise OptionError("sampling must be a mapping of names to values")
    if transport not in ("inline", "shm"):
        raise OptionError("transport must be 'inline' or 'shm'")
    if transport == "shm" and info.shm_namespace != (namespace_id() or None):
        raise RequestError("the worker does not say that it shares this host's memory: send inline")
    if info.images is not None and len(intermediate.items) > info.images:
        raise RequestError(f"there are {len(intermediate.items)} images, more than the worker's limit of {info.images}")
    identifier = uuid.uuid4().hex if request_id is None else request_id
    if not isinstance(identifier, str) or not 0 < len(identifier.encode(errors="replace")) <= REQUEST_ID_LENGTH:
        raise OptionError(f"request_id must be a text of 1 to {REQUEST_ID_LENGTH} bytes in UTF-8")
    if identifier.encode(errors="replace") != identifier.encode(errors="surrogatepass"):
        raise OptionError("request_id must be valid Unicode")
    options = Options(identifier, sampling, stream, transport == "shm", threads, info)
    with timed(f"assemble {name}", len(intermediate.items)):
        return ASSEMBLE[name](intermediate, options)
