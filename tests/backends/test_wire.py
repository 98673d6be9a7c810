import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from smg_grpc_proto.generated import tokenspeed_scheduler_pb2, vllm_engine_pb2

from foveal.backends import wire
from foveal.backends.wire import Level, Payload, copied, little_endian, nested, serialize
from foveal.errors import RequestError
from foveal.types import DTYPES

TOP, PIXELS, INLINE = 7, 2, 1


def address(array):
    return array.__array_interface__["data"][0]


def request_of(array, small=b"", request_id="r", before=b""):
    """Return a request for vLLM whose pixels are an array's, and where they were written."""
    seen = []

    def fill(out):
        seen.append((address(out) % 64, out.size, out.flags.writeable))
        copied(array)(out)

    tensor = vllm_engine_pb2.TensorData(shape=array.shape, dtype=array.dtype.name).SerializeToString()
    payload = Payload([Level(TOP, before), Level(PIXELS, tensor)], INLINE, array.nbytes, fill)
    return serialize(small, [payload], request_id), seen


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    dtype=st.sampled_from(sorted(DTYPES)),
    order=st.sampled_from("<>="),
    ids=st.lists(st.integers(0, 2**32 - 1), max_size=200),
    name=st.text(max_size=80),
    is_transposed=st.booleans(),
)
def test_parsed_it_equals_the_ordinary_message(shape, dtype, order, ids, name, is_transposed):
    values = np.random.default_rng(3).integers(0, 200, shape).astype(DTYPES[dtype])
    if DTYPES[dtype].isbuiltin == 1:  # NumPy knows no byte order of bfloat16
        values = values.astype(values.dtype.newbyteorder(order))
    array = values.T if is_transposed else values[..., ::-1]
    expected = vllm_engine_pb2.GenerateRequest(request_id=name)
    expected.tokenized.input_ids.extend(ids)
    small = expected.tokenized.SerializeToString()
    expected.mm_inputs.im_token_id = 5
    expected.mm_inputs.pixel_values.shape.extend(array.shape)
    expected.mm_inputs.pixel_values.dtype = array.dtype.name
    little = np.ascontiguousarray(array).astype(DTYPES[dtype]).tobytes()
    expected.mm_inputs.pixel_values.inline = little
    before = vllm_engine_pb2.MultimodalInputs(im_token_id=5).SerializeToString()
    data, seen = request_of(array, nested([Level(2, small)]), name, before)
    assert vllm_engine_pb2.GenerateRequest.FromString(data) == expected
    assert seen == [(0, array.nbytes, True)]
    assert little_endian(array) == little


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_payloads_are_aligned_wherever_they_begin(length):
    array = np.arange(100, dtype=np.float32)
    data, seen = request_of(array, request_id="x" * length, small=nested([Level(3, b"y" * length)]))
    assert seen == [(0, 400, True)]
    assert vllm_engine_pb2.GenerateRequest.FromString(data).request_id == "x" * length


def test_items_of_one_field_are_merged():
    arrays = [np.arange(number, dtype=np.int64) for number in (3, 4000, 5)]
    pb2, offsets = tokenspeed_scheduler_pb2, []

    def payload_of(number, array):
        def fill(out):
            offsets.append(address(out) % 64)
            copied(array)(out)

        item = pb2.MultimodalItem(placeholder_token_id=number).SerializeToString()
        tensor = pb2.TensorData(shape=array.shape, dtype="int64").SerializeToString()
        return Payload([Level(9), Level(1, item), Level(3, tensor)], 3, array.nbytes, fill)

    payloads = [payload_of(number, array) for number, array in enumerate(arrays)]
    message = pb2.GenerateRequest.FromString(serialize(b"", payloads, "many"))
    assert offsets == [0, 0, 0]
    assert [item.placeholder_token_id for item in message.mm_inputs.items] == [0, 1, 2]
    for item, array in zip(message.mm_inputs.items, arrays, strict=True):
        np.testing.assert_array_equal(np.frombuffer(item.encoder_input.inline, np.int64), array)


@given(lengths=st.lists(st.integers(0, 70_000), max_size=3), text=st.text(max_size=200))
def test_payloads_beside_another_in_an_item(lengths, text):
    pb2, pixels = tokenspeed_scheduler_pb2, np.arange(5000, dtype=np.int64)
    arrays = {f"{text}{number}": np.arange(length, dtype=np.int64) for number, length in enumerate(lengths)}
    beside = []
    for name, array in arrays.items():
        entry = pb2.MultimodalItem.ModelSpecificTensorsEntry(key=name).SerializeToString()
        tensor = pb2.TensorData(shape=array.shape, dtype="int64").SerializeToString()
        beside.append(Payload([Level(4, entry), Level(2, tensor)], 3, array.nbytes, copied(array)))
    item = pb2.MultimodalItem(placeholder_token_id=7).SerializeToString()
    levels = [Level(9), Level(1, item), Level(3, pb2.TensorData(shape=[5000], dtype="int64").SerializeToString())]
    payload = Payload(levels, 3, pixels.nbytes, copied(pixels), beside)
    expected = pb2.GenerateRequest(request_id="r")
    for _ in range(2):
        item = expected.mm_inputs.items.add(placeholder_token_id=7)
        item.encoder_input.CopyFrom(pb2.TensorData(shape=[5000], dtype="int64", inline=pixels.tobytes()))
        for name, array in arrays.items():
            tensor = pb2.TensorData(shape=array.shape, dtype="int64", inline=array.tobytes())
            item.model_specific_tensors[name].CopyFrom(tensor)
    assert pb2.GenerateRequest.FromString(serialize(b"", [payload, payload], "r")) == expected


def test_messages_within_messages():
    message = vllm_engine_pb2.TensorData(shape=[2], dtype="uint8", inline=b"ab")
    before = vllm_engine_pb2.MultimodalInputs(im_token_id=5).SerializeToString()
    data = nested([Level(TOP, before), Level(PIXELS, message.SerializeToString())])
    parsed = vllm_engine_pb2.GenerateRequest.FromString(data).mm_inputs
    assert (parsed.im_token_id, parsed.pixel_values) == (5, message)


def test_the_bytes_live_as_long_as_what_writes_them():
    kept = []
    payload = Payload([Level(TOP), Level(PIXELS)], INLINE, 1 << 20, kept.append)
    serialize(b"", [payload], "r")
    kept[0][:] = 7  # a thread that was left behind by an interrupt
    assert kept[0].sum() == 7 << 20


def test_what_fails_while_it_is_written_is_not_sent():
    def fill(out):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        serialize(b"", [Payload([Level(TOP)], PIXELS, 100, fill)], "r")


def test_a_message_above_two_gigabytes_is_refused_before_it_is_allocated():
    payload = Payload([Level(TOP)], PIXELS, 1 << 31, lambda out: pytest.fail("written"))
    with pytest.raises(RequestError, match=r"^the request has 21474\d+ bytes, more than the 2147483647 of a message$"):
        serialize(b"", [payload], "r")


def test_memory_that_cannot_be_had(monkeypatch):
    def none(*_):
        raise MemoryError

    monkeypatch.setattr(wire, "_new_bytes", none)
    with pytest.raises(RequestError, match="which cannot be had"):
        serialize(b"", [], "r")
