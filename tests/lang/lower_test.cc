// Functions to Graph IR: every module verifies and reads back from its text, and instances are found again.
#include <gtest/gtest.h>

#include "ir/function.h"
#include "lang/builtins.h"
#include "lang/text.h"
#include "tests/lang/harness.h"

namespace tessera::lang {
namespace {

std::string Lower(FrontEnd& fe, const std::string& call) {
  const Instance* f = fe.Call(call);
  if (f == nullptr) return "no instance\n" + fe.Rendered();
  const absl::Status verified = ir::Verify(*f->state->module);
  EXPECT_TRUE(verified.ok()) << verified.message() << "\n" << FrontEnd::Print(*f);
  const std::string text = FrontEnd::Print(*f);
  auto again = ir::Parse(text);
  EXPECT_TRUE(again.ok()) << again.status().message();
  if (again.ok()) EXPECT_EQ(ir::Print(**again), text);
  return f->signature;
}

TEST(LowerTest, DimsOfEqualSizeShareASymbol) {
  FrontEnd fe;
  fe.Run("t", "def f(x, y):\n    return x @ y\n");
  EXPECT_EQ(Lower(fe, "f(f32[4,3], f32[3,8])"), "f(f32[A,B], f32[B,C])");
  EXPECT_EQ(Lower(fe, "f(f32[5,6], f32[6,7])"), "f(f32[A,B], f32[B,C])");
  EXPECT_EQ(Lower(fe, "f(f32[1,3], f32[3,0])"), "f(f32[1,A], f32[A,0])");
  Desc f;
  ASSERT_TRUE(fe.Lookup(fe.ast().Find("f"), &f));
  EXPECT_EQ(fe.instances().Of(*f.def).size(), 2u) << "one serves all sizes but 0 and 1";
}

TEST(LowerTest, FactsThatTheSizesAllow) {
  FrontEnd fe;
  fe.Run("t",
         "def f(x):\n    return x + ones(8)\ndef g(x):\n    return x.reshape(-1, 4)\ndef h(x):\n    return f(x)\n");
  EXPECT_EQ(Lower(fe, "f(f32[8])"), "f(f32[A]) where A == 8");
  EXPECT_EQ(Lower(fe, "f(f32[1])"), "f(f32[1])");
  EXPECT_NE(Lower(fe, "f(f32[7])").find("cannot broadcast f32[7] with f32[8]"), std::string::npos);
  EXPECT_EQ(Lower(fe, "g(f32[12])"), "g(f32[A]) where A % 4 == 0");
  EXPECT_NE(Lower(fe, "g(f32[10])").find("10 elements do not divide"), std::string::npos);
  EXPECT_EQ(Lower(fe, "h(f32[8])"), "h(f32[A]) where A == 8") << "a caller assumes what its callee does";
}

TEST(LowerTest, NumbersAreBuiltInWhereTheyMustBe) {
  FrontEnd fe;
  fe.Run(
      "t",
      "def f(x, n):\n    return x * n\ndef g(n):\n    return zeros(n)\ndef h(x, axis):\n    return x.sum(axis=axis)\n");
  EXPECT_EQ(Lower(fe, "f(f32[4], 3)"), "f(f32[A], int)");
  EXPECT_EQ(Lower(fe, "f(f32[4], 3.5)"), "f(f32[A], float)");
  EXPECT_EQ(Lower(fe, "g(3)"), "g(n=3)");
  EXPECT_EQ(Lower(fe, "g(4)"), "g(n=4)");
  EXPECT_EQ(Lower(fe, "h(f32[4,5], 1)"), "h(f32[A,B], axis=1)");
}

TEST(LowerTest, TheSecondPowerIsASquare) {
  FrontEnd fe;
  fe.Run("t",
         "def f(x):\n    return x ** 2\ndef g(x):\n    return pow(x, 2.0)\ndef h(x):\n    return x ** 3\n"
         "def k(x, n):\n    return x ** n\n");
  const auto text = [&](const std::string& call) { return FrontEnd::Print(*fe.Call(call)); };
  EXPECT_NE(text("f(f32[4])").find("square"), std::string::npos);
  EXPECT_NE(text("f(i32[4])").find("square"), std::string::npos);
  EXPECT_NE(text("g(bf16[4])").find("square"), std::string::npos);
  EXPECT_NE(text("g(i32[4])").find("pow"), std::string::npos) << "a power of integers is one of floats here";
  EXPECT_NE(text("f(bool[4])").find("pow"), std::string::npos);
  EXPECT_NE(text("h(f32[4])").find("pow"), std::string::npos);
  EXPECT_NE(text("k(f32[4], 2)").find("pow"), std::string::npos) << "numbers that are given are not known";
}

TEST(LowerTest, WeakNumbersKeepTheDtypeOfTensors) {
  FrontEnd fe;
  fe.Run("t", "def f(x, a):\n    return (a + 1) * x\n");
  for (const char* call : {"f(bf16[4], 2.5)", "f(f64[4], 2)", "f(f16[4], True)"}) {
    const Instance* f = fe.Call(call);
    ASSERT_NE(f, nullptr) << fe.Rendered();
    const ir::Function& function = *f->state->module->functions.back();
    EXPECT_EQ(function.results[0].dtype, function.values[static_cast<size_t>(function.params[0].value)].type.dtype);
  }
}

TEST(LowerTest, ControlFlow) {
  FrontEnd fe;
  fe.Run("t", R"(def early(x):
    for i in range(10):
        if x[i] > 3:
            return i
        if x[i] < 0:
            continue
        x = x + 1
    return -1

def nest(x, n):
    s = 0
    i = 0
    while i < n:
        i += 1
        for j in range(i):
            if j == 3:
                break
            s += x[j].sum()
        if s > 100:
            break
    return s, i

def both(x):
    if x.sum() > 0:
        if x.max() > 1:
            return x
        y = x * 2
    else:
        y = -x
    z = y + 1
    return z

def unrolled(x, ws):
    for w in ws:
        if x.sum() > 10:
            break
        x = x @ w
    return x

def rows(x):
    total = zeros(x.shape[1])
    for row in x:
        total += row
    return total
)");
  for (const char* call : {"early(f32[10])", "nest(f32[5,4], 7)", "both(f32[4])",
                           "unrolled(f32[3,3], (f32[3,3], f32[3,3], f32[3,3]))", "rows(f32[4,5])"})
    EXPECT_EQ(Lower(fe, call).find("no instance"), std::string::npos) << call << fe.Rendered();
}

TEST(LowerTest, GlobalsAreReadWhenCalled) {
  FrontEnd fe;
  fe.Run("t", "# global w = f32[3,3]\n# global scale = 2\ndef f(x):\n    return x @ w * scale\n");
  const Instance* f = fe.Call("f(f32[4,3])");
  ASSERT_NE(f, nullptr) << fe.Rendered();
  ASSERT_EQ(f->params.size(), 2u);
  EXPECT_EQ(f->params[1].kind, ParamSource::Kind::global);
  EXPECT_EQ(fe.ast().Text(f->params[1].name), "w");
}

// A loop is lowered again when a carried number turns out to be a tensor; the global it met is met again.
TEST(LowerTest, GlobalsInsideLoops) {
  FrontEnd fe;
  fe.Run(
      "t",
      "# global w = f32[3]\ndef f(n):\n    s = 0\n    for i in range(n):\n        s = s + w.sum()\n    return s + w\n");
  EXPECT_EQ(Lower(fe, "f(4)"), "f(int)");
}

TEST(LowerTest, DeclaredFunctionsAreCheckedWithoutACall) {
  FrontEnd fe;
  fe.Run("t", R"(def good(x: Tensor["B", "S", f32], w: Tensor["S", "2*S", f32]) -> Tensor["B", "2*S", f32]:
    return x @ w

def late(n: int) -> int:
    return helper(n) + 1

def helper(n):
    return n * 2

def bad(x: Tensor["B", "S", f32], w: Tensor["T", "D", f32]) -> Tensor["B", "D", f32]:
    return x @ w
)");
  EXPECT_EQ(fe.diagnostics().errors(), 1) << fe.Rendered();
  EXPECT_NE(fe.Rendered().find("f32[B,S]"), std::string::npos);
  EXPECT_NE(fe.Rendered().find("f32[T,D]"), std::string::npos);
}

TEST(LowerTest, PrivilegesAndShards) {
  FrontEnd fe;
  fe.Run("t",
         "def f(x: Tensor[\"N\", \"M\", f32, Region[\"reduce_sum\"], ShardSpec(\"dp\", \"*\")]):\n    return x\n"
         "# call f(f32[4,5])\n");
  ASSERT_EQ(fe.called().size(), 1u);
  ASSERT_NE(fe.called()[0], nullptr) << fe.Rendered();
  const ir::Param& p = fe.called()[0]->state->module->functions[0]->params[0];
  EXPECT_EQ(p.privilege, ir::Privilege::reduce_sum);
  EXPECT_EQ(p.shard, "dp,*");
}

TEST(LowerTest, StatementOfTheTopLevel) {
  // The parser keeps imports out of functions; the lowering says so of trees that were made otherwise.
  FrontEnd fe;
  fe.Run("t", "def f(x):\n    return x\n");
  Ast& ast = fe.ast();
  auto* import = ast.arena().New<ImportStmt>(ImportStmt{{StmtKind::import, {1, 2}}, "a", {1, 2}, {}, false, {}});
  auto* def = ast.arena().New<FunctionDef>(FunctionDef{{StmtKind::def, {1, 2}},
                                                       ast.Intern("g"),
                                                       {1, 2},
                                                       {},
                                                       nullptr,
                                                       ast.arena().Copy(std::vector<Stmt*>{import}),
                                                       {},
                                                       {1, 2}});
  EXPECT_EQ(fe.instances().Get(*def, fe, {}, {1, 2}, fe.diagnostics()), nullptr);
  EXPECT_EQ(fe.diagnostics().all().back().id, Diag::statement_in_function);
}

class OneName : public Scope {
 public:
  bool Lookup(Name, Desc* out) const override {
    *out = desc;
    return true;
  }
  void Names(std::vector<std::string_view>*) const override {}
  Desc desc;
};

TEST(LowerTest, GlobalThatFunctionsCannotUse) {
  FrontEnd fe;
  fe.Run("t", "def f():\n    return handle\n");
  OneName scope;
  scope.desc.kind = Desc::Kind::other;
  scope.desc.text = "a file handle";
  Diagnostics diagnostics;
  EXPECT_EQ(fe.instances().Get(As<FunctionDef>(*fe.program()->body[0]), scope, {}, {1, 2}, diagnostics), nullptr);
  ASSERT_EQ(diagnostics.errors(), 1);
  EXPECT_EQ(diagnostics.all()[0].id, Diag::global_unusable);
}

TEST(LowerTest, MemberOfAFile) {
  FrontEnd fe, other;
  fe.Run("t", "def f(x):\n    return lib.nothing(x)\n");
  OneName scope;
  scope.desc.kind = Desc::Kind::module;
  scope.desc.scope = &other;
  Diagnostics diagnostics;
  const Desc arg = Desc::Integer(1);
  EXPECT_EQ(fe.instances().Get(As<FunctionDef>(*fe.program()->body[0]), scope, {&arg, 1}, {1, 2}, diagnostics),
            nullptr);
  ASSERT_EQ(diagnostics.errors(), 1);
  EXPECT_EQ(diagnostics.all()[0].id, Diag::unknown_member);
}

// Every op that programs can call is a builtin under its name, or one of builtins.def stands for it.
TEST(BuiltinsTest, EveryOpHasAName) {
  for (const ir::OpInfo& op : ir::AllOps()) {
    if (!IsCallable(op.op)) continue;
    EXPECT_NE(FindBuiltin(op.name), nullptr) << op.name;
  }
  for (const Builtin* b : AllBuiltins()) EXPECT_EQ(FindBuiltin(b->name), b);
}

}  // namespace
}  // namespace tessera::lang
