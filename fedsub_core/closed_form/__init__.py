"""Heads in closed form: statistics that are sums of whole numbers, and what solves heads of them.

Source: analytic federated learning (He et al., AFL, CVPR 2025; Fanì et al., Fed3R, ICML 2024) sums
``phi^T phi`` and ``phi^T Y`` over people, so that one round gives the ridge head of everybody's
data. Ours on top: each person's own samples weigh more, as much as leave-one-out on them says.
"""
