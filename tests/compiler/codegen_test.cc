// The functions of ops, at every width, against tier 1's loops, bit by bit; and how objects come and go.
#include "tiers/compiler/target/codegen.h"

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "interp/cpu/convert.h"
#include "interp/cpu/loops_ew.h"
#include "ir/op.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/ErrorHandling.h"
#include "runtime/sanitizer.h"
#include "tiers/compiler/target/contain.h"
#include "tiers/compiler/target/loader.h"
#include "tiers/compiler/target/widen.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kCount = 10240;
constexpr unsigned kWidths[] = {1, 4, 8, 16};

// ---- kernels

using Kernel = void (*)(void* out, const void* const* in, int64_t n);

/// symbol(out, in, n): out[i] = callee(in[0][i], ...), `lanes` at a time; n is a multiple of it, and not 0.
void AddKernel(llvm::Module& m, const std::string& symbol, const std::string& callee, llvm::FunctionType* scalar,
               unsigned lanes) {
  llvm::LLVMContext& c = m.getContext();
  llvm::IRBuilder<> b(c);
  const auto widen = [&](llvm::Type* t) -> llvm::Type* {
    return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes);
  };
  std::vector<llvm::Type*> types;
  for (llvm::Type* t : scalar->params()) types.push_back(widen(t));
  llvm::FunctionType* type = llvm::FunctionType::get(widen(scalar->getReturnType()), types, false);
  llvm::FunctionCallee f = m.getOrInsertFunction(lanes == 1 ? callee : callee + "_v" + std::to_string(lanes), type);

  llvm::Type* ptr = b.getPtrTy();
  llvm::Function* k = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr, b.getInt64Ty()}, false),
                                             llvm::GlobalValue::ExternalLinkage, symbol, m);
  llvm::BasicBlock* entry = llvm::BasicBlock::Create(c, "", k);
  llvm::BasicBlock* loop = llvm::BasicBlock::Create(c, "", k);
  llvm::BasicBlock* done = llvm::BasicBlock::Create(c, "", k);
  b.SetInsertPoint(entry);
  std::vector<llvm::Value*> in;
  for (size_t i = 0; i < types.size(); ++i) {
    in.push_back(b.CreateLoad(ptr, b.CreateConstInBoundsGEP1_64(ptr, k->getArg(1), i)));
  }
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(b.getInt64(0), entry);
  std::vector<llvm::Value*> values;
  for (size_t p = 0; p < types.size(); ++p) {
    values.push_back(
        b.CreateAlignedLoad(types[p], b.CreateInBoundsGEP(scalar->getParamType(p), in[p], i), llvm::Align(1)));
  }
  b.CreateAlignedStore(b.CreateCall(f, values), b.CreateInBoundsGEP(scalar->getReturnType(), k->getArg(0), i),
                       llvm::Align(1));
  llvm::Value* next = b.CreateAdd(i, b.getInt64(lanes));
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpSLT(next, k->getArg(2)), loop, done);
  b.SetInsertPoint(done);
  b.CreateRetVoid();
}

std::string MustCompile(llvm::Module& m, const CodegenOptions& options, CodegenTimes* times = nullptr) {
  llvm::Expected<std::string> object = CompileToObject(m, options, times);
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    return "";
  }
  return std::move(*object);
}

/// A kernel of one function, compiled.
std::string CompileOne(const std::string& callee, unsigned lanes, const CodegenOptions& options, CodegenTimes* times) {
  llvm::LLVMContext context;
  llvm::FunctionType* type;
  Widening widening;
  if (!FindMathFunction(callee, context, &type, &widening)) {
    ADD_FAILURE() << callee;
    return "";
  }
  llvm::Module m("kernel", context);
  AddKernel(m, "kernel", callee, type, lanes);
  return MustCompile(m, options, times);
}

std::unique_ptr<Loader> MakeLoader() {
  llvm::Expected<std::unique_ptr<Loader>> loader = Loader::Create();
  if (!loader) {
    ADD_FAILURE() << llvm::toString(loader.takeError());
    return nullptr;
  }
  return std::move(*loader);
}

// ---- operands

class Operands {
 public:
  explicit Operands(uint64_t seed) : random_(seed) {}

  /// kCount elements. The second and third operand of an op get other orders of special values than the first.
  std::vector<char> Make(DType dtype) {
    std::vector<char> bytes(static_cast<size_t>(kCount) * SizeOf(dtype));
    for (int64_t i = 0; i < kCount; ++i) One(dtype, bytes.data() + i * static_cast<int64_t>(SizeOf(dtype)));
    return bytes;
  }

 private:
  template <typename T>
  void Put(char* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }
  template <typename F, typename U>
  void Float(char* at, int fraction, int bias) {
    const U sign = (random_() & 1) != 0 ? U(1) << (8 * sizeof(U) - 1) : 0;
    const U bits = static_cast<U>(random_());
    const U inf = static_cast<U>(2 * bias + 1) << fraction;
    const U fraction_mask = (U(1) << fraction) - 1;
    switch (random_() % 12) {
      case 0: {
        const U special[] = {0,
                             inf,
                             inf | 1,
                             inf | (U(1) << (fraction - 1)),
                             inf | (bits & fraction_mask) | 1,
                             1,
                             fraction_mask,
                             U(1) << fraction,
                             inf - 1,
                             static_cast<U>(bias) << fraction};
        return Put(at, static_cast<U>(special[random_() % 10] | sign));
      }
      case 1: return Put(at, static_cast<U>((bits & fraction_mask) | sign));  // subnormal
      case 2:
      case 3:
      case 4: return Put(at, bits);
      case 5: return Put(at, static_cast<F>(static_cast<int>(random_() % 41) - 20));
      case 6: return Put(at, static_cast<F>((static_cast<int>(random_() % 41) - 20) * 0.5));
      case 7: return Put(at, static_cast<F>(std::normal_distribution<double>(0, 1e6)(random_)));
      case 8: return Put(at, static_cast<F>(1 + std::normal_distribution<double>(0, 1e-3)(random_)));
      default: return Put(at, static_cast<F>(std::normal_distribution<double>(0, 4)(random_)));
    }
  }
  template <typename T>
  void Int(char* at) {
    const T extremes[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1, static_cast<T>(-1)};
    switch (random_() % 4) {
      case 0: return Put(at, extremes[random_() % 5]);
      case 1: return Put(at, static_cast<T>(static_cast<int>(random_() % 41) - 20));
      case 2: return Put(at, static_cast<T>(random_() >> (random_() % 64)));
      default: return Put(at, static_cast<T>(random_()));
    }
  }
  void One(DType dtype, char* at) {
    switch (dtype) {
      case DType::f64: return Float<double, uint64_t>(at, 52, 1023);
      case DType::f32: return Float<float, uint32_t>(at, 23, 127);
      case DType::f16:
      case DType::bf16: return Put(at, static_cast<uint16_t>(random_()));
      case DType::f8e4m3:
      case DType::f8e5m2: return Put(at, static_cast<uint8_t>(random_()));
      case DType::i64: return Int<int64_t>(at);
      case DType::i32: return Int<int32_t>(at);
      case DType::i8: return Int<int8_t>(at);
      case DType::u8: return Int<uint8_t>(at);
      case DType::boolean: return Put(at, static_cast<uint8_t>(random_() & 1));
    }
  }
  std::mt19937_64 random_;
};

bool IsNanAt(const std::vector<char>& bytes, DType dtype, int64_t i) {
  if (dtype == DType::f64) {
    double x;
    std::memcpy(&x, bytes.data() + 8 * i, 8);
    return x != x;
  }
  if (dtype == DType::f32) {
    float x;
    std::memcpy(&x, bytes.data() + 4 * i, 4);
    return x != x;
  }
  return false;
}

std::string Hex(const std::vector<char>& bytes, DType dtype, int64_t i) {
  std::ostringstream s;
  for (int64_t k = static_cast<int64_t>(SizeOf(dtype)) - 1; k >= 0; --k) {
    static const char* const digits = "0123456789abcdef";
    const unsigned char c = static_cast<unsigned char>(bytes[i * static_cast<int64_t>(SizeOf(dtype)) + k]);
    s << digits[c >> 4] << digits[c & 15];
  }
  return s.str();
}

// ---- functions of ops

/// What a function takes and gives, and tier 1's way to it.
struct Meaning {
  std::vector<DType> in;
  DType out;
  Kernel reference;
};

DType DTypeNamed(const std::string& name) { return ParseDType(name).value(); }

// The reference for functions that are no op's: conversions that `reference` names by their dtypes.
thread_local std::vector<DType> conversion;
void ConvertInSteps(void* out, const void* const* in, int64_t n) {
  std::vector<char> from(static_cast<size_t>(n) * 8), to(static_cast<size_t>(n) * 8);
  std::memcpy(from.data(), in[0], static_cast<size_t>(n) * SizeOf(conversion[0]));
  for (size_t k = 1; k < conversion.size(); ++k) {
    cpu::Convert(to.data(), conversion[k], from.data(), conversion[k - 1], n);
    from = to;
  }
  std::memcpy(out, from.data(), static_cast<size_t>(n) * SizeOf(conversion.back()));
}

/// False for tsr_pre_*, tsr_exp_weight_* and tsr_larger_*, which have no counterpart of their own.
bool FindMeaning(const std::string& name, Meaning* meaning) {
  const size_t last = name.rfind('_');
  const DType dtype = DTypeNamed(name.substr(last + 1));
  const std::string op = name.substr(4, last - 4);
  const auto convert = [&](std::vector<DType> steps) {
    conversion = steps;
    *meaning = {{steps.front()}, steps.back(), ConvertInSteps};
    return true;
  };
  if (op == "pre" || op == "exp_weight" || op == "larger") return false;
  if (op.rfind("cast_", 0) == 0) return convert({DTypeNamed(op.substr(5)), dtype});
  if (op == "load") return convert({dtype, DType::f32});
  if (op == "store") return convert({DType::f32, dtype});
  if (op == "round" && IsNarrowFloat(dtype)) return convert({DType::f32, dtype, DType::f32});
  const ir::Op code = ir::FindOp(op).value();
  const ir::OpInfo& info = ir::Info(code);
  meaning->reference = cpu::FindEwLoop(code, dtype);
  meaning->out = info.rule == ir::DTypeRule::r_compare ? DType::boolean : dtype;
  return meaning->reference != nullptr;
}

TEST(Functions, ThereIsOneForEveryLoopOfTier1) {
  const std::vector<std::string> all = MathFunctions();
  const std::set<std::string> names(all.begin(), all.end());
  int loops = 0;
  for (const ir::OpInfo& op : ir::AllOps()) {
    for (int d = 0; d < kNumDTypes; ++d) {
      const DType dtype = static_cast<DType>(d);
      if (cpu::FindEwLoop(op.op, dtype) == nullptr) continue;
      ++loops;
      const std::string name = "tsr_" + std::string(op.name) + "_" + std::string(Name(dtype));
      EXPECT_EQ(names.count(name), 1u) << name;
    }
  }
  EXPECT_GT(loops, 300);
  EXPECT_EQ(static_cast<int>(names.size()), loops + 7 * 7 + 3 * 4 + 3 + 2 + 2);
}

/// A function of the math library over vectors of eight.
void LoadFunction(const char* name, Loader& loader, Kernel* kernel) {
  llvm::LLVMContext context;
  llvm::FunctionType* type;
  Widening widening;
  ASSERT_TRUE(FindMathFunction(name, context, &type, &widening));
  llvm::Module m("kernels", context);
  AddKernel(m, "kernel", name, type, 8);
  llvm::Expected<Loader::Handle> handle = loader.Load(MustCompile(m, CodegenOptions()));
  ASSERT_TRUE(static_cast<bool>(handle));
  *kernel = reinterpret_cast<Kernel>(*loader.Lookup(*handle, "kernel"));
}

/// e^x of what a softmax has: within a unit and a half, zero below the smallest normal number, and NaN stays.
template <typename T>
void CheckWeights(const char* name, double lowest) {
  std::unique_ptr<Loader> loader = MakeLoader();
  Kernel kernel = nullptr;
  ASSERT_NO_FATAL_FAILURE(LoadFunction(name, *loader, &kernel));
  std::mt19937_64 rng(std::random_device{}());
  std::vector<T> x = {T(0),
                      T(-0.0),
                      -std::numeric_limits<T>::infinity(),
                      std::numeric_limits<T>::quiet_NaN(),
                      static_cast<T>(lowest),
                      std::numeric_limits<T>::lowest(),
                      -std::numeric_limits<T>::min()};
  std::uniform_real_distribution<double> any(lowest * 1.1, 0), near(-1, 0);
  while (x.size() < 100000) x.push_back(static_cast<T>(x.size() % 2 == 0 ? any(rng) : near(rng)));
  std::vector<T> y(x.size(), T(7));
  const void* in[] = {x.data()};
  kernel(y.data(), in, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
      continue;
    }
    const long double want = std::exp(static_cast<long double>(x[i]));
    if (x[i] < static_cast<T>(lowest)) {
      EXPECT_EQ(y[i], T(0)) << x[i];
    } else {
      EXPECT_LE(std::abs(static_cast<long double>(y[i]) - want), 1.5L * std::numeric_limits<T>::epsilon() * want)
          << x[i];
    }
  }
}
TEST(Functions, WeightsOfASoftmax) {
  CheckWeights<float>("tsr_exp_weight_f32", -87);
  CheckWeights<double>("tsr_exp_weight_f64", -708);
}

template <typename T>
void CheckLarger(const char* name) {
  std::unique_ptr<Loader> loader = MakeLoader();
  Kernel kernel = nullptr;
  ASSERT_NO_FATAL_FAILURE(LoadFunction(name, *loader, &kernel));
  constexpr T kInf = std::numeric_limits<T>::infinity(), kNaN = std::numeric_limits<T>::quiet_NaN();
  const T values[] = {T(0), T(-0.0), T(1), T(-1), T(1.5), kInf, -kInf, std::numeric_limits<T>::denorm_min(), kNaN};
  std::vector<T> a, b;
  for (const T x : values)
    for (const T y : values) a.push_back(x), b.push_back(y);
  while (a.size() % 8 != 0) a.push_back(T(2)), b.push_back(T(3));  // whole vectors
  std::vector<T> y(a.size(), T(7));
  const void* in[] = {a.data(), b.data()};
  kernel(y.data(), in, static_cast<int64_t>(y.size()));
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i]))
      EXPECT_TRUE(std::isnan(y[i]) || y[i] == a[i] || y[i] == b[i]) << a[i] << " " << b[i] << " " << y[i];
    else
      EXPECT_EQ(y[i], std::max(a[i], b[i])) << a[i] << " " << b[i];
  }
}
TEST(Functions, LargerOfTwo) {
  CheckLarger<float>("tsr_larger_f32");
  CheckLarger<double>("tsr_larger_f64");
}

TEST(Functions, AreBitwiseTier1sAtEveryWidth) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::unique_ptr<Loader> loader = MakeLoader();
  std::map<Widening, std::vector<std::string>> kinds;
  for (const std::string& name : MathFunctions()) {
    Meaning meaning;
    if (!FindMeaning(name, &meaning)) {
      EXPECT_TRUE(name.rfind("tsr_pre_", 0) == 0 || name.rfind("tsr_exp_weight_", 0) == 0 ||
                  name.rfind("tsr_larger_", 0) == 0)
          << name;
      continue;
    }
    llvm::LLVMContext context;
    llvm::FunctionType* type;
    Widening widening;
    ASSERT_TRUE(FindMathFunction(name, context, &type, &widening));
    kinds[widening].push_back(name);
    llvm::Module m("kernels", context);
    for (unsigned w : kWidths) AddKernel(m, "kernel" + std::to_string(w), name, type, w);
    CodegenOptions options;
    options.verify = true;
    const std::string object = MustCompile(m, options);
    llvm::Expected<Loader::Handle> handle = loader->Load(object);
    ASSERT_TRUE(static_cast<bool>(handle)) << name << ": " << llvm::toString(handle.takeError());

    if (meaning.in.empty()) {
      const DType dtype = DTypeNamed(name.substr(name.rfind('_') + 1));
      meaning.in.assign(type->getNumParams(), dtype);
      if (name.rfind("tsr_where", 0) == 0) meaning.in[0] = DType::boolean;
    }
    Operands operands(seed);
    std::vector<std::vector<char>> data;
    std::vector<const void*> in;
    for (const DType dtype : meaning.in) data.push_back(operands.Make(dtype));
    for (const std::vector<char>& d : data) in.push_back(d.data());
    std::vector<char> want(static_cast<size_t>(kCount) * SizeOf(meaning.out));
    meaning.reference(want.data(), in.data(), kCount);
    for (unsigned w : kWidths) {
      llvm::Expected<void*> kernel = loader->Lookup(*handle, "kernel" + std::to_string(w));
      ASSERT_TRUE(static_cast<bool>(kernel)) << llvm::toString(kernel.takeError());
      std::vector<char> got(want.size(), static_cast<char>(0xa5));
      reinterpret_cast<Kernel>(*kernel)(got.data(), in.data(), kCount);
      if (got == want) continue;
      int wrong = 0;
      for (int64_t i = 0; i < kCount && wrong < 5; ++i) {
        const size_t size = SizeOf(meaning.out);
        if (std::memcmp(&got[i * size], &want[i * size], size) == 0) continue;
        // Which of two NaNs comes out is left open (interp/cpu/math/basic.h).
        int nans = 0;
        for (size_t k = 0; k < data.size(); ++k) nans += IsNanAt(data[k], meaning.in[k], i);
        // The sanitizers have tier 1's loops optimised otherwise, and then the sign and the kind of one NaN are open,
        // too. So they are on x86-64, where operands that change places decide them.
#if defined(__x86_64__)
        constexpr bool kOpen = true;
#else
        constexpr bool kOpen = rt::kAddressSanitizer;
#endif
        if (kOpen && nans > 0) nans = 2;
        if (nans > 1 && IsNanAt(got, meaning.out, i) && IsNanAt(want, meaning.out, i)) continue;
        ++wrong;
        std::string text;
        for (size_t k = 0; k < data.size(); ++k) text += Hex(data[k], meaning.in[k], i) + " ";
        ADD_FAILURE() << name << " width " << w << " of " << text << "gives " << Hex(got, meaning.out, i) << ", tier 1 "
                      << Hex(want, meaning.out, i);
      }
    }
    ASSERT_FALSE(static_cast<bool>(loader->Unload(*handle)));
  }
  // The price of a change that makes a function branch again.
  EXPECT_EQ(kinds[Widening::repair].size(), 10u);
  std::string lanes;
  for (const std::string& name : kinds[Widening::lanes]) lanes += name + " ";
  std::cout << kinds[Widening::vector].size() << " functions widen, " << kinds[Widening::repair].size()
            << " with repair; lane by lane: " << lanes << "\n";
}

TEST(Functions, RoundOnceOnTheWayToNarrowFloats) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::unique_ptr<Loader> loader = MakeLoader();
  Operands operands(seed);
  for (const DType from : {DType::f64, DType::i64, DType::i32}) {
    const std::vector<char> data = operands.Make(from);
    const void* in[] = {data.data()};
    llvm::Expected<Loader::Handle> handle =
        loader->Load(CompileOne("tsr_pre_" + std::string(Name(from)), 8, CodegenOptions(), nullptr));
    ASSERT_TRUE(static_cast<bool>(handle)) << llvm::toString(handle.takeError());
    std::vector<float> pre(kCount);
    reinterpret_cast<Kernel>(llvm::cantFail(loader->Lookup(*handle, "kernel")))(pre.data(), in, kCount);
    for (const DType to : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
      std::vector<char> want(kCount * SizeOf(to)), got(kCount * SizeOf(to));
      cpu::Convert(want.data(), to, data.data(), from, kCount);
      cpu::Convert(got.data(), to, pre.data(), DType::f32, kCount);
      EXPECT_EQ(got, want) << Name(from) << " to " << Name(to);
    }
  }
}

TEST(Functions, UnknownOrMisdeclaredIsAnError) {
  llvm::LLVMContext context;
  llvm::Type* f32 = llvm::Type::getFloatTy(context);
  llvm::FunctionType* type = llvm::FunctionType::get(f32, {f32}, false);
  for (const char* name : {"tsr_nothing_f32", "tsr_exp_f64", "tsr_sin_f32__fast"}) {
    llvm::Module m("kernel", context);
    AddKernel(m, "kernel", name, type, 4);
    llvm::Expected<std::string> object = CompileToObject(m, CodegenOptions(), nullptr);
    ASSERT_FALSE(static_cast<bool>(object));
    const std::string text = llvm::toString(object.takeError());
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(Codegen, AFeatureOfNoSuchNameIsNotThere) {
  EXPECT_FALSE(HasFeature(ThisCpu(), "+no-such-feature"));
#ifdef __aarch64__
  EXPECT_TRUE(HasFeature(ThisCpu(), "+neon"));
  EXPECT_FALSE(HasFeature(ThisCpu(), "+avx2"));
#else
  EXPECT_TRUE(HasFeature(ThisCpu(), "+sse2"));
  EXPECT_FALSE(HasFeature(ThisCpu(), "+bf16"));
#endif
}

TEST(Codegen, AllLevelsGiveTheSameBits) {
  std::unique_ptr<Loader> loader = MakeLoader();
  Operands operands(std::random_device{}());
  const std::vector<char> data = operands.Make(DType::f32);
  const void* in[] = {data.data()};
  std::vector<char> want(data.size());
  cpu::FindEwLoop(ir::Op::k_sin, DType::f32)(want.data(), in, kCount);
  for (int level = 0; level <= 3; ++level) {
    CodegenOptions options;
    options.opt_level = level;
    options.verify = true;
    llvm::Expected<Loader::Handle> handle = loader->Load(CompileOne("tsr_sin_f32", 8, options, nullptr));
    ASSERT_TRUE(static_cast<bool>(handle)) << llvm::toString(handle.takeError());
    std::vector<char> got(want.size());
    reinterpret_cast<Kernel>(llvm::cantFail(loader->Lookup(*handle, "kernel")))(got.data(), in, kCount);
    EXPECT_EQ(got, want) << level;
  }
}

TEST(Codegen, AssemblyHasVectorCodeAndNoCalls) {
  llvm::LLVMContext context;
  llvm::FunctionType* type;
  Widening widening;
  ASSERT_TRUE(FindMathFunction("tsr_exp_f32", context, &type, &widening));
  llvm::Module m("kernel", context);
  AddKernel(m, "kernel", "tsr_exp_f32", type, 8);
  llvm::Expected<std::string> text = CompileToAssembly(m, CodegenOptions());
  ASSERT_TRUE(static_cast<bool>(text)) << llvm::toString(text.takeError());
#ifdef __aarch64__
  EXPECT_NE(text->find("fmla\tv"), std::string::npos) << *text;
  EXPECT_EQ(text->find("\tbl\t"), std::string::npos) << *text;
#else
  EXPECT_EQ(text->find("\tcall"), std::string::npos) << *text;
#endif
}

TEST(Codegen, OnlyFastMathFuses) {
  for (const bool fast : {false, true}) {
    llvm::LLVMContext context;
    llvm::Module m("kernel", context);
    llvm::IRBuilder<> b(context);
    llvm::Type* t = llvm::FixedVectorType::get(b.getFloatTy(), 4);
    llvm::FunctionType* binary = llvm::FunctionType::get(t, {t, t}, false);
    llvm::Function* k = llvm::Function::Create(llvm::FunctionType::get(t, {t, t, t}, false),
                                               llvm::GlobalValue::ExternalLinkage, "kernel", m);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "", k));
    llvm::Value* product = b.CreateCall(m.getOrInsertFunction("tsr_mul_f32_v4", binary), {k->getArg(0), k->getArg(1)});
    b.CreateRet(b.CreateCall(m.getOrInsertFunction("tsr_add_f32_v4", binary), {product, k->getArg(2)}));
    CodegenOptions options;
    options.fast_math = fast;
    options.verify = true;
    llvm::Expected<std::string> text = CompileToAssembly(m, options);
    ASSERT_TRUE(static_cast<bool>(text)) << llvm::toString(text.takeError());
#ifdef __aarch64__
    EXPECT_EQ(text->find("fmla") != std::string::npos, fast) << *text;
#else
    if (!fast) EXPECT_EQ(text->find("vfmadd"), std::string::npos) << *text;
#endif
  }
}

// ---- loading

struct Maps {
  int lines = 0;
  int writable_code = 0;
  std::string of_address;
};

Maps ReadMaps(const void* address) {
  Maps maps;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    ++maps.lines;
    const size_t space = line.find(' ');
    const std::string access = line.substr(space + 1, 4);
    if (access[1] == 'w' && access[2] == 'x') ++maps.writable_code;
    const uint64_t begin = std::stoull(line.substr(0, line.find('-')), nullptr, 16);
    const uint64_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    const uint64_t a = reinterpret_cast<uint64_t>(address);
    if (begin <= a && a < end) maps.of_address = access;
  }
  return maps;
}

int64_t ResidentKb() {
  std::ifstream file("/proc/self/statm");
  int64_t size, resident;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

TEST(Loading, NoPageIsWritableAndExecutable) {
  std::unique_ptr<Loader> loader = MakeLoader();
  const std::string object = CompileOne("tsr_sin_f64", 4, CodegenOptions(), nullptr);
  std::vector<Loader::Handle> handles;
  for (int i = 0; i < 3; ++i) {
    llvm::Expected<Loader::Handle> handle = loader->Load(object);
    ASSERT_TRUE(static_cast<bool>(handle)) << llvm::toString(handle.takeError());
    handles.push_back(*handle);
  }
  EXPECT_EQ(loader->loaded_objects(), 3u);
  for (const Loader::Handle handle : handles) {
    const Maps maps = ReadMaps(llvm::cantFail(loader->Lookup(handle, "kernel")));
    EXPECT_EQ(maps.of_address, "r-xp");
    EXPECT_EQ(maps.writable_code, 0);
  }
  void* address = llvm::cantFail(loader->Lookup(handles[1], "kernel"));
  ASSERT_FALSE(static_cast<bool>(loader->Unload(handles[1])));
  EXPECT_NE(ReadMaps(address).of_address, "r-xp");
  EXPECT_EQ(llvm::toString(loader->Lookup(handles[1], "kernel").takeError()), "no such object is loaded");
  EXPECT_EQ(llvm::toString(loader->Unload(handles[1])), "no such object is loaded");
  EXPECT_EQ(llvm::toString(loader->Lookup(handles[0], "kernal").takeError()), "the object does not define kernal");
}

TEST(Loading, UnknownSymbolsAreAnError) {
  std::unique_ptr<Loader> loader = MakeLoader();
  llvm::LLVMContext context;
  llvm::Type* f32 = llvm::Type::getFloatTy(context);
  llvm::FunctionType* type = llvm::FunctionType::get(f32, {f32}, false);
  for (const char* name : {"nobody_knows_this", "sinf", "malloc"}) {
    llvm::Module m("kernel", context);
    AddKernel(m, "kernel", name, type, 1);
    const std::string object = MustCompile(m, CodegenOptions());
    const int before = ReadMaps(nullptr).lines;
    for (int round = 0; round < 32; ++round) {
      llvm::Expected<Loader::Handle> handle = loader->Load(object);
      ASSERT_FALSE(static_cast<bool>(handle));
      const std::string text = llvm::toString(handle.takeError());
      EXPECT_NE(text.find(name), std::string::npos) << text;
      EXPECT_EQ(loader->loaded_objects(), 0u);
    }
    // What was refused left nothing behind. (The sanitizer maps memory of its own.)
    if (!rt::kAddressSanitizer) EXPECT_LE(ReadMaps(nullptr).lines, before + 4);
  }
  EXPECT_FALSE(static_cast<bool>(loader->Load("this is no object")) && "loaded");
}

TEST(Loading, MemoryIsAPlateau) {
  std::unique_ptr<Loader> loader = MakeLoader();
  CodegenOptions options;
  options.opt_level = 1;
  Maps maps_at_100;
  int64_t kb_at_100 = 0;
  // tests/unit/tiers_code_soak_test.cc has the same for the whole of it.
  constexpr int kRounds = rt::kAddressSanitizer ? 200 : 1000;
  for (int round = 0; round < kRounds; ++round) {
    if (round == 100) {
      maps_at_100 = ReadMaps(nullptr);
      kb_at_100 = ResidentKb();
    }
    llvm::Expected<Loader::Handle> handle = loader->Load(CompileOne("tsr_exp_f32", 8, options, nullptr));
    ASSERT_TRUE(static_cast<bool>(handle)) << llvm::toString(handle.takeError());
    ASSERT_FALSE(static_cast<bool>(loader->Unload(*handle)));
  }
  EXPECT_EQ(loader->loaded_objects(), 0u);
  // The sanitizer maps memory of its own and keeps freed memory for a while.
  if (!rt::kAddressSanitizer) {
    EXPECT_LE(ReadMaps(nullptr).lines, maps_at_100.lines + 4);
    EXPECT_LE(ResidentKb(), kb_at_100 + 4096);
  }
  std::cout << "resident " << kb_at_100 << " KB after 100 rounds, " << ResidentKb() << " after " << kRounds << "\n";
}

TEST(Loading, ThreadsCompileAndLoadAtOnce) {
  std::unique_ptr<Loader> loader = MakeLoader();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        llvm::Expected<Loader::Handle> handle =
            loader->Load(CompileOne("tsr_square_f32", 4, CodegenOptions(), nullptr));
        if (!handle) return;
        const float x[4] = {1, 2, 3, 4};
        float y[4] = {};
        const void* in[] = {x};
        reinterpret_cast<Kernel>(llvm::cantFail(loader->Lookup(*handle, "kernel")))(y, in, 4);
        if (y[3] == 16 && !loader->Unload(*handle)) ++right;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 40);
}

// ---- fatal errors

/// In a process of its own: a compiler that is lost stays lost.
[[noreturn]] void LoseTheCompiler() {
  alarm(60);
  std::unique_ptr<Loader> loader = MakeLoader();
  const std::string object = CompileOne("tsr_exp_f32", 8, CodegenOptions(), nullptr);
  llvm::Expected<Loader::Handle> handle = loader->Load(object);
  if (!handle || CompilerLost() != nullptr) _exit(1);

  struct Waiter {
    std::mutex mutex;
    std::condition_variable woken;
    std::string reason;
  } waiter;
  std::thread([&waiter] {
    CompileScope scope(
        [](void* data, const char* reason) {
          auto* w = static_cast<Waiter*>(data);
          const std::lock_guard lock(w->mutex);
          w->reason = reason;
          w->woken.notify_all();
        },
        &waiter);
    llvm::report_fatal_error("of the test");
  }).detach();
  {
    std::unique_lock lock(waiter.mutex);
    waiter.woken.wait(lock, [&] { return !waiter.reason.empty(); });
  }
  if (waiter.reason != "LLVM: fatal error: of the test") _exit(2);
  if (CompilerLost() == nullptr || waiter.reason != CompilerLost()) _exit(3);
  // Code that is there goes on working; nothing new comes.
  if (!loader->Lookup(*handle, "kernel")) _exit(4);
  if (loader->Load(object)) _exit(5);
  if (!loader->Unload(*handle)) _exit(6);
  _exit(0);
}

TEST(Containment, AFatalErrorLeavesTheProcessAlive) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(LoseTheCompiler(), testing::ExitedWithCode(0), "");
}

// ---- how long it takes

double CpuMs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

TEST(Times, OfOneKernel) {
  if (rt::kAddressSanitizer) GTEST_SKIP() << "the times of a sanitized compiler are of no use";
  std::unique_ptr<Loader> loader = MakeLoader();
  std::cout << "CPU ms, medians of 20         link    opt  codegen   load   bytes\n";
  for (const int level : {0, 1, 2, 3}) {
    for (const auto& [name, lanes] : std::vector<std::pair<std::string, unsigned>>{{"tsr_add_f32", 16},
                                                                                   {"tsr_exp_f32", 8},
                                                                                   {"tsr_exp_f32", 16},
                                                                                   {"tsr_gelu_f32", 16},
                                                                                   {"tsr_sin_f32", 16},
                                                                                   {"tsr_pow_f64", 8}}) {
      std::vector<double> link, opt, codegen, load;
      CodegenTimes times;
      CodegenOptions options;
      options.opt_level = level;
      for (int i = 0; i < 20; ++i) {
        const std::string object = CompileOne(name, lanes, options, &times);
        const double start = CpuMs();
        llvm::Expected<Loader::Handle> handle = loader->Load(object);
        ASSERT_TRUE(static_cast<bool>(handle)) << llvm::toString(handle.takeError());
        load.push_back(CpuMs() - start);
        link.push_back(times.link);
        opt.push_back(times.opt);
        codegen.push_back(times.codegen);
        ASSERT_FALSE(static_cast<bool>(loader->Unload(*handle)));
      }
      const auto median = [](std::vector<double>& v) {
        std::sort(v.begin(), v.end());
        return v[v.size() / 2];
      };
      std::printf("O%d %-12s v%-8u %6.2f %6.2f %8.2f %6.2f %7zu\n", level, name.c_str() + 4, lanes, median(link),
                  median(opt), median(codegen), median(load), times.object_bytes);
    }
  }
}

}  // namespace
}  // namespace tessera::compiler
