"""The papers' wing: baselines that publications compare with, found by their entry points alone.

Methods for weak devices (all but HeteroFL) and pruning, their models, data sets, studies and tests.
Nothing of the house imports it: to FedSub it is a package that offers things, as anybody's may.
Cards, models and device halves import ``fedsub_core``, device halves ``fedsub_client``, too, and
server halves (``fedsub_papers/strategies``) ``strategies`` instead.
"""
