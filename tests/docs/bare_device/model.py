"""The model `mlp` in numpy: first weights, forward pass, gradients, training, metrics."""

import hashlib
from itertools import pairwise

import numpy as np

Array = np.ndarray
Params = dict[str, Array]
HIDDEN = (128, 512)


def first_weights(features: int, classes: int, seed: int) -> Params:
    """Draw the model that all devices begin with."""
    digest = hashlib.blake2b(f"{seed}\x1f\x1f0\x1fmodel".encode(), digest_size=8).digest()
    twister = np.random.RandomState((int.from_bytes(digest, "little") >> 1) & 0xFFFFFFFF)
    params, sizes = {}, (features, *HIDDEN, classes)
    for i, (fan_in, units) in enumerate(pairwise(sizes), start=1):
        bound = np.float32(1 / np.sqrt(fan_in))
        for name, shape in (("weight", (units, fan_in)), ("bias", (units,))):
            r = twister.randint(0, 2**32, size=int(np.prod(shape)), dtype=np.uint32)
            u = (r % 2**24).astype(np.float32) / np.float32(2**24)
            params[f"linear{i}.{name}"] = ((2 * u - 1) * bound).reshape(shape)
    return params


def layers(params: Params) -> list[str]:
    """Return the layers' names, in order."""
    return [name.removesuffix(".weight") for name in params if name.endswith(".weight")]


def forward(params: Params, x: Array) -> list[Array]:
    """Return what each layer makes of `x`, after ReLU; the last are the logits."""
    made, names = [], layers(params)
    for name in names:
        x = x @ params[f"{name}.weight"].T + params[f"{name}.bias"]
        x = x if name == names[-1] else np.maximum(x, 0)
        made.append(x)
    return made


def log_softmax(logits: Array) -> Array:
    """Return logarithms of probabilities."""
    shifted: Array = logits - logits.max(1, keepdims=True)
    logs: Array = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return logs


def gradients(params: Params, x: Array, y: Array) -> tuple[Params, float]:
    """Return the gradient of the mean cross-entropy, and that."""
    made, found = forward(params, x), {}
    logs = log_softmax(made[-1])
    loss = -logs[np.arange(len(y)), y].mean()
    grad = np.exp(logs)
    grad[np.arange(len(y)), y] -= 1
    grad /= np.float32(len(y))
    for i, name in reversed(list(enumerate(layers(params)))):
        seen = made[i - 1] if i else x
        found[f"{name}.weight"], found[f"{name}.bias"] = grad.T @ seen, grad.sum(0)
        grad = (grad @ params[f"{name}.weight"]) * (seen > 0)
    return found, float(loss)


def train(
    params: Params,
    x: Array,
    y: Array,
    epochs: int,
    lr: float,
    momentum: float,
    batch: int,
    seed: int,
) -> tuple[Params, float]:
    """Return the model after SGD whose momentum starts at zero, and the mean loss of its steps."""
    params, losses, order = dict(params), [], np.random.default_rng(seed)
    buffers = {name: np.zeros_like(tensor) for name, tensor in params.items()}
    for _ in range(epochs):
        shuffled = order.permutation(len(y))
        for chosen in (shuffled[i : i + batch] for i in range(0, len(y), batch)):
            found, loss = gradients(params, x[chosen], y[chosen])
            losses.append(loss)
            for name, gradient in found.items():
                buffers[name] = np.float32(momentum) * buffers[name] + gradient
                params[name] = params[name] - np.float32(lr) * buffers[name]
    return params, float(np.mean(losses))


def metrics(params: Params, x: Array, y: Array) -> dict[str, float]:
    """Return how the model does on test samples."""
    logits = forward(params, x)[-1]
    guess = logits.argmax(1)
    f1, share = {}, {}
    for label in np.union1d(y, guess).tolist():
        hits = ((y == label) & (guess == label)).sum()
        f1[label] = float(2 * hits / ((y == label).sum() + (guess == label).sum()))
        share[label] = float((y == label).mean())
    return {
        "macro_f1": float(np.mean(list(f1.values()))),
        "weighted_f1": min(1.0, sum(f1[label] * share[label] for label in f1)),
        "accuracy": float((guess == y).mean()),
        "loss": float(-log_softmax(logits)[np.arange(len(y)), y].mean()),
        "examples": float(len(y)),
        **{f"f1.{label}": value for label, value in f1.items()},
    }
