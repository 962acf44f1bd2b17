#!/usr/bin/env python3
"""Writes the TableGen definitions of tsr_graph from the op table ir/ops.def: one def for each row, with the row's
summary, attributes and effect. Run by the build; nothing of the op table is typed twice."""
import re
import sys

ATTRS = {
    "int": "I64Attr",
    "float": "F64Attr",
    "bool": "BoolAttr",
    "dtype": "TypeAttr",
    "ints": "DenseI64ArrayAttr",
    "str": "StrAttr",
}
# Control flow and effects do not occur in a trace as ops: they are its steps and its inputs.
NOT_IN_TRACES = {"control", "host"}
ROW = re.compile(r"^TSR_OP\((.*)\)\s*$")


def fields(text):
    """Splits the arguments of one TSR_OP at commas outside strings."""
    parts, current, quoted = [], "", False
    for c in text:
        if c == '"':
            quoted = not quoted
        if c == "," and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    parts.append(current.strip())
    return parts


def camel(name):
    return "".join(p.capitalize() for p in name.split("_"))


def define(row):
    name, operands, attrs, results, effect, dtypes, _, _, impl, _, bound, summary = row
    unquote = lambda s: s.strip('"')
    operands, attrs, summary = unquote(operands).split(), unquote(attrs).split(), unquote(summary)
    ins = ["Variadic<TsrGraph_Tensor>:$operands"]
    wheres = ["OptionalAttr<I32Attr>:$step", "OptionalAttr<DenseI32ArrayAttr>:$values",
              "OptionalAttr<DenseI32ArrayAttr>:$until", "OptionalAttr<DenseI32ArrayAttr>:$absent"]
    for a in attrs:
        attr, rest = a.split(":", 1)
        kind = rest.split("=", 1)[0]
        if kind not in ATTRS:  # tensors: constants are inputs of a trace
            continue
        ins.append(f"OptionalAttr<{ATTRS[kind]}>:${attr}")
    names = ["%" + o.split(":")[0].rstrip("?*") for o in operands if not o.endswith("?")]
    tensor = "tensor<8x16xf32>"
    example = " ".join(filter(None, [f"%y = tsr_graph.{name}", ", ".join(names), "step 4"]))
    example += f" : ({', '.join([tensor] * len(names))}) -> {tensor}"
    return f"""
def TsrGraph_{camel(name)}Op : TsrGraph_TableOp<"{name}", [Pure]> {{
  let summary = "{summary}";
  let description = [{{
    Operands: {" ".join(operands) or "none"}. Dtypes: {dtypes}. Implementation in tier 1: {impl}. Error bound: {bound}.

    ```mlir
    {example}
    ```
  }}];
  let arguments = (ins {", ".join(ins + wheres)});
}}
"""


def main():
    source, target = sys.argv[1:3]
    out = ["// Made from ir/ops.def by graph_ops.py. Do not edit.\n"]
    with open(source) as f:
        for line in f:
            match = ROW.match(line)
            if not match:
                continue
            row = fields(match.group(1))
            assert len(row) == 12, row
            if row[8] in NOT_IN_TRACES:
                continue
            out.append(define(row))
    with open(target, "w") as f:
        f.write("".join(out))


if __name__ == "__main__":
    main()
