/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_plugin.c - changes what is read of a plugin before any of its code runs: the headers that the core
 * and the dynamic linker read, and its tables, in which numbers become others and pointers NULL or those to
 * another object of the same file. No pointer is made up: what lies there differs with each start of a
 * process. No function becomes another one: called with arguments of other types it writes anywhere, as code
 * may.
 */
#include "tests/campaign/change.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

/* A section by its type, and if `name` is not NULL by that; nothing beyond the file. */
static bool find_section(const uint8_t *data, size_t size, uint32_t type, const char *name, Elf64_Shdr *found)
{
    Elf64_Ehdr header;
    Elf64_Shdr names;
    memcpy(&header, data, sizeof header);
    if (header.e_shoff > size || (size - header.e_shoff) / sizeof names < header.e_shnum)
        return false;
    const uint8_t *sections = data + header.e_shoff;
    memcpy(&names, sections + header.e_shstrndx * sizeof names, sizeof names);
    for (unsigned i = 0; i < header.e_shnum; i++) {
        memcpy(found, sections + i * sizeof *found, sizeof *found);
        const char *own = (const char *)data + names.sh_offset + found->sh_name;
        if (found->sh_type == type && (!name || strcmp(own, name) == 0))
            return found->sh_size > 0 && found->sh_offset + found->sh_size <= size;
    }
    return false;
}

static uint64_t below(uint64_t n, uint64_t *state)
{
    return kt_below(state, n);
}

/* A pointer of the tables: none, or that of another place. */
static void change_pointer(uint8_t *data, size_t size, uint64_t *state)
{
    Elf64_Shdr section, tables, code;
    Elf64_Rela pointer, other;
    if (!find_section(data, size, SHT_RELA, ".rela.dyn", &section) ||
        !find_section(data, size, SHT_PROGBITS, ".data.rel.ro", &tables) ||
        !find_section(data, size, SHT_PROGBITS, ".text", &code))
        return;
    uint64_t n = section.sh_size / sizeof pointer;
    for (int tries = 0; tries < 100; tries++) {
        uint8_t *at = data + section.sh_offset + below(n, state) * sizeof pointer;
        memcpy(&pointer, at, sizeof pointer);
        if (pointer.r_offset < tables.sh_addr || pointer.r_offset >= tables.sh_addr + tables.sh_size)
            continue;
        memcpy(&other, data + section.sh_offset + below(n, state) * sizeof other, sizeof other);
        if (below(2, state) == 0)
            pointer.r_info = 0; /* R_X86_64_NONE, R_AARCH64_NONE */
        else if (ELF64_R_TYPE(other.r_info) == ELF64_R_TYPE(pointer.r_info) &&
                 (uint64_t)other.r_addend - code.sh_addr >= code.sh_size)
            pointer.r_addend = other.r_addend;
        memcpy(at, &pointer, sizeof pointer);
        return;
    }
}

/* A number of the tables: a version, a size, a count, a bit mask, a bound. */
static void change_number(uint8_t *data, size_t size, uint64_t *state)
{
    static const uint32_t numbers[] = {0,  1,  2,  3,    6,       8,         9,         16,
                                       24, 64, 65, 4096, 1 << 20, INT32_MAX, UINT32_MAX};
    Elf64_Shdr tables;
    if (!find_section(data, size, SHT_PROGBITS, ".data.rel.ro", &tables))
        return;
    uint64_t at = tables.sh_offset + 4 * below(tables.sh_size / 4, state);
    uint32_t number = numbers[below(sizeof numbers / sizeof numbers[0], state)];
    memcpy(data + at, &number, sizeof number);
}

/* A symbol's place, kind or size. */
static void change_symbol(uint8_t *data, size_t size, uint64_t *state)
{
    static const uint64_t sizes[] = {0, 4, 12, 16, 80, 1 << 16, UINT64_MAX};
    Elf64_Shdr section;
    Elf64_Sym symbol;
    if (!find_section(data, size, SHT_DYNSYM, NULL, &section))
        return;
    uint8_t *at = data + section.sh_offset + below(section.sh_size / sizeof symbol, state) * sizeof symbol;
    memcpy(&symbol, at, sizeof symbol);
    switch (below(4, state)) {
    case 0:
        symbol.st_size = sizes[below(sizeof sizes / sizeof sizes[0], state)];
        break;
    case 1:
        symbol.st_info = (unsigned char)ELF64_ST_INFO(STB_GLOBAL, below(7, state));
        break;
    case 2:
        symbol.st_value += 4 * below(8, state);
        break;
    default:
        symbol.st_shndx = SHN_UNDEF;
        break;
    }
    memcpy(at, &symbol, sizeof symbol);
}

size_t kt_change_plugin(uint8_t *data, size_t size, uint64_t *state)
{
    Elf64_Ehdr header;
    if (size < sizeof header)
        return size;
    memcpy(&header, data, sizeof header);
    size_t head = sizeof header + header.e_phnum * sizeof(Elf64_Phdr);
    for (uint64_t n = below(3, state) + 1; n > 0; n--) {
        size_t at = (size_t)below(head < size ? head : size, state);
        switch (below(12, state)) {
        case 0:
            data[at] ^= (uint8_t)(1 << below(8, state));
            return size; /* sections may no longer be found */
        case 1:
            data[at] = (uint8_t)kt_roll(state);
            return size;
        case 2:
            return (size_t)below(size, state); /* cut off */
        case 3:
        case 4:
            change_symbol(data, size, state);
            break;
        case 5:
        case 6:
        case 7:
            change_number(data, size, state);
            break;
        default:
            change_pointer(data, size, state);
            break;
        }
    }
    return size;
}
