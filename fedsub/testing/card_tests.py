"""What holds for every method's card."""

import json
import re

from fedsub.testing.cover import itself, of
from fedsub_client.learner import Learner
from fedsub_client.new_cohort import make_learner
from fedsub_client.predictor import Predictor
from fedsub_core.methods.card import Hyperparameters
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.options import describe
from fedsub_core.training import TrainingSettings
from strategies.rounds.server_half import ServerHalf

#: What the server itself measures: no device may report it.
MEASURED = re.compile(
    r"bytes_.*|confusion.*|.*_replies|messages_resent|resting|clusters|macro_f1|weighted_f1|f1|loss|"
    r"accuracy|examples"
)


class CardTests:
    """What a card must say, and what it may not."""

    @of(itself)
    def test_a_card_is_complete(self, name: str) -> None:
        card = METHODS[name]
        assert card.name == name and card.paper and card.idea and card.up and card.down
        assert card.choose and card.privacy, "what a person needs who chooses a method"
        for sums in (False, True):
            assert issubclass(card.load_learner(sums), Learner)
            assert issubclass(card.load_strategy(sums), ServerHalf)
        assert issubclass(card.load_predictor(), Predictor)
        assert card.prediction.shares.keys() <= set(card.reports)
        hyper = card.hyperparameters()
        assert isinstance(hyper, Hyperparameters) and hyper.tested in ("received", "trained")
        assert all(option.doc for option in describe(card.hyperparameters))
        for model in (mlp(3, 6), cnn1d(3, 128, 6)):
            for declared in (card.sends(model, hyper), card.receives(model, hyper)):
                # Names stand in keys of states and databases, where "/" and line breaks part them.
                assert all(re.fullmatch(r"[a-z0-9_.]+", tensor) for tensor in declared)
        assert card.cost(hyper, 3).round >= card.cost(hyper, 1).round > 0
        assert all(re.fullmatch(r"[a-z0-9_]+", report) for report in card.reports)
        assert not any(MEASURED.fullmatch(report) for report in card.reports)

    @of(itself)
    def test_what_predicts_is_told_by_a_file_and_goes_by_a_persons_tensors(self, name: str) -> None:
        card, model = METHODS[name], mlp(3, 6)
        learner = make_learner(card, model, TrainingSettings(lr=0.001), card.agreed())
        predictor = learner.predictor
        facts = predictor.describe()
        if facts is None:
            assert type(predictor) is Predictor, "a file would be read as the model's alone"
        else:
            told = json.loads(json.dumps(facts))
            assert card.load_predictor().described(model, told) == predictor
        personal = learner.personal(learner.init(2, 0))
        shapes = {name: tuple(tensor.shape) for name, tensor in personal.items()}
        assert shapes == {name: (2, *shape) for name, shape in predictor.tensor_shapes.items()}
