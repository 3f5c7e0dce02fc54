"""Health and reflection, as gRPC's own tools ask for them."""

import importlib
import sys

import grpc
import pytest
import services
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ENDLESS = "SELECT count(*) FROM range(10000000000) a, range(1000) b WHERE a.range + b.range = -1"
CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
REFLECTION = "/grpc.reflection.%s.ServerReflection/ServerReflectionInfo"
SERVICES = ["openduck.v1.ExecutionService", "openduck.v1.StatusService"]


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """Modules of tests/support/protos: health, reflection."""
    from grpc_tools import protoc

    out = str(tmp_path_factory.mktemp("stubs"))
    protos = services.ROOT / "tests" / "support" / "protos"
    for name in ("health", "reflection"):
        assert protoc.main(["protoc", "-I%s" % protos, "--python_out=" + out, name + ".proto"]) == 0
    sys.path.insert(0, out)
    return importlib.import_module("health_pb2"), importlib.import_module("reflection_pb2")


@pytest.fixture(params=["serve", "gateway", "worker"])
def any_server(request):
    if request.param == "gateway":
        started = services.Gateway([])
    else:
        started = {"serve": services.Serve, "worker": services.Worker}[request.param]({"mydb": ":memory:"}, token="t")
    with started as s:
        yield s


def check(client, health, service=""):
    request = health.HealthCheckRequest(service=service).SerializeToString()
    reply = client.channel.unary_unary(CHECK)(request, timeout=15 * services.SLOW)
    return health.HealthCheckResponse.FromString(reply).status


def watch(client, health, service=""):
    request = health.HealthCheckRequest(service=service).SerializeToString()
    for reply in client.channel.unary_stream(WATCH)(request, timeout=60 * services.SLOW):
        yield health.HealthCheckResponse.FromString(reply).status


# ---------------------------------------------------------------- health


def test_every_server_is_healthy_without_a_token(any_server, messages):
    health, _ = messages
    with any_server.client() as c:
        for service in ["", *SERVICES]:
            assert check(c, health, service) == SERVING
        with pytest.raises(grpc.RpcError) as e:
            check(c, health, "openduck.v1.NoSuchService")
        assert e.value.code() == grpc.StatusCode.NOT_FOUND


def test_who_watches_is_told_of_the_drain_and_does_not_hold_it_up(any_server, messages):
    health, _ = messages
    with any_server.client() as c:
        streams = [watch(c, health, s) for s in ("", SERVICES[0])]
        unknown = watch(c, health, "nothing")
        assert [next(s) for s in streams] == [SERVING, SERVING]
        assert next(unknown) == SERVICE_UNKNOWN
        any_server.stop(seconds=10)
        assert [next(s) for s in streams] == [NOT_SERVING, NOT_SERVING]
        for stream in streams:
            with pytest.raises(grpc.RpcError) as e:
                next(stream)
            assert e.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_drain_is_told_while_work_goes_on(messages):
    health, _ = messages
    with services.Serve({"mydb": ":memory:"}) as s, s.client() as c:
        stream = watch(c, health)
        assert next(stream) == SERVING
        call = c.call(ENDLESS, execution_id="long")
        services.wait_until(lambda: c.status().in_flight == 1, 10, "the query runs")
        s.send_signal(15)
        assert next(stream) == NOT_SERVING
        assert s.alive()
        s.stop()  # the second signal cancels
        with pytest.raises(grpc.RpcError):
            list(call) and next(stream)


def test_a_watcher_may_leave(messages):
    health, _ = messages
    with services.Serve({"mydb": ":memory:"}) as s:
        for _ in range(3):
            with s.client() as c:
                assert next(watch(c, health)) == SERVING
        s.assert_usable()
        s.stop(seconds=10)


@pytest.mark.parametrize("method", [CHECK, WATCH])
def test_what_cannot_be_read_is_refused(any_server, method):
    with any_server.client() as c:
        with pytest.raises(grpc.RpcError) as e:
            list(c.raw(method)(b"\xff\xff"))
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT


# ---------------------------------------------------------------- reflection


def reflect(client, reflection, version, *requests):
    call = client.channel.stream_stream(REFLECTION % version)
    sent = [reflection.ServerReflectionRequest(**r) for r in requests]
    replies = call((r.SerializeToString() for r in sent), timeout=15 * services.SLOW)
    replies = [reflection.ServerReflectionResponse.FromString(r) for r in replies]
    assert [r.original_request for r in replies] == sent
    return replies


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_services_and_files_are_told(any_server, messages, version):
    _, reflection = messages
    with any_server.client() as c:
        listed, by_symbol, by_name, method = reflect(
            c,
            reflection,
            version,
            {"list_services": "*"},
            {"file_containing_symbol": "openduck.v1.StatusService"},
            {"file_by_filename": "openduck/v1/execution.proto"},
            {"file_containing_symbol": "openduck.v1.ExecutionService.Heartbeat"},
        )
    assert [s.name for s in listed.list_services_response.service] == SERVICES
    assert by_name.file_descriptor_response == method.file_descriptor_response
    pool = descriptor_pool.DescriptorPool()
    for reply in (by_symbol, by_name):
        for data in reply.file_descriptor_response.file_descriptor_proto:
            pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
    ours = services.stubs().ExecuteFragmentRequest.DESCRIPTOR
    theirs = pool.FindMessageTypeByName("openduck.v1.ExecuteFragmentRequest")
    assert {f.name: f.number for f in theirs.fields} == {f.name: f.number for f in ours.fields}


def test_a_client_without_our_proto_can_call(messages):
    _, reflection = messages
    with services.Serve({"mydb": ":memory:"}) as s, s.client() as c:
        (reply,) = reflect(c, reflection, "v1", {"file_containing_symbol": "openduck.v1.StatusService"})
        pool = descriptor_pool.DescriptorPool()
        for data in reply.file_descriptor_response.file_descriptor_proto:
            pool.Add(descriptor_pb2.FileDescriptorProto.FromString(data))
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("openduck.v1.StatusReply"))
        (got,) = c.raw("/openduck.v1.StatusService/GetStatus")(b"")
        assert kind.FromString(got).role == "serve"


def test_every_name_is_known(any_server, messages):
    _, reflection = messages
    pb = services.stubs()
    names = []
    for file in (pb.ExecuteFragmentRequest.DESCRIPTOR.file, pb.StatusReply.DESCRIPTOR.file):
        for message in file.message_types_by_name.values():
            names += [message.full_name, *(f.full_name for f in message.fields)]
        for enum in file.enum_types_by_name.values():
            names += [enum.full_name, *("openduck.v1." + v.name for v in enum.values)]
        for service in file.services_by_name.values():
            names += [service.full_name, *(m.full_name for m in service.methods)]
    with any_server.client() as c:
        for reply in reflect(c, reflection, "v1", *[{"file_containing_symbol": n} for n in names]):
            assert reply.HasField("file_descriptor_response"), reply.original_request


def test_what_is_not_there_is_an_answer(any_server, messages):
    _, reflection = messages
    asked = [
        {"file_containing_symbol": "openduck.v1.Nothing"},
        {"file_by_filename": "nothing.proto"},
        {"file_containing_extension": {"containing_type": "x", "extension_number": 1}},
        {"all_extension_numbers_of_type": "x"},
        {},
    ]
    with any_server.client() as c:
        replies = reflect(c, reflection, "v1", *asked)
        assert [r.error_response.error_code for r in replies] == [5, 5, 5, 5, 3]
        for garbage in (b"\xff\xff", b"\x22\x80\x80\x01" + b"x" * 16384):
            with pytest.raises(grpc.RpcError) as e:
                list(c.raw(REFLECTION % "v1", "stream_stream")(iter([garbage])))
            assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_an_open_stream_does_not_hold_a_drain_up(any_server, messages):
    import queue

    _, reflection = messages
    requests = queue.Queue()
    requests.put(reflection.ServerReflectionRequest(list_services="*").SerializeToString())
    with any_server.client() as c:
        replies = c.raw(REFLECTION % "v1", "stream_stream")(iter(requests.get, None))
        next(replies)
        any_server.stop(seconds=10)
        requests.put(None)
        with pytest.raises(grpc.RpcError):
            next(replies)
