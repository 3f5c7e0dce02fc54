"""VGI workers of others, which clients here talk to: the public SDK's fixtures, in both generations of the protocol."""

import os
import pathlib
import shlex
import socket
import subprocess
import tempfile

import services

GENERATIONS = ("2.2", "1.3")
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


def command(generation, module="worker", extra=None):
    """As a LOCATION: what a shell runs. `module`: "worker" has many catalogs, "companion" one with a companion."""
    told = " ".join(f"{k}={shlex.quote(v)}" for k, v in variables(generation, extra).items())
    return f"exec env {told} " + shlex.join(arguments(generation, module))


class VgiWorker:
    """A worker on a socket, ready when entered. `transport` is "unix", "tcp" or "http"; `location` is for ATTACH."""

    def __init__(self, generation, transport="unix", module="worker", extra=None):
        self.generation, self.transport, self.module, self.extra = generation, transport, module, extra

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
            self.process = subprocess.Popen(
                arguments(self.generation, self.module) + flags[self.transport],
                env=environment(self.generation, self.extra),
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
