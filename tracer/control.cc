#include "tracer/control.h"

#include "runtime/options.h"

namespace tessera::tracer {
namespace internal {
std::atomic<bool> g_controlled{false};
}
namespace {

std::atomic<uint64_t> g_state{0};
std::atomic<int64_t> g_guards{0};

uint64_t Next() {
  uint64_t z = g_state.fetch_add(0x9e3779b97f4a7c15ull, std::memory_order_relaxed);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

bool internal::DecideSlow(bool policy, int one_in) {
  if (rt::options().chaos_seed() == 0) return policy;
  return Next() % static_cast<uint64_t>(one_in) == 0 ? !policy : policy;
}

bool internal::GuardFailsSlow() {
  const int64_t every = rt::options().deopt_every();
  if (every > 0 && g_guards.fetch_add(1, std::memory_order_relaxed) % every == every - 1) return true;
  return rt::options().chaos_seed() != 0 && Next() % 24 == 0;
}

void RefreshControl() {
  const int64_t seed = rt::options().chaos_seed();
  g_state.store(static_cast<uint64_t>(seed), std::memory_order_relaxed);
  g_guards.store(0, std::memory_order_relaxed);
  internal::g_controlled.store(seed != 0 || rt::options().deopt_every() != 0, std::memory_order_relaxed);
}

uint64_t ConfigEpoch() { return rt::options().epoch(); }

}  // namespace tessera::tracer
