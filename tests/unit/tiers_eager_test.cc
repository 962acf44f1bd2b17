// Eager programs under the engine: they see no difference but time.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "interp/dispatch.h"
#include "runtime/fault.h"
#include "tiers_testing.h"

namespace tessera {
namespace {

using deopt::DeoptReason;
using tracer::TraceAbort;

Tensor Ramp(int64_t n, double step = 0.25) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(0.5 + step * static_cast<double>(i)));
  return Tensor::from(values);
}

// The runs of versions that a program had.
int64_t VersionRuns(const TestProgram& program, std::map<std::string, std::string> options = HotAtOnce()) {
  const int64_t before = MetricNow("version_runs");
  RunBoth(program, options);
  return MetricNow("version_runs") - before;
}

TEST(TiersEager, ALoopBecomesAVersion) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) {
      Tensor x = Ramp(8, 0.125) * w;
      w = w - x * (0.5 / (i + 1));
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
}

TEST(TiersEager, HotnessHasAThreshold) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 30; ++i) w = tanh(w * 0.5 + 0.25);
    log.Add(w);
  };
  auto options = HotAtOnce();
  options["hot_eager"] = "100";
  EXPECT_EQ(VersionRuns(program, options), 0);
}

TEST(TiersEager, NestedLoopsEndUpAsOneTraceOfTheStep) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int step = 0; step < 60; ++step) {
      Tensor h = w + 1.0;
      for (int layer = 0; layer < 4; ++layer) {
        Tensor z = h * 0.5;
        Tensor a = tanh(z) + 0.125;
        h = a * a;
      }
      w = w * 0.75 + h * 0.25;
    }
    log.Add(w);
  };
  RunBoth(program);
  int64_t longest = 0;
  for (const auto& v : deopt::Ledger::Get().versions()) {
    if (v.counters->runs.load() > 5) longest = std::max(longest, v.steps);
  }
  EXPECT_EQ(longest, 1 + 4 * 4 + 3) << Runtime::explain();
}

TEST(TiersEager, ALoopWithAReadEachTime) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) {
      Tensor y = w * 2.0 + 1.0;
      Tensor loss = sum(square(y));
      log.Add(loss);
      w = w - y * 0.01;
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
  // The last iteration goes on to the read after the loop in place of the next one.
  EXPECT_LE(Deopts(DeoptReason::read), 1) << Runtime::explain();
}

TEST(TiersEager, AnUnexpectedRead) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) {
      Tensor a = w * 2.0;
      Tensor b = a + 1.0;
      if (i == 30) log.Add(a);
      if (i == 33) log.Add(b.to_string());
      w = tanh(b) - a * 0.125;
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 15);
  EXPECT_EQ(Deopts(DeoptReason::read), 2) << Runtime::explain();
}

TEST(TiersEager, SynchronizeRunsWhatWaits) {
  const OptionScope scope(HotAtOnce());
  tiers::Manager::Get().Reset();
  const Device cpu = *Device::find("cpu");
  const Tensor x = Ramp(8);
  int waited = 0;
  for (int i = 0; i < 40; ++i) {
    const Tensor y = tanh(x * 0.5) + 0.25 * i;
    waited += y.waiting_impl()->waiting();
    ASSERT_TRUE(Runtime::synchronize(cpu).ok());
    EXPECT_FALSE(y.waiting_impl()->waiting()) << "round " << i;
  }
  EXPECT_GT(waited, 20);
}

TEST(TiersEager, TypesAreThereBeforeValuesAre) {
  auto program = [](Log& log) {
    Tensor w = Ramp(6);
    for (int i = 0; i < 30; ++i) {
      Tensor a = reshape(w * 2.0, {2, 3});
      Tensor t = a.transpose();
      log.Add(std::to_string(t.dim(0)) + " " + std::to_string(t.rank()) + (t.is_contiguous() ? " dense" : " strided") +
              std::to_string(t.strides()[0]) + std::string(t.device().name()) + std::to_string(t.size()));
      w = reshape(t.contiguous(), {6}) * 0.5;
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 10);
}

TEST(TiersEager, HandlesThatLiveOn) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    std::vector<Tensor> kept;
    for (int i = 0; i < 40; ++i) {
      Tensor a = w * 2.0;
      Tensor b = a + 1.0;
      Tensor c = tanh(b);
      if (i > 15 && i % 7 == 3) kept.push_back(b);
      if (i == 35) kept.push_back(c[{{0, 4}}]);
      w = c * 0.5;
    }
    for (const Tensor& k : kept) log.Add(k);
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 15);
  EXPECT_GT(Deopts(DeoptReason::escape), 0) << Runtime::explain();
}

TEST(TiersEager, WritesBetweenOps) {
  auto program = [](Log& log) {
    Tensor x = Ramp(4);
    Tensor w = Ramp(4);
    for (int i = 0; i < 40; ++i) {
      Tensor a = x * w;
      Tensor b = a + x;
      // The ops above have seen the old x.
      auto view = x.write<float>();
      for (size_t k = 0; k < 4; ++k) view[k] = static_cast<float>(i) + static_cast<float>(k) * 0.5f;
      w = tanh(b * 0.0625);
    }
    log.Add(w);
    log.Add(x);
  };
  RunBoth(program);
}

TEST(TiersEager, InPlaceUpdates) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    Tensor v = zeros({8});
    for (int i = 0; i < 80; ++i) {
      v *= 0.9;
      v += w * 0.1;
      w -= v;
      if (i % 10 == 9) {
        const Tensor before = w;
        w += 1;
        log.Add(before);
      }
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 5);
}

TEST(TiersEager, ExceptionsOfTheProgram) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 150; ++i) {
      try {
        Tensor a = w * 2.0;
        Tensor b = a + 1.0;
        if (i % 9 == 8) throw std::runtime_error("the program's own");
        w = tanh(b);
      } catch (const std::runtime_error& e) {
        log.Add(e.what());
        w = w * 0.5;
      }
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 4);
}

// The loops over layers and parameters get hot first, and are left where the loop around them begins; the step as a
// whole must become one trace nevertheless. A path is sixteen ops long: each of these rounds is longer.
TEST(TiersEager, LoopsWithinALoop) {
  constexpr int kLayers = 5, kSteps = 80;
  auto program = [](Log& log) {
    std::vector<Tensor> weights, means;
    for (int i = 0; i < kLayers; ++i) {
      weights.push_back(Ramp(8) * (0.1 + 0.01 * i));
      means.push_back(Ramp(8) * 0.0);
    }
    for (int step = 0; step < kSteps; ++step) {
      Tensor h = Ramp(8) * (1.0 / (step + 1));
      std::vector<Tensor> inputs;
      for (const Tensor& w : weights) {
        inputs.push_back(h);
        for (int k = 0; k < 4; ++k) h = tanh(h * w + 0.5) + sin(h) * 0.25;
      }
      for (int i = 0; i < kLayers; ++i) {
        Tensor g = inputs[i] * h;
        for (int k = 0; k < 3; ++k) g = g * 0.5 + cos(g) * 0.1 - tanh(g);
        means[i] = means[i] * 0.9 + g * 0.1;
        weights[i] = weights[i] - means[i] * 0.01;
      }
      if (step % 20 == 19) log.Add(h);
    }
    for (const Tensor& w : weights) log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 30) << Runtime::explain();
  int64_t longest = 0;
  for (const auto& v : deopt::Ledger::Get().versions())
    if (v.counters->runs.load() > 20) longest = std::max(longest, v.steps);
  // One op makes the data, 24 are each layer, 24 each update.
  EXPECT_EQ(longest, 1 + kLayers * 48) << Runtime::explain();
}

TEST(TiersEager, ErrorsOfShapeAtTheirOp) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) {
      const Tensor other = Ramp(i == 30 ? 7 : 8);
      Tensor a = w * 2.0;
      log.Try([&] { a = a + other; });
      w = tanh(a);
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 10);
}

TEST(TiersEager, ErrorsOfValuesAtTheirOp) {
  auto program = [](Log& log) {
    Tensor table = reshape(Ramp(12), {4, 3});
    for (int i = 0; i < 40; ++i) {
      Tensor ids = Tensor::from<int64_t>({i % 4, i == 33 ? 4 : 0});
      Tensor scaled = table * 0.5;
      Tensor rows;
      log.Try([&] { rows = embedding(scaled, ids); });
      if (!rows.defined()) continue;
      table = table + sum(rows) * 0.001;
    }
    log.Add(table);
  };
  EXPECT_GT(VersionRuns(program), 10);
  EXPECT_EQ(Deopts(DeoptReason::op_failed), 1) << Runtime::explain();
}

TEST(TiersEager, AnotherThreadReads) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 60; ++i) {
      Tensor a = w * 2.0;
      Tensor b = a + 1.0;
      std::string seen;
      if (i > 30 && i % 10 == 9) std::thread([&] { seen = a.to_string() + sum(b).to_string(); }).join();
      w = tanh(b) - a * 0.125;
      if (!seen.empty()) log.Add(seen);
    }
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 10);
  EXPECT_GT(Deopts(DeoptReason::other_thread), 0) << Runtime::explain();
}

TEST(TiersEager, AThreadEndsWithOpsThatWait) {
  auto program = [](Log& log) {
    Tensor result;
    std::thread([&] {
      Tensor w = Ramp(8);
      for (int i = 0; i < 30; ++i) w = tanh(w * 2.0) + 0.5;
      result = w;
    }).join();
    log.Add(result);
  };
  EXPECT_GT(VersionRuns(program), 10);
}

TEST(TiersEager, ThreadsHaveStreamsOfTheirOwn) {
  auto program = [](Log& log) {
    std::vector<Tensor> results(3);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < results.size(); ++t) {
      threads.emplace_back([&results, t] {
        Tensor w = Ramp(8) * static_cast<double>(t + 1);
        for (int i = 0; i < 200; ++i) {
          Tensor a = w * 0.5;
          w = tanh(a + 0.25) + a * 0.125;
        }
        results[t] = w;
      });
    }
    for (std::thread& t : threads) t.join();
    for (const Tensor& r : results) log.Add(r);
  };
  EXPECT_GT(VersionRuns(program), 100);
  auto background = HotAtOnce();
  background["background"] = "true";
  RunBoth(program, background);
}

// What one thread's runs have left in a version, its handles among it, another thread takes over.
TEST(TiersEager, ThreadsTakeAVersionFromEachOther) {
  auto program = [](Log& log) {
    const auto loop = [](Tensor w, int reads_at, std::string* seen) {
      for (int i = 0; i < 40; ++i) {
        const Tensor a = w * 2.0;
        if (i == reads_at) *seen = a.to_string();
        w = tanh(a) + 0.5;
      }
      return w;
    };
    std::string seen;
    Tensor other;
    Tensor w = loop(Ramp(8), -1, &seen);
    for (int i = 0; i < 40; ++i) w = exp(w * 0.25) - 0.5;  // the first version is given back
    std::thread([&] { other = loop(Ramp(8) * 3.0, 35, &seen); }).join();
    log.Add(seen);
    log.Add(other);
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 40);
}

TEST(TiersEager, StepIsAHint) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 12; ++i) {
      Step step;
      Tensor a = w * 2.0;
      w = tanh(a + 0.5) - a * 0.25;
    }
    log.Add(w);
  };
  auto options = HotAtOnce();
  options["hot_eager"] = "1000";
  EXPECT_GT(VersionRuns(program, options), 3) << Runtime::explain();
}

// ---- what varies

TEST(TiersEager, NumbersAreInputs) {
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) w = tanh(w * (1.0 / (i + 1))) + i;
    log.Add(w);
  };
  EXPECT_GT(VersionRuns(program), 20);
  EXPECT_EQ(deopt::Ledger::Get().deopts().size(), 0u) << Runtime::explain();
}

deopt::Rung LastRung() {
  const auto versions = deopt::Ledger::Get().versions();
  return versions.empty() ? deopt::Rung::interpreted : versions.back().rung;
}

TEST(TiersEager, TheLadder) {
  // Sizes 32, 32, ... exact; then within a bucket; then anywhere.
  auto program = [](std::vector<int64_t> sizes) {
    return [sizes](Log& log) {
      for (int64_t n : sizes) {
        Tensor x = Ramp(n * 4);
        Tensor m = reshape(x * 0.5, {n, 4});
        Tensor s = sum(tanh(m) + m.transpose({0, 1}), 0);
        log.Add(s);
      }
    };
  };
  RunBoth(program(std::vector<int64_t>(20, 32)));
  EXPECT_EQ(LastRung(), deopt::Rung::exact) << Runtime::explain();

  std::vector<int64_t> bucket;
  for (int i = 0; i < 40; ++i) bucket.push_back(i % 2 == 0 ? 32 : 48);
  EXPECT_GT(VersionRuns(program(bucket)), 10);
  EXPECT_EQ(LastRung(), deopt::Rung::bucketed) << Runtime::explain();

  std::vector<int64_t> any;
  for (int i = 0; i < 60; ++i) any.push_back(2 + i * 7 % 101);
  EXPECT_GT(VersionRuns(program(any)), 20);
  EXPECT_EQ(LastRung(), deopt::Rung::symbolic) << Runtime::explain();
}

TEST(TiersEager, DimsThatFollowFromDims) {
  auto program = [](Log& log) {
    for (int i = 0; i < 60; ++i) {
      const int64_t b = 2 + i % 5, s = 3 + i % 7;
      Tensor x = reshape(Ramp(b * s * 4), {b, s, 4});
      Tensor flat = reshape(x * 2.0, {b * s, 4});
      Tensor back = reshape(flat + 1.0, {b, s * 4});
      Tensor y = concat({back, back * 0.5}, 1);
      log.Add(mean(y, 1));
    }
  };
  EXPECT_GT(VersionRuns(program), 20) << Runtime::explain();
}

TEST(TiersEager, ZeroAndOneAreNeverSymbols) {
  auto program = [](Log& log) {
    for (int i = 0; i < 80; ++i) {
      const int64_t n = i % 11 == 10 ? 1 : i % 13 == 12 ? 0 : 2 + i % 6;
      Tensor x = reshape(Ramp(n * 3), {n, 3});
      log.Add((x * 2.0 + tanh(x)).transpose() * 0.5);
    }
  };
  RunBoth(program);
}

TEST(TiersEager, StridesAndSlices) {
  auto program = [](Log& log) {
    Tensor base = reshape(Ramp(64), {8, 8});
    for (int i = 0; i < 60; ++i) {
      Tensor v = i % 3 == 0 ? base.transpose() : base;
      Tensor part = v[{{i % 4, 8, 2}, {0, 4 + i % 3}}];
      Tensor row = base[i % 8];
      log.Add(tanh(part * 0.5) + sum(row));
      log.Add(part.shares_storage_with(base) ? "shares" : "has its own");
    }
  };
  RunBoth(program);
}

// ---- every guard that a program can break. A program is hot by the time `change` is 1, and is different from then on.

void ExpectDeopt(DeoptReason reason, const std::function<Tensor(int change)>& body) {
  auto program = [&](Log& log) {
    for (int i = 0; i < 30; ++i) log.Add(body(i < 24 ? 0 : 1));
  };
  auto options = HotAtOnce();
  EXPECT_GT(VersionRuns(program, options), 5) << Runtime::explain();
  EXPECT_GT(Deopts(reason), 0) << Runtime::explain();
}

TEST(TiersEagerGuards, Shape) {
  ExpectDeopt(DeoptReason::shape, [](int c) {
    const Tensor x = Ramp(8 + c);
    return tanh(x * 2.0) + x;
  });
}
TEST(TiersEagerGuards, Rank) {
  ExpectDeopt(DeoptReason::rank, [](int c) {
    const Tensor x = c ? Tensor::from<float>({1, 2, 3, 4}, {2, 2}) : Tensor::from<float>({1, 2, 3, 4});
    return tanh(x * 2.0) + x;
  });
}
TEST(TiersEagerGuards, DType) {
  ExpectDeopt(DeoptReason::dtype, [](int c) {
    const Tensor x = c ? Tensor::from<double>({1, 2, 3, 4}) : Tensor::from<float>({1, 2, 3, 4});
    return tanh(x * 2.0) + x;
  });
}
TEST(TiersEagerGuards, Layout) {
  const Tensor m = Tensor::from<float>({1, 2, 3, 4}, {2, 2});
  const Tensor t = m.transpose();
  ExpectDeopt(DeoptReason::layout, [&](int c) {
    const Tensor& x = c ? t : m;
    return tanh(x * 2.0) + x;
  });
}
TEST(TiersEagerGuards, Scalar) {
  ExpectDeopt(DeoptReason::scalar, [](int c) {
    const Tensor x = reshape(Ramp(6), {2, 3});
    return softmax(x * 2.0, c);
  });
}
TEST(TiersEagerGuards, Branch) {
  ExpectDeopt(DeoptReason::branch, [](int c) {
    const Tensor x = Ramp(6);
    const Tensor y = x * 2.0;
    return c ? tanh(y) : exp(y);
  });
}
TEST(TiersEagerGuards, Dataflow) {
  ExpectDeopt(DeoptReason::dataflow, [](int c) {
    const Tensor x = Ramp(6);
    const Tensor y = x * 2.0, z = x + 3.0;
    return (c ? z : y) / (x + 1.0);
  });
}
TEST(TiersEagerGuards, Device) {
  auto program = [](Log& log) {
    const Tensor here = Ramp(6);
    const Tensor there = here.to(Device::null());
    for (int i = 0; i < 30; ++i) {
      const Tensor x = i < 24 ? here : there;
      const Tensor y = tanh(x * 2.0) + x;
      log.Add(std::string(y.device().name()));
      if (i < 24) log.Add(y);
    }
  };
  EXPECT_GT(VersionRuns(program), 5);
  EXPECT_GT(Deopts(DeoptReason::device), 0) << Runtime::explain();
}
// The thread forgets its anchors with the change, so a version is not even asked; tiers_tables_test.cc breaks the
// guard.
TEST(TiersEagerGuards, OptionsMayChange) {
  auto program = [](Log& log) {
    for (int i = 0; i < 40; ++i) {
      if (i == 24) EXPECT_TRUE(rt::options().Set("trace_depth", "9").ok());
      const Tensor x = Ramp(6);
      log.Add(tanh(x * 2.0) + x);
    }
    EXPECT_TRUE(rt::options().Set("trace_depth", "8").ok());
  };
  EXPECT_GT(VersionRuns(program), 5);
}
TEST(TiersEagerGuards, Forced) {
  auto options = HotAtOnce();
  options["deopt_every"] = "5";
  auto program = [](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 60; ++i) w = tanh(w * 0.5) + w * 0.25;
    log.Add(w);
  };
  RunBoth(program, options);
  EXPECT_GT(Deopts(DeoptReason::forced), 0);
}

// ---- policy

TEST(TiersEagerPolicy, TwoWaysAtRandom) {
  auto options = HotAtOnce();
  options["deopt_pin"] = "6";
  options["trace_attempts"] = "100";
  auto program = [](Log& log) {
    for (int i = 0; i < 400; ++i) {
      const Tensor x = Ramp(6);
      const Tensor y = x * 2.0;
      log.Add((i * 2654435761u >> 7) % 3 == 0 ? tanh(y) + i : exp(y) - x);
    }
  };
  EXPECT_GT(VersionRuns(program, options), 10) << Runtime::explain();
}

// Runs a loop until it has a version, and hands both out.
struct Live {
  std::shared_ptr<tiers::Anchor> anchor;
  rt::Ref<tiers::Version> version;
};
Live MakeLive() {
  tiers::Manager::Get().Reset();
  deopt::Ledger::Get().Clear();
  Tensor w = Ramp(8);
  for (int i = 0; i < 40; ++i) w = tanh(w * 0.5) + w * 0.25;
  (void)w.to_string();
  for (const auto& a : tiers::Manager::Get().anchors())
    for (const auto& v : a->versions()) return {a, v};
  ADD_FAILURE() << "no version";
  return {};
}

TEST(TiersEagerPolicy, AStormPinsThePlaceAndSaysSoOnce) {
  auto options = HotAtOnce();
  options["deopt_pin"] = "6";
  OptionScope scope(options);
  const Live live = MakeLive();
  ASSERT_NE(live.anchor, nullptr);
  std::vector<std::string> warnings;
  Runtime::set_log_sink([&](int level, std::string_view line) {
    if (level == 0) warnings.emplace_back(line);
  });
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(live.version->dead) << i;
    deopt::GuardFailure failure;
    failure.guard = deopt::GuardKind::rank;
    failure.reason = DeoptReason::rank;
    failure.expected = "1";
    failure.seen = "2";
    tiers::Manager::Get().AddExit(*live.anchor, *live.version, failure);
  }
  Runtime::set_log_sink(nullptr);
  EXPECT_TRUE(live.version->dead);
  EXPECT_TRUE(live.anchor->versions().empty());
  int32_t countdown = 0;
  EXPECT_EQ(live.anchor->Arrive(&countdown), tiers::Anchor::Action::wait);
  EXPECT_GT(countdown, 1000000);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(
      warnings[0].find("6 deopts in a row, the last one because an operand has another rank (expected 1, seen 2)"),
      std::string::npos)
      << warnings[0];
}

TEST(TiersEagerPolicy, ASlowVersionIsDroppedAndTheReasonKept) {
  OptionScope scope(HotAtOnce());
  const Live live = MakeLive();
  ASSERT_NE(live.anchor, nullptr);
  // Only now: on a busy machine the version may have measured slow by itself.
  OptionScope gate({{"profit_gate", "true"}});
  // Two rounds of sixteen: the first may have been under way.
  for (int i = 0; i < 32; ++i) tiers::Manager::Get().AddRun(*live.anchor, *live.version, 1'000'000'000, 1);
  EXPECT_TRUE(live.version->dead);
  EXPECT_NE(Runtime::explain().find("where tier 1 takes"), std::string::npos) << Runtime::explain();
}

TEST(TiersEagerPolicy, Budgets) {
  auto options = HotAtOnce();
  options["version_count"] = "2";
  const int64_t dropped = MetricNow("versions_dropped");
  RunBoth(
      [](Log& log) {
        for (int kind = 0; kind < 6; ++kind) {
          Tensor w = Ramp(8 + kind);
          for (int i = 0; i < 25; ++i) {
            switch (kind) {
              case 0: w = tanh(w * 0.5) + 0.25; break;
              case 1: w = exp(w * -0.5) + 0.25; break;
              case 2: w = relu(w * 0.5) + 0.25; break;
              case 3: w = sigmoid(w * 0.5) + 0.25; break;
              case 4: w = sqrt(abs(w) * 0.5) + 0.25; break;
              default: w = cos(w * 0.5) + 0.25;
            }
          }
          log.Add(w);
        }
      },
      options);
  EXPECT_LE(tiers::Manager::Get().num_versions(), 2);
  EXPECT_GT(MetricNow("versions_dropped"), dropped);
}

TEST(TiersEagerPolicy, NoMemoryIsToldWhereItIsNeededAndLosesNothing) {
  OptionScope scope(HotAtOnce());
  Tensor w = Ramp(64);
  Tensor last;
  for (int i = 0; i < 30; ++i) {
    Tensor a = w * 0.5;
    last = tanh(a + 0.25);
    w = last * 0.75;
  }
  const std::string want = [&] {
    OptionScope tier1({{"tier", "1"}});
    Tensor v = Ramp(64);
    for (int i = 0; i < 30; ++i) v = tanh(v * 0.5 + 0.25) * 0.75;
    return v.to_string();
  }();
  rt::ArmFault(rt::Fault::allocation, 1, -1);
  EXPECT_THROW(w.to_string(), Error);
  rt::DisarmFaults();
  EXPECT_EQ(w.to_string(), want);
}

TEST(TiersEagerPolicy, ExplainTellsTheStory) {
  RunBoth([](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 40; ++i) w = tanh(w * 0.5) + w * 0.25;
    log.Add(w);
  });
  const std::string text = Runtime::explain();
  EXPECT_NE(text.find("tiers_eager_test.cc"), std::string::npos) << text;
  EXPECT_NE(text.find("exact"), std::string::npos) << text;
}

// ---- recordings that give nothing

TEST(TiersEagerAborts, TooLong) {
  auto options = HotAtOnce();
  options["trace_ops"] = "5";
  RunBoth(
      [](Log& log) {
        Tensor w = Ramp(8);
        for (int i = 0; i < 30; ++i) w = tanh(w * 0.5) + sin(w * 0.25) - cos(w) * 0.125 + 0.5;
        log.Add(w);
      },
      options);
  EXPECT_GT(Aborts(TraceAbort::too_long), 0) << Runtime::explain();
}

TEST(TiersEagerAborts, TooShort) {
  RunBoth([](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 30; ++i) {
      w = tanh(w);
      log.Add(w);
    }
  });
  EXPECT_GT(Aborts(TraceAbort::too_short), 0) << Runtime::explain();
}

TEST(TiersEagerAborts, AnOpFails) {
  RunBoth([](Log& log) {
    const Tensor other = Ramp(3);
    for (int i = 0; i < 30; ++i) {
      const Tensor x = Ramp(8) * 0.5;
      log.Try([&] { (void)(x + other); });
    }
  });
  EXPECT_GT(Aborts(TraceAbort::op_failed), 0) << Runtime::explain();
}

TEST(TiersEagerAborts, AnotherDevice) {
  RunBoth([](Log& log) {
    const Tensor x = Ramp(8).to(Device::null());
    for (int i = 0; i < 30; ++i) log.Add((tanh(x * 0.5) + 0.25).dtype() == f32 ? "f32" : "other");
  });
  EXPECT_GT(Aborts(TraceAbort::other_device), 0) << Runtime::explain();
}

TEST(TiersEagerAborts, AnOptionChangesAllTheTime) {
  const int64_t before = MetricNow("version_runs");
  RunBoth([](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 30; ++i) {
      w = tanh(w * 0.5);
      if (i > 3) EXPECT_TRUE(rt::options().Set("trace_depth", i % 2 ? "9" : "8").ok());
      w = w + 0.25;
    }
    log.Add(w);
    EXPECT_TRUE(rt::options().Set("trace_depth", "8").ok());
  });
  EXPECT_EQ(MetricNow("version_runs"), before) << "what is counted under one option counts for nothing under the next";
}

TEST(TiersEagerAborts, TheThreadEnds) {
  RunBoth([](Log& log) {
    Tensor w = Ramp(8);
    std::thread([&] {
      for (int i = 0; i < 12; ++i) w = tanh(w * 0.5) + 0.25;
    }).join();
    log.Add(w);
  });
  EXPECT_GT(Aborts(TraceAbort::thread_end), 0) << Runtime::explain();
}

TEST(TiersEagerAborts, AnotherThreadReadsMeanwhile) {
  RunBoth([](Log& log) {
    Tensor w = Ramp(8);
    for (int i = 0; i < 30; ++i) {
      Tensor a = w * 0.5;
      std::string seen;
      std::thread([&] { seen = a.to_string(); }).join();
      w = tanh(a) + 0.25;
      log.Add(seen);
    }
    log.Add(w);
  });
  EXPECT_GT(Aborts(TraceAbort::other_thread), 0) << Runtime::explain();
}

}  // namespace
}  // namespace tessera
