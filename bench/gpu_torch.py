#!/usr/bin/env python3
"""PyTorch as a peer of the gpu benchmarks: answers lines "COUNT TASK" on standard input with the seconds that COUNT runs
of TASK took (bench/gpu.h has the tasks), -1 for a task that it does not know."""
import ctypes
import signal
import sys
import time

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the benchmark

import torch  # noqa: E402

if not torch.cuda.is_available():
    sys.exit("no CUDA device")
torch.backends.cuda.matmul.allow_tf32 = False


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def rows(name, dtype, m, n):
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    x = torch.randn(m, n, device="cuda", dtype=dtype)
    w = torch.randn(n, device="cuda", dtype=dtype)
    b = torch.randn(n, device="cuda", dtype=dtype)
    functional = torch.nn.functional
    function = {
        "gelu": lambda: functional.gelu(x * w + b) * 0.5 + x,
        "layer_norm": lambda: functional.layer_norm(x, (n,), w, b),
        "rms_norm": lambda: functional.rms_norm(x, (n,), w, 1e-6),
        "softmax": lambda: torch.softmax(x, -1),
        "sum": lambda: torch.sum(x, -1),
    }[name]
    return compiled(function)


def chain(count):
    x = torch.randn(64, device="cuda")
    b = torch.randn(64, device="cuda")

    def function():
        y = x
        for i in range(count):
            y = y + b if i % 3 == 0 else y * b if i % 3 == 1 else torch.maximum(y, b)
        return y

    return compiled(function)


def until():
    a = torch.eye(512, device="cuda") * 0.1
    b = torch.ones(512, 1, device="cuda")

    def function():
        x, r = torch.zeros_like(b), b
        while (r * r).sum() > 5e-10:
            d = r * 0.5
            x = x + d
            r = r - a @ d
        return x

    return function


def loop():
    x = torch.randn(64, device="cuda")
    b = torch.randn(64, device="cuda")

    def function():
        y = x
        for _ in range(10):
            y = torch.maximum((y + b) * b, b)
        return y

    return function


def attention(words, backend):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, heads, keys, length, columns = map(int, words[1:6])

    is_decode = words[0].endswith("decode")

    def normal(h, rows):
        return torch.randn(batch, h, rows, columns, device="cuda", dtype=torch.bfloat16)

    q, k, v = normal(heads, 1 if is_decode else length), normal(keys, length), normal(keys, length)
    kind = {"cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}.get(backend, SDPBackend.FLASH_ATTENTION)
    mask = None
    if words[-1] == "mask":
        mask = torch.randn(1, 1, length, length, device="cuda", dtype=torch.bfloat16)

    def function():
        with sdpa_kernel(kind):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=words[-1] == "causal", enable_gqa=heads != keys)

    if not words[0].endswith("grad"):
        return function
    for x in (q, k, v):
        x.requires_grad_()
    y, g = function(), normal(heads, length)
    return lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)


def linear(words):
    m, n, k = map(int, words[2:5])
    functional = torch.nn.functional

    def normal(*dims):
        return torch.randn(*dims, device="cuda", dtype=torch.bfloat16)

    x, w, b, r = normal(m, k), normal(k, n) * 0.03, normal(n), normal(m, n)

    def kept(q):
        return q, functional.gelu(q, approximate="tanh")

    # addmm has the bias in its epilogue: what one would write.
    return {
        "bias": lambda: torch.addmm(b, x, w),
        "bias_gelu": lambda: functional.gelu(torch.addmm(b, x, w)),
        "bias_gelu_tanh": lambda: functional.gelu(torch.addmm(b, x, w), approximate="tanh"),
        "bias_gelu_residual": lambda: functional.gelu(torch.addmm(b, x, w)) + r,
        "bias_residual": lambda: torch.addmm(b, x, w) + r,
        "bias_gelu_tanh_kept": lambda: kept(torch.addmm(b, x, w)),
        "gelu_tanh_grad": lambda: torch.ops.aten.gelu_backward(x @ w, r, approximate="tanh"),
    }.get(words[1])


def f8_blocks(m, n, k):
    """A product of f8e4m3 in bf16, with a scale for each 128 elements of a row and each 128 x 128 of the weight."""
    x = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
    w = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
    s = torch.rand(k // 128, m, device="cuda").t()  # it wants these column by column
    t = torch.rand(n // 128, k // 128, device="cuda")
    return lambda: torch._scaled_mm(x, w.t(), s, t.t(), out_dtype=torch.bfloat16)


def scores(words):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    batch, heads, length, columns = map(int, words[2:6])
    what = words[1]

    def normal():
        return torch.randn(batch, heads, length, columns, device="cuda", dtype=torch.bfloat16)

    q, k, v = normal(), normal(), normal()
    slopes = torch.exp2(-8.0 / heads * torch.arange(1, heads + 1, device="cuda", dtype=torch.float32))

    def score(s, b, h, i, j):
        if "cap" in what:
            s = torch.tanh(s * 0.005) * 20.0
        return s + slopes[h] * (j - i) if "alibi" in what else s

    mask = None
    if "causal" in what:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cuda")
    flex = torch.compile(flex_attention, dynamic=False)
    scale = 1.0 if "cap" in what else 0.125
    return lambda: flex(q, k, v, score_mod=score if "cap" in what else None, block_mask=mask, scale=scale)


def op(name):
    x = torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16)
    ids = torch.randint(0, 16384, (16384,), device="cuda")
    return {
        "sum_columns": lambda: torch.sum(x, 0),
        "sum_all": lambda: torch.sum(x),
        "argmax": lambda: torch.argmax(x, 1),
        "transpose": lambda: x.t().contiguous(),
        "take_rows": lambda: torch.index_select(x, 0, ids),
        "cumsum": lambda: torch.cumsum(x, 1),
        "concat": lambda: torch.cat((x, x), 1),
        "sort": lambda: torch.sort(x, 1),
    }.get(name)


def find(task):
    words = task.split()
    if words[0] == "until":
        return until(), True
    if words[0] == "loop":
        return loop(), True
    if words[0] in ("attention", "cudnn_attention", "efficient_attention", "attention_grad", "cudnn_attention_grad",
                    "decode", "cudnn_decode"):
        return attention(words, words[0].split("_")[0]), False
    if words[0] in ("linear", "compiled_linear"):
        function = linear(words)
        return compiled(function) if function and words[0] != "linear" else function, False
    if words[:2] == ["f8", "blocks"]:
        return f8_blocks(*map(int, words[2:5])), False
    if words[0] == "flex_scores":
        torch._dynamo.reset()
        return scores(words), False
    if words[0] == "op":
        return op(words[1]), False
    if words[0] == "rows":
        return rows(words[1], words[2], int(words[3]), int(words[4])), False
    if words[0] == "call":
        return chain(int(words[1])), True
    if words[0] == "eager_add":
        a = torch.randn(64, device="cuda")
        b = torch.randn(64, device="cuda")
        return lambda: a + b, True
    return None, False


def timed(function, count, host):
    stretch = 100 if host else count
    seconds, done = 0.0, 0
    while done < count:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(min(stretch, count - done)):
            function()
        if host:
            seconds += time.perf_counter() - start
            torch.cuda.synchronize()
        else:
            torch.cuda.synchronize()
            seconds += time.perf_counter() - start
        done += stretch
    return seconds


def main():
    print("ready", flush=True)
    known, function, host = "", None, False
    for line in sys.stdin:
        count, task = line.rstrip("\n").split(" ", 1)
        if task != known:
            function = None
            torch.cuda.empty_cache()
            try:
                function, host = find(task)
                if function is not None:
                    for _ in range(3):
                        function()
            except Exception as error:  # a peer that fails is left out
                print(error, file=sys.stderr)
                function = None
            known = task
        print("%.9e" % (timed(function, int(count), host) if function is not None else -1.0), flush=True)


main()
