// Ops that touch each element once are as fast as memory is; a copy of as many bytes says how fast that is.
#include <tessera/tessera.h>

#include <atomic>
#include <span>

#include "bench/benchmarks.h"
#include "bench/handwritten.h"
#include "bench/team.h"

namespace bench {
namespace {

using tessera::Tensor;

constexpr int64_t kCount = int64_t{16} << 20;  // 64 MiB of f32
constexpr double kOperandBytes = 4.0 * kCount;

/// Copies another part of the buffers each time, as far as they go, so that caches help no more than they help ours.
Timed Copy(const Floats& to, const Floats& from, int64_t bytes) {
  const int64_t parts = to.size() * int64_t{sizeof(float)} / bytes;
  return Loop([&to, &from, bytes, parts, turn = int64_t{0}]() mutable {
    const int64_t offset = turn++ % parts * bytes;
    ThreadedCopy(reinterpret_cast<char*>(to.data()) + offset, reinterpret_cast<char*>(from.data()) + offset, bytes);
  });
}

/// A kernel that takes a range of elements, on all cores.
Timed Threaded(const std::function<void(int64_t begin, int64_t end)>& kernel) {
  return Loop([kernel] { AllCores().Run(kCount, 1024, kernel); });
}

struct Peer {
  const char* name;
  Timed run;
  Goal goal = {};
};

void Measure(const char* op, double operands, const Timed& ours, const std::vector<Peer>& peers, const char* note) {
  std::vector<Timed> contenders = {ours};
  for (const Peer& peer : peers) contenders.push_back(peer.run);
  const Race race = RunRace(contenders, Budget());
  for (size_t i = 0; i < peers.size(); ++i) {
    Report(Figure{.name = std::string("cpu_elementwise/") + op,
                  .unit = Rate("GB/s", operands * kOperandBytes * 1e-9),
                  .ours = race.times[0],
                  .peer = peers[i].name,
                  .theirs = race.times[i + 1],
                  .ratio = race.ratios[i + 1],
                  .goal = peers[i].goal,
                  .note = note});
  }
}

}  // namespace

void CpuElementwise() {
  constexpr Goal kGoal = {Goal::ratio_at_least, 0.9};
  constexpr const char* kCopy = "threaded memcpy of as many bytes";
  constexpr const char* kByHand = "hand-written, threaded";
  const Floats x(kCount * 3 / 2), y(kCount * 3 / 2), z(kCount);
  auto tensor = [](const Floats& values) {
    return Tensor::from(std::span<const float>(values.data(), static_cast<size_t>(kCount)), {kCount});
  };
  const Tensor a = tensor(x), b = tensor(z);
  ExpLoop* const exp_by_hand = HandwrittenExp();
  ExpLoop* const sleef = SleefExp();
  const bool by_hand = exp_by_hand != nullptr;
  const char* note = "bytes read and written, 64 MiB for each operand and the result";

  std::vector<Peer> peers = {{kCopy, Copy(y, x, 3 * kCount * 2), kGoal}};
  if (by_hand)
    peers.push_back({kByHand, Threaded([&](int64_t begin, int64_t end) {
                       HandwrittenAdd(x.data() + begin, z.data() + begin, y.data() + begin, end - begin);
                     }),
                     kGoal});
  Measure("add", 3, Loop([&] { Tensor r = a + b; }), peers, note);
  peers.resize(1);
  Measure("mul", 3, Loop([&] { Tensor r = a * b; }), peers, note);

  peers = {{kCopy, Copy(y, x, 2 * kCount * 2), kGoal}};
  if (sleef != nullptr)
    peers.push_back({"SLEEF, 1 ulp, threaded", Threaded([&](int64_t begin, int64_t end) {
                       sleef(x.data() + begin, y.data() + begin, end - begin);
                     })});
  if (by_hand)
    peers.push_back({"hand-written without subnormals, threaded", Threaded([&](int64_t begin, int64_t end) {
                       exp_by_hand(x.data() + begin, y.data() + begin, end - begin);
                     })});
  Measure("exp", 2, Loop([&] { Tensor r = tessera::exp(a); }), peers,
          sleef != nullptr ? note : "no SLEEF peer: libsleef.so.3 or its function for this instruction set is missing");

  std::atomic<float> total{0};
  peers = {{kCopy, Copy(y, x, kCount * 2), kGoal}};
  if (by_hand)
    peers.push_back({kByHand, Threaded([&](int64_t begin, int64_t end) {
                       total.store(HandwrittenSum(x.data() + begin, end - begin), std::memory_order_relaxed);
                     }),
                     kGoal});
  Measure("sum", 1, Loop([&] { Tensor r = tessera::sum(a); }), peers, "bytes read, 64 MiB");
}

}  // namespace bench
