/* examples/bytes.c - writes a file as a C array, for programs without files: bytes FILE NAME > FILE.h
 *
 * The array is static const unsigned char NAME[]. The comment before it has the size and the CRC-32 of the file. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MOST ((unsigned long)256 << 20)

int main(int argc, char **argv)
{
    FILE *f = argc == 3 ? fopen(argv[1], "rb") : NULL;
    uint32_t crc = 0xffffffffu;
    unsigned long n = 0;
    const char *name;
    int c, k;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
        return puts("bytes FILE NAME > FILE.h") < 0;
    if (argc != 3) return fputs("bytes FILE NAME > FILE.h\n", stderr), 2;
    if (!f) return fprintf(stderr, "bytes: %s cannot be read\n", argv[1]), 1;
    for (; (c = getc(f)) != EOF && n < MOST; n++)
        for (crc ^= (unsigned)c, k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    if (c != EOF)
        return fprintf(stderr, "bytes: %s has more than %lu bytes, which are the most for an array\n", argv[1],
                       (unsigned long)MOST),
               1;
    rewind(f);
    name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
    printf("/* %s: %lu bytes, CRC-32 %08lx. MIT licence. Written by bytes. */\n", name, n,
           (unsigned long)(crc ^ 0xffffffffu));
    printf("static const unsigned char %s[%lu] = {", argv[2], n);
    for (n = 0; (c = getc(f)) != EOF && n < MOST; n++) printf("%s%d,", n % 32 ? "" : "\n", c);
    puts("\n};");
    if (ferror(f) || fflush(stdout) || ferror(stdout))
        return fprintf(stderr, "bytes: reading %s or writing failed\n", argv[1]), 1;
    (void)fclose(f);
    return 0;
}
