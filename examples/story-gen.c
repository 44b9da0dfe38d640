/* examples/story-gen.c - generates stories of a small language, with the exact entropy of every token
 *
 *     story-gen --seed 1 --stories 3
 *     story-gen --seed 1 --tokens 100000 --stats
 *
 * It prints one story per line, or with --stats counts and entropies. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "story-gen"
#include "options.h"
#include <inttypes.h>

static const char usage[] =
    "story-gen [options]      stories of a small language on standard output, one a line\n"
    "  --seed S        seed of the stories; default: 1\n"
    "  --tokens N      whole stories until there are at least N tokens\n"
    "  --stories N     N stories; default: 10\n"
    "  --stats         print counts and entropies instead of the text\n"
    "  --bits          print the bits of each choice after its token\n";

int main(int argc, char **argv)
{
    uint64_t seed = 1, tokens = 0, stories = 0, n_tokens = 0, n_stories = 0, n_tag[TLLM_STORY_TAGS];
    double bits = 0, chosen = 0, story_bits = 0;
    unsigned shortest = 0, longest = 0, length = 0;
    int stats = 0, show = 0, i;
    tllm_story s;
    const option options[] = { A_SEED("--seed", &seed), A_COUNT("--tokens", &tokens), A_COUNT("--stories", &stories),
                               A_FLAG("--stats", &stats), A_FLAG("--bits", &show) };
    memset(n_tag, 0, sizeof n_tag);
    READ_OPTIONS(argc, argv, usage, options);
    if (!tokens && !stories) stories = 10;
    s = tllm_story_start(seed);
    while ((stories && n_stories < stories) || (tokens && n_tokens < tokens)) {
        tllm_story_items items;
        double b;
        int tag;
        int32_t t;
        tllm_story_next(&s, &items);
        t = tllm_story_draw(&s, &b, &tag);
        n_tag[tag]++;
        n_tokens++;
        story_bits += b;
        chosen += tllm_story_entropy(&items);
        if (!stats) {
            printf("%s%s", length ? " " : "", t == TLLM_STORY_END ? "<eos>" : tllm_story_word(t));
            if (show && b > 0) printf("[%.2f]", b);
        }
        length++;
        if (t == TLLM_STORY_END) {
            if (!stats) putchar('\n');
            if (length > longest) longest = length;
            if (!shortest || length < shortest) shortest = length;
            bits += story_bits;
            story_bits = 0;
            length = 0;
            n_stories++;
        } else if (tokens && !(stories && n_stories < stories) && n_tokens >= tokens)
            tokens = n_tokens + 1; /* to the end of the story */
    }
    if (!stats) return exit_status(0);
    printf("stories            %12" PRIu64 "   of %u to %u tokens, %.2f in the mean\n", n_stories, shortest, longest,
           (double)n_tokens / (double)n_stories);
    printf("tokens             %12" PRIu64 "\n", n_tokens);
    printf("bits               %15.2f   -log2 of their probabilities\n", bits);
    printf("bits per token     %17.4f   from the entropy of each choice %.4f\n", bits / (double)n_tokens,
           chosen / (double)n_tokens);
    printf("bits per story     %15.2f\n", bits / (double)n_stories);
    for (i = 0; i < TLLM_STORY_TAGS; i++)
        printf("  %-16s %12" PRIu64 "   %6.3f %%\n", tllm_story_tag_name(i), n_tag[i],
               100.0 * (double)n_tag[i] / (double)n_tokens);
    return exit_status(0);
}
