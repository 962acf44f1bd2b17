// The one interface between the core and libtessera_compiler. Data crosses it, not objects of the core: a trace as text
// of the dialect tsr_graph goes in, an artifact (plan and object code, as bytes that may be stored) comes out. The
// library is opened at run time, or is linked into the program and registers itself.
#ifndef TESSERA_TIERS_COMPILER_H_
#define TESSERA_TIERS_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" {

/// Changes with every change of this file; a library with another number is not used.
enum { kTesseraCompilerAbi = 6 };

/// Where results go: called any number of times, one piece after another.
struct TesseraSink {
  void (*write)(void* context, const char* data, size_t size);
  void* context;
};

struct TesseraCompileRequest {
  const char* trace;  ///< a module with one tsr_graph.trace
  size_t trace_size;
  int32_t tier;       ///< 2: dims are read at run time; 3: numbers in the trace are built in
  int32_t fuse;       ///< 0: each op a kernel of its own
  int32_t bitwise;    ///< sums as in tier 1, to the bit
  int32_t fast_math;  ///< multiplications and additions may be fused, sums reordered
  int64_t grain;      ///< elements that are worth a thread
  int32_t threads;    ///< that share the work of a kernel
  /// How matrix products are cut, in place of what the model of costs chooses: "p4:form=packed,rows=64+*:nr=8" (the
  /// product of step 4; all others). Null or empty: nothing.
  const char* schedule;
  // What the machine can do, for a report; 0: not known.
  double peak_gbps = 0;    ///< 10^9 bytes per second
  double peak_gflops = 0;  ///< 10^9 operations per second
  /// What the code is for: null, "" or "cpu" this machine; "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100" or
  /// "sm_120" CUDA devices of that kind.
  const char* target = nullptr;
  int32_t tf32 = 0;  ///< CUDA devices: products of f32 may multiply in tf32
};

/// One kernel of a version on the host. A void(void* const* views, void* scratch, const int64_t* dims, int64_t begin,
/// int64_t end).
typedef void (*TesseraKernel)(void* const*, void*, const int64_t*, int64_t, int64_t);

struct TesseraCompilerApi {
  int32_t abi;
  /// What the code depends on besides the request: LLVM, the machine and its features. Part of every cache key.
  const char* build_id;

  // All of these may be called from any thread; they return 0 and write to `out`, or write the reason to `error`.

  /// Trace to artifact. Blocks for as long as the compile takes; runs on a thread of the library's own.
  int32_t (*compile)(const TesseraCompileRequest* request, const TesseraSink* out, const TesseraSink* error);
  /// The text of a stage: "graph", "sched", "tile", "target", "llvm", "asm" (PTX for a CUDA target) or "cuda"; or
  /// "report": what each kernel does and takes; or "space": what a tuner may choose.
  int32_t (*inspect)(const TesseraCompileRequest* request, const char* stage, const TesseraSink* out,
                     const TesseraSink* error);
  /// Makes kernels of the artifact callable: those at `positions` of its plan. *code names the code for unload. Only
  /// for objects of the host: the core loads what is for CUDA devices itself.
  int32_t (*load)(const char* artifact, size_t size, const int64_t* positions, TesseraKernel* kernels,
                  size_t num_kernels, uint64_t* code, const TesseraSink* error);
  /// Frees the code. Nobody may be inside.
  void (*unload)(uint64_t code);
  /// A compile for that target will be asked for soon: makes a small product that nobody runs, so that libraries are
  /// open, and what is done once in a process is done, before somebody waits for it. Returns at once; nobody hears
  /// whether it worked.
  void (*rehearse)(const char* target);
  /// The process ends: refuses compiles from now on. The one that is under way ends with the process.
  void (*stop)();
};

/// What the library exports.
const struct TesseraCompilerApi* tessera_compiler_entry();
}

namespace tessera::tiers {

/// An artifact is this header, the plan (int64 words) and the object. The plan: the number of kernels; then for each
/// its position, and as lists (a count, then its elements) steps, inputs, outputs, dims as pairs, strides of each view
/// (lists), tasks, blocks, unit, scratch; then its fixed scratch, its grain, and the threads of a block, the tasks that
/// a block does, its bytes of dynamic shared memory, the most blocks for each multiprocessor (0: any number) and the
/// blocks of a cluster, which are 0 on the host; then its maps (lists), the list of aligned views, the position of
/// the kernel whose function it runs, `many` and `partial`. tsr_target.launch in tiers/compiler/dialects/target.td says
/// what they mean.
///
/// A function for CUDA devices is named k<position>, as on the host. It takes parameters of 8 bytes: the views (inputs,
/// then outputs), the entries of dims, and the number of tasks; then its maps, which are CUtensorMap of 128 bytes. It
/// is launched with ceil(tasks / per_block) blocks, or as many clusters, or, where it says how many a multiprocessor
/// has at most, with fewer: then blocks go on until all tasks are done. A view with bit 63 set is, without that bit,
/// the address of a place in device memory where the address of the data is: so a recorded launch can be given other
/// tensors.
///
/// k<position>_many runs up to `many` kernels that share the function in one launch, each with blocks of its own. Its
/// one parameter is an array of words: the number of the first block of each kernel, padded to many + 1 words with the
/// number of all blocks; then the parameters of each kernel, as above.
struct ArtifactHeader {
  char magic[4];  // "TSRA"
  uint32_t version;
  uint32_t kind;  // ArtifactKind
  uint32_t reserved;
  uint64_t plan_words;
  uint64_t object_bytes;
};
inline constexpr uint32_t kArtifactVersion = 12;
/// Where the cubins of an object begin. Their sizes are the list at the end of the plan; a kernel that is in several of
/// them is the last one's.
inline constexpr uint64_t kImageAlignment = 16;

/// The most kernels of so many parameters that one launch may have: all parameters of a launch are at most 4 KiB, which
/// is what every driver takes.
inline constexpr int64_t MostOfMany(int64_t parameters) { return (511 - 1) / (parameters + 1); }

/// What the object of an artifact is. PTX is text that ends with a NUL, where no assembler was at hand: the driver has
/// one.
enum ArtifactKind : uint32_t { kHostObject = 0, kCubin = 1, kPtx = 2 };
/// The first line of PTX that an assembler was at hand for but refused: this and its reason.
inline constexpr std::string_view kRefused = "// refused: ";
/// In place of a value in the pairs of dims, for kernels of devices: where they leave an error that depends on values.
constexpr int64_t kErrorEntry = -1;
/// In place of a dim there: the element of the value, the result of an update_slice, where the part begins that the
/// kernel writes. Below all strides.
constexpr int64_t kPartEntry = -1000;
/// At the end of a map: elements, which are f32, are rounded to tf32 while they are copied.
constexpr int64_t kToTf32 = -1;
/// Otherwise -n stands there: the run has at most n elements. The kernel has room for no more.
constexpr int64_t kMostOfRun = -256;

}  // namespace tessera::tiers

#endif  // TESSERA_TIERS_COMPILER_H_
