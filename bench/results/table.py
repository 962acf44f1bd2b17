#!/usr/bin/env python3
"""Writes the README's tables of CUDA devices from the JSON files beside this script: table.py README.md

The parts between "<!-- gpu ... -->" and "<!-- end -->" are replaced. A file has what run.sh wrote: "tests", "sanitize" and "bench",
each with the machine, the commit and the date.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent


def support(data):
    lines = ["| device | driver, CUDA | tests | compute-sanitizer | commit | date |", "| --- | --- | --- | --- | --- | --- |"]
    for file in data:
        machine = file["tests"]["machine"]
        totals = file["tests"]["totals"]
        tools = file.get("sanitize", {}).get("tools", {})
        clean = ", ".join(f"{name} {t['clean']} of {t['of']}" for name, t in tools.items()) or "not run"
        at = file.get("sanitize", {}).get("machine", {}).get("commit")
        if at and at != machine["commit"]:
            clean += f" (at {at})"
        lines.append(f"| {machine['device']} | {machine['driver']}, {machine['cuda']} | {totals['passed']} of {totals['tests']} | "
                     f"{clean} | {machine['commit']} | {machine['date'][:10]} |")
    return "\n".join(lines)


def number(value):
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def bench(data):
    lines = ["| what | measured | peer | peer measured | ratio | goal |", "| --- | --: | --- | --: | --: | --- |"]
    last = None
    for row in (row for file in data for row in file.get("bench", {}).get("results", [])):
        # Lower tiers are shown where there is no other peer.
        if row.get("peer") in ("tier 1", "tier 2") and row["name"] == last:
            continue
        # The goal is about the first peer.
        goal = row.get("goal") if row["name"] != last else None
        last = row["name"]
        goal = f"{goal}: {'met' if row.get('goal_met') else 'missed'}" if goal and row.get("goal_met") is not None else ""
        lines.append(f"| `{row['name']}` | {number(row['value'])} {row['unit']} | {row.get('peer') or ''} | "
                     f"{number(row.get('peer_value'))} | {number(row.get('ratio'))} | {goal} |")
    return "\n".join(lines)


def main():
    readme = pathlib.Path(sys.argv[1])
    data = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    text = readme.read_text()
    for name, table in (("support", support(data)), ("bench", bench(data))):
        text = re.sub(rf"(<!-- gpu {name}[^\n]*-->\n).*?(<!-- end -->)", lambda m: m.group(1) + table + "\n" + m.group(2), text,
                      flags=re.DOTALL)
    readme.write_text(text)


main()
