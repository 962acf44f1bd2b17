// The steps of a replay that are no ops: branches, counted loops, buffers, calls.
#include <utility>

#include "interp/dispatch.h"
#include "interp/kernel.h"
#include "tiers/replay_activation.h"

namespace tessera::tiers {

using rt::Ref;
using rt::TensorImpl;

absl::Status ReplayActivation::Other(int i, bool* holds) {
  const TraceStep& s = trace_.steps[i];
  switch (s.kind) {
    case TraceStep::Kind::op: return absl::OkStatus();
    case TraceStep::Kind::tensor: {
      const View* in = &numbers_[number_of_[s.in[0]]];
      View* out = &views_[s.out[0]];
      out->data = data_[s.out[0]];
      return ConvertTo(*in, *out);
    }
    case TraceStep::Kind::branch: {
      views_[s.in[0]].data = data_[s.in[0]];
      if (ahead_) return word_->Check(views_[s.in[0]], s.outcome, i == last_branch_);
      TSR_ASSIGN_OR_RETURN(const bool taken, interp::ReadBool(views_[s.in[0]], *trace_.device));
      if (taken == s.outcome) return absl::OkStatus();
      return Fail(i, deopt::GuardKind::branch, s.outcome ? "true" : "false", taken ? "true" : "false", holds);
    }
    case TraceStep::Kind::for_begin: {
      interp::Frame::Counter& c = counters_[s.counter];
      TSR_ASSIGN_OR_RETURN(c.next, interp::ReadInt(OperandView(i, 0), *trace_.device));
      TSR_ASSIGN_OR_RETURN(c.stop, interp::ReadInt(OperandView(i, 1), *trace_.device));
      TSR_ASSIGN_OR_RETURN(c.step, interp::ReadInt(OperandView(i, 2), *trace_.device));
      return c.step == 0 ? Internal("the step is 0") : absl::OkStatus();
    }
    case TraceStep::Kind::for_next: {
      interp::Frame::Counter& c = counters_[s.counter];
      const bool more = c.step > 0 ? c.next < c.stop : c.next > c.stop;
      if (more != s.outcome) {
        return Fail(i, deopt::GuardKind::branch, s.outcome ? "another iteration" : "the end of the loop",
                    more ? "another iteration" : "the end of the loop", holds);
      }
      if (!more) return absl::OkStatus();
      TSR_RETURN_IF_ERROR(trace_.device->CopyFromHost(data_[s.out[0]], &c.next, sizeof c.next));
      if (__builtin_add_overflow(c.next, c.step, &c.next)) c.next = c.stop;
      return absl::OkStatus();
    }
    case TraceStep::Kind::buffer_read: {
      if (buffers_known_) return absl::OkStatus();
      TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, instance->buffers[s.target]->Read(*device));
      if (!value->IsContiguous()) return Fail(i, deopt::GuardKind::strides, "row-major", "other strides", holds);
      // The kernel that was made for a known mask does not read it. While no buffer is written, nobody comes here.
      if (version_.guard(s.out[0]).mask != tracer::MaskShape::unknown) [[unlikely]] {
        GuardFailure why;
        if (!LookAtMask(s.out[0], *value, &why))
          return Fail(i, deopt::GuardKind::buffer_version, std::move(why.expected), std::move(why.seen), holds);
      }
      buffer_values_[s.out[0]] = value.get();
      Hold(s.out[0], std::move(value));
      return absl::OkStatus();
    }
    case TraceStep::Kind::buffer_write:
    case TraceStep::Kind::buffer_add: {
      TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, MakeTensor(s.in[0]));
      // What was read from the buffer and is not needed any more must not keep it from adding in place.
      for (int k = 0; k < i; ++k) {
        const TraceStep& r = trace_.steps[k];
        if (r.kind != TraceStep::Kind::buffer_read || r.target != s.target || plan_.last[r.out[0]] >= i) continue;
        if (tensors_[r.out[0]] != nullptr) std::exchange(tensors_[r.out[0]], nullptr)->Release();
      }
      interp::BufferState& buffer = *instance->buffers[s.target];
      return s.kind == TraceStep::Kind::buffer_write ? buffer.Write(std::move(value)) : buffer.Add(*value);
    }
    case TraceStep::Kind::call: return Call(i, holds);
  }
  return absl::OkStatus();
}

absl::Status ReplayActivation::Call(int i, bool* holds) {
  const TraceStep& s = trace_.steps[i];
  absl::InlinedVector<Ref<TensorImpl>, 8> owned;
  interp::Results results;
  absl::InlinedVector<TensorImpl*, 8> args;
  for (ValueId v : s.in) {
    TSR_ASSIGN_OR_RETURN(Ref<TensorImpl> value, MakeTensor(v));
    args.push_back(value.get());
    owned.push_back(std::move(value));
  }
  // Every activation in between counts towards the limit of nested calls, as it would in tier 1.
  int nested = depth + 1;
  for (int f = s.frame; trace_.frames[f].parent >= 0; f = trace_.frames[f].parent) ++nested;
  TSR_RETURN_IF_ERROR(interp::CallAtDepth(*instance, s.target, args, *device, nested, &results));
  bool same = true;
  for (size_t k = 0; k < s.out.size(); ++k) {
    same = same && results[k]->SameDims(views_[s.out[k]]) && results[k]->IsContiguous();
    Hold(s.out[k], std::move(results[k]));
  }
  if (same) return absl::OkStatus();
  stop_after_ = true;
  return Fail(i, deopt::GuardKind::exact_dim, "results as recorded", "results of other dims or strides", holds);
}

absl::Status ReplayActivation::Fail(int i, deopt::GuardKind guard, std::string expected, std::string seen,
                                    bool* holds) {
  *holds = false;
  failure_ = {};
  failure_.guard = guard;
  failure_.reason = deopt::Info(guard).reason;
  failure_.step = i;
  failure_.source = trace_.steps[i].source;
  failure_.expected = std::move(expected);
  failure_.seen = std::move(seen);
  return absl::OkStatus();
}

void ReplayActivation::Hold(ValueId v, Ref<TensorImpl> value) {
  SetData(v, value->data);
  if (tensors_[v] != nullptr) tensors_[v]->Release();
  tensors_[v] = value.release();
  made_.push_back(v);
}

}  // namespace tessera::tiers
