"""Certificates for tests of TLS, made by the openssl command when they are first asked for."""

import atexit
import functools
import pathlib
import shutil
import subprocess
import tempfile

import grpc

SERVER = "DNS:localhost,IP:127.0.0.1,IP:::1"


def _openssl(folder, *args):
    done = subprocess.run(["openssl", *args], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _key(folder, name):
    _openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name + ".key")


def make_ca(folder, name):
    _key(folder, name)
    subject = "/CN=%s" % name
    _openssl(
        folder, "req", "-x509", "-new", "-key", name + ".key", "-days", "30", "-subj", subject, "-out", name + ".pem"
    )


def make_cert(folder, name, ca, alternatives=SERVER, days=30):
    """NAME.pem and NAME.key of CA. DAYS below 0: it has been out of date for as long."""
    _key(folder, name)
    request, extensions = name + ".csr", name + ".ext"
    (pathlib.Path(folder) / extensions).write_text("subjectAltName=%s\n" % alternatives if alternatives else "\n")
    _openssl(folder, "req", "-new", "-key", name + ".key", "-subj", "/CN=localhost", "-out", request)
    sign = ["x509", "-req", "-in", request, "-CA", ca + ".pem", "-CAkey", ca + ".key", "-extfile", extensions]
    _openssl(folder, *sign, "-days", str(days), "-out", name + ".pem")


@functools.cache
def folder():
    """ca, other-ca, server, expired, elsewhere, client and stranger (of other-ca), each as .pem and .key."""
    path = tempfile.mkdtemp(prefix="openduck-tls-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    make_ca(path, "ca")
    make_ca(path, "other-ca")
    make_cert(path, "server", "ca")
    make_cert(path, "expired", "ca", days=-1)
    make_cert(path, "elsewhere", "ca", alternatives="DNS:elsewhere.example")
    make_cert(path, "client", "ca", alternatives=None)
    make_cert(path, "stranger", "other-ca")
    return pathlib.Path(path)


def path(name):
    return str(folder() / name)


def listen(cert="server", client_ca=None):
    """The options of a listener with TLS."""
    args = ["--tls-cert", path(cert + ".pem"), "--tls-key", path(cert + ".key")]
    return [*args, "--tls-client-ca", path(client_ca + ".pem")] if client_ca else args


def dial(ca="ca", cert=None):
    """The options of a client's."""
    args = ["--tls-ca", path(ca + ".pem")] if ca else []
    return [*args, "--tls-cert", path(cert + ".pem"), "--tls-key", path(cert + ".key")] if cert else args


def _bytes(name):
    return (folder() / name).read_bytes()


def client_credentials(ca="ca", cert=None):
    """For grpcio."""
    pair = (_bytes(cert + ".key"), _bytes(cert + ".pem")) if cert else (None, None)
    return grpc.ssl_channel_credentials(_bytes(ca + ".pem"), *pair)


def server_credentials(cert="server", client_ca=None):
    pairs = [(_bytes(cert + ".key"), _bytes(cert + ".pem"))]
    if client_ca:
        return grpc.ssl_server_credentials(pairs, _bytes(client_ca + ".pem"), require_client_auth=True)
    return grpc.ssl_server_credentials(pairs)
