/* src/llm/train/story.c
 *
 * Source   the grammar of our own "tiny language" (docs/dev/story-model.md prints it whole); S. Vigna's splitmix64 for
 *          the numbers.
 * Form     An automaton: a short list of forced tokens, followed by one choice. Taking an option of the choice changes
 *          the state and writes the next list. A choice with weights w_0 .. w_n, W their sum, uses one random number z:
 *          u = ((z >> 32) W) >> 32 selects the option at which the cumulative weights pass u. Three choices combine two
 *          draws into one token (the sentence and its actor; the kind of a look and its first word; a noun and its
 *          number): their weights are products.
 * Checked  against the recorded story, its sums and CRC.                                              */
#include "llm/train/story.h"
#include "core/state_inside.h"
#include "math/elem.h"
#include <string.h>
#include <stdio.h>

#define TINYI_STORY_WORDS(W) \
    W(BANG, "!") W(QUOTE, "\"") W(COMMA, ",") W(DOT, ".") W(ASK, "?") W(ANNA, "Anna") W(BEN, "Ben") W(ELLA, "Ella") \
    W(EMMA, "Emma") W(FINN, "Finn") W(JACK, "Jack") W(LEO, "Leo") W(LILY, "Lily") W(MAX, "Max") W(MIA, "Mia") \
    W(NINA, "Nina") W(OTTO, "Otto") W(ROSA, "Rosa") W(SAM, "Sam") W(SARA, "Sara") W(TOM, "Tom") W(A, "a") W(AM, "am") \
    W(AND, "and") W(APPLE, "apple") W(APPLES, "apples") W(ARE, "are") W(ASKED, "asked") W(AT, "at") W(ATE, "ate") \
    W(BALL, "ball") W(BALLS, "balls") W(BARN, "barn") W(BEACH, "beach") W(BEAR, "bear") W(BEARS, "bears") \
    W(BEHIND, "behind") W(BENCH, "bench") W(BENCHES, "benches") W(BIG, "big") W(BIRD, "bird") W(BIRDS, "birds") \
    W(BLACK, "black") W(BLUE, "blue") W(BOAT, "boat") W(BOATS, "boats") W(BOOK, "book") W(BOOKS, "books") \
    W(BORED, "bored") W(BOX, "box") W(BOXES, "boxes") W(BREAD, "bread") W(BROWN, "brown") W(BUSH, "bush") \
    W(BUSHES, "bushes") W(BY, "by") W(CAKE, "cake") W(CAKES, "cakes") W(CALLED, "called") W(CAT, "cat") \
    W(CATS, "cats") W(CHAIR, "chair") W(CHAIRS, "chairs") W(CLEAN, "clean") W(CLOUDY, "cloudy") W(COAT, "coat") \
    W(COIN, "coin") W(COINS, "coins") W(COLD, "cold") W(COLOR, "color") W(CRIED, "cried") W(CUP, "cup") \
    W(CUPS, "cups") W(DANCE, "dance") W(DANCES, "dances") W(DAY, "day") W(DIRTY, "dirty") W(DO, "do") \
    W(DOCTOR, "doctor") W(DOG, "dog") W(DOGS, "dogs") W(DOOR, "door") W(DOORS, "doors") W(DOWN, "down") \
    W(DRANK, "drank") W(DRUM, "drum") W(DRUMS, "drums") W(DUCK, "duck") W(DUCKS, "ducks") W(EGG, "egg") \
    W(EGGS, "eggs") W(EIGHT, "eight") W(EIGHTEEN, "eighteen") W(ELEVEN, "eleven") W(END, "end") W(EVENING, "evening") \
    W(FARM, "farm") W(FENCE, "fence") W(FENCES, "fences") W(FIFTEEN, "fifteen") W(FIVE, "five") W(FLOWER, "flower") \
    W(FLOWERS, "flowers") W(FOR, "for") W(FOREST, "forest") W(FOUND, "found") W(FOUR, "four") W(FOURTEEN, "fourteen") \
    W(FOX, "fox") W(FOXES, "foxes") W(FRIEND, "friend") W(FROG, "frog") W(FROGS, "frogs") W(GAME, "game") \
    W(GARDEN, "garden") W(GAVE, "gave") W(GLAD, "glad") W(GOAT, "goat") W(GOATS, "goats") W(GREEN, "green") \
    W(HAD, "had") W(HAPPY, "happy") W(HAS, "has") W(HAT, "hat") W(HATS, "hats") W(HAVE, "have") W(HE, "he") \
    W(HEAVY, "heavy") W(HELP, "help") W(HEN, "hen") W(HENS, "hens") W(HER, "her") W(HIDE, "hide") W(HIDES, "hides") \
    W(HILL, "hill") W(HIM, "him") W(HIS, "his") W(HOME, "home") W(HORSE, "horse") W(HORSES, "horses") W(HOW, "how") \
    W(HUNGRY, "hungry") W(SELF, "i") W(IN, "in") W(IS, "is") W(IT, "it") W(JUMP, "jump") W(JUMPS, "jumps") \
    W(KEY, "key") W(KEYS, "keys") W(KIND, "kind") W(KITCHEN, "kitchen") W(KITE, "kite") W(KITES, "kites") \
    W(LAMP, "lamp") W(LAMPS, "lamps") W(LAUGHED, "laughed") W(LEAF, "leaf") W(LEAVES, "leaves") W(LIBRARY, "library") \
    W(LIGHT, "light") W(LITTLE, "little") W(LOOK, "look") W(LOST, "lost") W(MANY, "many") W(MARKET, "market") \
    W(MICE, "mice") W(MINUS, "minus") W(MORE, "more") W(MORNING, "morning") W(MOUSE, "mouse") W(NAMED, "named") \
    W(NEAR, "near") W(NEW, "new") W(NINE, "nine") W(NINETEEN, "nineteen") W(NO, "no") W(NONE, "none") W(NOT, "not") \
    W(NOW, "now") W(NUT, "nut") W(NUTS, "nuts") W(OLD, "old") W(ON, "on") W(ONE, "one") W(PARK, "park") \
    W(PEAR, "pear") W(PEARS, "pears") W(PEN, "pen") W(PENS, "pens") W(PINK, "pink") W(PLAYED, "played") \
    W(PLUS, "plus") W(PUT, "put") W(RABBIT, "rabbit") W(RABBITS, "rabbits") W(RAINY, "rainy") W(RED, "red") \
    W(REST, "rest") W(RESTS, "rests") W(RING, "ring") W(RINGS, "rings") W(RIVER, "river") W(ROCK, "rock") \
    W(ROCKS, "rocks") W(ROUND, "round") W(RUN, "run") W(RUNS, "runs") W(SAD, "sad") W(SAID, "said") W(SAME, "same") \
    W(SAT, "sat") W(SCARED, "scared") W(SCHOOL, "school") W(SEVEN, "seven") W(SEVENTEEN, "seventeen") W(SHE, "she") \
    W(SHELL, "shell") W(SHELLS, "shells") W(SHINY, "shiny") W(SICK, "sick") W(SING, "sing") W(SINGS, "sings") \
    W(SIX, "six") W(SIXTEEN, "sixteen") W(SLEEP, "sleep") W(SLEEPS, "sleeps") W(SMALL, "small") W(SO, "so") \
    W(SOAP, "soap") W(SOFT, "soft") W(SOME, "some") W(SPOON, "spoon") W(SPOONS, "spoons") W(STAR, "star") \
    W(STARS, "stars") W(STONE, "stone") W(STONES, "stones") W(SUDDENLY, "suddenly") W(SUNNY, "sunny") \
    W(TABLE, "table") W(TABLES, "tables") W(TEACHER, "teacher") W(TEN, "ten") W(THANKED, "thanked") W(THE, "the") \
    W(THEN, "then") W(THERE, "there") W(THEY, "they") W(THIRSTY, "thirsty") W(THIRTEEN, "thirteen") W(THREE, "three") \
    W(TIRED, "tired") W(TO, "to") W(TOY, "toy") W(TOYS, "toys") W(TREE, "tree") W(TREES, "trees") W(TWELVE, "twelve") \
    W(TWENTY, "twenty") W(TWO, "two") W(UNDER, "under") W(WAIT, "wait") W(WAITS, "waits") W(WALL, "wall") \
    W(WALLS, "walls") W(WARM, "warm") W(WAS, "was") W(WASHED, "washed") W(WATER, "water") W(WE, "we") W(WENT, "went") \
    W(WHAT, "what") W(WHERE, "where") W(WHITE, "white") W(WHO, "who") W(WINDY, "windy") W(WITH, "with") \
    W(YELLOW, "yellow") W(YES, "yes") W(YOU, "you") W(YOUNG, "young") W(YOUR, "your") \
    W(ZERO, "zero")

#define TINYI_STORY_WORD_ENUM(name, text) TINYI_W_##name,
enum { TINYI_W_BEFORE = TLLM_STORY_WORD - 1, TINYI_STORY_WORDS(TINYI_STORY_WORD_ENUM) TINYI_W_END_OF_ALL };
#undef TINYI_STORY_WORD_ENUM
#define TINYI_STORY_WORD_TEXT(name, text) text,
static const char *const tinyi_story_text[] = { TINYI_STORY_WORDS(TINYI_STORY_WORD_TEXT) NULL };
#undef TINYI_STORY_WORD_TEXT

/* ---- the lists of the grammar, in its order ---------------------------------------------------------------------- */

#define TINYI_SW(name) TINYI_W_##name
static const int16_t tinyi_story_names[16] = { TINYI_SW(ANNA), TINYI_SW(MIA),  TINYI_SW(LILY), TINYI_SW(SARA),
                                               TINYI_SW(EMMA), TINYI_SW(ROSA), TINYI_SW(NINA), TINYI_SW(ELLA),
                                               TINYI_SW(TOM),  TINYI_SW(BEN),  TINYI_SW(MAX),  TINYI_SW(SAM),
                                               TINYI_SW(LEO),  TINYI_SW(JACK), TINYI_SW(FINN), TINYI_SW(OTTO) };
static const int16_t tinyi_story_preps[4] = { TINYI_SW(IN), TINYI_SW(AT), TINYI_SW(ON), TINYI_SW(BY) };
static const struct { uint8_t prep; int16_t word;
} tinyi_story_places[12] = { { 0, TINYI_SW(PARK) },   { 0, TINYI_SW(GARDEN) }, { 0, TINYI_SW(KITCHEN) },
                             { 0, TINYI_SW(FOREST) }, { 1, TINYI_SW(SCHOOL) }, { 1, TINYI_SW(BEACH) },
                             { 2, TINYI_SW(FARM) },   { 1, TINYI_SW(MARKET) }, { 3, TINYI_SW(RIVER) },
                             { 2, TINYI_SW(HILL) },   { 0, TINYI_SW(BARN) },   { 0, TINYI_SW(LIBRARY) } };
static const int16_t tinyi_story_objects[24][2] = {
    { TINYI_SW(APPLE), TINYI_SW(APPLES) },   { TINYI_SW(BALL), TINYI_SW(BALLS) },
    { TINYI_SW(BOOK), TINYI_SW(BOOKS) },     { TINYI_SW(CAKE), TINYI_SW(CAKES) },
    { TINYI_SW(CUP), TINYI_SW(CUPS) },       { TINYI_SW(EGG), TINYI_SW(EGGS) },
    { TINYI_SW(FLOWER), TINYI_SW(FLOWERS) }, { TINYI_SW(HAT), TINYI_SW(HATS) },
    { TINYI_SW(KEY), TINYI_SW(KEYS) },       { TINYI_SW(KITE), TINYI_SW(KITES) },
    { TINYI_SW(LEAF), TINYI_SW(LEAVES) },    { TINYI_SW(NUT), TINYI_SW(NUTS) },
    { TINYI_SW(PEAR), TINYI_SW(PEARS) },     { TINYI_SW(SHELL), TINYI_SW(SHELLS) },
    { TINYI_SW(STONE), TINYI_SW(STONES) },   { TINYI_SW(TOY), TINYI_SW(TOYS) },
    { TINYI_SW(BOAT), TINYI_SW(BOATS) },     { TINYI_SW(COIN), TINYI_SW(COINS) },
    { TINYI_SW(DRUM), TINYI_SW(DRUMS) },     { TINYI_SW(LAMP), TINYI_SW(LAMPS) },
    { TINYI_SW(PEN), TINYI_SW(PENS) },       { TINYI_SW(RING), TINYI_SW(RINGS) },
    { TINYI_SW(SPOON), TINYI_SW(SPOONS) },   { TINYI_SW(STAR), TINYI_SW(STARS) }
};
static const int16_t tinyi_story_colours[8] = { TINYI_SW(RED),   TINYI_SW(BLUE),  TINYI_SW(GREEN), TINYI_SW(YELLOW),
                                                TINYI_SW(WHITE), TINYI_SW(BLACK), TINYI_SW(BROWN), TINYI_SW(PINK) };
static const int16_t tinyi_story_animals[12][2] = {
    { TINYI_SW(DOG), TINYI_SW(DOGS) },   { TINYI_SW(CAT), TINYI_SW(CATS) },       { TINYI_SW(FOX), TINYI_SW(FOXES) },
    { TINYI_SW(BEAR), TINYI_SW(BEARS) }, { TINYI_SW(RABBIT), TINYI_SW(RABBITS) }, { TINYI_SW(DUCK), TINYI_SW(DUCKS) },
    { TINYI_SW(GOAT), TINYI_SW(GOATS) }, { TINYI_SW(MOUSE), TINYI_SW(MICE) },     { TINYI_SW(BIRD), TINYI_SW(BIRDS) },
    { TINYI_SW(FROG), TINYI_SW(FROGS) }, { TINYI_SW(HEN), TINYI_SW(HENS) },       { TINYI_SW(HORSE), TINYI_SW(HORSES) }
};
static const int16_t tinyi_story_adjectives[10] = { TINYI_SW(BIG),   TINYI_SW(SMALL), TINYI_SW(OLD),   TINYI_SW(NEW),
                                                    TINYI_SW(SOFT),  TINYI_SW(SHINY), TINYI_SW(CLEAN), TINYI_SW(ROUND),
                                                    TINYI_SW(HEAVY), TINYI_SW(LIGHT) };
static const int16_t tinyi_story_weather[6] = { TINYI_SW(SUNNY), TINYI_SW(RAINY), TINYI_SW(COLD),
                                                TINYI_SW(WINDY), TINYI_SW(WARM),  TINYI_SW(CLOUDY) };
static const int16_t tinyi_story_landmarks[10][2] = {
    { TINYI_SW(TREE), TINYI_SW(TREES) },  { TINYI_SW(ROCK), TINYI_SW(ROCKS) },   { TINYI_SW(BENCH), TINYI_SW(BENCHES) },
    { TINYI_SW(WALL), TINYI_SW(WALLS) },  { TINYI_SW(BOX), TINYI_SW(BOXES) },    { TINYI_SW(TABLE), TINYI_SW(TABLES) },
    { TINYI_SW(DOOR), TINYI_SW(DOORS) },  { TINYI_SW(FENCE), TINYI_SW(FENCES) }, { TINYI_SW(BUSH), TINYI_SW(BUSHES) },
    { TINYI_SW(CHAIR), TINYI_SW(CHAIRS) }
};
static const int16_t tinyi_story_verbs[8][2] = {
    { TINYI_SW(RUNS), TINYI_SW(RUN) },     { TINYI_SW(SLEEPS), TINYI_SW(SLEEP) }, { TINYI_SW(SINGS), TINYI_SW(SING) },
    { TINYI_SW(JUMPS), TINYI_SW(JUMP) },   { TINYI_SW(WAITS), TINYI_SW(WAIT) },   { TINYI_SW(HIDES), TINYI_SW(HIDE) },
    { TINYI_SW(DANCES), TINYI_SW(DANCE) }, { TINYI_SW(RESTS), TINYI_SW(REST) }
};
static const int16_t tinyi_story_needs[8] = { TINYI_SW(HUNGRY),  TINYI_SW(TIRED), TINYI_SW(COLD),  TINYI_SW(SCARED),
                                              TINYI_SW(THIRSTY), TINYI_SW(DIRTY), TINYI_SW(BORED), TINYI_SW(SICK) };
static const int16_t tinyi_story_so[8][4] = { /* what follows from each */
                                              { TINYI_SW(ATE), TINYI_SW(SOME), TINYI_SW(BREAD), 0 },
                                              { TINYI_SW(SAT), TINYI_SW(DOWN), 0, 0 },
                                              { TINYI_SW(PUT), TINYI_SW(ON), TINYI_SW(A), TINYI_SW(COAT) },
                                              { TINYI_SW(CALLED), TINYI_SW(FOR), TINYI_SW(HELP), 0 },
                                              { TINYI_SW(DRANK), TINYI_SW(SOME), TINYI_SW(WATER), 0 },
                                              { TINYI_SW(WASHED), TINYI_SW(WITH), TINYI_SW(SOAP), 0 },
                                              { TINYI_SW(PLAYED), TINYI_SW(A), TINYI_SW(GAME), 0 },
                                              { TINYI_SW(WENT), TINYI_SW(TO), TINYI_SW(THE), TINYI_SW(DOCTOR) }
};
static const int16_t tinyi_story_numbers[21] = { TINYI_SW(ZERO),     TINYI_SW(ONE),      TINYI_SW(TWO),
                                                 TINYI_SW(THREE),    TINYI_SW(FOUR),     TINYI_SW(FIVE),
                                                 TINYI_SW(SIX),      TINYI_SW(SEVEN),    TINYI_SW(EIGHT),
                                                 TINYI_SW(NINE),     TINYI_SW(TEN),      TINYI_SW(ELEVEN),
                                                 TINYI_SW(TWELVE),   TINYI_SW(THIRTEEN), TINYI_SW(FOURTEEN),
                                                 TINYI_SW(FIFTEEN),  TINYI_SW(SIXTEEN),  TINYI_SW(SEVENTEEN),
                                                 TINYI_SW(EIGHTEEN), TINYI_SW(NINETEEN), TINYI_SW(TWENTY) };
static const uint8_t tinyi_story_owned[9] = { 2, 3, 3, 3, 2, 2, 1, 1, 1 };     /* weights of one to nine */

/* The items of a choice that never differ. */
static const int16_t tinyi_story_open[3] = { TINYI_SW(ONE), TINYI_SW(ON), TINYI_SW(THERE) };
static const int16_t tinyi_story_daytime[2] = { TINYI_SW(MORNING), TINYI_SW(EVENING) };
static const int16_t tinyi_story_kind[3] = { TINYI_SW(LITTLE), TINYI_SW(YOUNG), TINYI_SW(KIND) };
static const int16_t tinyi_story_near[3] = { TINYI_SW(UNDER), TINYI_SW(BEHIND), TINYI_SW(NEAR) };
static const int16_t tinyi_story_hidden[2] = { TINYI_SW(BEHIND), TINYI_SW(UNDER) };
static const int16_t tinyi_story_sign[2] = { TINYI_SW(PLUS), TINYI_SW(MINUS) };
static const int16_t tinyi_story_does[3] = { TINYI_SW(ASKED), TINYI_SW(SAID), TINYI_SW(WAS) };
static const int16_t tinyi_story_ask[5] = { TINYI_SW(HOW), TINYI_SW(WHERE), TINYI_SW(ARE), TINYI_SW(WHO),
                                            TINYI_SW(WHAT) };
static const int16_t tinyi_story_act[3] = { TINYI_SW(GAVE), TINYI_SW(LOST), TINYI_SW(FOUND) };
static const uint8_t tinyi_story_2[2] = { 3, 2 }, tinyi_story_3[3] = { 3, 2, 5 }, tinyi_story_4[3] = { 4, 4, 2 },
                     tinyi_story_5[5] = { 3, 2, 2, 2, 3 }, tinyi_story_6[4] = { 6, 3, 2, 1 };

enum { TINYI_GAVE, TINYI_LOST, TINYI_FOUND };
enum { TINYI_PREP_IN, TINYI_PREP_AT, TINYI_PREP_ON, TINYI_PREP_BY };

/* What is chosen. */
enum {
    TINYI_SC_OPEN,
    TINYI_SC_WEATHER,
    TINYI_SC_DAYTIME,
    TINYI_SC_KIND,
    TINYI_SC_NAMED,
    TINYI_SC_HERO,
    TINYI_SC_PREP,
    TINYI_SC_PLACE,
    TINYI_SC_OWNED,
    TINYI_SC_COLOUR,
    TINYI_SC_OBJECT,
    TINYI_SC_FRIEND,
    TINYI_SC_OWNED2,
    TINYI_SC_OBJECT2,
    TINYI_SC_SEGMENT,
    TINYI_SC_THEN,
    TINYI_SC_ACT,
    TINYI_SC_MORE,
    TINYI_SC_FOUND,
    TINYI_SC_NEAR,
    TINYI_SC_LANDMARK,
    TINYI_SC_GIVEN,
    TINYI_SC_GIFT,
    TINYI_SC_SUDDENLY,
    TINYI_SC_NEED,
    TINYI_SC_SUM_A,
    TINYI_SC_SIGN,
    TINYI_SC_SUM_B,
    TINYI_SC_PUPIL,
    TINYI_SC_DOES,
    TINYI_SC_LOOK,
    TINYI_SC_THING,
    TINYI_SC_BESIDE,
    TINYI_SC_LOOKS,
    TINYI_SC_ANIMAL,
    TINYI_SC_HIDDEN,
    TINYI_SC_PLACE_OF,
    TINYI_SC_MOVES,
    TINYI_SC_ASK,
    TINYI_SC_MANY,
    TINYI_SC_ARE,
    TINYI_SC_WHO_HAS
};

/* ---- what may follow --------------------------------------------------------------------------------------------- */

static void tinyi_story_item(tllm_story_items *q, int word, unsigned weight)
{
    q->token[q->n] = word;
    q->weight[q->n++] = weight;
    q->total += weight;
}
static void tinyi_story_list(tllm_story_items *q, const int16_t *word, const uint8_t *weight, int n)
{
    int i;
    for (i = 0; i < n; i++) tinyi_story_item(q, word[i], weight ? weight[i] : 1u);
}
static void tinyi_story_nouns(tllm_story_items *q, const int16_t (*noun)[2], int n)
{
    int i;
    for (i = 0; i < 2 * n; i++) tinyi_story_item(q, noun[i / 2][i % 2], 1u);
}
static int tinyi_story_thing(const tllm_story *s, int t, int n) { return tinyi_story_objects[s->type[t]][n != 1]; }
static int tinyi_story_she(const tllm_story *s, int who) { return s->name[who] < 8; }

/* Whether a may give (and b take), lose or find type t. */
static int tinyi_story_can(const tllm_story *s, int act, int t)
{
    const int a = s->count[s->a][t], b = s->count[s->b][t];
    return act == TINYI_GAVE ? a > 0 && b <= 12 : act == TINYI_LOST ? a > 0 : a <= 12;
}

static void tinyi_story_choice(const tllm_story *s, tllm_story_items *q)
{
    int i, t, k;
    switch (s->choice) {
    case TINYI_SC_OPEN: tinyi_story_list(q, tinyi_story_open, tinyi_story_4, 3); break;
    case TINYI_SC_WEATHER: tinyi_story_list(q, tinyi_story_weather, NULL, 6); break;
    case TINYI_SC_DAYTIME: tinyi_story_list(q, tinyi_story_daytime, NULL, 2); break;
    case TINYI_SC_KIND: tinyi_story_list(q, tinyi_story_kind, NULL, 3); break;
    case TINYI_SC_NAMED:
        for (i = 0; i < 12; i++) tinyi_story_item(q, tinyi_story_animals[i][0], 1u);
        break;
    case TINYI_SC_HERO: tinyi_story_list(q, tinyi_story_names, NULL, 16); break;
    case TINYI_SC_PREP: tinyi_story_list(q, tinyi_story_preps, tinyi_story_6, 4); break;
    case TINYI_SC_PLACE:
        for (i = 0; i < 12; i++)
            if (tinyi_story_places[i].prep == s->prep) tinyi_story_item(q, tinyi_story_places[i].word, 1u);
        break;
    case TINYI_SC_OWNED:
    case TINYI_SC_OWNED2: tinyi_story_list(q, tinyi_story_numbers + 1, tinyi_story_owned, 9); break;
    case TINYI_SC_COLOUR: tinyi_story_list(q, tinyi_story_colours, NULL, 8); break;
    case TINYI_SC_OBJECT:
        for (i = 0; i < 24; i++) tinyi_story_item(q, tinyi_story_objects[i][s->k != 1], 1u);
        break;
    case TINYI_SC_FRIEND:
        for (i = 0; i < 16; i++)
            if (i != s->name[0]) tinyi_story_item(q, tinyi_story_names[i], 1u);
        break;
    case TINYI_SC_OBJECT2:
        for (i = 0; i < 24; i++)
            if (i != s->type[0]) tinyi_story_item(q, tinyi_story_objects[i][s->k != 1], 1u);
        break;
    /* then 5, suddenly 2, one of the names 4, at 1, in 4; twice that for the names' sake */
    case TINYI_SC_SEGMENT:
        tinyi_story_item(q, TINYI_SW(THEN), 10u);
        tinyi_story_item(q, TINYI_SW(SUDDENLY), 4u);
        tinyi_story_item(q, tinyi_story_names[s->name[0]], 4u);
        tinyi_story_item(q, tinyi_story_names[s->name[1]], 4u);
        tinyi_story_item(q, TINYI_SW(AT), 2u);
        if (s->segment > 0) tinyi_story_item(q, TINYI_SW(IN), 8u);
        break;
    case TINYI_SC_THEN: case TINYI_SC_SUDDENLY: case TINYI_SC_PUPIL:
        for (i = 0; i < 2; i++) tinyi_story_item(q, tinyi_story_names[s->name[i]], 1u);
        break;
    case TINYI_SC_ACT:
        for (i = 0; i < 3; i++)
            if (tinyi_story_can(s, i, 0) || tinyi_story_can(s, i, 1))
                tinyi_story_item(q, tinyi_story_act[i], i == TINYI_LOST ? 2u : 3u);
        break;
    case TINYI_SC_MORE: tinyi_story_list(q, tinyi_story_numbers + 1, NULL, 5); break;
    case TINYI_SC_FOUND:
        for (t = 0; t < 2; t++)
            if (tinyi_story_can(s, TINYI_FOUND, t)) tinyi_story_item(q, tinyi_story_thing(s, t, s->k), 1u);
        break;
    case TINYI_SC_NEAR: tinyi_story_list(q, tinyi_story_near, NULL, 3); break;
    case TINYI_SC_LANDMARK:
        for (i = 0; i < 10; i++) tinyi_story_item(q, tinyi_story_landmarks[i][0], 1u);
        break;
    case TINYI_SC_GIVEN:                    /* one option per type of which that many can be given */
        for (k = 1; k <= 5; k++) {
            unsigned ways = 0;
            for (t = 0; t < 2; t++) ways += tinyi_story_can(s, s->verb, t) && s->count[s->a][t] >= k;
            if (ways) tinyi_story_item(q, tinyi_story_numbers[k], ways);
        }
        break;
    case TINYI_SC_GIFT:
        for (t = 0; t < 2; t++)
            if (tinyi_story_can(s, s->verb, t) && s->count[s->a][t] >= s->k)
                tinyi_story_item(q, tinyi_story_thing(s, t, s->k), 1u);
        break;
    case TINYI_SC_NEED: tinyi_story_list(q, tinyi_story_needs, NULL, 8); break;
    case TINYI_SC_SUM_A: tinyi_story_list(q, tinyi_story_numbers + 1, NULL, 10); break;
    case TINYI_SC_SIGN: tinyi_story_list(q, tinyi_story_sign, tinyi_story_2, 2); break;
    case TINYI_SC_SUM_B: tinyi_story_list(q, tinyi_story_numbers + 1, NULL, s->verb ? s->k : 10); break;
    case TINYI_SC_DOES:
        tinyi_story_list(q, tinyi_story_does, tinyi_story_3, s->event >= 0 && s->affected == s->a ? 3 : 2);
        break;
    case TINYI_SC_LOOK:                     /* a form of two, then 8 colours or 10 adjectives */
        for (i = 0; i < 8; i++) tinyi_story_item(q, tinyi_story_colours[i], 5u);
        for (i = 0; i < 10; i++) tinyi_story_item(q, tinyi_story_adjectives[i], 4u);
        break;
    case TINYI_SC_THING: tinyi_story_nouns(q, tinyi_story_objects, 24); break;
    case TINYI_SC_BESIDE: case TINYI_SC_PLACE_OF: tinyi_story_nouns(q, tinyi_story_landmarks, 10); break;
    case TINYI_SC_LOOKS: tinyi_story_list(q, tinyi_story_adjectives, NULL, 10); break;
    case TINYI_SC_ANIMAL: tinyi_story_nouns(q, tinyi_story_animals, 12); break;
    case TINYI_SC_HIDDEN: tinyi_story_list(q, tinyi_story_hidden, NULL, 2); break;
    case TINYI_SC_MOVES:
        for (i = 0; i < 8; i++) tinyi_story_item(q, tinyi_story_verbs[i][s->plural], 1u);
        break;
    case TINYI_SC_ASK:
        tinyi_story_list(q, tinyi_story_ask, tinyi_story_5, s->b == 0 && s->count[0][0] > 0 ? 5 : 4);
        break;
    case TINYI_SC_MANY: case TINYI_SC_WHO_HAS:
        for (t = 0; t < 2; t++) tinyi_story_item(q, tinyi_story_thing(s, t, 2), 1u);
        break;
    default:                                /* TINYI_SC_ARE */
        for (i = 0; i < 8; i++) tinyi_story_item(q, tinyi_story_needs[i], s->need[s->b] == i ? 7u : 1u);
        break;
    }
}

TINY_API void tllm_story_next(const tllm_story *s, tllm_story_items *items)
{
    if (!items) return;
    items->n = 0;
    items->total = 0;
    items->tag = TLLM_STORY_CHOICE;
    if (!s) return;
    if (s->at < s->n) {
        tinyi_story_item(items, s->word[s->at], 1u);
        items->tag = s->tag[s->at];
    } else {
        tinyi_story_choice(s, items);
        if (items->n == 1) items->tag = TLLM_STORY_PLAIN;
    }
}

TINY_API double tllm_story_entropy(const tllm_story_items *items)
{
    double sum = 0.0;
    int i;
    if (!items) return 0.0;
    for (i = 0; i < items->n; i++) sum += (double)items->weight[i] * tinyi_log64((double)items->weight[i]);
    return (tinyi_log64((double)items->total) - sum / (double)items->total) * 1.4426950408889634;
}

/* ---- what follows from it ---------------------------------------------------------------------------------------- */

static void tinyi_story_put(tllm_story *s, int word, int tag)
{
    s->word[s->n] = (int16_t)word;
    s->tag[s->n++] = (uint8_t)tag;
}
/* words with a blank between them */
static void tinyi_story_say(tllm_story *s, const char *text)
{
    while (*text) {
        size_t n = 0;
        while (text[n] && text[n] != ' ') n++;
        tinyi_story_put(s, tllm_story_find(text, n), TLLM_STORY_PLAIN);
        text += n + (text[n] == ' ');
    }
}
static void tinyi_story_dot(tllm_story *s) { tinyi_story_put(s, TINYI_SW(DOT), TLLM_STORY_PLAIN); }
static void tinyi_story_who(tllm_story *s, int who, int tag)
{
    tinyi_story_put(s, tinyi_story_names[s->name[who]], tag);
}
/* five apples, no apples */
static void tinyi_story_count(tllm_story *s, int n, int zero)
{
    tinyi_story_put(s, n ? tinyi_story_numbers[n] : zero, TLLM_STORY_COUNT);
}
static void tinyi_story_has(tllm_story *s, int who, int t)
{
    const int n = s->count[who][t];
    tinyi_story_put(s, TINYI_SW(HAD), TLLM_STORY_PLAIN);
    tinyi_story_count(s, n, TINYI_SW(NO));
    tinyi_story_put(s, tinyi_story_thing(s, t, n), TLLM_STORY_NOUN);
}
/* ? " B said , " */
static void tinyi_story_answer(tllm_story *s, int who, int tag)
{
    tinyi_story_say(s, "? \"");
    tinyi_story_who(s, who, tag);
    tinyi_story_say(s, "said , \"");
}
static void tinyi_story_close(tllm_story *s)
{
    tinyi_story_say(s, ". \"");
}

/* now A had three apples [and B had two] . */
static void tinyi_story_now(tllm_story *s)
{
    tinyi_story_put(s, TINYI_SW(NOW), TLLM_STORY_PLAIN);
    tinyi_story_who(s, s->a, TLLM_STORY_ACTOR);
    tinyi_story_has(s, s->a, s->t);
    if (s->verb == TINYI_GAVE) {
        tinyi_story_put(s, TINYI_SW(AND), TLLM_STORY_PLAIN);
        tinyi_story_who(s, s->b, TLLM_STORY_OTHER);
        tinyi_story_put(s, TINYI_SW(HAD), TLLM_STORY_PLAIN);
        tinyi_story_count(s, s->count[s->b][s->t], TINYI_SW(NO));
    }
    tinyi_story_dot(s);
    s->event = (int8_t)s->verb;
    s->actor = (int8_t)s->a;
    s->affected = (int8_t)(s->verb == TINYI_GAVE ? s->b : s->a);
}

static void tinyi_story_end(tllm_story *s)
{
    tinyi_story_say(s, "the end ,");
    tinyi_story_who(s, 0, TLLM_STORY_HERO);
    tinyi_story_has(s, 0, 0);
    tinyi_story_put(s, TINYI_SW(AND), TLLM_STORY_PLAIN);
    tinyi_story_who(s, 1, TLLM_STORY_FRIEND);
    tinyi_story_has(s, 1, 1);
    tinyi_story_say(s, ". they went home .");
    tinyi_story_put(s, TLLM_STORY_END, TLLM_STORY_PLAIN);
    s->choice = TINYI_SC_OPEN;
}

/* The sentence is through: the next one; the seventh can only be the last. */
static void tinyi_story_sentence(tllm_story *s)
{
    s->choice = TINYI_SC_SEGMENT;
    if (s->segment == 6) {
        tinyi_story_put(s, TINYI_SW(IN), TLLM_STORY_PLAIN);
        tinyi_story_end(s);
    }
}

static void tinyi_story_asked(tllm_story *s, int i)
{
    const int one = s->count[0][0] == 1;
    switch (i) {
    case 0: tinyi_story_say(s, "many"); s->choice = TINYI_SC_MANY; break;
    case 1:
        tinyi_story_say(s, "are we");
        tinyi_story_answer(s, s->b, TLLM_STORY_OTHER);
        tinyi_story_say(s, "we are");
        tinyi_story_put(s, tinyi_story_preps[s->prep], TLLM_STORY_PLACE);
        tinyi_story_put(s, TINYI_SW(THE), TLLM_STORY_PLAIN);
        tinyi_story_put(s, tinyi_story_places[s->place].word, TLLM_STORY_PLACE);
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    case 2: tinyi_story_say(s, "you"); s->choice = TINYI_SC_ARE; break;
    case 3: tinyi_story_say(s, "has more"); s->choice = TINYI_SC_WHO_HAS; break;
    default:
        tinyi_story_say(s, "color");
        tinyi_story_put(s, one ? TINYI_SW(IS) : TINYI_SW(ARE), TLLM_STORY_IS);
        tinyi_story_say(s, "your");
        tinyi_story_put(s, tinyi_story_thing(s, 0, s->count[0][0]), TLLM_STORY_NOUN);
        tinyi_story_answer(s, s->b, TLLM_STORY_OTHER);
        tinyi_story_put(s, one ? TINYI_SW(IT) : TINYI_SW(THEY), TLLM_STORY_IS);
        tinyi_story_put(s, one ? TINYI_SW(IS) : TINYI_SW(ARE), TLLM_STORY_IS);
        tinyi_story_put(s, tinyi_story_colours[s->colour], TLLM_STORY_COLOUR);
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    }
}

/* Item i of the choice, its word. */
static void tinyi_story_chosen(tllm_story *s, int i, int word)
{
    int j, t, sum;
    switch (s->choice) {
    case TINYI_SC_OPEN:
        s->plural = (uint8_t)i;             /* how it was opened */
        if (i == 0) tinyi_story_say(s, "day ,");
        else if (i == 1) tinyi_story_say(s, "a");
        else tinyi_story_say(s, "was a");
        s->choice = i == 0 ? TINYI_SC_HERO : i == 1 ? TINYI_SC_WEATHER : TINYI_SC_KIND;
        break;
    case TINYI_SC_WEATHER: s->choice = TINYI_SC_DAYTIME; break;
    case TINYI_SC_DAYTIME: tinyi_story_say(s, ","); s->choice = TINYI_SC_HERO; break;
    case TINYI_SC_KIND: s->choice = TINYI_SC_NAMED; break;
    case TINYI_SC_NAMED: tinyi_story_say(s, "named"); s->choice = TINYI_SC_HERO; break;
    case TINYI_SC_HERO:
        s->name[0] = (uint8_t)i;
        if (s->plural == 2) {
            tinyi_story_dot(s);
            tinyi_story_put(s, tinyi_story_she(s, 0) ? TINYI_SW(SHE) : TINYI_SW(HE), TLLM_STORY_PRONOUN);
        }
        tinyi_story_say(s, "was");
        s->choice = TINYI_SC_PREP;
        break;
    case TINYI_SC_PREP: s->prep = (uint8_t)i; tinyi_story_say(s, "the"); s->choice = TINYI_SC_PLACE; break;
    case TINYI_SC_PLACE:
        for (j = 0; j < 12; j++)
            if (tinyi_story_places[j].word == word) s->place = (uint8_t)j;
        tinyi_story_dot(s);
        tinyi_story_put(s, tinyi_story_she(s, 0) ? TINYI_SW(SHE) : TINYI_SW(HE), TLLM_STORY_PRONOUN);
        tinyi_story_say(s, "had");
        s->choice = TINYI_SC_OWNED;
        break;
    case TINYI_SC_OWNED: s->k = (uint8_t)(i + 1); s->choice = TINYI_SC_COLOUR; break;
    case TINYI_SC_COLOUR: s->colour = (uint8_t)i; s->choice = TINYI_SC_OBJECT; break;
    case TINYI_SC_OBJECT:
        s->type[0] = (uint8_t)i;
        s->count[0][0] = s->k;
        tinyi_story_dot(s);
        tinyi_story_put(s, tinyi_story_she(s, 0) ? TINYI_SW(HER) : TINYI_SW(HIS), TLLM_STORY_PRONOUN);
        tinyi_story_say(s, "friend");
        s->choice = TINYI_SC_FRIEND;
        break;
    case TINYI_SC_FRIEND:
        s->name[1] = (uint8_t)(i + (i >= s->name[0]));
        tinyi_story_say(s, "had");
        s->choice = TINYI_SC_OWNED2;
        break;
    case TINYI_SC_OWNED2: s->k = (uint8_t)(i + 1); s->choice = TINYI_SC_OBJECT2; break;
    case TINYI_SC_OBJECT2:
        s->type[1] = (uint8_t)(i + (i >= s->type[0]));
        s->count[1][1] = s->k;
        s->count[0][1] = s->count[1][0] = 0;
        s->need[0] = s->need[1] = -1;
        s->event = s->affected = s->actor = -1;
        s->segment = 0;
        tinyi_story_dot(s);
        s->choice = TINYI_SC_SEGMENT;
        break;
    case TINYI_SC_SEGMENT:
        s->segment++;
        if (i == 0) s->choice = TINYI_SC_THEN;
        else if (i == 1) s->choice = TINYI_SC_SUDDENLY;
        else if (i == 2 || i == 3) {
            s->a = (uint8_t)(i - 2);
            s->b = (uint8_t)(3 - i);
            s->choice = TINYI_SC_DOES;
        } else if (i == 4) {
            tinyi_story_say(s, "school , the teacher asked , \" what is");
            s->choice = TINYI_SC_SUM_A;
        } else tinyi_story_end(s);
        if (i == 1 || i > 3) s->event = -1; /* "then" says a new one, a name may still look back */
        break;
    case TINYI_SC_THEN: s->a = (uint8_t)i; s->b = (uint8_t)(1 - i); s->choice = TINYI_SC_ACT; break;
    case TINYI_SC_ACT:
        for (j = 0; j < 3; j++)
            if (tinyi_story_act[j] == word) s->verb = (uint8_t)j;
        s->choice = s->verb == TINYI_FOUND ? TINYI_SC_MORE : TINYI_SC_GIVEN;
        break;
    case TINYI_SC_MORE: s->k = (uint8_t)(i + 1); tinyi_story_say(s, "more"); s->choice = TINYI_SC_FOUND; break;
    case TINYI_SC_FOUND: case TINYI_SC_GIFT:
        t = word == tinyi_story_thing(s, 0, s->k) ? 0 : 1;
        s->t = (uint8_t)t;
        if (s->choice == TINYI_SC_FOUND) {
            s->count[s->a][t] = (uint8_t)(s->count[s->a][t] + s->k);
            s->choice = TINYI_SC_NEAR;
            break;
        }
        s->count[s->a][t] = (uint8_t)(s->count[s->a][t] - s->k);
        if (s->verb == TINYI_GAVE) {
            s->count[s->b][t] = (uint8_t)(s->count[s->b][t] + s->k);
            tinyi_story_say(s, "to");
            tinyi_story_who(s, s->b, TLLM_STORY_OTHER);
        }
        tinyi_story_dot(s);
        tinyi_story_now(s);
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_NEAR: tinyi_story_say(s, "the"); s->choice = TINYI_SC_LANDMARK; break;
    case TINYI_SC_LANDMARK:
        tinyi_story_dot(s);
        tinyi_story_now(s);
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_GIVEN:
        for (j = 1; j <= 5; j++)
            if (tinyi_story_numbers[j] == word) s->k = (uint8_t)j;
        s->choice = TINYI_SC_GIFT;
        break;
    case TINYI_SC_SUDDENLY: s->a = (uint8_t)i; tinyi_story_say(s, "was"); s->choice = TINYI_SC_NEED; break;
    case TINYI_SC_NEED:
        s->need[s->a] = (int8_t)i;
        tinyi_story_say(s, ", so");
        tinyi_story_put(s, tinyi_story_she(s, s->a) ? TINYI_SW(SHE) : TINYI_SW(HE), TLLM_STORY_PRONOUN);
        for (j = 0; j < 4 && tinyi_story_so[i][j]; j++)
            tinyi_story_put(s, tinyi_story_so[i][j], TLLM_STORY_CONSEQUENCE);
        tinyi_story_dot(s);
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_SUM_A: s->k = (uint8_t)(i + 1); s->choice = TINYI_SC_SIGN; break;
    case TINYI_SC_SIGN: s->verb = (uint8_t)i; s->choice = TINYI_SC_SUM_B; break;
    case TINYI_SC_SUM_B:
        sum = s->verb ? s->k - (i + 1) : s->k + i + 1;
        s->k = (uint8_t)sum;
        tinyi_story_say(s, "? \"");
        s->choice = TINYI_SC_PUPIL;
        break;
    case TINYI_SC_PUPIL:
        tinyi_story_say(s, "said , \"");
        tinyi_story_put(s, tinyi_story_numbers[s->k], TLLM_STORY_SUM);
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_DOES:
        if (i == 0) {
            tinyi_story_say(s, ", \"");
            s->choice = TINYI_SC_ASK;
        } else if (i == 1) {
            tinyi_story_say(s, ", \" look , the");
            s->choice = TINYI_SC_LOOK;
        } else {
            if (s->event == TINYI_GAVE) {
                tinyi_story_say(s, "glad and thanked");
                tinyi_story_put(s, tinyi_story_she(s, s->actor) ? TINYI_SW(HER) : TINYI_SW(HIM), TLLM_STORY_PRONOUN);
                tinyi_story_dot(s);
            } else if (s->event == TINYI_LOST) tinyi_story_say(s, "sad and cried .");
            else tinyi_story_say(s, "happy and laughed .");
            tinyi_story_sentence(s);
        }
        s->event = -1;
        break;
    case TINYI_SC_LOOK: s->choice = i < 8 ? TINYI_SC_THING : TINYI_SC_ANIMAL; break;
    case TINYI_SC_THING:
        s->plural = (uint8_t)(i % 2);
        tinyi_story_say(s, "near the");
        s->choice = TINYI_SC_BESIDE;
        break;
    case TINYI_SC_BESIDE:
        tinyi_story_put(s, s->plural ? TINYI_SW(ARE) : TINYI_SW(IS), TLLM_STORY_IS);
        s->choice = TINYI_SC_LOOKS;
        break;
    case TINYI_SC_ANIMAL: s->plural = (uint8_t)(i % 2); s->choice = TINYI_SC_HIDDEN; break;
    case TINYI_SC_HIDDEN: tinyi_story_say(s, "the"); s->choice = TINYI_SC_PLACE_OF; break;
    case TINYI_SC_PLACE_OF: s->choice = TINYI_SC_MOVES; break;
    case TINYI_SC_LOOKS: case TINYI_SC_MOVES:
        tinyi_story_say(s, "! \"");
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_ASK: tinyi_story_asked(s, i); break;
    case TINYI_SC_MANY:
        tinyi_story_say(s, "do you have");
        tinyi_story_answer(s, s->b, TLLM_STORY_OTHER);
        tinyi_story_say(s, "i have");
        tinyi_story_count(s, s->count[s->b][i], TINYI_SW(NONE));
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    case TINYI_SC_ARE:
        tinyi_story_answer(s, s->b, TLLM_STORY_OTHER);
        j = s->n;
        if (s->need[s->b] == i) tinyi_story_say(s, "yes , i am");
        else tinyi_story_say(s, "no , i am not");
        s->tag[j] = TLLM_STORY_YES;
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    default:                                /* TINYI_SC_WHO_HAS */
        tinyi_story_answer(s, s->b, TLLM_STORY_OTHER);
        j = s->n;
        if (s->count[s->b][i] > s->count[s->a][i]) tinyi_story_say(s, "i do");
        else if (s->count[s->b][i] < s->count[s->a][i]) tinyi_story_say(s, "you do");
        else tinyi_story_say(s, "we have the same");
        s->tag[j] = TLLM_STORY_COMPARE;
        tinyi_story_close(s);
        tinyi_story_sentence(s);
        break;
    }
}

static double tinyi_story_bits(uint32_t weight, uint32_t total)
{
    return weight == total ? 0.0 : (tinyi_log64((double)total) - tinyi_log64((double)weight)) * 1.4426950408889634;
}
static int32_t tinyi_story_go(tllm_story *s, const tllm_story_items *q, int i, double *bits, int *tag)
{
    if (bits) *bits = tinyi_story_bits(q->weight[i], q->total);
    if (tag) *tag = q->tag;
    if (s->at < s->n) s->at++;
    else {
        s->at = s->n = 0;
        tinyi_story_chosen(s, i, q->token[i]);
    }
    return q->token[i];
}

TINY_API int tllm_story_take(tllm_story *s, int32_t token, double *bits, int *tag)
{
    tllm_story_items q;
    int i;
    if (!s) return 0;
    tllm_story_next(s, &q);
    for (i = 0; i < q.n; i++)
        if (q.token[i] == token) {
            (void)tinyi_story_go(s, &q, i, bits, tag);
            return 1;
        }
    return 0;
}

static uint64_t tinyi_story_random(uint64_t *s)
{
    uint64_t z = *s += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}
static int tinyi_story_below(uint64_t *s, uint32_t total) { return (int)((tinyi_story_random(s) >> 32) * total >> 32); }

TINY_API int32_t tllm_story_draw(tllm_story *s, double *bits, int *tag)
{
    tllm_story_items q;
    int i = 0, u;
    if (!s) return -1;
    tllm_story_next(s, &q);
    if (s->at == s->n) switch (s->choice) {
    case TINYI_SC_SEGMENT:                  /* then 5, suddenly 2, a name 4, at 1, in 4; then which name */
        u = tinyi_story_below(&s->seed, s->segment > 0 ? 16 : 12);
        i = u < 5 ? 0 : u < 7 ? 1 : u < 11 ? 2 + tinyi_story_below(&s->seed, 2) : u < 12 ? 4 : 5;
        break;
    case TINYI_SC_LOOK:
        i = tinyi_story_below(&s->seed, 2) ? 8 + tinyi_story_below(&s->seed, 10) : tinyi_story_below(&s->seed, 8);
        break;
    case TINYI_SC_THING: case TINYI_SC_BESIDE: case TINYI_SC_ANIMAL: case TINYI_SC_PLACE_OF:
        i = 2 * tinyi_story_below(&s->seed, (uint32_t)q.n / 2);
        i += tinyi_story_below(&s->seed, 2);
        break;
    default:
        u = tinyi_story_below(&s->seed, q.total);
        while (u >= (int)q.weight[i]) u -= (int)q.weight[i++];
        break;
    }
    return tinyi_story_go(s, &q, i, bits, tag);
}

TINY_API tllm_story tllm_story_start(uint64_t seed)
{
    tllm_story s;
    memset(&s, 0, sizeof s);
    s.seed = seed;
    s.choice = TINYI_SC_OPEN;
    return s;
}

TINY_API size_t tllm_story_score(const int32_t *tokens, size_t n, double *bits, uint8_t *tags)
{
    tllm_story s = tllm_story_start(0);
    size_t i;
    if (!tokens) return 0;
    for (i = 0; i < n; i++) {
        double b;
        int tag;
        if (!tllm_story_take(&s, tokens[i], &b, &tag)) return i;
        if (bits) bits[i] = b;
        if (tags) tags[i] = (uint8_t)tag;
    }
    return n;
}

TINY_API const char *tllm_story_tag_name(int tag)
{
    static const char *const name[TLLM_STORY_TAGS] = { "choice", "other forced", "hero",    "friend",
                                                       "actor",  "other",        "pronoun", "consequence",
                                                       "count",  "noun number",  "is/are",  "place",
                                                       "yes/no", "comparison",   "colour",  "lesson sum" };
    return tag >= 0 && tag < TLLM_STORY_TAGS ? name[tag] : "?";
}

/* ---- words and the vocabulary ------------------------------------------------------------------------------------ */

TINY_API const char *tllm_story_word(int32_t token)
{
    return token >= TLLM_STORY_WORD && token < TLLM_STORY_VOCAB ? tinyi_story_text[token - TLLM_STORY_WORD] : NULL;
}

TINY_API int32_t tllm_story_find(const char *word, size_t n)
{
    int lo = 0, hi = TLLM_STORY_VOCAB - TLLM_STORY_WORD;
    while (word && lo < hi) {
        const int mid = (lo + hi) / 2;
        const char *w = tinyi_story_text[mid];
        const size_t m = strlen(w);
        int order = memcmp(word, w, n < m ? n : m);
        if (!order) order = n < m ? -1 : n > m;
        if (!order) return TLLM_STORY_WORD + mid;
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
    return -1;
}

/* Tokens as files of this kind write them: quotes around, what is no plain character escaped. */
TINY_API tiny_status tllm_story_vocab_put(tiny_ctx *ctx, tllm_writer *w)
{
    static const char *const special[4] = { "<unk>", "<eos>", "<pad>", "<none>" };
    tllm_text text[TLLM_STORY_VOCAB];
    char room[TLLM_STORY_VOCAB][24];
    int32_t type[TLLM_STORY_VOCAB];
    tiny_status st;
    int i;
    for (i = 0; i < TLLM_STORY_VOCAB; i++) {
        const int byte = i - TLLM_STORY_BYTE;
        int n;
        type[i] = i ? TLLM_TOKEN_NORMAL : TLLM_TOKEN_UNKNOWN;
        if (i < TLLM_STORY_BYTE) {
            n = snprintf(room[i], sizeof room[i], "%s", special[i]);
            if (i) type[i] = TLLM_TOKEN_CONTROL;
        } else if (i >= TLLM_STORY_WORD)
            n = snprintf(room[i], sizeof room[i], " %s", tinyi_story_text[i - TLLM_STORY_WORD]);
        else if (byte == '\\') n = snprintf(room[i], sizeof room[i], "\\\\");
        else if (byte >= 32 && byte < 127) n = snprintf(room[i], sizeof room[i], "%c", byte);
        else n = snprintf(room[i], sizeof room[i], "\\x%02x", (unsigned)byte);
        text[i].at = room[i];
        text[i].n = (size_t)n;
    }
    st = tllm_writer_put_text(ctx, w, "tokenizer.ggml.model", "rwkv");
    if (!st) st = tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_STRING, text, TLLM_STORY_VOCAB);
    if (!st) st = tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_I32, type, TLLM_STORY_VOCAB);
    if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.bos_token_id", TLLM_STORY_END);
    if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.eos_token_id", TLLM_STORY_END);
    if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.unknown_token_id", 0);
    if (!st) st = tllm_writer_put_u32(ctx, w, "tokenizer.ggml.padding_token_id", 2);
    if (!st) st = tllm_writer_put_bool(ctx, w, "tokenizer.ggml.add_bos_token", 1);
    if (!st) st = tllm_writer_put_bool(ctx, w, "tokenizer.ggml.add_eos_token", 0);
    if (!st) st = tllm_writer_put_bool(ctx, w, "tokenizer.ggml.add_space_prefix", 1);
    return st;
}
#undef TINYI_SW
