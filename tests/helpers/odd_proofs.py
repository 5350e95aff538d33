"""Proofs that are spelled in odd ways, and whether FORMAT.md accepts them: for both
checkers."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np

IN_TEXT = {  # JSON in a field that is not checked
    True: [
        "-0",
        "-0.0",
        "1e400",
        "9" * 4301,
        "-" + "9" * 4301,
        "null",
        " 1\t\r\n",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\x7f\u2028\\u0000"',
        '"' + 2_000_000 * "\\n" + '"',
        '{"": {"a": [1], "A": []}}',
        "[" * 255 + "]" * 255,
    ],
    False: [
        "NaN",
        "-Infinity",
        "01",
        "1.",
        ".5",
        "+1",
        "0x1",
        "True",
        "'a'",
        "1 2",
        "1//",
        "\f1",
        '"\n"',
        '"\\x41"',
        '"\\u12"',
        '"a',
        "\ufeff1",
        "[1,]",
        "{a: 1}",
        '{"a": 1,}',
        '{"a": 1, "\\u0061": 2}',
        '{"a": null, "a": null}',
        "[" * 256 + "]" * 256,
    ],
}
NUMBERS = {  # of the field l1
    True: [
        *"0 0.0 0e9 1e-400 5e-324 1.0 1e22 9007199254740993.0 null".split(),
        str(2**500),
        "3.27339060789614187e150",
        '1, "unknown": null',
    ],
    False: [
        "-0",
        "-0.0",
        "-1e-400",
        "-1",
        "1e400",
        "9" * 4301,
        "true",
        '"1"',
        "[1]",
        "NaN",
        "{}",
        "9007199254740993",
        str(2**500 + 1),
        str(2**501),
        "3.2734e150",
        '1, "unknown": 1',
    ],
}
SHAPED = "'<f8', 'fortran_order': False, 'shape': {}, }}"
TYPED = "'{}', 'fortran_order': False, 'shape': (4, 3), }}"
ARRAY_HEADERS = {  # of W, which is (4, 3)
    True: [
        *map(TYPED.format, ("<f8", ">f8")),
        TYPED.format("<f8").replace("False", "True"),
    ],
    False: [
        *map(TYPED.format, "=f8 |f8 f8 <f4 <f16 <c16 |O <i8 |b1".split()),
        *map(
            SHAPED.format,
            ["(4, 3,)", "(4,3)", "(04, 3)", "(-4, -3)", "(3, 4)", "(12,)", "()"],
        ),
        *map(
            SHAPED.format,
            ["(4, 3, 1)", "[4, 3]", "(4294967296, 4294967296)", "(4.0, 3)"],
        ),
        "'<f8', 'shape': (4, 3), 'fortran_order': False, }",
        "'<f8', 'fortran_order': False, 'shape': (4, 3)}",
        "'<f8', 'fortran_order': 0, 'shape': (4, 3), }",
    ],
}
END = b"PK\5\6"
ENTRY = b"PK\1\2"
MEMBER = b"PK\3\4"
# that are changed in the end record, in the last entry and in the last member
BYTES = {
    True: {ENTRY: [4, 6, 12, 36], MEMBER: [4, 6, 8, 14, 18, 22]},
    False: {
        END: [4, 6, 8, 10, 12, 16, 20],
        ENTRY: [0, 8, 9, 10, 16, 20, 24, 28, 30, 32, 42, 46],
        MEMBER: [0, 30],
    },
}
CHANGES = {  # of an open archive
    True: {
        "nothing": lambda archive: None,
        "extra": lambda archive: setattr(
            archive.filelist[1], "extra", b"\1\0\x10\0abc"
        ),
        "a member's comment": lambda archive: setattr(
            archive.filelist[1], "comment", b"any"
        ),
    },
    False: {
        "a comment": lambda archive: setattr(archive, "comment", b"any"),
        "a gap": lambda archive: archive.fp.write(b"gap"),
        "another order": lambda archive: archive.filelist.reverse(),
        "a hidden member": lambda archive: archive.filelist.pop(),
        "an entry twice": lambda archive: archive.filelist.append(archive.filelist[1]),
        "a member twice": lambda archive: archive.writestr(
            "W.npy", archive.read("W.npy")
        ),
    },
}
NAMES = "w.npy", "W.NPY", "/W.npy", "./W.npy", "W.npy/", "W", "x.npy", "", "W.npy.npy"


def npy(array, header=None, version=b"\1\0") -> bytes:
    text = (
        header
        or f"'{array.dtype.str}', 'fortran_order': False, 'shape': {array.shape}, }}"
    )
    text = f"{{'descr': {text}\n".encode()
    return (
        b"\x93NUMPY"
        + version
        + len(text).to_bytes(2, "little")
        + text
        + array.tobytes()
    )


def zipped(members, change=None, method=0) -> bytes:
    """Return an archive, to which a function does something before it is closed."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
        if change:
            change(archive)
            archive.start_dir = archive.fp.tell()
    return file.getvalue()


def odd_files(header, arrays):
    """Yield what is odd about a file, the file, and whether FORMAT.md accepts it."""
    text = json.dumps(header)[:-1]
    plain = {f"{name}.npy": npy(array) for name, array in arrays.items()}

    def stated(text):
        encoded = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        return zipped({"header.npy": npy(encoded)} | plain)

    for field, cases in (("text", IN_TEXT), ("l1", NUMBERS)):
        for accepted, values in cases.items():
            for value in values:
                yield (
                    f"{field}: {value[:40]}",
                    stated(f'{text}, "{field}": {value}}}'),
                    accepted,
                )
    yield "an escaped name", stated(text.replace('"C"', '"\\u0043"') + "}"), True
    for odd in (
        "\ufeff%s}",
        "%s}\0",
        "%s}}",
        "[%s}]",
        "%s, }",
        '%s, "C": 0.5}',
        '%s, "x": 1}',
    ):
        yield odd, stated(odd % text), False
    header = np.frombuffer(f"{text}}}".encode(), np.uint8)
    yield from odd_archives({"header.npy": npy(header)} | plain, arrays["W"])


def odd_archives(members, W):
    for accepted, headers in ARRAY_HEADERS.items():
        for odd in headers:
            yield odd, zipped(members | {"W.npy": npy(0 * W, odd)}), accepted
    for version in (b"\2\0", b"\3\0", b"\1\1"):
        yield version, zipped(members | {"W.npy": npy(W, version=version)}), False
    for odd in NAMES:
        renamed = {
            odd if name == "W.npy" else name: data for name, data in members.items()
        }
        yield f"name {odd}", zipped(renamed), False
    for accepted, changes in CHANGES.items():
        for odd, change in changes.items():
            yield odd, zipped(members, change), accepted
    good = zipped(members)
    for accepted, marks in BYTES.items():
        for mark, places in marks.items():
            for place in places:
                odd = bytearray(good)
                odd[good.rfind(mark) + place] ^= 1
                yield f"byte {place} of {mark}", bytes(odd), accepted
    others = [
        good + b"\0",
        good + good[-22:],
        good + good,
        b"\0" + good,
        good[:-1],
        good[:-22] + b"PK\6\7" + bytes(16) + good[-22:],
        zipped(members, method=8),
        good.replace(b"W.npy", b"W.np\0"),
        good.replace(b"W.npy", b"b.npy", 1),
    ]
    for number, odd in enumerate(others):
        yield f"other bytes, {number}", odd, False
