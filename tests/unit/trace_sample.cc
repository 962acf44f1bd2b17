#include "absl/strings/escaping.h"
#include "tests/unit/trace_testing.h"

namespace tessera::testing_trace {
namespace {

using rt::ActivityKind;
using rt::ActivityOwner;
using rt::EventKind;

constexpr int64_t kVersion = 2, kTrace = 5, kGraph = 9;
constexpr char kReport[] = R"(kernel k1 in place of steps 0, 1
  from        train.cc:40:3
  reads       50331648 bytes
  writes      50331648 bytes
  arithmetic  25165824 operations and 12582912 functions such as exp
  intensity   2.75 operations for each byte
  launch      16384 tasks of 768 elements
  code        blocks of 256 threads, each for 1 tasks; 40 registers, 0 spills, 0 reloads, 0 bytes of stack, 128 bytes of shared memory
kernel k5 in place of step 5
  from        train.cc:44:3
  reads       25165824 bytes
  writes      4 bytes
  arithmetic  6291456 operations
  intensity   0.25 operations for each byte
  launch      26 tasks of 16384 elements
  code        blocks of 512 threads, each for 1 tasks; 120 registers, 12 spills, 12 reloads, 64 bytes of stack, 4096 bytes of shared memory
a function counts as 20 operations
)";
constexpr char kSource[] = R"(#include <tessera/tessera.h>
Tensor Step(const Tensor& x) {
  Tensor h = layer_norm(x, w, b);
  h = gelu(h);
  Tensor q = matmul(h, w1);
  Tensor y = attention(q, q, q);
  return sum(y);
}
)";

}  // namespace

std::string GpuSample(int64_t launches, int64_t rank, const std::string& boot, const std::string& cubin) {
  // Another rank began a little later, on the same clock.
  const int64_t base = 5'000'000'000 + rank * 2'000'000;
  Recording r(base);
  r.Add(rt::trace::MetaRow{"command", "./train --steps 100"}).Add(rt::trace::MetaRow{"gpu", "CUPTI 13.0"});
  r.Add(rt::trace::MetaRow{"boot", boot}).Add(rt::trace::MetaRow{"rank", std::to_string(rank)});
  r.Add(rt::trace::MetaRow{"process", std::to_string(4000 + rank)});
  r.Add(rt::trace::NameRow{"op", 7, "layer_norm", ""}).Add(rt::trace::NameRow{"op", 8, "matmul", ""});
  r.Add(rt::trace::ThreadRow{1, 4000 + rank, "main"}).Add(rt::trace::ThreadRow{2, 5000 + rank, "builds"});
  r.Add(rt::trace::SiteRow{3, "src/train.cc", 40, 3, "Step"}).Add(rt::trace::SiteRow{4, "src/train.cc", 42, 3, "Step"});
  r.Add(rt::trace::SourceRow{"src/train.cc", std::string(39, '\n') + kSource});
  r.Add(rt::trace::GpuRow{0, "NVIDIA H200", "sm_90a", 132, int64_t{141} << 30, 4'800'000'000'000, 989'000'000'000'000,
                          67'000'000'000'000, 2048, 32, 65536, 233'472});
  r.Version(kVersion, "tier 3", launches, 500'000, 2'000'000, 90'000'000, "@Step:40", kTrace);
  r.Add(rt::trace::TraceRow{
      kTrace,
      "@Step:40",
      1,
      "cuda:0",
      2'000'000,
      {{"0: y2 = layer_norm x0 x1 x2  bf16[8,1024,768]  train.cc:41", 1000, "src/train.cc", 42, 3},
       {"1: y3 = gelu y2  bf16[8,1024,768]  train.cc:42", 1000, "src/train.cc", 43, 3},
       {"2: y4 = matmul y3 x3  bf16[8,1024,2304]  train.cc:43", 1000, "src/train.cc", 44, 3},
       {"3: y6 = reshape y4 {shape=[8,12,1024,64]}  bf16[8,12,1024,64]  train.cc:44", 100, "src/train.cc", 45, 3},
       {"4: y5 = attention y6 y6 y6 {causal=true}  bf16[8,12,1024,64]  train.cc:44", 1000, "src/train.cc", 45, 3},
       {"5: y7 = sum y5  f32[]  train.cc:45", 1000, "src/train.cc", 46, 3}},
      "loop"});
  r.Add(rt::trace::StageRow{kVersion, "report", kReport});
  r.Add(rt::trace::StageRow{kVersion, "cubin",
                            absl::Base64Escape(cubin.empty() ? "\x7f"
                                                               "ELF of no machine"
                                                             : cubin)});
  if (!cubin.empty()) r.Add(rt::trace::PcRow{kVersion, "k5", 16, {{"long_scoreboard", 41}}});
  r.Kernel(1, "k1", 16384, 256, 40, 128).Kernel(2, "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", 132, 384, 168, 220'000);
  r.Kernel(3, "tessera_attention<bf16, 64>", 768, 128, 255, 98'304).Kernel(4, "k5", 26, 512, 120, 4096);
  r.Kernel(5, "layer_norm_bf16", 8192, 256, 32, 64).Kernel(6, "splitk_reduce", 512, 256, 24, 0);
  r.Add(rt::trace::GraphRow{kGraph, kVersion, {0, 2, 2, 4, 5}});

  int64_t at = 1'000'000;
  // Ops in tier 1, each launched by the host, which is slower than the GPU.
  const auto op = [&](int32_t number, int64_t site, int64_t kernel, int64_t ns) {
    r.Event(EventKind::op, at, 9'000, number, 6'291'456, site);
    r.Activity(ActivityKind::kernel, base + at + 6'000, ns, kernel, {ActivityOwner::Kind::op, number, site},
               base + at + 2'000, 7, at / 1000);
    at += 12'000;
  };
  r.Activity(ActivityKind::copy_in, base + at - 400'000, 300'000, 0, {}, base + at - 410'000, 7, 1, 16 << 20);
  for (int i = 0; i < 50; ++i) {
    op(7, 3, 5, 4'000);
    op(8, 4, 2, 5'000);
    op(7, 3, 5, 1'500);
  }
  r.Event(EventKind::version_build, at - 500'000, 900'000, kVersion, 5, 3, 2);
  at += 500'000;
  // A graph of five nodes, one launch after the other; after every tenth the program reads a value and waits.
  const ActivityOwner graph{ActivityOwner::Kind::graph, 0, kGraph};
  int64_t gpu_at = at;
  for (int64_t i = 0; i < launches; ++i) {
    const int64_t launched = at, correlation = 100'000 + i;
    r.Event(EventKind::version_run, at, 20'000, kVersion, 1, 5);
    r.Event(EventKind::step, at, 0, i + 1);
    gpu_at = std::max(gpu_at, launched + 8'000);
    struct Node {
      int64_t kernel, ns;
    };
    for (const Node node : {Node{1, 23'000}, Node{2, 46'000}, Node{6, 2'500}, Node{3, 61'000}, Node{4, 52'000}}) {
      r.Activity(ActivityKind::kernel, base + gpu_at, node.ns + i % 7 * 100, node.kernel, graph,
                 base + launched + 3'000, 7, correlation);
      gpu_at += node.ns + i % 7 * 100 + 600;
    }
    at = std::max(at + 25'000, gpu_at - 400'000);
    if (i % 10 == 9) {
      r.Activity(ActivityKind::copy_out, base + gpu_at, 2'000, 0, {ActivityOwner::Kind::op, 7, 4}, base + at, 13,
                 correlation + 1'000'000, 4);
      r.Activity(ActivityKind::wait, base + at, gpu_at + 2'000 - at, 0, {}, 0, 13);
      at = gpu_at + 90'000;
    }
  }
  r.EndBatch();
  r.Measures(1, graph,
             {{"time_ns", 23'000},
              {"dram_read_bytes", 50.4e6},
              {"dram_write_bytes", 50.3e6},
              {"dram_percent", 91.2},
              {"occupancy_percent", 84},
              {"load_bytes_per_sector_percent", 100}});
  r.Measures(2, graph, {{"time_ns", 46'000}, {"tensor_percent", 68}, {"issue_percent", 22}, {"occupancy_percent", 18}});
  r.Measures(3, graph,
             {{"time_ns", 61'000},
              {"tensor_percent", 31},
              {"bank_conflicts", 380'000},
              {"shared_wavefronts", 1'000'000},
              {"stall_barrier", 26},
              {"occupancy_percent", 12}});
  r.Measures(4, graph,
             {{"time_ns", 52'000},
              {"local_bytes", 81'920},
              {"dram_read_bytes", 25.2e6},
              {"dram_write_bytes", 0},
              {"dram_percent", 10},
              {"stall_memory", 55}});
  for (int64_t t = 0; t < gpu_at; t += 400'000) {
    r.Add(rt::trace::GpuSampleRow{t, 0, (int64_t{3} << 30) + t * 40, int64_t{1} << 29});
    r.Add(rt::trace::SampleRow{t, 1 << 20, 1 << 19, {}});
  }
  r.Add(rt::trace::EndRow{gpu_at, 1, 0, "the end"});
  return r.bytes();
}

}  // namespace tessera::testing_trace
