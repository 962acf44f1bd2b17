#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "ir/builder.h"
#include "ir/function.h"
#include "ir/literal.h"
#include "runtime/device.h"

namespace tessera::ir {
namespace {

std::string RoundTrip(std::string_view text) {
  auto module = Parse(text);
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return "";
  EXPECT_TRUE(Verify(**module).ok()) << Verify(**module).message();
  const std::string printed = Print(**module);
  auto again = Parse(printed);
  EXPECT_TRUE(again.ok()) << again.status().message() << "\n" << printed;
  if (again.ok()) {
    EXPECT_EQ(Print(**again), printed);
  }
  return printed;
}

// Text in the printer's own spelling comes back unchanged.
void Unchanged(std::string_view text) { EXPECT_EQ(RoundTrip(text), text); }

TEST(IrText, Empty) {
  Unchanged("");
  EXPECT_EQ(RoundTrip("// nothing\n"), "");
}

TEST(IrText, FunctionsCallEachOther) {
  Unchanged(R"(buffer @steps : tensor<i64>
buffer @w : tensor<2 x 3 x f32>

func @even(%n: tensor<i64>) -> tensor<bool> {
  %z = eq %n, 0 : tensor<bool>
  %r = if %z -> (tensor<bool>) {
    yield true
  } else {
    %0 = sub %n, 1 : tensor<i64>
    %1 = call @odd(%0) : tensor<bool>
    yield %1
  }
  return %r
}

func @odd(%n: tensor<i64>) -> tensor<bool> {
  %0 = call @even(%n) : tensor<bool>
  %1 = logical_not %0 : tensor<bool>
  return %1
}
)");
}

TEST(IrText, CallsBindSymbols) {
  const std::string printed = RoundTrip(R"(
    func @f(%a: tensor<4 x B x f32>, %b: tensor<5 x f32>) -> tensor<(4*B) x f32> {
      %r = call @g(%a, %b)
      return %r
    }
    func @g(%a: tensor<N x M x f32>, %b: tensor<(N+1) x f32>) -> tensor<(N*M) x f32> {
      %0 = reshape %a {dims = [-1]}
      return %0
    })");
  EXPECT_NE(printed.find("%r = call @g(%a, %b) : tensor<(4*B) x f32>"), std::string::npos) << printed;
}

TEST(IrText, Loops) {
  Unchanged(R"(func @f(%x: tensor<B x f32>, %n: tensor<i32>) -> (tensor<i64>, tensor<B x f32>) {
  %0, %1 = while (%i = 0, %a = %x) -> (tensor<i64>, tensor<B x f32>) {
    %2 = lt %i, 10 : tensor<bool>
    yield %2
  } do {
    %3 = add %i, 1 : tensor<i64>
    %4 = mul %a, 0.5 : tensor<B x f32>
    yield %3, %4
  }
  for %k in (0, %n, 2) {
    print %k {label = "k"}
    yield
  }
  while {
    yield false
  } do {
    yield
  }
  %5 = for %j in (10, 0, -1) (%b = %1) -> (tensor<B x f32>) {
    yield %b
  }
  return %0, %5
}
)");
}

TEST(IrText, NamesAndNumbers) {
  const std::string printed =
      RoundTrip("func @f(%7: tensor<f32>, %x.y: tensor<f32>) { %3 = add %7, %x.y %z = neg %3 return }");
  EXPECT_EQ(printed,
            "func @f(%0: tensor<f32>, %x.y: tensor<f32>) {\n  %1 = add %0, %x.y : tensor<f32>\n  %z = neg %1 : "
            "tensor<f32>\n  "
            "return\n}\n");
}

TEST(IrText, DefaultsAreNotPrinted) {
  const std::string printed = RoundTrip(
      "func @f(%x: tensor<2 x f32>) { %a = sum %x {keepdims = false, axes = []} %b = var %x {correction = -0.0} return "
      "}");
  EXPECT_NE(printed.find("sum %x :"), std::string::npos) << printed;
  EXPECT_NE(printed.find("{correction = -0.0}"), std::string::npos) << printed;
}

TEST(IrText, AbsentOperands) {
  Unchanged(R"(func @f(%x: tensor<B x 8 x f32>, %b: tensor<8 x f32>) {
  %0 = layer_norm %x, _, %b : tensor<B x 8 x f32>
  %1 = layer_norm %x, %b : tensor<B x 8 x f32>
  return
}
)");
}

TEST(IrText, FactsLetWrittenDimsDiffer) {
  Unchanged(R"(func @f(%x: tensor<B x f32>, %y: tensor<S x f32>) -> tensor<S x f32> where B == S, S % 8 == 0 {
  %0 = add %x, %y : tensor<S x f32>
  %1 = reshape %0 {dims = [(S/8), 8]} : tensor<(S/8) x 8 x f32>
  return %0
}
)");
  EXPECT_EQ(RoundTrip("func @f(%x: tensor<S x f32>) where S %8 == 0, S%16==0 { return }"),
            "func @f(%x: tensor<S x f32>) where S % 8 == 0, S % 16 == 0 {\n  return\n}\n");
}

TEST(IrText, Parameters) {
  Unchanged(
      R"(func @f(%x: tensor<B x 4 x f32> {shard = "dp,*"}, %g: tensor<4 x f32> {privilege = "reduce_sum", shard = "*"}, %w: tensor<f32> {privilege = "write"}) {
  return
}
)");
}

TEST(IrText, ShardsOfValues) {
  Unchanged(
      R"(func @f(%x: tensor<B x 4 x f32> {shard = "dp:2,*"}, %p: tensor<bool>) -> tensor<B x 4 x f32> {
  %y = exp %x : tensor<B x 4 x f32> {shard = "dp:2,tp:4"}
  %a, %b = split %y {sizes = [1, 3], axis = 1} : tensor<B x 1 x f32> {shard = "dp,*"}, tensor<B x 3 x f32>
  %z = if %p -> (tensor<B x 4 x f32> {shard = "*,tp"}) {
    %w = neg %y : tensor<B x 4 x f32> {shard = "dp,*"}
    yield %w
  } else {
    yield %y
  }
  return %z
}
)");
}

TEST(IrText, Schedules) {
  Unchanged(
      R"(func @f(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> where K % 8 == 0 with {schedule = "form=packed,rows=64,nr=8"} {
  %0 = matmul %x, %w : tensor<M x N x f32>
  return %0
}

func @g(%x: tensor<M x K x f32>, %w: tensor<K x N x f32>) -> tensor<M x N x f32> with {space = "rows=32,nr=8 rows=64,nr=16", key = "M,K"} {
  %0 = matmul %x, %w : tensor<M x N x f32>
  return %0
}
)");
}

TEST(IrText, Strings) {
  Unchanged("func @f(%x: tensor<f32>) {\n  print %x {label = \"a\\\"b\\\\c\\n\\t\\x01\\x00\xc3\xa9\"}\n  return\n}\n");
}

// Every bit pattern of the narrow floats, and awkward ones of the wide ones, through text and back.
template <class Bits>
void CheckElements(DType dtype, const std::vector<Bits>& patterns) {
  Module module;
  FunctionBuilder b(module, "f");
  TensorType type;
  type.dtype = dtype;
  type.rank = 1;
  type.dims[0] = static_cast<int64_t>(patterns.size());
  auto tensor = rt::TensorImpl::Make(rt::Cpu(), type);
  ASSERT_TRUE(tensor.ok());
  std::memcpy((*tensor)->data, patterns.data(), patterns.size() * sizeof(Bits));
  b.Return({b.Constant(*tensor)});
  ASSERT_TRUE(b.Finish().ok()) << b.status();
  const std::string text = Print(module);
  auto again = Parse(text);
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto& value = std::get<rt::Ref<rt::TensorImpl>>((*again)->functions[0]->body.instructions[0].attrs[0]);
  ASSERT_EQ(value->dtype, dtype);
  for (size_t i = 0; i < patterns.size(); ++i)
    ASSERT_EQ(value->as<Bits>()[i], patterns[i]) << Name(dtype) << " element " << i;
}

template <class Bits>
std::vector<Bits> AllPatterns() {
  std::vector<Bits> all;
  for (uint32_t i = 0; i <= std::numeric_limits<Bits>::max(); ++i) all.push_back(static_cast<Bits>(i));
  return all;
}

TEST(IrText, ElementsOfEveryDType) {
  CheckElements<uint8_t>(DType::f8e4m3, AllPatterns<uint8_t>());
  CheckElements<uint8_t>(DType::f8e5m2, AllPatterns<uint8_t>());
  CheckElements<uint8_t>(DType::i8, AllPatterns<uint8_t>());
  CheckElements<uint8_t>(DType::u8, AllPatterns<uint8_t>());
  CheckElements<uint16_t>(DType::f16, AllPatterns<uint16_t>());
  CheckElements<uint16_t>(DType::bf16, AllPatterns<uint16_t>());
  CheckElements<uint8_t>(DType::boolean, {0, 1});
  CheckElements<uint32_t>(DType::f32, {0, 0x80000000, 1, 0x007fffff, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0xffc00000, 0x7fa00001, 0x3dcccccd, 0x4b800001});
  CheckElements<uint64_t>(DType::f64, {0, 1, 0x8000000000000000, 0x7fefffffffffffff, 0x7ff0000000000000,
                                       0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001, 0x3fb999999999999a});
  CheckElements<int64_t>(DType::i64, {0, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  CheckElements<int32_t>(DType::i32, {0, -1, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
}

TEST(IrText, NumbersRoundOnce) {
  Number n;
  n.kind = Number::Kind::real;
  uint16_t bits = 0;
  n.text = "1.00390625";  // halfway between two bf16: to even
  ASSERT_TRUE(StoreElement(n, DType::bf16, &bits));
  EXPECT_EQ(bits, 0x3f80);
  n.text = "1.01171875";
  ASSERT_TRUE(StoreElement(n, DType::bf16, &bits));
  EXPECT_EQ(bits, 0x3f82);
  n.text = "65520";  // rounds beyond the largest f16
  EXPECT_FALSE(StoreElement(n, DType::f16, &bits));
  n.text = "65519.9";
  ASSERT_TRUE(StoreElement(n, DType::f16, &bits));
  EXPECT_EQ(bits, 0x7bff);
  uint8_t byte = 0;
  n.text = "448.5";
  ASSERT_TRUE(StoreElement(n, DType::f8e4m3, &byte));
  EXPECT_EQ(byte, 0x7e);
  n.text = "480";
  EXPECT_FALSE(StoreElement(n, DType::f8e4m3, &byte));
}

TEST(IrText, Immediates) {
  Unchanged(R"(func @f(%x: tensor<f64>) {
  %0 = add %x, -9223372036854775808 : tensor<f64>
  %1 = add %x, 1e-300 : tensor<f64>
  %2 = add %x, -0.0 : tensor<f64>
  %3 = add %x, -inf : tensor<f64>
  %4 = add %x, nan(0x7ff8000000000001) : tensor<f64>
  %5 = add %x, true : tensor<f64>
  %6 = add %x, 1e+22 : tensor<f64>
  %7 = add %x, 5.0 : tensor<f64>
  return
}
)");
}

TEST(IrText, LongTextIsReadInOnePass) {
  std::string text = "func @f(%x: tensor<f32>) {\n  %v0 = neg %x\n";
  for (int i = 1; i < 50000; ++i) text += "  %v" + std::to_string(i) + " = add %v" + std::to_string(i - 1) + ", 1\n";
  text += "  return\n}\n";
  auto module = Parse(text);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ((*module)->functions[0]->body.instructions.size(), 50001u);
  EXPECT_EQ((*module)->functions[0]->body.instructions[2].loc.line, 4);
}

TEST(IrText, TheFirstErrorInTheTextIsReported) {
  const auto m = Parse("func @f() {\n  %a = ad 1, 2\n  return\n}\nfunc @g(%x: tensor<f31>) {\n  return\n}\n", "t.gir");
  ASSERT_FALSE(m.ok());
  EXPECT_EQ(m.status().message().substr(0, 12), "t.gir:2:8: e") << m.status().message();
}

// Every example in docs/graph-ir.md that is marked gir parses.
TEST(IrText, ExamplesInTheDocsAreValid) {
  const std::filesystem::path path = std::filesystem::path(TESSERA_TEST_DIR) / ".." / "docs" / "graph-ir.md";
  std::ifstream in(path);
  ASSERT_TRUE(in.good()) << path;
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  int examples = 0;
  for (size_t at = 0; (at = text.find("```gir\n", at)) != std::string::npos;) {
    at += 7;
    const size_t end = text.find("```", at);
    ASSERT_NE(end, std::string::npos);
    ++examples;
    RoundTrip(text.substr(at, end - at));
    at = end;
  }
  EXPECT_GE(examples, 5);
}

TEST(IrText, NamesDoNotStartWithADigit) {
  for (const std::string name : {"0A", "1.x", "12_", "0.0"}) {
    const auto module = Parse("func @f(%x: tensor<f32>) {\n  %" + name + " = exp %x\n  return\n}\n");
    ASSERT_FALSE(module.ok()) << name;
    EXPECT_NE(module.status().message().find("2:3: error: a name does not start with a digit"), std::string::npos)
        << module.status();
  }
  EXPECT_TRUE(Parse("func @f(%x: tensor<f32>) {\n  %07 = exp %x\n  return\n}\n").ok());
}

// Messages show a part of the line, from where a character begins; of bytes that begin none there may be any number.
TEST(IrText, LongLinesThatAreNoUtf8) {
  for (const size_t before : {0u, 1u, 100u, 159u, 160u, 161u, 2000u}) {
    for (const size_t after : {0u, 1u, 158u, 159u, 160u, 161u, 3000u}) {
      for (const std::string& start : {std::string(), std::string("buffer @x : tensor<f32>\n")}) {
        const auto module = Parse(start + std::string(before, '\x95') + "func" + std::string(after, '\xac'));
        ASSERT_FALSE(module.ok());
        EXPECT_LT(module.status().message().size(), 1000u);
      }
    }
  }
  // A whole character of four bytes at the cut is shown or is not.
  for (size_t n = 150; n < 170; ++n) {
    const std::string line = "?" + std::string(n, 'a') + "\xf0\x9f\x99\x82" + std::string(50, 'b');
    const std::string shown(Parse(line).status().message());
    const size_t at = shown.find('\xf0');
    EXPECT_EQ(shown.find('\x9f'), at == std::string::npos ? at : at + 1) << n;
    EXPECT_EQ(shown.find('\x82'), at == std::string::npos ? at : at + 3) << n;
  }
}

}  // namespace
}  // namespace tessera::ir
