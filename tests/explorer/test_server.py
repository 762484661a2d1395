"""Who gets an answer: this machine, its own page, with the token. All others are refused."""

import http.client
import json
import socket
import threading

import pytest

import paoswarm as ps
from paoswarm.explorer.server import Server

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def page():
    with ps.explore() as explorer:
        yield explorer


def ask(page, method="POST", path=None, body=b"{}", **headers):
    """Status, headers and text of one request; ``Host`` and others as given."""
    port, token = page.address.split(":")[2].split("/")[:2]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=300)
    given = {**JSON, "Host": f"127.0.0.1:{port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, f"/{token}/api/controls" if path is None else path.replace("TOKEN", token), body, given)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, dict(response.getheaders()), text


def test_its_own_page_gets_answers(page):
    status, headers, text = ask(page)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(text)["runs"] == []
    port = page.address.split(":")[2].split("/")[0]
    assert ask(page, Origin=f"http://127.0.0.1:{port}", Sec_Fetch_Site="same-origin")[0] == 200
    assert ask(page, Host="localhost:8765", Origin="http://localhost:8765")[0] == 200  # a forwarded port


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "192.168.0.7:80", "localhost.evil:1", "["),
        "127.0.0.1:80@evil.example",
    ],
)
def test_a_foreign_host_is_refused(page, host):
    for method, path in (("POST", None), ("GET", "/TOKEN/")):
        status, _, text = ask(page, method, path, Host=host)
        assert (status, text) == (403, "this server answers this machine only\n")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_page_is_refused(page, headers):
    status, _, text = ask(page, **headers)
    assert (status, text) == (403, "this server answers its own page only\n")


@pytest.mark.parametrize(
    "path",
    ["/", "/api/controls", "//api/controls", "/wrong/api/controls", "/TOKENx/api/controls", "/%C3%A9/", "/index.html"],
)
def test_without_the_token_nothing_is_shown(page, path):
    for method in ("GET", "POST"):
        status, headers, text = ask(page, method, path)
        assert status == 403
        assert "has no token" in text
        assert "script" not in text
        assert page.address not in text + str(headers)


def test_a_form_of_another_page_cannot_ask(page):
    assert ask(page, Content_Type="text/plain")[0] == 415
    assert ask(page, "OPTIONS", Origin="http://evil.example")[0] == 501


@pytest.mark.parametrize(
    "path", ["/TOKEN/../server.py", "/TOKEN/%2e%2e/server.py", "/TOKEN/static/page.css", "/TOKEN//etc/passwd"]
)
def test_only_files_of_the_page_are_sent(page, path):
    assert ask(page, "GET", path, None)[0] == 404


def test_the_page_may_load_its_own_files_only(page):
    status, headers, text = ask(page, "GET", "/TOKEN/", None)
    assert status == 200
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    assert "http://" not in text
    assert "https://" not in text


@pytest.mark.parametrize(
    ("body", "status"), [(b"[]", 422), (b"{", 422), (b"\xff", 422), (b"[" * 50_000, 422), (b" " * 200_000, 413)]
)
def test_nonsense_is_answered_with_a_sentence(page, body, status):
    found, _, text = ask(page, body=body)
    assert found == status
    assert text.strip()
    assert ask(page)[0] == 200  # and the server goes on


def test_a_wrong_question_is_a_sentence(page):
    for what, given, said in (("run", {"run": 7}, "no such run"), ("swarm", {"local": 0, "leader": 0}, "must pull")):
        status, _, text = ask(page, path=f"/TOKEN/api/{what}", body=json.dumps(given).encode())
        assert status == 422
        assert said in json.loads(text)["error"]
    assert ask(page, path="/TOKEN/api/nothing")[0] == 404


def test_it_listens_on_this_machine_only():
    with ps.explore() as explorer:
        assert explorer.address.startswith("http://127.0.0.1:")
        assert explorer._server.socket.getsockname()[0] == "127.0.0.1"


def test_it_ends_and_leaves_nothing_behind():
    before = threading.active_count()
    explorer = ps.explore()
    port = int(explorer.address.split(":")[2].split("/")[0])
    assert ask(explorer)[0] == 200
    explorer.close()
    explorer.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=300)
    assert threading.active_count() <= before + 1  # the thread of the last request may take a moment
    with ps.explore(port=port) as again:  # the port is free
        assert again.address != explorer.address


def test_an_open_connection_ends_with_the_server():
    explorer = ps.explore()
    port, token = explorer.address.split(":")[2].split("/")[:2]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=300)
    for _ in range(2):  # the second question uses the same connection
        connection.request("POST", f"/{token}/api/controls", b"{}", JSON)
        assert connection.getresponse().read()
    same = connection.sock
    assert same is not None
    explorer.close()
    same.settimeout(5)
    assert same.recv(1) == b""  # the end
    connection.close()


def test_every_start_has_its_own_token():
    with ps.explore() as one, ps.explore() as other:
        assert one.address.split("/")[-2] != other.address.split("/")[-2]
        assert len(one.address.split("/")[-2]) >= 32


def test_a_port_that_is_taken_is_a_sentence():
    with ps.explore() as first:
        port = int(first.address.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match=f"cannot listen on port {port}: address already in use; choose another"):
            ps.explore(port=port)
    with pytest.raises(ValueError, match="port must be at most 65535"):
        Server(port=70000)


def test_a_notebook_shows_the_page(page):
    assert f'src="{page.address}"' in page._repr_html_()
    assert repr(page) == f"Explorer('{page.address}')"


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "<b>"])
def test_unknown_methods_are_refused_with_the_headers_of_all_answers(page, method):
    status, headers, text = ask(page, method)
    assert status == 501
    assert text.startswith("Unsupported method")
    _, known, _ = ask(page)
    same = {"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cache-Control"}
    assert {name: headers.get(name) for name in same} == {name: known[name] for name in same}
    assert headers["Content-Type"].startswith("text/plain")


def test_an_address_that_is_none_is_answered(page):
    assert ask(page, "GET", "http://[::1/")[0] == 400


def test_a_whole_number_beyond_all_numbers_is_taken_for_the_largest(tmp_path):
    ps.minimize(lambda x: float((x**2).sum()), [(-5, 5)] * 2, maxfev=30, rng=1, store=tmp_path / "run")
    with ps.explore(tmp_path / "run") as page:
        for question, name, most in (("run", "share", 1.0), ("pair", "across", 1), ("pair", "up", 1)):
            answers = []
            for given in (10**400, most):
                body = json.dumps({name: given}).encode()
                answers.append(ask(page, path=f"/TOKEN/api/{question}", body=body)[::2])
            assert answers[0] == answers[1]
            assert answers[0][0] == 200
