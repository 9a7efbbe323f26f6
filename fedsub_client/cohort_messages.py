"""What clients of a cohort are sent, read from bytes, and what they send, written as bytes."""

from __future__ import annotations

from dataclasses import replace

from fedsub_client.cohort import Cohort
from fedsub_core.secure import uploads as vectors
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire.bundle_tensors import LastTensors
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.codec import Address, compose_upload, decode_download
from fedsub_core.wire.envelope import Envelope, refusal
from fedsub_core.wire.lazy_message import LazyMessage

#: What somebody received who was sent nothing.
NOTHING = Bundle()


def read_download(
    cohort: Cohort,
    i: int,
    payload: bytes | LazyMessage,
    round: int,
    last: LastTensors | None = None,
) -> Bundle:
    """Decode the `i`-th client's download; `last`: what another of the cohort was sent.

    Raises MessageRefused if it does not fit this client, round and method.
    """
    reference = cohort.references[i] if cohort.settings.wire.upload.delta else None
    envelope = Envelope(
        cohort.clients[i].client,
        round,
        cohort.receives,
        reference,
        cohort.settings.wire.limit,
        cohort.settings.wire.largest,
    )
    return decode_download(payload, envelope, last)


def write_upload(
    cohort: Cohort,
    i: int,
    upload: Bundle,
    received: Bundle,
    round: int,
    levels: Levels | None = None,
) -> LazyMessage:
    """Encode the `i`-th client's upload, and remember what the server will then hold.

    With `levels` as one vector of whole numbers, which is yet to be masked.

    Raises MessageRefused if the server wants the upload itself in a run in which it is to learn
    sums alone.
    """
    address, sends = Address(cohort.clients[i].client, round), cohort.learner.sends
    if levels is not None:
        vector = cohort.learner.vector(upload, received, levels)
        declared = vectors.declared_of(len(vector))
        return compose_upload(vectors.in_bundle(vector), address, declared)
    if cohort.settings.secure.secure_aggregation and upload.tensors:
        what = "a question for the upload itself"
        raise refusal(address.client, round, "secure sum", what, "a plan of a sum beside it")
    if cohort.settings.secure.secure_aggregation and upload.version != received.version:
        upload = replace(upload, version=0)  # it might tell of samples
    reference, encoding = cohort.references[i], cohort.settings.wire.upload
    if reference is not None and encoding.delta and received.reference != reference.round:
        reference.forget()  # server and device do not hold the same: start anew
    return compose_upload(upload, address, sends, encoding, reference)
