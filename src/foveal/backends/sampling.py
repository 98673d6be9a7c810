"""How the next token is chosen, by the names that OpenAI's API and vLLM share, as each backend's own message."""

import math
from collections.abc import Mapping
from typing import Any

from foveal.backends.messages import Backend, Messages
from foveal.errors import RequestError

__all__ = ["set_sampling"]

_EVERYWHERE = ("min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "top_p", "top_k", "temperature")

_FIELDS: dict[Backend, dict[str, str]] = {
    "vllm": {
        **{name: name for name in (*_EVERYWHERE, "max_tokens", "min_tokens", "stop", "stop_token_ids", "seed", "n")},
        **{name: name for name in ("ignore_eos", "skip_special_tokens", "logprobs", "json_schema", "regex")},
    },
    "sglang": {
        **{name: name for name in (*_EVERYWHERE, "stop", "stop_token_ids", "n", "ignore_eos", "skip_special_tokens")},
        **{"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens"},
        **{name: name for name in ("json_schema", "regex")},
    },
    "tokenspeed": {
        **{name: name for name in (*_EVERYWHERE, "stop", "stop_token_ids", "n", "ignore_eos", "skip_special_tokens")},
        **{"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens", "seed": "sampling_seed"},
        **{name: name for name in ("json_schema", "regex")},
    },
    "trtllm": {
        **{name: name for name in _EVERYWHERE},
        **{"min_tokens": "min_tokens", "seed": "seed", "n": "num_return_sequences"},
    },
}
"""The field of the sampling message that each name is."""

_OTHER_NAMES = {"max_completion_tokens": "max_tokens"}
"""OpenAI's newer names."""

_BESIDE = ("max_tokens", "stop", "stop_token_ids", "ignore_eos")
"""Fields that TensorRT-LLM has in the request itself."""

TRTLLM_MAX_TOKENS = 32
"""TensorRT-LLM's own default, which its server does not put in the place of nothing."""


def set_sampling(messages: Messages, request: Any, sampling: Mapping[str, Any] | None) -> None:
    """Write sampling parameters into a GenerateRequest.

    Parameters
    ----------
    messages : Messages
    request : GenerateRequest
        Of the backend.
    sampling : mapping, optional
        ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``stop``, and so on. What is not given is the backend's
        own default, as is None; temperature is 1 everywhere.

    Raises
    ------
    RequestError
        If the backend has no such parameter, or it has a wrong type.
    """
    given = {_OTHER_NAMES.get(name, name): value for name, value in (sampling or {}).items() if value is not None}
    values = {"temperature": 1.0, **given}
    trtllm = messages.backend == "trtllm"
    if trtllm:
        values = {"max_tokens": TRTLLM_MAX_TOKENS, **values}
    target = request.sampling_config if trtllm else request.sampling_params
    fields = _FIELDS[messages.backend]
    constraints = [name for name in ("json_schema", "regex") if name in values]
    if len(constraints) > 1:
        raise RequestError(f"sampling: {' and '.join(constraints)} exclude each other")
    for name, value in values.items():
        if trtllm and name in _BESIDE:
            _set(request, name, name, value)
        elif name in fields:
            _set(target, fields[name], name, value)
        else:
            known = ", ".join(sorted({*fields, *(_BESIDE if trtllm else ())}))
            raise RequestError(f"sampling: {messages.backend} has no {str(name)[:40]!r} (known: {known})")


def _set(message: Any, field: str, name: str, value: Any) -> None:
    try:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError
        if isinstance(value, list | tuple):
            getattr(message, field).extend(value)
        elif name == "stop" and isinstance(value, str):
            getattr(message, field).append(value)
        else:
            setattr(message, field, value)
    except (TypeError, ValueError, AttributeError):
        raise RequestError(f"sampling: {name} has a value of a wrong type or range") from None
