#include "lang/builtins.h"

#include <algorithm>
#include <deque>

#include "absl/container/flat_hash_map.h"

namespace tessera::lang {
namespace {

struct Table {
  std::deque<Builtin> rows;
  absl::flat_hash_map<std::string_view, const Builtin*> by_name;
  std::vector<const Builtin*> sorted;

  void Add(Builtin row) {
    // What builtins.def says of a name goes before the op of that name.
    if (by_name.contains(row.name)) return;
    rows.push_back(row);
    by_name.emplace(row.name, &rows.back());
  }
  Table() {
#define TSR_BUILTIN(name, signature, summary) Add({#name, BuiltinId::b_##name, {}, signature, summary});
#define TSR_HOST(name, signature, summary) Add({#name, BuiltinId::b_##name, {}, signature, summary});
#define TSR_ALIAS(name, the_op) Add({#name, BuiltinId::op, ir::Op::k_##the_op, "", ""});
#include "lang/builtins.def"
    for (const ir::OpInfo& op : ir::AllOps())
      if (IsCallable(op.op)) Add({op.name, BuiltinId::op, op.op, "", ""});
    for (const Builtin& row : rows) sorted.push_back(&row);
    std::sort(sorted.begin(), sorted.end(), [](const Builtin* a, const Builtin* b) { return a->name < b->name; });
  }
};

const Table& TheTable() {
  static const auto* table = new Table;
  return *table;
}

}  // namespace

const Builtin* FindBuiltin(std::string_view name) {
  const Table& table = TheTable();
  const auto it = table.by_name.find(name);
  return it == table.by_name.end() ? nullptr : it->second;
}

absl::Span<const Builtin* const> AllBuiltins() { return TheTable().sorted; }

bool IsCallable(ir::Op op) {
  switch (op) {
    case ir::Op::k_constant:
    case ir::Op::k_buffer_read:
    case ir::Op::k_buffer_write:
    case ir::Op::k_buffer_add:
    case ir::Op::k_print:
    case ir::Op::k_host_read: return false;
    default: return ir::Info(op).effect != ir::Effect::control;
  }
}

}  // namespace tessera::lang
