"""Secure aggregation: a server learns the sum of people's vectors, and no single one.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017,
over the sparse graphs of Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic
Overhead, CCS 2020. Against a server that is curious and follows the protocol; ``docs/privacy.md``
says what one that does not could do.
"""
