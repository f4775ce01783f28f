/* SPDX-License-Identifier: Apache-2.0 */
/* count_instructions.c - a plugin of qemu-user: how many instructions a program executed. qemu's own header
 * is in no package, so what is used of it stands here. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*callback)(uint64_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int add, void *counter, uint64_t n);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*callback)(uint64_t id, void *data), void *data);
void qemu_plugin_outs(const char *text);
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

int qemu_plugin_version = 1;
static uint64_t n_executed;

static void translate(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &n_executed, qemu_plugin_tb_n_insns(tb));
}

static void report(uint64_t id, void *data)
{
    char text[32];
    (void)id;
    (void)data;
    (void)snprintf(text, sizeof text, "%" PRIu64 "\n", n_executed);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, report, NULL);
    return 0;
}
