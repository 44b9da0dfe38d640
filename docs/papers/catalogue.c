/* docs/papers/catalogue.c - prints docs/papers/catalogue.md: published systems, which of them are here, and the table
 * of operations
 *
 * A system counts as here when its pair of files stands in src/ and its test in tests/; then it must have a page in
 * docs/papers, which its name links to. Names, papers, pages and headlines come from docs/papers/systems.tsv, the
 * operations from the tables of both headers. */
#include "tinygnn.h"
#include "tinyllm.h"                        /* last: tiny_op_at is its own */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int there(const char *file, const char *ending)
{
    char path[300];
    FILE *f;
    (void)snprintf(path, sizeof path, "%.240s%.40s", file, ending);
    f = fopen(path, "r");
    if (f) (void)fclose(f);
    return f != NULL;
}

static int is_here(const char *file)
{
    char test[300];
    (void)snprintf(test, sizeof test, "tests%s", file + strlen("src"));
    return there(file, ".h") && there(file, ".c") && there(test, ".c");
}

static int has_page(const char *page)
{
    char path[300];
    (void)snprintf(path, sizeof path, "docs/papers/%.200s", page);
    return *page && there(path, ".md");
}

/* in a table of Markdown a bar ends the cell */
static void print_cell(const char *s)
{
    for (; *s; s++) printf(*s == '|' ? "\\%c" : "%c", *s);
}

static void print_row(const tiny_op_row *row)
{
    int slots = 0;
    while (row->kernels && row->kernels[slots] >= 0) slots++;
    printf("| %s | %d | ", row->name, row->kind);
    print_cell(row->formula);
    printf(" | %d%s | %s | %d |\n", row->n_in_needed, row->n_in > row->n_in_needed ? " and more" : "",
           row->flags & TINY_OP_INPLACE ? "yes" : "no", slots);
}

int main(void)
{
    static char line[2000], family[64];
    FILE *f = fopen("docs/papers/systems.tsv", "r");
    const tiny_op_row *row;
    size_t i;
    int n = 0, here = 0;
    if (!f) { fprintf(stderr, "docs/papers/systems.tsv cannot be opened: run this from the top folder\n"); return 1; }
    printf("# Catalogue\n\nPrinted by `make docs` from the table of operations and docs/papers/systems.tsv. \"here\" "
           "means: the files are in\nsrc/ and their test is in tests/; the name links to the page of the system.\n\n"
           "## Systems\n");
    while (fgets(line, sizeof line, f)) {
        char *field[7], *p = line;
        int k;
        line[strcspn(line, "\r\n")] = 0;
        for (k = 0; k < 7; k++) {
            field[k] = p;
            p += strcspn(p, "\t");
            if (*p) *p++ = 0;
        }
        if (!strcmp(field[0], "family")) continue;
        if (!field[3][0] || strncmp(field[3], "src/", 4) != 0) {
            fprintf(stderr, "docs/papers/systems.tsv: %s has no file\n", field[1]);
            return 1;
        }
        if (strcmp(family, field[0]) != 0) {
            (void)snprintf(family, sizeof family, "%s", field[0]);
            printf("\n### %s\n\n| system | paper | file | state | the paper's headline | ours "
                   "|\n|---|---|---|---|---|---|\n",
                   family);
        }
        k = is_here(field[3]);
        if (k && !has_page(field[4])) {
            fprintf(stderr, "docs/papers/systems.tsv: %s is here and has no page: docs/papers/%s.md\n", field[1],
                    *field[4] ? field[4] : "?");
            return 1;
        }
        if (k) printf("| [%s](%s.md) |", field[1], field[4]);
        else printf("| %s |", field[1]);
        printf(" %s | %s | %s | %s | %s |\n", field[2], field[3], k ? "**here**" : "not yet", field[5],
               k ? field[6] : "");
        n++;
        here += k;
    }
    (void)fclose(f);
    printf("\n%d of %d are here.\n\n## Operations\n\nKinds above %d are tinyllm.h's, those above %d tinygnn.h's, all "
           "others are in both.\n\n",
           here, n, TINY_OP_BASE_LLM, TINY_OP_BASE_GNN);
    printf("| operation | kind | what | inputs | in place | kernels of each target |\n|---|---|---|---|---|---|\n");
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) print_row(row);
    for (i = 0; (row = tinygnn_op_at(i)) != NULL; i++)
        if (row->kind > TINY_OP_BASE_GNN) print_row(row);
    return ferror(stdout) != 0;
}
