"""Run by llama_cpp.py in an environment that has llama-cpp-python, and knows nothing of this project.

python -I llama_worker.py MODEL.gguf THREADS speed PROMPT_TOKENS STEPS: one JSON object, tokens per second of prefill
and decode without and with flash attention. ... logits 1,2,3 OUT.npy: float32 [T, V], every position's logits.
With NO_AMX in the environment AMX is left alone.
"""

import ctypes
import json
import os
import sys
import time

import llama_cpp as api
import numpy as np

BATCH = 512
WARM_TOKENS = 4
KINDS = {"plain": api.LLAMA_FLASH_ATTN_TYPE_DISABLED, "flash": api.LLAMA_FLASH_ATTN_TYPE_ENABLED}


@api.llama_log_callback
def silent(level, text, user_data):
    """llama.cpp tells nothing."""


class Context:
    """One sequence from position 0 on."""

    def __init__(self, model, n_threads, flash, n_positions, cache_type=api.GGML_TYPE_F16):
        wishes = api.llama_context_default_params()
        wishes.n_ctx = n_positions
        wishes.n_batch = wishes.n_ubatch = BATCH
        wishes.n_threads = wishes.n_threads_batch = n_threads
        wishes.flash_attn_type = flash
        wishes.type_k = wishes.type_v = cache_type
        wishes.no_perf = True
        self._context = api.llama_init_from_model(model, wishes)
        assert self._context, "llama.cpp made no context"
        self._batch = api.llama_batch_init(BATCH, 0, 1)
        self._n_done = 0
        self.n_vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))

    def feed(self, ids, all_logits=False):
        """Computes the ids; returns when their logits are there, of the last one or of all."""
        batch = self._batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i] = token, self._n_done + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = all_logits or i == len(ids) - 1
        assert api.llama_decode(self._context, batch) == 0, "llama_decode failed"
        api.llama_synchronize(self._context)
        self._n_done += len(ids)

    def logits(self, n_rows):
        """float32 [n_rows, V], of the last `feed`."""
        address = ctypes.cast(api.llama_get_logits(self._context), ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(address, (n_rows, self.n_vocab)).copy()

    def forget(self):
        api.llama_memory_clear(api.llama_get_memory(self._context), True)
        self._n_done = 0

    def close(self):
        api.llama_batch_free(self._batch)
        api.llama_free(self._context)


class SignalStack(ctypes.Structure):
    """stack_t of the C library."""

    _fields_ = [("address", ctypes.c_void_p), ("flags", ctypes.c_int), ("n_bytes", ctypes.c_size_t)]


def leave_amx_alone():
    """Linux grants AMX to no process with a signal stack on which its registers do not fit; llama.cpp asks, and goes by
    the answer.
    """
    n_bytes = 6144  # AVX-512 takes 4 kB, AMX 11
    memory = ctypes.create_string_buffer(n_bytes)
    stack = SignalStack(ctypes.addressof(memory), 0, n_bytes)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
    return memory


def load(path):
    """Weights in memory of the process, so that they are repacked as the CPU likes them."""
    api.llama_log_set(silent, None)
    api.llama_backend_init()
    wishes = api.llama_model_default_params()
    wishes.load_mode = api.LLAMA_LOAD_MODE_NONE
    model = api.llama_model_load_from_file(path.encode(), wishes)
    assert model, f"llama.cpp does not load {path}"
    return model


def speed(model, n_threads, n_prompt, n_steps):
    """Nothing is sampled: the ids are given."""
    return {name: speed_of(model, n_threads, flash, n_prompt, n_steps) for name, flash in KINDS.items()}


def speed_of(model, n_threads, flash, n_prompt, n_steps):
    context = Context(model, n_threads, flash, n_prompt + n_steps)
    prompt = [(7 * i + 13) % context.n_vocab for i in range(n_prompt)]
    context.feed(prompt)
    for token in range(WARM_TOKENS):
        context.feed([token])
    context.forget()
    started = time.perf_counter()
    context.feed(prompt)
    prefilled = time.perf_counter()
    for i in range(n_steps - 1):
        context.feed([(11 * i + 5) % context.n_vocab])
    decoded = time.perf_counter()
    context.close()
    return {"prefill_tok_s": n_prompt / (prefilled - started), "decode_tok_s": (n_steps - 1) / (decoded - prefilled)}


def write_logits(model, n_threads, ids, out):
    context = Context(model, n_threads, KINDS["plain"], BATCH, api.GGML_TYPE_F32)
    context.feed(ids, all_logits=True)
    np.save(out, context.logits(len(ids)))
    context.close()


def main():
    path, n_threads, wish, first, second = sys.argv[1:]
    stack = leave_amx_alone() if os.environ.get("NO_AMX") else None
    model = load(path)
    if wish == "speed":
        print(json.dumps(speed(model, int(n_threads), int(first), int(second))))
    else:
        write_logits(model, int(n_threads), [int(token) for token in first.split(",")], second)
    del stack  # until here it had to stay


if __name__ == "__main__":
    main()
