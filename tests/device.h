/* tests/device.h - the test device: memory of its own in this process, every operation of the table
 *
 * Uploaded inputs and outputs that stay are copies; an operation runs on the copies alone, through a context of the
 * device's own. The host's memory of an output is filled with NaN when its operation is done, until it is fetched: a
 * read before the fetch reads NaN. Inputs that the device has no copy of are sent, and counted. */
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H
#include "t.h"

typedef struct dev_copy { uintptr_t low, end; unsigned char *mem; int uploaded; } dev_copy;
typedef struct device {
    tiny_accel accel;
    tiny_ctx *ctx;                          /* runs the requested operation */
    dev_copy copy[4096];
    int n_copies;
    int declines, fails, breaks;            /* kinds that it declines, or fails at; breaks: fetch fails */
    /* again: an upload of memory that is already there */
    int n_run, n_fetch, n_discard, n_upload, n_again, n_forget;
    size_t sent;                            /* bytes of inputs that were on the host only */
    int asked[TINY_OP_BASE_YOURS], ran[TINY_OP_BASE_YOURS];         /* by kind */
} device;

TINYI_UNUSED static void dev_range(const tiny_tensor *t, uintptr_t *low, uintptr_t *end)
{
    ptrdiff_t a, b;
    tiny_tensor_span(t, &a, &b);
    *low = (uintptr_t)t->data + (uintptr_t)a;
    *end = (uintptr_t)t->data + (uintptr_t)b;
}
static dev_copy *dev_find(device *d, uintptr_t low, uintptr_t end)
{
    int i;
    for (i = 0; i < d->n_copies; i++)       /* an output on the device takes precedence over uploaded memory */
        if (!d->copy[i].uploaded && d->copy[i].low <= low && end <= d->copy[i].end) return &d->copy[i];
    for (i = 0; i < d->n_copies; i++)
        if (d->copy[i].low <= low && end <= d->copy[i].end) return &d->copy[i];
    return NULL;
}
static dev_copy *dev_make(device *d, uintptr_t low, uintptr_t end, int uploaded)
{
    dev_copy *c = &d->copy[d->n_copies];
    if (!T_TRUE(d->n_copies < 4096)) abort();
    d->n_copies++;
    c->low = low;
    c->end = end;
    c->uploaded = uploaded;
    c->mem = (unsigned char *)malloc((size_t)(end - low) + 64);
    if (!c->mem) abort();
    memcpy(c->mem, (const void *)low, (size_t)(end - low));
    return c;
}
static void dev_drop(device *d, dev_copy *c)
{
    free(c->mem);
    *c = d->copy[--d->n_copies];
}

static int dev_can_run(void *user, const tiny_op *op, const tiny_op_row *row)
{
    device *d = (device *)user;
    (void)row;
    d->asked[op->kind]++;
    return op->kind != d->declines;
}

/* element by element: from or to the copy, or NaN */
static void dev_walk(const tiny_tensor *t, unsigned char *other, int way)      /* 0: other to host, 1: NaN to host */
{
    const size_t size = tiny_dtype_bytes(t->dtype);
    tiny_idx d[4] = { 1, 1, 1, 1 }, s[4] = { 0, 0, 0, 0 }, i, j, k, l;
    int a;
    for (a = 0; a < t->rank; a++) { d[a] = t->dim[a]; s[a] = t->stride[a]; }
    for (i = 0; i < d[0]; i++) for (j = 0; j < d[1]; j++) for (k = 0; k < d[2]; k++) for (l = 0; l < d[3]; l++) {
        const tiny_idx at = (i * s[0] + j * s[1] + k * s[2] + l * s[3]) * (tiny_idx)size;
        if (way) memset((unsigned char *)t->data + at, 0xff, size);
        else memcpy((unsigned char *)t->data + at, other + at, size);
    }
}

static tiny_status dev_run(void *user, const tiny_op *op, const tiny_op_row *row, char *says)
{
    device *d = (device *)user;
    tiny_tensor in[TINY_OP_MAX_IN], out[TINY_OP_MAX_OUT];
    unsigned char *sent[TINY_OP_MAX_IN];
    tiny_op mine = *op;
    uintptr_t low, end;
    tiny_status st;
    int i, j, n_sent = 0;
    if (op->kind == d->fails) { (void)snprintf(says, 256, "this device fails on purpose"); return TINY_E_ACCEL; }
    d->n_run++;
    for (j = 0; j < row->n_out; j++) {      /* first: an input in place is found in the same copy */
        dev_copy *c;
        if (!tiny_tensor_count(op->out[j])) continue;
        dev_range(op->out[j], &low, &end);
        for (c = d->copy; c < d->copy + d->n_copies && (c->uploaded || c->low != low || c->end != end); c++) {}
        if (c == d->copy + d->n_copies) {
            dev_copy *was = dev_find(d, low, end);
            const int k = was ? (int)(was - d->copy) : -1;
            c = dev_make(d, low, end, 0);
            if (k >= 0) memcpy(c->mem, d->copy[k].mem + (low - d->copy[k].low), (size_t)(end - low));
            else if ((op->in[0] && op->in[0]->data == op->out[j]->data) || row->flags & TINY_OP_ACCUMULATES)
                d->sent += (size_t)(end - low);
        }
    }
    for (i = 0; i < row->n_in; i++) {
        dev_copy *c;
        if (!op->in[i]) continue;
        in[i] = *op->in[i];
        mine.in[i] = &in[i];
        if (!tiny_tensor_count(op->in[i])) continue;
        dev_range(op->in[i], &low, &end);
        c = dev_find(d, low, end);
        if (c) in[i].data = c->mem + ((uintptr_t)op->in[i]->data - c->low);
        else {
            sent[n_sent] = (unsigned char *)malloc((size_t)(end - low) + 64);
            memcpy(sent[n_sent], (const void *)low, (size_t)(end - low));
            in[i].data = sent[n_sent++] + ((uintptr_t)op->in[i]->data - low);
            d->sent += (size_t)(end - low);
        }
    }
    for (j = 0; j < row->n_out; j++) {
        dev_copy *c;
        out[j] = *op->out[j];
        mine.out[j] = &out[j];
        if (!tiny_tensor_count(op->out[j])) continue;
        dev_range(op->out[j], &low, &end);
        for (c = d->copy; c->uploaded || c->low != low || c->end != end; c++) {}
        out[j].data = c->mem + ((uintptr_t)op->out[j]->data - low);
    }
    st = tiny_run(d->ctx, &mine);
    if (st) (void)snprintf(says, 256, "%s", tiny_ctx_message(d->ctx));
    else d->ran[op->kind]++;
    for (j = 0; j < row->n_out && !st; j++) dev_walk(op->out[j], NULL, 1);
    while (n_sent) free(sent[--n_sent]);
    return st;
}

static void dev_give_back(device *d, const tiny_tensor *out, int wanted)
{
    dev_copy *c;
    uintptr_t low, end;
    dev_range(out, &low, &end);
    for (c = d->copy; c < d->copy + d->n_copies && (c->uploaded || c->low != low || c->end != end); c++) {}
    if (!T_TRUE(c < d->copy + d->n_copies)) return;         /* tiny_run only passes its own arguments */
    if (wanted) dev_walk(out, c->mem + ((uintptr_t)out->data - low), 0);
    dev_drop(d, c);
}
static tiny_status dev_fetch(void *user, const tiny_tensor *out, char *says)
{
    device *d = (device *)user;
    d->n_fetch++;
    dev_give_back(d, out, !d->breaks);
    if (d->breaks) (void)snprintf(says, 256, "the device is gone");
    return d->breaks ? TINY_E_ACCEL : TINY_OK;
}
static void dev_discard(void *user, const tiny_tensor *out)
{
    device *d = (device *)user;
    d->n_discard++;
    dev_give_back(d, out, 0);
}
static tiny_status dev_upload(void *user, const tiny_tensor *host, char *says)
{
    device *d = (device *)user;
    uintptr_t low, end;
    dev_copy *c;
    (void)says;
    dev_range(host, &low, &end);
    if (low == end) return TINY_OK;
    c = dev_find(d, low, end);
    if (c) { memcpy(c->mem + (low - c->low), (const void *)low, (size_t)(end - low)); d->n_again++; }
    else { (void)dev_make(d, low, end, 1); d->n_upload++; }
    return TINY_OK;
}
static void dev_forget(void *user, const tiny_tensor *host)
{
    device *d = (device *)user;
    uintptr_t low, end;
    int i;
    dev_range(host, &low, &end);
    for (i = d->n_copies; i-- > 0;)
        if (d->copy[i].uploaded && d->copy[i].low < end && low < d->copy[i].end) {
            dev_drop(d, &d->copy[i]);
            d->n_forget++;
        }
}

TINYI_UNUSED static int dev_away(const device *d)
{
    int i, n = 0;
    for (i = 0; i < d->n_copies; i++) n += !d->copy[i].uploaded;
    return n;
}

static device *dev_open(tiny_target target)
{
    device *d = (device *)calloc(1, sizeof *d);
    tiny_ctx_desc desc = t_desc(target, 1);
    if (!d || tiny_ctx_open(&desc, &d->ctx)) abort();
    d->declines = d->fails = -1;
    d->accel.version = TINY_ACCEL_VERSION;
    d->accel.name = "test device";
    d->accel.user = d;
    d->accel.can_run = dev_can_run;
    d->accel.run = dev_run;
    d->accel.upload = dev_upload;
    d->accel.forget = dev_forget;
    d->accel.fetch = dev_fetch;
    d->accel.discard = dev_discard;
    return d;
}
static void dev_close(device *d)            /* after the contexts that used it; nothing may be left there */
{
    T_EQ_INT(d->n_copies, 0);
    while (d->n_copies) dev_drop(d, d->copy);
    tiny_ctx_close(d->ctx);
    free(d);
}
static tiny_ctx *dev_ctx(device *d, tiny_target target)
{
    tiny_ctx_desc desc = t_desc(target, 1);
    tiny_ctx *ctx = NULL;
    desc.accel = &d->accel;
    if (!T_TRUE(tiny_ctx_open(&desc, &ctx) == TINY_OK)) abort();
    t_use(ctx);
    return ctx;
}
#endif
