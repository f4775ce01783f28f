/* SPDX-License-Identifier: Apache-2.0 */
/* function.c - the functions of the environment, and what `loop` has. */
#define _GNU_SOURCE /* strftime_l */
#include "tools/engine/text/template/call.h"

#include "tools/engine/text/template/write.h"

#include <locale.h>
#include <string.h>
#include <time.h>

enum { MAX_RANGE = 100000 }; /* as Jinja2's sandbox has it */

static struct jinja_value run_range(struct jinja *j, struct jinja_call *call)
{
    bool has_end = call->arguments[1].kind != JINJA_ABSENT;
    int64_t begin = has_end ? jinja_argument_int(j, call->arguments[0], 0) : 0;
    int64_t end = jinja_argument_int(j, call->arguments[has_end], 0);
    int64_t step = jinja_argument_int(j, call->arguments[2], 1);
    if (step == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "range() arg 3 must not be zero");
    __extension__ __int128 span = step > 0 ? (__int128)end - begin : (__int128)begin - end;
    __extension__ __int128 by = step > 0 ? (__int128)step : -(__int128)step;
    __extension__ __int128 n = span > 0 ? (span + by - 1) / by : 0;
    if (n > MAX_RANGE)
        jinja_raise(j, KT_E_RANGE, "a range of more than %d numbers", MAX_RANGE);
    struct jinja_list *list = jinja_list_new(j, JINJA_IS_RANGE, (uint64_t)n + 3);
    jinja_charge(j, (uint64_t)n * 8);
    for (int64_t i = 0; i < (int64_t)n; i++)
        jinja_list_add(j, list, jinja_int(begin + i * step));
    list->items[list->n] = jinja_int(begin); /* for repr */
    list->items[list->n + 1] = jinja_int(end);
    list->items[list->n + 2] = jinja_int(step);
    return jinja_list(list);
}

/* From a dict or pairs, then keywords. */
static struct jinja_dict *make_dict(struct jinja *j, struct jinja_call *call, const char *name)
{
    struct jinja_dict *dict = jinja_dict_new(j);
    if (call->n > 1)
        jinja_raise(j, KT_E_UNSUPPORTED, "%s expected at most 1 argument, got %u", name, call->n);
    if (call->n == 1 && call->arguments[0].kind == JINJA_DICT) {
        const struct jinja_dict *from = call->arguments[0].dict;
        for (uint64_t i = 0; i < from->n; i++)
            jinja_dict_set(j, dict, from->entries[i].key, from->entries[i].value);
    } else if (call->n == 1) {
        const struct jinja_list *pairs = jinja_iterate(j, call->arguments[0]);
        for (uint64_t i = 0; i < pairs->n; i++) {
            const struct jinja_list *pair = jinja_iterate(j, pairs->items[i]);
            if (pair->n != 2)
                jinja_raise(j, KT_E_UNSUPPORTED, "%s() needs pairs", name);
            jinja_dict_set(j, dict, pair->items[0], pair->items[1]);
        }
    }
    for (uint32_t i = 0; i < call->n_keys; i++)
        jinja_dict_set(j, dict, jinja_text(call->keys[i]), call->keyed[i]);
    return dict;
}

static struct jinja_value run_dict(struct jinja *j, struct jinja_call *call)
{
    return jinja_dict(make_dict(j, call, "dict"));
}

static struct jinja_value run_namespace(struct jinja *j, struct jinja_call *call)
{
    return (struct jinja_value){.kind = JINJA_NAMESPACE, .dict = make_dict(j, call, "namespace")};
}

static struct jinja_value run_raise(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *words = jinja_str(j, call->arguments[0]);
    jinja_raise_words(j, KT_E_INVALID, words->bytes, words->length);
}

/* What Python's datetime does itself: there is no time zone, and %f is microseconds. */
static const char *expand_format(struct jinja *j, const struct jinja_text *format)
{
    struct jinja_buffer *out = jinja_buffer_new(j);
    for (uint64_t i = 0; i < format->length; i++) {
        char c = format->bytes[i], next = i + 1 < format->length ? format->bytes[i + 1] : 0;
        if (c == '%' && (next == 'z' || next == 'Z' || next == 'f'))
            jinja_add_words(j, out, next == 'f' ? "000000" : "");
        else
            jinja_add_part(j, out, format, i, i + 1 + (c == '%' && next));
        i += c == '%' && next;
    }
    jinja_add_bytes(j, out, "", 1, false);
    return out->bytes;
}

static struct jinja_value run_strftime(struct jinja *j, struct jinja_call *call)
{
    const struct jinja_text *format = jinja_argument_text(j, call->arguments[0], "");
    time_t now = j->params && j->params->has_time ? (time_t)j->params->time : time(NULL);
    struct tm parts;
    tzset();
    if (!localtime_r(&now, &parts))
        jinja_raise(j, KT_E_UNSUPPORTED, "a time that no calendar has");
    if (format->length > 4096)
        jinja_raise(j, KT_E_RANGE, "a format of more than 4096 bytes");
    char *text = jinja_alloc(j, 65536);
    const char *expanded = expand_format(j, format);
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        jinja_raise(j, KT_E_NOMEM, "out of memory for a locale");
    size_t length = strftime_l(text, 65536, expanded, &parts, plain);
    freelocale(plain);
    const struct jinja_text *result = jinja_text_of(j, text, length, jinja_has_content(format));
    return jinja_text(result);
}

const struct jinja_builtin *jinja_find_function(const char *name, uint64_t length)
{
    static const struct jinja_builtin functions[] = {
        {"dict", run_dict, "*"},
        {"namespace", run_namespace, "*"},
        {"raise_exception", run_raise, "message"},
        {"range", run_range, "start [stop step"},
        {"strftime_now", run_strftime, "format"},
        {NULL, NULL, NULL},
    };
    return jinja_find_in(functions, name, length);
}

struct jinja_value jinja_loop_attribute(struct jinja *j, struct jinja_loop *loop,
                                        const struct jinja_text *name)
{
    int64_t index = (int64_t)loop->index, n = (int64_t)loop->list->n;
    const struct {
        const char *name;
        struct jinja_value value;
    } numbers[] = {
        {"index", jinja_int(index + 1)},    {"index0", jinja_int(index)},
        {"revindex", jinja_int(n - index)}, {"revindex0", jinja_int(n - index - 1)},
        {"first", jinja_bool(index == 0)},  {"last", jinja_bool(index + 1 >= n)},
        {"length", jinja_int(n)},           {"depth", jinja_int(1)},
        {"depth0", jinja_int(0)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (jinja_text_is(name, numbers[i].name))
            return numbers[i].value;
    if (jinja_text_is(name, "previtem"))
        return index > 0 ? loop->list->items[index - 1] : jinja_undefined_why(j, "there is no previous item");
    if (jinja_text_is(name, "nextitem"))
        return index + 1 < n ? loop->list->items[index + 1] : jinja_undefined_why(j, "there is no next item");
    return (struct jinja_value){.kind = JINJA_ABSENT};
}

static struct jinja_value run_cycle(struct jinja *j, struct jinja_call *call)
{
    if (call->n == 0)
        jinja_raise(j, KT_E_UNSUPPORTED, "no items for cycling given");
    return call->arguments[call->self.loop->index % call->n];
}

static struct jinja_value run_changed(struct jinja *j, struct jinja_call *call)
{
    struct jinja_list *now = jinja_list_new(j, JINJA_IS_TUPLE, call->n), *last = call->self.loop->last;
    for (uint32_t i = 0; i < call->n; i++)
        jinja_list_add(j, now, call->arguments[i]);
    call->self.loop->last = now;
    return jinja_bool(!last || !jinja_equal(j, jinja_list(last), jinja_list(now)));
}

const struct jinja_builtin jinja_loop_methods[] = {
    {"changed", run_changed, "*"},
    {"cycle", run_cycle, "*"},
    {NULL, NULL, NULL},
};
