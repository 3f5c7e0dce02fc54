"""VGI workers that clients here talk to: the public SDK's fixtures, and in their place a worker in C with the same
catalogs (tests/programs/vgi_fixture.c), both in both generations of the protocol."""

import os
import pathlib
import shlex
import socket
import subprocess
import tempfile

import services

GENERATIONS = ("2.2", "1.3")
#: What a test is run with: whose worker, and in which generation.
KINDS = tuple((peer, generation) for peer in ("sdk", "c") for generation in GENERATIONS)
IDS = ["-".join(kind) for kind in KINDS]
DEPS = services.ROOT / ".deps" / "vgi"


def variables(generation, extra=None):
    """What a worker is told; its DuckDB finds the extensions that it installs in its home."""
    path = os.pathsep.join([str(DEPS / generation), str(DEPS / "lib")])
    return {"PYTHONPATH": path, "HOME": str(DEPS / "home"), **(extra or {})}


def environment(generation, extra=None):
    return services.server_env({"PYTHONDONTWRITEBYTECODE": "", **variables(generation, extra)})


def arguments(generation, module="worker"):
    """`module`: of the fixtures, or of the SDK itself, with its arguments ("vgi.serve NAME")."""
    words = module.split() if module.startswith("vgi.") else ["vgi._test_fixtures." + module]
    return [str(DEPS / "python" / "usr" / "bin" / "python3.13"), "-m", *words]


def c_arguments(generation, catalog="example"):
    return [str(services.BUILD / "programs" / "vgi_fixture"), catalog, "--generation", generation]


def command(generation, module="worker", extra=None, peer="sdk"):
    """As a LOCATION: what a shell runs. `module`: "worker" has many catalogs, "companion" one with a companion."""
    if peer == "c":
        return "exec " + shlex.join(c_arguments(generation))
    told = " ".join(f"{k}={shlex.quote(v)}" for k, v in variables(generation, extra).items())
    return f"exec env {told} " + shlex.join(arguments(generation, module))


class VgiWorker:
    """A worker on a socket, ready when entered. `transport` is "unix", "tcp" or "http"; `location` is for ATTACH.
    `peer` "c": the one in C, with the catalog that the SDK's module is about."""

    def __init__(self, generation, transport="unix", module="worker", extra=None, peer="sdk"):
        self.generation, self.transport, self.module, self.extra = generation, transport, module, extra
        self.peer = peer

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="openduck-vgi-", dir="/tmp")
        where = pathlib.Path(self.folder.name)
        flags = {
            "unix": ["--unix", str(where / "worker")],
            "tcp": ["--tcp", "127.0.0.1:0"],
            "http": ["--port", "0"] if self.module.startswith("vgi.secret") else ["--http", "--port", "0"],
        }
        self.stderr = where / "stderr"
        with open(self.stderr, "w") as log:
            ours = self.peer == "c"
            words = c_arguments(self.generation, "example" if self.module == "worker" else self.module)
            self.process = subprocess.Popen(
                (words if ours else arguments(self.generation, self.module)) + flags[self.transport],
                env=services.server_env(self.extra) if ours else environment(self.generation, self.extra),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        # It says where it listens, once it does.
        told = self.process.stdout.readline().strip()
        assert ":" in told, self.stderr.read_text()
        where_told = told.split(":", 1)[1]
        self.location = {"unix": "unix://", "tcp": "tcp://", "http": "http://127.0.0.1:"}[self.transport] + where_told
        if self.transport != "unix":  # its port is known before it listens
            address = ("127.0.0.1", int(told.rsplit(":", 1)[1]))
            services.wait_until(lambda: self.accepts(address), 60, "the worker answers")
        return self

    @staticmethod
    def accepts(address):
        with socket.socket() as s:
            return s.connect_ex(address) == 0

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()
