"""Models: text, logits, embeddings, tokens."""
import _thread
import ctypes
import json
import os
import queue
import threading
import weakref

import numpy as np

from ._c import c, constants, enum_names
from ._context import Context, Error, Owned, argument, shared, uninterrupted

_ENDS = {value: name.lower() for name, value in enum_names("tllm_end").items()}
_POOLING = {name.lower(): value for name, value in enum_names("tllm_pooling").items()}


def path_bytes(path):
    return os.fsencode(os.fspath(path))


def text_bytes(text):
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")


class Model(Owned):
    """A model file and the text that it reads or writes: GGUF, safetensors, or the .bin of llama2.c.

        with tinyllm.Model("model.gguf") as model:
            for piece in model.generate("Once upon a time", n=100):
                print(piece, end="", flush=True)

    context            tokens that there is room for; 0: as the file says, at most 4096
    type_k, type_v     how keys and values are kept: "f32", "f16", "q8_0" or "q4_0"
    target, threads, accel, max_bytes    as in Context; accel: a Backend that is asked for every operation
    path               a name, or the bytes of a file
    """
    _what = "model"

    def __init__(self, path, context=0, batch=0, type_k="f32", type_v="f32", target=None, threads=0, accel=None,
                 max_bytes=0):
        ctx = Context(target=target, threads=threads, accel=accel, max_bytes=max_bytes)
        desc = c.tllm_state_desc(n_ctx=context, n_batch=batch)
        for name, value in (("type_k", type_k), ("type_v", type_v)):
            formats = constants("TLLM_FORMAT_")
            if str(value).upper() not in formats:
                raise argument(f"{name}={value!r} is no format: f32, f16, q8_0 or q4_0")
            setattr(desc, name, formats[str(value).upper()])
        handle, keep = ctypes.c_void_p(), None
        if isinstance(path, (bytes, bytearray, memoryview)):
            keep = (ctypes.c_ubyte * len(path)).from_buffer_copy(path)
            ctx.call("tllm_session_open_memory", keep, len(keep), desc, ctypes.byref(handle), interruptible=True)
        else:
            ctx.call("tllm_session_open", path_bytes(path), desc, ctypes.byref(handle), interruptible=True)
        self._texts = texts = []

        def close(context, session, keep=keep):             # keep: the bytes of the file, in use until here
            c.tllm_session_close(session)

        self._adopt(ctx, handle.value, close, before=lambda: _end(texts))
        self._about = c.tllm_about()
        c.tllm_model_about(c.tllm_session_model(self.handle), self._about)

    def _call(self, name, *arguments):
        """a call that needs the model for itself: a text that is being written ends"""
        handle = self.handle
        _end(self._texts)
        self.context.check(getattr(c, name), handle, *arguments, interruptible=True)

    @property
    def about(self):
        """Facts about the model: arch, output ("logits", "hidden" or "rank"), n_vocab, n_embd, n_layer, n_out ..."""
        self.handle
        read = {name: getattr(self._about, name) for name, _ in self._about._fields_}
        read["arch"] = read["arch"].decode()
        for name, enum in (("output", "tllm_output"), ("pooling", "tllm_pooling")):
            read[name] = next(n.lower() for n, v in enum_names(enum).items() if v == read[name])
        return read

    @property
    def context_size(self):
        return c.tllm_session_context(self.handle)

    @property
    def tokens(self):
        """the tokens that the model holds"""
        n = ctypes.c_size_t()
        at = c.tllm_session_tokens(self.handle, ctypes.byref(n))
        return _numbers(at, n.value)

    @property
    def metadata(self):
        """what the file says about itself"""
        file, read = c.tllm_session_file(self.handle), {}
        for i in range(c.tllm_gguf_n_meta(file)):
            meta = c.tllm_gguf_meta_at(file, i)
            m = meta.contents
            values = [_meta(meta, m.item_type, k) for k in range(m.count)]
            read[_text(m.key)] = values if m.type == c.TLLM_ARRAY else values[0]
        return read

    # ---- tokens

    @property
    def _vocab(self):
        return c.tllm_session_vocab(self.handle)

    def encode(self, text, ends=True, special=False):
        """Tokens of a text (int32). ends: BOS and EOS as the vocabulary asks; special: the text of a control token
        becomes that token."""
        ctx, data, found = shared(), text_bytes(text), c.tllm_tokens()
        flags = (c.TLLM_ENCODE_ENDS if ends else 0) | (c.TLLM_ENCODE_SPECIAL if special else 0)
        ctx.call("tllm_encode", self._vocab, data, len(data), flags, found)
        try:
            return _numbers(found.id, found.n)
        finally:
            c.tllm_tokens_free(ctx.handle, found)

    def decode(self, tokens, special=False):
        """The text of tokens; bytes that are no UTF-8 become U+FFFD. special: control tokens are written out."""
        ctx, ids, found = shared(), _tokens(tokens), c.tllm_bytes()
        ctx.call("tllm_decode", self._vocab, ids.ctypes.data, len(ids), c.TLLM_DECODE_SPECIAL if special else 0, found)
        try:
            return ctypes.string_at(found.at, found.n).decode("utf-8", "replace") if found.n else ""
        finally:
            c.tllm_bytes_free(ctx.handle, found)

    def piece(self, token):
        """the bytes of one token by itself"""
        vocab = self._vocab
        room = ctypes.create_string_buffer(c.tllm_piece_most(vocab) or 1)
        n = c.tllm_piece(vocab, token, c.TLLM_DECODE_SPECIAL, room, len(room))
        return room.raw[:n]

    def special(self, which):
        """The number of "bos", "eos", "eot", "unk" ...; None: the vocabulary has none."""
        names = enum_names("tllm_special")
        if str(which).upper() not in names:
            raise argument(f"{which!r} is none of {', '.join(n.lower() for n in names if 'COUNT' not in n)}")
        token = c.tllm_vocab_special(self._vocab, names[str(which).upper()])
        return None if token < 0 else token

    # ---- what the model computes

    def logits(self, text, all=False):
        """The n_vocab logits after a text (or tokens), float32; all: a row after each of its tokens. The
        beginning that the text shares with the last one is not computed again, unless all."""
        ids = self.encode(text) if isinstance(text, (str, bytes)) else _tokens(text)
        if not all:
            at = ctypes.c_void_p()
            self._call("tllm_session_set", ids.ctypes.data, len(ids), ctypes.byref(at), None)
            return _floats(at.value, self._about.n_vocab)
        out = np.empty((len(ids), self._about.n_out), np.float32)
        self._call("tllm_session_set", None, 0, None, None)
        state = c.tllm_session_state(self.handle)
        try:
            self.context.check(c.tllm_forward, state, ids.ctypes.data, len(ids), 0, len(ids), out.ctypes.data,
                               interruptible=True)
        finally:
            c.tllm_state_clear(state)
        return out

    def embed(self, text, pooling=None):
        """The meaning of a text as n_embd floats of length 1. pooling: "mean", "cls" or "last"; what the file asks for
        without. A list of texts gives a row each."""
        if isinstance(text, (list, tuple)):
            return np.stack([self.embed(t, pooling) for t in text])
        if pooling is not None and pooling not in _POOLING:
            raise argument(f"pooling={pooling!r} is not mean, cls or last")
        data, out = text_bytes(text), np.empty(self._about.n_out, np.float32)
        self._call("tllm_embed", data, len(data), -1 if pooling is None else _POOLING[pooling], out.ctypes.data)
        return out

    def generate(self, prompt="", n=0, temperature=0.0, top_k=0, top_p=1.0, min_p=None, repeat=1.0, seed=0, stop=(),
                 grammar=None, schema=None, plain=False, past_end=False, shift=False, keep=0, special=False):
        """Continues a text (or tokens): an iterator of pieces of text. str.join makes one text of it, and its end says
        why it ended: "token", "length", "string", "context", "grammar" or "caller".

        n              tokens at most; 0: until the model or the context ends
        temperature    0 takes the most probable token; above, top_k, top_p and min_p (0.05) choose what is drawn from
        repeat         penalty on the last 64 tokens; 1: none
        stop           texts before which it ends
        grammar        a GBNF text that it follows; schema: a JSON schema (a text, or a dict) instead
        plain          nothing is added in front of the prompt; special: control tokens are written out
        shift          a full context forgets its older half, but for the first keep tokens

        Another call on the model ends the text. Ctrl-C does too, and is raised.
        """
        chain = []
        if repeat != 1.0:
            chain.append(c.tllm_step_penalties(64, repeat, 0.0, 0.0))
        if temperature > 0:
            if top_k > 0:
                chain.append(c.tllm_step_top_k(top_k))
            if top_p < 1:
                chain.append(c.tllm_step_top_p(top_p))
            chain.append(c.tllm_step_min_p(0.05 if min_p is None else min_p))
            chain.append(c.tllm_step_temperature(temperature))
        else:
            chain.append(c.tllm_step_greedy())
        stops = [stop] if isinstance(stop, (str, bytes)) else list(stop)
        desc = c.tllm_generate_desc(n_steps=len(chain), seed=seed, n_most=n, plain=plain, past_end=past_end,
                                    shift=shift, keep=keep, special=special, n_stop=len(stops))
        made = [(c.tllm_step * len(chain))(*chain), (ctypes.c_char_p * max(1, len(stops)))(*map(text_bytes, stops))]
        desc.chain = ctypes.cast(made[0], type(desc.chain))
        desc.stop = ctypes.cast(made[1], ctypes.c_void_p)
        handle = self.handle
        _end(self._texts)
        rules = None
        if grammar is not None or schema is not None:
            rules = _grammar(self.context, grammar, schema)
            desc.grammar = rules.handle
        if isinstance(prompt, (str, bytes)):
            prompt = text_bytes(prompt)
            call = (c.tllm_generate, handle, prompt, len(prompt))
        else:
            prompt = _tokens(prompt)
            call = (c.tllm_generate_tokens, handle, prompt.ctypes.data, len(prompt))
        return Generation(self, desc, call, [*made, prompt, rules])

    def chat(self, messages, tools=None, add_generation_prompt=True, **values):
        """The prompt that the chat template of the file makes of messages, [{"role": "user", "content": "Hello"}]:
        model.generate(model.chat(messages), special=True) answers. values become variables of the template."""
        template = self.metadata.get("tokenizer.chat_template")
        if not template:
            raise Error(c.TINY_E_UNSUPPORTED, "this file has no chat template")
        names = {"bos_token": self.special("bos"), "eos_token": self.special("eos")}
        given = {n: self.piece(t).decode("utf-8", "replace") for n, t in names.items() if t is not None}
        return Template(template).render(messages, tools, add_generation_prompt, **{**given, **values})


def _end(texts):
    """ends the text that is being written, if there is one"""
    while texts:
        texts.pop().close()


def _numbers(at, n):
    held = ctypes.cast(at, ctypes.POINTER(ctypes.c_int32))
    return np.ctypeslib.as_array(held, (n,)).copy() if n else np.empty(0, np.int32)


def _floats(at, n):
    return np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (n,)).copy()


def _tokens(tokens):
    ids = np.asarray(tokens)
    if ids.size and ids.dtype.kind not in "iu":
        raise argument(f"tokens are whole numbers, not {ids.dtype}")
    if ids.size and (ids.min() < -2**31 or ids.max() >= 2**31):
        raise argument("a token is a number of 32 bits")
    return np.ascontiguousarray(ids.reshape(-1), np.int32)


def _text(t):
    return ctypes.string_at(t.at, t.n).decode("utf-8", "replace") if t.n else ""


def _meta(meta, kind, i):
    """item i of a value of the file"""
    if kind == c.TLLM_STRING:
        value = c.tllm_text()
        return _text(value) if c.tllm_meta_text(meta, i, value) else None
    if kind == c.TLLM_BOOL:
        value, get = ctypes.c_int(), c.tllm_meta_bool
    elif kind in (c.TLLM_F32, c.TLLM_F64):
        value, get = ctypes.c_double(), c.tllm_meta_f64
    elif kind == c.TLLM_U64:
        value, get = ctypes.c_uint64(), c.tllm_meta_u64
    else:
        value, get = ctypes.c_int64(), c.tllm_meta_i64
    found = get(meta, i, ctypes.byref(value))
    return None if not found else bool(value.value) if kind == c.TLLM_BOOL else value.value


class _Grammar(Owned):
    _what = "grammar"


def _grammar(ctx, grammar, schema):
    """a grammar of the context, from GBNF or from a JSON schema"""
    if schema is not None:
        data = text_bytes(schema if isinstance(schema, (str, bytes)) else json.dumps(schema))
        at, n = ctypes.c_void_p(), ctypes.c_size_t()
        ctx.call("tllm_schema_grammar", data, len(data), ctypes.byref(at), ctypes.byref(n))
        grammar = ctypes.string_at(at.value, n.value)
        c.tinyllm_free(ctx.handle, at.value)
    data, handle = text_bytes(grammar), ctypes.c_void_p()
    ctx.call("tllm_grammar_open", data, len(data), b"root", ctypes.byref(handle))
    made = _Grammar()
    made._adopt(ctx, handle.value, c.tllm_grammar_close)
    return made


class _Writer:
    """One text that is being written: C in a thread of its own, which runs only while next() waits for it."""

    def __init__(self, hold, desc, call, keep):
        self.hold, self.desc, self.call, self.keep = hold, desc, call, keep
        self.ask, self.answer = queue.SimpleQueue(), queue.SimpleQueue()
        self.pieces, self.stop, self.done, self.status, self.said = [], False, False, 0, b""
        self.result = c.tllm_generate_result()
        callback = dict(desc._fields_)["text"]
        desc.text = callback(self.hear)
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def hear(self, user, at, n):
        self.pieces.append(ctypes.string_at(at, n))
        self.answer.put(None)
        self.ask.get()
        return int(self.stop)

    def work(self):
        self.ask.get()
        if not self.stop:
            function, *arguments = self.call
            self.status = function(*arguments, self.desc, self.result)
            if self.status:
                self.said = c.tinyllm_ctx_message(self.hold.handle)
        self.hold.stop.value = 0
        self.keep = self.call = None
        self.done = True
        self.hold.leave()
        self.answer.put(None)

    def close(self):
        if self.done:
            return
        self.stop = True
        self.hold.stop.value = 1                            # the cancel callback: in the middle of a long prompt too
        self.ask.put(None)
        if threading.current_thread() is not self.thread:
            again = False
            while self.thread.is_alive():
                try:
                    self.thread.join()
                except KeyboardInterrupt:
                    again = True
            self.hold.stop.value = 0                        # the text may have ended by itself meanwhile
            if again:                                       # a finalizer, which may run here, would swallow it
                threading.Timer(0.001, _thread.interrupt_main).start()


class Generation:
    """The pieces of a text, as they are written. After the last: end, and counts with their seconds."""

    def __init__(self, model, desc, call, keep):
        hold = model.context._hold
        self._model = model                                 # stays open as long as this is in use
        with uninterrupted():                               # nobody else would give the context back
            if not hold.busy.acquire(blocking=False):
                raise argument("this model is in use by another thread")
            self._writer = _Writer(hold, desc, call, keep)
            model._texts.append(self._writer)
            self._finalizer = weakref.finalize(self, self._writer.close)

    def __iter__(self):
        return self

    def __next__(self):
        w = self._writer
        while not w.pieces and not w.done:
            w.ask.put(None)
            try:
                w.answer.get()
            except BaseException:                           # Ctrl-C
                w.close()
                raise
        if w.pieces:
            return w.pieces.pop(0).decode("utf-8", "replace")
        if self._model.context.accel:
            self._model.context.accel._raise_pending()
        self._finalizer.detach()                            # nothing is left to do, and Ctrl-C would be lost in it
        if w.status:
            status, w.status = w.status, 0
            raise Error(status, (w.said or c.tinyllm_status_text(status)).decode("utf-8", "replace"))
        raise StopIteration

    def close(self):
        """ends the text here"""
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    @property
    def end(self):
        """why the text ended; None while it is being written"""
        return _ENDS[self._writer.result.end] if self._writer.done else None

    @property
    def stats(self):
        """n_prompt, n_reused, n_made (tokens), prompt_seconds, made_seconds"""
        r = self._writer.result
        return {name: getattr(r, name) for name, _ in r._fields_ if name != "end"}


class Template(Owned):
    """A chat template in Jinja, as model files have it."""
    _what = "template"

    def __init__(self, text):
        ctx, data, handle = Context(threads=1), text_bytes(text), ctypes.c_void_p()
        ctx.call("tllm_template_open", data, len(data), ctypes.byref(handle))
        self._adopt(ctx, handle.value, c.tllm_template_close)

    def render(self, messages, tools=None, add_generation_prompt=True, **values):
        """The prompt for messages, [{"role": "user", "content": "Hello"}]; values become variables."""
        talk, more = json.dumps(list(messages)).encode(), json.dumps(values).encode()
        desc = c.tllm_template_values(messages_json=talk, messages_json_bytes=len(talk), more_json=more,
                                      more_json_bytes=len(more), add_generation_prompt=add_generation_prompt)
        if tools is not None:
            desc.tools_json = json.dumps(list(tools)).encode()
        at, n = ctypes.c_void_p(), ctypes.c_size_t()
        self.context.call("tllm_template_run", self.handle, desc, ctypes.byref(at), ctypes.byref(n))
        try:
            return ctypes.string_at(at.value, n.value).decode("utf-8", "replace")
        finally:
            c.tinyllm_free(self.context.handle, at.value)
