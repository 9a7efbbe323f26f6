"""Pickles made by hand to do something, and valid ones with bytes changed."""

import pickle
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

PROTO, END = b"\x80\x04", b"."
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
NDARRAY = b"cnumpy\nndarray\n"
#: The empty array that every pickled one begins as.
NEW = RECONSTRUCT + b"(" + NDARRAY + b"K\x00\x85C\x01btR"
#: Eight bytes that no process has a pointer to.
POINTER = b"\x41" * 8


def value(one: object) -> bytes:
    """Return the instructions that put a plain value on the stack."""
    return pickle.dumps(one, protocol=2)[2:-1]


def dtype(code: object, state: object = None, *, wrap: bytes = b"") -> bytes:
    made = b"cnumpy\ndtype\n" + value((code, False, True)) + b"R"
    return made + (wrap or value(state)) + b"b" if state is not None or wrap else made


F8 = dtype("f8", (3, "<", None, None, None, -1, -1, 0))
I1 = dtype("i1", (3, "|", None, None, None, -1, -1, 0))
O8 = dtype("O8", (3, "|", None, None, None, -1, -1, 63))


def array(of: bytes, raw: object, shape: object = (1,), *, inner: bytes = b"") -> bytes:
    """Return an array's instructions; `inner` are those of its values, in place of `raw`."""
    state = b"(" + value(1) + value(shape) + of + value(False) + (inner or value(raw)) + b"t"
    return NEW + state + b"b"


def call(name: str, *arguments: object) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + value(arguments) + b"R"


def _dtypes() -> Iterator[tuple[str, bytes]]:
    plain = (3, "<", None, None, None, -1, -1, 0)
    codes: list[Any] = ["O8", "|O", "V8", "S8", "U2", "M8[ns]", "m8", "c16", "f16", "a8", "p", "P"]
    codes += ["i4,f8", "(2,)f8", "2f8", "O,i4", "f", "float64", "object", ">f8", "", "f8" * 9999]
    codes += [[("a", "O")], {"names": ["a"], "formats": ["O"]}, 7, None, b"f8", ("f8", "O")]
    for code in codes:
        for name, state in (("bare", None), ("plain", plain)):
            yield f"dtype {code!r:.30} {name}", array(dtype(code, state), POINTER)
    fields = {"a": (np.dtype("f8").str, 0)}
    for at, odd in [
        (0, 4), (0, 2), (0, -1), (0, 2**70), (1, "?"), (1, ""), (1, None), (2, ("O", (1,))),
        (2, ("f8", (2**40,))), (3, ("a",)), (3, ()), (4, fields), (4, {}), (5, 0), (5, 2**40),
        (5, -8), (6, 0), (6, 2**31), (7, 63), (7, 1), (7, 8), (7, 255), (7, -1), (7, 2**64),
    ]:  # fmt: skip
        other = (*plain[:at], odd, *plain[at + 1 :])
        yield f"dtype state {at} {odd!r}", array(dtype("f8", other), POINTER)
    for size in range(10):
        if size != len(plain):
            yield f"dtype state of {size}", array(dtype("f8", (*plain, None, None)[:size]), POINTER)
    # What ended a process: an object field, over raw bytes.
    inside = b"(" + value("f0") + b"(" + O8 + value(0) + b"tu"
    field = b"(" + value(3) + value("|") + value(None) + value(("f0",)) + b"}" + inside
    field += value(8) + value(1) + value(27) + b"t"
    yield "object field", array(dtype("V8", wrap=field), POINTER)
    subarray = b"(" + value(3) + value("|") + O8 + value((1,)) + b"\x86" + b"NN"
    subarray += value(8) + value(1) + value(27) + b"t"
    yield "object subarray", array(dtype("V8", wrap=subarray), POINTER)


def _arrays() -> Iterator[tuple[str, bytes]]:
    yield "bytes as objects", array(O8, POINTER)
    yield "fewer objects than the shape", array(O8, [None], (2**20,))
    yield "more objects than the shape", array(O8, [None] * 9)
    yield "a tuple of objects", array(O8, (None,))
    yield "objects in objects", array(O8, None, inner=b"]" + array(O8, [None]) + b"a")
    yield "two of objects", array(O8, [None]) + array(O8, [None]) + b"\x86"
    yield "filled twice", array(F8, POINTER) + value((1, (1,), None, False, POINTER)) + b"b"
    for shape in [
        (-1,), (-1, -1), (2,), (0,), (2**62,), (2**62, 2**62), (2**64,), (0, 2**62), (0, 2**64),
        (1.0,), (True,), ("1",), (None,), [1], 1, None, "1", (1,) * 33, ((1,),), (1, 2**31 - 1),
        (2**31, 2**31, 4),
    ]:  # fmt: skip
        yield f"shape {shape!r:.40}", array(F8, POINTER, shape)
    raws: list[Any] = [b"", b"1234567", POINTER * 2, None, 8, ["a"], ("a",), {}, "\u1234" * 8, 2.5]
    for raw in raws:
        yield f"raw {raw!r}", array(F8, raw)
    states: list[Any] = [(), (1,), (1, (1,)), None, {}, [], "x", (2,) * 5]
    states.append((0, (1,), None, False, b""))
    for state in states:
        yield f"array state {state!r}", NEW + value(state) + b"b"
    for made in [(), (1,), ((0,), b"b"), (None, (0,), b"b"), (1, 2, 3, 4)]:
        yield f"begins as {made!r}", RECONSTRUCT + value(made) + b"R"
    for shape, code in [((2**40,), b"b"), ((0,), b"O"), ((3,), b"O"), ((0,), "V8"), (-1, b"b")]:
        begun = RECONSTRUCT + b"(" + NDARRAY + value(shape) + value(code) + b"tR"
        yield f"begins as {shape} {code!r}", begun


def _calls() -> Iterator[tuple[str, bytes]]:
    for name, arguments in {
        "os.system": ("true",),
        "posix.system": ("true",),
        "subprocess.Popen": (["true"],),
        "builtins.eval": ("1",),
        "builtins.exec": ("1",),
        "builtins.getattr": ("", "join"),
        "builtins.__import__": ("this",),
        "builtins.open": ("x", "w"),
        "builtins.bytearray": (2**40,),
        "builtins.bytes": (2**40,),
        "__builtin__.apply": (1,),
        "ctypes.string_at": (0,),
        "copyreg._reconstructor": (1, 2, 3),
        "functools.partial": (1,),
        "operator.attrgetter": ("x",),
        "importlib.import_module": ("this",),
        "numpy.load": ("x.npy", None, True),
        "numpy.fromfile": ("/etc/passwd",),
        "numpy.memmap": ("x", "u1", "w+"),
        "numpy.zeros": (2**40,),
        "numpy.dtype.newbyteorder": ("<",),
        "numpy.ndarray.tofile": ("x",),
        "numpy.core.multiarray.scalar": (1, b"x"),
        "numpy.core.multiarray.fromstring": ("x",),
        "numpy._core.multiarray.scalar": (1, b"x"),
        "numpy.core.numeric._frombuffer": (1,),
        "numpy.ma.core._mareconstruct": (1,),
        "_codecs.decode": (b"x", "zlib"),
        "_codecs.lookup": ("x",),
        "torch.load": ("x",),
        "fedsub_core.data.unpickling.ArraysOnly": (1,),
    }.items():
        yield f"calls {name}", call(name, *arguments)
        module, _, function = name.rpartition(".")
        stacked = value(module) + value(function) + b"\x93" + value(arguments) + b"R"
        yield f"calls {name} by the stack", stacked
    for text, encoding in [("x", "zlib"), ("x", "idna"), ("x", None), (1, "latin1"), (b"", b"")]:
        yield f"encodes {text!r} as {encoding!r}", call("_codecs.encode", text, encoding)
    yield "encodes what latin1 lacks", call("_codecs.encode", "\u1234", "latin1")
    yield "a class of one's own", NDARRAY + value((2**40,)) + b"\x81"
    yield "an object of Python 1", b"(" + NDARRAY + value(9) + b"o"
    yield "an instance of Python 1", b"(inumpy\nndarray\n"
    yield "registered", b"\x82\x01"
    yield "persistent", b"Pid\n" + value(1) + b"Q"
    yield "a buffer of elsewhere", b"\x97"


def _changes() -> Iterator[tuple[str, bytes]]:
    for name in ("numpy.core.multiarray._reconstruct", "numpy.dtype", "_codecs.encode"):
        module, _, function = name.rpartition(".")
        named = f"c{module}\n{function}\n".encode()
        for state in ({"x": 1}, (None, {"__defaults__": (1,)}), (None, {"_call": 1})):
            yield f"changes {name} by {state}", named + value(state) + b"b"
        yield f"an item of {name}", named + value("x") + value(1) + b"s"
    plain: list[Any] = [{}, [], (), "x", 1, None]
    for one in plain:
        yield f"changes {one!r}", value(one) + value({"x": 1}) + b"b"
    yield "an item of an array", array(F8, POINTER) + value(0) + value(1) + b"s"
    yield "an item of a list", value([1]) + value(0) + value(1) + b"s"


def _too_much() -> Iterator[tuple[str, bytes]]:
    huge = struct.pack("<Q", 2**62)
    yield "an index of 2^32", value(1) + b"r\xff\xff\xff\xff"
    yield "an index of 2^31", value(1) + b"r\xff\xff\xff\x7f"
    yield "a negative index", value(1) + b"p-1\n"
    for name, code in {"bytes": b"\x8e", "text": b"\x8d", "frame": b"\x95"}.items():
        yield f"{name} of 2^62", code + huge
        yield f"{name} of 2^35", code + struct.pack("<Q", 2**35)
    for name, code in {"string": b"T", "bytes": b"B", "text": b"X", "long": b"\x8b"}.items():
        yield f"{name} of 2^31", code + struct.pack("<I", 2**31 - 1)
        yield f"{name} of -1", code + struct.pack("<i", -1)
    yield "a bytearray of 2^62", b"\x96" + huge
    yield "a long of a million digits", b"L" + b"9" * 1_000_000 + b"L\n"
    yield "tuples as a key", b"}" + b")" + b"\x85" * 300_000 + value(1) + b"s"
    yield "tuples as keys", b"(" + b")" + b"\x85" * 300_000 + value(1) + b"d"
    yield "tuples in a set", b"\x8f(" + b")" + b"\x85" * 300_000 + b"\x90"
    yield "tuples frozen", b"(" + b")" + b"\x85" * 300_000 + b"\x91"
    yield "lists in lists", b"]" * 300_000 + b"a" * 299_999
    # 2^60 values if anybody looks at them all.
    laughs = b"]" + b"".join(b"q" + bytes([n]) + b"]h" + bytes([n]) + b"ah" + bytes([n]) + b"a"
                             for n in range(60))  # fmt: skip
    yield "lists of lists twice", laughs
    yield "a dtype of lists", b"cnumpy\ndtype\n" + laughs + b"\x85R"
    yield "a subject of lists", b"}" + value("subject") + laughs + b"s"
    yield "a subject of itself", b"}" + value("subject") + b"]q\x00h\x00as"
    yield "a subject of a million letters", value({"subject": "x" * 1_000_000})
    yield "nothing", b""
    yield "no end", b"(" * 100_000


def crafted() -> dict[str, bytes]:
    """Return hand-made pickles by what they try."""
    made: dict[str, bytes] = {}
    for kind in (_dtypes, _arrays, _calls, _changes, _too_much):
        for name, body in kind():
            assert name not in made, name
            made[name] = PROTO + body + END
    return made


def valid() -> list[bytes]:
    """Return what numpy and pickle write of arrays and of plain values, by each protocol."""
    short = {"subject": "S2", "label": np.arange(6, dtype=np.int32), "n": [1, 2.5, None, b"x"]}
    wrapped = np.array({"a": short, "f": np.asfortranarray(np.ones((2, 3), ">f4"))}, dtype=object)
    return [pickle.dumps(one, protocol) for one in (short, wrapped) for protocol in range(5)]


def changed(count: int, seed: int) -> Iterator[bytes]:
    """Yield valid pickles with a few bytes flipped, left out, repeated or from another place."""
    draw = random.Random(seed)
    pickles = valid()
    for _ in range(count):
        raw = bytearray(draw.choice(pickles))
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            at, length = draw.randrange(len(raw)), draw.randrange(1, 9)
            match draw.randrange(5):
                case 0:
                    raw[at] ^= 1 << draw.randrange(8)
                case 1:
                    raw[at] = draw.randrange(256)
                case 2:
                    del raw[at : at + length]
                case 3:
                    raw[at:at] = raw[at : at + length]
                case _:
                    other = draw.choice(pickles)
                    start = draw.randrange(len(other))
                    raw[at:at] = other[start : start + length]
            raw = raw or bytearray(END)
        yield bytes(raw)
