#!/usr/bin/env python3
"""Turns the JSON lines of ./dev bench into the Markdown table of the README:

    ./dev bench | python3 bench/table.py
"""
import json
import sys


def number(value):
    if value is None:
        return ''
    return f'{value:.0f}' if abs(value) >= 100 else f'{value:.3g}'


def main():
    rows = [json.loads(line) for line in sys.stdin if line.startswith('{')]
    if not rows:
        sys.exit('table.py: no JSON lines on standard input')
    machine = rows[0]['machine']
    print(f'On {machine["cpu"]}, {machine["cores"]} cores, {machine["isa"]}, {machine["compiler"]}:' if isinstance(machine, dict)
          else f'On {machine}:')
    print('\n| what | measured | peer | peer measured | ratio | goal |\n| --- | --: | --- | --: | --: | --- |')
    for r in rows:
        goal = r.get('goal', '')
        if goal:
            goal += ': met' if r.get('goal_met') else ': missed'
        print(f'| `{r["name"]}` | {number(r["value"])} {r["unit"]} | {r["peer"] or ""} | {number(r["peer_value"])} | '
              f'{number(r["ratio"])} | {goal} |')


if __name__ == '__main__':
    main()
