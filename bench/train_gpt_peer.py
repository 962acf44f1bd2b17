"""What the peers of train_gpt (train_gpt_torch.py, train_gpt_jax.py) share: sizes, arguments, the clock and the report."""
import argparse
import json
import math
import statistics
import time

# Layers, heads, width, vocabulary, context, batch.
SIZES = {"tiny": (2, 4, 64, 256, 64, 8), "10m": (6, 6, 384, 256, 128, 4), "124m": (12, 12, 768, 50304, 1024, 16)}
RATE, DECAY, CLIP, BETA1, BETA2, EPSILON = 3e-4, 0.1, 1.0, 0.9, 0.999, 1e-8
CHUNK = 10  # steps from one read of the loss to the next


def arguments(doc, ways=()):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", default="124m", help="tiny, 10m or 124m; with _lengths: as --lengths")
    parser.add_argument("steps_", metavar="steps", nargs="?", type=int, default=120)
    parser.add_argument("device", nargs="?", default="cuda", help="cpu or cuda")
    parser.add_argument("dtype", nargs="?", default="BF16", choices=("F32", "BF16"))
    parser.add_argument("started", nargs="?", type=float, default=time.monotonic(),
                        help="seconds on the steady clock when the process was started")
    if ways:
        parser.add_argument("way", nargs="?", default=ways[0], choices=ways)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--lengths", action="store_true", help="another length in each step, 128 to 1024 by eights")
    parser.add_argument("--limit", type=float, default=math.inf,
                        help="seconds after which no further step begins; the report says how many were done")
    args = parser.parse_args()
    args.lengths = args.lengths or args.size.endswith("_lengths")
    args.size = args.size.removesuffix("_lengths")
    if args.size not in SIZES:
        parser.error(f"no size {args.size}")
    args.steps = args.steps_ if args.steps is None else args.steps
    return args


def length_of(step, args):
    """That of tessera_train_gpt."""
    context = SIZES[args.size][4]
    return min(128 + 8 * (step * 37 % 113), context) if args.lengths else context


class Clock:
    """Times of steps since the start of the process, taken when a loss was read."""

    def __init__(self, args):
        self.args, self.done, self.at, self.loss = args, 0, [], math.nan

    def reads(self, step):
        """Is the loss of this step read?"""
        return step == 0 or step % CHUNK == CHUNK - 1 or step == self.args.steps - 1 or self.late()

    def late(self):
        return time.monotonic() - self.args.started > self.args.limit

    def stepped(self, step, loss=None):
        self.done = step + 1
        if loss is not None:
            self.loss = loss
            self.at.append((self.done, time.monotonic() - self.args.started))

    def report(self, parameters, peak_bytes, **more):
        each = [(t1 - t0) / (n1 - n0) for (n0, t0), (n1, t1) in zip(self.at, self.at[1:])]
        late = each[len(self.at) // 2:]
        print(json.dumps({"first_s": self.at[0][1], "all_s": self.at[-1][1], "steps_done": self.done,
                          "step_s": statistics.median(late) if late else 0, "best_s": min(late, default=0),
                          "parameters": parameters, "peak_bytes": peak_bytes,
                          "loss": self.loss if math.isfinite(self.loss) else None,
                          "at": [[n, round(t, 4)] for n, t in self.at], **more}))
