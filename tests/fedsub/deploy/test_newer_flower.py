"""What a newer Flower lacks of what FedSub uses."""

import importlib.metadata
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedsub.commands import doctor
from fedsub.deploy import newer_flower
from fedsub.deploy.newer_flower import lacking, used, verdict
from fedsub_core.errors import RunError
from fedsub_core.flower.modules import HTTP

TRANSPORT = re.compile(r"grpc_rere|fleet_handlers|grpc_retry_invoker")


@pytest.fixture(scope="module")
def here() -> dict[str, bytes]:
    """Return the sources of the Flower that is installed, by module."""
    spec = find_spec("flwr")
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    found = {}
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
        found[module.removesuffix(".__init__")] = path.read_bytes()
    return found


def test_the_flower_that_is_here_lacks_nothing_of_its_own_release(here: dict[str, bytes]) -> None:
    uses = used()
    assert {"flwr.app", "flwr.supercore.superexec.run_superexec"} <= uses.keys()
    assert uses["flwr.clientapp.utils"] == {"load_app"}
    # Each release alone has its own transport's modules and names, and only there they are used.
    assert [one for one in lacking(uses, here) if not TRANSPORT.search(one)] == []
    assert "newer than" in verdict("9.9") and "newer than" not in verdict(f"{HTTP}.1")


def test_what_was_moved_or_renamed_is_named(here: dict[str, bytes]) -> None:
    uses = {"flwr.app": {"Message", "Telegram"}, "flwr.gone": {"thing"}, "flwr": {"app"}}
    assert list(lacking(uses, here)) == ["flwr.app: no Telegram", "flwr.gone: no such module"]


def test_without_a_network_it_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise RunError("no network")

    monkeypatch.setattr(newer_flower, "newest", nobody)
    (found,) = doctor._flower()
    assert (found.state, found.found) == ("note", "not known: no network")


def test_a_newer_one_is_a_note_with_what_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newer_flower, "newest", lambda: "2.0.0")
    monkeypatch.setattr(newer_flower, "lacking_in", lambda release: iter(["flwr.app: no Message"]))
    first, second = doctor._flower()
    assert "2.0.0 is newer" in first.found and "lacks 1" in first.found
    assert second.found == "flwr.app: no Message" and second.state == "note"
    now = importlib.metadata.version("flwr")
    monkeypatch.setattr(newer_flower, "newest", lambda: now)
    assert [one.state for one in doctor._flower()] == ["ok"]
