/* tests/rows.h - the rows of the table, and those that language models bring; NULL after the last */
#ifndef T_ROWS_H
#define T_ROWS_H

static const tiny_op_row *const *all_rows(void)
{
    static const tiny_op_row *rows[400];
    size_t n = 0;
    for (; n < 390 && tiny_op_at(n); n++) rows[n] = tiny_op_at(n);
    rows[n++] = tllm_matmul_row();
    rows[n++] = tllm_paged_attention_row();
    rows[n++] = tllm_latent_attention_row();
    rows[n++] = tllm_mix_rows_row();
    rows[n++] = tllm_bipolar_row();
    rows[n++] = tllm_flash_row();
    rows[n++] = tllm_vptq_row();
    rows[n++] = tllm_tome_merge_row();
    rows[n] = tllm_tome_merge_backward_row();
    return rows;
}

#endif
