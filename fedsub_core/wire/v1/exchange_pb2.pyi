from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Upload(_message.Message):
    __slots__ = ("schema_version", "client_id", "round", "examples", "layers", "classes", "tensors", "prototype_version")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    client_id: str
    round: int
    examples: int
    layers: _containers.RepeatedCompositeFieldContainer[LayerRows]
    classes: _containers.RepeatedCompositeFieldContainer[ClassArtifact]
    tensors: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    prototype_version: int
    def __init__(self, schema_version: _Optional[int] = ..., client_id: _Optional[str] = ..., round: _Optional[int] = ..., examples: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerRows, _Mapping]]] = ..., classes: _Optional[_Iterable[_Union[ClassArtifact, _Mapping]]] = ..., tensors: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ..., prototype_version: _Optional[int] = ...) -> None: ...

class Download(_message.Message):
    __slots__ = ("schema_version", "client_id", "round", "layers", "tensors", "prototype_version")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PROTOTYPE_VERSION_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    client_id: str
    round: int
    layers: _containers.RepeatedCompositeFieldContainer[LayerRows]
    tensors: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    prototype_version: int
    def __init__(self, schema_version: _Optional[int] = ..., client_id: _Optional[str] = ..., round: _Optional[int] = ..., layers: _Optional[_Iterable[_Union[LayerRows, _Mapping]]] = ..., tensors: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ..., prototype_version: _Optional[int] = ...) -> None: ...

class LayerRows(_message.Message):
    __slots__ = ("layer", "units", "rows")
    LAYER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    layer: str
    units: bytes
    rows: bytes
    def __init__(self, layer: _Optional[str] = ..., units: _Optional[bytes] = ..., rows: _Optional[bytes] = ...) -> None: ...

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
