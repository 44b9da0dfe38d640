/* tests/llm/dist/zero_plan.c - the search over divisions of a training
 *
 * Truth    every division by its own loops and tllm_zero_cost_of, whose terms tests/llm/dist/zero.c works by hand. */
#include "t.h"

enum { ROOM = 400 };
static const tllm_level links[3] = { { 2, 1000, 1.6e12 }, { 8, 1000, 4e11 }, { 64, 1000, 1e11 } };

static double bytes_of(const tllm_zero_cost *c) { return c->weights + c->gradient_sums + c->states + c->second; }

static void test_all(void)
{
    static const int degree[4] = { 1, 2, 8, 64 };
    static tllm_zero_plan plan[ROOM], few[2];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int m;
    for (m = 0; m < 3; m++) {
        const double memory = m == 0 ? 1e12 : m == 1 ? 1.2e9 : 1.0e8;
        double best = 1e30;
        size_t n, i, some, fits = 0;
        int w, g, o, two, hop, codes;
        T_OK(tllm_zero_plans(ctx, 64, 1e9, 4, m == 2 ? 4e8 : memory, links, 3, plan, ROOM, &n));
        if (m == 2) T_STATUS(tllm_zero_plans(ctx, 64, 1e9, 4, memory, links, 3, plan, ROOM, &n), TINY_E_ARGUMENT,
                             "no division of 64 ranks fits; the leanest needs");
        if (m == 2) continue;
        if (!T_TRUE(n <= ROOM)) break;
        for (o = 0; o < 4; o++)
            for (g = 0; g <= o; g++)
                for (w = 0; w <= g; w++)
                    for (two = 0; two < 4; two++)
                        for (hop = 0; hop < 4; hop++)
                            for (codes = 0; codes < 2; codes++) {
                                tllm_zero_desc d;
                                tllm_zero_cost c;
                                if ((two && two >= w) || (hop && hop >= g)) continue;
                                memset(&d, 0, sizeof d);
                                d.s_w = degree[w];
                                d.s_g = degree[g];
                                d.s_os = degree[o];
                                d.s_2 = two ? degree[two] : 0;
                                d.hop = hop ? degree[hop] : 0;
                                d.weight_bits = codes ? 8 : 16;
                                d.grad_bits = d.net_bits = codes ? 4 : 16;
                                T_OK(tllm_zero_cost_of(ctx, &d, 64, 1e9, 4, links, 3, &c));
                                if (bytes_of(&c) > memory) continue;
                                fits++;
                                if (c.seconds < best) best = c.seconds;
                            }
        T_EQ_INT(n, fits);
        T_CLOSE(plan[0].cost.seconds, best, 0.0);
        for (i = 0; i < n; i++) {
            tllm_zero_desc d;
            tllm_zero_cost c;
            memset(&d, 0, sizeof d);
            d.s_w = plan[i].s_w;
            d.s_g = plan[i].s_g;
            d.s_os = plan[i].s_os;
            d.s_2 = plan[i].s_2;
            d.hop = plan[i].hop;
            d.weight_bits = plan[i].weight_bits;
            d.grad_bits = d.net_bits = plan[i].grad_bits;
            T_OK(tllm_zero_cost_of(ctx, &d, 64, 1e9, 4, links, 3, &c));
            T_CLOSE(c.seconds, plan[i].cost.seconds, 0.0);
            T_CLOSE(bytes_of(&c), plan[i].bytes, 0.0);
            T_TRUE(plan[i].bytes <= memory);
            if (i) T_TRUE(plan[i - 1].cost.seconds <= plan[i].cost.seconds);
        }
        T_OK(tllm_zero_plans(ctx, 64, 1e9, 4, memory, links, 3, few, 2, &some));
        T_EQ_INT(some, n);
        T_CLOSE(few[1].cost.seconds, plan[1].cost.seconds, 0.0);
        /* much memory: whole weights on each rank, so that no small batch gathers any */
        if (m == 0) T_TRUE(plan[0].s_w == 1 && plan[0].weight_bits == 8);
        if (m == 1) T_TRUE(plan[0].s_w > 1);
    }
    t_close(ctx);
    T_PROOF("distributed 10", "planner: every division that fits, the fastest first, as counted by other loops");
}

static void test_refused(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_zero_plan plan[1];
    size_t n;
    T_STATUS(tllm_zero_plans(ctx, 0, 1e9, 1, 1e9, links, 3, plan, 1, &n), TINY_E_ARGUMENT, "plans need");
    T_STATUS(tllm_zero_plans(ctx, 8, 1e9, 1, NAN, links, 3, plan, 1, &n), TINY_E_ARGUMENT, "plans need");
    T_STATUS(tllm_zero_plans(ctx, 8, 1e9, 1, 1e9, NULL, 3, plan, 1, &n), TINY_E_ARGUMENT, "plans need");
    T_STATUS(tllm_zero_plans(ctx, 8, 1e9, 1, 1e9, links, 9, plan, 1, &n), TINY_E_ARGUMENT, "plans need 1 to 8 levels");
    T_STATUS(tllm_zero_plans(ctx, 8, 1e9, 1, 1e9, links, 3, NULL, 1, &n), TINY_E_ARGUMENT, "plans need");
    T_STATUS(tllm_zero_plans(ctx, 8, 1e9, 1, 1e9, links, 3, plan, 1, NULL), TINY_E_ARGUMENT, "plans need");
    T_STATUS(tllm_zero_plans(ctx, 8, NAN, 1, 1e9, links, 3, plan, 1, &n), TINY_E_ARGUMENT, "numbers");
    T_OK(tllm_zero_plans(ctx, 1, 1e6, 1, 1e9, links, 3, NULL, 0, &n));
    T_TRUE(n >= 1);
    T_OK(tllm_zero_plans(ctx, 7, 1e6, 1, 1e9, links, 3, plan, 1, &n));      /* no level divides them */
    T_TRUE(plan[0].s_os == 7 || plan[0].s_os == 1);
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_all);
    T_RUN(test_refused);
    return t_done();
}
