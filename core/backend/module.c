/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - the shared object of a plugin: where it is, whether it is sound, and opening it. */
#define _GNU_SOURCE /* dladdr1, asprintf */
#include "core/backend/module.h"

#include "core/backend/module_check.h"
#include "core/base/error.h"
#include "core/base/size.h"
#include "core/base/trust.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- finding -------------------------------------------------------------------------------- */

static bool exists(const char *path)
{
    struct stat entry;
    return lstat(path, &entry) == 0 ||
           (errno != ENOENT && errno != ENOTDIR); /* opening it says what is wrong */
}

static enum kt_status fail_memory(struct kt_error *error)
{
    return kt_fail(error, KT_E_NOMEM, "no memory to look for a plugin");
}

/* KT_E_NOT_FOUND if the folder has no such file. */
static enum kt_status find_in_folder(const char *folder, size_t length, const char *module, char **file,
                                     struct kt_error *error)
{
    char *candidate;
    if (asprintf(&candidate, "%.*s/%s", (int)length, folder, module) < 0)
        return fail_memory(error);
    if (exists(candidate)) {
        *file = candidate;
        return KT_OK;
    }
    free(candidate);
    return KT_E_NOT_FOUND;
}

enum kt_status kt_module_find(const char *module, const char *path, const char *last, char **file,
                              struct kt_error *error)
{
    if (module[0] == '/') {
        char *copy = strdup(module);
        if (!copy)
            return fail_memory(error);
        *file = copy;
        return KT_OK;
    }
    if (module[0] == '\0' || strchr(module, '/'))
        return kt_fail(error, KT_E_PLUGIN,
                       "module = %s must be a file name or an absolute path: a plugin is never "
                       "looked for in the current folder",
                       module);
    for (const char *at = path; *at != '\0'; at += *at == ':') {
        size_t length = strcspn(at, ":");
        enum kt_status status = find_in_folder(at, length, module, file, error);
        if (status != KT_E_NOT_FOUND)
            return status;
        at += length;
    }
    enum kt_status status = find_in_folder(last, strlen(last), module, file, error);
    if (status != KT_E_NOT_FOUND)
        return status;
    return kt_fail(error, KT_E_NOT_FOUND,
                   "%s is not in %s%s%s; install it, or set module to its path or core.plugin_path "
                   "to its folder",
                   module, path, path[0] != '\0' ? " nor in " : "", last);
}

/* ---- what kind of file ---------------------------------------------------------------------- */

#if defined __x86_64__
enum { MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE };
#endif

static const char *name_machine(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_ARM:
        return "32-bit ARM";
    default:
        return "another machine";
    }
}

static ssize_t read_at(int fd, void *data, size_t size, uint64_t offset)
{
    ssize_t got;
    do
        got = pread(fd, data, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

static enum kt_status fail_read(const char *file, struct kt_error *error)
{
    return kt_fail(error, kt_status_of_errno(errno, KT_E_PLUGIN), "%s cannot be read: %s", file,
                   strerror(errno));
}

enum { SEGMENT_LIMIT = 256 };

static bool read_segment(int fd, const Elf64_Ehdr *header, unsigned i, Elf64_Phdr *segment)
{
    uint64_t at;
    return kt_add(header->e_phoff, i * sizeof *segment, &at) && at <= INT64_MAX &&
           read_at(fd, segment, sizeof *segment, at) == (ssize_t)sizeof *segment;
}

/* Does the segment lie in what is mapped? The dynamic linker writes there, or protects it, without a look; a
 * linker may let it end with the last page. */
static bool is_mapped(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *segment)
{
    uint64_t end, load_end;
    /* of PT_TLS, the zeros that follow take no place here */
    if (!kt_add(segment->p_vaddr, segment->p_type == PT_TLS ? segment->p_filesz : segment->p_memsz, &end))
        return false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr load;
        if (!read_segment(fd, header, i, &load))
            return false;
        uint64_t page = load.p_align > 4096 ? load.p_align : 4096;
        if (load.p_type == PT_LOAD && kt_add(load.p_vaddr, load.p_memsz, &load_end) &&
            segment->p_vaddr >= load.p_vaddr && end <= load_end + (page - load_end % page) % page)
            return true;
    }
    return false;
}

/* Is a segment whole, and where it may be? The dynamic linker maps whatever ascends below `*above`. */
static bool is_sound(int fd, const Elf64_Ehdr *header, const Elf64_Phdr *segment, uint64_t file_size,
                     uint64_t *above)
{
    uint64_t end;
    bool whole = kt_add(segment->p_offset, segment->p_filesz, &end) && end <= file_size;
    switch (segment->p_type) {
    case PT_GNU_STACK:
        return true;
    case PT_LOAD:
        whole = whole && segment->p_vaddr >= *above && segment->p_memsz >= segment->p_filesz;
        return kt_add(segment->p_vaddr, segment->p_memsz, above) && whole;
    case PT_DYNAMIC:
    case PT_GNU_RELRO:
    case PT_TLS:
        return whole && is_mapped(fd, header, segment);
    default:
        return whole;
    }
}

/* dlopen would map segments beyond the end of a truncated file and then be killed by SIGBUS; and where those
 * of a damaged one lie over something else, that is lost. */
static enum kt_status check_segments(const char *file, int fd, const Elf64_Ehdr *header,
                                     struct kt_error *error)
{
    struct stat entry;
    uint64_t above = 0;
    errno = 0;
    bool sound = fstat(fd, &entry) == 0 && header->e_phentsize == sizeof(Elf64_Phdr) &&
                 header->e_phnum <= SEGMENT_LIMIT;
    for (unsigned i = 0; sound && i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        sound = read_segment(fd, header, i, &segment) &&
                is_sound(fd, header, &segment, (uint64_t)entry.st_size, &above);
    }
    if (sound)
        return KT_OK;
    if (kt_status_passes(kt_status_of_errno(errno, KT_OK)))
        return fail_read(file, error);
    return kt_fail(error, KT_E_PLUGIN, "%s is truncated or damaged; reinstall the plugin", file);
}

/* dlopen would find most of this too, but its messages do not tell what to do. */
static enum kt_status check_elf(const char *file, int fd, struct kt_error *error)
{
    Elf64_Ehdr header;
    memset(&header, 0, sizeof header);
    ssize_t size = read_at(fd, &header, sizeof header, 0);
    if (size < 0)
        return fail_read(file, error);
    if (size == 0)
        return kt_fail(error, KT_E_PLUGIN, "%s is an empty file; install the plugin again", file);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return kt_fail(error, KT_E_PLUGIN, "%s is not an ELF file, so it is not a plugin", file);
    if (header.e_ident[EI_CLASS] != ELFCLASS64)
        return kt_fail(error, KT_E_PLUGIN, "%s is a 32-bit ELF file; a 64-bit one is needed", file);
    if ((size_t)size < sizeof header)
        return kt_fail(error, KT_E_PLUGIN, "%s ends inside its ELF header; install it again", file);
    if (MACHINE != EM_NONE && header.e_machine != MACHINE)
        return kt_fail(error, KT_E_PLUGIN, "%s is for %s (ELF machine %u), not for %s", file,
                       name_machine(header.e_machine), header.e_machine, name_machine(MACHINE));
    if (header.e_type != ET_DYN)
        return kt_fail(error, KT_E_PLUGIN, "%s is an ELF file, but no shared object (ELF type %u)", file,
                       header.e_type);
    return check_segments(file, fd, &header, error);
}

/* ---- opening -------------------------------------------------------------------------------- */

enum { FD_PATH_SIZE = 192 };

/*
 * Writes a path of the open descriptor for dlopen, so that the file that was checked is the file that is
 * loaded. glibc takes a path that it has seen for the same object, and descriptor numbers are reused, so each
 * path is spelled differently: "./" and ".//" by the bits of a counter. The process number instead of "self"
 * lets debuggers follow the path. False: there is no /proc.
 */
static bool spell_descriptor(int fd, char path[FD_PATH_SIZE])
{
    static atomic_uint counter;
    struct stat mine, there;
    char spelling[3 * 32 + 1];
    size_t used = 0;
    for (unsigned bits = atomic_fetch_add(&counter, 1) + 1; bits != 0; bits >>= 1) {
        memcpy(spelling + used, ".//", 3);
        used += bits & 1 ? 3 : 2;
    }
    spelling[used] = '\0';
    (void)snprintf(path, FD_PATH_SIZE, "/proc/%ld/fd/%s%d", (long)getpid(), spelling, fd);
    if (fstat(fd, &mine) != 0)
        return false;
    if (stat(path, &there) != 0 || there.st_ino != mine.st_ino || there.st_dev != mine.st_dev) {
        (void)snprintf(path, FD_PATH_SIZE, "/proc/self/fd/%s%d", spelling, fd);
        if (stat(path, &there) != 0 || there.st_ino != mine.st_ino || there.st_dev != mine.st_dev)
            return false;
    }
    return true;
}

/* The dynamic linker has no error number, but ends its text with that of one. */
static enum kt_status judge_words(const char *text)
{
    static const int passing[] = {ENOMEM, EMFILE, ENFILE, EIO, EINTR, EAGAIN};
    size_t length = strlen(text);
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        const char *end = strerror(passing[i]);
        if (length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0)
            return kt_status_of_errno(passing[i], KT_E_PLUGIN);
    }
    return strcmp(text, "out of memory") == 0 ? KT_E_NOMEM : KT_E_PLUGIN;
}

static enum kt_status load(const char *file, struct kt_module *module, struct kt_error *error)
{
    char path[FD_PATH_SIZE];
    /* Without /proc: the folders were checked, so only root or the caller could exchange the file now. */
    const char *name = spell_descriptor(module->fd, path) ? path : file;
    module->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (module->handle)
        return KT_OK;
    const char *text = dlerror();
    size_t length = strlen(name);
    if (text && strncmp(text, name, length) == 0 && text[length] == ':')
        text += length + 1 + strspn(text + length + 1, " ");
    return kt_fail(error, text ? judge_words(text) : KT_E_PLUGIN, "%s cannot be loaded: %s", file,
                   text ? text : "the dynamic linker does not say why");
}

static const void *find_symbol(void *handle, const char *name)
{
    char symbol[96];
    (void)snprintf(symbol, sizeof symbol, "kt_plugin_%s", name);
    (void)dlerror();
    return dlsym(handle, symbol);
}

/* Says so if the file is the plugin of another name, configured in the wrong section. */
static enum kt_status fail_symbol(const char *file, const char *name, void *handle, struct kt_error *error)
{
    char other[64];
    const char *base = strrchr(file, '/') + 1;
    if (strncmp(base, "kt_", 3) == 0) {
        (void)snprintf(other, sizeof other, "%.*s", (int)strcspn(base + 3, "."), base + 3);
        if (strcmp(other, name) != 0 && find_symbol(handle, other))
            return kt_fail(error, KT_E_PLUGIN,
                           "%s is the plugin \"%s\", not \"%s\"; its section must be [plugin.%s]", file,
                           other, name, other);
    }
    return kt_fail(error, KT_E_PLUGIN,
                   "%s has no symbol kt_plugin_%s; it is a different plugin, or not a plugin", file, name);
}

/* Is the symbol data, and as large as its struct_size? Nothing beyond its end is read. */
static enum kt_status check_symbol(const char *file, const struct kt_plugin *plugin, struct kt_error *error)
{
    Dl_info info;
    void *extra = NULL;
    uint64_t size = UINT64_MAX;
    if (dladdr1(plugin, &info, &extra, RTLD_DL_SYMENT) != 0 && info.dli_saddr == plugin && extra) {
        const ElfW(Sym) *symbol = extra;
        size = symbol->st_size;
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
            return kt_fail(error, KT_E_PLUGIN, "%s: its symbol is a function, not a struct kt_plugin", file);
    }
    uint64_t head = offsetof(struct kt_plugin, struct_size) + sizeof plugin->struct_size;
    if ((uintptr_t)plugin % _Alignof(struct kt_plugin) != 0 || size < head)
        return kt_fail(error, KT_E_PLUGIN, "%s: its symbol is not a struct kt_plugin", file);
    if (plugin->abi_major == KT_PLUGIN_ABI_MAJOR && size < plugin->struct_size)
        return kt_fail(error, KT_E_PLUGIN,
                       "%s: struct_size says %u bytes, but its symbol has %llu; start it with "
                       "KT_PLUGIN_HEADER",
                       file, plugin->struct_size, (unsigned long long)size);
    return KT_OK;
}

static enum kt_status take(const char *file, const char *name, struct kt_module *module,
                           struct kt_error *error)
{
    const struct kt_plugin *plugin = find_symbol(module->handle, name);
    if (!plugin)
        return fail_symbol(file, name, module->handle, error);
    enum kt_status status = check_symbol(file, plugin, error);
    if (status != KT_OK)
        return status;
    status = kt_module_check(plugin, name, error);
    if (status != KT_OK)
        return kt_fail_prefix(error, status, "%s", file);
    module->plugin = plugin;
    return KT_OK;
}

enum kt_status kt_module_open(const char *file, const char *name, struct kt_module *module, char **real,
                              struct kt_error *error)
{
    struct kt_module fresh = {.fd = -1};
    char *resolved;
    enum kt_status status = kt_trust_open(file, &resolved, &fresh.fd, error);
    if (status != KT_OK)
        return status;
    status = check_elf(resolved, fresh.fd, error);
    if (status == KT_OK)
        status = load(resolved, &fresh, error);
    if (status == KT_OK)
        status = take(resolved, name, &fresh, error);
    if (status != KT_OK) {
        kt_module_close(&fresh);
        free(resolved);
        return status;
    }
    *module = fresh;
    *real = resolved;
    return KT_OK;
}

void kt_module_close(struct kt_module *module)
{
    if (module->handle)
        (void)dlclose(module->handle);
    if (module->fd >= 0)
        (void)close(module->fd);
    module->handle = NULL;
    module->plugin = NULL;
    module->fd = -1;
}
