#include "tiers/compiler/device_object.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "llvm/IR/Function.h"
#include "llvm/Support/MathExtras.h"
#include "tiers/compiler.h"
#include "tiers/compiler/target/cuda_source.h"
#include "tiers/compiler/target/nvptx.h"
#include "tiers/compiler/target/nvrtc.h"

namespace tessera::compiler {
namespace {

class Maker {
 public:
  Maker(llvm::Module& module, const DeviceOptions& options)
      : module_(module), codegen_(options.codegen), device_(options.codegen.cpu->cpu) {
    for (const llvm::Function& f : module) {
      if (f.getCallingConv() != llvm::CallingConv::PTX_Kernel) continue;
      ++kernels_;
      if (f.hasFnAttribute(kAsSource) || options.as_source) wanted_.insert(f.getName().str());
      if (f.hasFnAttribute(kHoldsSums) && device_ == "sm_90a") possible_.insert(f.getName().str());
    }
  }

  llvm::Expected<DeviceObject> Make() {
    const bool assembles = HasAssembler();
    const bool is_all = wanted_.size() == kernels_;
    bool is_done = false;
    if (!wanted_.empty() || !possible_.empty()) {
      codegen_.after_passes = [&](llvm::Module& m) {
        if (llvm::Expected<CudaSource> source = ToCudaSource(m)) {
          source_ = std::move(*source);
        } else {
          no_source_ = llvm::toString(source.takeError());
        }
        // PTX for the driver and a cubin are not one artifact.
        if (!source_ || wanted_.empty() || !(assembles || is_all)) return;
        FromSource(wanted_);
        if (of_source_.empty()) return;
        for (const std::string& name : wanted_) {
          m.getFunction(name)->eraseFromParent();
          possible_.erase(name);
        }
        is_done = is_all;
      };
    }
    llvm::Expected<std::string> ptx = CompileToAssembly(module_, codegen_, &made_.times);
    if (!ptx) return ptx.takeError();
    std::string refused;
    if (!is_done && assembles) {
      const auto start = std::chrono::steady_clock::now();
      llvm::Expected<std::string> cubin =
          Assemble(*ptx, device_, codegen_.resources || !possible_.empty() ? &made_.code : nullptr);
      NoteTime(start);
      if (cubin) {
        MeasureCubin(*cubin, &made_.code);
        made_.image.Add(*cubin);
      } else if (!of_source_.empty()) {
        return cubin.takeError();
      } else {
        // Its driver may know a device that the assembler here does not.
        std::string why = llvm::toString(cubin.takeError());
        std::replace(why.begin(), why.end(), '\n', ' ');
        refused = std::string(tiers::kRefused) + why + "\n";
      }
    }
    const std::set<std::string> spilled = TryOtherWay();
    if (!of_source_.empty()) {
      made_.image.Add(of_source_);
    } else if (!made_.image.is_cubin()) {
      made_.image.object = refused + *ptx;
      made_.image.object.push_back('\0');
    }
    if (of_source_.empty() && !is_done)
      for (const std::set<std::string>& names : {wanted_, spilled})
        for (const std::string& name : names) made_.code[name].no_source = no_source_;
    for (auto& [name, resources] : code_of_source_) {
      made_.code[name] = resources;
      made_.code[name].as_source = true;
    }
    return std::move(made_);
  }

 private:
  void NoteTime(std::chrono::steady_clock::time_point start) {
    made_.times.assemble += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // What spills is tried as CUDA C++, and stays that where it spills less. (With kernels that went there already, it
  // would be a third image.)
  std::set<std::string> TryOtherWay() {
    std::set<std::string> spilled;
    for (const std::string& name : possible_)
      if (made_.code[name].spills > 0) spilled.insert(name);
    if (!made_.image.is_cubin() || !of_source_.empty() || !source_ || spilled.empty()) return spilled;
    FromSource(spilled);
    if (of_source_.empty()) return spilled;
    int64_t before = 0, after = 0;
    for (const std::string& name : spilled) before += made_.code[name].spills, after += code_of_source_[name].spills;
    if (after >= before) {
      no_source_ = "it spills as much";
      of_source_.clear();
      code_of_source_.clear();
    }
    return spilled;
  }

  // Fills of_source_; where it stays empty, no_source_ says why.
  void FromSource(const std::set<std::string>& kernels) {
    std::string text = source_->common;
    for (const std::string& name : kernels) text += source_->kernels.at(name);
    HasNvrtc();
    const auto start = std::chrono::steady_clock::now();
    llvm::Expected<std::string> cubin = CompileCuda(text, device_, &code_of_source_);
    NoteTime(start);
    if (!cubin) {
      no_source_ = llvm::toString(cubin.takeError());
      return;
    }
    MeasureCubin(*cubin, &code_of_source_);
    of_source_ = std::move(*cubin);
  }

  llvm::Module& module_;
  CodegenOptions codegen_;
  const std::string device_;
  size_t kernels_ = 0;
  std::set<std::string> wanted_, possible_;  // as CUDA C++: in any case, and where they spill
  std::optional<CudaSource> source_;
  std::string of_source_, no_source_;
  std::map<std::string, CodeResources> code_of_source_;
  DeviceObject made_;
};

}  // namespace

void DeviceImage::Add(llvm::StringRef cubin) {
  object.resize(llvm::alignTo(object.size(), tiers::kImageAlignment));
  object += cubin;
  cubins.push_back(static_cast<int64_t>(cubin.size()));
}

void DeviceImage::Add(const DeviceImage& other) {
  size_t at = 0;
  for (const int64_t bytes : other.cubins) {
    at = llvm::alignTo(at, tiers::kImageAlignment);
    Add(llvm::StringRef(other.object).substr(at, static_cast<size_t>(bytes)));
    at += static_cast<size_t>(bytes);
  }
}

llvm::Expected<DeviceObject> MakeDeviceObject(llvm::Module& module, const DeviceOptions& options) {
  return Maker(module, options).Make();
}

}  // namespace tessera::compiler
