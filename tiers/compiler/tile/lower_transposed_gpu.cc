// Operands that lie the other way round, on CUDA devices: a part of tsr-lower-kernels-gpu.
//
// A kernel that computes element by element writes along the innermost loop of its nest. An operand that runs along
// another loop (x.T, or any permutation that moves the last dim) would be read with a stride: 32 bytes for each element
// that is needed, because memory gives no less. So the two loops are cut into squares of kTile x kTile elements, one
// for each block at a time, and such operands take the way through shared memory:
//
//   1  Each thread reads 16 bytes along the operand's own rows, several times, and meanwhile what it needs of other
//      operands for its first results.
//   2  It puts them into the square: rows of the operand, that is, columns of the result.
//   3  After a barrier it reads down the columns of the square, computes, and writes 16 bytes along the results.
//
// A warp has 8 vectors of results side by side in each of 4 rows. In the square, part p of 16 bytes of a row lies where
// p xor q would, with q the number of the row's vector of results: the 8 vectors are in 8 different groups of banks,
// the 4 rows are neighbours within a part, and nobody waits for a bank.
//
// Where addresses, strides or sizes are no multiples of vectors, the same is done element by element, in rows of the
// square that are a word longer. Beyond the edges the last elements are read again, and nothing is written.
//
// Each point is read and written by the same thread, operands that lie as the results do before the results: so a
// result may be where one of them is, as in every element-wise kernel.
#include "tiers/compiler/tile/lower_transposed_gpu.h"

#include "llvm/Support/MathExtras.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "tiers/compiler/sched/transposed.h"
#include "tiers/compiler/tile/gpu_geometry.h"
#include "tiers/compiler/tile/gpu_rows.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kThreads = 256;
constexpr int64_t kOfThread = kTile * kTile / kThreads;  // elements
constexpr int64_t kAccess = 16;                          // bytes
constexpr int64_t kGroups = 8;                           // of banks, each as wide as an access
constexpr int64_t kMostShared = 48 << 10;                // bytes that a block has without asking
constexpr int64_t kInFlight = 24;                        // elements of other operands that a thread has registers for
constexpr int64_t kAtOnce = 4;  // elements that are done at a time where they are no vectors; twice as many are moved

int64_t LoopOf(sched::KernelOp kernel, const LoopNest& nest, size_t l) {
  int64_t size = 1;
  for (int64_t d = nest.loops[l].first; d <= nest.loops[l].second; ++d) {
    const int64_t n = LikelySize(kernel, nest.space[static_cast<size_t>(d)]);
    if (n < 0) return -1;
    size *= n;
  }
  return size;
}

bool RunsAlong(const ViewPlan& view, size_t loop) {
  return view.loops.back().kind == Stride::Kind::table && view.loops[loop].kind == Stride::Kind::one;
}

// The loop that most bytes of such operands run along.
std::optional<size_t> LoopAcross(sched::KernelOp kernel, const LoopNest& nest) {
  if (nest.row > 0 || nest.count > 0 || nest.loops.size() < 2) return std::nullopt;
  const size_t inputs = kernel.getInputs().size(), last = nest.loops.size() - 1;
  for (size_t k = 0; k < nest.views.size(); ++k) {
    if (nest.views[k].is_table || nest.views[k].is_factor) return std::nullopt;
    if (k >= inputs && llvm::any_of(nest.views[k].loops, [](const Stride& s) { return s.kind != Stride::Kind::dense; }))
      return std::nullopt;
  }
  std::optional<size_t> best;
  int64_t most = 0;
  for (size_t l = 0; l < last; ++l) {
    int64_t bits = 0;
    for (size_t k = 0; k < inputs; ++k)
      if (RunsAlong(nest.views[k], l)) bits += nest.views[k].type.getElementTypeBitWidth();
    if (bits > most) most = bits, best = l;
  }
  if (!best) return std::nullopt;
  for (size_t l : {*best, last})
    if (const int64_t n = LoopOf(kernel, nest, l); n >= 0 && n < kShortestSide) return std::nullopt;
  return best;
}

class TransposedGpu : public GpuRows {
 public:
  TransposedGpu(sched::KernelOp kernel, LoopNest nest, const CompileOptions& options, size_t across)
      : GpuRows(kernel, std::move(nest), options), across_(across) {}

  void Run(OpBuilder& at) {
    ClassifyValues();
    FindTurned();
    ChooseLanes();
    Begin(at);
    width_ = sizes_.back();
    height_ = sizes_[across_];
    thread_ = Place("thread");
    Value is_aligned = may_be_whole_ ? IsAligned() : Value();
    Value across = Ceil(height_, kTile), along = Ceil(width_, kTile), outer = I64(1);
    for (size_t l = 0; l < Outer(); ++l)
      if (l != across_) outer = Mul(outer, sizes_[l]);
    For(Place("block"), Mul(outer, Mul(across, along)), Place("blocks"), {}, [&](Value item, ValueRange) {
      column_ = Mul(Rem(item, along), I64(kTile));
      Value rest = Div(item, along);
      row_ = Mul(Rem(rest, across), I64(kTile));
      outer_ = OuterIndices(Div(rest, across));
      if (is_aligned)
        IfElse(is_aligned, [&] { Vectors(); }, [&] { Scalars(); });
      else
        Scalars();
      // The square is not to be filled again before everybody has read it.
      tile::BarrierOp::create(b_, loc_);
      return SmallVector<Value>();
    });
    SmallVector<int64_t> tasks;
    for (size_t l = 0; l < nest_.loops.size(); ++l) AppendProduct(tasks, l);
    End(tasks, {}, {}, {}, shared_bytes_);
    tile_.setTeam(ArrayRef<int64_t>{kThreads, PerBlock(), blocks_, 0});
  }

 private:
  // An operand that runs along the loop across: its square begins at that byte of shared memory.
  struct Turned {
    size_t view;
    int64_t bytes;  // of an element
    int64_t first;

    int64_t Part() const { return kAccess / bytes; }  // elements of an access
    int64_t Parts() const { return kTile / Part(); }  // of a row
    int64_t Mask() const { return std::min(kGroups, Parts()) - 1; }
    int64_t Pitch() const { return kTile + std::max<int64_t>(4, bytes) / bytes; }  // of rows, element by element
  };
  // A vector of results: where its views begin, and what is known of it.
  struct Stage {
    SmallVector<Value> indices, offsets;
    llvm::DenseMap<Value, Value> values;
    Chunk chunk;
  };

  // ---- what is known

  // As many as there is room for, the widest first; the others are read with a stride.
  void FindTurned() {
    SmallVector<size_t> views;
    for (size_t k = 0; k < num_inputs_; ++k)
      if (RunsAlong(nest_.views[k], across_)) views.push_back(k);
    auto bytes_of = [&](size_t k) { return BytesOf(nest_.views[k].type.getElementType()); };
    llvm::sort(views,
               [&](size_t a, size_t b) { return bytes_of(a) != bytes_of(b) ? bytes_of(a) > bytes_of(b) : a < b; });
    for (size_t k : views) {
      Turned t{k, bytes_of(k), shared_bytes_};
      const int64_t bytes = kTile * t.Pitch() * t.bytes;
      if (shared_bytes_ + bytes > kMostShared) continue;
      shared_bytes_ += bytes;
      turned_.push_back(t);
    }
  }
  bool IsTurned(size_t k) const {
    return llvm::any_of(turned_, [&](const Turned& t) { return t.view == k; });
  }

  int64_t ExactLoop(size_t l) {
    for (int64_t d = nest_.loops[l].first; d <= nest_.loops[l].second; ++d)
      if (nest_.space[static_cast<size_t>(d)].is_symbol) return -1;
    return LoopOf(kernel_, nest_, l);
  }

  void ChooseLanes() {
    exact_width_ = ExactLoop(nest_.loops.size() - 1);
    exact_height_ = ExactLoop(across_);
    int64_t narrowest = 8, widest = 1, others = 0, computed = 4;
    for (size_t k = 0; k < nest_.views.size(); ++k) {
      if (nest_.views[k].loops.back().kind == Stride::Kind::zero || IsTurned(k)) continue;
      const int64_t bytes = BytesOf(nest_.views[k].type.getElementType());
      narrowest = std::min(narrowest, bytes);
      widest = std::max(widest, bytes);
      others += k < num_inputs_;
    }
    for (Operation& op : Body().without_terminator())
      computed = std::max(computed, BytesOf(ComputeType(ElementOf(op.getResult(0)))));
    lanes_of_thread_ = std::clamp<int64_t>(kAccess / narrowest, 1, kGroups);
    while (lanes_of_thread_ > 1 && lanes_of_thread_ * widest > 2 * kAccess) lanes_of_thread_ /= 2;
    while (exact_width_ >= 0 && exact_width_ % lanes_of_thread_ != 0) lanes_of_thread_ /= 2;
    for (const Turned& t : turned_) may_be_whole_ &= exact_height_ < 0 || exact_height_ % t.Part() == 0;
    // Functions need registers of their own.
    const bool is_heavy = llvm::any_of(Yield().getValues(), [&](Value v) { return IsHeavy(v); });
    const int64_t share = lanes_of_thread_ * std::max<int64_t>(1, others) * (is_heavy ? 2 : 1);
    const int64_t room = std::max<int64_t>(1, kInFlight / share);
    at_once_ = std::min<int64_t>(kOfThread / lanes_of_thread_, static_cast<int64_t>(llvm::bit_floor<uint64_t>(room)));
    // 80 registers for each thread; f64, much in flight and code for older devices take more.
    int64_t in_flight = at_once_ * lanes_of_thread_ * others;
    for (const Turned& t : turned_) in_flight += kOfThread * t.bytes / 4;
    blocks_ = device_.starts_with("sm_8") || computed > 4 || in_flight > 2 * kOfThread ? 2 : 3;
  }

  // Elements that a block does at a time, as far as sizes were seen.
  int64_t PerBlock() {
    const int64_t width = LoopOf(kernel_, nest_, nest_.loops.size() - 1), height = LoopOf(kernel_, nest_, across_);
    auto side = [](int64_t n) {
      return n <= 0 ? kTile : std::max<int64_t>(1, n / static_cast<int64_t>(llvm::divideCeil(n, kTile)));
    };
    return side(width) * side(height);
  }

  // Are all accesses of whole vectors: of results and what lies like them, and of operands that run across?
  Value IsAligned() {
    Value bits;
    auto add = [&](Value v, int64_t multiple) {
      if (multiple == 1) return;
      v = arith::AndIOp::create(b_, loc_, v, I64(multiple - 1));
      bits = bits ? arith::OrIOp::create(b_, loc_, bits, v).getResult() : v;
    };
    for (const Turned& t : turned_) {
      add(LLVM::PtrToIntOp::create(b_, loc_, b_.getI64Type(), view_args_[t.view]), kAccess);
      for (size_t l = 0; l < nest_.loops.size(); ++l)
        if (l != across_ && loop_strides_[t.view][l]) add(loop_strides_[t.view][l], t.Part());
      if (exact_height_ < 0) add(height_, t.Part());
    }
    Value is_whole = bits ? Compare(arith::CmpIPredicate::eq, bits, I64(0)) : Value();
    return And(is_whole, AreAligned(lanes_of_thread_, exact_width_ < 0 ? width_ : Value()));
  }

  // ---- places

  SmallVector<Value> OuterIndices(Value task) {
    SmallVector<Value> at(Outer());
    for (size_t l = Outer(); l-- > 0;) {
      if (l == across_) continue;
      at[l] = Rem(task, sizes_[l]);
      task = Div(task, sizes_[l]);
    }
    return at;
  }
  // An index within `size`, and, into *is_there, whether it was. `step`: of those that come together; `exact`: the
  // size, where it is known.
  Value Within(Value index, Value size, int64_t exact, int64_t step, Value* is_there) {
    if (exact >= 0 && exact % kTile == 0) return index;
    if (is_there != nullptr) *is_there = And(*is_there, Compare(arith::CmpIPredicate::ult, index, size));
    return Min(index, Minus(size, I64(step)));
  }
  Value Column(Value own, int64_t step, Value* is_there) {
    return Within(Sum(column_, own), width_, exact_width_, step, is_there);
  }
  Value Row(Value own, int64_t step, Value* is_there) {
    return Within(Sum(row_, own), height_, exact_height_, step, is_there);
  }
  // Of an operand that runs across, without the rows of the square.
  Value At(const Turned& t, Value row, Value column) {
    return Sum(Sum(offsets_[t.view], row), Mul(column, loop_strides_[t.view].back()));
  }

  Value LoadRaw(Value view, Value at, Type type, int64_t lanes, bool aligned) {
    return tile::LoadOp::create(b_, loc_, TileType(ComputeType(type), lanes), view, at, Value(), TypeAttr::get(type),
                                aligned ? b_.getUnitAttr() : UnitAttr());
  }
  void StoreRaw(Value tile, Value at, Type type, bool aligned) {
    tile::StoreOp::create(b_, loc_, tile, scratch_, at, Value(), type, aligned);
  }

  // ---- what is computed

  // The vector of results at that row and column of the square, with all operands that do not go through it.
  Stage Load(Value row, Value column, int64_t lanes) {
    Value is_there, at = Column(column, lanes, &is_there);
    SmallVector<Value> indices = outer_;
    indices[across_] = Row(row, 1, &is_there);
    SetOffsets(indices);
    ForgetRow();
    Stage stage{indices_, offsets_, values_, Chunk{at, is_there, lanes, lanes > 1}};
    for (const Turned& t : turned_) stage.chunk.tiles[Argument(t.view)] = Value();  // not yet
    for (Value v : Yield().getValues()) NeedRows(v, 0);
    for (Value v : Yield().getValues()) LoadFor(v, stage.chunk);
    stage.values = values_;
    return stage;
  }
  // The rest of it; `slot` says where an operand's elements are in shared memory, `pitch` elements apart.
  void Finish(Stage& stage, llvm::function_ref<std::pair<Value, int64_t>(const Turned&)> slot) {
    indices_ = stage.indices, offsets_ = stage.offsets, values_ = stage.values;
    Chunk& chunk = stage.chunk;
    for (const Turned& t : turned_) {
      const auto [at, pitch] = slot(t);
      Type element = nest_.views[t.view].type.getElementType();
      chunk.tiles[Argument(t.view)] =
          tile::LoadOp::create(b_, loc_, TileType(ComputeType(element), chunk.lanes), scratch_, at,
                               chunk.lanes == 1 ? Value() : I64(pitch), TypeAttr::get(element), UnitAttr());
    }
    for (auto [k, v] : llvm::enumerate(Yield().getValues())) {
      const size_t view = num_inputs_ + k;
      StoreWhere(Tile(v, chunk), view, Sum(offsets_[view], chunk.at), chunk, chunk.is_valid);
    }
  }

  // ---- by vectors

  // A part as words: its bits are not touched.
  std::pair<Type, int64_t> Words(const Turned& t) {
    return t.bytes == 8 ? std::make_pair(Type(b_.getI64Type()), int64_t{8})
                        : std::make_pair(Type(b_.getI32Type()), int64_t{4});
  }
  // Bytes or elements as words of that size.
  Value InWords(Value n, int64_t bytes, int64_t word) {
    return bytes == word ? n
                         : arith::ShRUIOp::create(b_, loc_, n, I64(llvm::Log2_64(static_cast<uint64_t>(word / bytes))));
  }

  void Vectors() {
    SetOffsets(outer_);
    struct Part {
      Value bits, at;
    };
    SmallVector<SmallVector<Part>> parts;
    for (const Turned& t : turned_) {
      const auto [type, word] = Words(t);
      SmallVector<Part> own;
      Value part = Rem(thread_, I64(t.Parts()));
      Value row = Row(Mul(part, I64(t.Part())), t.Part(), nullptr);
      for (int64_t n = 0; n < kTile * t.Parts() / kThreads; ++n) {
        Value column = Sum(Div(thread_, I64(t.Parts())), I64(n * (kThreads / t.Parts())));
        Value from = At(t, row, Column(column, 1, nullptr));
        Value bits = LoadRaw(view_args_[t.view], InWords(from, t.bytes, word), type, kAccess / word, true);
        Value group = arith::AndIOp::create(b_, loc_, Div(column, I64(lanes_of_thread_)), I64(t.Mask()));
        Value place = arith::XOrIOp::create(b_, loc_, part, group);
        Value byte = Sum(Mul(column, I64(kTile * t.bytes)), Sum(Mul(place, I64(kAccess)), I64(t.first)));
        own.push_back({bits, InWords(byte, 1, word)});
      }
      parts.push_back(std::move(own));
    }
    // A warp has 8 vectors in each of 4 rows; warps are side by side first.
    const int64_t beside = kTile / lanes_of_thread_ / kGroups, rows = kThreads / kGroups / beside;
    Value warp = Div(thread_, I64(32));
    Value vector = Sum(Rem(thread_, I64(kGroups)), Mul(Rem(warp, I64(beside)), I64(kGroups)));
    Value first = Sum(Rem(Div(thread_, I64(kGroups)), I64(4)), Mul(Div(warp, I64(beside)), I64(4)));
    Value column = Mul(vector, I64(lanes_of_thread_));
    const int64_t count = kTile / rows;
    for (int64_t from = 0; from < count; from += at_once_) {
      SmallVector<std::pair<Value, Stage>> stages;
      for (int64_t r = from; r < from + at_once_; ++r) {
        Value row = Sum(first, I64(r * rows));
        stages.push_back({row, Load(row, column, lanes_of_thread_)});
      }
      if (from == 0) {
        for (auto [t, own] : llvm::zip(turned_, parts))
          for (const Part& p : own) StoreRaw(p.bits, p.at, Words(t).first, true);
        tile::BarrierOp::create(b_, loc_);
      }
      for (auto& [row, stage] : stages)
        Finish(stage, [&, row = row](const Turned& t) {
          Value group = arith::AndIOp::create(b_, loc_, vector, I64(t.Mask()));
          Value place = arith::XOrIOp::create(b_, loc_, Div(row, I64(t.Part())), group);
          Value at = Sum(Mul(place, I64(t.Part())), Rem(row, I64(t.Part())));
          return std::make_pair(Sum(Sum(Mul(column, I64(kTile)), I64(t.first / t.bytes)), at), kTile);
        });
    }
  }

  // ---- element by element

  Type Raw(const Turned& t) {
    return t.bytes == 8   ? Type(b_.getI64Type())
           : t.bytes == 4 ? Type(b_.getI32Type())
           : t.bytes == 1 ? Type(b_.getI8Type())
                          : nest_.views[t.view].type.getElementType();
  }

  void Scalars() {
    SetOffsets(outer_);
    Value across = Rem(thread_, I64(kTile)), along = Div(thread_, I64(kTile));
    const int64_t step = kThreads / kTile;
    for (const Turned& t : turned_) {
      Value row = Row(across, 1, nullptr);
      For(along, I64(kTile), I64(step * 2 * kAtOnce), {}, [&](Value first, ValueRange) {
        SmallVector<std::pair<Value, Value>> elements;
        for (int64_t n = 0; n < 2 * kAtOnce; ++n) {
          Value column = Sum(first, I64(n * step));
          Value from = At(t, row, Column(column, 1, nullptr));
          Value at = Sum(Mul(column, I64(t.Pitch())), Sum(across, I64(t.first / t.bytes)));
          elements.push_back({LoadRaw(view_args_[t.view], from, Raw(t), 1, false), at});
        }
        for (auto& [bits, at] : elements) StoreRaw(bits, at, Raw(t), false);
        return SmallVector<Value>();
      });
    }
    tile::BarrierOp::create(b_, loc_);
    // What ran across the threads runs along them now, and the other way round.
    For(along, I64(kTile), I64(step * kAtOnce), {}, [&](Value first, ValueRange) {
      SmallVector<std::pair<Value, Stage>> stages;
      for (int64_t r = 0; r < kAtOnce; ++r) {
        Value row = Sum(first, I64(r * step));
        stages.push_back({row, Load(row, across, 1)});
      }
      for (auto& [row, stage] : stages)
        Finish(stage, [&, row = row](const Turned& t) {
          return std::make_pair(Sum(Mul(across, I64(t.Pitch())), Sum(row, I64(t.first / t.bytes))), t.Pitch());
        });
      return SmallVector<Value>();
    });
  }

  const size_t across_;
  SmallVector<Turned> turned_;
  int64_t shared_bytes_ = 0;
  int64_t lanes_of_thread_ = 1;
  int64_t at_once_ = 1;  // vectors of results
  int64_t blocks_ = 1;   // of a multiprocessor
  int64_t exact_width_ = -1, exact_height_ = -1;
  bool may_be_whole_ = true;  // sizes that are known are multiples of vectors
  Value width_, height_, thread_;
  Value row_, column_;        // where the square begins
  SmallVector<Value> outer_;  // indices of the other loops
};

}  // namespace

bool LowerTransposedGpu(sched::KernelOp kernel, const LoopNest& nest, const CompileOptions& options, OpBuilder& at) {
  const std::optional<size_t> across = LoopAcross(kernel, nest);
  if (!across) return false;
  TransposedGpu(kernel, nest, options, *across).Run(at);
  return true;
}

}  // namespace tessera::compiler
