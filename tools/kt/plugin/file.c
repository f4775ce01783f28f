/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - a plugin's file as bytes: its exports, its needs, and code that would run when it is
 * loaded. */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_LIMIT (UINT64_C(256) << 20)

/* ---- reading ---------------------------------------------------------------------------------- */

static bool read_all(int fd, unsigned char *data, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(fd, data + at, size - at, (off_t)at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        at += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

static bool write_all(int fd, const unsigned char *data, uint64_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno != EINTR)
            return false;
        data += n > 0 ? n : 0;
        size -= n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

/* NAME of /a/b/kt_NAME.so, which the library will look for. */
static bool take_name(const char *path, struct plugin_file *file, struct plugin_verdict *verdict)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 6 && length < 6 + sizeof(file->name) && strncmp(base, "kt_", 3) == 0 &&
        strcmp(base + length - 3, ".so") == 0) {
        memcpy(file->name, base + 3, length - 6);
        file->name[length - 6] = '\0';
        if (file->name[strspn(file->name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0' &&
            (file->name[0] < '0' || file->name[0] > '9') && strcmp(file->name, "reference") != 0)
            return true;
    }
    plugin_say(
        verdict, PLUGIN_FAILED,
        "%s: the library looks for kt_NAME.so, NAME in at most 31 lower-case letters, digits and _, and not "
        "reference",
        path);
    return false;
}

static bool load_file(const char *path, struct plugin_file *file, struct plugin_verdict *verdict)
{
    struct stat entry;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &entry) != 0) {
        plugin_say(verdict, PLUGIN_FAILED, "%s cannot be opened: %s", path, strerror(errno));
    } else if (!S_ISREG(entry.st_mode)) {
        plugin_say(verdict, PLUGIN_FAILED, "%s is %s; a shared object is needed", path,
                   S_ISDIR(entry.st_mode)    ? "a directory"
                   : S_ISFIFO(entry.st_mode) ? "a fifo"
                                             : "no regular file");
    } else if (entry.st_size == 0 || (uint64_t)entry.st_size > SIZE_LIMIT) {
        plugin_say(verdict, PLUGIN_FAILED, "%s has %lld bytes; a plugin has 1 to %llu", path,
                   (long long)entry.st_size, (unsigned long long)SIZE_LIMIT);
    } else {
        file->size = (uint64_t)entry.st_size;
        file->data = malloc(file->size);
        if (file->data && read_all(fd, file->data, file->size)) {
            close(fd);
            return true;
        }
        plugin_say(verdict, PLUGIN_FAILED, "%s cannot be read, or shrank meanwhile", path);
    }
    if (fd >= 0)
        close(fd);
    return false;
}

/* The library refuses files that others could replace, as in many build folders, so a copy is loaded. */
static bool copy(const struct kt_cli *cli, struct plugin_file *file, struct plugin_verdict *verdict)
{
    const char *folder = getenv("TMPDIR");
    char real[4096];
    if (!folder || !*folder || !realpath(folder, real))
        strcpy(real, "/tmp");
    file->copy = kt_cli_format(cli, "%s/kt-plugin-XXXXXX.so", real);
    int fd = mkostemps(file->copy, 3, O_CLOEXEC);
    if (fd >= 0)
        kt_signals_temporary(file->copy);
    bool written = fd >= 0 && write_all(fd, file->data, file->size);
    int failure = errno;
    if (fd >= 0 && close(fd) != 0)
        written = false;
    if (!written) {
        plugin_say(verdict, PLUGIN_FAILED, "%s: no copy of it could be written to %s: %s", file->path, real,
                   strerror(failure));
        if (fd < 0) {
            free(file->copy);
            file->copy = NULL;
        }
    }
    return written;
}

bool plugin_file_open(const struct kt_cli *cli, const char *path, struct plugin_file *file,
                      struct plugin_verdict *verdict)
{
    *file = (struct plugin_file){.path = path};
    return load_file(path, file, verdict) && take_name(path, file, verdict) && copy(cli, file, verdict);
}

void plugin_file_close(struct plugin_file *file)
{
    if (file->copy)
        unlink(file->copy);
    kt_signals_temporary(NULL);
    free(file->copy);
    free(file->data);
    *file = (struct plugin_file){.path = NULL};
}

/* ---- sections: each offset is compared with the size before use ------------- */

static bool holds(const struct plugin_file *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset;
}

/* Section number i; false: there is none, or the file ends within it. */
static bool read_section(const struct plugin_file *file, uint32_t i, Elf64_Shdr *section)
{
    Elf64_Ehdr header;

    if (!holds(file, 0, sizeof(header)))
        return false;
    memcpy(&header, file->data, sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(*section) || i >= header.e_shnum ||
        !holds(file, header.e_shoff, (uint64_t)header.e_shnum * sizeof(*section)))
        return false;
    memcpy(section, file->data + header.e_shoff + (uint64_t)i * sizeof(*section), sizeof(*section));
    return section->sh_type == SHT_NOBITS || holds(file, section->sh_offset, section->sh_size);
}

static bool find_section(const struct plugin_file *file, uint32_t type, Elf64_Shdr *section)
{
    for (uint32_t i = 0; i < UINT16_MAX; i++) {
        if (!read_section(file, i, section))
            return false;
        if (section->sh_type == type)
            return true;
    }
    return false;
}

/* A string of a string table; NULL if it does not end within the table. */
static const char *read_string(const struct plugin_file *file, const Elf64_Shdr *strings, uint64_t at)
{
    if (at >= strings->sh_size)
        return NULL;
    const char *text = (const char *)file->data + strings->sh_offset + at;
    return memchr(text, '\0', strings->sh_size - at) ? text : NULL;
}

/* ---- symbols ---------------------------------------------------------------------------------- */

static bool is_exported(const Elf64_Sym *symbol)
{
    unsigned bind = ELF64_ST_BIND(symbol->st_info), seen = ELF64_ST_VISIBILITY(symbol->st_other);
    return symbol->st_shndx != SHN_UNDEF && bind != STB_LOCAL &&
           (seen == STV_DEFAULT || seen == STV_PROTECTED);
}

static bool is_section(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_SECTION || ELF64_ST_TYPE(symbol->st_info) == STT_FILE;
}

static enum plugin_state judge_symbol(const struct plugin_file *file, const Elf64_Sym *symbol,
                                      const char *name, unsigned *n_own, struct plugin_verdict *verdict)
{
    char own[64];
    snprintf(own, sizeof(own), "kt_plugin_%s", file->name);
    if (symbol->st_shndx == SHN_UNDEF && strncmp(name, "kt_", 3) == 0)
        return plugin_say(
            verdict, PLUGIN_FAILED,
            "it needs %s from outside: what a plugin may call comes in struct kt_host; link with -Wl,-z,defs",
            name);
    if (!is_exported(symbol) || is_section(symbol) || !*name)
        return PLUGIN_OK;
    if (strcmp(name, own) != 0)
        return plugin_say(
            verdict, PLUGIN_FAILED,
            "it exports %s; only %s may be exported: -fvisibility=hidden, -export-symbols-regex "
            "'^kt_plugin_'",
            name, own);
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
        return plugin_say(verdict, PLUGIN_FAILED,
                          "%s is not a data symbol: define it with KT_PLUGIN_DEFINE(%s)", own, file->name);
    ++*n_own;
    return PLUGIN_OK;
}

static enum plugin_state judge_dynamic(const struct plugin_file *file, struct plugin_verdict *verdict)
{
    Elf64_Shdr dynamic, strings;

    if (!find_section(file, SHT_DYNAMIC, &dynamic) || !read_section(file, dynamic.sh_link, &strings) ||
        strings.sh_type != SHT_STRTAB)
        return plugin_say(verdict, PLUGIN_FAILED, "it has no dynamic section: link it as a shared object");
    for (uint64_t i = 0; i + sizeof(Elf64_Dyn) <= dynamic.sh_size; i += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, file->data + dynamic.sh_offset + i, sizeof(entry));
        if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH)
            return plugin_say(
                verdict, PLUGIN_FAILED,
                "it has a RUNPATH, which does not work in a plugin and is a way in for others' files");
        const char *needed = entry.d_tag == DT_NEEDED ? read_string(file, &strings, entry.d_un.d_val) : NULL;
        if (needed && strncmp(needed, "libktkernel.so", 14) == 0)
            return plugin_say(
                verdict, PLUGIN_FAILED,
                "it is linked to %.100s: a plugin depends on the plugin ABI, not on the library; leave "
                "-lktkernel out",
                needed);
        if (entry.d_tag == DT_TEXTREL)
            return plugin_say(verdict, PLUGIN_FAILED, "its code needs relocations: compile it with -fPIC");
    }
    return PLUGIN_OK;
}

/* Loading a file that asks for an executable stack makes all stacks of the process executable, or fails. */
static enum plugin_state judge_stack(const struct plugin_file *file, struct plugin_verdict *verdict)
{
    Elf64_Ehdr header;

    memcpy(&header, file->data, sizeof(header)); /* it has been read before */
    if (header.e_phentsize != sizeof(Elf64_Phdr) ||
        !holds(file, header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr)))
        return plugin_say(verdict, PLUGIN_FAILED, "its program headers are damaged");
    for (uint32_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, file->data + header.e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_GNU_STACK && !(segment.p_flags & PF_X))
            return PLUGIN_OK;
    }
    return plugin_say(verdict, PLUGIN_FAILED,
                      "it asks for an executable stack: link with -Wl,-z,noexecstack, and end assembly with "
                      ".section .note.GNU-stack");
}

enum plugin_state plugin_file_symbols(const struct plugin_file *file, struct plugin_verdict *verdict)
{
    Elf64_Shdr table, strings;
    unsigned n_own = 0;

    if (!find_section(file, SHT_DYNSYM, &table) || !read_section(file, table.sh_link, &strings) ||
        strings.sh_type != SHT_STRTAB)
        return plugin_say(
            verdict, PLUGIN_FAILED,
            "its table of dynamic symbols is not there, or damaged: section headers must be kept");
    for (uint64_t i = 0; i + sizeof(Elf64_Sym) <= table.sh_size; i += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, file->data + table.sh_offset + i, sizeof(symbol));
        const char *name = read_string(file, &strings, symbol.st_name);
        if (!name)
            return plugin_say(verdict, PLUGIN_FAILED, "its table of dynamic symbols is damaged");
        if (judge_symbol(file, &symbol, name, &n_own, verdict) != PLUGIN_OK)
            return PLUGIN_FAILED;
    }
    if (n_own != 1)
        return plugin_say(verdict, PLUGIN_FAILED,
                          "it exports no kt_plugin_%s: define it with KT_PLUGIN_DEFINE(%s)", file->name,
                          file->name);
    if (judge_dynamic(file, verdict) != PLUGIN_OK || judge_stack(file, verdict) != PLUGIN_OK)
        return PLUGIN_FAILED;
    return plugin_say(verdict, PLUGIN_OK, "kt_plugin_%s, and nothing else", file->name);
}

/* ---- constructors ----------------------------------------------------------------------------- */

#if defined __aarch64__
#define RELOCATION_BY_CALL 1032 /* R_AARCH64_IRELATIVE */
#else
#define RELOCATION_BY_CALL R_X86_64_IRELATIVE
#endif

/* Functions that run on loading, by the dynamic section. */
struct start {
    uint64_t init, fini; /* addresses of functions, 0: none */
    uint64_t n_init, n_fini;
    bool has_preinit;
};

static bool read_start(const struct plugin_file *file, struct start *start)
{
    Elf64_Shdr dynamic;

    *start = (struct start){.init = 0};
    if (!find_section(file, SHT_DYNAMIC, &dynamic))
        return false;
    for (uint64_t i = 0; i + sizeof(Elf64_Dyn) <= dynamic.sh_size; i += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, file->data + dynamic.sh_offset + i, sizeof(entry));
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_INIT)
            start->init = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_FINI)
            start->fini = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_INIT_ARRAYSZ)
            start->n_init = entry.d_un.d_val / sizeof(Elf64_Addr);
        else if (entry.d_tag == DT_FINI_ARRAYSZ)
            start->n_fini = entry.d_un.d_val / sizeof(Elf64_Addr);
        else if (entry.d_tag == DT_PREINIT_ARRAYSZ)
            start->has_preinit = entry.d_un.d_val > 0;
    }
    return true;
}

/* Does a section of this name begin at an address? Those of the start-up files (.init, .fini) do. */
static bool begins(const struct plugin_file *file, const char *name, uint64_t address)
{
    Elf64_Ehdr header;
    Elf64_Shdr names, section;

    memcpy(&header, file->data, sizeof(header)); /* it has been read before */
    if (!read_section(file, header.e_shstrndx, &names) || names.sh_type != SHT_STRTAB)
        return false;
    for (uint32_t i = 0; i < UINT16_MAX && read_section(file, i, &section); i++) {
        const char *text = section.sh_addr == address ? read_string(file, &names, section.sh_name) : NULL;
        if (text && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

/* Is the file linked with the start-up files? Their function at the end of .fini_array calls
 * __cxa_finalize. */
static bool has_start_files(const struct plugin_file *file)
{
    Elf64_Shdr table, strings;

    if (!find_section(file, SHT_DYNSYM, &table) || !read_section(file, table.sh_link, &strings) ||
        strings.sh_type != SHT_STRTAB)
        return false;
    for (uint64_t i = 0; i + sizeof(Elf64_Sym) <= table.sh_size; i += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, file->data + table.sh_offset + i, sizeof(symbol));
        const char *name = read_string(file, &strings, symbol.st_name);
        if (name && symbol.st_shndx == SHN_UNDEF && strcmp(name, "__cxa_finalize") == 0)
            return true;
    }
    return false;
}

/* Resolvers that the dynamic linker calls for the address of a function. */
static uint64_t count_resolvers(const struct plugin_file *file)
{
    Elf64_Shdr section;
    uint64_t n = 0;

    for (uint32_t i = 0; i < UINT16_MAX && read_section(file, i, &section); i++) {
        if (section.sh_type != SHT_RELA)
            continue;
        for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela entry;
            memcpy(&entry, file->data + section.sh_offset + at, sizeof(entry));
            n += ELF64_R_TYPE(entry.r_info) == RELOCATION_BY_CALL;
        }
    }
    return n;
}

/* The compiler's start-up files add one function to each array, and .init and .fini. */
enum plugin_state plugin_file_constructors(const struct plugin_file *file, struct plugin_verdict *verdict)
{
    struct start start;
    if (!read_start(file, &start))
        return plugin_say(verdict, PLUGIN_SKIPPED, "it has no dynamic section that could be read");
    if (start.has_preinit)
        return plugin_say(verdict, PLUGIN_FAILED, "it has a .preinit_array");
    if (start.n_init > 1 || start.n_fini > 1)
        return plugin_say(
            verdict, PLUGIN_FAILED,
            "%llu functions would run when it is %s; only the compiler's own one may: move what they do to "
            "open and close, and ask kt_caps.cpu instead of __builtin_cpu_supports, which brings one",
            (unsigned long long)(start.n_init > 1 ? start.n_init : start.n_fini),
            start.n_init > 1 ? "loaded" : "unloaded");
    if ((start.init && !begins(file, ".init", start.init)) ||
        (start.fini && !begins(file, ".fini", start.fini)))
        return plugin_say(verdict, PLUGIN_FAILED,
                          "a function of its own would run when it is loaded or unloaded: link without "
                          "-Wl,-init and -Wl,-fini, and move what it does to open and close");
    if ((start.n_init || start.n_fini) && !has_start_files(file))
        return plugin_say(verdict, PLUGIN_FAILED,
                          "a function of its own would run when it is loaded or unloaded, since the "
                          "compiler's start-up files are not in it: move what it does to open and close");
    if (count_resolvers(file) > 0)
        return plugin_say(
            verdict, PLUGIN_FAILED,
            "%llu times a function would run when it is loaded, to choose another (ifunc): give "
            "each choice a struct kt_level",
            (unsigned long long)count_resolvers(file));
    return plugin_say(verdict, PLUGIN_OK, "none");
}
