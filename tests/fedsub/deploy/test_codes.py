"""Codes as people type them, and what is derived from them, by numbers that other devices know."""

import hashlib
import hmac

import pytest

from fedsub.deploy.codes import (
    SYMBOLS,
    JoinRequest,
    checked_url,
    new_code,
    plain,
    seal_of,
    token_hash,
    token_of,
)
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError

CODE = "0123-4567-89AB-CDEF-GHJK"


def test_a_code_is_random_and_has_100_bits() -> None:
    codes = {new_code() for _ in range(500)}
    assert len(codes) == 500
    assert {len(plain(code)) for code in codes} == {20}
    assert set("".join(map(plain, codes))) == set(SYMBOLS) and len(SYMBOLS) == 32


@pytest.mark.parametrize(
    "typed", [CODE, CODE.lower(), CODE.replace("-", " "), "ol23456789ABCDEFGHJK", f"\t{CODE}\n"]
)
def test_a_code_may_be_typed_as_one_reads_it(typed: str) -> None:
    assert plain(typed) == "0123456789ABCDEFGHJK"
    assert token_of(typed) == token_of(CODE)


@pytest.mark.parametrize("typed", ["", CODE[:-1], f"{CODE}0", CODE.replace("A", "U"), "é" * 20])
def test_no_code_is_refused_and_not_repeated(typed: str) -> None:
    with refused(ConfigError, "code", expected=20) as caught:
        plain(typed)
    assert not typed or typed not in str(caught.value)


def test_what_is_sent_is_as_the_page_says() -> None:
    """Written a second time, from the text of docs/deployment.md."""
    symbols = CODE.replace("-", "")
    token = hashlib.sha256(b"fedsub-join 1 token " + symbols.encode())
    secret = hashlib.sha256(b"fedsub-join 1 seal " + symbols.encode()).digest()
    seal = hmac.new(secret, b"anna\nPEM\n", "sha256").hexdigest()
    assert token_of(CODE) == token.hexdigest()
    assert seal_of(CODE, "anna", "PEM\n") == seal
    text = f"fedsub-join 1\n{token.hexdigest()}\nanna\n{seal}\nPEM\n"
    assert JoinRequest("anna", "PEM\n", token.hexdigest(), seal).text == text.encode()
    assert token_hash(token.hexdigest()) != token.hexdigest()


@pytest.mark.parametrize("url", ["https://fl.example.org:9092", "https://[::1]:443/"])
def test_a_servers_address(url: str) -> None:
    assert checked_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    ["http://fl.example.org:9092", "https://fl.example.org", "https://a:x", "https://:1", "a:1",
     "https://a:1/path", "https://u@a:1", "https://a:1/?q", "https://a:1/#CODE"],
)  # fmt: skip
def test_no_servers_address(url: str) -> None:
    with refused(ConfigError, "URL", url):
        checked_url(url)
