"""Print the CPU seconds of one request: a data URL to the bytes that are handed to gRPC.

    python asv_benchmarks/request_cpu.py IMAGE N --model DIRECTORY [--backend vllm] [--dtype bf16] [--keep-allocator]

What a gateway does for a chat request with one image: base64, header, plan, hash, prompt, decoding, pixels, message.
Nothing is kept from one request to the next; the allocator is tuned as in a server. The last line is a number.
"""

import argparse
import base64
import os
import sys
from pathlib import Path
from time import process_time

import foveal
from foveal.chat import tokenizer
from foveal.tokens import anchored

DTYPES = {"bf16": "bfloat16", "f32": "float32", "uint8": "float32", "none": "float32"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", type=Path)
    parser.add_argument("n", type=int)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="vllm")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--keep-allocator", action="store_true", help="leave the allocator as it is")
    arguments = parser.parse_args()

    if not arguments.keep_allocator and not foveal.tune_allocator():
        print("the allocator could not be tuned", file=sys.stderr)
    preprocess = foveal.Preprocessor.from_pretrained(arguments.model)
    encode = tokenizer(arguments.model).encode
    tokens = preprocess.spec.tokens
    prompt = f"What is in {tokens.placeholder.format(number=1)} ?"
    info = foveal.ServerInfo(encoder_dtype=DTYPES[arguments.dtype], device_normalize=arguments.dtype == "uint8")
    kind = "png" if arguments.image.suffix == ".png" else "jpeg"
    url = f"data:image/{kind};base64,{base64.b64encode(arguments.image.read_bytes()).decode()}"
    content = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": url}}]

    def request() -> bytes:
        ready = preprocess.process(encode(anchored(tokens, prompt, 1)), content, encode=encode)
        return foveal.assemble(ready, arguments.backend, info, threads=arguments.threads).serialized

    for _ in range(3):
        size = len(request())
    begin = process_time()
    for _ in range(arguments.n):
        request()
    print(f"{size} bytes, {len(os.sched_getaffinity(0))} CPUs", file=sys.stderr)
    print((process_time() - begin) / arguments.n)
    return 0


if __name__ == "__main__":
    sys.exit(main())
