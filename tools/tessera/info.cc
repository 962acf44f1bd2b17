// tessera info: what there is on this machine, and what is missing and costs something.
#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "interp/cpu/isa.h"
#include "runtime/blas.h"
#include "runtime/cache.h"
#include "runtime/device.h"
#include "runtime/options.h"
#include "tessera/tessera.h"
#include "tiers/compiler_library.h"
#include "tools/tessera/beside.h"
#include "tools/tessera/command.h"
#include "tools/tessera/terminal.h"

namespace tessera::tools {
namespace {

/// A library that is opened when it is needed.
struct Library {
  const char* name;
  const char* files;  // tried in this order
  const char* gives;  // what it is for
  const char* costs;  // what is missing without it
  std::string (*version)(void* library);
};

std::string Thousands(int number) { return absl::StrCat(number / 1000, ".", number % 1000 / 10); }
std::string DriverVersion(void* library) {
  int number = 0;
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  return get != nullptr && get(&number) == 0 ? "CUDA " + Thousands(number) : "";
}
std::string NvrtcVersion(void* library) {
  int major = 0, minor = 0;
  const auto get = reinterpret_cast<int (*)(int*, int*)>(dlsym(library, "nvrtcVersion"));
  return get != nullptr && get(&major, &minor) == 0 ? absl::StrCat(major, ".", minor) : "";
}
std::string NvJitLinkVersion(void* library) {
  unsigned major = 0, minor = 0;
  const auto get = reinterpret_cast<int (*)(unsigned*, unsigned*)>(dlsym(library, "nvJitLinkVersion"));
  return get != nullptr && get(&major, &minor) == 0 ? absl::StrCat(major, ".", minor) : "";
}
std::string CublasLtVersion(void* library) {
  const auto get = reinterpret_cast<size_t (*)()>(dlsym(library, "cublasLtGetVersion"));
  if (get == nullptr) return "";
  const size_t n = get();
  return absl::StrCat(n / 10000, ".", n % 10000 / 100, ".", n % 100);
}
std::string NcclVersion(void* library) {
  int n = 0;
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  return get != nullptr && get(&n) == 0 ? absl::StrCat(n / 10000, ".", n % 10000 / 100, ".", n % 100) : "";
}
std::string NoVersion(void*) { return ""; }

constexpr Library kLibraries[] = {
    {"CUDA driver", "libcuda.so.1", "runs programs on a GPU", "no GPU can be used: everything runs on the CPU",
     DriverVersion},
    {"cuBLASLt", "libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so", "matrix products on a GPU",
     "products on a GPU take tier 1's own kernels, which are many times slower", CublasLtVersion},
    {"nvJitLink", "libnvJitLink.so.13 libnvJitLink.so.12 libnvJitLink.so", "assembles generated kernels",
     "generated kernels go to the driver as PTX, and compiles for a GPU take longer", NvJitLinkVersion},
    {"NVRTC", "libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so", "compiles CUDA source",
     "programs cannot bring kernels along in CUDA C++ (tessera/cuda_kernel.h)", NvrtcVersion},
    {"CUPTI", "libcupti.so.13 libcupti.so.12 libcupti.so", "times kernels on a GPU",
     "traces have the times of stretches of work, by events, and no counters of kernels", NoVersion},
    {"NCCL", "libnccl.so.2 libnccl.so", "collectives between GPUs",
     "GPUs cannot compute together (tessera/communicator.h)", NcclVersion},
};

struct Row {
  std::string name, state, detail;
  bool good = true;
};

Row Look(const Library& library) {
  for (const std::string& folder : {std::string(), std::string("/usr/local/cuda/lib64/")}) {
    for (absl::string_view file : absl::StrSplit(library.files, ' ')) {
      void* handle = dlopen(absl::StrCat(folder, file).c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (handle == nullptr) continue;
      const std::string version = library.version(handle);
      return {library.name, absl::StrCat("found", version.empty() ? "" : ", ", version),
              absl::StrCat(library.gives, " (", folder, file, ")"), true};
    }
  }
  return {library.name, "missing", library.costs, false};
}

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string part;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU part") && part.empty()) part = line.substr(colon + 2);
  }
  utsname names{};
  ::uname(&names);
  return part.empty() ? names.machine : absl::StrCat(names.machine, ", part ", part);
}

std::string Gibibytes(int64_t bytes) { return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30)); }

void Print(const Style& style, const Row& row) {
  const std::string state = absl::StrFormat("%-14s", row.state);
  std::printf("  %-14s %s %s\n", row.name.c_str(), (row.good ? style.Green(state) : style.Yellow(state)).c_str(),
              row.detail.c_str());
}

absl::Status Info(const Arguments&) {
  const Style style(UseColour(stdout));
  Progress progress("looking for libraries");
  utsname names{};
  ::uname(&names);
  std::printf("%s %s\n\n", style.Bold("tessera").c_str(), std::string(Runtime::version()).c_str());
  std::printf("%s\n", style.Bold("machine").c_str());
  const int64_t memory = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::printf("  %-14s %s\n", "system", absl::StrCat(names.sysname, " ", names.release, ", ", names.machine).c_str());
  std::printf("  %-14s %s\n", "processor", Processor().c_str());
  const int64_t threads = rt::options().threads();
  std::printf("  %-14s %u (option threads: %s)\n", "cores", std::thread::hardware_concurrency(),
              threads == 0 ? "all of them" : absl::StrCat(threads).c_str());
  std::printf("  %-14s %s\n", "instructions", cpu::IsaName(cpu::ActiveIsa()));
  std::printf("  %-14s %s\n", "memory", Gibibytes(memory).c_str());

  std::printf("\n%s\n", style.Bold("devices").c_str());
  Print(style, {"cpu", "ready", "", true});
  if (const int count = rt::NumCudaDevices(); count > 0) {
    for (int i = 0; i < count; ++i) {
      auto device = rt::Cuda(i);
      const std::string name = absl::StrCat("cuda:", i);
      if (device.ok())
        Print(style, {name, "ready", std::string((*device)->code_target()), true});
      else
        Print(style, {name, "broken", std::string(device.status().message()), false});
    }
  } else {
    Print(style, {"cuda", "none", std::string(rt::Cuda(0).status().message()), false});
  }

  std::printf("\n%s\n", style.Bold("libraries").c_str());
  auto blas = rt::GetBlas();
  Print(style, blas.ok() ? Row{"BLAS", "found",
                               absl::StrCat("matrix products (", (*blas)->library, (*blas)->kernels.empty() ? "" : ", ",
                                            (*blas)->kernels, ")"),
                               true}
                         : Row{"BLAS", "missing",
                               "products take loops of Tessera's own, slower by a factor of a few until tier 3 has "
                               "generated them (Debian: libopenblas0-pthread)",
                               false});
  const std::vector<OptionDescription> options = Runtime::options();
  TSR_RETURN_IF_ERROR(FindCompiler());
  auto compiler = tiers::Compiler();
  Print(style, compiler.ok() ? Row{"compiler", "found",
                                   absl::StrCat("generates code for what is hot (", (*compiler)->build_id, ")"), true}
                             : Row{"compiler", "missing",
                                   absl::StrCat("no code is generated: what is hot is replayed with tier-1 kernels. ",
                                                std::string(compiler.status().message())),
                                   false});
  const std::string opt = FindBeside("tessera-opt");
  Print(style, opt.empty() ? Row{"tessera-opt", "missing", "tessera opt cannot run passes", false}
                           : Row{"tessera-opt", "found", absl::StrCat("runs single passes (", opt, ")"), true});
  for (const Library& library : kLibraries) Print(style, Look(library));

  std::printf("\n%s\n", style.Bold("options").c_str());
  bool any = false;
  for (const OptionDescription& o : options) {
    if (o.value == o.default_value) continue;
    any = true;
    std::printf("  %-14s %s\n", o.name.c_str(), absl::StrCat(o.value, " (", o.environment, ")").c_str());
  }
  if (!any) std::printf("  all as docs/options.md says they are at the start\n");
  return absl::OkStatus();
}

}  // namespace

const Command kInfo = {"info",
                       "",
                       "shows this machine, what was found on it, and what is missing and costs something",
                       R"(Libraries are opened as a program would, so what is said to be found can be used.

Examples:
  tessera info
  TESSERA_BLAS_LIBRARY=/opt/blas/libopenblas.so tessera info
)",
                       {},
                       Info};

}  // namespace tessera::tools
