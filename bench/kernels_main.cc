// Kernels alone, called as directly as C++ can: what trace_call takes off its figures, and what no engine can take off
// those of eager_loop without fusing. The shared library hides them, so this program links the core itself. Speaks the
// protocol of peer_serve.h.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/peer_serve.h"
#include "interp/cpu/loops_ew.h"
#include "interp/kernel.h"

namespace {

constexpr int kElements = 64;

using tessera::DType;
using tessera::View;
using tessera::ir::Op;

/// The ops of a layer of tracing_mlp.cc in its order, for 8 rows of 16. The loss is left out: 4 ops of 304.
class LayerKernels {
 public:
  void Run() {
    Product(rows_, weight_, false, false, product_);
    // A row under a matrix is repeated first.
    for (int r = 0; r < kRows; ++r) std::copy_n(bias_->floats, kWidth, spread_->floats + r * kWidth);
    Loop(add_, kBatch);
    Loop(relu_, kBatch);
    Loop(mul_, kBatch);
    Loop(add_, kBatch);
    Loop(gt_, kBatch);
    Loop(mul_, kBatch);
    Loop(where_, kBatch);
    Product(rows_, rows_, true, false, weight_out_);
    Sum();
    Product(rows_, weight_, false, true, product_);
    Loop(add_, kBatch);
    for (const int64_t n : {kWidth * kWidth, kWidth})
      for (const tessera::cpu::EwLoop loop : {clamp_, mul_, add_, mul_, add_, mul_, add_, mul_, sub_}) Loop(loop, n);
  }

 private:
  static constexpr int64_t kRows = 8, kWidth = 16, kBatch = kRows * kWidth;
  struct Room {
    alignas(64) float floats[kWidth * kWidth] = {};
  };
  struct Matrix {
    Matrix(int64_t rows, int64_t columns) {
      view.dtype = DType::f32;
      view.rank = 2;
      view.dims[0] = rows;
      view.dims[1] = columns;
      view.SetContiguousStrides();
      view.data = room->floats;
    }
    std::unique_ptr<Room> room = std::make_unique<Room>();
    View view;
  };
  static tessera::cpu::EwLoop Find(Op op) { return tessera::cpu::FindEwLoop(op, DType::f32); }

  void Loop(tessera::cpu::EwLoop loop, int64_t n) {
    const void* in[] = {loop == where_ ? static_cast<const void*>(mask_) : a_->floats, b_->floats, c_->floats};
    loop(loop == gt_ ? static_cast<void*>(mask_) : out_->floats, in, n);
  }
  void Product(const Matrix& a, const Matrix& b, bool transpose_a, bool transpose_b, Matrix& out) {
    const View* in[] = {&a.view, &b.view};
    View* y = &out.view;
    const tessera::ir::Attr attrs[] = {transpose_a, transpose_b};
    (void)product_kernel_({tessera::ir::Info(Op::k_matmul), in, {&y, 1}, attrs}).ok();
  }
  void Sum() {
    const View* in = &rows_.view;
    View* y = &sum_;
    (void)sum_kernel_({tessera::ir::Info(Op::k_sum), {&in, 1}, {&y, 1}, sum_attrs_}).ok();
  }
  static View SumView(Room& room) {
    View view;
    view.dtype = DType::f32;
    view.rank = 1;
    view.dims[0] = kWidth;
    view.SetContiguousStrides();
    view.data = room.floats;
    return view;
  }

  const tessera::cpu::EwLoop add_ = Find(Op::k_add), sub_ = Find(Op::k_sub), mul_ = Find(Op::k_mul),
                             relu_ = Find(Op::k_relu), gt_ = Find(Op::k_gt), where_ = Find(Op::k_where),
                             clamp_ = Find(Op::k_clamp);
  const tessera::interp::Kernel product_kernel_ = tessera::interp::KernelOf(Op::k_matmul, tessera::rt::DeviceKind::cpu);
  const tessera::interp::Kernel sum_kernel_ = tessera::interp::KernelOf(Op::k_sum, tessera::rt::DeviceKind::cpu);
  const std::vector<tessera::ir::Attr> sum_attrs_ = {tessera::ir::Ints{0}, false};
  std::unique_ptr<Room> a_ = std::make_unique<Room>(), b_ = std::make_unique<Room>(), c_ = std::make_unique<Room>(),
                        out_ = std::make_unique<Room>(), bias_ = std::make_unique<Room>(),
                        spread_ = std::make_unique<Room>(), sum_room_ = std::make_unique<Room>();
  bool mask_[kWidth * kWidth] = {};
  Matrix rows_{kRows, kWidth}, weight_{kWidth, kWidth}, product_{kRows, kWidth}, weight_out_{kWidth, kWidth};
  View sum_ = SumView(*sum_room_);
};

/// "add COUNT": that many dependent adds, which write to two places in turn as a plan for their memory would.
/// "layers COUNT": the kernels of that many layers of a training step.
std::function<double(int64_t)> Find(const std::string& task) {
  if (task.starts_with("layers ")) {
    auto layer = std::make_shared<LayerKernels>();
    return [layer, count = std::atoi(task.c_str() + 7)](int64_t n) {
      const auto start = std::chrono::steady_clock::now();
      for (int64_t i = 0; i < n * count; ++i) layer->Run();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
  }
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
