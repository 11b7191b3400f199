"""Headers of an HTTP/2 answer: RFC 7541 without a dynamic table, which the asker has forbidden.

Of names that the standard's table has, only ``:status`` is told: a gRPC answer needs no other.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

_STATIC: Final = 61
_STATUSES: Final = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}
_INDEXED, _INDEXING, _TABLE_SIZE, _HUFFMAN = 0x80, 0x40, 0x20, 0x80
# RFC 7541, appendix B: the characters with codes of so many bits. Codes are given out in this order.
_SYMBOLS: Final = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
}


def _codes() -> dict[tuple[int, int], str]:
    codes: dict[tuple[int, int], str] = {}
    code, before = 0, 0
    for bits, symbols in _SYMBOLS.items():
        code <<= bits - before
        before = bits
        for symbol in symbols:
            codes[bits, code] = symbol
            code += 1
    return codes


_CODES: Final = _codes()
_LONGEST_CODE: Final = max(_SYMBOLS)


def headers(block: bytes) -> dict[str, str]:
    """Return the headers of a block by name, an empty name for those that nobody needs. Raises ValueError."""
    found: dict[str, str] = {}
    place = 0
    while place < len(block):
        first = block[place]
        if first & _INDEXED:
            index, place = _number(block, place, 7)
            found[_name(index)] = _STATUSES.get(index, "")
            continue
        if first & _TABLE_SIZE and not first & _INDEXING:
            _, place = _number(block, place, 5)
            continue
        index, place = _number(block, place, 6 if first & _INDEXING else 4)
        name, place = (_name(index), place) if index else _text(block, place)
        found[name], place = _text(block, place)
    return found


def _name(index: int) -> str:
    if not 0 < index <= _STATIC:
        msg = "a header of a table that there is none of"
        raise ValueError(msg)
    return ":status" if index in _STATUSES else ""


def _text(block: bytes, place: int) -> tuple[str, int]:
    if place >= len(block):
        msg = "headers that are cut off"
        raise ValueError(msg)
    is_huffman = block[place] & _HUFFMAN
    length, place = _number(block, place, 7)
    text = block[place : place + length]
    if len(text) < length:
        msg = "headers that are cut off"
        raise ValueError(msg)
    return _unpacked(text) if is_huffman else text.decode("latin-1"), place + length


def _unpacked(text: bytes) -> str:
    """Return a Huffman-coded text up to the first character that is not ASCII's."""
    symbols: list[str] = []
    code = bits = 0
    for bit in chain.from_iterable((byte >> shift & 1 for shift in range(7, -1, -1)) for byte in text):
        code, bits = code << 1 | bit, bits + 1
        symbol = _CODES.get((bits, code))
        if symbol is not None:
            symbols.append(symbol)
            code = bits = 0
        elif bits > _LONGEST_CODE:
            break
    return "".join(symbols)


def _number(block: bytes, place: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    number = block[place] & most
    place += 1
    if number < most:
        return number, place
    for shift in range(0, 28, 7):
        if place >= len(block):
            break
        byte = block[place]
        place += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    msg = "a number that does not end"
    raise ValueError(msg)
