/* tests/core/file.c - bytes from outside: the cursor, mapped and copied files, files that are never half written */
#define T_INTERNALS
#include "t.h"
#include "core/forget.h"
#if T_PAGES
#include <sys/resource.h>
#include <sys/stat.h>
#endif

static void test_cursor(void)
{
    static const unsigned char b[] = { 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x80, 0x3f, 9 };
    tinyi_cursor c = tinyi_cursor_make(b, sizeof b), old;
    uint16_t h; uint32_t w; uint64_t l; float f; double d; uint8_t u;
    const unsigned char *p;
    T_TRUE(tinyi_rd_u64(&c, &l) && l == UINT64_C(0x0807060504030201));
    T_TRUE(tinyi_rd_f32(&c, &f) && f == 1.0f);
    old = c;
    T_TRUE(!tinyi_rd_u16(&c, &h) && !tinyi_rd_u32(&c, &w) && !tinyi_rd_u64(&c, &l) && !tinyi_rd_f32(&c, &f) &&
           !tinyi_rd_f64(&c, &d));
    T_TRUE(!tinyi_rd_bytes(&c, 2, &p) && c.at == old.at && c.left == old.left);
    T_TRUE(tinyi_rd_u8(&c, &u) && u == 9 && c.left == 0);
    T_TRUE(!tinyi_rd_u8(&c, &u));
    T_TRUE(tinyi_rd_bytes(&c, 0, &p));
    c = tinyi_cursor_make(b, sizeof b);
    T_TRUE(tinyi_rd_u16(&c, &h) && h == 0x0201 && tinyi_rd_u32(&c, &w) && w == 0x06050403u);
}

/* the one rule: a count is at most the bytes left over the least size of an element, whatever it would wrap to */
static void test_count_rule(void)
{
    static const uint64_t bad[] = { 3, 1u << 31, UINT64_C(1) << 32, UINT64_C(1) << 61, UINT64_C(1) << 63, UINT64_MAX };
    unsigned char b[8 + 25];
    size_t i, k, n;
    tinyi_cursor c;
    memset(b, 0, sizeof b);
    for (i = 0; i < T_COUNT(bad); i++) {
        for (k = 0; k < 8; k++) b[k] = (unsigned char)(bad[i] >> 8 * k);
        c = tinyi_cursor_make(b, sizeof b);
        n = 77;
        T_TRUE(!tinyi_rd_count(&c, 13, &n) && n == 77 && c.at == b);
    }
    memset(b, 0, 8);
    b[0] = 1;
    c = tinyi_cursor_make(b, sizeof b);
    T_TRUE(tinyi_rd_count(&c, 13, &n) && n == 1 && c.left == 25);
    T_TRUE(tinyi_count_fits(&c, 25, 0) && !tinyi_count_fits(&c, 26, 0));
}

static void test_files(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    const char *path = "tiny-file-test.bin";
    unsigned char *data = (unsigned char *)t_keep(300000);
    tiny_file f;
    size_t i;
    for (i = 0; i < 300000; i++) data[i] = (unsigned char)(i * 7 >> 3);
    T_STATUS(tiny_file_open(ctx, "there/is/no/such/file", &f), TINY_E_IO, "there/is/no/such/file: cannot be opened");
    T_STATUS(tiny_file_open(ctx, ".", &f), TINY_E_IO, ".: ");
    T_STATUS(tiny_file_open(ctx, NULL, &f), TINY_E_ARGUMENT, "needs a path");
    T_OK(tiny_file_write(ctx, path, data, 300000));
    T_OK(tiny_file_open(ctx, path, &f));
    T_EQ_INT(f.n_bytes, 300000);
    T_SAME(f.bytes, data, 300000);
    tiny_file_close(ctx, &f);
    tiny_file_close(ctx, &f);
    T_OK(tiny_file_copy(ctx, path, &f));
    T_EQ_INT(f.n_bytes, 300000);
    T_SAME(f.bytes, data, 300000);
    T_TRUE(f.mapped == NULL);
    tiny_file_close(ctx, &f);
    T_OK(tiny_file_write(ctx, path, data, 3));              /* over the old one */
    T_OK(tiny_file_open(ctx, path, &f));
    T_EQ_INT(f.n_bytes, 3);
    tiny_file_close(ctx, &f);
    T_OK(tiny_file_write(ctx, path, NULL, 0));
    T_OK(tiny_file_open(ctx, path, &f));
    T_EQ_INT(f.n_bytes, 0);
    tiny_file_close(ctx, &f);
    T_STATUS(tiny_file_write(ctx, "there/is/no/folder", data, 3), TINY_E_IO, "there/is/no/folder.part");
    f = tiny_file_memory(data, 10);
    T_TRUE(f.bytes == data && f.n_bytes == 10);
    tiny_file_close(ctx, &f);
    (void)remove(path);
    t_close(ctx);
}

static void test_full_disk(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    FILE *full = fopen("/dev/full", "wb");
    if (!full) T_SKIP("no /dev/full");
    else {
        (void)fclose(full);
        /* the part file is a link to a device that is always full */
#if T_PAGES
        (void)remove("tiny-full.part");
        if (!symlink("/dev/full", "tiny-full.part")) {
            char big[70000];
            memset(big, 1, sizeof big);
            T_STATUS(tiny_file_write(ctx, "tiny-full", big, sizeof big), TINY_E_IO, "could not be written");
            T_TRUE(fopen("tiny-full", "rb") == NULL && fopen("tiny-full.part", "rb") == NULL);
        }
#endif
    }
    t_close(ctx);
}

/* The name of the part is a link: its target stays unchanged, and is not created. */
static void test_link_as_part(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_file f;
    int there;
    for (there = 0; there < 2; there++) {
        (void)remove("tiny-victim");
        (void)remove("tiny-linked.part");
        if (there) T_OK(tiny_file_write(ctx, "tiny-victim", "mine", 4));
        if (symlink("tiny-victim", "tiny-linked.part")) break;
        T_STATUS(tiny_file_write(ctx, "tiny-linked", "hello", 5), TINY_E_IO, "tiny-linked.part: is a symbolic link");
        T_TRUE(fopen("tiny-linked", "rb") == NULL);
        T_EQ_INT(unlink("tiny-linked.part"), 0);        /* still the link */
        if (!there) T_TRUE(fopen("tiny-victim", "rb") == NULL);
        else {
            T_OK(tiny_file_open(ctx, "tiny-victim", &f));
            T_TRUE(f.n_bytes == 4 && !memcmp(f.bytes, "mine", 4));
            tiny_file_close(ctx, &f);
        }
    }
    (void)remove("tiny-victim");
    t_close(ctx);
#endif
}

/* The last descriptor opens the file of a killed program, and none is left to truncate it: refused, and nothing stays
 * open. */
static void test_last_descriptor(void)
{
#if T_PAGES && !defined __EMSCRIPTEN__
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    struct rlimit was, few;
    FILE *left = fopen("tiny-last.part", "wb");
    int first, after;
    T_TRUE(left && fwrite("of somebody who is dead", 1, 23, left) == 23 && !fclose(left));
    first = dup(1);                                 /* the number that the next file gets */
    (void)close(first);
    if (T_TRUE(first >= 0 && !getrlimit(RLIMIT_NOFILE, &was))) {
        few = was;
        few.rlim_cur = (rlim_t)first + 1;
        if (T_EQ_INT(setrlimit(RLIMIT_NOFILE, &few), 0)) {
            T_STATUS(tiny_file_write(ctx, "tiny-last", "mine", 4), TINY_E_IO, "tiny-last.part: cannot be emptied");
            (void)setrlimit(RLIMIT_NOFILE, &was);
        }
        after = dup(1);
        (void)close(after);
        T_EQ_INT(after, first);
        T_OK(tiny_file_write(ctx, "tiny-last", "mine", 4));
    }
    (void)remove("tiny-last.part");
    (void)remove("tiny-last");
    t_close(ctx);
#endif
}

/* Two writers of one path: the second is refused and does not touch the first one's part. */
static void test_two_writers(void)
{
#if T_PAGES
    static const char half[] = "the first half, ", rest[] = "and the rest";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1), *other = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_file f;
    FILE *left;
    int i;
    (void)remove("tiny-two");
    /* of a killed program: it does not matter, and is removed */
    left = fopen("tiny-two.part", "wb");
    T_TRUE(left && fwrite("a long text of somebody who is dead", 1, 35, left) == 35 && !fclose(left));
    for (i = 0; i < 2; i++) {
        tinyi_out out;
        T_OK(tinyi_out_open(ctx, "tiny-two", &out));
        T_OK(tinyi_out_add(ctx, &out, half, sizeof half - 1));
        T_STATUS(tiny_file_write(other, "tiny-two", "mine", 4), TINY_E_IO,
                 "tiny-two.part: another program is writing it");
        T_OK(tinyi_out_add(ctx, &out, rest, sizeof rest - 1));
        T_OK(tinyi_out_finish(ctx, &out));
        T_OK(tiny_file_open(other, "tiny-two", &f));
        T_TRUE(f.n_bytes == 28 && !memcmp(f.bytes, "the first half, and the rest", 28));
        tiny_file_close(other, &f);
        T_OK(tiny_file_write(other, "tiny-two", "mine", 4));
    }
    (void)remove("tiny-two");
    t_close(other);
    t_close(ctx);
#endif
}

/* A link to a device counts as the device: as root the device itself would be deleted. */
/* an endless device is refused, and not read until memory is exhausted */
static void test_endless_device(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tiny_file file;
    FILE *f = fopen("/dev/zero", "rb");
    if (!f) T_SKIP("no /dev/zero");
    else {
        (void)fclose(f);
        T_EQ_INT(tiny_file_open(ctx, "/dev/zero", &file), TINY_E_IO);
        T_TRUE(strstr(tiny_ctx_message(ctx), "/dev/zero: more than 67108864 bytes") != NULL);
        T_TRUE(!file.bytes && !file.owned);
        T_OK(tiny_file_open(ctx, "/dev/null", &file));
        T_EQ_INT(file.n_bytes, 0);
        tiny_file_close(ctx, &file);
    }
    T_TRUE(tinyi_file_most("tests/t.h") == UINT64_MAX);
    (void)remove("tiny-other");
    if (!mkfifo("tiny-other", 0600)) {      /* `yes | graph info /dev/stdin` took all the memory of the machine */
        const uint64_t most = tinyi_file_most("tiny-other");
        T_TRUE(most >= TINY_FILE_MOST_DEVICE && most <= TINY_FILE_MOST_PIPE);
#ifdef _SC_PHYS_PAGES
        T_TRUE(most <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2);
#endif
    }
    (void)remove("tiny-other");
    t_close(ctx);
#endif
}

static void test_device(void)
{
#if T_PAGES
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    FILE *f = fopen("/dev/null", "wb");
    if (!f) T_SKIP("no /dev/null");
    else {
        (void)fclose(f);
        (void)remove("tiny-null");
        if (!symlink("/dev/null", "tiny-null")) {
            char big[100];
            T_OK(tiny_file_write(ctx, "tiny-null", "hello", 5));
            T_EQ_INT(readlink("tiny-null", big, sizeof big), 9);    /* still the link */
        }
        (void)remove("tiny-null");
        (void)remove("tiny-full");
        if (!symlink("/dev/full", "tiny-full")) {
            T_STATUS(tiny_file_write(ctx, "tiny-full", "hello", 5), TINY_E_IO,
                     "tiny-full: 5 bytes could not be written");
            T_EQ_INT(remove("tiny-full"), 0);
        }
    }
    t_close(ctx);
#endif
}

/* Another file is moved into the part's place while it is written: it does not become our file. */
#if T_PAGES
static void exchange(const char *other)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tinyi_out out;
    tiny_file f;
    T_OK(tiny_file_write(ctx, "tiny-exchanged", "old", 3));
    T_OK(tinyi_out_open(ctx, "tiny-exchanged", &out));
    T_OK(tinyi_out_add(ctx, &out, "new", 3));
    T_EQ_INT(rename(other, "tiny-exchanged.part"), 0);
    T_STATUS(tinyi_out_finish(ctx, &out), TINY_E_IO,
             "tiny-exchanged.part: is not a regular file, and does not replace tiny-exchanged");
    if (T_TRUE(!tinyi_file_special("tiny-exchanged"))) {    /* otherwise no reader waits for the writer of a pipe */
        T_OK(tiny_file_open(ctx, "tiny-exchanged", &f));
        T_TRUE(f.n_bytes == 3 && !memcmp(f.bytes, "old", 3));
        tiny_file_close(ctx, &f);
    }
    (void)remove("tiny-exchanged");
    t_close(ctx);
}
#endif

static void test_pipe_in_place(void)
{
#if T_PAGES
    (void)remove("tiny-other");
    if (mkfifo("tiny-other", 0600)) T_SKIP("no pipes");
    else exchange("tiny-other");
#endif
}

static void test_link_in_place(void)
{
#if T_PAGES
    (void)remove("tiny-other");
    if (symlink("/dev/null", "tiny-other")) T_SKIP("no links");
    else exchange("tiny-other");
#endif
}

static void test_device_in_place(void)
{
#if T_PAGES
    struct stat null;
    (void)remove("tiny-other");
    if (stat("/dev/null", &null) || mknod("tiny-other", S_IFCHR | 0600, null.st_rdev))
        T_SKIP("only root makes devices");
    else exchange("tiny-other");
#endif
}

/* pages of a mapped file are dropped and come back the same; nothing else is touched */
static void test_forget(void)
{
    enum { N = 40000 };
    const char *path = "build/forgotten.tmp";
    unsigned char *p = (unsigned char *)t_keep(N);
    FILE *f = fopen(path, "wb");
    tiny_file file, memory = tiny_file_memory(p, N);
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < N; i++) p[i] = (unsigned char)(i * 2654435761u >> 11);
    if (!T_TRUE(f != NULL)) return;
    T_TRUE(fwrite(p, 1, N, f) == N);
    (void)fclose(f);
    if (T_OK(tiny_file_open(ctx, path, &file))) {
        T_SAME(file.bytes, p, N);
#if defined __linux__
        if (file.mapped) T_TRUE(tinyi_file_forget(&file, file.bytes + 100, N - 100));
#endif
        T_TRUE(!tinyi_file_forget(&file, file.bytes + 1, N + 1 > file.mapped_bytes ? N + 1 : file.mapped_bytes + 1));
        T_TRUE(!tinyi_file_forget(&file, p, N) && !tinyi_file_forget(&memory, p, N) &&
               !tinyi_file_forget(&file, file.bytes, 100));
        T_SAME(file.bytes, p, N);
        tiny_file_close(ctx, &file);
    }
    tiny_ctx_close(ctx);
    (void)remove(path);
    t_free_blocks();
}

/* What a control group may use: the least limit on the way from its folder to the root, "max" being none. Folders and
 * files as Linux lays them out, made here. */
static void test_group_memory(void)
{
#if defined __linux__ && T_PAGES
    static const char *const folders[] = { "tiny-groups", "tiny-groups/a", "tiny-groups/a/b", "tiny-groups/memory" };
    static const char groups[] = "tiny-groups/own", outer[] = "tiny-groups/a/memory.max",
                      inner[] = "tiny-groups/a/b/memory.max", top[] = "tiny-groups/memory.max",
                      first[] = "tiny-groups/memory/memory.limit_in_bytes";
    tiny_ctx *ctx = t_ctx(TINY_TARGET_SCALAR, 1);
    size_t i;
    for (i = 0; i < 4; i++) (void)mkdir(folders[i], 0777);
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == UINT64_MAX);        /* no file at all */
    T_OK(tiny_file_write(ctx, groups, "1:name=systemd:/x\n0::/a/b\n", 26));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == UINT64_MAX);
    T_OK(tiny_file_write(ctx, inner, "max\n", 4));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == UINT64_MAX);
    T_OK(tiny_file_write(ctx, outer, "1000000\n", 8));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 1000000);
    T_OK(tiny_file_write(ctx, inner, "2000000\n", 8));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 1000000);
    T_OK(tiny_file_write(ctx, inner, "900000\n", 7));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 900000);
    T_OK(tiny_file_write(ctx, top, "800000", 6));            /* what a container sees as the root */
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 800000);
    T_OK(tiny_file_write(ctx, first, "700000\n", 7));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 700000);
    T_OK(tiny_file_write(ctx, first, "99999999999999999999999999\n", 27));  /* more than a number holds */
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 800000);
    T_OK(tiny_file_write(ctx, groups, "0::/\n", 5));
    T_TRUE(tinyi_group_memory("tiny-groups", groups) == 800000);
    (void)remove(groups); (void)remove(outer); (void)remove(inner); (void)remove(top); (void)remove(first);
    for (i = 4; i-- > 0;) (void)rmdir(folders[i]);
    t_close(ctx);
    T_TRUE(tinyi_spare_memory() <= tinyi_half_memory() && tinyi_half_memory() < UINT64_MAX / 2);
#endif
}

static void test_each_allocation(void)
{
    T_EACH_ALLOCATION({
        tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
        tiny_ctx *ctx = NULL;
        tiny_file f;
        if (!tiny_ctx_open(&d, &ctx)) {
            static const unsigned char big[200000] = { 1 };
            if (!tiny_file_write(ctx, "tiny-each.bin", big, sizeof big)) {
                tiny_status st = tiny_file_copy(ctx, "tiny-each.bin", &f);
                T_TRUE(!st || st == TINY_E_MEMORY);
                tiny_file_close(ctx, &f);
            }
            tiny_ctx_close(ctx);
        }
    })
    (void)remove("tiny-each.bin");
}

int main(void)
{
    T_RUN(test_cursor);
    T_RUN(test_count_rule);
    T_RUN(test_files);
    T_RUN(test_full_disk);
    T_RUN(test_link_as_part);
    T_RUN(test_last_descriptor);
    T_RUN(test_two_writers);
    T_RUN(test_endless_device);
    T_RUN(test_device);
    T_RUN(test_pipe_in_place);
    T_RUN(test_link_in_place);
    T_RUN(test_device_in_place);
    T_RUN(test_forget);
    T_RUN(test_group_memory);
    T_RUN(test_each_allocation);
    return t_done();
}
