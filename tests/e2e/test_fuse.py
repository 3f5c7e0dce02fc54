"""openduck-fuse: the guarantees of the storage, through the kernel's file system calls."""

import errno
import fcntl
import os
import pathlib
import random
import resource
import signal
import stat
import subprocess
import time

import pytest
import services
import stores
from mounts import BOTH_STORES, Mount, mount_soon, run

pytestmark = pytest.mark.skipif(not pathlib.Path("/dev/fuse").exists(), reason="the kernel has no FUSE here")


@pytest.fixture
def mount(data):
    with Mount(data) as m:
        yield m


def refused(number, call, *args, **kwargs):
    with pytest.raises(OSError) as raised:
        call(*args, **kwargs)
    assert raised.value.errno == number, raised.value


# ---------------------------------------------------------------- files


def test_writes_are_read_and_holes_are_zero(mount):
    path = mount.point / "f"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    assert os.pwrite(fd, b"end", 5_000_000_000) == 3
    assert os.fstat(fd).st_size == 5_000_000_003
    assert os.pread(fd, 10, 4_999_999_998) == b"\0\0end"
    assert os.pread(fd, 5, 0) == bytes(5)
    assert os.pread(fd, 5, 5_000_000_003) == b""
    os.ftruncate(fd, 5_000_000_001)
    os.ftruncate(fd, 5_000_000_004)
    assert os.pread(fd, 10, 5_000_000_000) == b"e\0\0\0", "what was cut off is zero"
    os.close(fd)
    refused(errno.EEXIST, os.open, path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    with open(path, "ab") as f:
        f.write(b"more")
    assert path.stat().st_size == 5_000_000_008
    with open(path, "wb") as f:
        f.write(b"anew")
    assert path.read_bytes() == b"anew"
    assert stat.S_ISREG(path.stat().st_mode)
    assert path.stat().st_mtime == pytest.approx(time.time(), abs=60)


def test_names(mount):
    a, b = mount.point / "a", mount.point / "b"
    a.write_bytes(b"of a")
    b.write_bytes(b"of b")
    assert sorted(os.listdir(mount.point)) == ["a", "b", "snapshots"]
    os.rename(a, b)
    assert b.read_bytes() == b"of a"
    assert not a.exists()
    os.remove(b)
    refused(errno.ENOENT, os.remove, b)
    refused(errno.ENOENT, os.rename, b, a)
    for i in range(300):
        (mount.point / ("file %d" % i)).touch()
    assert sorted(os.listdir(mount.point)) == sorted(["snapshots"] + ["file %d" % i for i in range(300)])
    long = mount.point / ("x" * 255)
    long.write_bytes(b"long")
    assert long.read_bytes() == b"long"
    refused(errno.ENAMETOOLONG, (mount.point / ("x" * 256)).write_bytes, b"")
    refused(errno.EPERM, os.mkdir, mount.point / "folder")
    refused(errno.EPERM, os.rename, long, mount.point / ".openduck_removed_1")
    refused(errno.EPERM, os.symlink, "x", mount.point / "link")
    refused(errno.EPERM, os.chmod, long, 0o777)


def test_a_removed_file_lives_until_it_is_closed(data):
    with Mount(data, "db", "--lease", "1") as m:
        path = m.point / "f"
        path.write_bytes(b"old")
        fd = os.open(path, os.O_RDWR)
        os.remove(path)
        assert os.listdir(m.point) == ["snapshots"]
        path.write_bytes(b"new")
        assert os.pread(fd, 10, 0) == b"old"
        os.pwrite(fd, b"OLD", 0)
        assert os.pread(fd, 10, 0) == b"OLD"
        assert path.read_bytes() == b"new"
        os.close(fd)
        fd = os.open(path, os.O_RDWR)
        os.remove(path)
        os.fsync(fd)
        m.crash()
        os.close(fd)
    with mount_soon(data) as m:
        assert os.listdir(m.point) == ["snapshots"]
        hidden = m.point / ".openduck_removed_2"
        refused(errno.ENOENT, hidden.stat)


def test_random_work_is_as_with_bytes(mount):
    """Against a byte array, over 20 s of nothing but file system calls at most."""
    random.seed(11)
    files = {}
    for step in range(1500):
        name = random.choice("abc")
        path = mount.point / name
        known = files.get(name)
        what = random.randrange(12)
        if what == 0 and known is not None:
            os.remove(path)
            del files[name]
        elif what == 1 and known is not None:
            other = random.choice("abc")
            os.rename(path, mount.point / other)
            if other != name:
                files[other] = files.pop(name)
        elif what == 2 and known is not None:
            size = random.randrange(600_000)
            os.truncate(path, size)
            del known[size:]
            known.extend(bytes(size - len(known)))
        elif what == 3:
            fd = os.open(mount.point, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)
        else:
            offset, length = random.randrange(500_000), random.choice([1, 100, 5000, 300_000])
            chunk = random.randbytes(length)
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.pwrite(fd, chunk, offset)
            os.close(fd)
            known = files.setdefault(name, bytearray())
            known.extend(bytes(max(0, offset - len(known))))
            known[offset : offset + length] = chunk
        if step % 50 == 0:
            # Past the kernel's pages: what the volume has.
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("1") if step % 500 == 0 else None
            assert sorted(os.listdir(mount.point)) == sorted([*files, "snapshots"])
            for name, known in files.items():
                assert (mount.point / name).read_bytes() == known, (step, name)


def test_one_process_at_a_time_locks_a_file(mount):
    mount.file.touch()
    with open(mount.file, "r+b") as first, open(mount.file, "r+b") as second:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused(errno.EAGAIN, fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------- snapshots


@BOTH_STORES
def test_snapshots_never_change(data):
    with Mount(data) as m:
        m.file.write_bytes(b"one" * 1000)
        first = m.seal()
        m.file.write_bytes(b"two")
        (m.point / "database.duckdb.wal").write_bytes(b"log")
        second = m.seal()
        assert sorted(os.listdir(m.point / "snapshots")) == sorted([first, second])
        assert os.listdir(m.point / "snapshots" / first) == ["database.duckdb"]
        assert sorted(os.listdir(m.point / "snapshots" / second)) == ["database.duckdb", "database.duckdb.wal"]
        m.file.write_bytes(b"three")
        assert m.snapshot(first).read_bytes() == b"one" * 1000
        assert m.snapshot(second).read_bytes() == b"two"
        refused(errno.EROFS, open, m.snapshot(first), "r+b")
        refused(errno.EROFS, os.remove, m.snapshot(first))
        refused(errno.EROFS, os.truncate, m.snapshot(first), 0)
        refused(errno.EROFS, os.mkdir, m.point / "snapshots" / first / "x")
        refused(errno.EROFS, os.rename, m.snapshot(first), m.point / "x")
        refused(errno.ENOENT, os.stat, m.point / "snapshots" / "00000000-0000-4000-8000-000000000000")
        refused(errno.ENOENT, os.stat, m.point / "snapshots" / "x" / "database.duckdb")
    with Mount(data) as m:
        assert m.file.read_bytes() == b"three"
        assert m.snapshot(first).read_bytes() == b"one" * 1000


@BOTH_STORES
def test_a_snapshot_that_is_open_outlives_its_end(data):
    """The kernel's caches are past: what is read comes from the layers."""
    with Mount(data) as m:
        m.file.write_bytes(b"then" * 50_000)
        snapshot = m.seal()
        m.file.write_bytes(b"now!" * 50_000)
        other = m.seal()
        with open(m.snapshot(snapshot), "rb", buffering=0) as f:
            m.cli("snapshot", "drop", snapshot)
            m.cli("storage", "compact", "--whole")
            m.cli("gc")
            assert f.read() == b"then" * 50_000
        assert m.snapshot(other).read_bytes() == b"now!" * 50_000
        assert m.file.read_bytes() == b"now!" * 50_000
        assert "0 damaged" in m.cli("storage", "verify")
    with Mount(data) as m:
        m.cli("gc")
        assert os.listdir(m.point / "snapshots") == [other]
        assert m.file.read_bytes() == b"now!" * 50_000


@stores.over("s3", argument="data")
def test_a_mount_elsewhere_goes_on_with_what_was_sent(data, tmp_path):
    with Mount(data) as m:
        m.file.write_bytes(b"one" * 100_000)
        first = m.seal()
        m.file.write_bytes(b"two" * 100_000)
        m.seal()
        m.cli("storage", "tier")
    other = tmp_path / "other"
    other.mkdir()
    for word in (b"two", b"end"):
        with Mount(other) as m:
            assert m.file.read_bytes() == word * 100_000
            assert m.snapshot(first).read_bytes() == b"one" * 100_000
            m.file.write_bytes(b"end" * 100_000)
            assert len(list((other / "layers").glob("*.seg"))) <= 2, "nothing was brought here"


def test_who_cannot_be_sealed(data, mount, tmp_path):
    mount.file.write_bytes(b"x")
    with Mount(data, "db", "--read-only") as reader:
        done = run("--seal", reader.point)
        assert (done.returncode, "Read-only" in done.stderr) == (1, True), done.stderr
    done = run("--seal", tmp_path)
    assert (done.returncode, "not mounted by openduck-fuse" in done.stderr) == (1, True), done.stderr
    done = run("--seal", tmp_path / "nowhere")
    assert (done.returncode, "No such file" in done.stderr) == (1, True), done.stderr


# ---------------------------------------------------------------- one writer


@BOTH_STORES
def test_a_second_writer_is_refused_and_a_reader_is_not(data, mount):
    mount.file.write_bytes(b"synced")
    with open(mount.file) as f:
        os.fsync(f)
    with pytest.raises(RuntimeError, match=r"cannot be opened: .*writer"):
        Mount(data)
    with Mount(data, "db", "--read-only") as reader:
        assert reader.file.read_bytes() == b"synced"
        refused(errno.EROFS, open, reader.file, "r+b")
        refused(errno.EROFS, (reader.point / "x").touch)
        mount.file.write_bytes(b"later")
        assert reader.file.read_bytes() == b"synced"
    assert mount.file.read_bytes() == b"later"


@BOTH_STORES
def test_an_orderly_end_gives_the_lease_back(data):
    for number in (signal.SIGTERM, signal.SIGINT, None):
        with Mount(data, "db", "--lease", "600") as m:
            with open(m.file, "ab") as f:
                f.write(b"x")  # not synced: the end does it
            if number:
                m.stop(number)
            else:
                subprocess.run(["umount", m.point], check=True)
                assert m.wait(20) == 0
    with Mount(data) as m:
        assert m.file.read_bytes() == b"xxx"


@BOTH_STORES
def test_nothing_of_an_old_writer_is_seen_or_acknowledged(data):
    with Mount(data, "db", "--lease", "1") as old:
        fd = os.open(old.file, os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"acknowledged", 0)
        os.fsync(fd)
        time.sleep(2.5)  # silent for longer than its lease, but alive: it is renewed
        os.pwrite(fd, b"A", 0)
        os.fsync(fd)
        os.close(os.dup(fd))  # the kernel learns that a close needs no answer, so that none waits for the stopped one
        old.send_signal(signal.SIGSTOP)
        with mount_soon(data, "--lease", "1") as new:
            new_fd = os.open(new.file, os.O_RDWR)
            assert os.pread(new_fd, 20, 0) == b"Acknowledged"
            os.pwrite(new_fd, b"new", 0)
            os.fsync(new_fd)
            old.send_signal(signal.SIGCONT)
            with pytest.raises(OSError, match=r"Stale|Input/output"):
                os.pwrite(fd, b"OLD", 0)
                os.fsync(fd)
            os.close(fd)
            os.pwrite(new_fd, b"N", 0)
            os.fsync(new_fd)
            assert os.pread(new_fd, 20, 0) == b"Newnowledged"
            os.close(new_fd)
        old.stop(code=1)  # it says that what was not synced may be lost
        assert "lease" in old.stderr()
    with Mount(data) as m:
        assert m.file.read_bytes() == b"Newnowledged"


# ---------------------------------------------------------------- faults


def test_damaged_bytes_are_an_error_and_no_data(data):
    with Mount(data) as m:
        m.file.write_bytes(os.urandom(300_000))
        (m.point / "other").write_bytes(b"good")
        m.seal()
    layer = max((data / "layers").glob("*.seg"), key=lambda p: p.stat().st_size)
    damaged = bytearray(layer.read_bytes())
    damaged[150_000] ^= 1
    layer.write_bytes(damaged)
    with Mount(data) as m:
        with open(m.file, "rb", buffering=0) as f:
            refused(errno.EIO, f.read)
        assert (m.point / "other").read_bytes() == b"good"
        assert layer.stem in m.stderr() and "checksum" in m.stderr()


def test_a_full_disk_fails_what_is_written_and_nothing_else(data):
    """No file can grow, and none can be made: as on a disk that is full. Then there is room again."""
    with Mount(data) as m:
        fd = os.open(m.file, os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, b"synced", 0)
        os.fsync(fd)
        room = max(p.stat().st_size for p in (data / "layers").glob("*.seg")) + 1000
        limits = {resource.RLIMIT_FSIZE: room, resource.RLIMIT_NOFILE: 3}
        before = {limit: resource.prlimit(m.pid, limit) for limit in limits}
        for limit, value in limits.items():
            resource.prlimit(m.pid, limit, (value, before[limit][1]))
        with pytest.raises(OSError, match=r"too large|No space|Input/output|Too many open files"):
            os.pwrite(fd, b"x" * 100_000, 10)
            os.fsync(fd)
        assert os.pread(fd, 6, 0) == b"synced"
        for limit, value in before.items():
            resource.prlimit(m.pid, limit, value)
        os.pwrite(fd, b"again!", 0)
        os.fsync(fd)
        os.close(fd)
    with Mount(data) as m, open(m.file, "rb") as f:
        assert f.read(6) == b"again!"


# ---------------------------------------------------------------- far away


def test_layers_are_sent_and_read_from_afar(data, tmp_path):
    far = tmp_path / "far"
    far.mkdir()
    text = os.urandom(300_000)
    with Mount(data, "db", "--blob-url", far, "--tier", "--keep-bytes", "1") as m:
        m.file.write_bytes(text)
        snapshot = m.seal()

        def files(folder):
            return {p.name for p in folder.rglob("*.seg") if p.stat().st_size >= len(text)}

        (sent,) = services.wait_until(lambda: files(far), 20, "the layer is sent")
        m.file.write_bytes(b"later")
        m.seal()
        services.wait_until(lambda: sent not in files(data), 20, "it is only there")
        assert m.snapshot(snapshot).read_bytes() == text
        assert m.file.read_bytes() == b"later"


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--help"], 0, "usage"),
        (["--version"], 0, "libfuse"),
        ([], 2, "DATABASE"),
        (["db"], 2, "DATABASE"),
        (["--data-dir", "/nowhere/at/all", "db", "/nowhere"], 1, "/nowhere/at/all"),
        (["--lease", "x", "db", "/nowhere"], 2, "--lease"),
        (["--read-only", "--seal-on-checkpoint", "--data-dir", ".", "db", "/nowhere"], 2, "writer"),
        (["--keep-bytes", "much", "db", "/nowhere"], 2, "--keep-bytes"),
        (["--tier", "--data-dir", ".", "db", "/nowhere"], 2, "--blob-url"),
        (["--unknown"], 2, "unknown"),
    ],
)
def test_usage(args, code, says):
    done = run(*args)
    assert done.returncode == code, done
    assert says in done.stdout + done.stderr


def test_without_a_directory_the_store_is_at_home(tmp_path):
    env = {**services.server_env(), "HOME": str(tmp_path)}
    done = subprocess.run([Mount.program, "db", tmp_path / "nowhere"], check=False, env=env, capture_output=True)
    assert done.returncode == 1
    assert (tmp_path / ".openduck" / "data").is_dir()
    env.pop("HOME")
    done = subprocess.run([Mount.program, "db", tmp_path / "nowhere"], check=False, env=env, capture_output=True)
    assert (done.returncode, b"--data-dir" in done.stderr) == (2, True), done.stderr


def test_a_mount_that_fails_leaves_nothing(data, tmp_path):
    done = run("--data-dir", data, "--temp-dir", tmp_path, "db", tmp_path / "nowhere")
    assert (done.returncode, "nowhere" in done.stderr) == (1, True), done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["data"]
    with Mount(data):  # the lease was given back
        pass
