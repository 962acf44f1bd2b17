#!/usr/bin/env python3
"""Draws steps per second over time, from exec on, from the JSON lines of train_gpt_10m, gpu_train_gpt and the like:

    ./dev bench train_gpt_10m | python3 bench/train_gpt_plot.py docs/train-gpt-10m.svg [--save bench/results/cpu/train_gpt_10m.json]

With --save the lines are kept there; `train_gpt_plot.py FILE.svg < KEPT` draws them again.
"""
import html
import json
import math
import os
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 420, 64, 190, 50, 62
COLOURS = {"Tessera": "#0969da", "tier 1": "#8c959f", "PyTorch, eager": "#cf7c00", "PyTorch, compiled": "#cf222e",
           "JAX": "#1a7f37"}
STYLE = '''
  text { font: 12px sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: bold }
  .grid { stroke: #d0d7de } .axis { stroke: #57606a }
  .small { font-size: 10px; fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #c9d1d9 } .grid { stroke: #30363d } .axis { stroke: #8b949e } .small { fill: #8b949e }
  }
'''


def rates(at):
    """Stretches (from, to, steps per second): nothing is done before the first step ends, which is most of compiling."""
    out, done, time = [], 0, 0.0
    for steps, end in at:
        out.append((time, end, (steps - done) / max(end - time, 1e-9)))
        done, time = steps, end
    return out


def ticks(high, most=7):
    """Multiples of 1, 2 or 5 times a power of ten, up to `high`."""
    step = 10.0 ** math.floor(math.log10(high))
    step = next(s for s in (step / 10, step / 5, step / 2, step, 2 * step, 5 * step) if high / s <= most)
    return [i * step for i in range(int(high / step) + 1)]


def main():
    words = sys.argv[1:]
    save = words.pop(words.index("--save") + 1) if "--save" in words else None
    words = [word for word in words if word != "--save"]
    if len(words) != 1:
        sys.exit(__doc__)
    lines = [line for line in sys.stdin if line.startswith("{")]
    rows = [row for row in map(json.loads, lines) if row.get("at")]
    if not rows:
        sys.exit("train_gpt_plot.py: no lines of training on standard input")
    if save:
        os.makedirs(os.path.dirname(save) or ".", exist_ok=True)
        with open(save, "w", encoding="utf-8") as file:
            file.writelines(lines)
    curves = {"Tessera": rates(rows[0]["at"])}
    for row in rows:
        if row.get("peer") and row.get("peer_at"):
            curves[row["peer"]] = rates(row["peer_at"])
    last = max(stretches[-1][1] for stretches in curves.values()) * 1.02
    most = max(rate for stretches in curves.values() for _, _, rate in stretches) * 1.1

    def x(time):
        return LEFT + (WIDTH - LEFT - RIGHT) * time / last

    def y(rate):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / most

    machine, steps = rows[0]["machine"], rows[0]["steps"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
           f'<style>{STYLE}</style>',
           f'<text class="title" x="12" y="22">Training a GPT of {rows[0]["parameters"] / 1e6:.3g} M parameters: '
           f'steps per second since exec, {steps} steps</text>']
    for tick in ticks(most):
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        out.append(f'<text class="small" x="{LEFT - 6}" y="{y(tick) + 3:.1f}" text-anchor="end">{tick:.3g}</text>')
    for tick in ticks(last, 12):
        out.append(f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y(0):.1f}" y2="{y(0) + 4:.1f}"/>')
        out.append(f'<text class="small" x="{x(tick):.1f}" y="{y(0) + 16:.1f}" text-anchor="middle">{tick:g} s</text>')
    out.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>')
    for i, (name, stretches) in enumerate(curves.items()):
        colour = COLOURS.get(name, "#8250df")
        points = " ".join(f"{x(t):.1f},{y(rate):.1f}" for begin, end, rate in stretches for t in (begin, end))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<circle cx="{x(stretches[-1][1]):.1f}" cy="{y(stretches[-1][2]):.1f}" r="3.5" fill="{colour}"/>')
        top = TOP + 6 + 44 * i
        out.append(f'<rect x="{WIDTH - RIGHT + 14}" y="{top}" width="14" height="10" fill="{colour}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 34}" y="{top + 9}">{html.escape(name)}</text>')
        out.append(f'<text class="small" x="{WIDTH - RIGHT + 34}" y="{top + 22}">first step after {stretches[0][1]:.3g} s,'
                   f'</text><text class="small" x="{WIDTH - RIGHT + 34}" y="{top + 34}">all after '
                   f'{stretches[-1][1]:.3g} s</text>')
    out.append(f'<text class="small" x="12" y="{HEIGHT - 24}">A stretch is the steps from one read of the loss to the next; '
               'the first is from exec to the end of the first step. A dot is the last step.</text>')
    load = machine.get("load") or machine.get("load_average")
    out.append(f'<text class="small" x="12" y="{HEIGHT - 10}">{html.escape(str(machine["cpu"]))}, {machine["cores"]} cores'
               + (f", load {html.escape(str(load))}" if load is not None else "") +
               '. Made by bench/train_gpt_plot.py.</text>')
    out.append('</svg>')
    with open(words[0], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
