"""An S3 server of the tests' own, on a free port; its buckets are folders."""

import pathlib
import socket
import subprocess
import tempfile

import services

KEY, SECRET = "openduck", "openduck-secret"


class S3:
    """Ready when entered, with the bucket `test`. `endpoint` is HOST:PORT, `objects()` what the bucket holds."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="openduck-s3-", dir="/tmp")
        self.where = pathlib.Path(self.folder.name)
        (self.where / "data" / "test").mkdir(parents=True)
        (self.where / "attributes").mkdir()
        for _ in range(10):  # another may take the port first
            if self.start():
                return self
        raise AssertionError("versitygw does not start: " + (self.where / "log").read_text())

    def start(self):
        port = services.free_port()
        self.endpoint = "127.0.0.1:%d" % port
        command = [services.ROOT / ".deps" / "bin" / "versitygw", "--port", self.endpoint, "--quiet", "posix"]
        with open(self.where / "log", "w") as log:
            self.process = subprocess.Popen(
                [*command, "--sidecar", self.where / "attributes", self.where / "data"],
                env=services.server_env({"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}),
                stdout=log,
                stderr=log,
            )

        def answers():
            if self.process.poll() is not None:
                return "ended"
            with socket.socket() as s:
                return "ready" if s.connect_ex(("127.0.0.1", port)) == 0 else None

        return services.wait_until(answers, 60, "the S3 server answers") == "ready" and self.process.poll() is None

    def objects(self):
        return [p for p in (self.where / "data" / "test").rglob("*") if p.is_file()]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
