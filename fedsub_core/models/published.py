"""Models of windows ``[channels, time]``."""

from __future__ import annotations

from torch import Tensor, nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape


def har_cnn(input_shape: Shape, classes: int) -> nn.Sequential:
    """Return the CNN that benchmarks of personalised FL use for UCI HAR.

    Convolutions of 32 and 64 channels and kernel 9, each with a maximum over two; fully connected
    layers of 1,024 and 512 units: 2,253,958 numbers of windows 9 x 128 and 6 classes.
    """
    if len(input_shape) != 2 or input_shape[1] < 28:
        raise ConfigError(
            f"har-cnn wants windows [channels, time] of 28 samples or more, got {input_shape}"
        )
    channels, time = input_shape
    time = ((time - 8) // 2 - 8) // 2
    return nn.Sequential(
        nn.Conv1d(channels, 32, 9),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(32, 64, 9),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(64 * time, 1024),
        nn.ReLU(),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )


class TwoLSTMs(nn.Module):
    """The report CA-AFP's model of windows: LSTM(64), LSTM(64), 32 units, classes.

    53,222 numbers of 3 channels and 6 classes, 512 more than the report's 52,710: PyTorch's LSTM
    has two biases.
    """

    def __init__(self, input_shape: Shape, classes: int) -> None:
        super().__init__()
        if len(input_shape) != 2:
            raise ConfigError(f"lstm wants windows [channels, time], got {input_shape}")
        self.lstm = nn.LSTM(input_shape[0], 64, num_layers=2, batch_first=True)
        self.hidden = nn.Linear(64, 32)
        self.last = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[batch, classes]`` of ``x [batch, channels, time]``."""
        seen, _ = self.lstm(x.transpose(1, 2))
        logits: Tensor = self.last(self.hidden(seen[:, -1]).relu())
        return logits
