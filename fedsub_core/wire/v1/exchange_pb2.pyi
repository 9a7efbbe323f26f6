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

class Upload(_message.Message):
    __slots__ = ("schema_version", "client_id", "round", "examples", "layers", "classes", "tensors", "prototype_version", "numbers", "differences", "reference")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    client_id: str
    round: int
    examples: int
    layers: _containers.RepeatedCompositeFieldContainer[LayerRows]
    classes: _containers.RepeatedCompositeFieldContainer[ClassArtifact]
    tensors: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    prototype_version: int
    numbers: NumberFormat
    differences: bool
    reference: int
    def __init__(self, schema_version: _Optional[int] = ..., client_id: _Optional[str] = ..., round: _Optional[int] = ..., examples: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerRows, _Mapping]]] = ..., classes: _Optional[_Iterable[_Union[ClassArtifact, _Mapping]]] = ..., tensors: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ..., prototype_version: _Optional[int] = ..., numbers: _Optional[_Union[NumberFormat, str]] = ..., differences: bool = ..., reference: _Optional[int] = ...) -> None: ...

class Download(_message.Message):
    __slots__ = ("schema_version", "client_id", "round", "layers", "tensors", "prototype_version", "numbers", "reference", "differences")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    client_id: str
    round: int
    layers: _containers.RepeatedCompositeFieldContainer[LayerRows]
    tensors: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    prototype_version: int
    numbers: NumberFormat
    reference: int
    differences: bool
    def __init__(self, schema_version: _Optional[int] = ..., client_id: _Optional[str] = ..., round: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerRows, _Mapping]]] = ..., tensors: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ..., prototype_version: _Optional[int] = ..., numbers: _Optional[_Union[NumberFormat, str]] = ..., reference: _Optional[int] = ..., differences: bool = ...) -> None: ...

class LayerRows(_message.Message):
    __slots__ = ("layer", "units", "rows", "scales", "sent")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    layer: str
    units: bytes
    rows: bytes
    scales: bytes
    sent: bytes
    def __init__(self, layer: _Optional[str] = ..., units: _Optional[bytes] = ..., rows: _Optional[bytes] = ..., scales: _Optional[bytes] = ..., sent: _Optional[bytes] = ...) -> None: ...

class ClassArtifact(_message.Message):
    __slots__ = ("label", "score", "prototype", "masks")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPE_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    label: int
    score: float
    prototype: bytes
    masks: _containers.RepeatedCompositeFieldContainer[UnitMask]
    def __init__(self, label: _Optional[int] = ..., score: _Optional[float] = ..., prototype: _Optional[bytes] = ..., masks: _Optional[_Iterable[_Union[UnitMask, _Mapping]]] = ...) -> None: ...

class UnitMask(_message.Message):
    __slots__ = ("layer", "units")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    layer: str
    units: bytes
    def __init__(self, layer: _Optional[str] = ..., units: _Optional[bytes] = ...) -> None: ...

class NamedTensor(_message.Message):
    __slots__ = ("name", "shape", "values")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    values: bytes
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., values: _Optional[bytes] = ...) -> None: ...
