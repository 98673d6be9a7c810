"""What a worker says of itself, as far as it changes what is sent to it."""

import re
from typing import Any, Self

import msgspec

from foveal.backends.messages import named_backend
from foveal.errors import OptionError

__all__ = ["ServerInfo"]

ENCODER_DTYPES = ("float32", "bfloat16", "float16")
_IMAGES = re.compile(r"(?:^|,)image=([1-9][0-9]{0,8})(?:,|$)")


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself, as far as it changes what is sent to it.

    The defaults are what every worker takes.

    Attributes
    ----------
    encoder_dtype : str
        Of normalized pixels: float32, bfloat16 or float16, that in which the worker's encoder computes.
    device_normalize : bool
        Whether the worker normalizes pixels itself, and so takes bytes.
    shm_namespace : str
        What its shared memory is, see `foveal.backends.shm.namespace_id`; empty where it reads none.
    images : int, optional
        Most images of a request.
    architectures : tuple of str
        Names of the model's classes.
    model_type : str
    """

    encoder_dtype: str = "float32"
    device_normalize: bool = False
    shm_namespace: str = ""
    images: int | None = None
    architectures: tuple[str, ...] = ()
    model_type: str = ""

    def __post_init__(self) -> None:
        """Check the values, as msgspec does only where it decodes."""
        if self.encoder_dtype not in ENCODER_DTYPES:
            raise OptionError(f"ServerInfo.encoder_dtype must be one of {', '.join(ENCODER_DTYPES)}")
        if not isinstance(self.device_normalize, bool):
            raise OptionError("ServerInfo.device_normalize must be true or false")
        if self.images is not None and (not isinstance(self.images, int) or self.images < 1):
            raise OptionError("ServerInfo.images must be a whole number of at least 1, or None")
        if not isinstance(self.shm_namespace, str) or not isinstance(self.model_type, str):
            raise OptionError("ServerInfo.shm_namespace and model_type must be texts")
        if not isinstance(self.architectures, tuple) or not all(isinstance(name, str) for name in self.architectures):
            raise OptionError("ServerInfo.architectures must be a tuple of texts")

    @classmethod
    def from_messages(cls, backend: str, server: Any = None, model: Any = None) -> Self:
        """Return what the answers to ``GetServerInfo`` and ``GetModelInfo`` say.

        A dtype that is none of those above is left out: receivers cast what they get.

        Parameters
        ----------
        backend : str
        server, model : GetServerInfoResponse, GetModelInfoResponse, optional
            Those of the backend.

        Notes
        -----
        Source: smg-grpc-servicer 0.14.1, vllm/model_info.py, tokenspeed/servicer.py, sglang/servicer.py. SGLang casts
        nothing but in the model, and says no dtype: it gets float32.
        """
        name = named_backend(backend)
        arguments = _arguments(server)
        dtype = _text(model if name == "tokenspeed" else server, "multimodal_encoder_dtype").removeprefix("torch.")
        limits = _IMAGES.search(_text(server, "mm_item_limits") or arguments.get("mm_item_limits", ""))
        return cls(
            encoder_dtype=dtype if dtype in ENCODER_DTYPES else "float32",
            device_normalize=bool(getattr(server, "mm_device_do_normalize", False)),
            shm_namespace=_text(server, "shm_namespace_id") or arguments.get("shm_namespace_id", ""),
            images=int(limits[1]) if limits else None,
            architectures=tuple(getattr(model, "architectures", ())),
            model_type=_text(model, "model_type"),
        )


def _text(message: Any, field: str) -> str:
    return str(getattr(message, field, "") or "")


def _arguments(server: Any) -> dict[str, str]:
    """Return the texts among the arguments and facts that SGLang and TokenSpeed answer with."""
    found = {}
    for field in ("server_args", "scheduler_info"):
        struct = getattr(server, field, None)
        for key, value in struct.fields.items() if struct is not None else ():
            if value.WhichOneof("kind") == "string_value":
                found[key] = value.string_value
    return found
