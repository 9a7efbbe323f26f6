"""Modules as people bring them: a CNN with BatchNorm and Dropout, an LSTM, a residual net."""

import torch
from torch import Tensor, nn

Shape = tuple[int, ...]


def normalised(shape: Shape, classes: int) -> nn.Module:
    """A small CNN with BatchNorm and Dropout; of feature vectors, fully connected."""
    if len(shape) == 1:
        return nn.Sequential(
            nn.Linear(shape[0], 12),
            nn.BatchNorm1d(12),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(12, classes),
        )
    return nn.Sequential(
        nn.Conv1d(shape[0], 8, 5, padding=2),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32, classes),
    )


class Recurrent(nn.Module):
    """An LSTM over time; its last state is the embedding."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(shape[0], 10, batch_first=True)
        self.last = nn.Linear(10, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ``x [batch, channels, time]``, or of vectors as one moment."""
        steps = x[:, None] if x.ndim == 2 else x.transpose(1, 2)
        seen, _ = self.lstm(steps)
        logits: Tensor = self.last(seen[:, -1])
        return logits


class Block(nn.Module):
    """Two layers and the way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x + f(x)``."""
        way: Tensor = self.second(torch.relu(self.first(self.norm(x))))
        return x + way


class Residual(nn.Module):
    """A residual net whose first layer is frozen."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.flat = nn.Flatten()
        self.stem = nn.LazyLinear(12)
        self.blocks = nn.Sequential(Block(12), Block(12))
        self.head = nn.Linear(12, classes)
        self.register_buffer("scale", torch.full((12,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.head(self.blocks(self.stem(self.flat(x)) * self.scale))
        return logits


def residual(shape: Shape, classes: int) -> nn.Module:
    """Return a residual net whose norms of the first block are frozen."""
    made = Residual(shape, classes)
    made.blocks[0].norm.requires_grad_(False)
    return made


class ResidualCNN(nn.Module):
    """Convolutions with BatchNorm, two of them with a way around; of vectors, as one channel."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        channels = shape[0] if len(shape) == 2 else 1
        self.stem = nn.Conv1d(channels, 8, 5, padding=2, bias=False)
        self.first = nn.Conv1d(8, 8, 3, padding=1, bias=False)
        self.second = nn.Conv1d(8, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2, self.norm3 = (nn.BatchNorm1d(8) for _ in range(3))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.last = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of windows ``x [batch, channels, time]``."""
        x = x[:, None] if x.ndim == 2 else x
        x = self.norm1(self.stem(x)).relu()
        x = (x + self.norm3(self.second(self.norm2(self.first(x)).relu()))).relu()
        logits: Tensor = self.last(self.pool(x).flatten(1))
        return logits


MODULES = {
    "normalised": normalised,
    "recurrent": Recurrent,
    "residual": residual,
    "convolved": ResidualCNN,
}
