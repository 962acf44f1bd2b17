// The loops of element-wise kernels alone, called as directly as C++ can: what trace_call takes off its figures. The
// shared library hides them, so this program links the core itself. Speaks the protocol of peer_serve.h.
#include <chrono>
#include <cstdlib>
#include <string>

#include "bench/peer_serve.h"
#include "interp/cpu/loops_ew.h"

namespace {

constexpr int kElements = 64;

/// "add COUNT": that many dependent adds, which write to two places in turn as a plan for their memory would.
std::function<double(int64_t)> Find(const std::string& task) {
  const int count = task.starts_with("add ") ? std::atoi(task.c_str() + 4) : 0;
  const tessera::cpu::EwLoop loop = tessera::cpu::FindEwLoop(tessera::ir::Op::k_add, tessera::DType::f32);
  if (count <= 0 || loop == nullptr) return {};
  return [count, loop](int64_t n) {
    alignas(64) static float memory[3][kElements] = {};
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < count; ++k) {
        const void* in[] = {memory[k % 2], memory[2]};
        loop(memory[1 - k % 2], in, kElements);
      }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
}

}  // namespace

int main() { return bench::Serve(Find); }
