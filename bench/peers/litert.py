"""bench/peers/litert.py - a model of random weights for LiteRT-LM, in the shape of build/make-model

    python litert.py SHAPE TYPE OUT.litertlm        SHAPE: 15M, 110M, 1.1B; TYPE: Q8_0 (int8, one scale a row) or
                                                    Q4_0 (int4 in blocks of 32)

Wants the packages litert-torch and litert-lm. Its types are the nearest to ours: weights of 8 or 4 bits, activations
of 8 bits made while it runs. The file has a prompt of 512 tokens and a context of 1024; words w3, w4, ... are its
vocabulary."""
import importlib.util, json, os, shutil, sys, tempfile

# one module of litert-torch takes the schema of model files from TensorFlow, which has it from the same source
if not importlib.util.find_spec("tensorflow"):
    beside = tempfile.mkdtemp()
    os.makedirs(beside + "/tensorflow/lite/python")
    for folder in ("", "/lite", "/lite/python"): open(f"{beside}/tensorflow{folder}/__init__.py", "w").close()
    with open(beside + "/tensorflow/lite/python/schema_py_generated.py", "w") as f:
        f.write("from ai_edge_litert.schema_py_generated import *\n")
    sys.path.insert(0, beside)
import torch
from litert_torch.generative.layers import model_config as c
from litert_torch.generative.layers.kv_cache import KV_LAYOUT_TRANSPOSED
from litert_torch.generative.utilities import converter, litertlm_builder, model_builder
from litert_torch.generative.utilities.export_config import ExportConfig

SHAPES = {"15M": (288, 6, 6, 6, 768), "110M": (768, 12, 12, 12, 2048), "1.1B": (2048, 22, 32, 4, 5632)}
TYPES = {"Q8_0": "dynamic_int8", "Q4_0": "dynamic_int4_block32"}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in TYPES: sys.exit(__doc__)
    shape, quantize, out = sys.argv[1], TYPES[sys.argv[2]], os.path.abspath(sys.argv[3])
    width, layers, heads, groups, inner = SHAPES[shape]
    norm = c.NormalizationConfig(type=c.NormalizationType.RMS_NORM)
    block = c.TransformerBlockConfig(
        attn_config=c.AttentionConfig(num_heads=heads, head_dim=width // heads, num_query_groups=groups,
                                      rotary_base=10000, rotary_percentage=1.0),
        ff_config=c.FeedForwardConfig(type=c.FeedForwardType.GATED, intermediate_size=inner,
                                      activation=c.ActivationConfig(c.ActivationType.SILU)),
        pre_attention_norm_config=norm, post_attention_norm_config=norm)
    config = c.ModelConfig(vocab_size=32000, num_layers=layers, max_seq_len=1024, embedding_dim=width,
                           block_configs=block, final_norm_config=norm, lm_head_share_weight_with_embedding=False)
    torch.manual_seed(1)
    model = model_builder.DecoderOnlyModel(config).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.02) if p.dim() > 1 else torch.nn.init.ones_(p)
    export = ExportConfig()
    export.kvcache_layout, export.mask_as_input = KV_LAYOUT_TRANSPOSED, True
    work = tempfile.mkdtemp()
    tokens = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, 32000)}}
    with open(work + "/tokenizer.json", "w") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
                   "model": {"type": "WordLevel", "vocab": tokens, "unk_token": "<unk>"}}, f)
    made = converter.convert_to_tflite(model, output_path=work, output_name_prefix="model", prefill_seq_len=[512],
                                       kv_cache_max_len=1024, quantize=quantize, config=config, export_config=export)
    litertlm_builder.build_litertlm(tflite_model_path=made, workdir=work, output_path=work, context_length=1024,
                                    hf_tokenizer_model_path=work + "/tokenizer.json", start_token_id=1,
                                    stop_token_ids=[2])
    shutil.move(made.replace(".tflite", ".litertlm"), out)
    shutil.rmtree(work)


main()
