"""Examples of the specification and of Kafka's own tests: varints, messages, hashes."""

from __future__ import annotations

from tests.naive.record_set import Record

TIME = 1_500_000_000_000

VARINTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-64, "7f"),
    (64, "8001"),
    (300, "d804"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
]

# Spec, section 14.
MESSAGES = [
    (
        "0000000000000000 00000013 87a77ab2 00 00 ffffffff 00000005 68656c6c6f",
        Record(0, None, -1, None, b"hello"),
    ),
    ("0000000000000007 00000010 1fecd70a 00 00 00000001 6b 00000001 76", Record(7, None, -1, b"k", b"v")),
    (
        "0000000000000000 00000018 bf070c1c 01 00 0000015d3ef79800 00000001 6b 00000001 76",
        Record(0, TIME, 0, b"k", b"v"),
    ),
    (
        "0000000000000000 0000003e ffffffff 02 eaec1574 0000 00000000 0000015d3ef79800 0000015d3ef79800"
        " ffffffffffffffff ffff ffffffff 00000001 18 00 00 00 02 6b 02 76 02 02 68 02 78",
        Record(0, TIME, 0, b"k", b"v", (("h", b"x"),)),
    ),
]

JAVA = [
    ("", 0),
    ("a", 97),
    ("test", 3556498),
    ("my-group", -1906497762),
    ("[t,0]", 87540032),
    ("t-0", 112919),
    ("polygenelubricants", -2147483648),
]
# From Kafka's own UtilsTest.
MURMUR2 = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]
