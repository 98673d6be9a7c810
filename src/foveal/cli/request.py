"""``foveal request``, and what ``foveal send`` shares with it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foveal.cli.common import (
    Json,
    Model,
    Policy,
    Reference,
    Settings,
    bytes_text,
    load_model,
    naming_images,
    print_json,
    shown,
    writing,
)
from foveal.cli.worker import print_request
from foveal.errors import OptionError

if TYPE_CHECKING:
    from foveal.intermediate import Intermediate
    from foveal.preprocessor import Preprocessor
    from foveal.spec.tokens import Tokens

__all__ = ["Backend", "Ids", "MaxTokens", "Prompt", "prepared", "request"]

IMAGE = "IMAGE"
"""Stands for the model's placeholder among token ids."""

Backend = Annotated[str, typer.Argument(help="vllm, sglang, trtllm or tokenspeed.", metavar="BACKEND")]
Images = Annotated[list[str] | None, typer.Argument(help="Image files, or URLs.", metavar="IMAGE")]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        help="The prompt as the model's chat template writes it, with its placeholder for each image. MODEL is then "
        "the directory of a checkpoint that has a tokenizer.json.",
        metavar="TEXT",
    ),
]
Ids = Annotated[
    str | None,
    typer.Option(
        "--input-ids",
        help="The prompt's token ids, where the word IMAGE stands for the model's placeholder: 1,2,IMAGE,3.",
        metavar="IDS",
    ),
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", help="Tokens to generate at most; the engine's own default.", metavar="N")
]


def request(
    backend: Backend,
    model: Model,
    images: Images = None,
    prompt: Prompt = None,
    input_ids: Ids = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write the request to.", metavar="FILE")
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            help="Of the worker's encoder: float32, bfloat16 or float16; float32 by default.",
            metavar="DTYPE",
        ),
    ] = "float32",
    device_normalize: Annotated[
        bool, typer.Option("--device-normalize", help="The worker normalizes pixels itself and takes bytes.")
    ] = False,
    max_tokens: MaxTokens = None,
    reference: Reference = None,
    settings: Settings = None,
    policy: Policy = None,
    json: Json = False,
) -> None:
    """Assemble the request that an engine's gRPC server takes, and show what is in it.

    The file holds the bytes that go on the wire: a GenerateRequest of the backend.
    """
    from foveal.backends import ServerInfo, assemble
    from foveal.backends.server import ENCODER_DTYPES
    from foveal.grpc.decoding import decode
    from foveal.grpc.description import describe

    if dtype not in ENCODER_DTYPES:
        raise OptionError(f"--dtype {shown(dtype)}: expected one of {', '.join(ENCODER_DTYPES)}")
    if output is not None and not os.path.isdir(output.parent):
        raise OptionError(f"{shown(output.parent)}: no such directory")
    given = images or []
    with naming_images(given):
        ready = prepared(load_model(model, reference, settings, policy), model, given, prompt, input_ids)
        info = ServerInfo(encoder_dtype=dtype, device_normalize=device_normalize)
        sampling = {} if max_tokens is None else {"max_tokens": max_tokens}
        made = assemble(ready, backend, info, sampling=sampling)
    described = describe(decode(made.serialized, backend=backend, shm="keep"))
    if output is not None:
        with writing(output):
            output.write_bytes(made.serialized)
    if json:
        print_json({**described, "bytes": len(made.serialized), "output": None if output is None else str(output)})
        return
    print_request(described)
    typer.echo(f"\n{backend}: {bytes_text(len(made.serialized))}")
    typer.echo("not written: no --output" if output is None else f"written: {output}")


def prepared(
    preprocessor: "Preprocessor", model: str, images: Sequence[str], prompt: str | None, input_ids: str | None
) -> "Intermediate":
    """Return a prompt and its images, ready for any backend."""
    if (prompt is None) == (input_ids is None):
        raise OptionError("give either --prompt or --input-ids")
    tokens = preprocessor.spec.tokens
    if tokens is None:
        raise OptionError(f"{preprocessor.name} does not say what an image becomes in a prompt")
    encode: Any = None
    if os.path.isdir(model) and os.path.exists(os.path.join(model, "tokenizer.json")):
        from foveal.chat import tokenizer

        encode = tokenizer(model).encode
    if input_ids is not None:
        return preprocessor.process(_ids(input_ids, tokens, encode), list(images), encode=encode)
    if encode is None:
        raise OptionError("--prompt needs the directory of a checkpoint with a tokenizer.json; or give --input-ids")
    from foveal.tokens import anchored

    return preprocessor.process(encode(anchored(tokens, prompt or "", len(images))), list(images), encode=encode)


def _ids(text: str, tokens: "Tokens", encode: Any) -> list[int]:
    """Return ids from a text as ``1,2,IMAGE,3``."""
    from foveal.tokens import token_id

    words = text.replace(",", " ").split()
    wrong = next((word for word in words if word != IMAGE and not (word.isascii() and word.isdigit())), None)
    if wrong is not None:
        raise OptionError(f"--input-ids: {shown(wrong)} is neither a number nor {IMAGE}")
    anchor = tokens.anchor or tokens.placeholder
    return [token_id(tokens, anchor, encode) if word == IMAGE else int(word) for word in words]
