/* examples/search_net.c - how wide and how deep must a network be? Searches for it, and compares with other ways
 *
 *     search_net [--target SHARE] [--seeds N] [--method NAME]... [--svg FILE]
 *
 * A residual network for textures of 16 x 16 pixels (TEX16, drawn from the seed) has stages of blocks. TAS searches for
 * the width of each convolution and the depth of each stage under a limit of operations. Its result is trained from its
 * first weights by the whole network as the teacher, and compared with networks of the same cost: the same share of all
 * widths, random widths and depths, and the whole network without its smallest filters. Every training has the same
 * number of steps; filters has them twice, since it begins with the trained network. */
#define TINYLLM_LAB
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "search_net"
#include "options.h"
#include <math.h>

enum { METHODS = 8, STEPS = 100000 };
static const char names[] = "full uniform uniform+kd random random+kd filters tas tas+kd";
enum { FULL, UNIFORM, UNIFORM_KD, RANDOM, RANDOM_KD, FILTERS, TAS, TAS_KD };

static const char usage[] =
    "search_net [options]     searches for widths and depths of a network under a limit of its cost\n"
    "  --target SHARE   cost of the result, of that of the whole network; default: 0.5\n"
    "  --method NAME    full, uniform, uniform+kd, random, random+kd, filters, tas or tas+kd; kd: taught by the whole\n"
    "                   network; may be given often; default: all\n"
    "  --seeds N        seeds 1 to N of data, first weights, order and draws; default: 1\n"
    "  --samples N      images to learn from; default: 700\n"
    "  --noise S        standard deviation of noise on each pixel, besides the 0.3 of TEX16; default: 1.5\n"
    "  --epochs E       of each training; default: 10\n"
    "  --search E       epochs of the search, each over both halves of the images; default: 25\n"
    "  --rate R         of the choices in the search; default: 0.01\n"
    "  --width N        channels of the stem and of the first stage; each stage has twice as many; default: 16\n"
    "  --stages N       1 to 4; default: 3\n"
    "  --blocks N       blocks of a stage, 2 to 8; default: 2\n"
    "  --stride N       of the stem, 1 or 2; default: 2\n"
    "  --save FILE      write the network of tas+kd of the last seed\n"
    "  --svg FILE       draw the search and the shape that it found, of the last seed\n"
    "  --threads N      default: one per processor\n";

typedef struct job {
    tiny_ctx *ctx;
    tllm_space space;
    int epochs, search;
    double target, rate, noise, most, whole;
    int done, of;
    tllm_tas_state last;
    tllm_shape found;
} job;

typedef struct row { double sum, least, most, flops; int n; } row;
static float path[STEPS];                   /* cost after each step of the last search */
static int n_path;

static void name_of(int method, char text[16])
{
    const char *at = names;
    size_t n;
    for (; method; method--) at = strchr(at, ' ') + 1;
    n = strcspn(at, " ");
    memcpy(text, at, n);
    text[n] = 0;
}

static int on_search(void *user, const tllm_tas_state *s)
{
    const job *j = (const job *)user;
    if (n_path < STEPS) path[n_path++] = (float)(s->flops / j->whole);
    if (is_shown() && s->step % 10 == 0)
        fprintf(stderr, "\rnetwork %d of %d: search, step %d of %d, cost %.1f %%, loss %.3f   ", j->done + 1, j->of,
                (int)s->step, (int)s->steps, 100 * s->flops / j->whole, s->choice_loss);
    return 0;
}

static int on_train(void *user, const tiny_train_state *s)
{
    const job *j = (const job *)user;
    if (is_shown() && s->step % 10 == 0)
        fprintf(stderr, "\rnetwork %d of %d: step %d of %d%30s", j->done + 1, j->of, (int)s->step, (int)s->steps, "");
    return 0;
}

static tiny_status fit(const job *j, tllm_resnet *net, const tllm_nn_task *task, const tllm_resnet *teacher,
                       uint64_t seed)
{
    tllm_resnet_fit_desc d;
    memset(&d, 0, sizeof d);
    d.epochs = j->epochs;
    d.seed = seed;
    d.teacher = teacher;
    d.callback = on_train;
    d.user = (void *)j;
    return tllm_resnet_fit(net, &task->train, &d);
}

/* the whole network with fewer filters in the first convolution of each block: what filters keeps */
static tiny_status inner_shape(const job *j, tllm_shape *shape)
{
    tllm_shape full;
    size_t l;
    int share;
    tiny_status st = tllm_space_full(j->ctx, &j->space, &full);
    *shape = full;
    for (share = 1000; !st && share; share--) {
        for (l = 1; l < tllm_space_convs(&j->space); l += 2) {
            shape->width[l] = full.width[l] * share / 1000;
            if (shape->width[l] < 1) shape->width[l] = 1;
        }
        if (tllm_space_flops(&j->space, shape) <= j->most) break;
    }
    return st;
}

/* Shape and first weights of a method; trained where they come from a trained network. */
static tiny_status make(job *j, const tllm_nn_task *task, const tllm_resnet *full, int method, uint64_t seed,
                        tllm_resnet **net)
{
    tllm_shape shape;
    tiny_status st = TINY_OK;
    if (method == TAS || method == TAS_KD) {
        if (!j->last.found) {
            tllm_tas_desc d;
            memset(&d, 0, sizeof d);
            d.target = j->most;
            d.epochs = j->search;
            d.seed = seed;
            d.choice_lr = j->rate;
            d.callback = on_search;
            d.user = j;
            n_path = 0;
            st = tllm_tas(j->ctx, &j->space, &task->train, &d, &j->found, &j->last);
        }
        shape = j->found;
    } else if (method == UNIFORM || method == UNIFORM_KD)
        st = tllm_space_uniform(j->ctx, &j->space, j->most, &shape);
    else if (method == FILTERS) st = inner_shape(j, &shape);
    else st = tllm_space_random(j->ctx, &j->space, fmax(0, j->most - 0.05 * j->whole), j->most, seed, &shape);
    if (st) return st;
    if (method == FILTERS) return tllm_resnet_filters(full, &shape, net);
    return tllm_resnet_open(j->ctx, &j->space, &shape, seed + 1000, TINY_F32, net);
}

/* the cost of the smallest choice of everything: TAS and random shapes have no smaller one */
static double least_cost(const job *j)
{
    tiny_idx width[TLLM_SPACE_WIDTHS];
    int depth[TLLM_SPACE_DEPTHS];
    tllm_shape shape;
    size_t l;
    if (tllm_space_full(j->ctx, &j->space, &shape)) return 0;
    for (l = 0; l < tllm_space_convs(&j->space); l++) {
        (void)tllm_space_widths(&j->space, l, width);
        shape.width[l] = width[0];
    }
    for (l = 0; l < j->space.n_stage; l++) {
        (void)tllm_space_depths(&j->space, l, depth);
        shape.depth[l] = depth[0];
    }
    return tllm_space_flops(&j->space, &shape);
}

static tiny_status test(const job *j, const tllm_resnet *net, const tllm_nn_task *task, row *r)
{
    tiny_idx right = 0;
    double accuracy;
    const tiny_status st = tllm_resnet_right(net, &task->test, &right);
    if (st) return st;
    accuracy = 100.0 * (double)right / (double)task->test.x.dim[0];
    if (!r->n || accuracy < r->least) r->least = accuracy;
    if (!r->n || accuracy > r->most) r->most = accuracy;
    r->sum += accuracy;
    r->flops += tllm_space_flops(&j->space, tllm_resnet_shape(net));
    r->n++;
    return st;
}

/* TEX16 is too easy by itself: every shape has 100 %. */
static void make_noise(const tllm_nn_set *set, double deviation, uint64_t seed)
{
    tiny_rng rng = tiny_rng_make(seed, 0x6e6f6973);
    float *x = (float *)set->x.data;
    tiny_idx i;
    for (i = 0; i < tiny_tensor_count(&set->x); i++) x[i] += (float)deviation * tiny_rng_normal(&rng);
}

static void print_shape(const job *j)
{
    size_t s, l = 1;
    int b;
    printf("  found in step %d: stem %d of %d;", (int)j->last.found, (int)j->found.width[0],
           (int)tllm_space_width(&j->space, 0));
    for (s = 0; s < j->space.n_stage; s++) {
        printf("%s %d of %d blocks:", s ? ";" : "", j->found.depth[s], j->space.stage[s].blocks);
        for (b = 0; b < j->space.stage[s].blocks; b++, l += 2)
            if (b < j->found.depth[s]) printf(" %d-%d", (int)j->found.width[l], (int)j->found.width[l + 1]);
        printf(" of %d", (int)j->space.stage[s].width);
    }
    printf("\n");
}

/* ---- the picture: cost over steps with its limits; below, the channels of each convolution */

static size_t draw(char *to, size_t room, const job *j)
{
    const double high = j->most / j->whole, low = high - 0.05;
    const size_t convs = tllm_space_convs(&j->space);
    const double wide = 640.0 / (double)convs;
    double largest = 1;
    size_t n = 0, l, s, first = 1;
    int i, every = n_path / 640 + 1;
    for (l = 0; l < convs; l++)
        if ((double)tllm_space_width(&j->space, l) > largest) largest = (double)tllm_space_width(&j->space, l);
#define PUT(...) (n += (size_t)snprintf(n < room ? to + n : NULL, n < room ? room - n : 0, __VA_ARGS__))
    PUT("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"420\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"720\" height=\"420\" fill=\"#fff\"/>\n");
    PUT("<text x=\"50\" y=\"18\">cost of the most likely shape, share of the whole network, over steps of the search"
        "</text>\n<rect x=\"50\" y=\"%.1f\" width=\"640\" height=\"%.1f\" fill=\"#cfe8cf\"/>\n", 190 - 160 * high,
        160 * (high - low));
    for (i = 0; i <= 4; i++)
        PUT("<path d=\"M50 %dH690\" stroke=\"#ddd\"/><text x=\"44\" y=\"%d\" text-anchor=\"end\">%d %%</text>\n",
            190 - 40 * i, 194 - 40 * i, 25 * i);
    PUT("<path fill=\"none\" stroke=\"#1f77b4\" d=\"");
    for (i = 0; i < n_path; i += every)
        PUT("%s%.1f %.1f", i ? "L" : "M", 50 + 640.0 * i / (n_path > 1 ? n_path - 1 : 1), 190 - 160 * (double)path[i]);
    PUT("\"/>\n<text x=\"50\" y=\"222\">channels of each convolution: kept, of the whole network; pale: a block that "
        "is left out</text>\n");
    for (l = s = 0; l < convs; l++) {
        const double full = 160 * (double)tllm_space_width(&j->space, l) / largest;
        const double kept = 160 * (double)j->found.width[l] / largest;
        int is_there = 1;
        if (l) {
            while (l >= first + 2 * (size_t)j->space.stage[s].blocks) first += 2 * (size_t)j->space.stage[s++].blocks;
            is_there = (int)(l - first) / 2 < j->found.depth[s];
        }
        PUT("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#eee\" stroke=\"#999\"/>"
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>"
            "<text x=\"%.1f\" y=\"408\" text-anchor=\"middle\">%d</text>\n", 50 + wide * (double)l, 392 - full,
            wide * 0.8, full, 50 + wide * (double)l, 392 - kept, wide * 0.8, kept, is_there ? "#2ca02c" : "#cfe8cf",
            50 + wide * ((double)l + 0.4), is_there ? (int)j->found.width[l] : 0);
    }
    PUT("</svg>\n");
#undef PUT
    return n;
}

int main(int argc, char **argv)
{
    static char picture[65536];
    tiny_ctx_desc cd = { 0 };
    row r[METHODS];
    tllm_nn_task task;
    tllm_shape shape;
    tiny_ctx *ctx = NULL;
    const char *svg = NULL, *save = NULL;
    word_list methods;
    int use[METHODS] = { 0 }, m, k, seed, seeds = 1, samples = 700, chosen;
    int width = 16, stages = 3, blocks = 2, stride = 2;
    char name[16];
    static job j;
    tiny_status st = TINY_OK;
    const option options[] = { A_NUMBER("--target", &j.target, 0.01, 1.0),
                               A_LIST("--method", &methods, 16),
                               A_WHOLE("--seeds", &seeds, 1, 1000),
                               A_WHOLE("--samples", &samples, 100, 1000000),
                               A_WHOLE("--epochs", &j.epochs, 1, 10000),
                               A_WHOLE("--search", &j.search, 1, 10000),
                               A_NUMBER("--noise", &j.noise, 0.0, 100.0),
                               A_NUMBER("--rate", &j.rate, 1e-6, 10.0),
                               A_WHOLE("--width", &width, 1, 1024),
                               A_WHOLE("--stages", &stages, 1, 4),
                               A_WHOLE("--blocks", &blocks, 2, 8),
                               A_WHOLE("--stride", &stride, 1, 2),
                               A_TEXT("--save", &save),
                               A_TEXT("--svg", &svg),
                               A_WHOLE("--threads", &cd.n_threads, 1, TINY_MAX_THREADS) };
    memset(&methods, 0, sizeof methods);
    memset(r, 0, sizeof r);
    j.target = 0.5;
    j.epochs = 10;
    j.search = 25;
    j.rate = 0.01;
    j.noise = 1.5;
    READ_OPTIONS(argc, argv, usage, options);
    for (m = 0; m < METHODS; m++) use[m] = !methods.n;
    for (k = 0; k < methods.n; k++) {
        m = place_in(names, methods.at[k]);
        if (m < 0) return wrong(methods.at[k], "there is no such method; --help names them");
        use[m] = 1;
    }
    if (must_not_write(svg, 0) || must_not_write(save, 0) || same_output(svg, save)) return 2;
    if (save && !use[TAS_KD]) return wrong(save, "--save needs the method tas+kd");
    if (svg && !use[TAS] && !use[TAS_KD]) return wrong(svg, "--svg needs the method tas or tas+kd");
    chosen = use[FULL] || use[FILTERS] || use[UNIFORM_KD] || use[RANDOM_KD] || use[TAS_KD];
    for (m = 1; m < METHODS; m++) j.of += use[m] * seeds;
    j.of += chosen * seeds;
    j.space.in[0] = 1;
    j.space.in[1] = j.space.in[2] = 16;
    j.space.n_class = 10;
    j.space.stem = width;
    j.space.stem_stride = stride;
    j.space.n_stage = (size_t)stages;
    for (k = 0; k < stages; k++) {
        j.space.stage[k].width = (tiny_idx)width << k;
        j.space.stage[k].blocks = blocks;
        j.space.stage[k].stride = k ? 2 : 1;
    }
    cd.cancel = cancelled;
    cd.log = hear;
    cd.user = &ctx;
    stop_on_signals_whole();
    if (tiny_ctx_open(&cd, &ctx)) return 1;
    j.ctx = ctx;
    st = tllm_space_full(ctx, &j.space, &shape);
    j.whole = tllm_space_flops(&j.space, &shape);
    j.most = j.target * j.whole;
    if (!st && j.most < least_cost(&j) && (use[RANDOM] || use[RANDOM_KD] || use[TAS] || use[TAS_KD])) {
        refused("--target %g: the least widths and depths cost %.4f of the whole network", j.target,
                least_cost(&j) / j.whole);
        tiny_ctx_close(ctx);
        return 2;
    }
    for (seed = 1; !st && seed <= seeds; seed++) {
        tllm_resnet *full = NULL, *net = NULL;
        memset(&j.last, 0, sizeof j.last);
        st = tllm_nn_task_open(ctx, TLLM_TASK_TEX16, (uint64_t)seed, samples, 0, &task);
        if (!st) {
            make_noise(&task.train, j.noise, (uint64_t)seed);
            make_noise(&task.test, j.noise, (uint64_t)seed + 1000000);
        }
        if (!st && chosen) {
            st = tllm_resnet_open(ctx, &j.space, NULL, (uint64_t)seed, TINY_F32, &full);
            if (!st) st = fit(&j, full, &task, NULL, (uint64_t)seed);
            if (!st) st = test(&j, full, &task, &r[FULL]);
            j.done++;
        }
        for (m = 1; !st && m < METHODS; m++) {
            const int taught = m == UNIFORM_KD || m == RANDOM_KD || m == TAS_KD;
            if (!use[m]) continue;
            st = make(&j, &task, full, m, (uint64_t)seed, &net);
            if (!st) st = fit(&j, net, &task, taught ? full : NULL, (uint64_t)seed);
            if (!st) st = test(&j, net, &task, &r[m]);
            if (!st && save && m == TAS_KD && seed == seeds) st = tllm_resnet_save(net, save);
            tllm_resnet_close(net);
            net = NULL;
            j.done++;
        }
        if (is_shown()) fprintf(stderr, "\r%78s\r", "");
        if (!st && j.last.found) {
            printf("seed %d: the search took %d steps, cost %.1f %%\n", seed, (int)j.last.steps,
                   100 * tllm_space_flops(&j.space, &j.found) / j.whole);
            print_shape(&j);
        }
        tllm_resnet_close(full);
        tllm_nn_task_close(ctx, &task);
    }
    if (st) {
        say(stopped_by ? "stopped" : tiny_ctx_message(ctx));
        if (!stopped_by && st == TINY_E_NUMERIC && j.last.steps && !j.last.found)
            say("a larger --search or --rate gives the search more steps or longer ones");
        tiny_ctx_close(ctx);
        return stopped_by ? 128 + stopped_by : 1;
    }
    printf("TEX16 with noise of %g, %d images, %d seeds, %d epochs a training; the whole network: %.3f million "
           "operations an image\n",
           j.noise, samples, seeds, j.epochs, j.whole / 1e6);
    printf("%-11s %8s %9s %18s\n", "method", "cost", "accuracy", "(worst to best)");
    for (m = 0; m < METHODS; m++)
        if (r[m].n) {
            name_of(m, name);
            printf("%-11s %7.1f%% %8.2f%% %8.2f to %5.2f\n", name, 100 * r[m].flops / r[m].n / j.whole,
                   r[m].sum / r[m].n, r[m].least, r[m].most);
        }
    if (svg) {
        const size_t n = draw(picture, sizeof picture, &j);
        if (n >= sizeof picture || tiny_file_write(ctx, svg, picture, n)) {
            say(n >= sizeof picture ? "the picture is too large" : tiny_ctx_message(ctx));
            tiny_ctx_close(ctx);
            return 1;
        }
    }
    tiny_ctx_close(ctx);
    return exit_status(0);
}
