#!/usr/bin/env python3
"""Writes the tables of CUDA devices from the JSON files beside this script: table.py README.md docs/benchmarks.md

The parts between "<!-- gpu ... -->" and "<!-- end -->" are replaced: "support", "headline" and "bench". A file has what run.sh wrote: "tests", "sanitize" and "bench",
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
        at = file.get("sanitize", {}).get("machine", {}).get("commit")
        # A tool that ran later than the others says at which commit.
        commits = {name: t.get("commit", at) for name, t in tools.items()}
        clean = ", ".join(f"{name} {t['clean']} of {t['of']}" + (f" (at {commits[name]})" if commits[name] != machine["commit"] else "")
                          for name, t in tools.items()) or "not run"
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


# What a reader who has a minute should see, ahead or behind: rows, what they are, and the peers that count there.
HEADLINE = (
    ("gpu_train_gpt/124m", "a training step of GPT-2 124M, bf16, 16 x 1024", ("PyTorch, eager", "PyTorch, compiled", "JAX")),
    ("gpu_train_lengths/124m", "the same with another length in each step, first 60", ("PyTorch, eager", "PyTorch, compiled", "JAX")),
    ("gpu_launch/eager_loop_30", "a loop of 30 small eager ops, by the host", ("PyTorch eager",)),
    ("gpu_until/solve_512", "a loop that ends by a value on the device", ("PyTorch eager",)),
    ("gpu_gemm_tier3/bf16_8192_8192_8192", "product of bf16, 8192 cubed", ("cuBLASLt, the fastest of eight",)),
    ("gpu_gemm_tier3/f8e4m3_product_8192", "product of f8, 8192 cubed", ("cuBLASLt, the fastest of eight, without scales",)),
    ("gpu_linear/bias_gelu_tanh_8192_4096_1024", "product, bias and gelu, 8192 x 4096 x 1024",
     ("torch.compile", "PyTorch eager", "cuBLASLt with its epilogue")),
    ("gpu_attention/bf16_4_16_16_4096_128_causal", "causal attention, 4096 keys, heads of 128", ("PyTorch (cuDNN)",)),
    ("gpu_attention/gradient_bf16_4_16_16_4096_128_full", "gradient of attention, full", ("PyTorch (cuDNN)",)),
    ("gpu_decode/bf16_128_32_8_8192_128", "attention of one query each, 128 sequences", ("PyTorch (cuDNN)",)),
    ("gpu_fused/softmax_bf16_16384x8192", "softmax, 16384 x 8192 bf16", ("torch.compile", "a copy of the same bytes")),
    ("gpu_fused/layer_norm_bf16_16384x8192", "layer norm, the same", ("torch.compile", "a copy of the same bytes")),
)


def headline(data):
    lines = ["| what | Tessera | peer | peer's | times as fast |", "| --- | --: | --- | --: | --: |"]
    rows = {(row["name"], row.get("peer")): row for file in data for row in file.get("bench", {}).get("results", [])}
    for name, what, peers in HEADLINE:
        for peer in peers:
            row = rows.get((name, peer))
            if row is None:
                continue
            lines.append(f"| {what} | {number(row['value'])} {row['unit']} | {peer} | {number(row['peer_value'])} | {number(row['ratio'])} |")
            what = ""
    return "\n".join(lines)


def main():
    data = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    for page in map(pathlib.Path, sys.argv[1:]):
        text = page.read_text()
        for name, table in (("support", support(data)), ("headline", headline(data)), ("bench", bench(data))):
            text = re.sub(rf"(<!-- gpu {name}[^\n]*-->\n).*?(<!-- end -->)", lambda m: m.group(1) + table + "\n" + m.group(2), text,
                          flags=re.DOTALL)
        page.write_text(text)


main()
