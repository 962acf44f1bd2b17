// x[...] and x[...] = v.
#include "ir/infer.h"
#include "ir/slice.h"
#include "lang/rules.h"
#include "lang/text.h"

namespace tessera::lang {
namespace {

using ir::Ints;
using ir::Op;
using Item = IndexItem;

// An item that stands for one dim of the tensor.
struct AxisItem {
  enum class Kind : uint8_t { all, point, slice, take } kind = Kind::all;
  int64_t start = 0, stop = 0, step = 1;
  bool flip = false;  // slice: of the dim turned round
  Val ids;            // take
  const Expr* at = nullptr;
};

struct Plan {
  std::vector<AxisItem> axes;  // one for each dim of the tensor
  std::vector<int> new_axes;   // for each None: how many of `axes` stand before it
  bool slices = false, takes = false;
};

bool IsMask(Machine& m, const Val& v) { return v.strong() && m.TypeOf(v).dtype == DType::boolean; }

/// An item of a sequence whose length is known.
bool Position(Machine& m, const Val& v, int64_t size, const Expr& at, int64_t* out) {
  if (!ToInt(m, v, "an index", at, out)) return false;
  if (*out < -size || *out >= size) {
    m.diagnostics.Report(Diag::index_out_of_range, at.span, *out, size);
    return false;
  }
  if (*out < 0) *out += size;
  return true;
}

Val IndexSequence(Machine& m, const Val& object, absl::Span<const Item> items, const Expr& at) {
  if (items.size() != 1) {
    m.diagnostics.Report(Diag::too_many_indices, at.span, items.size(), DescribeVal(m, object));
    return Val::Poison();
  }
  const Item& item = items[0];
  const int64_t size =
      static_cast<int64_t>(object.kind == Val::Kind::string ? object.text.size() : object.items->size());
  const auto make = [&](const std::vector<int64_t>& places) {
    if (object.kind == Val::Kind::string) {
      std::string text;
      for (int64_t i : places) text += object.text[static_cast<size_t>(i)];
      return Val::String(m.ast.arena().Copy(std::string_view(text)));
    }
    Vals out;
    for (int64_t i : places) out.push_back((*object.items)[static_cast<size_t>(i)]);
    return Val::Tuple(std::move(out), object.is_list);
  };
  if (item.kind == Item::Kind::value) {
    int64_t place;
    if (!Position(m, item.value, size, *item.at, &place)) return Val::Poison();
    if (object.kind == Val::Kind::string) return make({place});
    return (*object.items)[static_cast<size_t>(place)];
  }
  int64_t step = 1, start, stop;
  if (item.step.kind != Val::Kind::none && !ToInt(m, item.step, "a step", *item.at, &step)) return Val::Poison();
  if (step == 0) {
    m.diagnostics.Report(Diag::zero_step, item.at->span);
    return Val::Poison();
  }
  start = step > 0 ? 0 : ir::kSliceEnd;
  stop = step > 0 ? ir::kSliceEnd : ir::kSliceThroughFirst;
  if (item.start.kind != Val::Kind::none && !ToInt(m, item.start, "a slice", *item.at, &start)) return Val::Poison();
  if (item.stop.kind != Val::Kind::none && !ToInt(m, item.stop, "a slice", *item.at, &stop)) return Val::Poison();
  const ir::SliceRange range = ir::ResolveSlice(size, start, stop, step);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < range.count; ++i) places.push_back(range.first + i * step);
  return make(places);
}

bool SliceBound(Machine& m, const Val& v, const Expr& at, int64_t* out) {
  if (v.kind == Val::Kind::dim) {
    *out = v.integer;
    return true;
  }
  return ToInt(m, v, "a slice", at, out);
}

// A slice of one dim: bounds as the op takes them.
bool PlanSlice(Machine& m, const Item& item, int64_t dim, AxisItem* axis) {
  axis->at = item.at;
  if (item.step.kind != Val::Kind::none && !ToInt(m, item.step, "a step", *item.at, &axis->step)) return false;
  if (axis->step == 0) {
    m.diagnostics.Report(Diag::zero_step, item.at->span);
    return false;
  }
  const bool no_start = item.start.kind == Val::Kind::none, no_stop = item.stop.kind == Val::Kind::none;
  if (no_start && no_stop && axis->step == 1) return true;
  axis->kind = AxisItem::Kind::slice;
  if (!no_start && !SliceBound(m, item.start, *item.at, &axis->start)) return false;
  if (!no_stop && !SliceBound(m, item.stop, *item.at, &axis->stop)) return false;
  if (axis->step > 0) {
    if (no_start) axis->start = 0;
    if (no_stop) axis->stop = dim;
  } else if (ir::IsSymbol(dim) && no_start && no_stop) {
    axis->flip = true;
    axis->step = -axis->step;
    axis->stop = dim;
  } else if (ir::IsSymbol(dim)) {
    // Down to the first element has no number that a list may hold; the dim must be one.
    Val known = Val::Dim(dim);
    if (!m.Know(&known, "a slice that goes backwards", *item.at)) return false;
  } else {
    if (no_start) axis->start = -1;
    if (no_stop) axis->stop = -dim - 1;
  }
  for (int64_t* bound : {&axis->start, &axis->stop}) {
    // Beyond what a list may hold is beyond any dim, too.
    if (!ir::IsSymbol(*bound)) *bound = std::clamp(*bound, -(int64_t{1} << 60), int64_t{1} << 60);
  }
  return true;
}

bool PlanValue(Machine& m, const Item& item, int64_t dim, Plan* plan, AxisItem* axis) {
  const Val& v = item.value;
  axis->at = item.at;
  if (v.poison()) return false;
  if (v.int_like()) {
    int64_t i = v.integer;
    if (ir::IsSymbol(dim)) {
      // The first two and the last two elements are there in any case; others are looked for at run time.
      if (i >= -2 && i < 2) {
        axis->kind = AxisItem::Kind::point;
        axis->start = i;
        axis->stop = i == -1 ? dim : i + 1;
      } else {
        axis->kind = AxisItem::Kind::take;
        axis->ids = v;
      }
      return true;
    }
    if (i < -dim || i >= dim) {
      m.diagnostics.Report(Diag::index_out_of_range, item.at->span, i, dim);
      return false;
    }
    if (i < 0) i += dim;
    axis->kind = AxisItem::Kind::point;
    axis->start = i;
    axis->stop = i + 1;
    return true;
  }
  if (v.kind == Val::Kind::dim || (v.tensor() && (v.weak || IsInt(m.TypeOf(v).dtype)))) {
    axis->ids = v.kind == Val::Kind::dim ? m.DimTensor(v, *item.at) : v;
    if (axis->ids.poison()) return false;
    if (m.TypeOf(axis->ids).dtype == DType::f64) {
      m.diagnostics.Report(Diag::not_an_int, item.at->span, "an index", DescribeVal(m, v));
      return false;
    }
    axis->kind = AxisItem::Kind::take;
    (void)plan;
    return true;
  }
  m.diagnostics.Report(Diag::bad_index, item.at->span, DescribeVal(m, v));
  return false;
}

bool MakePlan(Machine& m, const TensorType& type, absl::Span<const Item> items, const Expr& at, Plan* plan) {
  size_t consumed = 0;
  int ellipses = 0;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::value && item.value.kind == Val::Kind::none) continue;
    if (item.kind == Item::Kind::value && item.value.kind == Val::Kind::ellipsis) {
      if (++ellipses > 1) {
        m.diagnostics.Report(Diag::two_ellipses, item.at->span);
        return false;
      }
      continue;
    }
    ++consumed;
  }
  if (consumed > type.rank) {
    m.diagnostics.Report(Diag::too_many_indices, at.span, consumed, Cat("a tensor ", m.TypeText(type)));
    return false;
  }
  for (const Item& item : items) {
    if (item.kind == Item::Kind::value && item.value.kind == Val::Kind::none) {
      plan->new_axes.push_back(static_cast<int>(plan->axes.size()));
      continue;
    }
    if (item.kind == Item::Kind::value && item.value.kind == Val::Kind::ellipsis) {
      for (size_t i = consumed; i < type.rank; ++i) plan->axes.emplace_back();
      continue;
    }
    const int64_t dim = type.dims[plan->axes.size()];
    AxisItem axis;
    if (item.kind == Item::Kind::slice ? !PlanSlice(m, item, dim, &axis) : !PlanValue(m, item, dim, plan, &axis))
      return false;
    plan->slices |= axis.kind == AxisItem::Kind::slice || axis.kind == AxisItem::Kind::point;
    plan->takes |= axis.kind == AxisItem::Kind::take;
    plan->axes.push_back(std::move(axis));
  }
  while (plan->axes.size() < type.rank) plan->axes.emplace_back();
  return true;
}

std::vector<ir::Attr> SliceAttrs(const Plan& plan) {
  Ints starts, stops, steps, axes;
  bool stepped = false;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const AxisItem& a = plan.axes[i];
    if (a.kind != AxisItem::Kind::slice && a.kind != AxisItem::Kind::point) continue;
    starts.push_back(a.start), stops.push_back(a.stop), steps.push_back(a.step);
    axes.push_back(static_cast<int64_t>(i));
    stepped |= a.step != 1;
  }
  if (!stepped) steps.clear();
  return {starts, stops, steps, axes};
}

// x[mask]: the mask has the leading dims of x.
Val TakeMasked(Machine& m, const Val& x, const Item& item, const Expr& at) {
  const TensorType type = m.TypeOf(x), mask = m.TypeOf(item.value);
  Val ids;
  if (!m.Places(item.value, *item.at, &ids)) return Val::Poison();
  bool fits = mask.rank > 0 && mask.rank <= type.rank;
  int64_t size = 1;
  for (int i = 0; fits && i < mask.rank; ++i) {
    fits = mask.dims[i] == type.dims[i];
    size *= mask.dims[i];
  }
  if (!fits) {
    m.diagnostics.Report(Diag::mask_shape, item.at->span, m.TypeText(mask), m.TypeText(type));
    return Val::Poison();
  }
  Ints dims = {size};
  for (int i = mask.rank; i < type.rank; ++i) dims.push_back(type.dims[i]);
  const Val flat = mask.rank == 1 ? x : EmitOp(m, Op::k_reshape, {x}, {dims}, at);
  return flat.poison() ? flat : EmitOp(m, Op::k_take, {flat, ids}, {int64_t{0}}, at);
}

// x[mask] has as many elements as the mask says: no shape to compile for.
bool NoMasks(Machine& m, absl::Span<const Item> items) {
  for (const Item& item : items) {
    if (item.kind != Item::Kind::value || !IsMask(m, item.value)) continue;
    m.diagnostics.Report(Diag::mask_index, item.at->span).hint = "where(mask, x, 0) keeps the shape";
    return false;
  }
  return true;
}

}  // namespace

Val ApplyIndex(Machine& m, const Val& object, absl::Span<const Item> items, const Expr& at) {
  if (object.poison()) return object;
  for (const Item& item : items)
    if (item.value.poison() || item.start.poison() || item.stop.poison() || item.step.poison()) return Val::Poison();
  if (object.kind == Val::Kind::tuple || object.kind == Val::Kind::string) return IndexSequence(m, object, items, at);
  if (!object.tensor()) {
    m.diagnostics.Report(Diag::not_indexable, at.span, DescribeVal(m, object));
    return Val::Poison();
  }
  if (items.size() == 1 && items[0].kind == Item::Kind::value && IsMask(m, items[0].value))
    return TakeMasked(m, object, items[0], at);
  if (!NoMasks(m, items)) return Val::Poison();
  const TensorType type = m.TypeOf(object);
  Plan plan;
  if (!MakePlan(m, type, items, at, &plan)) return Val::Poison();
  int tensors = 0;
  for (const AxisItem& a : plan.axes)
    tensors += a.kind == AxisItem::Kind::take && a.ids.tensor() && m.TypeOf(a.ids).rank > 0;
  if (tensors > 1) {
    m.diagnostics.Report(Diag::several_index_tensors, at.span).hint =
        "gather(x, stack([i, j], axis=-1)) takes one element for each pair";
    return Val::Poison();
  }
  Val x = object;
  Ints flipped;
  for (size_t i = 0; i < plan.axes.size(); ++i)
    if (plan.axes[i].flip) flipped.push_back(static_cast<int64_t>(i));
  if (!flipped.empty()) x = EmitOp(m, Op::k_flip, {x}, {flipped}, at);
  if (plan.slices) x = EmitOp(m, Op::k_slice, {x}, SliceAttrs(plan), at);
  std::vector<int> widths(plan.axes.size(), 1);  // dims of the result that each dim has become
  for (size_t i = plan.axes.size(); i-- > 0 && !x.poison();) {
    const AxisItem& a = plan.axes[i];
    if (a.kind == AxisItem::Kind::point) widths[i] = 0;
    if (a.kind != AxisItem::Kind::take) continue;
    widths[i] = a.ids.tensor() ? m.TypeOf(a.ids).rank : 0;
    x = EmitOp(m, Op::k_take, {x, a.ids}, {static_cast<int64_t>(i)}, *a.at);
  }
  if (x.poison()) return x;
  Ints squeezed, inserted;
  int64_t place = 0;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (plan.axes[i].kind == AxisItem::Kind::point)
      squeezed.push_back(place++);
    else
      place += widths[i];
  }
  if (!squeezed.empty()) x = EmitOp(m, Op::k_squeeze, {x}, {squeezed}, at);
  if (plan.new_axes.empty() || x.poison()) return x;
  size_t next = 0;
  place = 0;
  for (size_t i = 0; i <= plan.axes.size(); ++i) {
    while (next < plan.new_axes.size() && plan.new_axes[next] == static_cast<int>(i))
      inserted.push_back(place++), ++next;
    if (i < plan.axes.size()) place += widths[i];
  }
  return EmitOp(m, Op::k_unsqueeze, {x}, {inserted}, at);
}

namespace {

/// v with the dtype of x and those dims: a number becomes a tensor, a tensor is repeated as NumPy would.
Val Filled(Machine& m, const Val& v, DType dtype, const Ints& dims, const Expr& at) {
  if (v.number()) return EmitOp(m, Op::k_full, {v}, {dims, dtype}, at);
  Val y = CastTo(m, v, dtype, at);
  if (y.poison()) return y;
  const TensorType& type = m.TypeOf(y);
  bool same = type.rank == dims.size();
  for (size_t i = 0; same && i < dims.size(); ++i) same = ir::DimEqual(m.symbols(), type.dims[i], dims[i]);
  return same ? y : EmitOp(m, Op::k_broadcast, {y}, {dims}, at);
}

Val SetBySlice(Machine& m, const Val& x, const Plan& plan, const Val& v, const Expr& at) {
  const TensorType type = m.TypeOf(x);
  TensorType region = type;
  if (plan.slices) {
    const ir::OpInfo& info = ir::Info(Op::k_slice);
    const std::vector<ir::Attr> attrs = SliceAttrs(plan);
    const TensorType* in[] = {&type};
    if (absl::Status s = ir::Infer({info, in, attrs, m.symbols()}, absl::MakeSpan(&region, 1)); !s.ok()) {
      m.diagnostics.Report(Diag::op_error, at.span, std::string_view(s.message().data(), s.message().size()));
      return Val::Poison();
    }
  }
  Ints dims, points, starts, steps, all;
  bool stepped = false;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const AxisItem& a = plan.axes[i];
    const bool point = a.kind == AxisItem::Kind::point, slice = a.kind == AxisItem::Kind::slice;
    if (point) {
      points.push_back(static_cast<int64_t>(i));
    } else {
      dims.push_back(region.dims[i]);
    }
    int64_t start = point || slice ? a.start : 0;
    // As in Python a slice is cut to the dim; where the update begins must be in it.
    if (slice && !ir::IsSymbol(type.dims[i]) && !ir::IsSymbol(start) && !ir::IsSymbol(a.stop))
      start = ir::ResolveSlice(type.dims[i], start, a.stop, a.step).first;
    starts.push_back(start);
    steps.push_back(slice ? a.step : 1);
    all.push_back(region.dims[i]);
    stepped |= steps.back() != 1;
  }
  if (!stepped) steps.clear();
  Val update = Filled(m, v, type.dtype, v.number() ? all : dims, at);
  if (!v.number() && !points.empty()) update = EmitOp(m, Op::k_unsqueeze, {update}, {points}, at);
  return EmitOp(m, Op::k_update_slice, {x, update}, {starts, steps}, at);
}

// x[i] = v, x[i, j] = v, x[ids] = v: leading dims by numbers that are known at run time, or by one tensor of them.
Val SetByScatter(Machine& m, const Val& x, const Plan& plan, const Val& v, const Expr& at) {
  const TensorType type = m.TypeOf(x);
  size_t leading = 0;
  while (leading < plan.axes.size() &&
         (plan.axes[leading].kind == AxisItem::Kind::take || plan.axes[leading].kind == AxisItem::Kind::point))
    ++leading;
  bool one_tensor = false, bad = false;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const AxisItem& a = plan.axes[i];
    bad |= i >= leading && a.kind != AxisItem::Kind::all;
    if (a.kind == AxisItem::Kind::take && a.ids.tensor() && m.TypeOf(a.ids).rank > 0) one_tensor = true;
  }
  if (bad || (one_tensor && leading != 1)) {
    m.diagnostics.Report(Diag::set_index_unsupported, at.span).hint =
        "scatter, put_along_axis and where make such updates";
    return Val::Poison();
  }
  Val ids;
  if (one_tensor) {
    ids = EmitOp(m, Op::k_unsqueeze, {plan.axes[0].ids}, {Ints{-1}}, at);
  } else {
    Vals parts;
    for (size_t i = 0; i < leading; ++i) {
      const AxisItem& a = plan.axes[i];
      Val part = a.kind == AxisItem::Kind::point ? Val::Integer(a.start) : a.ids;
      parts.push_back(CastTo(m, part, DType::i64, *a.at));
    }
    ids = EmitOp(m, Op::k_stack, parts, {int64_t{0}}, at);
  }
  if (ids.poison()) return ids;
  const TensorType ids_type = m.TypeOf(ids);
  Ints dims;
  for (int i = 0; i + 1 < ids_type.rank; ++i) dims.push_back(ids_type.dims[i]);
  for (size_t i = leading; i < type.rank; ++i) dims.push_back(type.dims[i]);
  const Val update = Filled(m, v, type.dtype, dims, at);
  return EmitOp(m, Op::k_scatter, {x, ids, update}, {std::string("set")}, at);
}

}  // namespace

Val ApplySetIndex(Machine& m, const Val& object, absl::Span<const Item> items, const Val& v, const Expr& at) {
  if (object.poison() || v.poison()) return Val::Poison();
  for (const Item& item : items)
    if (item.value.poison() || item.start.poison() || item.stop.poison() || item.step.poison()) return Val::Poison();
  if (object.kind == Val::Kind::tuple) {
    m.diagnostics.Report(Diag::set_item_of_tuple, at.span, object.is_list ? "list" : "tuple");
    return Val::Poison();
  }
  if (!object.strong()) {
    m.diagnostics.Report(Diag::not_indexable, at.span, DescribeVal(m, object));
    return Val::Poison();
  }
  if (!v.number() && !v.tensor() && v.kind != Val::Kind::dim) {
    m.diagnostics.Report(Diag::set_index_value, at.span, DescribeVal(m, v));
    return Val::Poison();
  }
  const TensorType type = m.TypeOf(object);
  if (items.size() == 1 && items[0].kind == Item::Kind::value && IsMask(m, items[0].value)) {
    Val mask = items[0].value;
    Ints axes;
    for (int i = m.TypeOf(mask).rank; i < type.rank; ++i) axes.push_back(i);
    if (!axes.empty()) mask = EmitOp(m, Op::k_unsqueeze, {mask}, {axes}, at);
    const Val value = v.number() ? v : CastTo(m, v, type.dtype, at);
    return EmitOp(m, Op::k_where, {mask, value, object}, {}, at);
  }
  if (!NoMasks(m, items)) return Val::Poison();
  Plan plan;
  if (!MakePlan(m, type, items, at, &plan)) return Val::Poison();
  // x[i, 1:3] = v, i known at run time: the row is taken, changed and put back.
  size_t scalars = 0;
  while (scalars < items.size() && items[scalars].kind == Item::Kind::value &&
         plan.axes[scalars].at == items[scalars].at &&
         (plan.axes[scalars].kind == AxisItem::Kind::point ||
          (plan.axes[scalars].kind == AxisItem::Kind::take &&
           !(plan.axes[scalars].ids.tensor() && m.TypeOf(plan.axes[scalars].ids).rank > 0))))
    ++scalars;
  if (plan.takes && scalars > 0 && scalars < items.size()) {
    const auto leading = items.first(scalars);
    const Val row = ApplyIndex(m, object, leading, at);
    return ApplySetIndex(m, object, leading, ApplySetIndex(m, row, items.subspan(scalars), v, at), at);
  }
  bool flips = false;
  for (const AxisItem& a : plan.axes) flips |= a.flip;
  if (flips || !plan.new_axes.empty()) {
    m.diagnostics.Report(Diag::set_index_unsupported, at.span).hint =
        flips ? "turn the value round by flip, and leave out the step" : "leave out None";
    return Val::Poison();
  }
  return plan.takes ? SetByScatter(m, object, plan, v, at) : SetBySlice(m, object, plan, v, at);
}

}  // namespace tessera::lang
