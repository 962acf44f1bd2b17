#include "tiers/compiler/target/cuda_intrinsics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"

namespace tessera::compiler {

using llvm::StringRef;

std::string EffectOf(const llvm::CallInst& i, StringRef name, Argument argument) {
  if (name == "llvm.nvvm.barrier.cta.sync.aligned.all") {
    const auto* n = llvm::dyn_cast<llvm::ConstantInt>(i.getArgOperand(0));
    return n != nullptr && n->isZero() ? "__syncthreads()"
                                       : "asm volatile(\"bar.sync %0;\" :: \"r\"(" + argument(0) + ") : \"memory\")";
  }
  if (name == "llvm.nvvm.bar.warp.sync") return "__syncwarp(" + argument(0) + ")";
  if (name.consume_front("llvm.nvvm.cp.async.")) {
    if (name == "cg.shared.global.16" || name == "ca.shared.global.16")
      return "tsr_fetch(" + argument(0) + ", " + argument(1) + ", 16)";
    if (name == "ca.shared.global.8") return "tsr_fetch(" + argument(0) + ", " + argument(1) + ", 8)";
    if (name == "ca.shared.global.4") return "tsr_fetch(" + argument(0) + ", " + argument(1) + ", 4)";
    if (name == "wait.all") return "asm volatile(\"cp.async.wait_all;\" ::: \"memory\")";
    if (name == "commit.group") return "asm volatile(\"cp.async.commit_group;\" ::: \"memory\")";
    if (name == "wait.group")
      return "asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(" + argument(0) + ") : \"memory\")";
  }
  return "";
}

std::string IntrinsicOf(const llvm::CallInst& i, StringRef name, Argument argument) {
  const llvm::Type* t = i.getType()->getScalarType();
  const bool is_f32 = t->isFloatTy(), is_f64 = t->isDoubleTy();
  auto all = [&](const std::string& f) {
    std::string text = f + "(";
    for (unsigned n = 0; n < i.arg_size(); ++n) text += (n > 0 ? ", " : "") + argument(n);
    return text + ")";
  };
  if (name.consume_front("llvm.nvvm.")) {
    if (name == "read.ptx.sreg.tid.x") return "threadIdx.x";
    if (name == "read.ptx.sreg.tid.y") return "threadIdx.y";
    if (name == "read.ptx.sreg.ctaid.x") return "blockIdx.x";
    if (name == "read.ptx.sreg.ctaid.y") return "blockIdx.y";
    if (name == "read.ptx.sreg.ntid.x") return "blockDim.x";
    if (name == "read.ptx.sreg.nctaid.x") return "gridDim.x";
    if (name == "read.ptx.sreg.cluster.ctarank") return "tsr_rank()";
    if (name == "shfl.sync.bfly.i32") return all("tsr_shuffle_bfly");
    if (name == "shfl.sync.idx.i32") return all("tsr_shuffle_idx");
    if (name == "prmt") return all("__byte_perm");
    if (name == "ex2.approx.ftz.f32" || name == "ex2.approx.ftz.f") return all("tsr_ex2");
    if (name == "rcp.approx.ftz.f") return all("tsr_rcp");
    if (name == "rsqrt.approx.f") return all("tsr_rsqrt");
    return "";
  }
  const StringRef what = name.drop_front(5).take_until([](char c) { return c == '.'; });
  const bool is_float = is_f32 || is_f64;
  if (name.starts_with("llvm.is.fpclass")) {
    const llvm::Type* of = i.getArgOperand(0)->getType()->getScalarType();
    if (!of->isFloatTy() && !of->isDoubleTy()) return "";
    return "tsr_is(tsr_bits(" + argument(0) + "), " + (of->isFloatTy() ? "23, 8, " : "52, 11, ") + argument(1) + ")";
  }
  if (is_float) {
    struct Named {
      const char *name, *f32, *f64;
    };
    constexpr Named kNamed[] = {{"fma", "__fmaf_rn", "__fma_rn"},
                                {"fabs", "fabsf", "fabs"},
                                {"sqrt", "__fsqrt_rn", "__dsqrt_rn"},
                                {"maximum", "tsr_maximum", "tsr_maximum"},
                                {"maxnum", "fmaxf", "fmax"},
                                {"minnum", "fminf", "fmin"},
                                {"minimum", "tsr_minimum", "tsr_minimum"},
                                {"floor", "floorf", "floor"},
                                {"ceil", "ceilf", "ceil"},
                                {"copysign", "copysignf", "copysign"},
                                {"trunc", "truncf", "trunc"},
                                {"rint", "rintf", "rint"},
                                {"nearbyint", "rintf", "rint"},
                                {"roundeven", "rintf", "rint"}};
    const auto* named = llvm::find_if(kNamed, [&](const Named& n) { return what == n.name; });
    return named == std::end(kNamed) ? "" : all(is_f32 ? named->f32 : named->f64);
  }
  if (what == "fabs") return "(u16)(" + argument(0) + " & 0x7fff)";  // of 16 bits
  if (!t->isIntegerTy()) return "";
  const std::string a = argument(0), b = i.arg_size() > 1 ? argument(1) : "";
  const unsigned bits = t->getIntegerBitWidth();
  const std::string to = "u" + std::to_string(bits), s = "(s" + std::to_string(bits) + ")";
  if (what == "umin") return a + " < " + b + " ? " + a + " : " + b;
  if (what == "umax") return a + " > " + b + " ? " + a + " : " + b;
  if (what == "smin") return s + a + " < " + s + b + " ? " + a + " : " + b;
  if (what == "smax") return s + a + " > " + s + b + " ? " + a + " : " + b;
  if (what == "abs") return "(" + to + ")(" + s + a + " < 0 ? 0 - " + a + " : " + a + ")";
  if (name.starts_with("llvm.usub.sat")) return "(" + to + ")(" + a + " > " + b + " ? " + a + " - " + b + " : 0)";
  if (what == "ctlz" && bits == 64) return "(u64)__clzll((s64)" + a + ")";
  if (what == "ctlz" && bits == 32) return "(u32)__clz((s32)" + a + ")";
  if (what == "ctpop" && bits == 32) return "(u32)__popc(" + a + ")";
  if (what == "ctpop" && bits == 64) return "(u64)__popcll(" + a + ")";
  if (what == "fshl" && (bits == 64 || bits == 32)) {
    const std::string width = std::to_string(bits), n = "(" + argument(2) + " % " + width + ")";
    return n + " == 0 ? " + a + " : (" + a + " << " + n + ") | (" + b + " >> (" + width + " - " + n + "))";
  }
  return "";
}

}  // namespace tessera::compiler
