// What only a module made by hand can get wrong: each test breaks a valid module in one place.
#include <gtest/gtest.h>

#include <functional>

#include "ir/function.h"

namespace tessera::ir {
namespace {

constexpr std::string_view kText = R"(buffer @b : tensor<2 x f32>
func @f(%x: tensor<N x f32>, %p: tensor<bool>) -> tensor<N x f32> {
  %a = neg %x
  %s = sum %a {axes = [0]}
  %r = if %p -> (tensor<N x f32>) {
    %i = abs %a
    yield %i
  } else {
    yield %a
  }
  %w = while (%c = %r) -> (tensor<N x f32>) {
    yield false
  } do {
    yield %c
  }
  %v = buffer_read {buffer = "b"}
  %q = call @f(%w, %p)
  return %q
}
)";

void Broken(std::string_view part, const std::function<void(Module&, Function&)>& change) {
  auto module = Parse(kText, "m.gir");
  ASSERT_TRUE(module.ok()) << module.status().message();
  ASSERT_TRUE(Verify(**module).ok()) << Verify(**module).message();
  change(**module, *(*module)->functions[0]);
  const absl::Status s = Verify(**module);
  ASSERT_FALSE(s.ok()) << part;
  EXPECT_NE(s.message().find(absl::string_view(part.data(), part.size())), absl::string_view::npos) << s.message();
}

Operand ValueOperand(ValueId id) { return {Operand::Kind::value, id, {}}; }

TEST(IrVerifier, SaysWhere) {
  Broken("m.gir:3:8: in @f: neg: takes 1 operand, not 2",
         [](Module&, Function& f) { f.body.instructions[0].operands.push_back(f.body.instructions[0].operands[0]); });
}

TEST(IrVerifier, Values) {
  Broken("an operand is value 999, which does not exist",
         [](Module&, Function& f) { f.body.instructions[0].operands[0] = ValueOperand(999); });
  Broken("an operand is value -1, which does not exist",
         [](Module&, Function& f) { f.body.instructions[0].operands[0] = ValueOperand(-1); });
  Broken("%s is used before it is defined", [](Module&, Function& f) {
    f.body.instructions[0].operands[0] = ValueOperand(f.body.instructions[1].results[0]);
  });
  Broken("%i is defined inside a block", [](Module&, Function& f) {
    f.body.instructions.back().operands[0] = ValueOperand(f.body.instructions[2].blocks[0].instructions[0].results[0]);
  });
  Broken("%a is defined twice", [](Module&, Function& f) { f.body.instructions[1] = f.body.instructions[0]; });
  Broken("%a is defined twice", [](Module&, Function& f) { f.values[f.body.instructions[1].results[0]].name = "a"; });
  Broken("cannot be the name of a value", [](Module&, Function& f) { f.values[0].name = "a b"; });
  Broken("has a weak type", [](Module&, Function& f) { f.values[0].type.weak = true; });
}

TEST(IrVerifier, Types) {
  Broken("the type of %a is tensor<N x f32>, and tensor<N x i32> is recorded",
         [](Module&, Function& f) { f.values[f.body.instructions[0].results[0]].type.dtype = DType::i32; });
  Broken("dims are at least 0", [](Module&, Function& f) { f.values[0].type.dims[0] = -3; });
  Broken("a symbol of another function", [](Module&, Function& f) { f.values[0].type.dims[0] = kSymbolBase + 12345; });
  Broken("the rank is 9", [](Module&, Function& f) { f.values[0].type.rank = 9; });
  Broken("is not a dim of a parameter", [](Module&, Function& f) { f.symbols->Named("M"); });
}

TEST(IrVerifier, Attributes) {
  Broken("has 1 attributes, and its row of the op table 2",
         [](Module&, Function& f) { f.body.instructions[1].attrs.pop_back(); });
  Broken("attribute keepdims is missing",
         [](Module&, Function& f) { f.body.instructions[1].attrs[1] = std::monostate(); });
  Broken("attribute axes must be a list of integers",
         [](Module&, Function& f) { f.body.instructions[1].attrs[0] = 1.5; });
  Broken("which does not stand for a dim there",
         [](Module&, Function& f) { f.body.instructions[1].attrs[0] = Ints{f.symbols->Named("N")}; });
}

TEST(IrVerifier, Blocks) {
  Broken("does not end with return", [](Module&, Function& f) { f.body.instructions.pop_back(); });
  Broken("does not end with return", [](Module&, Function& f) { f.body.instructions.clear(); });
  Broken("does not end with yield",
         [](Module&, Function& f) { f.body.instructions[2].blocks[1].instructions.clear(); });
  Broken("return stands before the end",
         [](Module&, Function& f) { f.body.instructions[0] = f.body.instructions.back(); });
  Broken("if: has 1 blocks, not 2", [](Module&, Function& f) { f.body.instructions[2].blocks.pop_back(); });
  Broken("its blocks have no parameters",
         [](Module&, Function& f) { f.body.instructions[2].blocks[0].params.push_back(0); });
  Broken("both blocks have the same parameters",
         [](Module&, Function& f) { f.body.instructions[3].blocks[1].params.clear(); });
  Broken("while: its block has 0 parameters, not 1", [](Module&, Function& f) {
    for (Block& b : f.body.instructions[3].blocks) b.params.clear();
  });
  Broken("yield: 0 values are given",
         [](Module&, Function& f) { f.body.instructions[2].blocks[1].instructions[0].operands.clear(); });
  Broken("return: 0 values are given", [](Module&, Function& f) { f.body.instructions.back().operands.clear(); });
  Broken("nested more than 200 deep", [](Module&, Function& f) {
    for (int i = 0; i < 300; ++i) {
      Block inner = f.body.instructions[2].blocks[0];
      Instruction outer = f.body.instructions[2];
      outer.results.clear();
      f.body.instructions[2].blocks[0].instructions = {outer, inner.instructions.back()};
    }
  });
}

TEST(IrVerifier, Module) {
  Broken("there is no function @g", [](Module&, Function& f) {
    f.name = "g2";
    f.body.instructions[5].attrs[0] = std::string("g");
  });
  Broken("there is no buffer @b", [](Module& m, Function&) { m.buffers.clear(); });
  Broken("buffer @b is defined twice", [](Module& m, Function&) { m.buffers.push_back(m.buffers[0]); });
  Broken("a function has the name \"\"", [](Module&, Function& f) { f.name.clear(); });
  Broken("shard \"dp,tp\" names 2 dims", [](Module&, Function& f) { f.params[0].shard = "dp,tp"; });
  Broken("a shard belongs to no value", [](Module&, Function& f) { f.shards.emplace_back(1000, "dp"); });
  Broken("the shard of a parameter stands among",
         [](Module&, Function& f) { f.shards.emplace_back(f.params[0].value, "dp"); });
  Broken("there is no form tiled; it is packed, direct, stream, dot, tensor, few, split, attention or library",
         [](Module&, Function& f) { f.schedule = "form=tiled"; });
  Broken("rows is 1 to 1048576, not 0", [](Module&, Function& f) { f.schedule = "rows=0"; });
  Broken("has the entry \"\"", [](Module&, Function& f) { f.schedule = "rows=4,"; });
  Broken("has rows twice", [](Module&, Function& f) { f.tune_space = "rows=4 rows=4,rows=8"; });
  Broken("the key names Z, which is no symbol", [](Module&, Function& f) { f.tune_key = "Z"; });
}

}  // namespace
}  // namespace tessera::ir
