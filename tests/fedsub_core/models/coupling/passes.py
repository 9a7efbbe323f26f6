"""Modules whose passes do to units what people's modules do, and which units each has."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Shape = tuple[int, ...]
WINDOW, CLASSES = (3, 20), 4


class Pass(nn.Module):
    """Layers by name, and a function that says what is done with them."""

    def __init__(self, does: Callable[[Any, Tensor], Any], **layers: nn.Module) -> None:
        super().__init__()
        self.does = does
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.does(self, x)
        return logits


def bidirectional() -> nn.Module:
    """Return two layers of a GRU, both ways; the last states of both are read."""

    def does(self: Any, x: Tensor) -> Any:
        _, last = self.gru(x.permute(2, 0, 1))
        return self.last(torch.cat([last[-2], last[-1]], 1))

    return Pass(does, gru=nn.GRU(3, 6, num_layers=2, bidirectional=True), last=nn.Linear(12, 4))


def stepwise() -> nn.Module:
    """Return a recurrent layer without biases, whose steps are summed one by one."""

    def does(self: Any, x: Tensor) -> Any:
        seen, _ = self.rnn(x.transpose(1, 2))
        total = torch.zeros(1)
        for step in seen.transpose(0, 1):
            total = total + step
        return self.last(total)

    return Pass(does, rnn=nn.RNN(3, 6, batch_first=True, bias=False), last=nn.Linear(6, 4))


def cells() -> nn.Module:
    """Return a GRU's steps, and on each an LSTM's, taken by hand."""

    def does(self: Any, x: Tensor) -> Any:
        low: Any = None
        high: Any = None
        for step in x.unbind(2):
            low = self.gru(step, low)
            high = self.lstm(low, high)
        return self.last(torch.cat([low, high[0]], 1))

    return Pass(does, gru=nn.GRUCell(3, 5), lstm=nn.LSTMCell(5, 6), last=nn.Linear(11, 4))


def groups_of_channels() -> nn.Module:
    """Return a GroupNorm of four groups of three channels."""
    return nn.Sequential(
        nn.Conv1d(3, 12, 3), nn.GroupNorm(4, 12), nn.GELU(), nn.Flatten(), nn.Linear(216, 4)
    )


def squeezed() -> nn.Module:
    """Return a block that weighs channels by what all of them are."""

    def does(self: Any, x: Tensor) -> Any:
        x = self.norm(self.conv(x)).relu()
        much = self.up(self.down(x.mean(-1)).relu()).sigmoid()
        return self.last((x * much[:, :, None]).amax(2))

    return Pass(
        does,
        conv=nn.Conv1d(3, 8, 3),
        norm=nn.BatchNorm1d(8),
        down=nn.Linear(8, 5),
        up=nn.Linear(5, 8),
        last=nn.Linear(8, 4),
    )


def dense() -> nn.Module:
    """Return two layers side by side, normalised together, beside the input."""

    def does(self: Any, x: Tensor) -> Any:
        both = self.norm(torch.cat(tensors=(self.one(x), x, self.other(x)), dim=1))
        return self.last(F.adaptive_avg_pool1d(both, 2).flatten(1))

    return Pass(
        does,
        one=nn.Conv1d(3, 5, 3, padding=1),
        other=nn.Conv1d(3, 7, 1),
        norm=nn.BatchNorm1d(15),
        last=nn.Linear(30, 4),
    )


def side_by_side() -> nn.Module:
    """Return two layers side by side, and one of all their channels that is added."""

    def does(self: Any, x: Tensor) -> Any:
        both = torch.cat([self.one(x), self.other(x)], 1).relu()
        return self.last((both + self.all(both)).mean(2))

    return Pass(
        does,
        one=nn.Conv1d(3, 5, 1),
        other=nn.Conv1d(3, 2, 1),
        all=nn.Conv1d(7, 7, 1),
        last=nn.Linear(7, 4),
    )


def gated() -> nn.Module:
    """Return two ways of gating one half of the channels by the other."""

    def does(self: Any, x: Tensor) -> Any:
        x = F.glu(self.first(x), dim=1)
        values, gates = self.second(x).chunk(2, dim=1)
        return self.last((values * torch.sigmoid(gates)).mean(2))

    return Pass(does, first=nn.Conv1d(3, 12, 3), second=nn.Conv1d(6, 10, 3), last=nn.Linear(5, 4))


def padded() -> nn.Module:
    """Return a mean of embedded tokens but those of padding: a mask and a count scale units."""

    def does(self: Any, x: Tensor) -> Any:
        real = (x >= 1).unsqueeze(2)
        seen = (real * self.embedding(x.long())).masked_fill(~real, 0)
        return self.last(seen.sum(1) / real.sum(1).clamp(min=1))

    return Pass(does, embedding=nn.Embedding(9, 6), last=nn.Linear(6, 4))


def tokens() -> nn.Module:
    """Return a mean of embedded tokens, and an LSTM over them."""

    def does(self: Any, x: Tensor) -> Any:
        seen = self.embedding(x.long())
        states, _ = self.lstm(seen)
        return self.last(torch.cat([seen.mean(1), states[:, -1]], 1))

    return Pass(
        does,
        embedding=nn.Embedding(9, 6),
        lstm=nn.LSTM(6, 5, batch_first=True),
        last=nn.Linear(11, 4),
    )


def up_again() -> nn.Module:
    """Return a transposed convolution, weights of a norm of one's own and of a PReLU."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 3, stride=2, padding_mode="circular", padding=1),
        nn.PReLU(8),
        nn.ConvTranspose1d(8, 6, 4, stride=2),
        nn.InstanceNorm1d(6, affine=True),
        nn.ReflectionPad1d(2),
        nn.Tanh(),
        nn.AvgPool1d(3),
        nn.Flatten(),
        nn.Linear(48, 4),
    )


def in_groups() -> nn.Module:
    """Return a depthwise convolution of two filters a channel, and one of four groups."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 3),
        nn.Conv1d(8, 16, 3, groups=8),
        nn.BatchNorm1d(16),
        nn.ReLU6(),
        nn.Conv1d(16, 12, 1),
        nn.Conv1d(12, 20, 3, groups=4),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(20, 4),
        nn.LogSoftmax(1),
    )


def weighed() -> nn.Module:
    """Return weights of one's own: of channels, of places, and of a matrix."""

    def does(self: Any, x: Tensor) -> Any:
        x = self.conv(x) * self.scale.view(1, -1, 1) + 0.5
        x = (x.transpose(1, 2) + self.places) * self.by_time.softmax(0)
        return self.last((x @ self.matrix).relu().sum(dim=1))

    made = Pass(does, conv=nn.Conv1d(3, 6, 3), last=nn.Linear(7, 4))
    made.scale = nn.Parameter(torch.rand(6))
    made.places = nn.Parameter(torch.randn(18, 6))
    made.by_time = nn.Parameter(torch.randn(18, 1))
    made.matrix = nn.Parameter(torch.randn(6, 7))
    return made


def twice() -> nn.Module:
    """Return a layer that computes twice, and so reads its own units."""

    def does(self: Any, x: Tensor) -> Any:
        seen = self.first(x.flatten(1)).relu()
        return self.last(self.again(self.again(seen).relu()).relu())

    return Pass(does, first=nn.Linear(60, 7), again=nn.Linear(7, 7), last=nn.Linear(7, 4))


def attending() -> nn.Module:
    """Return a mean over time, weighed by what is seen there."""

    def does(self: Any, x: Tensor) -> Any:
        x = self.conv(x).relu().transpose(1, 2)
        much = self.much(x).softmax(dim=1)
        return self.last((x * much).sum(1))

    return Pass(does, conv=nn.Conv1d(3, 6, 3), much=nn.Linear(6, 1), last=nn.Linear(6, 4))


def over_time() -> nn.Module:
    """Return a layer that mixes moments, each channel for itself, and a mean of two layers."""

    def does(self: Any, x: Tensor) -> Any:
        one, other = self.one(x), self.other(x)
        x = torch.stack([one, other], 1).mean(1)
        return self.last(self.fewer(self.moments(x).relu())[:, :, -1])

    return Pass(
        does,
        one=nn.Conv1d(3, 6, 3),
        other=nn.Conv1d(3, 6, 3),
        moments=nn.Linear(18, 18),
        fewer=nn.Linear(18, 5),
        last=nn.Linear(6, 4),
    )


def around() -> nn.Module:
    """Return a way around everything, so that a layer makes as many channels as there come in."""

    def does(self: Any, x: Tensor) -> Any:
        x = x + self.out(self.into(x).relu())
        return self.last(F.max_pool1d(x, 2).flatten(1))

    return Pass(does, into=nn.Conv1d(3, 8, 1), out=nn.Conv1d(8, 3, 1), last=nn.Linear(30, 4))


def normalised_over() -> nn.Module:
    """Return norms over units: a LayerNorm, an RMSNorm, and a GroupNorm of one group."""

    def does(self: Any, x: Tensor) -> Any:
        x = self.group(self.conv(x)).transpose(1, 2)
        x = self.layer(self.hidden(x)).relu()
        return self.last(self.root(self.more(x)).mean(1))

    return Pass(
        does,
        conv=nn.Conv1d(3, 8, 3),
        group=nn.GroupNorm(1, 8),
        hidden=nn.Linear(8, 9),
        layer=nn.LayerNorm(9),
        more=nn.Linear(9, 7),
        root=nn.RMSNorm(7, eps=1e-5),
        last=nn.Linear(7, 4),
    )


#: Module, shape of a sample, size of each group of units.
PASSES: dict[str, tuple[Callable[[], nn.Module], Shape, dict[str, int]]] = {
    "bidirectional": (bidirectional, WINDOW, {"gru": 6}),
    "stepwise": (stepwise, WINDOW, {"rnn": 6}),
    "cells": (cells, WINDOW, {"gru": 5, "lstm": 6}),
    "groups of channels": (groups_of_channels, WINDOW, {"0": 4}),
    "squeezed": (squeezed, WINDOW, {"conv": 8, "down": 5}),
    "dense": (dense, WINDOW, {"one": 5, "other": 7}),
    "side by side": (side_by_side, WINDOW, {"one": 5, "other": 2}),
    "gated": (gated, WINDOW, {"first": 6, "second": 5}),
    "tokens": (tokens, (12,), {"embedding": 6, "lstm": 5}),
    "padded": (padded, (12,), {"embedding": 6}),
    "up again": (up_again, WINDOW, {"0": 8, "2": 6}),
    "in groups": (in_groups, WINDOW, {"0": 8, "4": 4}),
    "weighed": (weighed, WINDOW, {"conv": 6, "matrix": 7}),
    "twice": (twice, WINDOW, {"first": 7}),
    "attending": (attending, WINDOW, {"conv": 6}),
    "over time": (over_time, WINDOW, {"one": 6}),
    "around": (around, WINDOW, {"into": 8}),
    "normalised over": (normalised_over, WINDOW, {"conv": 8, "hidden": 9, "more": 7}),
}
