# SPDX-License-Identifier: Apache-2.0
"""Changes programs and libraries for a wheel: what they load lies beside them, and an older glibc will do.

Which glibc a file needs is decided where it is linked. Much of what a newer one asks for is no newer function: 2.34
moved libpthread and libdl into libc, with new versions of their symbols. So a reference to a version that is too new
loses its version where

    the glibc here still has the symbol of an older version too, for programs of that time: it only moved; or
    a small library of the wheel's has it (glibc.c), which the file then loads: stat() was inline before 2.33.

The dynamic linker then takes what there is. Libraries of a distribution are changed likewise, which compiling ours
otherwise would not do.
"""

import re
import struct

_LOAD, _NOTE = 1, 4
_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_VERDEF, _SHT_VERNEED, _SHT_VERSYM = 6, 11, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 10, 15, 29
_GLOBAL = 1  # a symbol of no version


def glibc(version):
    """(2, 34) of "GLIBC_2.34", or None."""
    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
    return (int(found[1]), int(found[2])) if found else None


def _hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value


class Elf:
    """A 64-bit little-endian file with section headers. ValueError: it is none."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("no 64-bit little-endian ELF file")
        self.data = bytearray(data)
        self._programs_at, self._sections_at = struct.unpack_from("<QQ", data, 32)
        self._n_programs, _size, self._n_sections = struct.unpack_from("<HHH", data, 56)
        self._sections = [
            list(struct.unpack_from("<IIQQQQIIQQ", data, self._sections_at + 64 * i)) for i in range(self._n_sections)
        ]
        self._dynamic = self._of_type(_SHT_DYNAMIC)
        if self._dynamic is None:
            raise ValueError("not linked dynamically")
        at, size = self._place(self._dynamic)
        self._entries = []
        for tag, value in struct.iter_unpack("<QQ", self.data[at : at + size]):
            if tag == _DT_NULL:
                break
            self._entries.append((tag, value))
        at, size = self._place(self._sections[self._dynamic][6])
        self._strings = bytearray(self.data[at : at + size])

    def _of_type(self, kind):
        return next((i for i, section in enumerate(self._sections) if section[1] == kind), None)

    def _place(self, index):
        return self._sections[index][4], self._sections[index][5]

    def _text(self, offset):
        return self._strings[offset : self._strings.index(0, offset)].decode()

    def _string(self, text):
        """Its offset in the table of names, where it is put if it is not there."""
        wanted = text.encode() + b"\0"
        found = self._strings.find(wanted)
        if found < 0:
            found = len(self._strings)
            self._strings += wanted
        return found

    # ---- what it needs ----

    def needed(self):
        """Sonames."""
        return [self._text(value) for tag, value in self._entries if tag == _DT_NEEDED]

    def _versions(self):
        """Of what it needs: place in the file, number and name."""
        index = self._of_type(_SHT_VERNEED)
        at = self._sections[index][4] if index is not None else None
        while at is not None:
            _version, _count, _file, aux, following = struct.unpack_from("<HHIII", self.data, at)
            place = at + aux
            while True:
                _sum, _flags, number, name, step = struct.unpack_from("<IHHII", self.data, place)
                yield place, number, self._text(name)
                if not step:
                    break
                place += step
            at = at + following if following else None

    def versions(self):
        """Names of all symbol versions that it needs."""
        return {name for _place, _number, name in self._versions()}

    def _symbols(self):
        """Number, name, is it defined here, and version number of each dynamic symbol."""
        table, versions = self._of_type(_SHT_DYNSYM), self._of_type(_SHT_VERSYM)
        if table is None or versions is None:
            return
        at, size = self._place(table)
        version_at = self._sections[versions][4]
        for number in range(size // 24):
            name, _info, _other, section = struct.unpack_from("<IBBH", self.data, at + 24 * number)
            (version,) = struct.unpack_from("<H", self.data, version_at + 2 * number)
            yield number, self._text(name), section != 0, version & 0x7FFF

    def definitions(self):
        """Of a library: symbol: names of the versions that it is there with; one of no version has none."""
        names, at = {}, self._of_type(_SHT_VERDEF)
        at = self._sections[at][4] if at is not None else None
        while at is not None:
            _version, _flags, number, _count, _sum, aux, following = struct.unpack_from("<HHHHIII", self.data, at)
            names[number] = self._text(struct.unpack_from("<I", self.data, at + aux)[0])
            at = at + following if following else None
        found = {}
        for _number, name, defined, version in self._symbols():
            if defined:
                found.setdefault(name, set())
                if version in names:
                    found[name].add(names[version])
        return found

    # ---- changes ----

    def lower(self, oldest, moved):
        """Takes versions above `oldest` from symbols that are all in `moved`, and returns them."""
        base = min((name for name in self.versions() if glibc(name)), key=glibc, default=None)
        symbols, lowered = list(self._symbols()), set()
        table = self._of_type(_SHT_VERSYM)
        for place, number, name in list(self._versions()):
            if (glibc(name) or oldest) <= oldest:
                continue
            mine = [(index, symbol) for index, symbol, _defined, version in symbols if version == number]
            if not all(symbol in moved for _index, symbol in mine):
                continue
            for index, symbol in mine:
                lowered.add(symbol)
                struct.pack_into("<H", self.data, self._sections[table][4] + 2 * index, _GLOBAL)
            struct.pack_into("<I", self.data, place, _hash(base))
            struct.pack_into("<I", self.data, place + 8, self._string(base))
        return lowered

    def need(self, soname):
        if soname not in self.needed():
            self._entries.insert(0, (_DT_NEEDED, self._string(soname)))

    def set_runpath(self, path):
        self._entries = [entry for entry in self._entries if entry[0] not in (_DT_RPATH, _DT_RUNPATH)]
        self._entries.append((_DT_RUNPATH, self._string(path)))

    def write(self):
        """The changed file: its table of names goes behind all else, in a segment that was a note for debuggers."""
        programs = [
            struct.unpack_from("<IIQQQQQQ", self.data, self._programs_at + 56 * i) for i in range(self._n_programs)
        ]
        loads = [i for i, program in enumerate(programs) if program[0] == _LOAD]
        note = next((i for i, program in enumerate(programs) if program[0] == _NOTE), None)
        room = self._sections[self._dynamic][5] // 16
        if note is None or len(self._entries) >= room:
            raise ValueError("no room for another segment, or for other names of libraries")
        page = max(programs[i][7] for i in loads)
        end = max(programs[i][3] + programs[i][6] for i in loads)
        self.data += bytes(-len(self.data) % 16)
        offset, size = len(self.data), len(self._strings)
        address = -(-end // page) * page + offset % page
        segment = (_LOAD, 4, offset, address, address, size, size, page)
        programs.insert(loads[-1] + 1, segment)
        del programs[note if note <= loads[-1] else note + 1]
        for i, program in enumerate(programs):
            struct.pack_into("<IIQQQQQQ", self.data, self._programs_at + 56 * i, *program)
        self._write_dynamic(address, size, room)
        strings = self._sections[self._sections[self._dynamic][6]]
        strings[3:6] = address, offset, size
        for i, section in enumerate(self._sections):
            struct.pack_into("<IIQQQQIIQQ", self.data, self._sections_at + 64 * i, *section)
        return bytes(self.data + self._strings)

    def _write_dynamic(self, address, size, room):
        changed = {_DT_STRTAB: address, _DT_STRSZ: size}
        entries = [(tag, changed.get(tag, value)) for tag, value in self._entries]
        entries += [(_DT_NULL, 0)] * (room - len(entries))
        at = self._sections[self._dynamic][4]
        for i, entry in enumerate(entries):
            struct.pack_into("<QQ", self.data, at + 16 * i, *entry)
