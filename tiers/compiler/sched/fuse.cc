// tsr-fuse: groups of ops become kernels.
//
// The body of a trace is cut at its barriers: every step that is not generated here, because it may leave the trace
// (a guard, a buffer, a call) or fail (a product in the library), and then the values that the interpreter goes on with
// must be in memory. View ops are no barriers: the core makes them by setting pointers.
//
// Between two barriers ops are taken in order. A group has an iteration space (dims) and, once it holds a reduction, a
// number of trailing dims that form a row. An op joins the group of one of its operands, or one that reads the same
// tensor (reading one number twice costs nothing, and is no reason), if
//   - its result has the dims of the space, or (with a row) is one number for each row;
//   - it is a reduction or normalisation of a value with the dims of the space, over the row;
//   - nothing outside the group has used a value of the group: a kernel runs where its last op stood, so whoever
//     uses it must come later. The first use from outside closes a group.
// Two open groups of the same space become one where an op uses both.
//
// A value of a group is written to memory if something outside uses it, or if it is still needed after the kernel
// has run (`until`): the trace may be left there. All others never exist: that is what fusion saves.
//
// A matrix product begins a group; what is computed from its result element by element joins it. What needs whole rows
// of it (a softmax) joins only where the sums are short: blocks of whole rows are small, so the other factor is copied
// more often, which must cost less than the trip of the result through memory. Such rows may be multiplied with another
// matrix in the same kernel: attention, however it was written.
//
// A factor that is nothing but a narrow float in f32, for this product alone, is read as it is: widening it on the way
// costs less than a copy of twice its size. On sm_90a so are two factors that are f8 in bf16 or f16, with or without
// scales of their blocks, where they lie along the sum (sched/f8_factors.cc). A left factor that a group of
// element-wise ops computes for this product alone is computed by the product's kernel, as a prologue, where that pays
// (sched/prologue.cc): on a CPU, where the schedule of the product has rows that are copied, and batches are those of
// the result. What a product needs of a group is known when the product comes, what follows the product at the end of a
// region; so that is when it is decided.
//
// A gather of rows (an embedding) fails where an index is out of range. The core looks at the indices at the first step
// of the kernel and leaves the trace there, so a gather closes all groups but its own, and is the first op of that;
// more gathers join it where their indices are there by then, and dims that they do not have are broadcast. In an eager
// trace the core looks when the op comes, because an error is raised there: the indices must be operands of the trace.
// On a CUDA device the kernel looks at them, and an error is raised when the host next waits, as in tier 1.
//
// An update of a part (update_slice) joins the group that computes what is written, directly or through a view that
// adds dims of 1, and is the last that happens to it there: nothing in the kernel uses the result, and the kernel
// writes the part alone. What is around the part is the core's: the memory of the operand itself where that is not
// needed any more, or else a copy. Updates of one tensor one after the other, of which only the last is needed, are
// parts of one result. An update that finds no group is tier 1's, may fail there, and closes all groups.
//
// Sums along columns (over dims before the last one, and not over that) join a group of the same space and may have
// company there, but nothing in the kernel uses them. How they are cut for threads, and whether a CUDA device has
// enough to do, follows from the sizes that were seen. Variances and logsumexp along columns are worth a kernel alone:
// tier 1 reads everything twice, a task what is still in the cache. So is, on a CPU, a sum of few elements: tier 1
// takes longer to make a plan than to add (ten sums of 8 x 16 f32 in a training step of 32 us took 2 us more).
//
// Groups of one element-wise op are left to tier 1, whose loop is as good. So are, on a CUDA device, attention and the
// matrix products that its library does better: those of many rows that nothing follows, small ones, and all that are
// not for tensor cores. There a reduction of whole rows is worth a kernel of its own, and so is an op that reads an
// operand which lies the other way round (sched/transposed.h), be it a copy: tier 1 moves it in smaller squares, by
// single elements.
#include "tiers/compiler/dialects/dialects.h"
#include "tiers/compiler/passes.h"
#include "tiers/compiler/sched/attention.h"
#include "tiers/compiler/sched/columns.h"
#include "tiers/compiler/sched/f8_factors.h"
#include "tiers/compiler/sched/facts.h"
#include "tiers/compiler/sched/gather.h"
#include "tiers/compiler/sched/group.h"
#include "tiers/compiler/sched/kinds.h"
#include "tiers/compiler/sched/product.h"
#include "tiers/compiler/sched/streams.h"
#include "tiers/compiler/sched/prologue.h"
#include "tiers/compiler/sched/transposed.h"
#include "tiers/compiler/sched/update.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Products with longer sums are not followed by ops on whole rows.
constexpr int64_t kShortSum = 256;

int64_t RankOf(Value v) { return cast<RankedTensorType>(v.getType()).getRank(); }

bool IsOneElement(Type t) {
  return llvm::all_of(DimsOf(t), [](const Dim& d) { return d.is_one(); });
}

class Fuser {
 public:
  Fuser(graph::TraceOp trace, const CompileOptions& options) : trace_(trace), options_(options) {}

  void Run() {
    FindAttentions();
    SmallVector<Operation*> region;
    SmallVector<Operation*> all;
    for (Operation& op : trace_.getBody().front())
      if (!taken_.contains(&op)) all.push_back(&op);
    for (Operation* op : all) {
      if (KindOf(op, options_).c == Class::barrier || IsForLibrary(op)) {
        Region(region);
        region.clear();
      } else {
        region.push_back(op);
      }
    }
    Region(region);
  }

 private:
  void Region(ArrayRef<Operation*> ops) {
    groups_.clear();
    group_of_.clear();
    for (Operation* op : ops)
      if (!IsLoose(op)) Add(op, KindOf(op, options_));
    for (auto& g : groups_)
      if (g->before != nullptr && MayCompute(*g, *g->before)) {
        Merge(*g, *g->before);
        g->has_prologue = true;
      }
    for (auto& g : groups_) {
      if (g->ops.empty()) continue;
      const bool is_row = g->normalises || (g->row > 0 && !options_.device.empty());
      if (options_.fuse && g->compute < 2 && !is_row && g->product == nullptr && !ReadsAcross(*g) && !IsSmallSum(*g))
        continue;
      Emit(*g);
    }
  }

  // A sum along columns of a CPU that is over before tier 1 has made its plan.
  bool IsSmallSum(const Group& g) {
    constexpr int64_t kMost = 4096;
    if (!options_.device.empty() || g.columns.count == 0) return false;
    int64_t size = 1;
    for (const Dim& d : g.dims) {
      if (d.is_symbol || d.value > kMost || size * d.value > kMost) return false;
      size *= d.value;
    }
    return true;
  }

  // One op of a CUDA device that is worth a kernel for how an operand lies.
  bool ReadsAcross(const Group& g) {
    if (options_.device.empty() || g.columns.count > 0 || g.gather != nullptr) return false;
    return llvm::any_of(g.reads, [&](Value v) {
      return LiesAcross(trace_, DimsOf(v.getType()), KnownStrides(trace_, v).asArrayRef());
    });
  }

  Group* Of(Value v) {
    Operation* def = Through(v).getDefiningOp();
    auto it = def == nullptr ? group_of_.end() : group_of_.find(def);
    return it == group_of_.end() ? nullptr : it->second;
  }

  // Whoever is outside and uses a value of a group closes it.
  void CloseUsed(Operation* op, const Group* except) {
    for (Value v : op->getOperands())
      if (Group* g = Of(v); g != nullptr && g != except) g->open = false;
  }

  // On CUDA devices attention that is written by hand is found as a whole, before anything else.
  void FindAttentions() {
    if (options_.device != "sm_90a" || !options_.fuse) return;
    SmallVector<Operation*> products;
    for (Operation& op : trace_.getBody().front())
      if (IsProduct(&op)) products.push_back(&op);
    for (Operation* op : products) {
      std::optional<WrittenAttention> found = FindAttention(op, options_);
      if (!found || !IsGenerated(*found)) continue;
      TakePositions(*found);
      // Where the trace may be left in between, tier 1 goes on with them.
      llvm::erase_if(found->own, [&](Operation* own) {
        if (!own->isBeforeInBlock(found->keys)) return false;
        for (Operation* next = own; next != found->keys; next = next->getNextNode())
          if (KindOf(next, options_).c == Class::barrier || IsForLibrary(next)) return true;
        return false;
      });
      taken_.insert(found->own.begin(), found->own.end());
      attentions_.push_back(std::make_unique<WrittenAttention>(*std::move(found)));
      for (Operation* own : attentions_.back()->ops) attention_of_[own] = attentions_.back().get();
    }
  }

  bool IsGenerated(const WrittenAttention& attention) {
    for (Operation* op = attention.keys->getNextNode(); op != attention.ops.back(); op = op->getNextNode())
      if (!attention.ops.contains(op) && IsForLibrary(op)) return false;
    Group g;
    Begin(g, attention);
    const ProductFacts facts = FactsOf(g);
    const ProductSchedule schedule = ScheduleProduct(facts, options_, StepOf(g.product));
    return schedule.form == ProductSchedule::Form::attention && CanBeCut(schedule, facts, options_);
  }

  static void Begin(Group& g, const WrittenAttention& attention) {
    g.dims = DimsOf(attention.keys->getResult(0).getType());
    g.row = 1;
    g.product = attention.keys;
    g.second = attention.values;
    g.folded = attention.own;
    g.open = false;
  }

  void AddAttention(Operation* op, const WrittenAttention& attention) {
    if (op == attention.keys) {
      groups_.push_back(std::make_unique<Group>());
      Begin(*groups_.back(), attention);
      group_of_[op] = groups_.back().get();
    }
    Group* g = group_of_[attention.keys];
    g->ops.insert(op);
    g->compute += 1;
    group_of_[op] = g;
    for (Value v : op->getOperands()) CloseRead(v, *g);
  }

  // Through ops that each kernel has for itself.
  void CloseRead(Value v, Group& g) {
    Operation* def = v.getDefiningOp();
    if (IsLoose(def) && !isa<sched::KernelOp>(def)) {
      for (Value o : def->getOperands()) CloseRead(o, g);
      return;
    }
    Group* other = Of(v);
    if (other == &g) return;
    if (other != nullptr) other->open = false;
    g.reads.insert(v);
  }

  void Add(Operation* op, Kind kind) {
    if (const WrittenAttention* attention = attention_of_.lookup(op)) return AddAttention(op, *attention);
    if (kind.c == Class::view) return CloseUsed(op, nullptr);
    if (kind.c == Class::product) return AddProduct(op);
    if (kind.c == Class::gather) return AddGather(op);
    if (kind.c == Class::update) return AddUpdate(op);
    if (kind.c == Class::alias && AddForUpdate(op)) return;
    SmallVector<Group*> candidates;
    auto offer = [&](Group* g) {
      if (g != nullptr && g->open && !llvm::is_contained(candidates, g)) candidates.push_back(g);
    };
    for (Value v : op->getOperands()) offer(Of(v));
    if (kind.c == Class::alias && candidates.empty()) return CloseUsed(op, nullptr);
    for (auto& g : groups_)
      if (llvm::any_of(op->getOperands(),
                       [&](Value v) { return g->reads.contains(Through(v)) && !IsOneElement(v.getType()); }))
        offer(g.get());
    Group* joined = nullptr;
    if (options_.fuse) {
      for (Group* g : candidates) {
        if (joined == nullptr) {
          if (Fits(*g, op, kind)) joined = g;
        } else if (g->dims == joined->dims && (g->product == nullptr || joined->product == nullptr) &&
                   MayMeet(*g, *joined) && (g->row == 0 || joined->row == 0 || g->row == joined->row) &&
                   g->ops.size() + joined->ops.size() < kMostOps &&
                   g->reads.size() + joined->reads.size() <= kMostReads && Fits(*g, op, kind)) {
          Merge(*joined, *g);
        }
      }
    }
    if (joined == nullptr) {
      if (kind.c == Class::alias) return CloseUsed(op, nullptr);
      groups_.push_back(std::make_unique<Group>());
      joined = groups_.back().get();
      joined->dims = DimsOf(kind.c == Class::elementwise ? op->getResult(0).getType() : op->getOperand(0).getType());
    }
    CloseUsed(op, joined);
    joined->row = std::max(joined->row, kind.row);
    if (kind.columns.count > 0) joined->columns = kind.columns;
    joined->ops.insert(op);
    joined->compute += kind.c == Class::alias || isa<graph::NumberOp>(op) ? 0 : kind.reads;
    joined->normalises |= kind.c == Class::row;
    group_of_[op] = joined;
    for (Value v : op->getOperands())
      if (Of(v) != joined) joined->reads.insert(Through(v));
  }

  // Some things cannot be in one kernel.
  static bool MayMeet(const Group& a, const Group& b) {
    const bool gathers = a.gather != nullptr || b.gather != nullptr,
               columns = a.columns.count > 0 || b.columns.count > 0;
    const bool multiplies = a.product != nullptr || b.product != nullptr, rows = a.row > 0 || b.row > 0;
    if (!a.columns.Agrees(b.columns)) return false;
    if ((a.updates || b.updates) && (columns || multiplies || a.row > 1 || b.row > 1)) return false;
    return gathers + columns + multiplies <= 1 && !(columns && rows);
  }

  void AddUpdate(Operation* op) {
    Group* g = Of(op->getOperand(1));
    if (!options_.fuse || g == nullptr || !g->open || !MayUpdate(*g, op)) {
      for (auto& other : groups_) other->open = false;
      return;
    }
    CloseUsed(op, g);
    g->ops.insert(op);
    g->compute += 1;
    g->updates = true;
    group_of_[op] = g;
    if (Of(op->getOperand(0)) != g) g->reads.insert(Through(op->getOperand(0)));
  }

  // A view of a value in a group that an update of that group will write: it needs no memory, and closes nothing.
  bool AddForUpdate(Operation* op) {
    Group* g = Of(op->getOperand(0));
    if (!options_.fuse || g == nullptr || !g->open || g->ops.size() + 1 >= kMostOps) return false;
    if (Through(op->getOperand(0)) != op->getOperand(0) || IsUpdate(op->getOperand(0).getDefiningOp())) return false;
    const bool is_written = llvm::any_of(
        op->getUses(), [](OpOperand& use) { return use.getOperandNumber() == 1 && IsUpdate(use.getOwner()); });
    if (!is_written || DimsOf(op->getResult(0).getType()) == g->dims) return false;
    g->ops.insert(op);
    group_of_[op] = g;
    return true;
  }

  void AddProduct(Operation* op) {
    Group* rows = Of(op->getOperand(0));
    if (options_.fuse && rows != nullptr && rows->open && MayFollow(*rows, op)) {
      rows->second = op;
    } else {
      groups_.push_back(std::make_unique<Group>());
      rows = groups_.back().get();
      rows->product = op;
      rows->dims = DimsOf(op->getResult(0).getType());
      if (!IsProduct(op)) {
        // Attention is one kernel; its space is that of the scores. Dims of the result may be known by other names.
        const SmallVector<Dim> keys = DimsOf(op->getOperand(1).getType());
        rows->dims = DimsOf(op->getOperand(0).getType());
        rows->dims.back() = keys[keys.size() - 2];
        rows->row = 1;
        rows->second = op;
      }
    }
    if (options_.fuse && rows->product == op) FoldCasts(*rows);
    if (options_.fuse && rows->product == op && IsProduct(op) && options_.device.empty())
      if (Group* own = Of(op->getOperand(0)); own != nullptr && own->open) rows->before = own;
    CloseUsed(op, rows);
    rows->ops.insert(op);
    rows->compute += 1;
    group_of_[op] = rows;
    for (Value v : op->getOperands())
      if (Of(v) != rows) rows->reads.insert(Through(v));
    // What follows has other dims.
    if (rows->second == op) rows->open = false;
  }

  static Type ElementOf(Value v) { return mlir::cast<RankedTensorType>(v.getType()).getElementType(); }

  bool Runs(Value v, int64_t from_end) { return RunsAlong(trace_, v, from_end); }

  // What is left of the groups of these ops goes on without them.
  void FoldF8Factors(Group& g) {
    const F8Factors factors = F8FactorsOf(trace_, g.product, options_);
    if (factors.narrow.empty()) return;
    for (Operation* op : factors.ops) {
      if (Group* own = Of(op->getResult(0)); own != nullptr && own->ops.remove(op)) {
        own->compute -= IsView(op) ? 0 : 1;
        group_of_.erase(op);
        if (own->ops.empty()) {
          *own = Group{};
          own->open = false;
        }
      }
      g.folded.push_back(op);
    }
    SetFactors(g.product, factors);
  }

  void FoldCasts(Group& g) {
    if (!options_.device.empty()) return FoldF8Factors(g);
    if (!IsProduct(g.product)) return;
    for (OpOperand& factor : g.product->getOpOperands()) {
      Operation* cast = factor.get().getDefiningOp();
      Group* own = cast == nullptr ? nullptr : Of(factor.get());
      if (own == nullptr || !own->open || IsLoose(cast) || own->ops.size() != 1 || RowOf(cast)->name != "cast")
        continue;
      auto until = cast->getAttrOfType<DenseI32ArrayAttr>("until");
      if (!cast->hasOneUse() || !until || until[0] > StepOf(g.product)) continue;
      Value narrow = cast->getOperand(0);
      if (!IsNarrowFloat(ElementOf(narrow)) || !ElementOf(factor.get()).isF32() || Through(narrow) != narrow) continue;
      factor.set(narrow);
      g.folded.push_back(cast);
      group_of_.erase(cast);
      *own = Group{};
      own->open = false;
    }
  }

  // May the kernel of a product compute its left factor, on the way to the copies that its tasks have?
  bool MayCompute(const Group& g, const Group& before) {
    Value factor = g.product->getOperand(0);
    if (g.second != nullptr || before.product != nullptr || before.gather != nullptr || before.columns.count > 0 ||
        before.row > 0 || Transposes(g.product, "transpose_a"))
      return false;
    // Other batches would compute it again.
    if (DimsOf(factor.getType()) != before.dims ||
        ArrayRef<Dim>(before.dims).drop_back() != ArrayRef<Dim>(g.dims).drop_back())
      return false;
    if (g.ops.size() + before.ops.size() > kMostOps || g.reads.size() + before.reads.size() > kMostReads) return false;
    for (Operation* op : before.ops) {
      auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
      if (KindOf(op, options_).c != Class::elementwise || !until || until[0] > StepOf(g.product)) return false;
      SmallVector<OpOperand*> uses;
      for (OpOperand& use : op->getUses()) uses.push_back(&use);
      for (size_t k = 0; k < uses.size(); ++k) {
        Operation* user = uses[k]->getOwner();
        const bool is_factor = user == g.product && uses[k]->getOperandNumber() == 0;
        if (!is_factor && !before.ops.contains(user) && !IsLoose(user)) return false;
        if (IsLoose(user))
          for (OpOperand& use : user->getUses()) uses.push_back(&use);
      }
    }
    int64_t operands = 0;  // with all elements of the factor
    for (Value v : before.reads) {
      const SmallVector<Dim> dims = DimsOf(v.getType());
      operands += dims == before.dims;
      if (dims.size() > before.dims.size()) return false;
      for (auto [own, space] : llvm::zip(dims, ArrayRef<Dim>(before.dims).take_back(dims.size())))
        if (own != space && !own.is_one()) return false;
    }
    ProductFacts facts = FactsOf(g);
    facts.has_prologue = true;
    return ProloguePays(before.ops.getArrayRef(), operands, facts, ScheduleOf(g, facts));
  }

  void AddGather(Operation* op) {
    Group* to = nullptr;
    for (auto& g : groups_)
      if (options_.fuse && g->open && MayGather(*g, op)) to = g.get();
    for (auto& g : groups_)
      if (g.get() != to) g->open = false;
    if (to == nullptr) {
      groups_.push_back(std::make_unique<Group>());
      to = groups_.back().get();
      to->dims = DimsOf(op->getResult(0).getType());
      to->gather = op;
    }
    to->ops.insert(op);
    to->compute += 1;
    group_of_[op] = to;
    for (Value v : op->getOperands()) to->reads.insert(Through(v));
  }

  // May another gather join the group of one? Its indices are there before the group begins. Where its result has fewer
  // dims than the space it is never in memory, so only ops that can join may need it.
  bool MayGather(const Group& g, Operation* op) {
    if (g.gather == nullptr || g.row > 1 || g.columns.count > 0 || g.ops.size() >= kMostOps ||
        g.reads.size() + 2 > kMostReads)
      return false;
    for (Value v : op->getOperands()) {
      if (Of(v) == &g) return false;
      Operation* def = v.getDefiningOp();
      if (def != nullptr && !def->isBeforeInBlock(g.gather)) return false;
    }
    const SmallVector<Dim> dims = DimsOf(op->getResult(0).getType());
    if (dims == g.dims) return true;
    if (dims.size() > g.dims.size() || dims.size() <= static_cast<size_t>(g.row)) return false;
    for (auto [own, space] : llvm::zip(dims, ArrayRef<Dim>(g.dims).take_back(dims.size())))
      if (own != space && !own.is_one()) return false;
    int32_t last = -1;
    SmallVector<Operation*> users(op->getUsers());
    for (size_t k = 0; k < users.size(); ++k) {
      Operation* user = users[k];
      if (IsLoose(user)) {
        users.append(user->getUsers().begin(), user->getUsers().end());
        continue;
      }
      if (KindOf(user, options_).c != Class::elementwise) return false;
      if (DimsOf(user->getResult(0).getType()) != g.dims) return false;
      last = std::max(last, StepOf(user));
    }
    auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
    return until && until[0] <= last;
  }

  // May a product multiply the rows of a group: values that only this product needs, with all dims of the space?
  bool MayFollow(const Group& g, Operation* op) {
    if (g.product == nullptr || g.second != nullptr || RankOf(op->getResult(0)) < 3) return false;
    if (!options_.device.empty()) return false;
    if (Transposes(op, "transpose_a") || !HasShortSum(g.product) || Of(op->getOperand(1)) == &g) return false;
    Value rows = op->getOperand(0);
    if (DimsOf(rows.getType()) != g.dims || g.reads.size() >= kMostReads) return false;
    if (Through(rows) != rows || IsView(rows.getDefiningOp())) return false;
    const SmallVector<Dim> out = DimsOf(op->getResult(0).getType());
    return ArrayRef<Dim>(out).drop_back() == ArrayRef<Dim>(g.dims).drop_back();
  }

  bool IsForLibrary(Operation* op) {
    const bool may_be = !options_.schedule.empty() || !options_.device.empty() || options_.library_bf16;
    if (!may_be || KindOf(op, options_).c != Class::product || attention_of_.contains(op)) return false;
    // The op attention is generated on a device where its schedule says so.
    if (!options_.device.empty() && !IsProduct(op)) return false;
    ProductSchedule schedule;
    if (!options_.device.empty()) {
      Group g;
      g.dims = DimsOf(op->getResult(0).getType());
      g.product = op;
      const ProductFacts facts = FactsOf(g);
      // Whatever a schedule says: tensor cores multiply f32 along the sum only.
      if (facts.is_tf32 && !facts.is_along_sum) return true;
      schedule = ChooseProduct(facts, options_);
    } else if (options_.library_bf16 && IsProduct(op)) {
      Value left = op->getOperand(0), right = op->getOperand(1);
      if (ElementOf(left).isBF16() && ElementOf(right).isBF16() && RankOf(right) <= 2)
        schedule.form = ProductSchedule::Form::library;
    }
    Override(options_, StepOf(op), &schedule);
    return schedule.form == ProductSchedule::Form::library;
  }

  // Is the result needed by an op that the product's kernel can do, before the next barrier?
  bool HasMore(Operation* op) {
    for (Operation* next = op->getNextNode(); next != nullptr; next = next->getNextNode()) {
      const Kind kind = KindOf(next, options_);
      if (kind.c == Class::barrier || IsForLibrary(next)) return false;
      if (kind.c == Class::elementwise && llvm::is_contained(next->getOperands(), op->getResult(0)) &&
          next->getNumResults() == 1 && DimsOf(next->getResult(0).getType()) == DimsOf(op->getResult(0).getType()))
        return true;
    }
    return false;
  }

  int64_t Likely(const Dim& d) { return LikelyOf(trace_, d); }

  // Without knowledge: batches of products are those of attention.
  bool HasShortSum(Operation* product) {
    const int64_t k = Likely(DepthOf(product));
    return k >= 0 ? k <= kShortSum : RankOf(product->getResult(0)) > 2;
  }

  // Heads that are multiplied with the same matrices, as far as sizes were seen; 0: each has its own, or there are too
  // many for one task.
  int64_t ShareOf(const Group& g) {
    constexpr int64_t kMost = 64;
    if (g.second == nullptr) return 0;
    const bool is_op = g.product == g.second;
    const auto groups =
        GroupsOf(g.dims, g.product->getOperand(1).getType(), g.second->getOperand(is_op ? 2 : 1).getType());
    const int64_t heads = groups ? Likely(g.dims[g.dims.size() - 3]) : -1, of = groups ? Likely(*groups) : -1;
    return of > 0 && heads / of <= kMost ? heads / of : 0;
  }

  ProductFacts FactsOf(const Group& g) {
    Operation* op = g.product;
    ProductFacts facts = compiler::FactsOf(g, trace_, options_, ShareOf(g));
    if (facts.is_tensor && IsProduct(op)) facts.has_more = facts.has_more || HasMore(op);
    SmallVector<Value> reads;
    for (Operation* o : g.ops)
      if (o != op) llvm::copy_if(o->getOperands(), std::back_inserter(reads), [&](Value v) { return Of(v) != &g; });
    if (facts.is_tensor) SetWhatFollows(g.ops.getArrayRef(), reads, op, &facts);
    return facts;
  }

  ProductSchedule ScheduleOf(const Group& g, const ProductFacts& facts) {
    ProductSchedule schedule = ScheduleProduct(facts, options_, StepOf(g.product));
    if (const int64_t share = ShareOf(g); share > 1) schedule.queries = std::max<int64_t>(1, schedule.rows / share);
    // The verifier says so, and the version gets no code.
    if (!CanBeCut(schedule, facts, options_)) schedule.mr = schedule.rows = 0;
    return schedule;
  }

  void Merge(Group& into, Group& from) {
    for (Operation* op : from.ops) {
      into.ops.insert(op);
      group_of_[op] = &into;
    }
    into.reads.insert(from.reads.begin(), from.reads.end());
    into.row = std::max(into.row, from.row);
    into.compute += from.compute;
    into.folded.append(from.folded);
    into.normalises |= from.normalises;
    into.updates |= from.updates;
    if (from.columns.count > 0) into.columns = from.columns;
    if (from.product != nullptr) {
      into.product = from.product;
      into.before = from.before;
    }
    if (from.gather != nullptr) into.gather = from.gather;
    from = Group{};
    from.open = false;
  }

  bool Fits(const Group& g, Operation* op, Kind kind) {
    if (g.ops.size() >= kMostOps || g.reads.size() + op->getNumOperands() > kMostReads) return false;
    const int64_t row = kind.row > 0 ? kind.row : g.row;
    if (g.updates && (kind.c == Class::column || kind.row > 1)) return false;
    for (Value v : op->getOperands())
      if (Operation* def = Through(v).getDefiningOp(); def != nullptr && g.ops.contains(def) && IsUpdate(def))
        return false;
    if (g.product != nullptr && kind.row > 0)
      if (kind.row > 1 || !HasShortSum(g.product) || !options_.device.empty()) return false;
    if (kind.row > 0 && ((g.row > 0 && g.row != kind.row) || g.columns.count > 0)) return false;
    if (kind.c == Class::column) {
      if (g.row > 0 || g.product != nullptr || g.gather != nullptr) return false;
      // What is read twice is computed twice.
      auto may_repeat = [&](Operation* o) { return IsCheap(o) || KindOf(o, options_).c == Class::column; };
      if (kind.reads > 1 && !llvm::all_of(g.ops, may_repeat)) return false;
      return g.columns.Agrees(kind.columns) && DimsOf(op->getOperand(0).getType()) == g.dims;
    }
    // A row of several dims must be one run, or one number, in everything that is read.
    if (row > 1) {
      auto is_one_run = [&](Value v) {
        SmallVector<Dim> dims = DimsOf(v.getType());
        const ArrayRef<Dim> space(g.dims);
        const size_t k = static_cast<size_t>(row);
        if (llvm::all_of(dims, [](const Dim& d) { return d.is_one(); })) return true;
        if (RowFormOf(RowSpace(g, row), dims) == RowForm::kept) return true;
        return dims.size() >= k && ArrayRef<Dim>(dims).take_back(k) == space.take_back(k) &&
               KnownStrides(trace_, Through(v)).empty();
      };
      for (Value v : g.reads)
        if (!is_one_run(v)) return false;
      for (Value v : op->getOperands())
        if (Of(v) != &g && !is_one_run(v)) return false;
    }
    const Group as = RowSpace(g, row);
    if (kind.c == Class::reduction || kind.c == Class::row) {
      Value x = op->getOperand(0);
      if (DimsOf(x.getType()) != g.dims) return false;
      // The first operand is the row; weights of norms lie along it.
      for (Value v : op->getOperands().drop_front())
        if (Of(v) == &g) return false;
      return true;
    }
    const SmallVector<Dim> out = DimsOf(op->getResult(0).getType());
    const bool full = out == g.dims;
    const RowForm form = full ? RowForm::none : RowFormOf(as, out);
    if (!full && form == RowForm::none) return false;
    for (Value v : op->getOperands()) {
      if (Of(v) != &g) continue;
      const SmallVector<Dim> in = DimsOf(v.getType());
      if (in != g.dims && IsGather(Through(v).getDefiningOp())) {
        if (!full) return false;
        continue;
      }
      const RowForm of = in == g.dims ? RowForm::none : RowFormOf(as, in);
      if (in != g.dims && of == RowForm::none) return false;
      // Where a row is the whole space the two forms cannot be told from broadcasting.
      if (full && in != g.dims && of == RowForm::dropped && !in.empty()) return false;
      if (!full && in == g.dims && kind.c != Class::alias) return false;
      if (!full && kind.c != Class::alias && of != form && !in.empty()) return false;
    }
    return true;
  }

  int32_t IdOf(Value v) {
    if (auto argument = dyn_cast<BlockArgument>(v)) return trace_.getValues()[argument.getArgNumber()];
    auto values = v.getDefiningOp()->getAttrOfType<DenseI32ArrayAttr>("values");
    auto outputs = v.getDefiningOp()->getAttrOfType<DenseI32ArrayAttr>("outputs");  // of a kernel
    DenseI32ArrayAttr ids = values ? values : outputs;
    return ids ? ids[cast<OpResult>(v).getResultNumber()] : -1;
  }

  void Emit(Group& g) {
    // Views are the core's own steps: the kernel stands where its last computing op stood.
    Operation* last = nullptr;
    for (Operation* op : g.ops)
      if (!IsView(op) && (last == nullptr || last->isBeforeInBlock(op))) last = op;
    if (last == nullptr) return;
    OpBuilder b(last);
    for (size_t k = 0; k < g.ops.size(); ++k)
      for (Value v : g.ops[k]->getOperands())
        if (Operation* def = v.getDefiningOp(); IsLoose(def) && !isa<sched::KernelOp>(def)) g.ops.insert(def);
    SmallVector<Value> inputs, outputs;
    SmallVector<int32_t> input_ids, output_ids, steps;
    SmallVector<Attribute> strides;
    SmallVector<Operation*> ops(g.ops.begin(), g.ops.end());
    llvm::sort(ops, [](Operation* x, Operation* y) { return x->isBeforeInBlock(y); });
    int64_t bits = 0;
    for (Operation* op : ops) {
      for (Value v : op->getOperands()) {
        if (g.ops.contains(v.getDefiningOp()) || llvm::is_contained(inputs, v)) continue;
        inputs.push_back(v);
        input_ids.push_back(IdOf(v));
        strides.push_back(KnownStrides(trace_, v));
      }
      auto until = op->getAttrOfType<DenseI32ArrayAttr>("until");
      for (Value v : op->getResults()) {
        bits = std::max<int64_t>(
            bits, ComputeType(cast<RankedTensorType>(v.getType()).getElementType()).getIntOrFloatBitWidth());
        // A view of a value in the group is the core's: a pointer into what the value is written to.
        const bool used = !IsLoose(op) && llvm::any_of(v.getUsers(), [&](Operation* u) { return !g.ops.contains(u); });
        const int32_t needed = until ? until[cast<OpResult>(v).getResultNumber()] : -1;
        Value root = v;
        while (root.getDefiningOp() != nullptr && IsView(root.getDefiningOp()) && g.ops.contains(root.getDefiningOp()))
          root = root.getDefiningOp()->getOperand(0);
        if (!used && needed <= StepOf(last)) continue;
        if (g.ops.contains(root.getDefiningOp()) && !llvm::is_contained(outputs, root)) {
          outputs.push_back(root);
          output_ids.push_back(IdOf(root));
        }
      }
      if (!IsView(op) && op->hasAttr("step")) steps.push_back(StepOf(op));
    }
    for (Operation* op : g.folded)
      if (!IsView(op) && !IsLoose(op)) steps.push_back(StepOf(op));
    llvm::sort(steps);
    SmallVector<Attribute> updates;
    const SmallVector<Value> written = WrittenFor(g, inputs, outputs, output_ids, updates);
    for (int32_t id : output_ids)
      if (id < 0) return;  // a value that has no name cannot be written anywhere
    for (int32_t id : input_ids)
      if (id < 0) return;
    if (outputs.empty() || inputs.size() + outputs.size() > kMostOps + kMostReads) return;
    for (Value v : outputs)
      if (IsGather(v.getDefiningOp()) && DimsOf(v.getType()) != g.dims) return;  // broadcast, and yet needed
    // Four registers for each value of the widest type. Polynomials are chains of dependent steps: four of them side by
    // side keep the pipes busy (gelu of f32 on a Neoverse-N1: 9.1, 7.7 and 6.3 ns with one, two and four).
    int64_t lanes = std::max<int64_t>(1, 4 * options_.vector_bytes * 8 / std::max<int64_t>(bits, 32));
    // Weights of a softmax are shorter chains, and with their sums too much for the 32 registers of AVX-512: two are 10
    // % faster there. (With AVX2 and its 16 registers it makes no difference.)
    if (options_.vector_bytes == 64 && options_.device.empty() && g.product == nullptr && HasWeights(ops)) lanes /= 2;
    DictionaryAttr product;
    if (g.product != nullptr) {
      const ProductSchedule schedule = ScheduleOf(g, FactsOf(g));
      NamedAttrList entries(schedule.ToAttr(b));
      entries.set("step", b.getI64IntegerAttr(StepOf(g.product)));
      product = entries.getDictionary(b.getContext());
      // Rows of a register tile, or of what is left of one.
      const Dim& columns = g.dims.back();
      const bool is_packed = schedule.form == ProductSchedule::Form::packed ||
                             schedule.form == ProductSchedule::Form::direct ||
                             schedule.form == ProductSchedule::Form::dot;
      const int64_t last = columns.is_symbol || !is_packed ? 0 : columns.value % schedule.nr;
      if (g.row == 0 && is_packed)
        while (lanes > 1 && (schedule.nr % lanes != 0 || (last > 0 && lanes > options_.vector_bytes / 4))) lanes /= 2;
    }
    const bool is_one_row =
        g.row > 0 && g.row == static_cast<int64_t>(g.dims.size()) && g.product == nullptr && !g.normalises;
    DenseI64ArrayAttr cut;
    if (g.columns.count > 0 || (is_one_row && options_.device.empty())) cut = CutOf(trace_, g.dims, g.columns);
    while (cut && cut[3] > 0 && lanes > cut[3]) lanes /= 2;
    SmallVector<Type> types;
    for (Value v : outputs) types.push_back(v.getType());
    SmallVector<Location> locations;
    for (Operation* op : ops) locations.push_back(op->getLoc());
    for (Operation* cast : g.folded) locations.push_back(cast->getLoc());
    auto kernel = sched::KernelOp::create(
        b, FusedLoc::get(b.getContext(), locations), types, inputs, b.getStringAttr("k" + std::to_string(StepOf(last))),
        b.getI32IntegerAttr(StepOf(last)), b.getDenseI32ArrayAttr(steps), b.getDenseI32ArrayAttr(input_ids),
        b.getDenseI32ArrayAttr(output_ids), b.getArrayAttr(strides), b.getI64IntegerAttr(g.row),
        b.getI64IntegerAttr(lanes), b.getI64IntegerAttr(options_.grain), cut, product,
        updates.empty() ? ArrayAttr() : b.getArrayAttr(updates), UnitAttr());
    kernel.setStreams(Streams(kernel, trace_, options_));
    Block* body = b.createBlock(&kernel.getBody());
    IRMapping map;
    for (Value v : inputs) map.map(v, body->addArgument(v.getType(), v.getLoc()));
    for (Operation* op : ops) {
      const bool is_for_update = IsView(op) && llvm::all_of(op->getUsers(), [&](Operation* user) {
                                   return g.ops.contains(user) && IsUpdate(user);
                                 });
      if (IsUpdate(op) || is_for_update) continue;
      Operation* clone = b.clone(*op, map);
      for (StringRef name : {"step", "values", "until", "tsr.strides"}) clone->removeAttr(name);
    }
    SmallVector<Value> yielded;
    for (Value v : written) yielded.push_back(map.lookup(v));
    sched::YieldOp::create(b, kernel.getLoc(), yielded);
    // Views stay in the trace, for the core; what they look at is the kernel's result now.
    for (auto [old, now] : llvm::zip(outputs, kernel.getResults())) {
      old.replaceUsesWithIf(now,
                            [&](OpOperand& use) { return !g.ops.contains(use.getOwner()) || IsView(use.getOwner()); });
    }
    for (Operation* op : llvm::reverse(ops)) {
      if (IsView(op)) {
        if (op->use_empty() && g.ops.contains(op->getOperand(0).getDefiningOp()))
          op->erase();
        else if (op->isBeforeInBlock(kernel))
          op->moveAfter(kernel);
        continue;
      }
      if (op->use_empty()) op->erase();
    }
    for (Operation* cast : g.folded) cast->erase();
  }

  graph::TraceOp trace_;
  const CompileOptions& options_;
  std::vector<std::unique_ptr<WrittenAttention>> attentions_;
  llvm::DenseMap<Operation*, WrittenAttention*> attention_of_;
  OpSet taken_;  // by these
  std::vector<std::unique_ptr<Group>> groups_;
  llvm::DenseMap<Operation*, Group*> group_of_;
};

class FusePass : public PassWrapper<FusePass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FusePass)
  explicit FusePass(CompileOptions options) : options_(options) {}
  StringRef getArgument() const override { return "tsr-fuse"; }
  StringRef getDescription() const override { return "groups of ops become kernels"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<sched::TsrSchedDialect>(); }
  void runOnOperation() override {
    getOperation().walk([&](graph::TraceOp trace) { Fuser(trace, options_).Run(); });
  }

 private:
  const CompileOptions options_;
};

}  // namespace

std::unique_ptr<Pass> MakeFusePass(const CompileOptions& options) { return std::make_unique<FusePass>(options); }

}  // namespace tessera::compiler
