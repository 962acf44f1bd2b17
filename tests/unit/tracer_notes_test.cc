// What recorders write down, and the traces that it becomes.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "interp/dispatch.h"
#include "tracer/eager_recorder.h"
#include "tracer/notes.h"

namespace tessera::tracer {
namespace {

rt::Ref<rt::TensorImpl> Make(std::vector<int64_t> dims) {
  TensorType type;
  type.dtype = DType::f32;
  type.rank = static_cast<uint8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), type.dims);
  rt::Ref<rt::TensorImpl> x = *rt::TensorImpl::Make(rt::Cpu(), type);
  std::fill_n(x->as<float>(), x->size(), 1.0f);
  return x;
}

// Runs the op and records it.
rt::Ref<rt::TensorImpl> RunAndAdd(EagerRecorder& recorder, ir::Op op, std::vector<const View*> in,
                                  std::vector<ir::Attr> attrs = {}, const interp::Source* text = nullptr) {
  rt::TensorImpl* out = nullptr;
  interp::EagerCall call{op, in, attrs, &recorder, 17, nullptr, nullptr};
  call.text = text;
  EXPECT_TRUE(interp::Execute(op, in, attrs, rt::Cpu(), {&out, 1}, {}).ok());
  recorder.Add(call, {&out, 1}, 5);
  return rt::Ref<rt::TensorImpl>::Adopt(out);
}

EagerRecorder& Recorder() {
  static auto& recorder = *new EagerRecorder;
  return recorder;
}

TEST(TracerNotes, ATraceHasAllThatWasNoted) {
  EagerRecorder& recorder = Recorder();
  const rt::Ref<rt::TensorImpl> x = Make({2, 3});
  const interp::ScalarView half(0.5);
  const interp::Source text{"program.tsr", 12, 3};
  recorder.Begin(7);
  {
    const rt::Ref<rt::TensorImpl> y = RunAndAdd(recorder, ir::Op::k_mul, {x.get(), &half}, {}, &text);
    const rt::Ref<rt::TensorImpl> z = RunAndAdd(recorder, ir::Op::k_sum, {y.get()}, {ir::Ints{1}, false});
    RunAndAdd(recorder, ir::Op::k_add, {z.get(), z.get()});
  }
  auto notes = recorder.Finish(TraceEnd::loop);
  ASSERT_NE(notes, nullptr);
  const std::shared_ptr<Trace> trace = notes->Expand();
  EXPECT_EQ(trace->name, "program.tsr:12");
  EXPECT_EQ(trace->config_epoch, 7u);
  EXPECT_TRUE(trace->is_eager);
  ASSERT_EQ(trace->steps.size(), 3u);
  ASSERT_EQ(trace->values.size(), 5u);  // x, a half, and three results
  EXPECT_EQ(trace->values[0].kind, TraceValue::Kind::input);
  EXPECT_EQ(trace->values[0].type.dims[1], 3);
  ASSERT_EQ(trace->values[0].strides.size(), 2u);
  EXPECT_EQ(trace->values[0].strides[0], 3);
  EXPECT_EQ(trace->values[0].alignment, 64);
  EXPECT_EQ(trace->values[1].kind, TraceValue::Kind::number);
  EXPECT_TRUE(trace->values[1].type.weak);
  EXPECT_EQ(trace->values[1].number.f, 0.5);
  EXPECT_EQ(trace->steps[0].source.line, 12);
  EXPECT_EQ(trace->steps[0].site, &recorder);
  EXPECT_EQ(trace->steps[0].path, 17u);
  ASSERT_EQ(trace->steps[1].attrs.size(), 2u);
  EXPECT_EQ(std::get<ir::Ints>(trace->steps[1].attrs[0]), ir::Ints{1});
  ASSERT_EQ(trace->steps[2].in.size(), 2u);
  EXPECT_EQ(trace->steps[2].in[0], trace->steps[1].out[0]);
  EXPECT_EQ(trace->steps[2].in[1], trace->steps[1].out[0]);
  EXPECT_EQ(trace->values[trace->steps[1].out[0]].type.rank, 1);
  EXPECT_EQ(trace->values[trace->steps[2].out[0]].step, 2);
}

TEST(TracerNotes, DeathsInAnyThreadHaveTheirPosition) {
  EagerRecorder& recorder = Recorder();
  const rt::Ref<rt::TensorImpl> x = Make({4});
  recorder.Begin(0);
  rt::Ref<rt::TensorImpl> here = RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
  rt::Ref<rt::TensorImpl> there = RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
  const rt::Ref<rt::TensorImpl> lives = RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
  here = nullptr;
  RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
  std::thread([&] { there = nullptr; }).join();
  // More than one chunk of lives, while another thread drops what it was given.
  std::vector<rt::Ref<rt::TensorImpl>> many;
  for (int i = 0; i < 600; ++i) many.push_back(RunAndAdd(recorder, ir::Op::k_neg, {x.get()}));
  std::thread dropper([given = std::move(many)]() mutable { given.clear(); });
  for (int i = 0; i < 600; ++i) RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
  dropper.join();
  auto notes = recorder.Finish(TraceEnd::stopped);
  const std::shared_ptr<Trace> trace = notes->Expand();
  const auto death_of = [&](size_t step) { return trace->values[trace->steps[step].out[0]].death; };
  EXPECT_EQ(death_of(0), 3);
  EXPECT_EQ(death_of(1), 4);
  EXPECT_EQ(death_of(2), kAtEnd);
  for (size_t i = 4; i < 604; ++i) {
    EXPECT_GE(death_of(i), 604);
    EXPECT_LE(death_of(i), 1204);
  }
  for (size_t i = 604; i < 1204; ++i) EXPECT_EQ(death_of(i), static_cast<int32_t>(i) + 1);
  // What outlives the recording is watched by nobody.
  EXPECT_EQ(lives->watcher(), nullptr);
}

TEST(TracerNotes, MemoryServesTheNextRecording) {
  EagerRecorder& recorder = Recorder();
  const rt::Ref<rt::TensorImpl> x = Make({4});
  const auto record = [&] {
    recorder.Begin(0);
    for (int i = 0; i < 40; ++i) RunAndAdd(recorder, ir::Op::k_neg, {x.get()});
    const void* first = &recorder.notes().steps[0];
    recorder.Abort();
    return first;
  };
  const void* first = record();
  EXPECT_EQ(record(), first);
  EXPECT_FALSE(recorder.open());
}

TEST(TracerNotes, CutValuesAreForgotten) {
  ValueNotes values;
  TensorType type;
  type.rank = 2;
  type.dims[0] = 5;
  type.dims[1] = 6;
  values.Add(TraceValue::Kind::result, type, 0);
  const ValueNotes::Mark mark = values.Here();
  for (int i = 0; i < 100; ++i) values.AddNumber(TensorType{}, i, i, true);
  values.CutTo(mark);
  values.AddNumber(TensorType{}, 42, 1, true);
  Chunked<TraceValue> expanded;
  values.Expand(expanded);
  ASSERT_EQ(expanded.size(), 2u);
  EXPECT_EQ(expanded[0].type.dims[1], 6);
  EXPECT_EQ(expanded[1].number.i, 42);
  EXPECT_TRUE(expanded[1].is_fixed);
}

TEST(TracerNotes, StepsShareWhatWasReadForAllOfThem) {
  FunctionNotes notes;
  constexpr int64_t kWithNext = FunctionNotes::Step::kWithNext;
  for (const int64_t ticks : {int64_t{7}, kWithNext, kWithNext, int64_t{90}, int64_t{0}, kWithNext, int64_t{8}})
    notes.steps.emplace_back().ticks = ticks;
  notes.ShareTicks();
  std::vector<int64_t> shares;
  for (const FunctionNotes::Step& step : notes.steps) shares.push_back(step.ticks);
  EXPECT_EQ(shares, (std::vector<int64_t>{7, 30, 30, 30, 0, 4, 4}));
}

}  // namespace
}  // namespace tessera::tracer
