"""An authority that can sign for some names alone (RFC 5280, 4.2.1.10).

A phone on which it is installed trusts it with no other site, whoever gets its key.
"""

from collections.abc import Sequence
from ipaddress import ip_network

from cryptography import x509


def bound_to(names: Sequence[x509.GeneralName]) -> x509.NameConstraints:
    """Return the constraint to some names; of a kind that has none, no name is left."""
    hosts = [x509.DNSName(n.value.removeprefix("*.")) for n in names if isinstance(n, x509.DNSName)]
    networks = [x509.IPAddress(ip_network(n.value)) for n in names if isinstance(n, x509.IPAddress)]
    every = [x509.IPAddress(ip_network(whole)) for whole in ("0.0.0.0/0", "::/0")]
    lacking = [x509.DNSName("")] * (not hosts) + every * (not networks)
    return x509.NameConstraints([*hosts, *networks], lacking or None)


def is_bound(ca: x509.Certificate) -> bool:
    """Whether an authority can sign for some names alone."""
    return any(isinstance(one.value, x509.NameConstraints) for one in ca.extensions)
