#!/usr/bin/env python3
"""tests/llm/model/peer.py - random models of many architectures, our logits compared with another engine's

    python3 -m venv venv && venv/bin/pip install numpy xllamacpp
    venv/bin/python tests/llm/model/peer.py --logits build/logits [--folder F] [--seeds N] [--plain] [NAME ...]

The other engine is llama.cpp (MIT licence), in the package xllamacpp of PyPI; its C functions are called through
ctypes. The script does not know the tensors of a model. It writes a file with the metadata and no tensors, reads from
the engine's error which tensor is missing and which shape it must have, and repeats until the file loads. Then every
optional tensor of the list below is offered to the engine, and those that it takes are filled too ("+all"). So neither
the names nor the shapes are ours. Weights are random from a stated seed. Tolerance: max|diff| <= 2e-4 * (1 + rms), or
2e-3 * (1 + rms) where the engine looks GELU up in a table of half precision (in every build that can be installed).
Exit status 1: something differs."""
import argparse, ctypes as C, importlib.util, os, re, struct, subprocess, sys
import numpy as np

# ---- the other engine ----------------------------------------------------------------------------------------------

class Params(C.Structure):                      # larger than any of its structs; fields are found by their defaults
    _fields_ = [('b', C.c_ubyte * 256)]

class Batch(C.Structure):
    _fields_ = [('n', C.c_int32), ('token', C.c_void_p), ('embd', C.c_void_p), ('pos', C.c_void_p),
                ('nseq', C.c_void_p), ('seq', C.c_void_p), ('logits', C.c_void_p)]

LOG = []

@C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
def log_line(level, text, _):
    LOG.append(text.decode('utf8', 'replace'))

class Peer:
    def __init__(self):
        spec = importlib.util.find_spec('xllamacpp')
        folder = os.path.dirname(spec.origin)
        name = [f for f in os.listdir(folder) if f.startswith('xllamacpp') and f.endswith('.so')][0]
        L = self.L = C.CDLL(os.path.join(folder, name))
        p = C.c_void_p
        for f, res, args in (
                ('llama_log_set', None, [p, p]), ('llama_model_default_params', Params, []),
                ('llama_context_default_params', Params, []),
                ('llama_model_load_from_file', p, [C.c_char_p, Params]), ('llama_init_from_model', p, [p, Params]),
                ('llama_batch_init', Batch, [C.c_int32] * 3),
                ('llama_batch_free', None, [Batch]), ('llama_decode', C.c_int, [p, Batch]),
                ('llama_encode', C.c_int, [p, Batch]), ('llama_get_logits', p, [p]),
                ('llama_get_embeddings', p, [p]), ('llama_free', None, [p]), ('llama_model_free', None, [p]),
                ('llama_model_get_vocab', p, [p]),
                ('llama_vocab_n_tokens', C.c_int, [p]), ('llama_model_n_embd_out', C.c_int, [p]),
                ('llama_backend_init', None, []),
                ('llama_tokenize', C.c_int32, [p, C.c_char_p, C.c_int32, p, C.c_int32, C.c_bool, C.c_bool])):
            g = getattr(L, f)
            g.restype, g.argtypes = res, args
        L.llama_log_set(C.cast(log_line, p), None)
        L.llama_backend_init()
        # where the fields are: n_ctx, n_batch, n_ubatch start it; -1 four times, type F16 twice
        c = bytes(L.llama_context_default_params().b)
        i = struct.unpack('<64i', c)
        if (i[:4] != (512, 2048, 512, 1) or i[7:9] != (4, 4) or i[10:14] != (-1,) * 4 or i[26:28] != (1, 1)
                or c[137] != 1):
            sys.exit('peer.py: this version of xllamacpp has other parameters')

    def load(self, path, vocab_only=False):
        p = self.L.llama_model_default_params()
        p.b[72] = vocab_only
        p.b[74] = 0                             # no repacking
        del LOG[:]
        m = self.L.llama_model_load_from_file(path.encode(), p)
        return (m, '') if m else (None, ''.join(LOG[-20:]))

    def run(self, model, tokens, n_ctx, emb=False, decoder=None, flash=0, single=False, encode=False):
        L, p, n = self.L, self.L.llama_context_default_params(), len(tokens)
        def i32(at, v): C.c_int32.from_buffer(p, at).value = v
        # cache F32, no flash attention
        for at, v in ((0, n_ctx), (4, n_ctx), (8, n_ctx), (28, 1), (32, 1), (52, flash), (104, 0), (108, 0)): i32(at, v)
        if emb:
            p.b[136] = 1
            i32(44, 0)
        c = L.llama_init_from_model(model, p)
        if not c: raise RuntimeError(''.join(LOG[-5:]))
        def batch(ids, first=0):
            b = L.llama_batch_init(len(ids), 0, 1)
            b.n = len(ids)
            for i, t in enumerate(ids):
                C.c_int32.from_address(b.token + 4 * i).value = t
                C.c_int32.from_address(b.pos + 4 * i).value = first + i
                C.c_int32.from_address(b.nseq + 4 * i).value = 1
                C.c_int32.from_address(C.c_void_p.from_address(b.seq + 8 * i).value).value = 0
                C.c_int8.from_address(b.logits + i).value = 1
            return b
        w = L.llama_model_n_embd_out(model) if emb else L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
        def rows(n):
            at = (L.llama_get_embeddings if emb else L.llama_get_logits)(c)
            return np.array((C.c_float * (n * w)).from_address(at), dtype=np.float32).reshape(n, w).copy()
        if single:
            out = []
            for i, t in enumerate(tokens):
                r = L.llama_decode(c, batch([t], i))
                if r: raise RuntimeError('decode: %d' % r)
                out.append(rows(1))
            L.llama_free(c)
            return np.concatenate(out)
        b = batch(tokens)
        r = L.llama_encode(c, b) if decoder or encode else L.llama_decode(c, b)
        if decoder and not r:
            b, n = batch(decoder), len(decoder)
            r = L.llama_decode(c, b)
        if r: raise RuntimeError('decode: %d' % r)
        out = rows(n)
        L.llama_free(c)
        return out

# ---- files -----------------------------------------------------------------------------------------------------------

def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack('<Q', len(s)) + s

def value(v):
    """ the Python type determines the GGUF type """
    if isinstance(v, bool): return 7, struct.pack('<?', v)
    if isinstance(v, int): return (4, struct.pack('<I', v)) if v >= 0 else (5, struct.pack('<i', v))
    if isinstance(v, float): return 6, struct.pack('<f', v)
    if isinstance(v, (str, bytes)): return 8, text(v)
    items = [value(x) for x in v]
    return 9, struct.pack('<IQ', items[0][0], len(items)) + b''.join(x for _, x in items)

def write(path, meta, tensors, weights):
    """ tensors: name -> dims, innermost first """
    head, data, at = [b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(meta))], [], 0
    for k, v in meta.items():
        t, b = value(v)
        head.append(text(k) + struct.pack('<I', t) + b)
    for name, dims in tensors.items():
        head.append(text(name) + struct.pack('<I', len(dims)) + b''.join(struct.pack('<Q', d) for d in dims)
                    + struct.pack('<IQ', 26 if 'tid2eid' in name else 0, at))
        b = (weights(name, dims).astype('<i4' if 'tid2eid' in name else '<f4').tobytes() if weights
             else bytes(4 * int(np.prod(dims))))
        b += bytes(-len(b) % 32)
        at += len(b)
        data.append(b)
    h = b''.join(head)
    with open(path, 'wb') as f:
        f.write(h + bytes(-len(h) % 32))
        f.write(b''.join(data))

def random_weights(seed, queries=0):
    """ queries: the size of the matrices of t5's, where it is another; scores are not scaled there """
    rng = np.random.default_rng(seed)
    def w(name, dims):
        n, d = int(np.prod(dims)), dims[0]
        x = rng.standard_normal(n)
        # of 4 experts
        if 'tid2eid' in name: return np.argsort(rng.random((dims[1], 4)), axis=1)[:, :dims[0]].reshape(-1)
        if 'hc_' in name and 'fn' not in name: return 1.5 * x
        if 'rope_f' in name: return 1 + 3 * rng.random(n)
        if name.endswith('.scale') or 'act.scales' in name: return 0.5 + rng.random(n)
        if 'norm' in name and name.endswith('.weight'): return 1 + 0.2 * x
        if name.endswith('.bias') or len(dims) == 1: return 0.2 * x
        if name in ('token_embd.weight', 'position_embd.weight', 'token_types.weight'): return x
        if 'ffn_gate_inp' in name: return 2 * x / d ** 0.5
        if re.match(r'(enc|dec)\..*attn_q.weight', name) and queries: return queries * x / d ** 0.5
        return 1.2 * x / d ** 0.5
    return w

OPTIONAL = '''output.weight output.bias output_norm.bias token_embd_norm.weight token_embd_norm.bias
    position_embd.weight token_types.weight rope_freqs.weight'''.split() + ['blk.N.' + s for s in '''
    attn_norm.bias attn_norm_2.weight attn_norm_2.bias attn_q.bias attn_k.bias attn_v.bias attn_qkv.bias
    attn_output.bias attn_sinks.weight attn_gate.weight attn_q_norm.weight attn_k_norm.weight attn_q_norm.bias
    attn_k_norm.bias post_attention_norm.weight ffn_norm.weight ffn_norm.bias post_ffw_norm.weight
    layer_out_scale.weight ffn_gate_inp.bias exp_probs_b.bias ffn_gate.bias ffn_up.bias ffn_down.bias
    ffn_gate_exps.bias ffn_up_exps.bias ffn_down_exps.bias ffn_gate_inp_shexp.weight ffn_gate_shexp.weight
    ffn_up_shexp.weight ffn_down_shexp.weight attn_sub_norm.weight ffn_sub_norm.weight ffn_act.scales
    rope_freqs.weight layer_output_norm.bias attn_output_norm.bias time_mix_key.bias time_mix_value.bias
    time_mix_receptance.bias'''.split()]

class Model:
    def __init__(self, peer, path, meta, n_layer, first, emb, decoder):
        self.emb, self.decoder = emb, decoder
        self.peer, self.path, self.meta, self.n_layer = peer, path, meta, n_layer
        self.tensors = dict(first)
    def fit(self):
        """ adds each tensor that the engine misses, in its shape, until the file loads; returns its error otherwise """
        for _ in range(4000):
            write(self.path, self.meta, self.tensors, None)
            m, why = self.peer.load(self.path)
            if m:
                self.peer.L.llama_model_free(m)
                return None
            a = re.search(r"missing tensor '([^']+)'", why) or re.search(r"tensor '([^']+)' not found", why)
            b = re.search(r"tensor '([^']+)' has wrong shape; expected ([0-9, ]+), got", why)
            if b:
                d = [int(x) for x in b.group(2).split(',')]
                while len(d) > 1 and d[-1] == 1: d.pop()
                if self.tensors[b.group(1)] == d: return why
                self.tensors[b.group(1)] = d
            elif a: self.tensors[a.group(1)] = [1]
            else: return why
        return 'no end of tensors'
    def offer(self, name, careful=False):
        old = dict(self.tensors)
        for n in [name.replace('N', str(i)) for i in range(self.n_layer)] if '.N.' in name else [name]:
            self.tensors.setdefault(n, [1])
        if self.tensors == old: return False
        why = self.fit()
        if why and 'wrong number of tensors' in why and '.N.' in name:      # not in every layer
            some = old
            for i in range(self.n_layer):
                self.tensors = dict(some)
                self.tensors.setdefault(name.replace('N', str(i)), [1])
                if not self.fit(): some = self.tensors
            if len(some) > len(old):
                self.tensors = some
                return True
        if not why and careful and not self.runs(): why = 'it does not run'
        if why: self.tensors = old
        return not why
    def runs(self):
        """ the engine accepts some tensors that make it abort later: tried in a process of its own """
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            m, why = self.peer.load(self.path)
            try: self.peer.run(m, [1, 2, 3], 64, self.emb, [1] if self.decoder else None)
            except RuntimeError: os._exit(1)
            os._exit(0)
        return os.waitpid(child, 0)[1] == 0

# ---- the models -------------------------------------------------------------------------------------------------

MOE = dict(expert_count=4, expert_used_count=2, expert_feed_forward_length=48)
YARN = {'rope.scaling.type': 'yarn', 'rope.scaling.factor': 4.0, 'rope.scaling.original_context_length': 32}
MLA = {'attention.q_lora_rank': 24, 'attention.kv_lora_rank': 16, 'attention.key_length': 24,
       'attention.value_length': 20, 'rope.dimension_count': 8}
MLA_2 = {**MOE, **MLA, 'leading_dense_block_count': 1, 'expert_shared_count': 2, 'expert_weights_scale': 1.3,
         'attention.head_count_kv': 1, 'attention.key_length_mla': 16, 'attention.value_length_mla': 12}
W = 'attention.sliding_window'
WP = 'attention.sliding_window_pattern'
RP = 'attention.rope_pattern'
def experts_of(n, first_with, shared):          # tensors that the other engine takes if present
    plain = ['ffn_gate.weight', 'ffn_up.weight', 'ffn_down.weight']
    routed = ['ffn_gate_inp.weight', 'ffn_gate_exps.weight', 'ffn_up_exps.weight', 'ffn_down_exps.weight',
              'exp_probs_b.bias']
    if shared: routed += ['ffn_gate_shexp.weight', 'ffn_up_shexp.weight', 'ffn_down_shexp.weight']
    return tuple('blk.%d.%s' % (i, s) for i in range(n) for s in (routed if i >= first_with else plain))
def gates_of(*width): return {'blk.%d.attn_gate.weight' % i: [64, w] for i, w in enumerate(width)}
GLA = {'attention.head_count': 0, 'wkv.head_size': 16, 'time_mix_extra_dim': 8, 'time_decay_extra_dim': 12,
       'token_shift_count': 1}
INDEXER = tuple('blk.%d.indexer.%s' % (i, s) for i in range(3)
                for s in ('k_norm.weight', 'k_norm.bias', 'proj.weight', 'attn_k.weight', 'attn_q_b.weight'))
DISTANCES = ('enc.blk.0.attn_rel_b.weight', 'dec.blk.0.attn_rel_b.weight')
GATES = tuple('blk.%d.ffn_gate_exps.weight' % i for i in range(3))         # optional to the engine, not to us

EXPERTS = ('ffn_gate_inp', 'ffn_gate_exps', 'ffn_up_exps', 'ffn_down_exps', 'ffn_gate_shexp', 'ffn_up_shexp',
           'ffn_down_shexp')
HY_V3 = (tuple('blk.%d.%s.weight' % (i, s) for i in (1, 2) for s in EXPERTS)
         + tuple('blk.%d.exp_probs_b' % i for i in (1, 2))
         + tuple('blk.0.ffn_%s.weight' % s for s in ('gate', 'up', 'down')))
HY_V3_PLAIN = tuple('blk.%d.%s.weight' % (i, s) for i in (0, 1) for s in EXPERTS)

KDA_B = {**MOE, 'attention.kv_lora_rank': 16, 'attention.head_count_kv': [0, 1, 0, 1], 'attention.key_length': 24,
         'attention.value_length': 16, 'attention.key_length_mla': 20, 'attention.value_length_mla': 12,
         'rope.dimension_count': 8, 'ssm.conv_kernel': 4, 'kda.head_dim': 12, 'kda.gate_lower_bound': -5.0,
         'expert_shared_count': 1, 'leading_dense_block_count': 1, 'expert_gating_func': 2, 'expert_weights_norm': True,
         'expert_weights_scale': 2.5}
KIMI_K3 = {**KDA_B, 'attention.head_count_kv': [0, 0, 1, 0, 1], 'attention.q_lora_rank': 24, 'expert_latent_length': 32,
           'attn_res.block_size': 2, 'activation.situ_beta': 1.5, 'activation.situ_linear_beta': 2.0}

MINIMAX_3 = {**MOE, 'expert_shared_count': 1, 'leading_dense_block_count': 1, 'expert_gating_func': 2,
             'expert_weights_norm': True, 'expert_weights_scale': 2.0, 'rope.dimension_count': 8,
             'attention.indexer.head_count': 2, 'attention.indexer.key_length': 12, 'attention.indexer.top_k': 3,
             'attention.indexer.block_size': 8, 'attention.indexer.local_blocks': 1}

DEEPSEEK_4 = {**MOE, 'attention.head_count': 4, 'attention.head_count_kv': 1, 'attention.key_length': 16,
              'attention.value_length': 16, 'rope.dimension_count': 8, 'attention.q_lora_rank': 24, W: 8,
              'expert_shared_count': 1, 'expert_weights_norm': True, 'expert_weights_scale': 1.5,
              'expert_gating_func': 4, 'swiglu_clamp_exp': 0.5, 'attention.indexer.head_count': 4,
              'attention.indexer.key_length': 64,
              'attention.indexer.top_k': 4, 'attention.output_group_count': 2, 'attention.output_lora_rank': 12,
              'attention.compress_rope_freq_base': 160000.0, 'attention.compress_ratios': [0, 4, 128],
              'hyper_connection.count': 4, 'hyper_connection.sinkhorn_iterations': 3, 'hyper_connection.epsilon': 1e-6,
              'hash_layer_count': 1}

# name: architecture, its numbers, and more: plain (the other engine aborts with all optional tensors), t tokens,
# c context, fused, first tensors, emb
SPECS = {
    'llama': ('llama', {}, {}),
    'llama-fused': ('llama', {}, {'fused': 1}),
    'llama-yarn': ('llama', YARN, {'t': 60}),
    'llama-yarn-betas': ('llama', {**YARN, 'rope.scaling.yarn_beta_fast': 8.0, 'rope.scaling.yarn_beta_slow': 2.0},
                         {'t': 60}),
    'llama-yarn-ext': ('llama', {**YARN, 'rope.scaling.yarn_ext_factor': 0.5}, {'t': 60}),
    'llama-yarn-attn': ('llama', {**YARN, 'rope.scaling.yarn_attn_factor': 0.7}, {'t': 60}),
    'llama-yarn-attn2': ('llama', {**YARN, 'rope.scaling.attn_factor': 0.7}, {'t': 60}),
    'llama-yarn-log': ('llama', {**YARN, 'rope.scaling.yarn_log_multiplier': 0.8}, {'t': 60}),
    'llama-linear': ('llama', {'rope.scaling.type': 'linear', 'rope.scaling.factor': 3.0}, {'t': 60}),
    'llama-scale-linear-old': ('llama', {'rope.scale_linear': 3.0}, {}),
    'llama-moe-all': ('llama', {'expert_count': 4, 'expert_used_count': 4}, {'first': GATES}),
    'llama-window': ('llama', {W: 8}, {'t': 60}),
    'llama-longrope': ('llama', {'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 32},
                       {'t': 60, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'llama-embed': ('llama-embed', {'attention.causal': False}, {'emb': 1}),
    'mistral3': ('mistral3', {}, {}),
    'mistral3-yarn': ('mistral3', {**YARN, 'rope.scaling.yarn_log_multiplier': 1.0, 'attention.temperature_scale': 0.1},
                      {'t': 60}),
    'mistral3-moe': ('mistral3', MOE, {'first': GATES}),
    'qwen2': ('qwen2', {}, {}),
    'qwen2-yarn': ('qwen2', YARN, {'t': 60}),
    'qwen2moe': ('qwen2moe', {**MOE, 'expert_shared_feed_forward_length': 80}, {}),
    'qwen2vl': ('qwen2vl', {'rope.dimension_sections': [2, 3, 3, 0]}, {}),
    'qwen3': ('qwen3', {'attention.key_length': 20, 'attention.value_length': 20}, {}),
    'qwen3moe': ('qwen3moe', MOE, {}),
    'qwen3vlmoe': ('qwen3vlmoe', {**MOE, 'rope.dimension_sections': [3, 3, 2, 0]}, {}),
    'gemma2': ('gemma2', {'attn_logit_softcapping': 5.0, 'final_logit_softcapping': 3.0, W: 8,
                          'attention.key_length': 16, 'attention.value_length': 16}, {'t': 60}),
    'gemma3': ('gemma3', {W: 8, 'attention.key_length': 16, 'attention.value_length': 16}, {'t': 60, 'l': 7}),
    'phi2': ('phi2', {'rope.dimension_count': 8}, {}),
    'phi3': ('phi3', {}, {'fused': 1}),
    'phi3-separate': ('phi3', {}, {'first': tuple('blk.%d.attn_%s.weight' % (i, s) for i in range(3) for s in 'qkv')}),
    'phi3-long': ('phi3', {'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 32,
                           'rope.scaling.attn_factor': 1.19, 'rope.dimension_count': 12},
                  {'t': 60, 'fused': 1, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'phi3-short': ('phi3', {'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 512,
                            'context_length': 2048, 'rope.scaling.attn_factor': 1.19},
                   {'t': 60, 'fused': 1, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'phi3-window': ('phi3', {W: 8}, {'fused': 1, 't': 60}),
    'phimoe': ('phimoe', MOE, {}),
    'phimoe-long': ('phimoe', {**MOE, 'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 32,
                               'rope.scaling.attn_factor': 1.19},
                    {'t': 60, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'gptneox': ('gptneox', {'use_parallel_residual': True, 'rope.dimension_count': 4, 'attention.head_count_kv': 4},
                {}),
    'gptneox-seq': ('gptneox', {'use_parallel_residual': False, 'attention.head_count_kv': 4}, {}),
    'falcon-7b': ('falcon', {'attention.head_count_kv': 1}, {}),
    'falcon-40b': ('falcon', {}, {}),
    'gpt2': ('gpt2', {'attention.head_count_kv': 4}, {}),
    'bloom': ('bloom', {'attention.head_count_kv': 4}, {}),
    'mpt': ('mpt', {'attention.head_count_kv': 4, 'attention.max_alibi_bias': 8.0}, {}),
    'mpt-clamp': ('mpt', {'attention.head_count_kv': 4, 'attention.max_alibi_bias': 6.0, 'attention.clamp_kqv': 0.7},
                  {}),
    'mpt-no-alibi': ('mpt', {'attention.head_count_kv': 4, 'attention.max_alibi_bias': 0.0}, {}),
    'starcoder': ('starcoder', {'attention.head_count_kv': 1}, {}),
    'starcoder2': ('starcoder2', {}, {}),
    'starcoder2-window': ('starcoder2', {W: 8}, {'t': 60}),
    'codeshell': ('codeshell', {}, {'first': ('token_embd.weight',)}),
    'stablelm': ('stablelm', {'rope.dimension_count': 4}, {}),
    'xverse': ('xverse', {}, {}),
    'openelm': ('openelm', {'attention.head_count': [4, 8, 6], 'attention.head_count_kv': [2, 4, 3],
                            'feed_forward_length': [96, 64, 128], 'attention.key_length': 16,
                            'attention.value_length': 16}, {}),
    'deepseek': ('deepseek', {**MOE, 'leading_dense_block_count': 1, 'expert_shared_count': 2,
                              'expert_weights_scale': 1.3}, {}),
    'deepseek2-lite': ('deepseek2', {**MOE, 'leading_dense_block_count': 1, 'expert_shared_count': 2,
                                     'expert_weights_scale': 1.3, 'attention.kv_lora_rank': 16,
                                     'attention.head_count_kv': 1,
                       'attention.key_length': 24, 'attention.value_length': 20, 'attention.key_length_mla': 16,
                                     'attention.value_length_mla': 12, 'rope.dimension_count': 8}, {'l': 27}),
    'deepseek2-yarn': ('deepseek2', {**MOE, **YARN, 'rope.scaling.yarn_log_multiplier': 0.0707,
                                     'leading_dense_block_count': 1, 'expert_shared_count': 1,
                                     'attention.q_lora_rank': 24, 'attention.kv_lora_rank': 16,
                       'attention.head_count_kv': 1, 'attention.key_length': 24, 'attention.value_length': 16,
                                     'attention.key_length_mla': 16, 'attention.value_length_mla': 12,
                                     'rope.dimension_count': 8,
                       'expert_gating_func': 2, 'expert_weights_norm': True, 'expert_weights_scale': 2.5,
                                     'expert_group_count': 2, 'expert_group_used_count': 1}, {'t': 60}),
    'deepseek2-linear': ('deepseek2', {**MLA_2, 'rope.scaling.type': 'linear', 'rope.scaling.factor': 3.0}, {}),
    'deepseek2-linear-log': ('deepseek2', {**MLA_2, 'rope.scaling.type': 'linear', 'rope.scaling.factor': 3.0,
                                           'rope.scaling.yarn_log_multiplier': 0.1}, {}),
    'deepseek2-yarn-old': ('deepseek2', {**MLA_2, **YARN}, {'t': 60}),
    'olmo2': ('olmo2', {}, {}),
    'olmo2-window': ('olmo2', {W: 8}, {'t': 60, 'l': 5}),
    'olmoe': ('olmoe', {**MOE, 'attention.head_count_kv': 4}, {}),
    'granite': ('granite', {'embedding_scale': 3.0, 'residual_scale': 0.3, 'attention.scale': 0.1, 'logit_scale': 4.0},
                {}),
    'granite-plain': ('granite', {'logit_scale': 1.0}, {}),
    'granitemoe-shared': ('granitemoe', {**MOE, 'embedding_scale': 3.0, 'residual_scale': 0.3, 'attention.scale': 0.1,
                                         'logit_scale': 4.0, 'expert_shared_feed_forward_length': 80},
                          {'first': GATES}),
    'minicpm': ('minicpm', {'embedding_scale': 12.0, 'residual_scale': 0.4, 'logit_scale': 0.25}, {}),
    'minicpm-old': ('minicpm', {}, {}),
    'minicpm-long': ('minicpm', {'rope.scaling.type': 'longrope', 'rope.scaling.original_context_length': 32},
                     {'t': 60, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'minicpm3': ('minicpm3', {**MLA, 'attention.head_count_kv': 4}, {}),
    'minicpm3-long': ('minicpm3', {**MLA, 'attention.head_count_kv': 4, 'rope.scaling.original_context_length': 32},
                      {'t': 60, 'first': ('rope_factors_long.weight', 'rope_factors_short.weight')}),
    'glm4': ('glm4', {'rope.dimension_count': 8}, {}),
    'chatglm': ('chatglm', {'rope.dimension_count': 8}, {}),
    'glm4moe': ('glm4moe', {**MOE, 'rope.dimension_count': 8, 'leading_dense_block_count': 1, 'expert_shared_count': 1,
                            'expert_weights_scale': 1.5, 'expert_weights_norm': True}, {}),
    'glm-dsa': ('glm-dsa', {**MOE, 'attention.q_lora_rank': 24, 'attention.kv_lora_rank': 16,
                            'attention.head_count_kv': 1, 'attention.key_length': 24, 'attention.value_length': 16,
                'attention.key_length_mla': 16, 'attention.value_length_mla': 12, 'rope.dimension_count': 8,
                            'expert_shared_count': 1, 'expert_group_count': 1, 'expert_group_used_count': 1,
                            'expert_gating_func': 2,
                'expert_weights_scale': 2.5, 'leading_dense_block_count': 1, 'expert_weights_norm': True,
                            'attention.indexer.head_count': 4, 'attention.indexer.key_length': 16,
                            'attention.indexer.top_k': 8}, {'t': 40, 'first': INDEXER}),
    'command-r': ('command-r', {'logit_scale': 0.0625, 'attention.head_count_kv': 4}, {}),
    'command-r-64': ('command-r', {'logit_scale': 0.0625, 'attention.head_count_kv': 2}, {'l': 64}),
    'cohere2': ('cohere2', {'logit_scale': 0.25, W: 8}, {'t': 60, 'l': 5}),
    'cohere2moe': ('cohere2moe', {**MOE, 'logit_scale': 0.25, W: 8, 'expert_shared_count': 1,
                                  'leading_dense_block_count': 1}, {'t': 60, 'l': 5}),
    'internlm2': ('internlm2', {}, {}),
    'exaone': ('exaone', {}, {}),
    'exaone4': ('exaone4', {}, {}),
    'exaone-moe': ('exaone-moe', {**MOE, W: 8, 'expert_shared_count': 1, 'leading_dense_block_count': 1,
                                  'expert_weights_norm': True, 'expert_weights_scale': 2.5, 'expert_gating_func': 2},
                   {'t': 60, 'l': 5}),
    'nemotron': ('nemotron', {'rope.dimension_count': 8}, {}),
    'arcee': ('arcee', {}, {}),
    'smollm3': ('smollm3', {}, {'l': 5}),
    'seed_oss': ('seed_oss', {}, {}),
    'bailingmoe': ('bailingmoe', {**MOE, 'expert_shared_count': 2, 'leading_dense_block_count': 0,
                                  'expert_weights_norm': True, 'expert_weights_scale': 1.5}, {}),
    'bailingmoe2': ('bailingmoe2', {**MOE, 'expert_shared_count': 1, 'leading_dense_block_count': 1,
                                    'expert_weights_norm': True, 'expert_weights_scale': 2.5, 'expert_gating_func': 2,
                                    'expert_group_count': 2,
                    'expert_group_used_count': 1, 'rope.dimension_count': 8, 'expert_shared_feed_forward_length': 48},
                    {}),
    'dots1': ('dots1', {**MOE, 'expert_gating_func': 2, 'attention.head_count_kv': 4, 'expert_shared_count': 2,
                        'leading_dense_block_count': 1, 'expert_weights_norm': True, 'expert_weights_scale': 2.5}, {}),
    'ernie4_5-moe': ('ernie4_5-moe', {**MOE, 'interleave_moe_layer_step': 1, 'leading_dense_block_count': 1,
                                      'expert_shared_count': 1, 'expert_shared_feed_forward_length': 48},
                     {'first': GATES[1:]}),
    'hunyuan-moe': ('hunyuan-moe', {**MOE, 'expert_shared_feed_forward_length': 48}, {}),
    'hy_v3': ('hy_v3', {**MOE, 'leading_dense_block_count': 1, 'expert_shared_count': 1,
                        'expert_shared_feed_forward_length': 48, 'expert_weights_norm': True,
                        'expert_weights_scale': 2.8}, {'first': HY_V3}),
    'hy_v3-plain': ('hy_v3', {**MOE, 'expert_gating_func': 1, 'expert_weights_scale': 1.3, 'attention.key_length': 20,
                              'attention.value_length': 20}, {'l': 2, 'first': HY_V3_PLAIN}),
    'minimax-m2': ('minimax-m2', {**MOE, 'expert_gating_func': 2, 'rope.dimension_count': 8}, {}),
    # with flash attention, which that engine wants for blocks, it takes keys and values of plain layers in half
    # precision: so all layers have blocks, or none
    'minimax-m3': ('minimax-m3', {**MINIMAX_3, 'leading_dense_block_count': 0}, {'t': 60, 'flash': 1}),
    'minimax-m3-two': ('minimax-m3', {**MINIMAX_3, 'leading_dense_block_count': 0, 'attention.indexer.local_blocks': 2,
                                      'attention.indexer.top_k': 4, 'attention.indexer.block_size': 4},
                       {'t': 60, 'flash': 1}),
    'minimax-m3-plain': ('minimax-m3', {**MINIMAX_3, 'attention.indexer.top_k': 8}, {'t': 60}),
    'gpt-oss': ('gpt-oss', {**MOE, **YARN, W: 8, 'attention.key_length': 16, 'attention.value_length': 16},
                {'t': 60, 'l': 4}),
    'smallthinker': ('smallthinker', {**MOE, W: 8, 'expert_gating_func': 2}, {'t': 60, 'l': 5}),
    'smallthinker-list': ('smallthinker', {**MOE, W: 8, WP: [True, True, False, False, True], 'expert_gating_func': 2},
                          {'t': 60, 'l': 5}),
    'bert': ('bert', {'attention.head_count_kv': 4, 'attention.causal': False}, {'emb': 1}),
    'nomic-bert': ('nomic-bert', {'attention.head_count_kv': 4, 'attention.causal': False}, {'emb': 1}),
    'nomic-bert-moe': ('nomic-bert-moe', {'expert_count': 4, 'expert_used_count': 2, 'moe_every_n_layers': 2,
                                          'attention.head_count_kv': 4, 'attention.causal': False}, {'emb': 1, 'l': 4}),
    'jina-bert-v2': ('jina-bert-v2', {'attention.head_count_kv': 4, 'attention.causal': False},
                     {'emb': 1, 'first': {'blk.%d.ffn_up.weight' % i: [64, 192] for i in range(3)}}),
    'jina-bert-v3': ('jina-bert-v3', {'attention.head_count_kv': 4, 'attention.causal': False}, {'emb': 1}),
    'eurobert': ('eurobert', {'attention.causal': False}, {'emb': 1}),
    'modern-bert-base': ('modern-bert', {'attention.head_count_kv': 4, 'attention.causal': False, W: 8,
                                         'rope.freq_base': 500000.0}, {'emb': 1, 't': 60, 'l': 5}),
    'modern-bert': ('modern-bert', {'attention.head_count_kv': 4, 'attention.causal': False, W: 8},
                    {'emb': 1, 't': 60, 'l': 5}),
    't5': ('t5', {'attention.head_count_kv': 4, 'attention.key_length': 16, 'attention.value_length': 16,
                  'attention.relative_buckets_count': 8, 'decoder_start_token_id': 0},
           {'decoder': 1, 'first': DISTANCES}),
    't5-gated': ('t5', {'attention.head_count_kv': 4, 'attention.key_length': 12, 'attention.value_length': 12,
                        'attention.relative_buckets_count': 32, 'decoder_start_token_id': 0},
                 {'decoder': 1, 't': 60, 'queries': 12 ** -0.5, 'first': DISTANCES
                  + tuple('%s.blk.%d.ffn_gate.weight' % (s, i) for s in ('enc', 'dec') for i in range(3))}),
    'jamba': ('jamba', {**MOE, 'attention.head_count_kv': [0, 2, 0], 'ssm.conv_kernel': 4, 'ssm.inner_size': 128,
                        'ssm.state_size': 12, 'ssm.time_step_rank': 6}, {}),
    'rwkv6qwen2': ('rwkv6qwen2', {**GLA, 'attention.head_count_kv': 2}, {'t': 60}),
    'rwkv6qwen2-heads': ('rwkv6qwen2', {**GLA, 'attention.head_count_kv': 4}, {'t': 60}),
    'bailingmoe3': ('bailingmoe3', KDA_B, {'l': 4}),
    'bailingmoe3-lora': ('bailingmoe3', {**KDA_B, 'attention.q_lora_rank': 24, 'expert_group_count': 2,
                                         'expert_group_used_count': 1}, {'l': 4}),
    'bailingmoe3-clamp': ('bailingmoe3', {**KDA_B, 'swiglu_clamp_exp': [0.0, 0.5, 0.4, 0.0],
                                          'swiglu_clamp_shexp': [0.3, 0.0, 0.4, 0.5]}, {'l': 4}),
    'kimi-k3': ('kimi-k3', KIMI_K3, {'l': 5, 'first': tuple('blk.%d.%s.weight' % (i, s) for i in (2, 4)
                                                            for s in ('attn_q_a_norm', 'attn_gate'))
                                     + tuple('blk.%d.%s.weight' % (i, s) for i in range(1, 5) for s in EXPERTS[4:]
                                             + ('ffn_routed_norm',))}),
    'kimi-k3-plain': ('kimi-k3',
                      {**{k: v for k, v in KIMI_K3.items() if k not in ('expert_latent_length', 'kda.gate_lower_bound',
                                                                        'attention.q_lora_rank')},
                       'attention.head_count_kv': [0, 1, 0, 1], 'attn_res.block_size': 0,
                      'activation.situ_linear_beta': 0.0}, {'l': 4}),
    'deepseek4': ('deepseek4', DEEPSEEK_4, {'l': 3, 't': 60}),
    # with few heads of the indexer, blocks that all of them pass over are equal, and that engine takes any of them
    'deepseek4-long': ('deepseek4', {**DEEPSEEK_4, 'attention.indexer.head_count': 32}, {'l': 3, 't': 300, 'c': 512}),
    'deepseek4-yarn': ('deepseek4', {**DEEPSEEK_4, **YARN, 'rope.scaling.yarn_log_multiplier': 0.1,
                                     'hash_layer_count': 0, 'swiglu_clamp_shexp': 0.7,
                                     'attention.compress_ratios': [4, 128, 4]}, {'l': 3, 't': 60}),
    'lfm2': ('lfm2', {'attention.head_count_kv': [0, 2, 0], 'shortconv.l_cache': 3}, {}),
    'lfm2-window': ('lfm2', {'attention.head_count_kv': [0, 2, 0], 'shortconv.l_cache': 3, W: 8}, {'t': 60}),
    'lfm2-window-list': ('lfm2', {'attention.head_count_kv': [0, 2, 2], 'shortconv.l_cache': 3, W: 8,
                                  WP: [False, True, False]}, {'t': 60}),
    'lfm2moe': ('lfm2moe', {**MOE, 'attention.head_count_kv': [0, 2, 0], 'shortconv.l_cache': 3,
                            'leading_dense_block_count': 1, 'expert_gating_func': 2}, {}),
    'lfm2moe-window': ('lfm2moe', {**MOE, 'attention.head_count_kv': [0, 2, 0], 'shortconv.l_cache': 3,
                                   'leading_dense_block_count': 1, 'expert_gating_func': 2, W: 8}, {'t': 60}),
    'granite_swa': ('granite_swa', {W: 8, WP: [True, False, True, True, False], RP: [1, 0, 1, 0, 1],
                                    'embedding_scale': 3.0, 'residual_scale': 0.3, 'attention.scale': 0.1,
                                    'logit_scale': 4.0}, {'t': 60, 'l': 5}),
    'granite_swa-moe': ('granite_swa', {**MOE, W: 8, WP: [False, True, True], 'logit_scale': 2.0,
                                        'expert_shared_feed_forward_length': 40}, {'t': 60, 'first': GATES}),
    'granite_swa-yarn': ('granite_swa', {**YARN, W: 8, WP: [False, True, True], 'logit_scale': 2.0}, {'t': 60}),
    'nanbeige': ('nanbeige', {'num_loops': 2}, {'l': 3}),
    'nanbeige-once': ('nanbeige', {}, {}),
    'nanbeige-no-norm': ('nanbeige', {'num_loops': 3, 'skip_loop_final_norm': True}, {'l': 2}),
    'nanbeige-yarn': ('nanbeige', {**YARN, 'num_loops': 2}, {'l': 3, 't': 60}),
    'plamo3': ('plamo3', {W: 8, WP: 3, 'rope.freq_base_swa': 300.0, 'attention.key_length': 16,
                          'attention.value_length': 12}, {'t': 60, 'l': 5}),
    'plamo3-8': ('plamo3', {W: 8, 'rope.dimension_count_swa': 8}, {'t': 60, 'l': 9}),
    'plamo3-every': ('plamo3', {W: 8, WP: 0}, {'t': 60}),
    'mellum-every': ('mellum', {**MOE, W: 8, WP: 0}, {'t': 60}),
    'cohere2-every': ('cohere2', {'logit_scale': 0.25, W: 8, WP: 0}, {'t': 60, 'l': 5}),
    'plamo3-full': ('plamo3', {**YARN}, {'t': 60}),
    'plamo3-yarn': ('plamo3', {**YARN, W: 8, 'rope.freq_base_swa': 300.0, WP: 2}, {'t': 60}),
    'plamo3-list': ('plamo3', {W: 8, WP: [False, True, False, True, True]}, {'t': 60, 'l': 5}),
    'mellum': ('mellum', {**MOE, W: 8}, {'t': 60, 'l': 5}),
    'mellum-list': ('mellum', {**MOE, **YARN, W: 8, WP: [False, True, True, False, True], 'rope.freq_base_swa': 300.0},
                    {'t': 60, 'l': 5}),
    'mellum-period': ('mellum', {**MOE, **YARN, W: 8, WP: 2}, {'t': 60, 'l': 5}),
    'mellum-full': ('mellum', {**MOE, **YARN}, {'t': 60}),
    'afmoe': ('afmoe', {**MOE, W: 8, 'leading_dense_block_count': 1, 'expert_shared_count': 2,
                        'expert_weights_norm': True, 'expert_weights_scale': 2.8}, {'t': 60, 'l': 6}),
    'afmoe-yarn': ('afmoe', {**MOE, **YARN, W: 8, WP: 3, 'rope.freq_base_swa': 300.0, 'expert_shared_count': 0,
                             'expert_gating_func': 1}, {'t': 60, 'l': 5}),
    'afmoe-list': ('afmoe', {**MOE, W: 8, WP: [True, False, True, False, True], 'expert_shared_count': 1},
                   {'t': 60, 'l': 5}),
    'mimo2': ('mimo2', {**MOE, W: 8, WP: [0, 1, 1, 0, 1], 'attention.head_count': 4,
                        'attention.head_count_kv': [1, 2, 2, 1, 4], 'attention.key_length': 24,
                        'attention.value_length': 16, 'rope.dimension_count': 8, 'rope.freq_base_swa': 300.0,
              'attention.value_scale': 0.7}, {'t': 60, 'l': 5, 'first': experts_of(5, 1, 0)}),
    'mimo2-dense': ('mimo2', {**MOE, **YARN, 'rope.dimension_count_swa': 8, W: 8, WP: [0, 1, 1]},
                    {'t': 60, 'first': experts_of(3, 3, 0)}),
    'mimo2-fused': ('mimo2', {**MOE, W: 8, WP: [0, 1, 1], 'attention.key_length': 24, 'attention.value_length': 16},
                    {'t': 60, 'fused': 1, 'first': experts_of(3, 3, 0)}),
    'step35': ('step35', {**MOE, W: 8, WP: [0, 1, 1, 0, 1], 'attention.head_count': [4, 6, 6, 4, 2],
                          'attention.head_count_kv': [2, 3, 2, 1, 2], 'attention.key_length': 16,
                          'attention.value_length': 16, 'rope.freq_base_swa': 300.0,
               'expert_shared_feed_forward_length': 40, 'expert_weights_norm': True, 'expert_weights_scale': 3.0,
                          'swiglu_clamp_exp': [0.0, 0.0, 0.4, 0.2, 0.0],
                          'swiglu_clamp_shexp': [0.3, 0.0, 0.2, 0.3, 0.5]},
               {'t': 60, 'l': 5, 'first': experts_of(5, 1, 1)}),
    'step35-plain': ('step35', {**MOE, W: 8, 'attention.head_count': 4, 'attention.head_count_kv': 2,
                                'attention.key_length': 16, 'attention.value_length': 16, WP: [1, 0, 1]},
                     {'t': 60, 'plain': 1, 'first': experts_of(3, 3, 0)}),
    'step35-yarn': ('step35', {**MOE, **YARN, W: 8, WP: [0, 1, 1], 'rope.freq_base_swa': 300.0,
                               'rope.dimension_count': 12, 'rope.dimension_count_swa': 8, 'expert_gating_func': 1,
                               'expert_shared_feed_forward_length': 40}, {'t': 60, 'first': experts_of(3, 1, 1)}),
    'laguna': ('laguna', {**MOE, **YARN, W: 8, 'attention.head_count': [4, 6, 2, 6, 4], 'attention.key_length': 16,
                          'attention.value_length': 16, 'rope.dimension_count': 8, 'rope.dimension_count_swa': 12,
                          'rope.freq_base_swa': 300.0,
               'leading_dense_block_count': 1, 'expert_weights_norm': True, 'expert_weights_scale': 2.5,
                          'expert_shared_feed_forward_length': 40}, {'t': 60, 'l': 5,
                                                                     'first': gates_of(4, 6, 2, 6, 4)}),
    'laguna-each': ('laguna', {**MOE, **YARN, 'attention.head_count': 4, 'attention.head_count_kv': 2,
                               'attention.key_length': 16, 'attention.value_length': 16, 'leading_dense_block_count': 0,
                               'expert_shared_feed_forward_length': 40, 'expert_gating_func': 1},
                    {'t': 60, 'first': gates_of(64, 64, 64)}),
    'laguna-plain': ('laguna', {**MOE, **YARN, W: 8, WP: 3, 'attention.head_count': 4, 'attention.head_count_kv': 2,
                                'attention.key_length': 16, 'attention.value_length': 16,
                                'leading_dense_block_count': 1, 'expert_shared_feed_forward_length': 40},
                     {'t': 60, 'l': 5, 'first': gates_of(4, 4, 4, 4, 4)}),
    'laguna-list': ('laguna', {**MOE, W: 8, WP: [False, False, True, True, True], 'attention.head_count': 4,
                               'attention.head_count_kv': 2, 'attention.key_length': 16, 'attention.value_length': 16,
                               'leading_dense_block_count': 1, 'expert_shared_feed_forward_length': 40},
                    {'t': 60, 'l': 5, 'first': gates_of(4, 4, 4, 4, 4)}),
}
GELU = {'gemma', 'gemma2', 'gemma3', 'phi2', 'gpt2', 'gptneox', 'falcon', 'bloom', 'mpt', 'starcoder', 'starcoder2',
        'codeshell', 'bert', 'nomic-bert-moe', 'jina-bert-v2', 'jina-bert-v3', 'modern-bert', 't5'}

# --vary: numbers that any file may hold, added to every kind: sizes of heads of their own, partial and stretched
# rotations, windows, scales, another epsilon, routers. A model that does not know a number must pass over it as the
# other engine does. (deepseek2 with growing queries ends that engine.)
VARY = {
    'wide': ({'attention.key_length': 24, 'attention.value_length': 24}, {}),
    'uneven': ({'attention.key_length': 24, 'attention.value_length': 20}, {}),
    'part': ({'attention.key_length': 24, 'attention.value_length': 24, 'rope.dimension_count': 8}, {}),
    'kv1': ({'attention.head_count_kv': 1}, {}),
    'base': ({'rope.freq_base': 500000.0}, {'t': 60}),
    'linear': ({'rope.scaling.type': 'linear', 'rope.scaling.factor': 3.0}, {'t': 60}),
    'yarn': (YARN, {'t': 60}),
    'window': ({W: 8}, {'t': 60}),
    'epsilon': ({'attention.layer_norm_rms_epsilon': 0.02, 'attention.layer_norm_epsilon': 0.02}, {}),
    'growth': ({'attention.temperature_scale': 0.5, 'rope.scaling.original_context_length': 8,
                'attention.clamp_kqv': 0.5}, {'t': 60}),
    'scales': ({'embedding_scale': 3.0, 'residual_scale': 0.3, 'attention.scale': 0.1, 'logit_scale': 0.5}, {}),
    'caps': ({'attn_logit_softcapping': 5.0, 'final_logit_softcapping': 3.0}, {}),
    'router': ({'expert_gating_func': 2, 'expert_weights_norm': True, 'expert_weights_scale': 1.7}, {}),
    'router-sum': ({'expert_gating_func': 1, 'expert_weights_norm': False, 'expert_weights_scale': 2.5}, {}),
}
# these end that engine
EQUAL = {'granite_swa': ('uneven', 'part'), 'mellum': ('uneven', 'part'), 'nanbeige': ('uneven',), 'afmoe': ('uneven',),
         'laguna': ('uneven',)}
def vary():
    for name, (arch, own, more) in list(SPECS.items()):
        for v, (numbers_too, more_too) in VARY.items():
            if v in EQUAL.get(arch, '') or v == 'growth' and arch == 'deepseek2': continue
            if 'router' in v and 'expert_count' not in own: continue
            if 'key_length' in str(numbers_too) and ('key_length' in str(own) or more.get('fused')): continue
            SPECS[name + '+' + v] = (arch, {**own, **numbers_too}, {**more, **more_too})

def numbers(arch, own, more, seed):
    n_layer = more.get('l', 3)
    m = {'block_count': n_layer, 'context_length': 128, 'embedding_length': 64, 'feed_forward_length': 96,
         'attention.head_count': 4, 'attention.head_count_kv': 2,
         'attention.layer_norm_rms_epsilon': 1e-5, 'attention.layer_norm_epsilon': 1e-5, 'rope.freq_base': 10000.0,
         'vocab_size': 320}
    if arch in ('cohere2moe',) and seed % 2 == 0: del m['attention.layer_norm_rms_epsilon']
    if seed:                                    # other widths: no vector divides them
        r = np.random.default_rng(seed)
        heads, d = int(r.choice([2, 3, 6])), int(r.choice([12, 20, 28]))
        m.update({'embedding_length': heads * d, 'attention.head_count': heads, 'attention.head_count_kv': 1,
                  'feed_forward_length': int(r.choice([36, 100, 132])), 'rope.freq_base': 500000.0})
    m.update(own)
    if seed and own.get('attention.head_count_kv') == 4: m['attention.head_count_kv'] = m['attention.head_count']
    if seed and arch == 'minimax-m3': m['attention.indexer.head_count'] = 1
    if seed and arch == 'rwkv6qwen2':
        m.update({'wkv.head_size': d, 'attention.head_count_kv': heads if own['attention.head_count_kv'] == 4 else 1})
    if seed and arch in ('lfm2', 'lfm2moe', 'jamba'): m['attention.head_count_kv'] = [0, 1, 0]
    if seed and arch == 'jamba': m['ssm.inner_size'] = 2 * m['embedding_length']
    meta = {'general.architecture': arch, 'tokenizer.ggml.model': 'no_vocab', 'tokenizer.ggml.token_type_count': 2}
    meta.update({arch + '.' + k: v for k, v in m.items()})
    return meta, n_layer

# loaded by the other engine and not used, or not as the model has it
UNUSED = {**{a: ('blk.N.attn_q.bias', 'blk.N.attn_k.bias', 'blk.N.attn_v.bias') for a in ('bailingmoe3', 'kimi-k3')},
          'mpt': ('blk.N.attn_q_norm.weight', 'blk.N.attn_k_norm.weight', 'blk.N.attn_q_norm.bias',
                  'blk.N.attn_k_norm.bias'), 'ernie4_5-moe': ('blk.N.attn_output.bias',), 'qwen2vl': ('output.bias',),
          'mimo2': ('blk.N.attn_q.bias', 'blk.N.attn_k.bias', 'blk.N.attn_v.bias', 'blk.N.attn_qkv.bias'),
          'nomic-bert': ('blk.N.ffn_up.bias', 'blk.N.ffn_down.bias')}

def one(peer, name, a):
    """ a model and its form with everything optional; how many were compared, how many differ """
    arch, own, more = SPECS[name]
    bad = count = 0
    for seed in range(a.seeds):
        meta, n_layer = numbers(arch, own, more, seed)
        path = os.path.join(a.folder, '%s-%d.gguf' % (name, seed))
        first = more.get('first', ())
        first = dict(first) if isinstance(first, dict) else {t: [1] for t in first}
        if more.get('fused'): first.update({'blk.%d.attn_qkv.weight' % i: [1] for i in range(n_layer)})
        model = Model(peer, path, meta, n_layer, first, bool(more.get('emb')), 'decoder' in more)
        why = model.fit()
        if why:
            print('%-24s the other engine does not load it: %s' % (name, ' '.join(why.split())[-200:]), flush=True)
            bad += 1
            continue
        for everything in (0,) if a.plain or more.get('plain') else (0, 1):
            took = []
            path = model.path = os.path.join(a.folder, '%s-%d%s.gguf' % (name, seed, '+all' if everything else ''))
            if everything:
                plain = dict(model.tensors)
                # then biases of the three would be no file's
                fused = any('attn_qkv.weight' in t for t in model.tensors)
                took = [o for o in OPTIONAL if not (fused and re.search('attn_[qkv].bias', o))
                        and o not in UNUSED.get(arch, ()) and model.offer(o)]
                if took and not model.runs():
                    model.tensors = plain
                    took = [o for o in took if model.offer(o, True)]
                if not took: continue
            write(path, meta, model.tensors, random_weights(seed + 100 * everything + 7, more.get('queries', 0)))
            rng = np.random.default_rng(seed)
            tokens = [int(x) for x in rng.integers(0, 320, more.get('t', 24))]
            dec = [int(x) for x in rng.integers(0, 320, 9)] if more.get('decoder') else None
            m, why = peer.load(path)
            try:
                want = peer.run(m, tokens, more.get('c', 64), bool(more.get('emb')), dec, more.get('flash', 0))
            except RuntimeError as e:
                print('%-24s the other engine does not run it: %s' % (name, ' '.join(str(e).split())[-200:]),
                      flush=True)
                bad += 1
                continue
            finally:
                peer.L.llama_model_free(m)
            cmd = [a.logits, path, '--tokens', ','.join(map(str, tokens))]
            if dec: cmd += ['--decoder-tokens', ','.join(map(str, dec))]
            worst, note = 0.0, ''
            for extra in ([], ['--ref']):
                r = subprocess.run(cmd + extra, capture_output=True)
                got = np.frombuffer(r.stdout, dtype='<f4')
                if r.returncode or got.size != want.size:
                    worst = float('inf')
                    note = r.stderr.decode()[-200:].strip() or '%d numbers, not %d' % (got.size, want.size)
                    break
                worst = max(worst, float(np.abs(got.reshape(want.shape) - want).max()))
            rms = float(np.sqrt((want.astype('f8') ** 2).mean()))
            mark = (2e-3 if arch in GELU else 2e-4) * (1 + rms)
            ok = worst <= mark and bool(np.isfinite(want).all())
            bad, count = bad + (not ok), count + 1
            print('%-24s %-4s rms %.3g diff %.2g %s %s'
                  % (os.path.basename(path)[:-5], 'ok' if ok else 'BAD', rms, worst, note,
                     ' '.join(o.replace('blk.N.', '') for o in took)), flush=True)
    return count, bad

# name of a golden file: kind, numbers of its own. Small: they lie in tests/golden/oracle/llm
SMALL = {'embedding_length': 24, 'feed_forward_length': 20, 'attention.head_count': 2, 'attention.head_count_kv': 1,
         'vocab_size': 64, 'attention.key_length': 12, 'attention.value_length': 12, 'expert_feed_forward_length': 8}
SMALL_MLA = {**SMALL, 'attention.kv_lora_rank': 12, 'attention.key_length': 16, 'attention.value_length': 12,
             'attention.key_length_mla': 12, 'attention.value_length_mla': 8, 'rope.dimension_count': 4,
             'kda.head_dim': 8}
SMALL_16 = {**SMALL, 'embedding_length': 16, 'feed_forward_length': 16, 'attention.key_length': 8,
            'attention.value_length': 8, 'expert_feed_forward_length': 6}
def gates_of16(*width): return {k: [16, d[1]] for k, d in gates_of(*width).items()}
# name: kind, numbers of its own, features, tensors that the other engine does not require, tensors with their shapes
GOLDEN = {
    'hy_v3': ('hy_v3', {**SMALL, 'block_count': 2, 'expert_shared_feed_forward_length': 8, 'attention.head_count': 4,
                        'attention.head_count_kv': 2},
              'q and k normed by heads, experts behind a sigmoid with a bias, shared expert, 1 dense layer'),
    'granite_swa': ('granite_swa', {**SMALL_16, 'block_count': 3, 'attention.head_count': 4,
                                    'attention.head_count_kv': 2, WP: [True, False, True], RP: [1, 0, 1]},
                    'windows of 8 and rotation by lists, sinks, embedding, residuals, scores and logits scaled',
                    ('output.weight', 'blk.N.attn_output.bias')),
    'granite_swa-moe': ('granite_swa-moe', {**SMALL_16, 'block_count': 2, WP: [False, True],
                                            'expert_shared_feed_forward_length': 8},
                        'experts, and a shared one with gate and up in one matrix'),
    'nanbeige': ('nanbeige', {**SMALL_16, 'embedding_length': 32, 'feed_forward_length': 32, 'attention.head_count': 4,
                              'attention.head_count_kv': 2, 'block_count': 2},
                 '2 layers run twice, the last norm behind each time'),
    'nanbeige-skip': ('nanbeige-no-norm', {**SMALL_16, 'vocab_size': 320, 'block_count': 1, 'rope.freq_base': 300.0},
                      '1 layer run three times, the norm behind the last time only', ('rope_freqs.weight',)),
    'plamo3': ('plamo3-yarn', {**SMALL, 'block_count': 3, WP: 3, 'attention.value_length': 8,
                               'rope.scaling.original_context_length': 8},
               'two of three layers with windows of 8 and their own base, the third with YaRN; norms before and after; '
               'values of 8, keys of 12 numbers'),
    'mellum': ('mellum-list', {**SMALL_16, 'block_count': 3, WP: [False, True, True],
                               'rope.scaling.original_context_length': 8},
               'windows of 8 by a list, YaRN in the layer without one; q and k normed, experts'),
    'afmoe': ('afmoe', {**SMALL_16, 'block_count': 4, 'expert_shared_count': 1, 'rope.freq_base_swa': 300.0},
              'three of four layers with windows of 8, the fourth not rotated; a gate for each number of the '
              'attention; norms before and after; 1 dense layer; embedding scaled'),
    'mimo2': ('mimo2', {**SMALL_16, 'block_count': 3, WP: [0, 1, 1], 'attention.head_count': 4,
                        'attention.head_count_kv': [1, 2, 4], 'attention.key_length': 8, 'attention.value_length': 4,
                        'rope.dimension_count': 4},
              'windows of 8 by a list, sinks, values scaled, partial rotation, other bases and key heads by layer; 1 '
              'dense layer',
              ('blk.N.attn_sinks.weight', 'blk.N.exp_probs_b.bias')),
    'step35': ('step35', {**SMALL_16, 'block_count': 3, WP: [0, 1, 0], 'attention.head_count': [2, 4, 2],
                          'attention.head_count_kv': [1, 2, 1], 'attention.key_length': 8, 'attention.value_length': 8,
                          'expert_shared_feed_forward_length': 8, 'swiglu_clamp_exp': [0.0, 0.2, 0.0],
               'swiglu_clamp_shexp': [0.3, 0.0, 0.2]},
               'windows of 8 by a list, half the rotation and factors in the other layers, a gate for each head, heads '
               'by layer; SwiGLU clamped by layer; 1 dense layer',
               ('rope_freqs.weight', 'blk.N.attn_gate.weight', 'blk.N.attn_q_norm.weight', 'blk.N.attn_k_norm.weight',
                'blk.N.exp_probs_b.bias', 'blk.N.ffn_gate_shexp.weight', 'blk.N.ffn_up_shexp.weight',
                'blk.N.ffn_down_shexp.weight')),
    'laguna': ('laguna', {**SMALL_16, 'block_count': 4, 'attention.head_count': [2, 4, 2, 4], 'attention.key_length': 8,
                          'attention.value_length': 8, 'rope.dimension_count': 4, 'rope.dimension_count_swa': 8,
                          'expert_shared_feed_forward_length': 8, 'rope.scaling.original_context_length': 8},
               'the first of four layers with YaRN and half the rotation, the others with windows of 8; a gate for '
               'each head behind a softplus; heads by layer; 1 dense layer',
               ('output.weight',), gates_of16(2, 4, 2, 4)),
    'laguna-dense': ('laguna', {**SMALL_16, 'block_count': 3, 'rope.dimension_count': 4, 'rope.dimension_count_swa': 8,
                                'leading_dense_block_count': 3, 'attention.head_count': [2, 4, 6],
                                'attention.head_count_kv': 2, 'attention.key_length': 8, 'attention.value_length': 8,
                                'expert_shared_feed_forward_length': 8},
                     'gates for each head, heads by layer, no experts', (), gates_of16(2, 4, 6)),
    'step35-same': ('step35-plain', {**SMALL_16, 'block_count': 2, WP: [1, 0], 'rope.dimension_count': 8,
                                     'rope.dimension_count_swa': 4},
                    'layers with and without a window rotate the same, and only those without have factors',
                    ('rope_freqs.weight',)),
    'laguna-each': ('laguna-each', {**SMALL_16, 'block_count': 2, 'expert_shared_feed_forward_length': 8,
                                    'rope.scaling.original_context_length': 8},
                    'a gate for each number of the attention, no windows, a softmax for a router', ('output.weight',),
                    gates_of16(16, 16)),
    'minimax-m3': ('minimax-m3', {**SMALL, 'block_count': 2, 'attention.indexer.top_k': 2,
                                  'expert_feed_forward_length': 6, 'attention.key_length': 8,
                                  'attention.value_length': 8, 'rope.dimension_count': 4, 'attention.head_count': 4,
                                  'attention.head_count_kv': 2, 'attention.indexer.block_size': 4,
                                  'attention.indexer.key_length': 8},
                   'blocks of 4 keys, the 2 best for each key head, the last always; clamped SwiGLU; partial rotation'),
    'minimax-m3-dense': ('minimax-m3-plain', {**SMALL, 'block_count': 2, 'attention.indexer.head_count': 1,
                                              'attention.indexer.key_length': 8},
                         '1 dense layer without an indexer; blocks that are all seen'),
    'bailingmoe3': ('bailingmoe3', {**SMALL_MLA, 'block_count': 3, 'swiglu_clamp_exp': [0.0, 0.3, 0.4],
                                    'swiglu_clamp_shexp': [0.2, 0.0, 0.4], 'expert_feed_forward_length': 4,
                                    'attention.head_count_kv': [0, 1, 0]},
                    'KDA with a bounded decay, latent attention with a gate for each head, clamped SwiGLU, 1 dense '
                    'layer'),
    'bailingmoe3-lora': ('bailingmoe3-lora', {**SMALL_MLA, 'block_count': 2, 'attention.head_count_kv': [0, 1],
                                              'attention.q_lora_rank': 12, 'attention.layer_norm_rms_epsilon': 0.01},
                         'queries of low rank, experts in groups, a large epsilon'),
    'kimi-k3': ('kimi-k3', {**SMALL_MLA, 'block_count': 3, 'feed_forward_length': 12, 'expert_feed_forward_length': 5,
                            'vocab_size': 48, 'attention.head_count_kv': [0, 0, 1], 'attention.q_lora_rank': 12,
                            'expert_latent_length': 12},
                'streams put by before every second layer, experts on 12 numbers, SiTU, KDA with a bounded decay, '
                'gated latent attention'),
    'deepseek4': ('deepseek4', {'embedding_length': 8, 'vocab_size': 32, 'block_count': 3,
                                'expert_feed_forward_length': 4, 'attention.key_length': 8, 'attention.value_length': 8,
                                'rope.dimension_count': 4, 'attention.q_lora_rank': 4,
                   'hyper_connection.sinkhorn_iterations': 2, 'hyper_connection.epsilon': 0.01,
                                'attention.output_lora_rank': 4, 'attention.indexer.head_count': 6,
                                'attention.indexer.top_k': 1, 'attention.compress_ratios': [0, 4, 128],
                                'attention.sliding_window': 6},
                  'four streams, a window of 6 beside the best of blocks of 4 and beside a block of 128, rotations of '
                  'two bases, output in groups, sinks, experts of layer 0 by token, clamped SwiGLU'),
    'kimi-k3-plain': ('kimi-k3-plain', {**SMALL_MLA, 'block_count': 2, 'attention.head_count_kv': [0, 1],
                                        'attention.layer_norm_rms_epsilon': 0.01},
                      'no streams put by, experts of full width, SiTU with a free up, a decay without a bound, a large '
                      'epsilon'),
}
def golden(a):
    """ tiny models with everything that their kind has, and the logits of the other engine, token by token """
    os.makedirs(a.golden, exist_ok=True)
    for name in a.names or GOLDEN:
        kind, own, note, *rest = GOLDEN[name]
        arch, numbers_too, more = SPECS[kind]
        meta, n_layer = numbers(arch, {**numbers_too, **own}, more, 0)
        n_layer = meta[arch + '.block_count']
        meta['general.name'] = 'tiny random ' + name
        path = os.path.join(a.golden, name + '.gguf')
        peer = Peer()
        first = {t: [1] for t in more.get('first', ()) if not re.match(r'blk\.(\d+)', t) or int(t.split('.')[1])
                 < n_layer}
        first.update(rest[1] if len(rest) > 1 else {})
        model = Model(peer, path, meta, n_layer, first, False, False)
        why = model.fit()
        if why: sys.exit('%s: %s' % (name, why))
        for t in rest[0] if rest else ():
            if not model.offer(t): sys.exit('%s: %s is not taken' % (name, t))
        write(path, meta, model.tensors, random_weights(sum(map(ord, name))))
        rng = np.random.default_rng(sum(map(ord, name)))
        tokens = [int(x) for x in rng.integers(0, meta[arch + '.vocab_size'], 128 if arch == 'deepseek4' else 24)]
        m, why = peer.load(path)
        alone = peer.run(m, tokens, 256, flash=more.get('flash', 0), single=True)
        whole = peer.run(m, tokens, 256, flash=more.get('flash', 0))
        alone.astype('<f4').tofile(os.path.join(a.golden, name + '.logits'))
        print('\t'.join(map(str, (name, arch, 'lm', 'F32', len(tokens), alone.shape[1], ','.join(map(str, tokens)), '-',
                                  '%.4g' % (alone.astype('f8') ** 2).mean() ** 0.5,
                                  '%.2g' % np.abs(alone - whole).max(),
                                   '-', '-', os.path.getsize(path), note))), flush=True)
    return 0

# ---- larger models made small: for tests/golden/oracle/llm -----------------------------------------------------------

def read_gguf(path):
    """ metadata, and for each tensor of floats its numbers, rows of innermost first """
    f, at = open(path, 'rb').read(), 24
    n_tensors, n_meta = struct.unpack_from('<QQ', f, 8)
    def take(form):
        nonlocal at
        r = struct.unpack_from('<' + form, f, at)
        at += struct.calcsize('<' + form)
        return r if len(r) > 1 else r[0]
    def string():
        nonlocal at
        n = take('Q')
        at += n
        return f[at - n:at]
    def item(t):
        if t == 8: return string()
        if t == 9:
            t, n = take('IQ')
            return [item(t) for _ in range(n)]
        return take({0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}[t])
    meta, where, tensors = {}, {}, {}
    for _ in range(n_meta):
        k = string().decode()
        meta[k] = item(take('I'))
    for _ in range(n_tensors):
        k = string().decode()
        n = take('I')
        dims = [take('Q') for _ in range(n)]
        where[k] = (dims,) + take('IQ')
    start = (at + 31) // 32 * 32
    for k, (dims, kind, off) in where.items():
        x = np.frombuffer(f, '<f4' if kind == 0 else '<i4', int(np.prod(dims)), start + off)
        tensors[k] = x.reshape(dims[::-1])
    return meta, tensors

# what does not follow the rule of cut_numbers; the epsilon is the one of published models: that engine adds it to
# squared
# lengths, we divide by no less
DELTA = {'attention.layer_norm_rms_epsilon': 1e-6}
BLOCKS = {'embedding_length': 32, 'feed_forward_length': 32, 'expert_feed_forward_length': 32}   # rows of whole blocks
CUTS = {
    'qwen35': DELTA, 'qwen35moe': DELTA, 'qwen35-long': DELTA, 'qwen3next': DELTA, 'kimi-linear': DELTA,
    'olmoe': BLOCKS, 'qwen3moe': BLOCKS, 'mixtral': {'vocab_size': 320},
    'rwkv7-b': {'embedding_length': 64}, 'bailingmoe2': {'embedding_length': 32},
    'qwen3': {'attention.key_length': 32, 'attention.value_length': 32},
    'deepseek32': {'attention.indexer.head_count': 8, 'rope.dimension_count': 8, 'attention.key_length': 16,
                   'attention.key_length_mla': 20},
    'phi3': {'embedding_length': 32, 'rope.dimension_count': 16, 'attention.head_count': 2,
             'attention.head_count_kv': 2},
    'nemotron_h_moe': {'feed_forward_length': [0, 16, 0, 16]},
}
CUT_TENSORS = {'jina-bert-v2': {'blk.%d.ffn_up.weight' % i: [16, 16] for i in range(2)}}
AT_MOST = {
    'embedding_length': 16, 'feed_forward_length': 16, 'expert_feed_forward_length': 8,
    'expert_shared_feed_forward_length': 8, 'vocab_size': 64, 'context_length': 256, 'ssm.inner_size': 32,
    'ssm.state_size': 8, 'kda.head_dim': 8, 'attention.q_lora_rank': 8, 'attention.kv_lora_rank': 8,
    'attention.key_length': 8, 'attention.value_length': 8, 'attention.key_length_mla': 12,
    'attention.value_length_mla': 8, 'attention.key_length_swa': 4, 'attention.value_length_swa': 4,
    'rope.dimension_count_swa': 4, 'embedding_length_per_layer_input': 4,
}

def cut_numbers(meta, name):
    arch = meta['general.architecture'].decode()
    old = {k[len(arch) + 1:]: v for k, v in meta.items() if k.startswith(arch + '.')}
    new = {k: min(v, AT_MOST[k]) if k in AT_MOST and not isinstance(v, list) else v for k, v in old.items()}
    heads = old.get('attention.head_count', 0)
    if 'attention.kv_lora_rank' in old:             # keys in latent rows: what is turned, and what is not
        new['rope.dimension_count'] = 4
        new['attention.value_length'] = new['attention.kv_lora_rank']
        new['attention.key_length'] = new['attention.kv_lora_rank'] + 4
    elif 'rope.dimension_count' in old:
        was = old.get('attention.key_length') or old['embedding_length'] // heads
        width = new.get('attention.key_length') or new['embedding_length'] // heads
        new['rope.dimension_count'] = max(2, width * old['rope.dimension_count'] // was)
    if 'rope.dimension_sections' in old:
        new['rope.dimension_sections'] = [1, int(new['rope.dimension_count'] > 2), 0, 0]
    new.update(CUTS.get(name, {}))
    out = {'general.architecture': arch, 'general.name': 'tiny random ' + name, 'tokenizer.ggml.model': 'no_vocab',
           'tokenizer.ggml.token_type_count': 2}
    out.update({k: v for k, v in meta.items() if k.startswith('xielu.')})
    out.update({arch + '.' + k: v for k, v in new.items()})
    return arch, out

def corner(x, dims, name):
    """ of a tensor, as many numbers as dims says; sums of fewer products keep their size """
    d = dims[::-1]
    if x.ndim > len(d): x = x.reshape([n for n in x.shape if n > 1])
    while x.ndim > len(d): x = x[0]
    x = x.reshape((1,) * (len(d) - x.ndim) + x.shape)
    x = np.tile(x, [-(-n // m) for n, m in zip(d, x.shape)])
    y = x[tuple(slice(n) for n in d)].reshape(-1)
    plain = (len(d) == 1 or x.dtype == np.int32 or 'embd' in name or 'conv1d' in name or
             name.endswith(('ssm_a', 'ssm_d')))
    return y if plain else y * (x.shape[-1] / d[-1]) ** 0.5

def cut(a):
    """ models of the folder --cut with fewer numbers, and the logits of the other engine """
    os.makedirs(a.golden, exist_ok=True)
    lines = [line.rstrip('\n').split('\t') for line in open(os.path.join(a.cut, 'index.tsv'))]
    for row in [row for row in lines if row[0] in a.names]:
        name, emb, decoder = row[0], row[2] == 'emb', row[2] == 't5'
        meta, whole = read_gguf(os.path.join(a.cut, name + '.gguf'))
        arch, own = cut_numbers(meta, name)
        path = os.path.join(a.golden, name + '.gguf')
        peer = Peer()
        first = {**{t: [1] for t in whole}, **CUT_TENSORS.get(name, {})}
        model = Model(peer, path, own, own[arch + '.block_count'], first, emb, decoder)
        why = model.fit()
        if why: sys.exit('%s: %s' % (name, ' '.join(why.split())[-300:]))
        write(path, own, model.tensors, lambda t, dims: corner(whole[t], dims, t))
        def draw(seed, n):
            return [int(x) for x in np.random.default_rng(seed).integers(0, own[arch + '.vocab_size'], n)]
        seed = sum(map(ord, name))
        tokens = draw(seed, len(row[6].split(',')))
        dec = draw(seed + 1, len(row[7].split(','))) if decoder else None
        m, why = peer.load(path)
        together = peer.run(m, tokens, 256, emb, dec, encode=arch == 't5encoder')
        alone = together if emb or decoder else peer.run(m, tokens, 256, single=True)
        alone.astype('<f4').tofile(os.path.join(a.golden, name + '.logits'))
        by_table = arch in GELU | {'t5encoder', 'gemma4', 'gemma-embedding'}
        print('\t'.join(map(str, (
            name, arch, row[2], 'F32', len(alone), alone.shape[1], ','.join(map(str, tokens)),
            ','.join(map(str, dec)) if dec else '-', '%.4g' % (alone.astype('f8') ** 2).mean() ** 0.5,
            '%.2g' % np.abs(alone - together).max(), '-', '-', os.path.getsize(path), row[13],
            '2e-3' if by_table else '-'))), flush=True)
    return 0

def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--logits', default='build/logits')
    ap.add_argument('--folder', default='peer-models')
    ap.add_argument('--seeds', type=int, default=1)
    ap.add_argument('--plain', action='store_true', help='without the optional tensors: a minute and not ten')
    ap.add_argument('--vary', action='store_true', help='every kind again with numbers of other kinds')
    ap.add_argument('names', nargs='*')
    ap.add_argument('--golden', metavar='F',
                    help='makes the files of GOLDEN in folder F and prints their lines of index.tsv')
    ap.add_argument('--cut', metavar='F', help='with --golden: the named models of folder F, with fewer numbers')
    a = ap.parse_args()
    os.environ['GGML_NO_BACKTRACE'] = '1'
    if a.cut: return cut(a)
    if a.golden: return golden(a)
    if a.vary: vary()
    wanted = [n for n in SPECS if not a.names or n in a.names or n.split('+')[0] in a.names]
    os.makedirs(a.folder, exist_ok=True)
    total = bad = 0
    for name in wanted:
        r, w = os.pipe()
        sys.stdout.flush()
        child = os.fork()                       # a process for each: the other engine may abort
        if not child:
            os.close(r)
            n, b = one(Peer(), name, a)
            os.write(w, struct.pack('<2i', n, b))
            sys.stdout.flush()
            os._exit(0)
        os.close(w)
        got = os.read(r, 8)
        os.close(r)
        status = os.waitpid(child, 0)[1]
        if len(got) < 8:
            print('%-24s the other engine ended with status %d' % (name, status), flush=True)
            got = struct.pack('<2i', 0, 1)
        n, b = struct.unpack('<2i', got)
        total, bad = total + n, bad + b
    print('%d models compared, %d bad' % (total, bad))
    return 1 if bad else 0

if __name__ == '__main__': sys.exit(main())
