from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NumberFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FLOAT32: _ClassVar[NumberFormat]
    BFLOAT16: _ClassVar[NumberFormat]
    INT8: _ClassVar[NumberFormat]
FLOAT32: NumberFormat
BFLOAT16: NumberFormat
INT8: NumberFormat

class Bundle(_message.Message):
    __slots__ = ("schema_version", "client_id", "round", "examples", "version", "numbers", "differences", "reference", "tensors", "salt")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    client_id: str
    round: int
    examples: int
    version: int
    numbers: NumberFormat
    differences: bool
    reference: int
    tensors: _containers.RepeatedCompositeFieldContainer[Tensor]
    salt: bytes
    def __init__(self, schema_version: _Optional[int] = ..., client_id: _Optional[str] = ..., round: _Optional[int] = ..., examples: _Optional[int] = ..., version: _Optional[int] = ..., numbers: _Optional[_Union[NumberFormat, str]] = ..., differences: bool = ..., reference: _Optional[int] = ..., tensors: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., salt: _Optional[bytes] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "shape", "units", "elements", "values", "scales", "sent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    units: bytes
    elements: bytes
    values: bytes
    scales: bytes
    sent: bytes
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., units: _Optional[bytes] = ..., elements: _Optional[bytes] = ..., values: _Optional[bytes] = ..., scales: _Optional[bytes] = ..., sent: _Optional[bytes] = ...) -> None: ...
