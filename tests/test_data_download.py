"""Downloads, against a server on the loopback: what fails leaves no half file in the cache."""

import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workbench import data
from workbench.data import routes as data_routes
from workbench.data.routes import File, Route, Source, libsvm
from workbench.data.sources import SOURCES

TRAIN = b"1 1:0.5 3:2\n2 2:1\n1 1:3\n2 3:4\n"
TEST = b"2 2:7\n1 1:1\n"


class Server:
    """Serves `pages`: path -> (body, the length that the header claims)."""

    def __init__(self):
        pages = self.pages = {}
        self.requests = []
        seen = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.path)
                if self.path not in pages:
                    self.send_error(404)
                    return
                body, length = pages[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def put(self, path, body, length=None):
        self.pages[path] = (body, len(body) if length is None else length)

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server()
    server.put("/toy", TRAIN)
    server.put("/toy.t", TEST)
    yield server
    server.close()


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def register(monkeypatch, server, cache):
    """Register the source `toy` with one route: its training and test file, each with mirrors."""

    def add(*hosts, sha256=None, shape=(6, 3, 2)):
        (route,) = libsvm("toy", "toy.t")
        digests = (sha256, None)
        files = tuple(
            File(file.name, tuple(f"{host}/{file.name}" for host in hosts or (server.url,)), digest)
            for file, digest in zip(route.files, digests)
        )
        routes = (Route(files, route.parse, "loopback"),)
        source = Source(shape, "none", "made up", n_train=4, routes=routes)
        monkeypatch.setitem(SOURCES, "toy", source)

    return add


def kept(cache):
    return sorted(path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file())


def refused(match):
    with pytest.raises(FileNotFoundError, match=match) as caught:
        data.load("toy")
    return str(caught.value)


def test_a_good_file(register, server, cache, capfd):
    register(sha256=sha256(TRAIN).hexdigest())
    assert not data.check("toy").ok
    problem = data.load("toy")
    assert (problem.n, len(problem.y_test), problem.d) == (4, 2, 3)
    assert problem.classes.tolist() == [1, 2]
    assert "made up" in problem.about
    assert kept(cache) == ["SHA256SUMS", "toy.npz", "toy/toy", "toy/toy.t"]
    assert f"{sha256(TEST).hexdigest()}  toy/toy.t\n" in (cache / "SHA256SUMS").read_text()
    server.pages.clear()
    assert data.load("toy").checksum == problem.checksum
    assert server.requests == ["/toy", "/toy.t"]
    assert data.fetch("toy").ok
    assert data.check("toy").where == "cache"
    assert {entry.name: entry.where for entry in data.available()}["toy"] == "cache"
    assert capfd.readouterr() == ("", "")


def test_a_wrong_checksum(register, cache):
    register(sha256="0" * 64)
    message = refused("does not match the known hash")
    assert "WORKBENCH_DATA is not set" in message
    assert f"no toy.npz in {cache}" in message
    assert "workbench data fetch toy" in message
    assert kept(cache) == []


def test_a_file_cut_short(register, server, cache):
    register()
    server.put("/toy.t", TEST[:5], length=len(TEST))
    refused("/toy.t: ")
    assert kept(cache) == []


def test_a_server_that_is_down(register, server, cache):
    register()
    server.close()
    refused(f"{server.url}/toy: ")
    assert kept(cache) == []


def test_a_missing_file_is_not_taken_for_its_error_page(register, server, cache):
    register()
    del server.pages["/toy"]
    refused("404")
    assert kept(cache) == []


@pytest.mark.parametrize("body", [b"<html>log in first</html>", b"", b"1 1:2\n2 2:3\n"])
def test_other_content_than_the_published_set_is_not_kept(register, server, cache, body):
    register()
    server.put("/toy", body)
    refused("cannot be read as LIBSVM|not the published set: rows: [24], published 6")
    assert kept(cache) == []


def test_a_dead_mirror_and_a_good_one(register, server, cache):
    dead = Server()
    dead.close()
    register(dead.url, f"{server.url}/gone", server.url)
    assert data.load("toy").n == 4
    assert "toy.npz" in kept(cache)


def test_a_recorded_checksum_refuses_other_bytes(register, server, cache):
    register()
    data.fetch("toy")
    for file in ("toy.npz", "toy/toy"):
        (cache / file).unlink()
    server.put("/toy", TRAIN.replace(b"0.5", b"0.6"))
    refused("does not match the known hash")
    assert kept(cache) == ["SHA256SUMS", "toy/toy.t"]
    server.put("/toy", TRAIN)
    assert data.fetch("toy").ok


def test_a_file_of_the_cache_that_has_changed(register, server, cache):
    register()
    data.fetch("toy")
    whole = (cache / "toy.npz").read_bytes()
    (cache / "toy.npz").write_bytes(whole[:-4] + b"\0\0\0\1")
    with pytest.raises(ValueError, match=r"toy\.npz: is not as it was fetched; delete it"):
        data.load("toy")
    assert not data.check("toy").ok
    (cache / "toy.npz").unlink()
    server.close()
    assert data.load("toy").n == 4  # from the files that are still there


def test_files_put_there_by_hand(register, server, cache):
    register()
    server.close()
    (cache / "toy").mkdir(parents=True)
    (cache / "toy/toy").write_bytes(TRAIN)
    (cache / "toy/toy.t").write_bytes(TEST)
    assert data.load("toy").n == 4


def test_a_second_route(register, server, monkeypatch, cache):
    register()
    good = SOURCES["toy"]
    (route,) = good.routes
    broken = Route((File("page", (f"{server.url}/toy",)),), lambda *_: {}["no member"], "broken")
    source = Source(good.shape, "", "", n_train=4, routes=(broken, route))
    monkeypatch.setitem(SOURCES, "toy", source)
    assert data.load("toy").n == 4
    assert "toy/page" not in kept(cache)


def test_sets_without_a_public_file_say_so(cache):
    with pytest.raises(FileNotFoundError, match="no public file has these rows") as caught:
        data.load("omniglot")
    assert "Make omniglot.npz from its origin (Omniglot, Lake et al." in str(caught.value)
    assert "WORKBENCH_DATA" in str(caught.value)
    assert kept(cache) == []


def test_download_gives_up_with_the_answer_of_every_mirror(server, tmp_path):
    file = File("toy", (f"{server.url}/no", f"{server.url}/never"))
    with pytest.raises(OSError, match=r"(?s)/no: 404.*/never: 404"):
        data_routes.download(file, tmp_path / "toy")
    assert list(tmp_path.iterdir()) == []
