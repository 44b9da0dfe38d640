/* tests/llm/block/product.h - a product with block formats as an operation of the table */
#ifndef T_PRODUCT_H
#define T_PRODUCT_H
static tiny_op op_of(const tiny_tensor *x, const tiny_tensor *w, const tiny_tensor *bias, const tiny_tensor *y,
                     const tllm_matmul_params *p)
{
    tiny_op op;
    memset(&op, 0, sizeof op);
    op.row = tllm_matmul_row();
    op.kind = op.row->kind;
    op.in[0] = x;
    op.in[1] = w;
    op.in[2] = bias;
    op.out[0] = y;
    op.params = p;
    return op;
}
#endif
