import pytest
from smg_grpc_proto.generated import sglang_scheduler_pb2, tokenspeed_scheduler_pb2, trtllm_service_pb2, vllm_engine_pb2

from foveal.backends import ServerInfo
from foveal.backends.messages import messages
from foveal.errors import OptionError


def test_vllm():
    server = vllm_engine_pb2.GetServerInfoResponse(
        mm_device_do_normalize=True,
        multimodal_encoder_dtype="bfloat16",
        shm_namespace_id="boot:7",
        mm_item_limits="audio=1,image=8,video=2",
    )
    model = vllm_engine_pb2.GetModelInfoResponse(model_type="llava", architectures=["Pixtral"])
    assert ServerInfo.from_messages("vllm", server, model) == ServerInfo(
        encoder_dtype="bfloat16",
        device_normalize=True,
        shm_namespace="boot:7",
        images=8,
        architectures=("Pixtral",),
        model_type="llava",
    )


@pytest.mark.parametrize("text", ["", "image=0", "image=x", "images=3", "video=2", "image=-1", "image"])
def test_limits_that_say_nothing(text):
    server = vllm_engine_pb2.GetServerInfoResponse(mm_item_limits=text)
    assert ServerInfo.from_messages("vllm", server).images is None


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("", "float32"), ("torch.float16", "float16"), ("float16", "float16"), ("fp8", "float32"), ("uint8", "float32")],
)
def test_dtypes(text, dtype):
    server = vllm_engine_pb2.GetServerInfoResponse(multimodal_encoder_dtype=text)
    assert ServerInfo.from_messages("vllm", server).encoder_dtype == dtype


def test_tokenspeed_says_the_dtype_with_the_model_and_the_rest_in_structs():
    server = tokenspeed_scheduler_pb2.GetServerInfoResponse()
    server.scheduler_info.update({"shm_namespace_id": "boot:7", "other": 3})
    server.server_args.update({"mm_item_limits": "image=3"})
    model = tokenspeed_scheduler_pb2.GetModelInfoResponse(multimodal_encoder_dtype="bfloat16")
    expected = ServerInfo(encoder_dtype="bfloat16", shm_namespace="boot:7", images=3)
    assert ServerInfo.from_messages("tokenspeed", server, model) == expected


def test_sglang_and_trtllm():
    server = sglang_scheduler_pb2.GetServerInfoResponse()
    server.server_args.update({"mm_item_limits": "image=3"})
    assert ServerInfo.from_messages("sglang", server, None) == ServerInfo(images=3)
    answer = trtllm_service_pb2.GetServerInfoResponse(version="1", backend="x")
    assert ServerInfo.from_messages("trtllm", answer) == ServerInfo()


def test_a_worker_that_says_nothing():
    assert ServerInfo.from_messages("vllm") == ServerInfo()
    with pytest.raises(OptionError):
        ServerInfo.from_messages("ollama")


def test_methods():
    assert messages("sglang").method("Generate") == "/sglang.grpc.scheduler.SglangScheduler/Generate"
