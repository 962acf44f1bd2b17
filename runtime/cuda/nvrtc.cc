#include "runtime/cuda/nvrtc.h"

#include <vector>

#include "absl/strings/strip.h"
#include "runtime/clock.h"
#include "runtime/cuda/library.h"
#include "runtime/log.h"

namespace tessera::cuda {
namespace {

using NvrtcProgram = struct NvrtcProgramOf*;
constexpr int kInvalidOption = 5, kCompilation = 6;  // results; 0 is success

struct Nvrtc {
#define TSR_NVRTC(name, arguments) int(*name) arguments = nullptr;
#include "runtime/cuda/nvrtc.def"
  const char* (*nvrtcGetErrorString)(int result) = nullptr;
};

absl::StatusOr<const Nvrtc*> Open() {
  TSR_ASSIGN_OR_RETURN(void* library, OpenLibrary({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                                                  "kernels written in CUDA C++ need NVRTC"));
  auto* table = new Nvrtc;
  const char* missing = nullptr;
#define TSR_NVRTC(name, arguments) FindFunction(library, #name, table->name, missing);
#include "runtime/cuda/nvrtc.def"
  FindFunction(library, "nvrtcGetErrorString", table->nvrtcGetErrorString, missing);
  if (missing != nullptr) {
    delete table;
    return NotFound("NVRTC has no function ", missing, ": it is too old; CUDA 12 is needed");
  }
  return table;
}

}  // namespace

absl::StatusOr<CompiledSource> CompileSource(const std::string& architecture, const std::string& source,
                                             const std::string& name, absl::Span<const std::string> options) {
  static const auto* opened = new absl::StatusOr<const Nvrtc*>(Open());
  TSR_RETURN_IF_ERROR(opened->status());
  const Nvrtc& nvrtc = *opened->value();
  const auto check = [&](const char* call, int result) {
    if (result == 0) return absl::OkStatus();
    return Internal(call, ": ", nvrtc.nvrtcGetErrorString(result));
  };
  const int64_t start = rt::NowNs();
  struct Program {
    const Nvrtc& nvrtc;
    NvrtcProgram handle = nullptr;
    ~Program() {
      if (handle != nullptr) nvrtc.nvrtcDestroyProgram(&handle);
    }
  } owner{nvrtc};
  TSR_RETURN_IF_ERROR(check("nvrtcCreateProgram",
                            nvrtc.nvrtcCreateProgram(&owner.handle, source.c_str(), "kernel.cu", 0, nullptr, nullptr)));
  const NvrtcProgram program = owner.handle;
  if (nvrtc.nvrtcAddNameExpression(program, name.c_str()) != 0)
    return InvalidArgument("'", name, "' is no name of a kernel");
  std::vector<std::string> all = {"--gpu-architecture=" + architecture, "--std=c++17", "-default-device"};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<const char*> words;
  for (const std::string& option : all) words.push_back(option.c_str());
  const int result = nvrtc.nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data());
  if (result != 0) {
    size_t bytes = 0;
    std::string log;
    if (nvrtc.nvrtcGetProgramLogSize(program, &bytes) == 0 && bytes > 1) {
      log.resize(bytes);
      nvrtc.nvrtcGetProgramLog(program, log.data());
      log.resize(bytes - 1);  // it ends with a zero
    }
    if (result == kCompilation || result == kInvalidOption)
      return InvalidArgument("kernel ", name, " does not compile:\n", absl::StripSuffix(log, "\n"));
    return Internal("nvrtcCompileProgram: ", nvrtc.nvrtcGetErrorString(result), " ", log);
  }
  CompiledSource compiled;
  const char* lowered = nullptr;
  if (nvrtc.nvrtcGetLoweredName(program, name.c_str(), &lowered) != 0)
    return InvalidArgument("there is no kernel '", name, "' in the source");
  compiled.kernel = lowered;
  size_t bytes = 0;
  TSR_RETURN_IF_ERROR(check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program, &bytes)));
  compiled.cubin.resize(bytes);
  TSR_RETURN_IF_ERROR(check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, compiled.cubin.data())));
  TSR_LOG(1, "kernel ", name, " compiled for ", architecture, " in ", (rt::NowNs() - start) / 1000000, " ms");
  return compiled;
}

}  // namespace tessera::cuda
