// Branches of a replay that the device looks at.
#include <algorithm>
#include <utility>

#include "runtime/log.h"
#include "tiers/replay_activation.h"

namespace tessera::tiers {
namespace {

using rt::Ref;
using rt::TensorImpl;

// Kernels of CUDA devices find an index that is out of range when they run, and the device tells whoever waits next: of
// a run that should not have been nobody may hear. Ops with dtypes none make something of their indices alone.
bool MayReport(const ir::OpInfo& op) {
  return op.dtypes != ir::DTypeSet::s_none &&
         std::any_of(op.operands.begin(), op.operands.end(),
                     [](const ir::OperandSpec& spec) { return spec.role == ir::Role::index; });
}

}  // namespace

int ReplayActivation::LastBranch() const {
  if (trace_.is_eager) return -1;
  int last = -1;
  for (size_t i = 0; i < trace_.steps.size(); ++i) {
    const TraceStep& s = trace_.steps[i];
    switch (s.kind) {
      case TraceStep::Kind::op:
        if (trace_.device->kind() != rt::DeviceKind::cpu && MayReport(ir::Info(s.op))) return -1;
        break;
      case TraceStep::Kind::branch:
        if (number_of_[s.in[0]] >= 0) return -1;
        last = static_cast<int>(i);
        break;
      case TraceStep::Kind::tensor:
      case TraceStep::Kind::for_next: break;
      case TraceStep::Kind::for_begin:
      case TraceStep::Kind::buffer_read:
      case TraceStep::Kind::buffer_write:
      case TraceStep::Kind::buffer_add:
      case TraceStep::Kind::call: return -1;
    }
  }
  return last;
}

bool ReplayActivation::LeaveBranchesToDevice() {
  if (word_ == nullptr) {
    absl::StatusOr<std::unique_ptr<interp::GuardWord>> word = interp::MakeGuardWord(*trace_.device);
    if (!word.ok()) {
      TSR_LOG(1, "version ", version_.id, " of ", trace_.name, " reads its branches: ", word.status().message());
      last_branch_ = -1;
      graphs_ = nullptr;
      return false;
    }
    word_ = *std::move(word);
    TSR_LOG(2, "version ", version_.id, " of ", trace_.name, ": ", trace_.device->name(),
            " looks at its branches, and the host goes on");
  }
  ahead_ = true;
  started_ahead_ = false;
  return true;
}

uint64_t ReplayActivation::ReadBranches() {
  ahead_ = false;
  // What did not come to its last branch is not to count for the run after it.
  if (!started_ahead_ || position_ <= last_branch_) word_->GiveUp().IgnoreError();
  return runs_ahead_++;
}

absl::StatusOr<bool> ReplayActivation::Held(uint64_t run) { return word_->Held(run); }

absl::Status ReplayActivation::RunFrom(absl::Span<const Carry> carried, absl::Span<Ref<TensorImpl>> begin,
                                       absl::Span<const interp::Frame::Counter> counters) {
  std::copy(counters.begin(), counters.end(), counters_.begin());
  position_ = 0;
  for (size_t k = 0; k < carried.size(); ++k) {
    const ValueId in = carried[k].in;
    TensorImpl*& slot = in == kNoValue ? unread_[k] : tensors_[in];
    if (slot != nullptr) slot->Release();
    slot = begin[k].release();
    if (in != kNoValue) SetData(in, slot->data);
  }
  LetGoOfLasting();
  TSR_RETURN_IF_ERROR(PlaceLasting());
  return RunSteps(static_cast<int>(fast_.size()));
}

}  // namespace tessera::tiers
