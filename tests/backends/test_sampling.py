import pytest

from foveal.backends import BACKENDS
from foveal.backends.messages import messages
from foveal.backends.sampling import set_sampling
from foveal.errors import RequestError

GIVEN = {
    "temperature": 0.5,
    "top_p": 0.25,
    "top_k": 3,
    "min_p": 0.125,
    "max_tokens": 7,
    "min_tokens": 2,
    "repetition_penalty": 1.5,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.25,
    "stop": ["a", "b"],
    "stop_token_ids": [4, 5],
    "ignore_eos": True,
    "n": 2,
}


def request_with(backend, sampling):
    request = messages(backend).pb2.GenerateRequest()
    set_sampling(messages(backend), request, sampling)
    return request


@pytest.mark.parametrize("backend", ["vllm", "sglang", "tokenspeed"])
def test_names_that_all_share(backend):
    params = request_with(backend, GIVEN).sampling_params
    longest, least = ("max_tokens", "min_tokens") if backend == "vllm" else ("max_new_tokens", "min_new_tokens")
    renamed = {"max_tokens": longest, "min_tokens": least}
    for name, value in GIVEN.items():
        found = getattr(params, renamed.get(name, name))
        assert (list(found) if isinstance(value, list) else found) == value, name


def test_trtllm_has_some_in_the_request_itself():
    request = request_with("trtllm", GIVEN)
    config = request.sampling_config
    assert (request.max_tokens, list(request.stop), list(request.stop_token_ids)) == (7, ["a", "b"], [4, 5])
    assert (config.temperature, config.top_k, config.num_return_sequences, config.min_tokens) == (0.5, 3, 2, 2)
    assert request.ignore_eos
    assert request_with("trtllm", None).max_tokens == 32


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_given_is_the_backends_own_but_for_the_temperature(backend):
    request = request_with(backend, None)
    target = request.sampling_config if backend == "trtllm" else request.sampling_params
    assert target.temperature == 1
    assert [field.name for field, _ in target.ListFields()] == ["temperature"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_and_values_that_are_wrong(backend):
    with pytest.raises(RequestError, match=rf"^sampling: {backend} has no 'best_of' \(known: frequency_penalty, "):
        request_with(backend, {"best_of": 3})
    for name, value in (("top_p", "x"), ("top_k", 1 << 40), ("max_tokens", -1), ("stop", [3]), ("min_p", [1])):
        with pytest.raises(RequestError, match=f"^sampling: {name} has a value of a wrong type or range$"):
            request_with(backend, {name: value})


def test_what_is_none_is_not_given_and_newer_names():
    assert request_with("vllm", {"max_completion_tokens": 5, "top_p": None}).sampling_params.max_tokens == 5


def test_values_that_no_engine_takes():
    for value in (float("nan"), float("inf")):
        with pytest.raises(RequestError, match=r"^sampling: temperature has a value of a wrong type or range$"):
            request_with("vllm", {"temperature": value})
    with pytest.raises(RequestError, match=r"^sampling: json_schema and regex exclude each other$"):
        request_with("vllm", {"json_schema": "{}", "regex": "a"})


def test_one_stop_text():
    assert list(request_with("vllm", {"stop": "END"}).sampling_params.stop) == ["END"]


def test_sglang_has_no_seed():
    with pytest.raises(RequestError, match="sglang has no 'seed'"):
        request_with("sglang", {"seed": 3})
    assert request_with("vllm", {"seed": 3}).sampling_params.seed == 3
    assert request_with("tokenspeed", {"seed": 3}).sampling_params.sampling_seed == 3
