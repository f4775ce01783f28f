# SPDX-License-Identifier: Apache-2.0
# levels.awk - the build rules of a backend's levels, from the rows of its plugin.c:
#
#     awk -f plugins/levels.awk plugins/NAME/plugin.c >plugins/NAME/levels.am
#
# `make levels` does so for each backend that has a levels.am, and tests/tree/levels.sh compares them. A row
# LEVEL(avx2, ...) stands for kernel_avx2.c. Below is what a level needs of configure, and its flags.
BEGIN {
    level("avx2", "HAVE_AVX2", "KT_CFLAGS_AVX2")
    level("avx_vnni", "HAVE_AVX_VNNI", "KT_CFLAGS_AVX_VNNI")
    level("avx512", "HAVE_AVX512", "KT_CFLAGS_AVX512")
    level("avx512_vnni", "HAVE_AVX512_VNNI", "KT_CFLAGS_AVX512_VNNI")
    level("aocl", "HAVE_AVX512_VNNI", "KT_CFLAGS_AVX512_VNNI")
    level("avx512_vbmi", "HAVE_AVX512_VBMI", "KT_CFLAGS_AVX512_VBMI")
    level("avx512_bf16", "HAVE_AVX512_BF16", "KT_CFLAGS_AVX512_BF16")
    level("amx", "HAVE_AMX", "KT_CFLAGS_AMX")
    level("neon", "AARCH64", "")
    level("dotprod", "HAVE_DOTPROD", "KT_CFLAGS_DOTPROD KT_CFLAGS_IN_ORDER")
    level("i8mm", "HAVE_I8MM", "KT_CFLAGS_I8MM KT_CFLAGS_IN_ORDER")
    level("arm_bf16", "HAVE_ARM_BF16", "KT_CFLAGS_ARM_BF16")
}

function level(name, condition, flags)
{
    order[++n] = name
    conditions[name] = condition
    cflags[name] = flags
}

/LEVEL\([a-z0-9_]+, / {
    name = $0
    sub(/.*LEVEL\(/, "", name)
    sub(/,.*/, "", name)
    if (name == "scalar" || $0 ~ /#define/)
        next
    if (!(name in conditions)) {
        print FILENAME ": levels.awk has no row for level " name >"/dev/stderr"
        failed = 1
        exit
    }
    has[name] = 1
    # beyond what its name says
    if (name != "avx512_vbmi" && $0 ~ /KT_CPU_AVX512_VBMI/)
        also[name] = "AVX512_VBMI"
}

function name_library(name)
{
    return "lib" backend "_" name ".la"
}

# A line for each word, where there are several.
function fold(words)
{
    if (words ~ /[^ ] /)
        gsub(/ /, " \\\n    ", words)
    return words
}

function write_level(name,    library, flags)
{
    library = name_library(name)
    flags = cflags[name]
    gsub(/[A-Z0-9_]+/, " $(&)", flags)
    gsub(/  /, " ", flags)
    print "\nif " conditions[name]
    if (name in also) {
        print "if HAVE_" also[name]
        flags = flags " $(KT_CFLAGS_" also[name] ")"
    }
    print "noinst_LTLIBRARIES += " library
    print "lib" backend "_" name "_la_SOURCES = " folder "/kernel_" name ".c"
    print "lib" backend "_" name "_la_CFLAGS = $(PLUGIN_CFLAGS)" flags
    print backend "_levels += -DLEVEL_" toupper(name)
    print backend "_kernels += " library
    if (name in also)
        print "endif"
    print "endif"
}

# A library of a test: kernels with SIMDe's vectors, or with the model of tiles.
function write_modelled(name, sources, cppflags, cflags)
{
    print "check_LTLIBRARIES += libmodelled_" name ".la"
    print "libmodelled_" name "_la_SOURCES =" fold(sources)
    print "libmodelled_" name "_la_CPPFLAGS = $(" cppflags ")"
    print "libmodelled_" name "_la_CFLAGS = $(PLUGIN_CFLAGS) $(" cflags ")"
}

function write_emulated(    i, name, wide, native, defines, plugin, own)
{
    for (i = 1; i <= n; i++) {
        name = order[i]
        if (!(name in has) || name ~ /^(neon|dotprod|i8mm|arm_bf16)$/)
            continue
        defines = defines " -DLEVEL_" toupper(name)
        if (name ~ /^(avx512|aocl)/) {
            wide = wide " " folder "/kernel_" name ".c"
            native = native " " name_library(name)
        }
    }
    plugin = "tests_checkkernel_emulated_kt_" backend "_la"
    own = (getline name <(folder "/tests/emulated.c")) > 0 # in place of plugin.c
    print "\n# The plugin with all levels of x86, those above this CPU emulated."
    print "if HAVE_AVX2\nif HAVE_SIMDE"
    print "check_LTLIBRARIES += tests/checkkernel/emulated/kt_" backend ".la"
    print plugin "_SOURCES = " (own ? folder "/tests/emulated.c" : "$(kt_" backend "_la_SOURCES)")
    print plugin "_CPPFLAGS = $(AM_CPPFLAGS)" fold(defines)
    print plugin "_CFLAGS = $(PLUGIN_CFLAGS)"
    print plugin "_LDFLAGS = $(CHECK_PLUGIN_LDFLAGS)"
    print plugin "_LIBADD = " name_library("scalar") " " name_library("avx2") " $(SYSTEM_LIBS) -lm"
    if ("amx" in has) {
        write_modelled(backend, " " folder "/kernel_amx.c tests/checkkernel/amx_model.c", "EMULATED_CPPFLAGS",
                       "EMULATED_CFLAGS")
        print plugin "_LIBADD += libmodelled_" backend ".la"
    }
    if ("avx_vnni" in has) {
        print "if EMULATES_AVX_VNNI"
        write_modelled(backend "_avx_vnni", " " folder "/kernel_avx_vnni.c", "simde_cppflags", "SIMDE_CFLAGS")
        print plugin "_LIBADD += libmodelled_" backend "_avx_vnni.la"
        print "else"
        print plugin "_LIBADD += " name_library("avx_vnni")
        print "endif"
    }
    print "if EMULATES_AVX512"
    write_modelled(backend "_avx512", wide, "simde_cppflags", "SIMDE_CFLAGS")
    print plugin "_LIBADD += libmodelled_" backend "_avx512.la"
    print "else"
    print plugin "_LIBADD +=" fold(native)
    print "endif\nendif\nendif"
}

END {
    if (failed)
        exit 1
    folder = FILENAME
    sub(/\/plugin\.c$/, "", folder)
    backend = folder
    sub(/.*\//, "", backend)
    print "# SPDX-License-Identifier: Apache-2.0"
    print "# Made by plugins/levels.awk from plugin.c: the levels of " backend "."
    for (i = 1; i <= n; i++)
        if (order[i] in has)
            write_level(order[i])
    write_emulated()
}
