/* tests/llm/round/mixture.c - the format of each tensor
 *
 * tests/golden/mixtures.tsv holds the choices of examples/quantize.c before the choice moved into the library: every
 * mixture, each kind of tensor, 26 layers. A few more rows are worked by hand from the rules. */
#include "t.h"

static tllm_gguf_tensor tensor(const char *name, int type)
{
    tllm_gguf_tensor t;
    memset(&t, 0, sizeof t);
    t.name.at = name;
    t.name.n = strlen(name);
    t.type = type;
    t.rank = 2;
    t.dim[0] = 256;
    t.dim[1] = t.dim[2] = t.dim[3] = 2;
    return t;
}

static void test_golden(void)
{
    FILE *f = fopen("tests/golden/mixtures.tsv", "r");
    char line[1024], mixture[32], kind[64], name[100];
    int type, tied, n_rows = 0, used;
    while (T_TRUE(f != NULL) && fgets(line, sizeof line, f)) {
        const tllm_mixture *m;
        char *p;
        int layer = 0;
        if (!strncmp(line, "mixture\t", 8) ||
            sscanf(line, "%31s %d %63s %d%n", mixture, &type, kind, &tied, &used) != 4)
            continue;
        m = tllm_mixture_by_name(mixture);
        if (!T_TRUE(m != NULL)) break;
        T_EQ_TEXT(m->name, mixture);
        T_EQ_INT(m->file_type, type);
        for (p = line + used; *p && *p != '\n'; ) {
            char format[32];
            int n = 0, k, step = 0;
            if (sscanf(p, " %31[^*]*%d%n", format, &n, &step) != 2) break;
            for (k = 0; k < n; k++, layer++) {
                tllm_gguf_tensor t;
                const tllm_format *to;
                if (!strncmp(kind, "output", 6) || !strncmp(kind, "token", 5))
                    (void)snprintf(name, sizeof name, "%s", kind);
                else (void)snprintf(name, sizeof name, "blk.%d.%s", layer, kind);
                t = tensor(name, TLLM_FORMAT_F32);
                to = tllm_mixture_format(m, &t, 26, tied);
                if (!T_TRUE(to && !strcmp(to->name, format)))
                    printf("  %s: %s as %s, not %s\n", mixture, name, to ? to->name : "nothing", format);
            }
            p += step;
        }
        T_TRUE(layer == 1 || layer == 26);
        n_rows++;
    }
    if (f) (void)fclose(f);
    T_EQ_INT(n_rows, 32 * 9);
}

static int format_of(const char *mixture, const char *name, int n_layer, int tied)
{
    const tllm_gguf_tensor t = tensor(name, TLLM_FORMAT_F32);
    const tllm_format *f = tllm_mixture_format(tllm_mixture_by_name(mixture), &t, n_layer, tied);
    return f ? f->id : -1;
}

/* Q4_K_M: values and down matrices as Q6_K in the first and last eighth of the layers, and in every third of the
 * others */
static void test_by_hand(void)
{
    int i, n = 0;
    for (i = 0; i < 32; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "blk.%d.attn_v.weight", i);
        n += format_of("q4_k_m", name, 32, 0) == TLLM_FORMAT_Q6_K;
        /* (i - 4) % 3 == 2 */
        T_EQ_INT(format_of("Q4_K", name, 32, 0), i < 4 || i >= 28 || i % 3 == 0 ? TLLM_FORMAT_Q6_K : TLLM_FORMAT_Q4_K);
    }
    T_EQ_INT(n, 4 + 4 + 8);
    T_EQ_INT(format_of("Q3_K_M", "blk.3.attn_v.weight", 32, 0), TLLM_FORMAT_Q5_K);
    T_EQ_INT(format_of("Q3_K_M", "blk.4.attn_v.weight", 32, 0), TLLM_FORMAT_Q4_K);
    T_EQ_INT(format_of("Q4_0", "output.weight", 32, 0), TLLM_FORMAT_Q6_K);
    T_EQ_INT(format_of("Q4_0", "token_embd.weight", 32, 0), TLLM_FORMAT_Q4_0);
    T_EQ_INT(format_of("Q4_0", "token_embd.weight", 32, 1), TLLM_FORMAT_Q6_K);
    T_EQ_INT(format_of("Q4_K_M", "blk.0.ffn_down.weight", 0, 0), TLLM_FORMAT_Q6_K);
    T_EQ_INT(format_of("Q4_K_M", "blk.0.ffn_down.weight", INT32_MAX, 0), TLLM_FORMAT_Q6_K);
    T_EQ_INT(format_of("Q4_K_M", "blk.0.ffn_down.weight", -1, 0), TLLM_FORMAT_Q6_K);
}

static void test_format_choice(void)
{
    static const struct { const char *name; int type, takes;
    } all[] = { { "blk.0.attn_q.weight", TLLM_FORMAT_F32, 1 },
                { "token_embd.weight", TLLM_FORMAT_F16, 1 },
                { "blk.0.ffn_down_exps.weight", TLLM_FORMAT_Q8_0, 1 },
                { "blk.0.attn_norm.weight", TLLM_FORMAT_F32, 0 },
                { "blk.0.attn_q.bias", TLLM_FORMAT_F32, 0 },
                { "blk.0.ffn_gate_inp.weight", TLLM_FORMAT_F32, 0 },
                { "ffn_gate_tid2eid.weight", TLLM_FORMAT_I32, 0 },
                { "position_embd.weight", TLLM_FORMAT_F32, 0 },
                { "eight", TLLM_FORMAT_F32, 0 },
                { "blk.0.attn_q.weight", -1, 0 } };
    tllm_gguf_tensor t;
    size_t i;
    for (i = 0; i < T_COUNT(all); i++) {
        t = tensor(all[i].name, all[i].type);
        if (!T_EQ_INT(tllm_mixture_takes(&t), all[i].takes)) printf("  %s\n", all[i].name);
    }
    t = tensor("blk.0.attn_q.weight", TLLM_FORMAT_F32);
    t.dim[1] = 1;
    T_TRUE(!tllm_mixture_takes(&t));
    t.dim[1] = 2;
    t.rank = 1;
    T_TRUE(!tllm_mixture_takes(&t));
}

static void test_rows(void)
{
    const tllm_format *q4_k = tllm_format_of(TLLM_FORMAT_Q4_K);
    T_TRUE(tllm_format_for_rows(q4_k, 512) == q4_k);
    T_EQ_INT(tllm_format_for_rows(q4_k, 96)->id, TLLM_FORMAT_Q5_0);
    T_EQ_INT(tllm_format_for_rows(tllm_format_of(TLLM_FORMAT_Q6_K), 32)->id, TLLM_FORMAT_Q8_0);
    T_EQ_INT(tllm_format_for_rows(q4_k, 30)->id, TLLM_FORMAT_F16);
    T_EQ_INT(tllm_format_for_rows(tllm_format_of(TLLM_FORMAT_Q8_0), 30)->id, TLLM_FORMAT_F16);
    T_EQ_INT(tllm_format_for_rows(tllm_format_of(TLLM_FORMAT_F32), 30)->id, TLLM_FORMAT_F32);
}

/* all of them have a name by which they are found, and nothing crashes without pointers */
static void test_list(void)
{
    const tllm_gguf_tensor t = tensor("output.weight", TLLM_FORMAT_F32);
    size_t i;
    for (i = 0; tllm_mixture_at(i); i++) {
        T_TRUE(tllm_mixture_by_name(tllm_mixture_at(i)->name) == tllm_mixture_at(i));
        T_TRUE(tllm_format_of(tllm_mixture_at(i)->base) && tllm_format_of(tllm_mixture_at(i)->base)->pack);
    }
    T_EQ_INT(i, 32);
    T_TRUE(!tllm_mixture_at(SIZE_MAX) && !tllm_mixture_by_name(NULL) && !tllm_mixture_by_name("") &&
           !tllm_mixture_by_name("Q4_K_") && !tllm_mixture_takes(NULL));
    T_TRUE(!tllm_mixture_format(NULL, &t, 1, 0) && !tllm_mixture_format(tllm_mixture_at(0), NULL, 1, 0) &&
           !tllm_format_for_rows(NULL, 32));
}

int main(void)
{
    T_RUN(test_golden);
    T_RUN(test_by_hand);
    T_RUN(test_format_choice);
    T_RUN(test_rows);
    T_RUN(test_list);
    return t_done();
}
