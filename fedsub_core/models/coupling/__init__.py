"""Which units of a module belong together, found by following one pass through it.

Every value of the pass carries a label, the unit that it is of; an operation that only moves values
moves the labels by the same operation, one that adds values says that their labels are one.

Why not a library. Torch-Pruning 1.6.1 (kept up, torch and NumPy alone) reads the graph of autograd:
it sees no buffer that is multiplied in, finds no unit of an LSTM, GRU or Embedding, and cuts
channels of a GroupNorm one by one, which then fails. ``torch.fx`` cannot follow a pass that asks
for ``x.ndim``; ``torch.export`` can, but loads a compiler onto a phone. What is used is PyTorch's
own ``TorchFunctionMode``, which sees each call of a real pass with real shapes.
"""
