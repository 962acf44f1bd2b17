#include "tiers/compiler/tile/product_tiles.h"

using namespace mlir;

namespace tessera::compiler {

ProductTiles::ProductTiles(RowLowering rows, const ProductSchedule& schedule, const CompileOptions& options, Type type)
    : rows_(std::move(rows)),
      schedule_(schedule),
      type_(type),
      lanes_of_a_(options.vector_bytes == 16),
      bytes_(type.getIntOrFloatBitWidth() / 8),
      w_(std::max<int64_t>(1, options.vector_bytes / bytes_)) {}

void ProductTiles::Multiply(const Factor& x, const Factor& y, Value panel_scratch, Value depth, Value count, Value n0,
                            Value n1, Value columns, Sums sums, llvm::function_ref<void(Value, Value, Value)> sink) {
  const bool copies = x.is_operand && copy_;
  const bool packs_block = packs_block_ && x.is_operand;
  const bool words = schedule_.words > 0 && x.is_operand;
  auto piece = [&](Value k0, Value length, Value is_first, Value is_last) {
    Factor left = x;
    if (k0 && !x.compute) left.base = rows_.Sum(x.base, rows_.Mul(k0, x.along));
    if (copies) left = words ? CopyWords(left, count, k0, length) : CopyRows(left, count, k0, length);
    Factor all = y;
    if (k0) all.base = rows_.Sum(y.base, rows_.Mul(k0, y.along));
    if (packs_block)
      words ? PackWordsOfBlock(all, panel_scratch, length, n0, n1) : PackBlock(all, panel_scratch, length, n0, n1);
    rows_.For(n0, n1, I64(schedule_.nr), {}, [&](Value n, ValueRange) {
      Factor right = all;
      right.base = rows_.Sum(all.base, rows_.Mul(n, y.line));
      Value left_columns = Sub(columns, n);
      Panel panel;
      if (packs_block)
        panel = {Scratch(panel_scratch), rows_.Mul(Sub(n, n0), I64(PieceEntries())),
                 I64(schedule_.nr * std::max<int64_t>(1, schedule_.words))};
      else if (schedule_.form == ProductSchedule::Form::direct)
        panel = {right.view, right.base, right.along, &right};
      else if (schedule_.form != ProductSchedule::Form::dot)
        panel = words ? PackWords(right, panel_scratch, length, left_columns)
                      : PackPanel(right, panel_scratch, length, left_columns);
      rows_.For(I64(0), count, I64(schedule_.mr), {}, [&](Value i, ValueRange) {
        Value left_rows = Min(I64(schedule_.mr), Sub(count, i));
        SmallVector<Value> tile;
        Value offset = sums.view ? rows_.Sum(rows_.Mul(i, sums.width), Sub(n, n0)) : Value();
        if (schedule_.form == ProductSchedule::Form::dot) {
          tile = DotTile(left, right, length, i, left_rows, left_columns);
        } else if (words && schedule_.words == 2) {
          tile = TileOfPairs(left, panel, length, i, left_rows, Start(sums, offset, is_first));
        } else {
          tile = RegisterTile(left, panel, length, i, left_rows, Start(sums, offset, is_first), words);
        }
        Finish(tile, sums, offset, is_last, static_cast<bool>(sink), [&] { sink(i, n, left_rows); });
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  };
  if (!sums.view || (x.is_operand && !sums_in_pieces_)) return piece(Value(), depth, Value(), Value());
  const int64_t at_most = x.is_operand ? schedule_.depth : second_depth_;
  Value pieces = arith::MaxSIOp::create(b(), loc(), CeilDiv(depth, at_most), I64(1));
  rows_.For(I64(0), pieces, I64(1), {}, [&](Value p, ValueRange) {
    Value k0 = rows_.Mul(p, I64(at_most));
    piece(k0, Min(I64(at_most), Sub(depth, k0)), Equal(p, I64(0)), Equal(p, Sub(pieces, I64(1))));
    return SmallVector<Value>();
  });
}

Value ProductTiles::Greater(Value x, Value y) {
  return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::sgt, x, y);
}

Value ProductTiles::Equal(Value x, Value y) {
  return arith::CmpIOp::create(b(), loc(), arith::CmpIPredicate::eq, x, y);
}

Value ProductTiles::LoadWide(Value view, Value at, int64_t lanes) {
  return tile::LoadOp::create(b(), loc(), rows_.TileType(type_, lanes), view, at, Value(), TypeAttr::get(type_),
                              UnitAttr());
}

void ProductTiles::StoreWide(Value x, Value view, Value at) {
  tile::StoreOp::create(b(), loc(), x, view, at, Value(), type_);
}

Value ProductTiles::Zero(int64_t lanes) {
  return rows_.Splat(arith::ConstantOp::create(b(), loc(), b().getFloatAttr(type_, 0.0)), lanes);
}

Value ProductTiles::LoadFactor(const Factor& f, Value at, int64_t lanes, bool is_run, Value stride) {
  if (f.is_operand) return rows_.Load(f.index, at, lanes, is_run ? Value() : stride);
  return LoadWide(f.view, at, lanes);
}

void ProductTiles::AlongRow(Value n, llvm::function_ref<void(Value, int64_t)> fn) { rows_.Along(I64(0), n, w_, fn); }

Value ProductTiles::RowOf(const Factor& x, Value i) {
  Value from = rows_.Mul(i, x.line);
  if (x.head) {
    Value row = rows_.Sum(x.first, i);
    from = rows_.Sum(rows_.Mul(Rem(row, share_), x.head), rows_.Mul(Div(row, share_), x.line));
  }
  return rows_.Sum(x.base, from);
}

Factor ProductTiles::CopyRows(const Factor& x, Value count, Value k0, Value length) {
  Factor copy;
  copy.view = Scratch(copy_);
  copy.base = I64(0);
  copy.line = I64(schedule_.depth);
  copy.along = I64(1);
  copy.runs_along = true;
  rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
    Value to = rows_.Mul(i, copy.line);
    if (x.compute) {
      Value first = k0 ? k0 : I64(0);
      x.compute(i, first, rows_.Sum(first, length), copy.view, Sub(to, first));
      return SmallVector<Value>();
    }
    Value from = RowOf(x, i);
    AlongRow(length, [&](Value k, int64_t lanes) {
      Value at = rows_.Sum(from, x.runs_along ? k : rows_.Mul(k, x.along));
      StoreWide(LoadFactor(x, at, lanes, x.runs_along, x.along), copy.view, rows_.Sum(to, k));
    });
    return SmallVector<Value>();
  });
  return copy;
}

void ProductTiles::PackBlock(const Factor& y, Value scratch, Value length, Value n0, Value n1) {
  Value view = Scratch(scratch);
  const int64_t nr = schedule_.nr;
  Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), Sub(n1, n0), I64(nr)), I64(nr));
  // Four runs at a time, because each panel is in other pages.
  auto runs = [&](int64_t count) {
    return [&, count](Value k, ValueRange) {
      Value from = rows_.Sum(rows_.Sum(y.base, n0), rows_.Mul(k, y.along)), to = rows_.Mul(k, I64(nr));
      rows_.For(I64(0), whole, I64(nr), {}, [&](Value n, ValueRange) {
        Value panel = rows_.Sum(to, rows_.Mul(n, I64(schedule_.depth)));
        for (int64_t r = 0; r < count; ++r) {
          Value run = rows_.Sum(rows_.Sum(from, n), rows_.Mul(I64(r), y.along));
          for (int64_t j = 0; j < nr; j += w_)
            StoreWide(LoadFactor(y, rows_.Sum(run, I64(j)), w_, true, Value()), view,
                      rows_.Sum(panel, I64(r * nr + j)));
        }
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    };
  };
  Value fours = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(4)), I64(4));
  rows_.For(I64(0), fours, I64(4), {}, runs(4));
  rows_.For(fours, length, I64(1), {}, runs(1));
  Value rest = Sub(Sub(n1, n0), whole);
  auto some = scf::IfOp::create(b(), loc(), Greater(rest, I64(0)), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToStart(some.thenBlock());
  Factor last = y;
  last.base = rows_.Sum(y.base, rows_.Sum(n0, whole));
  PackPart(last, {view, rows_.Mul(whole, I64(schedule_.depth)), I64(nr)}, length, rest);
}

ProductTiles::Panel ProductTiles::PackPanel(const Factor& y, Value scratch, Value length, Value columns) {
  Panel packed{Scratch(scratch), I64(0), I64(schedule_.nr)};
  auto choose = scf::IfOp::create(b(), loc(), Greater(I64(schedule_.nr), columns), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToStart(choose.thenBlock());
  PackPart(y, packed, length, columns);
  b().setInsertionPointToStart(choose.elseBlock());
  Value done = I64(0);
  if (y.runs_along && w_ > 1) {
    done = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(w_)), I64(w_));
    rows_.For(I64(0), done, I64(w_), {}, [&](Value k, ValueRange) {
      for (int64_t j = 0; j < schedule_.nr; j += w_) PackSquare(y, packed, k, j);
      return SmallVector<Value>();
    });
  }
  rows_.For(done, length, I64(1), {}, [&](Value k, ValueRange) {
    for (int64_t j = 0; j < schedule_.nr; j += w_) {
      Value at = rows_.Sum(rows_.Sum(y.base, rows_.Mul(k, y.along)), rows_.Mul(I64(j), y.line));
      StoreWide(LoadFactor(y, at, w_, y.runs_line, y.line), packed.view,
                rows_.Sum(rows_.Mul(k, packed.stride), I64(j)));
    }
    return SmallVector<Value>();
  });
  return packed;
}

SmallVector<Value> ProductTiles::Transpose(SmallVector<Value> square) {
  SmallVector<int32_t> low, high;
  for (int32_t lane = 0; lane < w_ / 2; ++lane) {
    const int32_t w = static_cast<int32_t>(w_);
    low.append({lane, lane + w});
    high.append({lane + w / 2, lane + w + w / 2});
  }
  for (int64_t n = w_; n > 1; n /= 2) {
    SmallVector<Value> next;
    for (size_t c = 0; c < square.size() / 2; ++c) {
      next.push_back(Shuffle(square[c], square[c + square.size() / 2], low));
      next.push_back(Shuffle(square[c], square[c + square.size() / 2], high));
    }
    square = next;
  }
  return square;
}

Value ProductTiles::Shuffle(Value a, Value c, ArrayRef<int32_t> lanes) {
  return tile::ShuffleOp::create(b(), loc(), a.getType(), a, c, b().getDenseI32ArrayAttr(lanes));
}

void ProductTiles::PackSquare(const Factor& y, const Panel& packed, Value k, int64_t j) {
  SmallVector<Value> square;
  for (int64_t c = 0; c < w_; ++c)
    square.push_back(LoadFactor(y, rows_.Sum(rows_.Sum(y.base, k), rows_.Mul(I64(j + c), y.line)), w_, true, Value()));
  square = Transpose(std::move(square));
  for (int64_t s = 0; s < w_; ++s)
    StoreWide(square[static_cast<size_t>(s)], packed.view,
              rows_.Sum(rows_.Mul(rows_.Sum(k, I64(s)), packed.stride), I64(j)));
}

void ProductTiles::PackPart(const Factor& y, const Panel& packed, Value length, Value columns) {
  rows_.For(I64(0), length, I64(1), {}, [&](Value k, ValueRange) {
    Value from = rows_.Sum(y.base, rows_.Mul(k, y.along));
    Value to = rows_.Sum(packed.base, rows_.Mul(k, packed.stride));
    rows_.For(I64(0), columns, I64(1), {}, [&](Value j, ValueRange) {
      StoreWide(LoadFactor(y, rows_.Sum(from, rows_.Mul(j, y.line)), 1, true, Value()), packed.view, rows_.Sum(to, j));
      return SmallVector<Value>();
    });
    rows_.For(columns, I64(schedule_.nr), I64(1), {}, [&](Value j, ValueRange) {
      StoreWide(Zero(1), packed.view, rows_.Sum(to, j));
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}

SmallVector<Value> ProductTiles::Start(const Sums& sums, Value offset, Value is_first) {
  const int64_t vectors = schedule_.nr / w_;
  SmallVector<Value> zeros(static_cast<size_t>(schedule_.mr * vectors), Zero(w_));
  if (!is_first) return zeros;
  SmallVector<Type> types(zeros.size(), zeros[0].getType());
  auto choose = scf::IfOp::create(b(), loc(), types, is_first, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToEnd(choose.thenBlock());
  scf::YieldOp::create(b(), loc(), zeros);
  b().setInsertionPointToEnd(choose.elseBlock());
  SmallVector<Value> loaded;
  for (int64_t r = 0; r < schedule_.mr; ++r)
    for (int64_t v = 0; v < vectors; ++v) loaded.push_back(LoadWide(sums.view, InSums(sums, offset, r, v), w_));
  scf::YieldOp::create(b(), loc(), loaded);
  return SmallVector<Value>(choose.getResults());
}

Value ProductTiles::InSums(const Sums& sums, Value offset, int64_t r, int64_t v) {
  return rows_.Sum(rows_.Sum(offset, rows_.Mul(I64(r), sums.width)), I64(v * w_));
}

SmallVector<Value> ProductTiles::RegisterTile(const Factor& x, const Panel& panel, Value length, Value i, Value rows,
                                              ArrayRef<Value> start, bool words) {
  const int64_t mr = schedule_.mr, vectors = schedule_.nr / w_;
  if (words) length = CeilDiv(length, 2);
  auto load = [&](Value view, Value at, int64_t lanes) {
    return words ? LoadWords(view, at, lanes) : LoadWide(view, at, lanes);
  };
  SmallVector<Value> line;
  Value last = Sub(rows, I64(1));
  for (int64_t r = 0; r < mr; ++r)
    line.push_back(rows_.Sum(x.base, rows_.Mul(rows_.Sum(i, r == 0 ? I64(0) : Min(I64(r), last)), x.line)));
  // One element of each row of the left factor with a row of the panel. `rows_of_a` has them in all lanes.
  auto step = [&](Value k, llvm::function_ref<Value(int64_t)> a, SmallVector<Value>& sums) {
    Value at = rows_.Sum(panel.base, rows_.Mul(k, panel.stride));
    SmallVector<Value> right;
    for (int64_t v = 0; v < vectors; ++v) {
      Value from = rows_.Sum(at, I64(v * w_));
      right.push_back(panel.in_place != nullptr ? LoadFactor(*panel.in_place, from, w_, true, Value())
                                                : load(panel.view, from, w_));
    }
    for (int64_t r = 0; r < mr; ++r) {
      Value left = a(r);
      for (int64_t v = 0; v < vectors; ++v) {
        Value& sum = sums[static_cast<size_t>(r * vectors + v)];
        Value factor = right[static_cast<size_t>(v)];
        sum = words ? tile::MultiplyWordsOp::create(b(), loc(), sum.getType(), left, factor, sum, UnitAttr()).getD()
                    : tile::FmaOp::create(b(), loc(), sum.getType(), left, factor, sum).getD();
      }
    }
  };
  auto element = [&](int64_t r, Value k) {
    Value at = rows_.Sum(line[static_cast<size_t>(r)], x.runs_along ? k : rows_.Mul(k, x.along));
    return rows_.Splat(load(x.view, at, 1), w_);
  };
  // Several steps at a time: on NEON a vector of each row of the left factor, whose lanes the instruction picks.
  const int64_t unroll = lanes_of_a_ ? w_ : 4;
  Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(unroll)), I64(unroll));
  SmallVector<Value> sums = rows_.For(I64(0), whole, I64(unroll), start, [&](Value k, ValueRange carried) {
    SmallVector<Value> next(carried), left;
    for (int64_t r = 0; lanes_of_a_ && w_ > 1 && r < mr; ++r)
      left.push_back(load(x.view, rows_.Sum(line[static_cast<size_t>(r)], k), w_));
    for (int64_t u = 0; u < unroll; ++u) {
      Value at = rows_.Sum(k, I64(u));
      step(
          at,
          [&](int64_t r) -> Value {
            if (!left.empty())
              return tile::LaneOp::create(b(), loc(), left[static_cast<size_t>(r)].getType(),
                                          left[static_cast<size_t>(r)], b().getI64IntegerAttr(u));
            return element(r, at);
          },
          next);
    }
    return next;
  });
  return rows_.For(whole, length, I64(1), sums, [&](Value k, ValueRange carried) {
    SmallVector<Value> next(carried);
    step(k, [&](int64_t r) { return element(r, k); }, next);
    return next;
  });
}

void ProductTiles::Stream(const Factor& x, const Factor& y, Value depth, Value count, Value n0, Value n1, Value sums,
                          Value width) {
  constexpr int64_t kSteps = 4;
  Value columns = Sub(n1, n0);
  rows_.For(I64(0), I64(schedule_.rows), I64(1), {}, [&](Value i, ValueRange) {
    Value at = rows_.Mul(i, width);
    AlongRow(columns, [&](Value n, int64_t lanes) { StoreWide(Zero(lanes), sums, rows_.Sum(at, n)); });
    return SmallVector<Value>();
  });
  SmallVector<Value> line;
  for (int64_t r = 0; r < schedule_.mr; ++r)
    line.push_back(rows_.Sum(x.base, rows_.Mul(Min(I64(r), Sub(count, I64(1))), x.line)));
  auto steps = [&](int64_t n_steps) {
    return [&, n_steps](Value k, ValueRange) {
      SmallVector<SmallVector<Value>> left;
      for (Value at : line) {
        left.emplace_back();
        for (int64_t s = 0; s < n_steps; ++s)
          left.back().push_back(LoadWide(x.view, rows_.Sum(at, rows_.Sum(k, I64(s))), 1));
      }
      SmallVector<Value> from;
      for (int64_t s = 0; s < n_steps; ++s)
        from.push_back(rows_.Sum(rows_.Sum(y.base, n0), rows_.Mul(rows_.Sum(k, I64(s)), y.along)));
      AlongRow(columns, [&](Value n, int64_t lanes) {
        SmallVector<Value> right;
        for (Value at : from) right.push_back(LoadFactor(y, rows_.Sum(at, n), lanes, true, Value()));
        for (int64_t r = 0; r < schedule_.mr; ++r) {
          Value at = rows_.Sum(n, rows_.Mul(I64(r), width));
          Value sum = LoadWide(sums, at, lanes);
          for (int64_t s = 0; s < n_steps; ++s) {
            Value a = rows_.Splat(left[static_cast<size_t>(r)][static_cast<size_t>(s)], lanes);
            sum = tile::FmaOp::create(b(), loc(), sum.getType(), a, right[static_cast<size_t>(s)], sum);
          }
          StoreWide(sum, sums, at);
        }
      });
      return SmallVector<Value>();
    };
  };
  Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), depth, I64(kSteps)), I64(kSteps));
  rows_.For(I64(0), whole, I64(kSteps), {}, steps(kSteps));
  rows_.For(whole, depth, I64(1), {}, steps(1));
}

SmallVector<Value> ProductTiles::DotTile(const Factor& x, const Factor& y, Value length, Value i, Value rows,
                                         Value columns) {
  const int64_t mr = schedule_.mr, nr = schedule_.nr;
  SmallVector<Value> left, right;
  for (int64_t r = 0; r < mr; ++r)
    left.push_back(rows_.Sum(x.base, rows_.Mul(rows_.Sum(i, Min(I64(r), Sub(rows, I64(1)))), x.line)));
  for (int64_t c = 0; c < nr; ++c)
    right.push_back(rows_.Sum(y.base, rows_.Mul(Min(I64(c), Sub(columns, I64(1))), y.line)));
  auto body = [&](int64_t lanes) {
    return [&, lanes](Value k, ValueRange carried) {
      SmallVector<Value> next(carried), a, c;
      for (Value at : left) a.push_back(LoadWide(x.view, rows_.Sum(at, k), lanes));
      for (Value at : right) c.push_back(LoadFactor(y, rows_.Sum(at, k), lanes, true, Value()));
      for (size_t r = 0; r < a.size(); ++r)
        for (size_t j = 0; j < c.size(); ++j) {
          Value& sum = next[r * c.size() + j];
          sum = tile::FmaOp::create(b(), loc(), sum.getType(), a[r], c[j], sum);
        }
      return next;
    };
  };
  Value whole = rows_.Mul(arith::DivUIOp::create(b(), loc(), length, I64(w_)), I64(w_));
  SmallVector<Value> zeros(static_cast<size_t>(mr * nr), Zero(w_));
  SmallVector<Value> sums = rows_.For(I64(0), whole, I64(w_), zeros, body(w_));
  const std::string add = type_.isF64() ? "add_f64" : "add_f32";
  for (Value& sum : sums)
    if (w_ > 1) sum = tile::ReduceOp::create(b(), loc(), type_, sum, b().getStringAttr(add));
  return w_ > 1 ? rows_.For(whole, length, I64(1), sums, body(1)) : sums;
}

void ProductTiles::Finish(ArrayRef<Value> tile, const Sums& sums, Value offset, Value is_last, bool has_sink,
                          llvm::function_ref<void()> sink) {
  auto keep = [&] {
    for (int64_t r = 0; r < schedule_.mr; ++r)
      for (int64_t v = 0; v < schedule_.nr / w_; ++v)
        StoreWide(tile[static_cast<size_t>(r * (schedule_.nr / w_) + v)], sums.view, InSums(sums, offset, r, v));
  };
  auto done = [&] {
    Value view = Scratch(tile_);
    const int64_t in_row = static_cast<int64_t>(tile.size()) / schedule_.mr, step = schedule_.nr / in_row;
    for (int64_t r = 0; r < schedule_.mr; ++r)
      for (int64_t v = 0; v < in_row; ++v)
        StoreWide(tile[static_cast<size_t>(r * in_row + v)], view, I64(r * Wide(schedule_.nr) + v * step));
    sink();
  };
  if (!has_sink) return keep();
  if (!is_last) return done();
  auto choose = scf::IfOp::create(b(), loc(), is_last, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToStart(choose.thenBlock());
  done();
  b().setInsertionPointToStart(choose.elseBlock());
  keep();
}

}  // namespace tessera::compiler
