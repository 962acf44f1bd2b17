#include "tiers/function_schedule.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/schedule.h"

namespace tessera::tiers {
namespace {

using tracer::Trace;
using tracer::TraceFrame;
using tracer::TraceStep;
using tracer::TraceValue;

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

bool IsProduct(const TraceStep& s) { return s.kind == TraceStep::Kind::op && ir::Info(s.op).bound == ir::Bound::dot; }

// The frame whose function speaks for the step; -1 where none does.
int32_t Speaker(const Trace& trace, const TraceStep& step) {
  if (trace.is_eager || trace.frames.empty()) return -1;
  for (int32_t f = step.frame; f >= 0; f = trace.frames[f].parent) {
    const interp::Bytecode* code = trace.frames[f].code;
    if (code == nullptr || code->source == nullptr) continue;
    if (!code->source->schedule.empty() || !code->source->tune_space.empty() || !code->source->tune_key.empty())
      return f;
  }
  return -1;
}

const ir::Function* SpeakerOf(const Trace& trace, size_t step) {
  const int32_t f = Speaker(trace, trace.steps[step]);
  return f < 0 ? nullptr : trace.frames[f].code->source;
}

std::string NameOf(size_t step) { return absl::StrCat("p", step); }

// Is register `reg` the parameter as long as the function runs?
bool IsKept(const interp::Bytecode& code, int32_t reg) {
  for (const interp::Insn& insn : code.code)
    for (uint32_t r = 0; r < insn.num_results; ++r)
      if (code.registers[insn.results + r] == reg) return false;
  return true;
}

// The type that parameter `i` of a frame has in the example; null where the trace does not tell.
const TensorType* ArgumentType(const Trace& trace, const Trace& example, int32_t frame, size_t i) {
  const TraceFrame& f = trace.frames[frame];
  if (frame > 0) return i < f.args.size() && f.args[i] != tracer::kNoValue ? &example.values[f.args[i]].type : nullptr;
  const int32_t reg = f.code->params[i];
  if (trace.start_pc != 0 && !IsKept(*f.code, reg)) return nullptr;
  for (size_t v = 0; v < trace.values.size(); ++v)
    if (trace.values[v].kind == TraceValue::Kind::input && trace.values[v].reg == reg) return &example.values[v].type;
  return nullptr;
}

// The size of a symbol in the example; -1 where it cannot be told.
int64_t SizeOfSymbol(const Trace& trace, const Trace& example, int32_t frame, const std::string& name) {
  const interp::Bytecode& code = *trace.frames[frame].code;
  const int64_t symbol = code.source->symbols->Find(name);
  for (size_t i = 0; i < code.param_types.size(); ++i) {
    const TensorType& declared = code.param_types[i];
    for (int d = 0; d < declared.rank; ++d) {
      if (declared.dims[d] != symbol) continue;
      const TensorType* type = ArgumentType(trace, example, frame, i);
      if (type != nullptr && d < type->rank && !ir::IsSymbol(type->dims[d])) return type->dims[d];
    }
  }
  return -1;
}

}  // namespace

std::string ScheduleOf(const Trace& trace, std::string_view chosen) {
  // In the order of steps, so that one schedule has one text, which is part of the code's key.
  std::map<size_t, std::string> own;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (!IsProduct(trace.steps[i])) continue;
    const ir::Function* f = SpeakerOf(trace, i);
    if (f != nullptr && !f->schedule.empty()) own[i] = f->schedule;
  }
  if (own.empty()) return std::string(chosen);
  std::vector<std::string> others;
  for (absl::string_view product : absl::StrSplit(View(chosen), '+', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(product, absl::MaxSplits(':', 1));
    const auto it = std::find_if(own.begin(), own.end(), [&](auto& o) { return NameOf(o.first) == parts.first; });
    if (it == own.end()) {
      others.emplace_back(product);
    } else {
      // Of entries that stand twice the last one counts.
      absl::StrAppend(&it->second, ",", parts.second);
    }
  }
  std::vector<std::string> all;
  for (const auto& [step, entries] : own) all.push_back(absl::StrCat(NameOf(step), ":", entries));
  all.insert(all.end(), others.begin(), others.end());
  return absl::StrJoin(all, "+");
}

bool HasChoices(const Trace& trace) {
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (!IsProduct(trace.steps[i])) continue;
    const ir::Function* f = SpeakerOf(trace, i);
    if (f == nullptr || f->schedule.empty() || !f->tune_space.empty()) return true;
  }
  return false;
}

std::string SpacesOf(const Trace& trace) {
  std::string out;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const ir::Function* f = IsProduct(trace.steps[i]) ? SpeakerOf(trace, i) : nullptr;
    if (f != nullptr && !f->tune_space.empty()) absl::StrAppend(&out, NameOf(i), " ", f->tune_space, "\n");
  }
  return out;
}

std::string LimitSpace(const Trace& trace, std::string_view space) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(View(space), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const ir::Function* f = nullptr;
    for (size_t i = 0; !words.empty() && i < trace.steps.size(); ++i)
      if (NameOf(i) == words[0] && IsProduct(trace.steps[i])) f = SpeakerOf(trace, i);
    if (f != nullptr && !f->tune_space.empty()) {
      absl::StrAppend(&out, words[0], " ", f->tune_space, "\n");
    } else if (f == nullptr || f->schedule.empty()) {
      absl::StrAppend(&out, line, "\n");
    }
  }
  return out;
}

std::optional<std::string> SizesOfKey(const Trace& trace, const Trace& example) {
  std::vector<std::string> sizes;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (!IsProduct(trace.steps[i])) continue;
    const int32_t f = Speaker(trace, trace.steps[i]);
    if (f < 0 || trace.frames[f].code->source->tune_key.empty()) return std::nullopt;
    for (const std::string& name : ir::TuneKey(*trace.frames[f].code->source)) {
      const int64_t size = SizeOfSymbol(trace, example, f, name);
      if (size < 0) return std::nullopt;
      sizes.push_back(absl::StrCat(f, ".", name, "=", size));
    }
  }
  if (sizes.empty()) return std::nullopt;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return absl::StrJoin(sizes, ",");
}

}  // namespace tessera::tiers
