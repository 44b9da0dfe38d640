/* bench/arm/count.c - a plugin of QEMU that counts executed instructions between marks of a program
 *
 *   cc -O2 -shared -fPIC bench/arm/count.c -o count.so
 *   qemu-aarch64 -plugin ./count.so,out=PREFIX program
 *
 * The program marks a place by the system call 0x777 with a number. At each mark, PREFIX.number gets a line for every
 * translated block that ran so far: address, instructions, times it ran, and a line "all" with their sum. The functions
 * below are those of version 1 of the plugin interface, which QEMU 4.2 to 8.2 offer; declared here because its header
 * is not packaged everywhere. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SEEN __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
typedef void (*on_block)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*on_call)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, on_block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int op, void *at, uint64_t add);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, on_call);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);

SEEN int qemu_plugin_version = 1;
SEEN int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

enum { MOST = 1 << 20 };
static struct { uint64_t at, n, times; } *block;
static size_t blocks;
static const char *prefix = "count";

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    if (blocks == MOST) { fprintf(stderr, "count: more than %d blocks\n", MOST); exit(1); }
    block[blocks].at = qemu_plugin_tb_vaddr(tb);
    block[blocks].n = qemu_plugin_tb_n_insns(tb);
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &block[blocks++].times, 1);
}

static void called(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    char name[1024];
    uint64_t all = 0;
    size_t i;
    FILE *to;
    (void)id; (void)cpu; (void)b; (void)c; (void)d; (void)e; (void)f; (void)g; (void)h;
    if (number != 0x777) return;
    snprintf(name, sizeof name, "%s.%llu", prefix, (unsigned long long)a);
    to = fopen(name, "w");
    if (!to) { perror(name); exit(1); }
    for (i = 0; i < blocks; i++) {
        if (!block[i].times) continue;
        all += block[i].n * block[i].times;
        fprintf(to, "%llx %llu %llu\n", (unsigned long long)block[i].at, (unsigned long long)block[i].n,
                (unsigned long long)block[i].times);
    }
    fprintf(to, "all %llu\n", (unsigned long long)all);
    fclose(to);
}

SEEN int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    int i;
    (void)info;
    block = calloc(MOST, sizeof *block);
    for (i = 0; i < argc; i++) if (!strncmp(argv[i], "out=", 4)) prefix = strdup(argv[i] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return block ? 0 : 1;
}
