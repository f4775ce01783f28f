/* SPDX-License-Identifier: Apache-2.0 */
/* registry_reason.c - states and their reasons. */
#define _GNU_SOURCE
#include "core/backend/registry_reason.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "core/machine/cpu.h"
#include "core/machine/cpu_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kt_status kt_backend_settle(struct kt_backend *backend, enum kt_backend_state state,
                                 struct kt_error *error, const char *format, ...)
{
    static const char *const words[] = {
        [KT_BACKEND_LOADED] = "loaded",   [KT_BACKEND_DISABLED] = "disabled", [KT_BACKEND_UNFIT] = "unfit",
        [KT_BACKEND_REFUSED] = "refused", [KT_BACKEND_FAILED] = "failed",
    };
    char *reason;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&reason, format, arguments);
    va_end(arguments);
    if (length < 0)
        return kt_fail(error, KT_E_NOMEM, "no memory for the state of plugin %s", backend->name);
    kt_text_mend(reason); /* a plugin may have worded it */
    free(backend->reason);
    backend->reason = reason;
    backend->state = state;
    bool odd = state == KT_BACKEND_REFUSED || state == KT_BACKEND_FAILED;
    kt_log_write(kt_config_log(backend->registry->config), odd ? KT_LOG_WARNING : KT_LOG_DEBUG,
                 "plugin %s: %s%s%s", backend->name, words[state], reason[0] != '\0' ? ": " : "", reason);
    return KT_OK;
}

/* The remedy depends on the cause: another machine, another setting, or another container. */
void kt_registry_explain_cpu(const struct kt_registry *registry, uint64_t missing, char *text, size_t size)
{
    const struct kt_setting *variant = kt_config_find(registry->config, "core", "cpu_variant");
    uint64_t mask = ~UINT64_C(0);
    char names[256];
    (void)kt_cpu_mask(variant ? variant->value : NULL, &mask, NULL);
    uint64_t absent = missing & ~kt_cpu_hardware();
    uint64_t masked = missing & ~absent & ~mask;
    if (absent != 0)
        (void)snprintf(text, size, "%s, which this CPU lacks", kt_cpu_names(absent, names, sizeof names));
    else if (masked != 0)
        (void)snprintf(text, size, "%s, masked off by core.cpu_variant = %s (%s)",
                       kt_cpu_names(masked, names, sizeof names), variant ? variant->value : "",
                       variant ? variant->origin : "");
    else
        (void)snprintf(text, size, "%s, for which the kernel gave this process no permission",
                       kt_cpu_names(missing, names, sizeof names));
}
