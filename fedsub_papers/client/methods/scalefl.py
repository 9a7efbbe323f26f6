"""ScaleFL, the device half (Ilhan et al. 2023): later exits count more, the last one teaches."""

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.models.chain import require_chain
from fedsub_core.models.model import Model, Params
from fedsub_core.training import Turn
from fedsub_core.training.objectives import CE, CrossEntropy, Objective
from fedsub_papers.client.parts.distillation import Distillation
from fedsub_papers.models.exits import exits_of


class ScaleFLLearner(Learner):
    """Its model is the part that it received last, trained; what predicts has one exit."""

    def predicting(self, model: Model) -> Model:
        """Return the layers that lead to the deepest exit, as a model."""
        return require_chain(model).path

    def personal(self, state: State) -> Params:
        """Return the parameters of what leads to the deepest exit."""
        return {name: state[f"model.{name}"] for name in self.predictor.tensor_shapes}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, train all exits, send it back."""
        state, exits = self.receive(state, received), exits_of(require_chain(self.model))
        objective = Objective((CE,))
        if exits > 1:
            parts = tuple(2 * (i + 1) / (exits * (exits + 1)) for i in range(exits))
            late = turn.round > turn.rounds / 4
            taught = Distillation(self.hyper.kd * late, parts, self.hyper.temperature)
            objective = CrossEntropy(parts) + taught
        params, loss = self.train(self.get(state, "model"), data, turn, objective=objective)
        state = state | self.put(params, "model")
        return state, self.uploads(params, data), reported(training_loss=loss)
