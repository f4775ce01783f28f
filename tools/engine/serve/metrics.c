/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void kt_metrics_count(struct kt_metrics *metrics, unsigned status, double seconds, bool hung_up)
{
    unsigned bucket = 0;
    while (bucket < KT_HISTOGRAM_BUCKETS - 1 && seconds > kt_histogram_bound(bucket))
        bucket++;
    pthread_mutex_lock(&metrics->lock);
    metrics->status[status / 100 % 6]++;
    metrics->hung_up += hung_up;
    metrics->request.counts[bucket]++;
    metrics->request.n++;
    metrics->request.sum += seconds;
    pthread_mutex_unlock(&metrics->lock);
}

static bool add(struct kt_buffer *out, const char *format, ...) KT_PRINTF(2, 3);
static bool add(struct kt_buffer *out, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    return kt_buffer_add_text(out, line);
}

static bool add_head(struct kt_buffer *out, const char *name, const char *type, const char *help)
{
    return add(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A counter by its name, which then ends in _total, or a gauge. */
static bool add_number(struct kt_buffer *out, const char *name, const char *type, const char *help,
                       double value)
{
    return add_head(out, name, type, help) && add(out, "%s %.15g\n", name, value);
}

/* One of a metric's histograms; label: such as stage="head", or empty. scale: of the bounds. */
static bool add_buckets(struct kt_buffer *out, const char *name, const char *label, double scale,
                        const struct kt_histogram *histogram)
{
    const char *comma = *label ? "," : "";
    uint64_t sum = 0;
    bool done = true;
    for (unsigned i = 0; done && i < KT_HISTOGRAM_BUCKETS - 1; i++) {
        sum += histogram->counts[i];
        done = add(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, label, comma,
                   kt_histogram_bound(i) * scale, sum);
    }
    done = done && add(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma, histogram->n);
    const char *open = *label ? "{" : "", *close = *label ? "}" : "";
    return done && add(out, "%s_sum%s%s%s %.9g\n", name, open, label, close, histogram->sum) &&
           add(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, histogram->n);
}

static bool add_histogram(struct kt_buffer *out, const char *name, const char *help,
                          const struct kt_histogram *histogram)
{
    return add_head(out, name, "histogram", help) && add_buckets(out, name, "", 1, histogram);
}

static bool add_steps(struct kt_buffer *out, const struct kt_scheduler_stats *stats)
{
    static const char name[] = "kt_step_seconds";
    static const char *const labels[] = {[KT_PART_LINEARS] = "stage=\"linears\"",
                                         [KT_PART_EXPERTS] = "stage=\"experts\"",
                                         [KT_PART_ATTENTION] = "stage=\"attention\"",
                                         [KT_PART_HEAD] = "stage=\"head\"",
                                         [KT_PART_OTHER] = "stage=\"other\""};
    bool done = add_head(out, name, "histogram", "A step of the model: all of it, and its stages") &&
                add_buckets(out, name, "stage=\"all\"", 1, &stats->step);
    for (unsigned i = 0; done && i < KT_PARTS; i++)
        done = add_buckets(out, name, labels[i], 1, &stats->stages[i]);
    return done;
}

static bool add_prompt_rate(struct kt_buffer *out, const struct kt_scheduler_stats *stats)
{
    static const char name[] = "kt_prompt_tokens_per_second";
    return add_head(out, name, "histogram", "Of a prompt that was read, without what a prefix had") &&
           add_buckets(out, name, "", KT_HISTOGRAM_RATE, &stats->prompt_rate);
}

static bool add_ends(struct kt_buffer *out, const uint64_t *ended)
{
    static const char *const names[] = {[KT_END_STOP] = "stop",
                                        [KT_END_LENGTH] = "length",
                                        [KT_END_CANCELLED] = "cancelled",
                                        [KT_END_ERROR] = "error"};
    bool done = add_head(out, "kt_answers_total", "counter", "Answers by why they ended");
    for (unsigned i = KT_END_STOP; done && i <= KT_END_ERROR; i++)
        done = add(out, "kt_answers_total{reason=\"%s\"} %" PRIu64 "\n", names[i], ended[i]);
    return done;
}

static bool add_pages(struct kt_buffer *out, const struct kt_scheduler_stats *stats)
{
    uint64_t used = stats->pages - stats->pages_free - stats->pages_kept;
    return add_head(out, "kt_kv_pages", "gauge", "Pages of the cache of keys and values") &&
           add(out,
               "kt_kv_pages{state=\"used\"} %" PRIu64 "\nkt_kv_pages{state=\"cached\"} %" PRIu64
               "\nkt_kv_pages{state=\"free\"} %" PRIu64 "\n",
               used, stats->pages_kept, stats->pages_free);
}

static bool add_limit(struct kt_buffer *out, const struct kt_scheduler_stats *stats, double memory_rate)
{
    double most = stats->model_seconds * memory_rate;
    return memory_rate <= 0 ||
           (add_number(out, "kt_memory_bytes_per_second", "gauge", "What this machine can read",
                       memory_rate) &&
            add_number(out, "kt_bandwidth_fraction", "gauge", "Of that, what steps have read so far",
                       most > 0 ? stats->step_bytes / most : 0));
}

static bool add_stats(struct kt_buffer *out, const struct kt_scheduler_stats *stats)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } numbers[] = {
        {"kt_prompt_tokens_total", "counter", "Tokens of prompts", (double)stats->prompt_tokens},
        {"kt_cached_tokens_total", "counter", "Of these, tokens that a kept prefix had",
         (double)stats->cached_tokens},
        {"kt_generated_tokens_total", "counter", "Tokens of answers", (double)stats->generated_tokens},
        {"kt_drafted_tokens_total", "counter", "Tokens that were computed before they were chosen",
         (double)stats->drafted_tokens},
        {"kt_accepted_tokens_total", "counter", "Of these, tokens that were then chosen",
         (double)stats->accepted_tokens},
        {"kt_refused_total", "counter", "Requests that found the queue full", (double)stats->refused},
        {"kt_preempted_total", "counter", "Requests that were put back into the queue",
         (double)stats->preempted},
        {"kt_prefix_hits_total", "counter", "Prompts that began with a kept prefix",
         (double)stats->prefix_hits},
        {"kt_prefix_misses_total", "counter", "Prompts that did not", (double)stats->prefix_misses},
        {"kt_steps_total", "counter", "Steps of the model", (double)stats->steps},
        {"kt_step_bytes_total", "counter", "Bytes that steps had to read", stats->step_bytes},
        {"kt_model_seconds_total", "counter", "Time in steps of the model", stats->model_seconds},
        {"kt_other_seconds_total", "counter", "Time between them", stats->other_seconds},
        {"kt_queue_depth", "gauge", "Requests that wait", (double)stats->queued},
        {"kt_running", "gauge", "Requests that are computed", (double)stats->running},
        {"kt_prefixes", "gauge", "Kept prefixes", (double)stats->prefixes},
    };
    bool done = true;
    for (size_t i = 0; done && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        done = add_number(out, numbers[i].name, numbers[i].type, numbers[i].help, numbers[i].value);
    return done && add_pages(out, stats) && add_ends(out, stats->ended) &&
           add_histogram(out, "kt_time_to_first_token_seconds", "From a request to its first token",
                         &stats->first_token) &&
           add_histogram(out, "kt_inter_token_seconds", "From one token of an answer to the next",
                         &stats->inter_token) &&
           add_prompt_rate(out, stats) && add_steps(out, stats);
}

/* As Prometheus reads a text in quotes. */
static void quote(const char *text, char *quoted, size_t size)
{
    size_t n = 0;
    for (; *text && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\' || *text == '\n')
            quoted[n++] = '\\';
        quoted[n++] = *text == '\n' ? 'n' : *text;
    }
    quoted[n] = '\0';
}

bool kt_metrics_write_models(struct kt_models *models, struct kt_buffer *out)
{
    static const struct {
        const char *name, *type, *help;
    } rows[] = {{"kt_model_loaded", "gauge", "Whether a model is in memory"},
                {"kt_model_loads_total", "counter", "How often a model was loaded"},
                {"kt_model_waiting", "gauge", "Requests that wait for a model to be loaded"},
                {"kt_model_leaving", "gauge",
                 "Whether a model is unloaded as soon as its answers have ended"}};
    char name[128];
    bool done = true;
    pthread_mutex_lock(&models->lock);
    for (size_t row = 0; done && row < sizeof(rows) / sizeof(rows[0]); row++) {
        done = add_head(out, rows[row].name, rows[row].type, rows[row].help);
        for (size_t i = 0; done && i < models->n; i++) {
            const struct kt_served *model = &models->list[i];
            const uint64_t values[] = {model->is_here, model->n_loads, model->n_waiting, model->is_leaving};
            quote(model->names[0], name, sizeof(name));
            done = add(out, "%s{model=\"%s\"} %" PRIu64 "\n", rows[row].name, name, values[row]);
        }
    }
    pthread_mutex_unlock(&models->lock);
    return done;
}

bool kt_metrics_write(struct kt_metrics *metrics, const struct kt_scheduler_stats *stats, unsigned n_requests,
                      double memory_rate, struct kt_buffer *out)
{
    pthread_mutex_lock(&metrics->lock);
    struct kt_histogram request = metrics->request;
    uint64_t hung_up = metrics->hung_up, status[6];
    for (unsigned i = 0; i < 6; i++)
        status[i] = metrics->status[i];
    pthread_mutex_unlock(&metrics->lock);
    bool done = add_head(out, "kt_requests_total", "counter", "Replies by the hundreds of their status");
    for (unsigned i = 2; done && i < 6; i++)
        done = add(out, "kt_requests_total{status=\"%uxx\"} %" PRIu64 "\n", i, status[i]);
    return done &&
           add_number(out, "kt_hung_up_total", "counter", "Requests whose client went away",
                      (double)hung_up) &&
           add_number(out, "kt_requests", "gauge", "Requests that are being answered", n_requests) &&
           add_histogram(out, "kt_request_seconds", "From a request to the end of its reply", &request) &&
           (!stats || (add_stats(out, stats) && add_limit(out, stats, memory_rate)));
}
