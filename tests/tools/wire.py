"""Protobuf messages without their schema, for tests that parse Perfetto files back."""

import struct


def fields(message):
    """(number, value) of each field of a protobuf message; numbers and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            assert at + size <= len(message)
            yield key >> 3, message[at:at + size]
            at += size
        elif key & 7 == 1:
            yield key >> 3, struct.unpack_from("<Q", message, at)[0]
            at += 8
        else:
            raise ValueError(f"wire type {key & 7}")


def dict_of(message):
    row = {}
    for number, value in fields(message):
        row.setdefault(number, []).append(value)
    return row
