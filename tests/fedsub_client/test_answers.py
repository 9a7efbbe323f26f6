"""What several clients of a cohort answer at once is what each of their devices answers alone."""

import numpy as np
import torch

from fedsub_client.answers import Asked, evaluate, train
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import NOTHING
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.config.run_config import read_config
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.turn import Turn
from fedsub_core.wire.exchange import METRICS, PAYLOAD, REPORT, Instructions

CARD = Card("made", "test", ("a", "b", "c"), ("p", "q"))


def person(client: str, seed: int) -> SplitClient:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 60)
    x = rng.normal(y[:, None], 1, (60, 2)).astype(np.float32)
    return split_client(ClientData(client, x, y), CARD, SplitSettings("stratified"))


def cohort(method: str, *clients: SplitClient, **more: bool) -> Cohort:
    given: dict[str, str | bool] = {"method": method, "standardise": "none", **more}
    return make_cohort(read_config(None, given).device_settings(method), CARD, clients)


def asked(place: int, also: bool = False) -> Asked:
    return Asked(place, Instructions(Turn(1, 3, 0), "any", also_evaluate=also), NOTHING)


def test_several_answer_as_each_alone() -> None:
    people = [person("a", 1), person("b", 2)]
    together = cohort("fedsub", *people)
    answers, state = train(together, [asked(0), asked(1, also=True)])
    assert METRICS not in answers[0] and METRICS in answers[1]
    assert all(len(tensor) == 1 for tensor in state.values())  # of who was tested
    for i, one in enumerate(people):
        alone = cohort("fedsub", one)
        ((answer,), _), said = train(alone, [asked(0, also=i == 1)]), answers[i]
        assert list(answer) == list(said) and answer[REPORT]["training_loss"] > 0
        assert said[PAYLOAD].to_bytes() == answer[PAYLOAD].to_bytes()
        assert said.get(METRICS) == answer.get(METRICS)
        for name, tensor in alone.state.items():
            assert torch.equal(together.state[name][i], tensor[0])


def test_counts_by_class_stay_with_a_device_where_the_run_says_so() -> None:
    one, quiet = (cohort("local", person("a", 1), **{"class-counts": on}) for on in (True, False))
    ((said,), _), ((less,), _) = evaluate(one, [asked(0)]), evaluate(quiet, [asked(0)])
    assert sum(said[METRICS].pop("confusion")[2::3]) == said[METRICS]["examples"] > 0
    assert less == said


def test_what_nobody_has_to_say_is_no_part_of_an_answer() -> None:
    one = cohort("local", person("a", 1))
    (content,), state = train(one, [asked(0)])
    assert list(content) == [PAYLOAD, REPORT] and state == {}
    (tested,), state = evaluate(one, [asked(0)])
    assert list(tested) == [METRICS] and tested[METRICS]["examples"] == len(one.clients[0].test_y)
    assert train(one, []) == evaluate(one, []) == ([], {})
