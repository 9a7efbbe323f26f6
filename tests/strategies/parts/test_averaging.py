"""Means over uploads, with numbers that can be checked in one's head."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError
from fedsub_core.placement import EVERYWHERE, Placement
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts import averaging
from strategies.parts.averaging import Rule, robust_mean, weighted_mean, weights
from strategies.parts.clipping import most_added


def upload(examples: int, **tensors: list[float]) -> Bundle:
    parts = {name: Floats(np.array(values, np.float32)) for name, values in tensors.items()}
    return Bundle(examples, tensors=parts)


def mean_over(uploads: dict[str, Bundle], *names: str) -> dict[str, torch.Tensor]:
    """The mean by samples of uploads that hold all numbers."""
    first = next(iter(uploads.values()))
    start = {name: torch.zeros(first.floats(name).shape) for name in names}
    return weighted_mean(uploads, start, weights(uploads))


def test_one_and_three_samples_of_zero_and_four_are_three() -> None:
    """(1 * 0 + 3 * 4) / (1 + 3) = 3."""
    mean = mean_over({"anna": upload(1, body=[0.0]), "ben": upload(3, body=[4.0])}, "body")
    assert mean.keys() == {"body"} and mean["body"].tolist() == [3.0]
    assert mean["body"].dtype == torch.float32


def test_every_entry_and_every_tensor_has_its_own_mean() -> None:
    uploads = {
        "anna": upload(2, body=[1.0, -1.0], head=[8.0]),
        "ben": upload(1, body=[4.0, 2.0], head=[2.0]),
        "cleo": upload(1, body=[2.0, 0.0], head=[-2.0]),
    }
    mean = mean_over(uploads, "head", "body")
    assert mean["body"].tolist() == [2.0, 0.0]
    assert mean["head"].tolist() == [4.0]


def test_only_what_is_named_is_averaged() -> None:
    uploads = {"anna": upload(1, body=[1.0], head=[2.0])}
    assert mean_over(uploads, "body").keys() == {"body"}
    assert mean_over(uploads) == {}
    with pytest.raises(KeyError, match="tail"):
        weighted_mean(uploads, {"tail": torch.zeros(1)}, [1.0])


def test_the_uploads_are_left_as_they_are() -> None:
    one, other = upload(1, body=[1.0]), upload(1, body=[3.0])
    mean = mean_over({"anna": one, "ben": other}, "body")
    mean["body"] += 10
    assert one.floats("body").tolist() == [1.0] and other.floats("body").tolist() == [3.0]


def test_numbers_that_may_not_be_written_are_averaged() -> None:
    """Arrays that stand in a message's bytes are read only."""
    values = np.frombuffer(np.array([2.0, 4.0], "<f4").tobytes(), "<f4")
    assert not values.flags.writeable
    mean = mean_over({"anna": Bundle(5, tensors={"body": Floats(values)})}, "body")
    assert mean["body"].tolist() == [2.0, 4.0]


def moved(*values: float, examples: int = 1) -> dict[str, Bundle]:
    """Uploads of one number each."""
    return {f"c{i}": upload(examples, body=[value]) for i, value in enumerate(values)}


def mean_of(uploads: dict[str, Bundle], filters: str, share: float = 0.2) -> float:
    start = {"body": torch.zeros(1)}
    return robust_mean(uploads, start, RobustSettings.parse(filters, share))["body"].item()


def test_an_update_that_is_too_long_is_shortened_to_three_medians() -> None:
    """Nine of length 1 and one of 100: the last becomes 3, the mean (9 + 3) / 10."""
    ones = [1.0] * 9
    assert mean_of(moved(*ones, 100), "clip") == pytest.approx(1.2)
    assert mean_of(moved(*ones, -100), "clip") == pytest.approx(0.6)
    assert mean_of(moved(*ones, 100), "none") == pytest.approx(10.9)
    assert mean_of(moved(1, 2, 3, 2, 2, 2), "clip") == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("people", "most"), [(2, 3), (3, 1), (4, 1), (5, 4 / 3), (7, 2), (10, 3), (40, 3)]
)
def test_of_few_nobody_adds_more_than_a_third_of_what_the_others_do(
    people: int, most: float
) -> None:
    """Three medians would be three fifths of three people's mean."""
    ones = [1.0] * (people - 1)
    assert most_added(people) == pytest.approx(most)
    for far in (100.0, -100.0):
        expected = (people - 1 + np.sign(far) * most) / people
        assert mean_of(moved(*ones, far), "clip") == pytest.approx(expected)
    if people > 3:
        assert most <= (people - 1) / 3


def test_who_has_more_samples_of_few_still_counts_in_full() -> None:
    """Of three, who adds twice the median goes half the way, but nobody's weight is changed."""
    uploads = moved(1, 1) | {"big": upload(2, body=[1.0])}
    assert mean_of(uploads, "clip") == pytest.approx((1 + 1 + 1) / 4)
    assert mean_of(moved(1, 1) | {"big": upload(2, body=[0.5])}, "clip") == pytest.approx(3 / 4)


def test_two_that_are_longer_than_others_know_are_shortened_both() -> None:
    start, clip = {"body": torch.zeros(1)}, RobustSettings.parse("clip", 0.2)
    assert robust_mean(moved(6.0, -10.0), start, clip)["body"].item() == -2.0
    assert robust_mean(moved(6.0, -10.0), start, clip, longest=4.0)["body"].item() == 0.0
    assert robust_mean(moved(6.0, -1.0), start, clip, longest=4.0)["body"].item() == 1.0
    free = RobustSettings.parse("none", 0.2)
    assert robust_mean(moved(6.0, 1.0), start, free, longest=4.0)["body"].item() == 3.5


def test_weight_and_length_have_one_bound_together() -> None:
    """Of nine 1 and an update of `far` with n samples: weight times length is 3 at most."""
    ones = [1.0] * 9
    for n, far, adds in ((1, 2, 2), (1, 20, 3), (2, 1, 2), (2, 20, 3), (50, 1, 3), (50, 100, 3)):
        uploads = moved(*ones) | {"far": upload(n, body=[float(far)])}
        assert mean_of(uploads, "clip") == pytest.approx((9 + adds) / (9 + min(n, 3))), (n, far)
    # Who has fewer may go as much farther: it adds as much.
    uploads = {f"c{i}": upload(10, body=[1.0]) for i in range(9)}
    uploads["far"] = upload(1, body=[100.0])
    assert mean_of(uploads, "clip") == pytest.approx((90 + 30) / 91)


@pytest.mark.parametrize("examples", [1, 10, 2**48 - 1])
@pytest.mark.parametrize("factor", [-1.0, -30.0, 1e5, 0.0])
def test_no_single_upload_adds_more_than_three_times_the_middle_one(
    factor: float, examples: int
) -> None:
    stream = np.random.default_rng(7)
    honest = {
        f"c{i}": upload(int(n), body=stream.normal(1, 1, 20).tolist())
        for i, n in enumerate(stream.integers(4, 9, 9))
    }
    own = (factor * stream.normal(1, 1, 20)).tolist()
    uploads, start = honest | {"evil": upload(examples, body=own)}, {"body": torch.zeros(20)}
    robust = RobustSettings.parse("clip", 0.2)
    shares = dict(zip(uploads, weights(uploads, robust.most_examples), strict=True))
    added = {c: shares[c] * float(np.linalg.norm(u.floats("body"))) for c, u in uploads.items()}
    least = sum(shares[c] * torch.from_numpy(honest[c].floats("body").copy()) for c in honest)
    evils = (robust_mean(uploads, start, robust)["body"] - least).norm()
    assert evils <= 3 * sorted(added.values())[4] * (1 + 1e-5)


@pytest.mark.parametrize("filters", ["clip", "clip,multi-krum", "trimmed-mean", "median"])
def test_a_method_that_sends_nothing_has_nothing_to_filter(filters: str) -> None:
    uploads = {f"c{i}": Bundle(examples=5) for i in range(4)}
    assert robust_mean(uploads, {}, RobustSettings.parse(filters, 0.2)) == {}


def test_lengths_are_those_of_the_way_from_the_start() -> None:
    start = {"body": torch.tensor([10.0])}
    found = robust_mean(moved(*[11.0] * 9, 20), start, RobustSettings.parse("clip", 0.2))
    assert found["body"].item() == pytest.approx(11.2)


def test_what_is_not_clipped_is_mcmahans_mean_to_the_bit() -> None:
    stream = np.random.default_rng(0)
    uploads = {
        f"c{i}": upload(int(n), body=stream.normal(size=50).tolist())
        for i, n in enumerate(stream.integers(1, 9, 7))
    }
    start = {"body": torch.zeros(50)}
    found = robust_mean(uploads, start, RobustSettings.parse("clip", 0.2))
    assert torch.equal(found["body"], weighted_mean(uploads, start, weights(uploads))["body"])


def test_trimming_leaves_the_ends_of_every_number_out() -> None:
    """Of 5 with a share of 0.2 one at either end: (2 + 3 + 4) / 3; weights count."""
    assert mean_of(moved(1, 2, 3, 4, 1000), "trimmed-mean") == 3.0
    uploads = moved(1, 2, 3, 4, 1000) | {"c1": upload(3, body=[2.0])}
    assert mean_of(uploads, "trimmed-mean") == pytest.approx((3 * 2 + 3 + 4) / 5)
    two = {f"c{i}": upload(1, body=[float(i), -float(i)]) for i in range(5)}
    start = {"body": torch.zeros(2)}
    found = robust_mean(two, start, RobustSettings.parse("trimmed-mean", 0.2))
    assert found["body"].tolist() == [2.0, -2.0]


def test_the_median_has_half_of_the_people_on_either_side() -> None:
    assert mean_of(moved(5, 1, 1000), "median") == 5.0
    assert mean_of(moved(5, 1, 1000) | {"c1": upload(9, body=[1.0])}, "median") == 5.0
    assert mean_of(moved(4, 1, 2, 3), "median") == 2.0


def test_krum_leaves_out_who_is_far_from_its_neighbours() -> None:
    """Two of ten that agree with each other are still far from the seven nearest."""
    uploads = moved(1, 1.1, 0.9, 1, 1.2, 0.8, 1, 1, 40, 40)
    assert mean_of(uploads, "multi-krum") == pytest.approx(1.0)
    assert mean_of(uploads, "none") == pytest.approx(8.8)
    assert mean_of(uploads, "clip,multi-krum,median") == pytest.approx(1.0)


@pytest.mark.parametrize("filters", ["clip", "multi-krum", "trimmed-mean", "median"])
@pytest.mark.parametrize("values", [(), (3.0,), (3.0, 3.0), (0.0, 0.0, 0.0)])
def test_few_uploads(filters: str, values: tuple[float, ...]) -> None:
    assert mean_of(moved(*values), filters, share=0.4) == (values[0] if values else 0.0)


def test_nobody_counts_for_more_than_three_times_the_median() -> None:
    """Weights 1, 1, 3 instead of 1, 1, 2**48 - 1."""
    uploads = moved(0, 0, 10) | {"c2": upload(2**48 - 1, body=[10.0])}
    assert mean_of(uploads, "none") == pytest.approx(6.0)
    skewed = moved(1, 2) | {"c2": upload(10, body=[1.0])}
    assert weights(skewed, 10.0) == weights(skewed) == [1 / 12, 1 / 12, 10 / 12]
    assert weights(skewed, 3.0) == [0.2, 0.2, 0.6]


@pytest.mark.parametrize("filters", ["clap", "none,clip", "median,trimmed-mean"])
def test_filters_that_do_not_exist_or_exclude_each_other(filters: str) -> None:
    with pytest.raises(ConfigError, match="robust: "):
        read_config(None, {"robust": filters})


# Uploads that hold some of the numbers: one has the 2 x 4 weight whole, one two columns of a row.

FIRST_TWO = Placement(np.array([0]), np.array([0, 1]))
OLD = {"weight": torch.full((2, 4), 7.0)}
SHARED = torch.from_numpy(FIRST_TWO.held((2, 4)))


def two_sizes(samples: tuple[int, int] = (30, 10), large: float = 3.0) -> dict[str, Bundle]:
    """A large device's upload of threes, and a weak one's of ones."""
    whole = Floats(np.full((2, 4), large, np.float32))
    part = Floats(np.ones((1, 2), np.float32), FIRST_TWO)
    return {
        "anna": Bundle(samples[0], tensors={"weight": whole}),
        "ben": Bundle(samples[1], tensors={"weight": part}),
    }


@pytest.mark.parametrize(
    ("rule", "counted", "shared", "others"),
    [
        ("holders", (0.5, 0.5), 2.0, 3.0),
        ("holders", (0.75, 0.25), 2.5, 3.0),
        ("residual", (0.5, 0.5), 2.0, 5.0),  # (3 + 7) / 2
        ("residual", (0.75, 0.25), 2.5, 4.0),  # (3 * 3 + 7) / 4
    ],
)
def test_what_only_some_hold(
    rule: Rule, counted: tuple[float, float], shared: float, others: float
) -> None:
    found = weighted_mean(two_sizes(), OLD, counted, rule)["weight"]
    torch.testing.assert_close(found, torch.where(SHARED, shared, others))


@pytest.mark.parametrize("rule", ["holders", "residual"])
@pytest.mark.parametrize("filters", ["none", "clip"])
def test_what_nobody_holds_stays_bit_for_bit(rule: Rule, filters: str) -> None:
    old = {"weight": torch.randn(2, 4) / 3}
    uploads = {name: upload for name, upload in two_sizes().items() if name == "ben"}
    uploads |= {"cleo": uploads["ben"]}
    found = robust_mean(uploads, old, RobustSettings.parse(filters, 0.2), rule=rule)["weight"]
    assert torch.equal(found[~SHARED], old["weight"][~SHARED])
    assert (found[SHARED] == 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_one_placement_for_all_is_the_mean_of_the_values_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((3, 1, 2), np.float32)
    counted, start = [0.2, 0.3, 0.5], {"weight": torch.zeros(2, 4)}
    some, all_ = (
        {str(i): Bundle(1, tensors={"weight": Floats(one, at)}) for i, one in enumerate(values)}
        for at in (FIRST_TWO, EVERYWHERE)
    )
    found = weighted_mean(some, start, counted)["weight"]
    expected = weighted_mean(all_, {"weight": torch.zeros(1, 2)}, counted)["weight"]
    assert torch.equal(FIRST_TWO.take(found), expected)


def test_the_others_are_clipped_and_the_holders_mean_stays_theirs() -> None:
    """Ways of anna's length -4 in all, ben's -6 in two: as if in all; dora's 96 is shortened."""
    uploads = two_sizes((1, 1))
    uploads |= {f"cleo{i}": uploads["anna"] for i in range(7)}
    uploads["dora"] = two_sizes(large=103.0)["anna"]
    uploads["dora"] = replace(uploads["dora"], examples=1)
    found = robust_mean(uploads, OLD, RobustSettings.parse("clip", 0.2))["weight"]
    # The lower median of eight ways of 4, one of 6 and one of 96 is 4: of ten dora may go 12. Of
    # the nine who hold the others, as far as a third of eight.
    torch.testing.assert_close(found[~SHARED], torch.full((6,), 7 + (-8 * 4 + 32 / 3) / 9))
    torch.testing.assert_close(found[SHARED], torch.full((2,), 7 + (-8 * 4 - 6 + 12) / 10))


@pytest.mark.parametrize("rule", ["holders", "residual"])
@pytest.mark.parametrize("sizes", [False, True])
def test_a_mean_by_blocks_of_people_is_the_mean_of_all(
    rule: Rule, sizes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads, start = moved(1, 2, 3, 400, 5, 6, 7), {"body": torch.zeros(1)}
    if sizes:
        seven = {f"{i}": two_sizes(large=7.5 if i < 6 else 40.0) for i in range(7)}
        uploads, start = {i + c: u for i, own in seven.items() for c, u in own.items()}, OLD
    settings = RobustSettings.parse("clip", 0.2)
    whole = robust_mean(uploads, start, settings, rule=rule)
    plain = weighted_mean(uploads, start, weights(uploads), rule)
    assert all(not torch.allclose(whole[name], plain[name]) for name in start), "some is shortened"
    monkeypatch.setattr(averaging, "BLOCK_NUMBERS", 16 if sizes else 2)
    torch.testing.assert_close(robust_mean(uploads, start, settings, rule=rule), whole)


def test_an_update_that_is_shortened_to_nothing_leaves_the_others_numbers_fine() -> None:
    stream = np.random.default_rng(0)
    values = stream.normal(0, 0.05, (11, 1000)).astype(np.float32)
    honest = values[:10].astype(np.float64).mean(0) * 10 / 11
    values[10, 0] = 1e15
    uploads = {f"c{i}": upload(1, body=own.tolist()) for i, own in enumerate(values)}
    start = {"body": torch.zeros(1000)}
    mean = robust_mean(uploads, start, RobustSettings.parse("clip", 0.2))["body"].numpy()
    np.testing.assert_allclose(mean[1:], honest[1:], rtol=1e-3, atol=1e-6)


def test_the_same_numbers_at_places_written_otherwise_are_shortened_alike() -> None:
    """What is cut off an update stays where it began, also where all begin far from 0."""
    found = []
    for at in (EVERYWHERE, Placement(rows=np.arange(2))):
        uploads = {f"c{i}": upload(1, body=[9.0 + i, 9.0]) for i in (1, 1.5, 2, 2.5, 900)}
        first = replace(uploads["c1"].part("body"), at=at)
        uploads["c1"] = replace(uploads["c1"], tensors={"body": first})
        start = {"body": torch.full((2,), 9.0)}
        found.append(robust_mean(uploads, start, RobustSettings.parse("clip", 0.2))["body"])
    torch.testing.assert_close(*found)
