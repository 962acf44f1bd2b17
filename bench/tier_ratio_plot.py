#!/usr/bin/env python3
"""Draws docs/tier-ratio.svg from the JSON lines of the benchmark tier_ratio:

    ./dev bench tier_ratio | python3 bench/tier_ratio_plot.py docs/tier-ratio.svg
"""
import html
import json
import math
import sys

LEFT, RIGHT, TOP, ROW, BAR = 230, 130, 58, 34, 10
WIDTH = 820
STYLE = '''
  text { font: 12px sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: bold }
  .grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-dasharray: 4 3 }
  .two { fill: #8c959f } .three { fill: #0969da }
  .small { font-size: 10px; fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #c9d1d9 } .grid { stroke: #30363d } .one { stroke: #8b949e } .three { fill: #58a6ff }
    .small { fill: #8b949e }
  }
'''


def label(name):
    return name.split('/', 1)[1].replace('_', ' ')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = [json.loads(line) for line in sys.stdin if line.startswith('{"name": "tier_ratio/')]
    if not rows:
        sys.exit('tier_ratio_plot.py: no lines of tier_ratio on standard input')
    speeds = [(label(r['name']), r['tier_1_us'], r['tier_1_us'] / r['tier_2_us'], r['tier_1_us'] / r['tier_3_us'],
               r['tier_3_generated']) for r in rows]
    low = min(0.5, *(min(s[2], s[3]) for s in speeds))
    high = max(2, *(max(s[2], s[3]) for s in speeds)) * 1.05

    def at(speed):  # a logarithmic scale: twice as fast is as far from 1 as half as fast
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(speed / low) / math.log(high / low)

    height = TOP + ROW * len(speeds) + 52
    machine = rows[0]['machine']
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
           f'<style>{STYLE}</style>',
           f'<text class="title" x="12" y="22">Speed of tiers 2 and 3 against tier 1</text>',
           f'<rect class="two" x="{LEFT}" y="34" width="12" height="10"/><text x="{LEFT + 17}" y="43">tier 2</text>',
           f'<rect class="three" x="{LEFT + 75}" y="34" width="12" height="10"/>'
           f'<text x="{LEFT + 92}" y="43">tier 3</text>',
           f'<text class="small" x="12" y="43">time in tier 1</text>']
    bottom = TOP + ROW * len(speeds)
    for tick in (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16):
        if low <= tick <= high:
            kind = 'one' if tick == 1 else 'grid'
            out.append(f'<line class="{kind}" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{TOP}" y2="{bottom}"/>')
            out.append(f'<text class="small" x="{at(tick):.1f}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>')
    for i, (name, us, two, three, generated) in enumerate(speeds):
        y = TOP + ROW * i + 6
        out.append(f'<text x="12" y="{y + 10}">{html.escape(name)}</text>')
        time = f'{us:.3g} us' if us < 1000 else f'{us / 1000:.3g} ms'
        out.append(f'<text class="small" x="12" y="{y + 22}">{time}</text>')
        for kind, speed, top in (('two', two, y), ('three', three, y + BAR + 1)):
            x1, x2 = sorted((at(1), at(speed)))
            out.append(f'<rect class="{kind}" x="{x1:.1f}" y="{top}" width="{max(x2 - x1, 1):.1f}" height="{BAR}"/>')
            note = f'{speed:.2f}'
            if kind == 'three' and generated is not None:
                note += f', {generated:.0%} generated'
            # Beside the bar, on the side where it ends.
            edge, anchor = (x2 + 4, 'start') if speed >= 1 else (at(1) + 4, 'start')
            out.append(f'<text class="small" x="{edge:.1f}" y="{top + 9}" text-anchor="{anchor}">{note}</text>')
    out.append(f'<text class="small" x="12" y="{height - 12}">{html.escape(machine["cpu"])}, {machine["cores"]} cores; '
               'right of 1 is faster; generated: the part of the time of tier 3 in generated code. '
               'Made by bench/tier_ratio_plot.py.</text>')
    out.append('</svg>')
    with open(sys.argv[1], 'w', encoding='utf-8') as file:
        file.write('\n'.join(out) + '\n')


if __name__ == '__main__':
    main()
