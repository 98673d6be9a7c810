"""Images before they are resized: headers, digests, decoding, data URLs. Work around the bytes, not on pixels."""

import base64
import io

from PIL import Image

from .common import parse, photo

FORMATS = ["JPEG", "PNG", "WEBP"]
FILES = ["640x480", "1920x1080"]


def encoded(size, format):
    file = io.BytesIO()
    photo(*parse(size)).save(file, format, **({"quality": 90} if format != "PNG" else {"compress_level": 1}))
    return file.getvalue()


class Inspect:
    """What a header says; ``time_pillow_open`` is the least that Pillow does for it."""

    params = (FILES, FORMATS)
    param_names = ("size", "format")

    def setup(self, size, format):
        import foveal

        self.inspect, self.data = foveal.inspect, encoded(size, format)

    def time_inspect(self, size, format):
        self.inspect(self.data)

    def time_pillow_open(self, size, format):
        Image.open(io.BytesIO(self.data))


class Decode:
    """One image to pixels on one thread, by the decoder of its format that Foveal takes."""

    params = (FILES, FORMATS)
    param_names = ("size", "format")

    def setup(self, size, format):
        from foveal.media.sources import open_source

        self.source, self.data = open_source(encoded(size, format)), encoded(size, format)

    def time_decode(self, size, format):
        self.source.decode()

    def time_pillow(self, size, format):
        Image.open(io.BytesIO(self.data)).load()


class DecodeJpeg:
    """JPEG to pixels by each of Foveal's decoders, to be read beside ``Decode.time_pillow``."""

    params = (FILES, ["pillow", "simplejpeg"])
    param_names = ("size", "decoder")

    def setup(self, size, decoder):
        from foveal.media import fast_jpeg
        from foveal.media.sources import open_source

        if decoder == "simplejpeg" and not fast_jpeg.is_available():
            raise NotImplementedError("simplejpeg is not installed, or does not agree with Pillow")
        self.module, self.is_available = fast_jpeg, fast_jpeg.is_available
        fast_jpeg.is_available = lambda: decoder == "simplejpeg"
        self.source = open_source(encoded(size, "JPEG"))

    def teardown(self, size, decoder):
        self.module.is_available = self.is_available

    def time_decode(self, size, decoder):
        self.source.decode()


class Digest:
    """BLAKE3 of a file's bytes, and of a Pillow image's visible ones."""

    params = (FILES,)
    param_names = ("size",)

    def setup(self, size):
        from foveal.media.digest import digest_bytes, digest_pillow

        self.data, self.image = bytes(64 << 20), photo(*parse(size))
        self.digest_bytes, self.digest_pillow = digest_bytes, digest_pillow

    def time_pillow_image(self, size):
        self.digest_pillow(self.image)

    def track_bytes(self, size):
        from time import perf_counter

        times = []
        for _ in range(5):
            start = perf_counter()
            self.digest_bytes(self.data)
            times.append(perf_counter() - start)
        return len(self.data) / min(times) / 1e9

    track_bytes.unit = "GB/s"


class DataUrl:
    """A request's URL to the bytes of the file; ``time_base64`` is the library's decoder alone."""

    params = (FILES,)
    param_names = ("size",)

    def setup(self, size):
        from foveal.media.data_url import decode_data_url

        self.decode = decode_data_url
        self.text = base64.b64encode(encoded(size, "JPEG")).decode()
        self.url = f"data:image/jpeg;base64,{self.text}"

    def time_data_url(self, size):
        self.decode(self.url, 128 << 20)

    def time_base64(self, size):
        base64.b64decode(self.text)
