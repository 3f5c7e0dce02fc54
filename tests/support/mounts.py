"""openduck-fuse as the tests start it."""

import contextlib
import pathlib
import re
import subprocess
import tempfile

import services
import stores

BOTH_STORES = stores.over("sqlite", "postgres", argument="data")  # for what the metadata decide


class Mount(services.Daemon):
    """DATABASE of the store DATA, mounted at a folder of its own; both end with it."""

    program = services.BUILD / "bin" / "openduck-fuse"
    says_ready = re.compile(r"^ready (/.*)$", re.M)
    environment = {}  # of all, as a test sets it

    def __init__(self, data, database="db", *options, env=None):
        self.point = pathlib.Path(tempfile.mkdtemp(prefix="openduck-mount-"))
        self.data = data
        try:
            super().__init__(
                "--data-dir", data, *options, database, self.point, env={**self.environment, **(env or {})}
            )
        except BaseException:
            self.point.rmdir()
            raise

    def __exit__(self, kind, *rest):
        try:
            super().__exit__(kind, *rest)
        finally:
            self.clear()

    @property
    def file(self):
        return self.point / "database.duckdb"

    def snapshot(self, snapshot):
        return self.point / "snapshots" / snapshot / "database.duckdb"

    def seal(self):
        return seal(self.point)

    def cli(self, *args):
        """What a command of openduck says of the store."""
        done = services.cli(*args, "--data-dir", self.data, env=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def clear(self):
        """Takes away what a killed one leaves: a folder that is mounted, and answers nothing."""
        subprocess.run(["umount", "-l", self.point], stderr=subprocess.DEVNULL, check=False)
        with contextlib.suppress(FileNotFoundError):
            self.point.rmdir()

    def crash(self):
        self.kill()
        self.clear()


def mount_soon(data, *options):
    """Mounts it once the lease of the writer before is over."""

    def attempt():
        try:
            return Mount(data, "db", *options)
        except RuntimeError as e:
            assert "has a writer" in str(e)
            return None

    return services.wait_until(attempt, 20, "the lease is over", step=0.1)


def run(*args):
    return subprocess.run(
        [Mount.program, *args], check=False, capture_output=True, text=True, env=services.server_env(), timeout=60
    )


def seal(point):
    done = run("--seal", point)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
