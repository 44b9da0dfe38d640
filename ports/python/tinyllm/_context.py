"""Contexts: where operations run, and how the library's failures become exceptions."""
import collections
import ctypes
import logging
import os
import queue
import signal
import threading
import weakref

from ._c import _declared, c, constants, library

log = logging.getLogger("tinyllm")
_LEVELS = {0: logging.INFO, 1: logging.WARNING, 2: logging.ERROR}
_TARGETS = [name for name in _declared.enums["tiny_target"] if name != "TINY_TARGET_COUNT"]


class Error(Exception):
    """The library refused a call. str() is its sentence, code its status (an int), name that status in words."""

    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code
        self.name = next((n for n in _declared.enums["tiny_status"] if _declared.constants[n] == code), "?")

    def __reduce__(self):
        return Error, (self.code, str(self))


def argument(sentence):
    return Error(c.TINY_E_ARGUMENT, sentence)


def targets():
    """The SIMD targets of this machine, "reference" first, the best one last."""
    return [name[len("TINY_TARGET_"):].lower() for name in _TARGETS[1:] if c.tinyllm_target_runs_here(getattr(c, name))]


def target_number(name):
    found = constants("TINY_TARGET_").get(str(name).upper())
    if found is None or found == c.TINY_TARGET_COUNT:
        raise argument(f"there is no target {name!r}; this machine has {', '.join(targets())}")
    return found


class _Hold:
    """The parts of one C context. It outlives the Python object: C uses callbacks and flag until the context closes."""

    def __init__(self, wing):
        self.wing, self.handle, self.children, self.said = wing, None, {}, ""
        self.stop = ctypes.c_int(0)                         # nonzero: the cancel callback asks to stop
        self.busy = threading.Lock()                        # held by the call that is running
        self.late = collections.deque()                     # what waits for the end of that call
        self.quiet, self.keep = False, []

    def hear(self, user, level, sentence):
        text = ctypes.string_at(sentence).decode("utf-8", "replace")
        if level == c.TINY_LOG_ERROR:                       # becomes an exception
            self.said = text
        elif not self.quiet:
            log.log(_LEVELS.get(level, logging.INFO), "%s", text)

    def when_idle(self, action):
        """Frees something: now, or when the running call is over. The garbage collector asks at any moment."""
        self.late.append(action)
        self.drain()

    def drain(self):
        while self.late and self.busy.acquire(blocking=False):
            try:
                while self.late:
                    self.late.popleft()()
            finally:
                self.busy.release()

    def leave(self):
        self.busy.release()
        self.drain()

    def close(self):
        children, self.children = list(self.children.values()), {}
        for release in reversed(children):
            release()
        handle, self.handle = self.handle, None
        if handle:
            self.when_idle(lambda: getattr(c, self.wing + "_ctx_close")(handle))


class Context:
    """Threads, a SIMD target and an accelerator. Models and graphs have one each; run() keeps one a thread.

    target   "auto", or one of targets()
    threads  0: one per processor
    accel    a tinyllm.Backend that is asked first for every operation
    """

    def __init__(self, target=None, threads=0, accel=None, max_bytes=0, wing="tinyllm"):
        if accel is not None and not hasattr(accel, "_struct"):
            raise argument(f"accel is a {type(accel).__name__}, not a tinyllm.Backend")
        hold = _Hold(wing)
        self._settings, self._other, self._used = (target, threads, accel, max_bytes), None, hold
        desc = c.tiny_ctx_desc(n_threads=threads, max_bytes=max_bytes)
        desc.target = target_number(target or "auto")
        fields = dict(desc._fields_)
        hear, cancel = fields["log"](hold.hear), fields["cancel"]
        desc.log, desc.user = hear, ctypes.addressof(hold.stop)
        desc.cancel = ctypes.cast(library.tinypy_cancel, cancel)
        hold.keep += [hear, accel, accel._struct if accel else None]
        if accel:
            desc.accel = ctypes.pointer(accel._struct)
        handle = ctypes.c_void_p()
        status = getattr(c, wing + "_ctx_open")(desc, ctypes.byref(handle))
        if status:
            raise Error(status, hold.said or c.tinyllm_status_text(status).decode())
        hold.handle = handle.value
        self._hold, self.accel = hold, accel
        self._finalizer = weakref.finalize(self, hold.close)

    def close(self):
        self._finalizer()
        if self._other:
            self._other.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def of(self, wing):
        """This context, or one like it that belongs to the other copy of core and math: "tinyllm" or "tinygnn"."""
        self.handle
        found = self
        if wing != self._hold.wing:
            found = self._other = self._other or Context(*self._settings, wing=wing)
        self._used = found._hold
        return found

    @property
    def handle(self):
        """the address of the tiny_ctx"""
        if not self._hold.handle:
            raise argument("this context is closed")
        return self._hold.handle

    def call(self, name, *arguments, interruptible=False):
        """A function of C that takes the context first and answers by a status. name without its copy: "ctx_threads"
        is tinyllm_ctx_threads or tinygnn_ctx_threads."""
        function = getattr(c, name if name in _declared.functions else f"{self._hold.wing}_{name}")
        return self.check(function, self.handle, *arguments, interruptible=interruptible)

    def check(self, function, *arguments, interruptible=False):
        """Calls, and raises Error when the answer is not 0."""
        handle, hold = self.handle, self._hold
        if not hold.busy.acquire(blocking=False):
            raise argument("this context is in use by another call: one context serves one caller at a time")
        try:
            hold.said = ""
            status = (_interruptible(hold, function, arguments) if interruptible else function(*arguments))
            if self.accel:
                self.accel._raise_pending()
            if status:
                said = getattr(c, hold.wing + "_ctx_message")(handle) or c.tinyllm_status_text(status)
                raise Error(status, said.decode("utf-8", "replace"))
        finally:
            hold.leave()

    @property
    def target(self):
        return c.tinyllm_target_name(getattr(c, self._hold.wing + "_ctx_target")(self.handle)).decode()

    @property
    def threads(self):
        return getattr(c, self._hold.wing + "_ctx_threads")(self.handle)

    @property
    def ran_on(self):
        """the target of the kernel that run() used last"""
        self.handle
        return c.tinyllm_target_name(getattr(c, self._used.wing + "_ctx_ran_on")(self._used.handle)).decode()

    @property
    def bytes(self):
        """memory that is held at this moment"""
        return getattr(c, self._hold.wing + "_ctx_bytes")(self.handle)


class uninterrupted:
    """A block in the main thread that Ctrl-C does not leave half done: it is heard at the end of the block."""

    def __enter__(self):
        self.before, self.heard = None, []
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self.before = signal.signal(signal.SIGINT, lambda *signal_and_frame: self.heard.append(signal_and_frame))
        return self

    def __exit__(self, *unused):
        if self.before:
            signal.signal(signal.SIGINT, self.before)
            if self.heard:
                self.before(*self.heard[0])


def _interruptible(hold, function, arguments):
    """Calls in a thread of its own, so that Ctrl-C reaches Python meanwhile; then the cancel callback asks to stop."""
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    result, failure, done = [], [], queue.SimpleQueue()      # an Event breaks when Ctrl-C comes inside it

    def work():
        try:
            result.append(function(*arguments))
        except BaseException as e:                          # a ctypes.ArgumentError
            failure.append(e)
        finally:
            done.put(None)

    thread = threading.Thread(target=work, daemon=True)
    try:
        with uninterrupted():
            thread.start()
        done.get()
    except BaseException:
        if thread.ident is None:                            # the system gave no thread
            raise
        hold.stop.value = 1
        while not (result or failure):                      # a second Ctrl-C must not leave C running
            try:
                done.get()
            except KeyboardInterrupt:
                pass
        raise
    finally:
        hold.stop.value = 0
    if failure:
        raise failure[0]
    return result[0]


class Owned:
    """An object of C that belongs to a context: closed by close(), by with, by the garbage collector, or by its
    context, whichever comes first. A call on a closed one raises Error."""
    _what = "object"

    def _adopt(self, context, handle, close, before=None):
        """close(context address, handle) frees it, when no call runs on the context; before() is called at once"""
        hold, address, key, state = context._hold, context.handle, object(), {"handle": handle}

        def release():
            hold.children.pop(key, None)
            handle, state["handle"] = state["handle"], None
            if handle:
                if before:
                    before()
                hold.when_idle(lambda: close(address, handle))

        hold.children[key] = release
        self.context, self._state, self._finalizer = context, state, weakref.finalize(self, release)

    @property
    def handle(self):
        """the address of the object in C"""
        handle = self._state["handle"] if hasattr(self, "_state") else None
        if not handle:
            raise argument(f"this {self._what} is closed")
        return handle

    def close(self):
        self._finalizer()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


_local = threading.local()


def shared(wing="tinyllm", target=None, threads=0):
    """The context of this thread for calls that name none."""
    kept = _local.__dict__.setdefault("contexts", {})
    key = (os.getpid(), wing, target or "auto", threads)
    if key not in kept:
        kept[key] = Context(target=target, threads=threads, wing=wing)
    return kept[key]
