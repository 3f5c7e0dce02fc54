"""A PostgreSQL of the tests' own, on a socket in a folder that goes with it."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import services


class Postgres:
    """Ready when entered. `where` is the host for libpq, `user` the user; there is no password."""

    user = "openduck"

    def __init__(self, *options):
        """OPTIONS of the server, after those of all."""
        self.options = options

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="openduck-pg-", dir="/tmp")
        self.where = pathlib.Path(self.folder.name)
        self.programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.person = {}
        if os.getuid() == 0:  # it refuses to be run by root
            shutil.chown(self.where, "postgres")
            self.person = {"user": "postgres", "group": "postgres", "extra_groups": []}
        assert self.run("initdb", "-D", self.where / "data", "-A", "trust", "-U", self.user, "-N").wait() == 0
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", self.where, *self.options]
        self.process = self.run("postgres", "-D", self.where / "data", *options)
        try:
            services.wait_until(lambda: self.run("pg_isready", "-h", self.where).wait() == 0, 30, "PostgreSQL is ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, program, *args):
        quiet = subprocess.DEVNULL
        env = services.server_env()  # nothing is preloaded
        return subprocess.Popen(
            [self.programs / program, *args], cwd=self.where, env=env, stdout=quiet, stderr=quiet, **self.person
        )

    def create(self, database):
        """Makes DATABASE, and returns what libpq takes for it."""
        assert self.run("createdb", "-h", self.where, "-U", self.user, database).wait() == 0
        return self.url_of(database)

    def url_of(self, database):
        return "host=%s user=%s dbname=%s" % (self.where, self.user, database)

    @property
    def url(self):
        return self.url_of("postgres")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGQUIT)  # waits for nobody
        self.process.wait()
        self.folder.cleanup()
