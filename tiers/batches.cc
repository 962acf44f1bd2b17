#include "tiers/batches.h"

#include <algorithm>
#include <climits>
#include <map>

#include "tiers/memory_plan.h"

namespace tessera::tiers {
namespace {

using tracer::kNoValue;
using tracer::Trace;
using tracer::TraceStep;
using tracer::TraceValue;
using tracer::ValueId;

// The first step that reads each value on the device; those of the kernel that makes it do not count. Windows read
// nothing, but who reads a window reads what it looks at.
std::vector<int> FirstReads(const Trace& trace, const std::vector<int>& kernel_of) {
  std::vector<int> first(trace.values.size(), INT_MAX), maker(trace.values.size(), -1);
  std::vector<bool> is_dense(trace.values.size(), false);  // as a kernel leaves it, so that a reshape is a window
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const TraceStep& s = trace.steps[i];
    for (ValueId v : s.out) {
      const auto out = static_cast<size_t>(v);
      is_dense[out] = !MayShare(s) || (s.op == ir::Op::k_reshape && is_dense[static_cast<size_t>(s.in[0])]);
      maker[out] = MayShare(s) ? maker[static_cast<size_t>(s.in[0])] : kernel_of[i];
    }
  }
  for (size_t i = trace.steps.size(); i-- > 0;) {
    const TraceStep& s = trace.steps[i];
    const bool is_window = MayShare(s) && (s.op != ir::Op::k_reshape || is_dense[static_cast<size_t>(s.in[0])]);
    for (ValueId v : s.in) {
      if (v == kNoValue) continue;
      int& read = first[static_cast<size_t>(v)];
      if (is_window) {
        for (ValueId out : s.out) read = std::min(read, first[static_cast<size_t>(out)]);
      } else if (kernel_of[i] < 0 || kernel_of[i] != maker[static_cast<size_t>(v)]) {
        read = std::min(read, static_cast<int>(i));
      }
    }
  }
  return first;
}

}  // namespace

std::vector<std::vector<int>> FindBatches(const Trace& trace, absl::Span<const Code::Kernel> kernels) {
  std::vector<int> kernel_of(trace.steps.size(), -1);
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (kernels[k].library) continue;  // may fail as the steps of tier 1 may
    for (int s : kernels[k].steps) kernel_of[static_cast<size_t>(s)] = static_cast<int>(k);
  }
  const std::vector<int> first_reads = FirstReads(trace, kernel_of);
  // How many steps before each one are neither a kernel's nor windows.
  std::vector<int> others = {0};
  for (size_t i = 0; i < trace.steps.size(); ++i)
    others.push_back(others.back() + (kernel_of[i] < 0 && !MayShare(trace.steps[i])));

  std::vector<int> order;
  for (size_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].many > 1) order.push_back(static_cast<int>(k));
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return kernels[static_cast<size_t>(a)].position < kernels[static_cast<size_t>(b)].position;
  });
  struct Open {
    std::vector<int> members;
    int from = 0;         // the first step of a member
    int until = INT_MAX;  // the first step that needs what some member computes
  };
  std::map<const void*, Open> open;
  std::vector<std::vector<int>> batches;
  const auto close = [&](Open& batch) {
    if (batch.members.size() > 1) batches.push_back(std::move(batch.members));
    batch = {};
  };
  for (int k : order) {
    const Code::Kernel& kernel = kernels[static_cast<size_t>(k)];
    Open& batch = open[kernel.function];
    if (!batch.members.empty()) {
      const Code::Kernel& other = kernels[static_cast<size_t>(batch.members[0])];
      const bool is_alike = other.views.size() == kernel.views.size() && other.dims.size() == kernel.dims.size();
      const int between = others[static_cast<size_t>(kernel.position) + 1] - others[static_cast<size_t>(batch.from)];
      if (!is_alike || between > 0 || batch.until <= kernel.position) close(batch);
    }
    if (batch.members.empty()) batch.from = kernel.steps.front();
    batch.members.push_back(k);
    batch.from = std::min(batch.from, kernel.steps.front());
    for (size_t v = kernel.num_inputs; v < kernel.views.size(); ++v)
      batch.until = std::min(batch.until, first_reads[static_cast<size_t>(kernel.views[v])]);
  }
  for (auto& [function, batch] : open) close(batch);
  std::sort(batches.begin(), batches.end(), [&](const std::vector<int>& a, const std::vector<int>& b) {
    return kernels[static_cast<size_t>(a[0])].position < kernels[static_cast<size_t>(b[0])].position;
  });
  return batches;
}

}  // namespace tessera::tiers
