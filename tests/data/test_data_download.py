"""Downloads from a server on the loopback; what fails leaves no half file in the
cache."""

import io
import subprocess
import threading
import zipfile
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from helpers import each, refuses

from workbench import data
from workbench.data.sources import SHA256, SOURCES, Source

TRAIN = b"1 1:0.5 3:2\n2 2:1\n1 1:3\n2 3:4\n"
TEST = b"2 2:7\n1 1:1\n"


@pytest.fixture
def server(monkeypatch):
    """Serve `pages`, path -> (body, the length that the header claims), until it is
    closed."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.requests.append(self.path)
            if not server.pages.get(self.path):
                self.send_error(404)
                return
            body, length = server.pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.requests = []
    server.pages = {"/toy": (TRAIN, len(TRAIN)), "/toy.t": (TEST, len(TEST))}
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def toy(monkeypatch, server, cache):
    """Register the source `toy`, a training and a test file."""
    files = {name: f"{server.url}/{name}" for name in ("toy", "toy.t")}
    source = Source("made up", (6, 3, 2), "none", 4, "libsvm sparse", files)
    monkeypatch.setitem(SOURCES, "toy", source)


def kept(cache):
    return sorted(
        path.relative_to(cache).as_posix()
        for path in cache.rglob("*")
        if path.is_file()
    )


def test_a_good_file_is_kept_with_its_checksum(server, cache, capfd, monkeypatch):
    monkeypatch.setitem(SHA256, "toy", sha256(TRAIN).hexdigest())
    with refuses("toy: not available; fetch it first", FileNotFoundError):
        data.check("toy")
    problem = data.load("toy")
    assert (problem.n, len(problem.y_test), problem.d) == (4, 2, 3)
    assert problem.classes.tolist() == [1, 2] and "made up" in problem.about
    assert kept(cache) == "SHA256SUMS toy.npz toy/toy toy/toy.t".split()
    assert (
        f"{sha256(TEST).hexdigest()}  toy/toy.t\n" in (cache / "SHA256SUMS").read_text()
    )
    server.pages.clear()
    assert data.load("toy").checksum == problem.checksum
    assert server.requests == ["/toy", "/toy.t"]
    assert data.fetch("toy") == data.check("toy")
    assert data.check("toy").startswith(
        "cache, 4 rows and 2 test rows, d = 3, k = 2; intact"
    )
    assert " cache " in data.available()["toy"]
    assert capfd.readouterr() == ("", "")


FAULTS = {
    "another checksum": ("does not match the known hash", {}),
    "cut short": ("/toy.t: ", {"/toy.t": (TEST[:5], len(TEST))}),
    "not there": ("404", {"/toy": None}),
    "a log-in page": (
        "cannot be read as LIBSVM",
        {"/toy": (b"<html>log in</html>", 19)},
    ),
    "empty": ("not the published data set", {"/toy": (b"", 0)}),
    "other rows": (
        r"not the published data set: rows: 4",
        {"/toy": (b"1 1:2\n2 2:3\n", 12)},
    ),
}


@each("fault", FAULTS)
def test_a_failed_download_leaves_nothing_and_says_why(
    fault, server, cache, monkeypatch
):
    message, pages = FAULTS[fault]
    server.pages |= pages
    if not pages:
        monkeypatch.setitem(SHA256, "toy", "0" * 64)
    with refuses(message, FileNotFoundError) as caught:
        data.load("toy")
    for told in (
        "WORKBENCH_DATA is not set",
        f"no toy.npz in {cache}",
        "data fetch toy",
    ):
        assert told in str(caught.value)
    assert kept(cache) == []
    with refuses(r"Make omniglot\.npz from its origin \(Omniglot", FileNotFoundError):
        data.load("omniglot")  # no public file of it is known


def test_a_recorded_checksum_refuses_other_bytes(server, cache):
    data.fetch("toy")
    whole = (cache / "toy.npz").read_bytes()
    (cache / "toy.npz").write_bytes(whole[:-4] + b"\0\0\0\1")
    for refuse in (data.load, data.check):
        with refuses(r"toy\.npz: has changed since download; delete it"):
            refuse("toy")
    ledger = (cache / "SHA256SUMS").read_bytes()
    for damaged in (bytes(100), ledger[:-40], ledger[:-80], b"\xff\n" + ledger):
        (cache / "SHA256SUMS").write_bytes(damaged)
        with refuses("SHA256SUMS: must contain checksums; delete"):
            data.load("toy")
    (cache / "SHA256SUMS").write_bytes(ledger)
    for file in ("toy.npz", "toy/toy"):
        (cache / file).unlink()
    server.pages["/toy"] = TRAIN.replace(b"0.5", b"0.6"), len(TRAIN)
    with refuses("does not match the known hash", FileNotFoundError):
        data.load("toy")
    assert kept(cache) == ["SHA256SUMS", "toy/toy.t"]
    server.pages.clear()
    (cache / "toy/toy").write_bytes(TRAIN)  # put there by hand
    assert data.load("toy").n == 4


def test_a_wheel_comes_through_pip_by_its_checksum(cache, monkeypatch):
    name = "toys-1.5-py3-none-any.whl"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("toys/toy.csv", "4,1,\n,\n1,a\n2,b\n3,a\n4,b\n")
    digest = sha256(content.getvalue()).hexdigest()

    def run(command, **_):
        folder, lock = (
            Path(command[command.index(word) + 1]) for word in ("--dest", "-r")
        )
        assert lock.read_text() == f"toys==1.5 --hash=sha256:{digest}"
        assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= {*command}
        if failing:
            return subprocess.CompletedProcess(
                command, 1, stderr="WARNING: a\nERROR: no index\n"
            )
        (folder / name).write_bytes(content.getvalue())
        return subprocess.CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setitem(SHA256, name, digest)
    source = Source("", (4, 1, 2), route="zipped mrcpy", files={name: f"pip:{name}"})
    monkeypatch.setitem(SOURCES, "toy", replace(source, members=["toy.csv"]))
    failing = True
    with refuses(f"download: pip:{name}: ERROR: no index", FileNotFoundError):
        data.load("toy")
    failing = False
    assert data.load("toy @ given").X.ravel().tolist() == [1, 2, 3, 4]
    assert kept(cache) == ["SHA256SUMS", "toy.npz", f"wheels/{name}"]
