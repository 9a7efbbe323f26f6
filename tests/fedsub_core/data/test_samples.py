"""Images and token ids in the federation format: what is kept as it is, and every refusal."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client, read_client
from fedsub_core.data.feature_store import FeatureStore
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.fingerprint import card_digest
from fedsub_core.data.samples import Pixels, Tokens, facts_of, kept_shape, shape_with
from fedsub_core.data.sensors import Windows
from fedsub_core.errors import DataError

IMAGES = Card("pictures", "test", ("a", "b"), ("red", "green", "blue"), sample="image")
TEXTS = Card("texts", "test", ("a", "b"), ("word",), sample="tokens", vocabulary=9, padding=0)
PICTURES = np.zeros((4, 3, 5, 6), np.uint8)
WORDS = np.array([[1, 2, 0], [8, 0, 0], [3, 3, 3], [1, 0, 2]])
Y = np.array([0, 1, 0, 1])
WINDOWS = Windows((5, 20), ((0, 3), (1, 2, 4)))


def checked(card: Card, x: Any) -> ClientData:
    return check_client(Path("p.npz"), "p", {"x": x, "y": Y}, card)


def test_bytes_beyond_memory_stay_bytes() -> None:
    store = FeatureStore(memory=10)
    arrays = [np.arange(n, dtype=np.uint8).reshape(1, 1, n, 1) for n in (7, 5, 13)]
    for array in arrays:
        store.put(array)
    for ours, array in zip(store.arrays(), arrays, strict=True):
        assert ours.dtype == np.uint8
        np.testing.assert_array_equal(ours, array)


def test_what_is_kept_without_a_card_that_says_so() -> None:
    said = Card("it", "test", ("a", "b"), ("red", "green", "blue"))
    assert checked(said, PICTURES).x.dtype == np.uint8
    assert checked(said, PICTURES.astype(np.float16)).x.dtype == np.float32
    # Bytes of vectors and windows are numbers like others, as ever.
    assert checked(said, PICTURES[:, :, 0, 0]).x.dtype == np.float32
    assert checked(said, PICTURES[:, :, 0]).x.dtype == np.float32
    assert checked(TEXTS, WORDS).x.dtype == np.int32


@pytest.mark.parametrize(
    ("card", "x", "said"),
    [
        (
            IMAGES,
            PICTURES.astype(np.int64),
            r"x: got int64, expected uint8 \(0 to 255\) or a float",
        ),
        (IMAGES, PICTURES[:, :, 0], r"\[n, 3, height, width\], the card's features"),
        (
            IMAGES,
            PICTURES.transpose(0, 2, 3, 1),
            r"x: got shape \(4, 5, 6, 3\), expected \[n, 3, h",
        ),
        (TEXTS, WORDS.astype(np.float32), "x: got float32, expected an integer type. Write ids"),
        (TEXTS, WORDS[:, None], r"x: got shape \(4, 1, 3\), expected \[n, length\]"),
        (TEXTS, WORDS + 1, "x, row 1, place 0: got token 9, expected 0 to 8, the card's vocab"),
        (TEXTS, WORDS - 1, "x, row 0, place 2: got token -1, expected 0 to 8"),
        (TEXTS, WORDS.astype(np.uint64) + 2**40, "got token 1099511627777, expected 0 to 8"),
        (TEXTS, WORDS * [[1], [1], [0], [1]], "x, row 2: got padding 0 alone, expected one token"),
    ],
)
def test_refused_samples(card: Card, x: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"p.npz: client 'p': .*{said}"):
        checked(card, x)


def test_images_of_several_sizes_and_types_are_refused(tmp_path: Path) -> None:
    one = checked(IMAGES, PICTURES)
    for x, said in (
        (np.zeros((4, 3, 6, 6), np.uint8), r"'q' has features of shape \(3, 6, 6\).*Resize all"),
        (PICTURES.astype(np.float32), "'q' has x of float32, client 'p' of uint8"),
    ):
        other = ClientData("q", x, Y)
        with pytest.raises(DataError, match=said):
            write_federation(tmp_path / "it", Federation(IMAGES, {"p": one, "q": other}))


def test_images_of_several_sizes_in_one_file_are_refused(tmp_path: Path) -> None:
    x = np.empty(2, object)
    x[0], x[1] = PICTURES[0], PICTURES[1, :, :4]
    np.savez(tmp_path / "p.npz", x=x, y=Y[:2])
    with pytest.raises(DataError, match=r"p.npz: .*, as where samples differ in size"):
        read_client(tmp_path / "p.npz", IMAGES)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sample": "picture"}, r"sample: got 'picture', expected features, window, image, tokens"),
        ({"sample": ["image"]}, r"sample: got \['image'\]"),
        ({"sample": "tokens"}, "key 'vocabulary' is missing; every federation of tokens has it"),
        (
            {"sample": "tokens", "vocabulary": 1},
            "vocabulary: got 1, expected a whole number from 2",
        ),
        ({"sample": "tokens", "vocabulary": 9, "padding": 9}, "padding: got 9, .* from 0 to 8"),
        ({"sample": "tokens", "vocabulary": True}, "vocabulary: got True"),
        ({"sample": "tokens", "vocabulary": 9, "features": ["a", "b"]}, "features: .* one name"),
        ({"vocabulary": 9}, "vocabulary: got 9 for samples of kind 'not said'"),
        ({"sample": "image", "padding": 0}, "padding: got 0 for samples of kind 'image'"),
        ({"sample": "image", "overlap": 0.5}, "overlap: got 0.5 for samples of kind 'image'"),
        ({"sample": "tokens", "vocabulary": 9, "window_s": 2}, "window_s: got 2 for samples"),
        ({"sensors": [[0, 1], [1, 2]]}, r"sensors: got channel 1 in sensor \[1, 2\], .* twice"),
        ({"sensors": [[0, 3]]}, "sensors: got channel 3 .* below 3"),
        ({"sensors": [[0, -1]]}, "sensors: got channel -1"),
        ({"sensors": [[]]}, r"sensors: got sensor \[\]"),
        ({"sensors": []}, r"sensors: got \[\]"),
        ({"sensors": [0, 1]}, "sensors: got sensor 0"),
        ({"sensors": [[0, 1.0]]}, r"sensors: got channel 1\.0"),
        ({"sensors": [[0, True]]}, "sensors: got channel True"),
        ({"sensors": "xyz"}, "sensors: got 'xyz'"),
        ({"sensors": [[0, 1]], "sample": "image"}, r"sensors: got \[\[0, 1\]\], .*'image'"),
    ],
)
def test_refused_cards(keys: dict[str, Any], said: str) -> None:
    table = {"name": "it", "task": "test", "classes": ["a", "b"], "features": ["red"]} | keys
    if "sensors" in keys:
        table["features"] = ["ax", "ay", "az"]
    if keys.get("sample") == "tokens" and "features" not in keys:
        del table["features"]
    with pytest.raises(DataError, match=said):
        parse_card(table, Path("federation.toml"))


def test_a_card_of_tokens_needs_little() -> None:
    table = {"name": "it", "task": "test", "classes": ["a", "b"], "sample": "tokens"}
    card = parse_card(table | {"vocabulary": 9}, Path("federation.toml"))
    assert (card.features, card.padding) == (("token",), 0)
    assert parse_card(card_table(card), Path("federation.toml")) == card
    window = Card("it", "test", ("a", "b"), ("red",), overlap=0.5)
    with pytest.raises(DataError, match="overlap for images"):
        check_client(Path("p.npz"), "p", {"x": np.zeros((4, 1, 2, 2)), "y": Y}, window)


def test_older_cards_keep_their_digest() -> None:
    plain = Card("toy", "test", ("a", "b"), ("u",))
    assert card_digest(plain) == "29c54908450afc3fdecc72d9"
    kinds = [Card("toy", "test", ("a", "b"), ("u",), sample=k) for k in ("features", "window")]
    kinds.append(replace(plain, sensors=((0, 1),)))
    assert len({card_digest(card) for card in (plain, *kinds)}) == 4


@pytest.mark.parametrize("shape", [(3,), (2, 9), Pixels((3, 4, 4)), Tokens((7,), 9, 2), WINDOWS])
def test_a_shape_says_what_its_numbers_are(shape: tuple[int, ...]) -> None:
    assert pickle.loads(pickle.dumps(shape)) == shape
    back = shape_with(tuple(shape), facts_of(shape))
    assert back == shape and type(back) is type(shape) and hash(back) == hash(shape)
    assert (tuple(shape) == shape) is (type(shape) is tuple)


def test_a_cards_sensors_are_read_back_and_said_of_windows_alone() -> None:
    table = {"name": "it", "task": "test", "classes": ["a", "b"], "features": list("xyzh")}
    card = parse_card(table | {"sensors": [[2, 0, 1]]}, Path("federation.toml"))
    assert card.sensors == ((0, 1, 2),)
    assert parse_card(card_table(card), Path("federation.toml")) == card
    windows, vectors = np.zeros((2, 4, 20), np.float32), np.zeros((2, 4), np.float32)
    assert kept_shape(windows, None, None, None, card.sensors) == Windows((4, 20), ((0, 1, 2),))
    assert kept_shape(vectors, None, None, None, card.sensors) == (4,)


def test_shapes_that_differ_are_not_equal() -> None:
    assert WINDOWS != Windows((4, 20), ((0, 1, 2),)) != Windows((4, 20), ((0, 1, 3),))
    assert Tokens((7,), 9, 2) != Tokens((7,), 9, 0) != Tokens((7,), 8, 0)
    assert len({Tokens((7,), 9, 2), Tokens((7,), 9, 0), (7,), Pixels((1, 2, 2)), (1, 2, 2)}) == 5


@pytest.mark.parametrize(
    ("shape", "facts"),
    [
        ((7,), {"vocabulary": 1, "padding": 0}),
        ((7,), {"vocabulary": 9}),
        ((7,), {"vocabulary": 9, "padding": 9}),
        ((7,), {"vocabulary": 9.0, "padding": 0}),
        ((7, 2), {"vocabulary": 9, "padding": 0}),
        ((7,), {"vocabulary": 2**21, "padding": 0}),
        ((3, 4), {"levels": 256}),
        ((3, 4, 4), {"levels": 2}),
        ((3, 9), {"sensor_of": [0, 0]}),
        ((3, 9), {"sensor_of": "000"}),
        ((3,), {"sensor_of": [0, 0, 0]}),
        ((3, 9), {"sensor_of": [0, 0, 1]}),
        ((3, 9), {"sensor_of": [-1, -1, -1]}),
        ((3, 9), {"sensor_of": [0, 0, -2]}),
        ((3, 9), {"sensor_of": [0, 0, 2**40]}),
        ((3, 9), {"sensor_of": [0, 0, True]}),
    ],
)
def test_facts_of_no_samples_are_refused(shape: tuple[int, ...], facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        shape_with(shape, facts)
