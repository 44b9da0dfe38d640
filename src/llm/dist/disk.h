/* src/llm/dist/disk.h - a model that stays on disk and runs through a window of a few blocks
 *
 *   tllm_disk_desc d = { 0 };
 *   d.path = "model.gguf"; d.window = 2;
 *   tllm_disk_open(ctx, &d, &disk);
 *   tllm_state_open(ctx, tllm_disk_model(disk), NULL, &state);       and tllm_forward as with any other model
 *   tllm_session_over(ctx, tllm_disk_model(disk), NULL, &session);   or a session over it
 *   ... tllm_session_close or tllm_state_close first ...
 *   tllm_disk_close(disk);
 *
 * A block is the matrices of an attention, of a network, or of the output. While one computes, a thread reads the next
 * ones. The file is not mapped: in memory are `window` blocks, norms and biases, the tables of the file, and the rows
 * of the embedding that are read one by one. The results have the bits of the model in memory.
 *
 * For models larger than memory. A pass over up to n_batch tokens reads the whole file once, so a prompt costs little
 * more than one token for each n_batch of its own. When a model fits into memory, tllm_file_open is faster. */
#ifndef TINYI_DISK_H
#define TINYI_DISK_H
#include "llm/dist/loader.h"
#include "llm/model/model.h"
TINYI_C_BEGIN

typedef struct tllm_disk_desc {             /* all zero but path: the sensible default */
    const char *path;                       /* one GGUF file */
    tiny_idx window;                        /* blocks in memory; 0: 2. One never reads ahead */
    /* the networks of layers 0, keep, 2 keep ... stay in memory, outside of the window; 0: none */
    tiny_idx keep;
    double bytes_per_second;                /* reads no faster, to try a slow disk; 0: no limit */
    int no_thread;
    /* one of several ranks; world 0 or 1: the whole model. With layers (world), as in tllm_ring_desc: a rank of a ring,
     * which only reads its own layers; rank 0 alone has the output. layers NULL: the model is cut as by
     * tllm_model_cut, or with share (world) by tllm_model_cut_by; only this rank's rows and columns are read */
    const tiny_idx *layers;
    const double *share;
    int rank, world;
    int no_output;                          /* nonzero: no results are wanted on this rank, the output is not read */
} tllm_disk_desc;

typedef struct tllm_disk_about {
    tiny_idx n_blocks, window, n_kept;      /* blocks that go through the window; its slots; blocks in memory */
    uint64_t model_bytes;                   /* of all matrices that this rank uses */
    uint64_t fixed_bytes;                   /* in memory all the time: tensors that are no block, and kept blocks */
    uint64_t window_bytes;                  /* the most that the window holds, by tllm_slots_peak */
    uint64_t row_bytes;                     /* of embedding rows, read so far */
    tllm_loader_counts loader;
} tllm_disk_about;

typedef struct tllm_disk tllm_disk;
/* Supported: models that give logits, of plain attention and dense or expert networks in each layer, without an
 * accelerator. On failure *out is NULL. */
TINY_API tiny_status tllm_disk_open(tiny_ctx *ctx, const tllm_disk_desc *desc, tllm_disk **out);
TINY_API void tllm_disk_close(tllm_disk *disk);         /* takes NULL; after its states */
/* Belongs to the disk. Only one state may compute with it at a time. It cannot be cut, repacked or merged. */
TINY_API tllm_model *tllm_disk_model(tllm_disk *disk);
/* Keys, names, shapes, and vectors. The data of matrices is NULL. Belongs to the disk. */
TINY_API const tllm_gguf *tllm_disk_file(const tllm_disk *disk);
TINY_API void tllm_disk_look(const tllm_disk *disk, tllm_disk_about *about);

TINYI_C_END
#endif
