// Every benchmark: one row, and nothing else, declares one.
#ifndef TESSERA_BENCH_BENCHMARKS_H_
#define TESSERA_BENCH_BENCHMARKS_H_

#include <string>

#include "bench/harness.h"

// X(name, function, summary)
#define TSR_BENCHMARKS(X)                                                                                            \
  X(cold_start, ColdStart, "a program that adds two tensors and prints, from exec to exit, and an empty one")        \
  X(lang_first_result, LangFirstResult, "a one-line program of the language, from exec to exit, and Python")         \
  X(eager_small, EagerSmall, "a + b on 64 floats, and LibTorch and NumPy")                                           \
  X(eager_views, EagerViews, "a transpose and a slice, and LibTorch")                                                \
  X(interp_overhead, InterpOverhead, "an instruction on scalars in Graph IR, and the same op called eagerly")        \
  X(parse, Parse, "reading and verifying Graph IR text")                                                             \
  X(lang_front_end, LangFrontEnd, "functions of the language, from source text to Graph IR")                         \
  X(cpu_gemm, CpuGemm, "f32 matrix products, and cblas_sgemm of OpenBLAS with its own threads")                      \
  X(cpu_gemm_narrow, CpuGemmNarrow, "products of bf16 and f16 on the CPU, and PyTorch's")                            \
  X(cpu_elementwise, CpuElementwise, "add, mul, exp and sum of 64 MiB operands, a threaded memcpy and SLEEF")        \
  X(cpu_softmax, CpuSoftmax, "softmax of 4096 x 4096 f32, a threaded memcpy and a hand-written kernel")              \
  X(cpu_layernorm, CpuLayerNorm, "layer_norm of 4096 x 4096 f32, a threaded memcpy and a hand-written kernel")       \
  X(cpu_threads, CpuThreads, "ops on all cores, and with one thread")                                                \
  X(trace_call, TraceCall, "calls of a hot function of 1, 2 and 100 small ops, less their kernels, and tier 1")      \
  X(eager_defer, EagerDefer, "eager ops that wait for a version: until the read, and from the read on")              \
  X(guards_depth, GuardsDepth, "what 10, 100 and 1000 parameters of a trace cost beyond their ops")                  \
  X(recording_overhead, RecordingOverhead, "tier 1 with counts against without, and while it is recorded")           \
  X(deopt_latency, DeoptLatency, "from the exit of a version to the first op in tier 1, with 100 values")            \
  X(eager_loop, EagerLoop, "a training step of 300 small ops in plain C++, and tier 1")                              \
  X(shape_churn, ShapeChurn, "another shape in each of 1000 steps, from the start of a process, and tier 1")         \
  X(cpu_fused, CpuFused, "chains, softmax and norms of 4096 x 4096 f32 in generated code, tier 1 and memcpy")        \
  X(cpu_gemm_tier3, CpuGemmTier3, "f32 products in hot functions, square, skinny, with bias and gelu, and OpenBLAS") \
  X(cpu_attention, CpuAttention, "attention of 1 x 8 x 1024 x 64 f32 in tier 3, and tier 1 with ops")                \
  X(compile_latency, CompileLatency, "from a trace to generated code, by the compiler and from the disk cache")      \
  X(jit_latency, JitLatency, "kernels of products on tensor cores, by the compiler and from the disk cache")         \
  X(no_stall, NoStall, "calls of a program while its versions are compiled, and tier 1")                             \
  X(warm_up, WarmUp, "iterations done by the time since exec, in each tier, and LibTorch")                           \
  X(tier_ratio, TierRatio, "programs of all kinds in tiers 1, 2 and 3")                                              \
  X(symbolic, Symbolic, "200 shapes through one function: compiles, tier 1 and exact versions")                      \
  X(train_gpt, TrainGpt, "training steps of a tiny GPT from exec on, tier 1, PyTorch and JAX")                       \
  X(train_gpt_10m, TrainGpt10m, "the same with 10 M parameters: steps per second over time")                         \
  X(trace_overhead, TraceOverhead, "what recording a trace adds to an op, in tier 1 and in versions")                \
  X(trace_size, TraceSize, "the file of a recording of a million ops")                                               \
  X(report_time, ReportTime, "tessera trace report --html of a million events, from exec to exit")                   \
  X(gpu_train_gpt, GpuTrainGpt, "training steps of GPT-2 124M in bf16 on a GPU, from exec on, tier 1, PyTorch, JAX") \
  X(gpu_train_lengths, GpuTrainLengths, "the same with another sequence length in every step")                       \
  X(gpu_train_loss, GpuTrainLoss, "GPT-2 124M with logits of some rows at a time, and with all of them")             \
  X(gpu_trace_overhead, GpuTraceOverhead, "a step of GPT-2 124M while it is recorded, and the size of the trace")    \
  X(gpu_cold_start, GpuColdStart, "a program that adds two tensors on a GPU, from exec to exit")                     \
  X(gpu_launch, GpuLaunch, "host time of small ops and functions on a GPU, the bare driver and PyTorch")             \
  X(gpu_fused, GpuFused, "chains, norms, softmax and sums of large rows on a GPU, a copy and torch.compile")         \
  X(gpu_rows, GpuRowLengths, "softmax, norms and cross-entropy of rows from 1k to 128k on a GPU, a copy or a read")  \
  X(gpu_gemm_tier1, GpuGemmTier1, "products of all sizes and dtypes on a GPU, and cuBLASLt")                         \
  X(gpu_attention, GpuAttention, "attention in tier 1 on a GPU, and PyTorch")                                        \
  X(gpu_scores, GpuScores,                                                                                           \
    "attention written in ops, with functions of its scores, as one kernel; flex_attention and tier 1")              \
  X(gpu_decode, GpuDecode, "attention of one query and many keys in tier 1 on a GPU, PyTorch, and a copy")           \
  X(gpu_epilogues, GpuEpilogues,                                                                                     \
    "products of cuBLASLt and what follows them in one call, in versions; tier 1, cuBLASLt")                         \
  X(gpu_linear, GpuLinear, "products and what follows them in one kernel, torch.compile and cuBLASLt's epilogues")   \
  X(gpu_skinny, GpuSkinny,                                                                                           \
    "products of bf16 with few rows, matrices in turn, in tier 1 and generated; cuBLASLt, the fastest of eight")     \
  X(gpu_few_tiles, GpuFewTiles, "products of few tiles and long sums, which blocks share; tier 1 and cuBLASLt")      \
  X(gpu_gemm_tier3, GpuGemmTier3, "generated products of bf16, tf32 and f8 on tensor cores, cuBLASLt's fastest")     \
  X(gpu_tuner_delay, GpuTunerDelay, "steps of an MLP block while the tuner searches, and without a tuner")           \
  X(gpu_tuner_model, GpuTunerModel, "the cut that the model chooses for 50 products, and the fastest of all cuts")   \
  X(gpu_ops, GpuOps, "single ops of tier 1 on a GPU, PyTorch and a copy")                                            \
  X(gpu_moves, GpuMoves,                                                                                             \
    "generated kernels that read transposed operands and rows by index or write to a cache, tier 1 and a copy")      \
  X(gpu_until, GpuUntil, "a loop that ends when the device says so: branches checked there or read, PyTorch")        \
  X(gpu_shape_churn, GpuShapeChurn, "another shape in each of 200 calls on a GPU, and tier 1")                       \
  X(gpu_compile_latency, GpuCompileLatency, "from a trace to a cubin")

namespace bench {

#define X(name, function, summary) void function();
TSR_BENCHMARKS(X)
#undef X

// What the helper processes of cpu_gemm and cpu_threads time; empty for an unknown task.
Timed SgemmTask(const std::string& task);
Timed ThreadsTask(const std::string& task);
// The same for the benchmarks of the tracing engine, and a trial, which prints what it measured from the start of a
// process; gives the exit status.
Timed TracingTask(const std::string& task);
int TracingTrial(const std::string& trial);

}  // namespace bench

#endif  // TESSERA_BENCH_BENCHMARKS_H_
