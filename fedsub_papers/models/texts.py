"""Models of texts as token ids ``[length]``."""

import torch
from torch import Tensor, nn

from fedsub_core.data.samples import Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape

#: Numbers of a token's vector: the paper's 10 hidden units (section 3.1).
HIDDEN = 10


class FastText(nn.Module):
    """fastText's classifier: the mean of its tokens' vectors, and one layer.

    Joulin, Grave, Bojanowski and Mikolov, Bag of Tricks for Efficient Text Classification, EACL
    2017. The order of tokens does not count: n-grams are tokens of their own, hashed to ids of the
    vocabulary by who prepares the texts, as the paper hashes its bigrams. ``10 * vocabulary +
    11 * classes`` numbers.
    """

    #: The sample for which `fedsub models` shows its size.
    example = Tokens((64,), 10_000, 0)

    def __init__(self, input_shape: Shape, classes: int) -> None:
        super().__init__()
        if not isinstance(input_shape, Tokens):
            raise ConfigError(
                f"fasttext wants token ids, got samples of shape {input_shape}: federation.toml "
                "says sample = 'tokens' of them, `fedsub models` takes --vocabulary"
            )
        self.padding = input_shape.padding
        self.vectors = nn.Embedding(input_shape.vocabulary, HIDDEN, self.padding)
        # As the authors' code begins; PyTorch's normal vectors drown the first differences.
        with torch.no_grad():
            self.vectors.weight.uniform_(-1 / HIDDEN, 1 / HIDDEN)[self.padding] = 0
        self.last = nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[batch, classes]`` of ``x [batch, length]``; padding counts nothing."""
        real = (x != self.padding).unsqueeze(2).to(self.vectors.weight.dtype)
        mean = (self.vectors(x) * real).sum(1) / real.sum(1).clamp(min=1)
        logits: Tensor = self.last(mean)
        return logits
