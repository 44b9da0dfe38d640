/* examples/devices.h - a table of devices, the layers that each should compute, and a picture of a ring in time
 *
 *     # name    ms a layer  free MB  MB/s of disk  [ms a layer on the accelerator, its free MB]  [system]
 *     desktop   4           16000    2000          0.5  6000
 *     laptop    9           6000     1500
 *     phone     30          2000     400           android
 *
 * build/prima run prints the first and the third number of the machine on which it runs. Systems: linux (if none is
 * given), android, macos, unified (macOS with an accelerator in the same memory), other. */

enum { DEVICES = 16 };
typedef struct devices {
    int n;
    char name[DEVICES][32];
    tllm_device d[DEVICES];
} devices;

/* 0, or 1 after a message */
static inline int devices_read(const char *path, devices *all)
{
    static const char *const systems[] = { "linux", "android", "macos", "unified", "other" };
    size_t n_text;
    char *text = read_text(path, MOST_SETTINGS, 0, &n_text), *line, *next;
    int number = 0, bad = !text;
    memset(all, 0, sizeof *all);
    for (line = text; line && *line && !bad; line = next) {
        char *word[8], *at;
        int n = 0, i;
        double v[5] = { 0, 0, 0, 0, 0 };
        tllm_device *d = &all->d[all->n < DEVICES ? all->n : 0];
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        number++;
        line[strcspn(line, "#")] = 0;
        for (at = strtok(line, " \t\r"); at && n < 8; at = strtok(NULL, " \t\r")) word[n++] = at;
        if (!n) continue;
        if (all->n == DEVICES || n > 7 || n < 4) {
            fprintf(stderr, PROGRAM ": %s: line %d: a device has a name and 3 or 5 numbers, and there are at most %d\n",
                    path, number, DEVICES);
            bad = 1;
            break;
        }
        for (i = 0; i < 5 && i + 1 < n && is_number(word[i + 1], 0, 1e9, &v[i]); i++) { }
        if (i + 1 < n) {                    /* the rest is the system */
            int k = 0;
            while (k < 5 && strcmp(word[n - 1], systems[k])) k++;
            if (i + 2 < n || k == 5) {
                fprintf(stderr, PROGRAM ": %s: line %d: %s is neither a number nor a system\n", path, number,
                        word[i + 1]);
                bad = 1;
                break;
            }
            d->system = k == 4 ? TLLM_SYSTEM_OTHER : k == 1 ? TLLM_SYSTEM_ANDROID : k ? TLLM_SYSTEM_MACOS
                                                                                     : TLLM_SYSTEM_LINUX;
            d->unified = k == 3;
        }
        if (i != 3 && i != 5) {
            fprintf(stderr, PROGRAM ": %s: line %d: %d numbers instead of 3 or 5\n", path, number, i);
            bad = 1;
            break;
        }
        (void)snprintf(all->name[all->n], sizeof all->name[0], "%s", word[0]);
        d->layer_s = 1e-3 * v[0];
        d->memory = 1e6 * v[1];
        d->disk = 1e6 * v[2];
        d->accel_s = i == 5 ? 1e-3 * (v[3] - v[0]) : 0;
        d->accel_memory = 1e6 * v[4];
        all->n++;
    }
    free(text);
    if (!bad && !all->n) {
        fprintf(stderr, PROGRAM ": %s: no device is in this table\n", path);
        bad = 1;
    }
    return bad;
}

/* what tllm_halda wants to know of a model file, for n_ctx tokens of keys and values in 16 bits */
static inline tiny_status devices_model(tiny_ctx *ctx, const char *path, tiny_idx n_ctx, tllm_halda_model *m,
                                        tllm_about *about)
{
    tllm_gguf *file = NULL;
    tllm_model *model = NULL;
    const tllm_gguf_tensor *t;
    tllm_state_desc sd;
    size_t i, most = 0, least = 0;
    tiny_status st = tllm_file_open(ctx, path, &file);
    memset(m, 0, sizeof *m);
    memset(&sd, 0, sizeof sd);
    if (!st) st = tllm_model_open(ctx, file, &model);
    if (!st) {
        tllm_model_about(model, about);
        sd.n_batch = 1;
        sd.type_k = sd.type_v = TLLM_FORMAT_F16;
        sd.n_ctx = n_ctx;
        st = tllm_state_memory(ctx, model, &sd, &most);
        sd.n_ctx = 1;
        if (!st) st = tllm_state_memory(ctx, model, &sd, &least);
    }
    if (!st) {
        m->n_layer = about->n_layer;
        m->n_vocab = about->n_vocab;
        for (i = 0; i < tllm_gguf_n_tensors(file); i++) {
            t = tllm_gguf_tensor_at(file, i);
            if (t->name.n > 4 && !memcmp(t->name.at, "blk.", 4)) m->layer_bytes += (double)t->bytes;
        }
        m->layer_bytes /= (double)m->n_layer;
        m->held_bytes = (double)(most - least) / (double)m->n_layer;
        t = tllm_gguf_tensor_find(file, "token_embd.weight");
        m->input_bytes = t ? (double)t->bytes : 0;
        t = tllm_gguf_tensor_find(file, "output.weight");
        m->output_bytes = t ? (double)t->bytes : m->input_bytes;
    }
    tllm_model_close(ctx, model);
    tllm_gguf_close(ctx, file);
    return st;
}

/* bars of computing and reading for two tokens after the first */
static inline tiny_status devices_draw(tiny_ctx *ctx, const char *svg, const devices *all, const tllm_halda_plan *p,
                                       const tllm_ring_device *ring, const int *of, int n, double hop_s)
{
    static char text[1 << 18];
    double loaded[DEVICES], now = 0, from = 0, end[3] = { 0, 0, 0 };
    size_t at = 0;
    int pass, t, i;
    tiny_idx c;
#define PUT(...) \
    do { if (at < sizeof text) at += (size_t)snprintf(text + at, sizeof text - at, __VA_ARGS__); } while (0)
    for (pass = 0; pass < 2; pass++) {      /* first the length, then the bars */
        const double scale = pass && end[2] > from ? 620 / (end[2] - from) : 0;
        memset(loaded, 0, sizeof loaded);
        now = 0;
        if (pass) {                         /* end still has the times of the first pass */
            PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"%d\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", 60 + 40 * n);
            PUT("<text x=\"110\" y=\"16\">two tokens, %.1f ms each: computing (blue), reading (orange)</text>\n",
                500 * (end[2] - from));
            for (i = 0; i < n; i++)
                PUT("<text x=\"4\" y=\"%d\">%.14s</text>\n", 48 + 40 * i, all->name[of[i]]);
            for (i = 0; i < 5; i++)
                PUT("<path d=\"M%d 24V%d\" stroke=\"#ddd\"/>\n"
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.3g ms</text>\n",
                    110 + 155 * i, 36 + 40 * n, 110 + 155 * i, 52 + 40 * n, 250 * i * (end[2] - from));
        }
        for (t = 0; t < 3; t++) {
            for (c = 0; c < p->k; c++)
                for (i = 0; i < n; i++) {
                    const double start = now > loaded[i] ? now : loaded[i],
                                 finish = start + (double)ring[i].window * ring[i].layer_s;
                    loaded[i] = finish + (ring[i].missing > 0 ? ring[i].missing / ring[i].disk : 0);
                    if (pass && t)
                        PUT("<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"14\" fill=\"#1f77b4\"/>\n",
                            110 + scale * (start - from), 32 + 40 * i, scale * (finish - start));
                    if (pass && t && loaded[i] > finish)
                        PUT("<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"8\" fill=\"#ff7f0e\"/>\n",
                            110 + scale * (finish - from), 48 + 40 * i,
                            scale * ((loaded[i] < end[2] ? loaded[i] : end[2]) - finish));
                    now = finish + (n > 1 ? hop_s : 0);
                }
            if (!pass) end[t] = now;
        }
        from = end[0];
    }
    PUT("</svg>\n");
#undef PUT
    if (at >= sizeof text) {
        say("the picture would be too large");
        return TINY_E_OVERFLOW;
    }
    return tiny_file_write(ctx, svg, text, at);
}

/* Reads the table, and chooses the layers of each device. 0, or the status after a message. */
static inline tiny_status devices_choose(tiny_ctx *ctx, const char *model, const char *table, tiny_idx n_ctx,
                                         devices *all, tllm_halda_model *m, tllm_about *about, tllm_halda_plan *p)
{
    tiny_status st;
    if (devices_read(table, all)) return TINY_E_FORMAT;
    st = devices_model(ctx, model, n_ctx, m, about);
    if (!st) st = tllm_halda(ctx, m, all->d, all->n, p);
    if (st) say(tiny_ctx_message(ctx));
    return st;
}

/* Reads the table, prints the layers of each device and the time of a token. 0, or the status after a message. */
static inline tiny_status devices_plan(tiny_ctx *ctx, const char *model, const char *table, tiny_idx n_ctx, double ms,
                                       double mbit, const char *svg)
{
    static const char *const what[] = { "", "", "", "reads again", "all in memory" };
    static devices all;
    tllm_halda_model m;
    tllm_about about;
    tllm_halda_plan p;
    tllm_ring_device ring[DEVICES];
    int of[DEVICES], n = 0, i;
    double hop, two[2] = { 0, 0 };
    tiny_status st = devices_choose(ctx, model, table, n_ctx, &all, &m, &about, &p);
    if (st) return st;
    hop = 1e-3 * ms + (mbit > 0 ? 4.0 * (double)about.n_embd * 8e-6 / mbit : 0);
    printf("%s: %td layers of %.1f MB, and %.1f MB of keys and values each for %td tokens\n\n"
           "device          layers a round  on accelerator   memory           time a round   disk a round\n",
           about.arch, m.n_layer, 1e-6 * m.layer_bytes, 1e-6 * m.held_bytes, n_ctx);
    for (i = 0; i < all.n; i++) {
        const tllm_device *d = &all.d[i];
        const double here = (double)(p.window[i] - p.accel[i]) * (double)p.k, b = m.layer_bytes + m.held_bytes;
        const double ends = i ? 0 : m.output_bytes;
        double missing = p.set[i] == 4 ? 0 : (here * b + ends + d->scratch - d->memory) / (double)p.k;
        if (!p.window[i]) {
            printf("%-15s %14s\n", all.name[i], "left out");
            continue;
        }
        if (missing < 0) missing = 0;
        ring[n].window = p.window[i];
        ring[n].layer_s = d->layer_s + d->accel_s * (double)p.accel[i] / (double)p.window[i];
        ring[n].missing = missing;
        ring[n].disk = d->disk;
        printf("%-15s %14td %15td   %-16s %9.1f ms   %9.1f ms\n", all.name[i], p.window[i], p.accel[i],
               p.set[i] >= 3 ? what[p.set[i]] : "macOS, reads again", 1e3 * (double)p.window[i] * ring[n].layer_s,
               missing > 0 ? 1e3 * missing / d->disk : 0.0);
        of[n++] = i;
    }
    st = tllm_ring_simulate(ctx, ring, n, p.k, hop, m.output_s, two, 2);
    if (!st)
        printf("\n%td round%s of %td layers a token. By Halda, which adds reading to computing: %.1f ms a token.\n"
               "In time, where a device reads while the others compute, with hops of %.2f ms: %.1f ms.\n",
               p.k, p.k > 1 ? "s" : "", m.n_layer / p.k, 1e3 * p.seconds, 1e3 * hop, 1e3 * (two[1] - two[0]));
    if (!st && svg) st = devices_draw(ctx, svg, &all, &p, ring, of, n, hop);
    if (st) say(tiny_ctx_message(ctx));
    return st;
}
