// Makes a failing Graph IR program smaller. Every change is tried on a copy of the module; what the parser refuses, or
// what no longer fails, is dropped.
#include <algorithm>
#include <functional>

#include "ir/typing.h"
#include "tests/random/gir.h"
#include "tests/random/op_gen.h"

namespace tessera::random {
namespace {

using ir::Block;
using ir::Function;
using ir::Instruction;
using ir::Module;
using ir::Op;
using ir::Operand;

void Substitute(Block& block, ValueId from, const Operand& to) {
  for (Instruction& inst : block.instructions) {
    for (Operand& o : inst.operands)
      if (o.kind == Operand::Kind::value && o.value == from) o = to;
    for (Block& b : inst.blocks) Substitute(b, from, to);
  }
}

struct BlockRef {
  Function* function;
  Block* block;
};

void Collect(Function& f, Block& block, std::vector<BlockRef>& out) {
  out.push_back({&f, &block});
  for (Instruction& inst : block.instructions)
    for (Block& b : inst.blocks) Collect(f, b, out);
}

std::vector<BlockRef> Blocks(Module& m) {
  std::vector<BlockRef> out;
  for (auto& f : m.functions) Collect(*f, f->body, out);
  return out;
}

// What may stand for a result when its instruction goes, by `choice`; false when there is no such choice.
bool Replacement(Function& f, const Instruction& inst, ValueId result, int choice, Operand* to) {
  const TensorType& type = f.values[result].type;
  const auto same = [&](ValueId v) { return ir::SameType(f.symbols.get(), f.values[v].type, type); };
  std::vector<ValueId> candidates;
  for (const Operand& o : inst.operands)
    if (o.kind == Operand::Kind::value && same(o.value)) candidates.push_back(o.value);
  for (ValueId v = result - 1; v >= 0 && candidates.size() < 4; --v)
    if (same(v)) candidates.push_back(v);
  if (choice >= static_cast<int>(candidates.size())) return false;
  *to = Use(candidates[static_cast<size_t>(choice)]);
  return true;
}

constexpr int kChoices = 6;  // unused; up to 4 other values; a new tensor

bool RemoveInstruction(Module& m, size_t b, size_t i, int choice) {
  const BlockRef ref = Blocks(m)[b];
  Function& f = *ref.function;
  const Instruction inst = ref.block->instructions[i];
  if (inst.op == Op::k_yield || inst.op == Op::k_return) return false;
  if (choice > 0 && inst.results.empty()) return false;
  if (choice == kChoices - 1) {
    if (inst.results.size() != 1 || inst.op == Op::k_full || inst.op == Op::k_constant) return false;
    const TensorType& type = f.values[inst.results[0]].type;
    ref.block->instructions[i] = {
        Op::k_full, {Imm(int64_t{1})}, {ir::Ints(type.dims, type.dims + type.rank), type.dtype}, inst.results,
        {},         inst.loc};
    return true;
  }
  for (ValueId r : inst.results) {
    Operand to;
    if (choice == 0) continue;
    if (!Replacement(f, inst, r, choice - 1, &to)) return false;
    Substitute(f.body, r, to);
  }
  ref.block->instructions.erase(ref.block->instructions.begin() + static_cast<int64_t>(i));
  return true;
}

// Puts the instructions of one of its blocks in place of an `if` or a loop, as if it ran once.
bool Unwrap(Module& m, size_t b, size_t i, size_t which) {
  const BlockRef ref = Blocks(m)[b];
  Instruction inst = ref.block->instructions[i];
  if (which >= inst.blocks.size() || (inst.op == Op::k_while && which == 0)) return false;
  Block body = std::move(inst.blocks[which]);
  const std::vector<Operand> yields = body.instructions.back().operands;
  body.instructions.pop_back();
  auto& list = ref.block->instructions;
  list.erase(list.begin() + static_cast<int64_t>(i));
  list.insert(list.begin() + static_cast<int64_t>(i), body.instructions.begin(), body.instructions.end());
  for (size_t k = 0; k < inst.results.size(); ++k) Substitute(ref.function->body, inst.results[k], yields[k]);
  const size_t skip = inst.op == Op::k_for ? 2 : 0;  // start stands for the index, then come the carried values
  for (size_t k = 0; k < body.params.size(); ++k)
    Substitute(ref.function->body, body.params[k], inst.operands[k == 0 ? 0 : k + skip]);
  return true;
}

// One result of an `if` or a loop, which keeps its initial value from then on.
bool DropResult(Module& m, size_t b, size_t i, size_t k) {
  const BlockRef ref = Blocks(m)[b];
  Instruction& inst = ref.block->instructions[i];
  if (inst.blocks.empty() || k >= inst.results.size()) return false;
  const auto erase = [](auto& list, size_t at) { list.erase(list.begin() + static_cast<int64_t>(at)); };
  if (inst.op != Op::k_if) {
    const size_t operand = inst.op == Op::k_for ? k + 3 : k;
    const size_t param = inst.op == Op::k_for ? k + 1 : k;
    const Operand init = inst.operands[operand];
    const ValueId result = inst.results[k], carried = inst.blocks.back().params[param];
    erase(inst.operands, operand);
    for (Block& block : inst.blocks) erase(block.params, param);
    erase(inst.blocks.back().instructions.back().operands, k);
    erase(inst.results, k);
    Substitute(ref.function->body, result, init);
    Substitute(ref.function->body, carried, init);
    return true;
  }
  for (Block& block : inst.blocks) erase(block.instructions.back().operands, k);
  erase(inst.results, k);
  return true;
}

bool ShrinkNumber(Module& m, size_t b, size_t i, size_t k, int64_t divisor) {
  Instruction& inst = Blocks(m)[b].block->instructions[i];
  if (k >= inst.operands.size() || inst.operands[k].kind != Operand::Kind::immediate) return false;
  int64_t* number = std::get_if<int64_t>(&inst.operands[k].immediate);
  if (number == nullptr || std::abs(*number) < 2 || *number / divisor == *number) return false;
  *number /= divisor;
  return true;
}

const Instruction* DefinitionOf(const Block& block, const Operand& x) {
  for (const Instruction& inst : block.instructions)
    for (ValueId r : inst.results)
      if (x.kind == Operand::Kind::value && x.value == r) return &inst;
  return nullptr;
}

// Every `while` still counts: it goes on while its first value is below a number, to which each round adds 1. Others
// might never end.
bool Ends(const Block& block) {
  const auto reads = [](const Instruction* inst, Op op, ValueId first) {
    return inst != nullptr && inst->op == op && inst->operands[0].kind == Operand::Kind::value &&
           inst->operands[0].value == first && inst->operands[1].kind == Operand::Kind::immediate;
  };
  for (const Instruction& inst : block.instructions) {
    for (const Block& inner : inst.blocks)
      if (!Ends(inner)) return false;
    if (inst.op != Op::k_while) continue;
    const Block &test = inst.blocks[0], &body = inst.blocks[1];
    const Instruction* go = DefinitionOf(test, test.instructions.back().operands[0]);
    if (go != nullptr && go->op == Op::k_logical_and) go = DefinitionOf(test, go->operands[0]);
    if (body.params.empty() || !reads(go, Op::k_lt, test.params[0]) ||
        !reads(DefinitionOf(body, body.instructions.back().operands[0]), Op::k_add, body.params[0]))
      return false;
  }
  return true;
}

void EachCall(Block& block, const std::string& callee, const std::function<void(Instruction&)>& fn) {
  for (Instruction& inst : block.instructions) {
    if (inst.op == Op::k_call && std::get<std::string>(inst.attrs[0]) == callee) fn(inst);
    for (Block& b : inst.blocks) EachCall(b, callee, fn);
  }
}

bool DropFunctionResult(Module& m, size_t f, size_t k) {
  Function& function = *m.functions[f];
  if (k >= function.results.size()) return false;
  const auto erase = [&](auto& list) { list.erase(list.begin() + static_cast<int64_t>(k)); };
  erase(function.results);
  erase(function.body.instructions.back().operands);
  for (auto& caller : m.functions)
    EachCall(caller->body, function.name, [&](Instruction& call) { erase(call.results); });
  return true;
}

bool DropParam(Module& m, size_t f, size_t k) {
  Function& function = *m.functions[f];
  // A file test calls functions without parameters, so each keeps one.
  if (k >= function.params.size() || function.params.size() == 1) return false;
  const auto erase = [&](auto& list) { list.erase(list.begin() + static_cast<int64_t>(k)); };
  erase(function.params);
  for (auto& caller : m.functions)
    EachCall(caller->body, function.name, [&](Instruction& call) { erase(call.operands); });
  return true;
}

}  // namespace

void GirProgram::Reduce(const std::function<bool(const std::string&)>& fails) {
  const auto accept = [&](std::string module, std::vector<Call> calls) {
    GirProgram smaller(std::move(module), std::move(calls));
    if (!fails(smaller.Text())) return false;
    *this = std::move(smaller);
    return true;
  };
  // Applies `change` to a copy of the module. A value that lost its definition prints as "%", which does not parse.
  const auto attempt = [&](const std::function<bool(Module&)>& change, int dropped_arg = -1) {
    auto module = ir::Parse(module_);
    if (!module.ok() || !change(**module)) return false;
    for (const auto& f : (*module)->functions)
      if (!Ends(f->body)) return false;
    const std::string text = ir::Print(**module);
    if (text == module_ || !ir::Parse(text).ok()) return false;
    std::vector<Call> calls = calls_;
    if (dropped_arg >= 0)
      for (Call& c : calls) c.erase(c.begin() + dropped_arg);
    return accept(text, std::move(calls));
  };
  const auto reduce_calls = [&] {
    bool changed = false;
    for (size_t n = std::max<size_t>(1, calls_.size() / 2); n > 0; n /= 2) {
      for (size_t at = calls_.size(); at-- > 0;) {
        if (at + n > calls_.size() || calls_.size() == n) continue;
        std::vector<Call> fewer = calls_;
        fewer.erase(fewer.begin() + static_cast<int64_t>(at), fewer.begin() + static_cast<int64_t>(at + n));
        changed |= accept(module_, std::move(fewer));
      }
    }
    return changed;
  };

  for (bool changed = true; changed;) {
    changed = reduce_calls();
    for (size_t f = (*ir::Parse(module_))->functions.size(); f-- > 0;) {
      const std::string name = (*ir::Parse(module_))->functions[f]->name;
      const bool is_main = name == "main";
      if (!is_main && attempt([&](Module& m) {
            m.functions.erase(m.functions.begin() + static_cast<int64_t>(f));
            return true;
          })) {
        changed = true;
        continue;
      }
      for (size_t k = 8; k-- > 0;) {
        changed |= attempt([&](Module& m) { return DropFunctionResult(m, f, k); });
        changed |= attempt([&](Module& m) { return DropParam(m, f, k); }, is_main ? static_cast<int>(k) : -1);
      }
    }
    for (size_t k = 3; k-- > 0;) {
      changed |= attempt([&](Module& m) {
        if (k >= m.buffers.size()) return false;
        m.buffers.erase(m.buffers.begin() + static_cast<int64_t>(k));
        return true;
      });
    }
    // From the end: what is used last goes first, and then what it used is unused. Lists shrink as we go.
    for (size_t b = 0;; ++b) {
      auto module = ir::Parse(module_);
      std::vector<BlockRef> blocks = Blocks(**module);
      if (b >= blocks.size()) break;
      for (size_t i = blocks[b].block->instructions.size(); i-- > 0;) {
        const auto still = [&] {
          auto now = ir::Parse(module_);
          const std::vector<BlockRef> refs = Blocks(**now);
          return b < refs.size() && i < refs[b].block->instructions.size();
        };
        if (!still()) continue;
        bool gone = false;
        for (int choice = 0; choice < kChoices && !gone; ++choice)
          gone = attempt([&](Module& m) { return RemoveInstruction(m, b, i, choice); });
        for (size_t which = 0; which < 2 && !gone; ++which)
          gone = attempt([&](Module& m) { return Unwrap(m, b, i, which); });
        changed |= gone;
        if (gone) continue;
        for (size_t k = 6; k-- > 0;) changed |= attempt([&](Module& m) { return DropResult(m, b, i, k); });
        for (size_t k = 0; k < 3; ++k) {
          for (int64_t divisor : {8, 2})
            while (attempt([&](Module& m) { return ShrinkNumber(m, b, i, k, divisor); })) changed = true;
        }
      }
    }
  }
}

}  // namespace tessera::random
