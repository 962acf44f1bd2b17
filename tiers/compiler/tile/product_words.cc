// Products of bf16 whose elements are multiplied as they are, two of them to a word.
//
// Instructions want elements that follow one another along the sum side by side, so both factors are copied that way:
//
//   words = 1   group g: two elements. Of a panel of nr columns: a word of each column, nr words; of a row: a word.
//   words = 2   group g: four elements. Of a panel: two words of each column, 2 nr of them; of two rows: two words of
//               the first one, then two of the second.
//
// Where the last group of a piece has fewer elements the rest of it is zeros in both copies, so that what is added
// there is 0 whatever the others are. Elements move as bits: neither NaN nor subnormal numbers become others on the
// way.
#include "tiers/compiler/tile/product_tiles.h"

using namespace mlir;

namespace tessera::compiler {
namespace {

// Of two squares of sums side by side, the first row and the second one; and the way back.
constexpr int32_t kFirst[] = {0, 1, 4, 5}, kSecond[] = {2, 3, 6, 7};

}  // namespace

Value ProductTiles::LoadWords(Value view, Value at, int64_t lanes) {
  Type word = b().getI32Type();
  return tile::LoadOp::create(b(), loc(), rows_.TileType(word, lanes), view, at, Value(), TypeAttr::get(word),
                              UnitAttr());
}

void ProductTiles::StoreWords(Value words, Value view, Value at) {
  tile::StoreOp::create(b(), loc(), words, view, at, Value(), b().getI32Type());
}

Value ProductTiles::Words(Value low, Value high) {
  Type word = b().getI32Type();
  auto vector = dyn_cast<VectorType>(low.getType());
  Type type = vector ? Type(VectorType::get(vector.getShape(), word)) : word;
  return tile::WordsOp::create(b(), loc(), type, low, high);
}

Value ProductTiles::WordsAlong(const Factor& f, Value at, int64_t lanes) {
  if (f.runs_along)
    return tile::LoadOp::create(b(), loc(), rows_.TileType(b().getI32Type(), lanes), f.view, at, Value(),
                                TypeAttr::get(f.dtype), UnitAttr());
  Value stride = rows_.Mul(f.along, I64(2));
  return Words(LoadFactor(f, at, lanes, false, stride), LoadFactor(f, rows_.Sum(at, f.along), lanes, false, stride));
}

Value ProductTiles::WordAt(const Factor& f, Value from, Value k, Value end) {
  Value last = Sub(end, I64(1));
  auto element = [&](Value at) -> Value {
    Value x = LoadFactor(f, rows_.Sum(from, rows_.Mul(Min(at, last), f.along)), 1, true, Value());
    return arith::SelectOp::create(b(), loc(), Greater(end, at), x, Zero(1));
  };
  return Words(element(k), element(rows_.Sum(k, I64(1))));
}

Factor ProductTiles::CopyWords(const Factor& x, Value count, Value k0, Value length) {
  const int64_t words = schedule_.words, entries = PieceEntries();
  Factor copy;
  copy.view = Scratch(copy_);
  copy.base = I64(0);
  copy.line = I64(entries);
  copy.along = I64(1);
  copy.runs_along = true;
  Value groups = Div(length, I64(OfGroup())), all = CeilDiv(length, OfGroup());
  rows_.For(I64(0), count, I64(1), {}, [&](Value i, ValueRange) {
    Value to = words == 1 ? rows_.Mul(i, copy.line)
                          : rows_.Sum(rows_.Mul(Div(i, I64(2)), I64(2 * entries)), rows_.Mul(Rem(i, I64(2)), I64(2)));
    auto place = [&](Value g) { return rows_.Sum(to, rows_.Mul(g, I64(words * words))); };
    if (x.compute) {
      // As f32, from where each element is rounded to its place.
      Value first = k0 ? k0 : I64(0), row = Scratch(row_);
      x.compute(i, first, rows_.Sum(first, length), row, Sub(I64(0), first));
      Value padded = rows_.Mul(all, I64(OfGroup()));
      rows_.For(length, padded, I64(1), {}, [&](Value k, ValueRange) {
        StoreWide(Zero(1), row, k);
        return SmallVector<Value>();
      });
      auto store = [&](Value k, int64_t lanes, Value at) {
        tile::StoreOp::create(b(), loc(), LoadWide(row, k, lanes), copy.view, at, Value(), b().getBF16Type());
      };
      if (words == 1) {
        AlongRow(padded, [&](Value k, int64_t lanes) { store(k, lanes, rows_.Sum(rows_.Mul(to, I64(2)), k)); });
        return SmallVector<Value>();
      }
      rows_.For(I64(0), all, I64(1), {}, [&](Value g, ValueRange) {
        store(rows_.Mul(g, I64(4)), 4, rows_.Mul(place(g), I64(2)));
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    }
    Value from = RowOf(x, i);
    auto group = [&](Value g, int64_t lanes) {
      Value k = rows_.Mul(g, I64(OfGroup()));
      Value at = rows_.Sum(from, x.runs_along ? k : rows_.Mul(k, x.along));
      StoreWords(WordsAlong(x, at, lanes), copy.view, place(g));
    };
    if (words == 1) {
      AlongRow(groups, group);
    } else {
      rows_.For(I64(0), groups, I64(1), {}, [&](Value g, ValueRange) {
        group(g, 2);
        return SmallVector<Value>();
      });
    }
    rows_.For(groups, all, I64(1), {}, [&](Value g, ValueRange) {
      for (int64_t w = 0; w < words; ++w) {
        Value k = rows_.Sum(rows_.Mul(g, I64(OfGroup())), I64(2 * w));
        StoreWords(WordAt(x, from, k, length), copy.view, rows_.Sum(place(g), I64(w)));
      }
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  return copy;
}

void ProductTiles::PackWordsOfBlock(const Factor& y, Value scratch, Value length, Value n0, Value n1) {
  const int64_t nr = schedule_.nr;
  Value view = Scratch(scratch), stride = I64(nr * schedule_.words);
  Value whole = rows_.Mul(Div(Sub(n1, n0), I64(nr)), I64(nr)), rest = Sub(Sub(n1, n0), whole);
  Value groups = Div(length, I64(OfGroup())), all = CeilDiv(length, OfGroup());
  Factor block = y;
  block.base = rows_.Sum(y.base, n0);
  auto panel = [&](Value n) { return Panel{view, rows_.Mul(n, I64(PieceEntries())), stride}; };
  rows_.For(I64(0), groups, I64(1), {}, [&](Value g, ValueRange) {
    Value from = rows_.Sum(block.base, rows_.Mul(rows_.Mul(g, I64(OfGroup())), y.along));
    rows_.For(I64(0), whole, I64(nr), {}, [&](Value n, ValueRange) {
      PackGroup(y, rows_.Sum(from, n), panel(n), g);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
  auto one_by_one = [&](Value n, Value from, Value columns) {
    Factor part = block;
    part.base = rows_.Sum(block.base, n);
    PackWordsOneByOne(part, panel(n), from, all, length, columns);
  };
  rows_.For(I64(0), whole, I64(nr), {}, [&](Value n, ValueRange) {
    one_by_one(n, groups, I64(nr));
    return SmallVector<Value>();
  });
  auto some = scf::IfOp::create(b(), loc(), Greater(rest, I64(0)), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToStart(some.thenBlock());
  one_by_one(whole, I64(0), rest);
}

ProductTiles::Panel ProductTiles::PackWords(const Factor& y, Value scratch, Value length, Value columns) {
  Panel packed{Scratch(scratch), I64(0), I64(schedule_.nr * schedule_.words)};
  Value groups = Div(length, I64(OfGroup())), all = CeilDiv(length, OfGroup());
  auto choose = scf::IfOp::create(b(), loc(), Greater(I64(schedule_.nr), columns), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b());
  b().setInsertionPointToStart(choose.thenBlock());
  PackWordsOneByOne(y, packed, I64(0), all, length, columns);
  b().setInsertionPointToStart(choose.elseBlock());
  Value done = I64(0);
  if (y.runs_along) {
    const int64_t square = schedule_.words == 1 ? w_ : 2;  // groups, and columns
    done = rows_.Mul(Div(groups, I64(square)), I64(square));
    rows_.For(I64(0), done, I64(square), {}, [&](Value g, ValueRange) {
      for (int64_t j = 0; j < schedule_.nr; j += square) PackSquareOfWords(y, packed, g, j);
      return SmallVector<Value>();
    });
  }
  rows_.For(done, groups, I64(1), {}, [&](Value g, ValueRange) {
    PackGroup(y, rows_.Sum(y.base, rows_.Mul(rows_.Mul(g, I64(OfGroup())), y.along)), packed, g);
    return SmallVector<Value>();
  });
  PackWordsOneByOne(y, packed, groups, all, length, I64(schedule_.nr));
  return packed;
}

void ProductTiles::PackGroup(const Factor& y, Value from, const Panel& packed, Value g) {
  Value to = rows_.Sum(packed.base, rows_.Mul(g, packed.stride));
  SmallVector<int32_t> low, high;
  for (int32_t lane = 0; lane < w_ / 2; ++lane) {
    const int32_t w = static_cast<int32_t>(w_);
    low.append({lane, lane + w});
    high.append({lane + w / 2, lane + w + w / 2});
  }
  for (int64_t j = 0; j < schedule_.nr; j += w_) {
    auto row = [&](int64_t k) {
      Value at = rows_.Sum(rows_.Sum(from, rows_.Mul(I64(k), y.along)), rows_.Mul(I64(j), y.line));
      return LoadFactor(y, at, w_, y.runs_line, y.line);
    };
    Value words = Words(row(0), row(1));
    if (schedule_.words == 1) {
      StoreWords(words, packed.view, rows_.Sum(to, I64(j)));
      continue;
    }
    Value more = Words(row(2), row(3));
    StoreWords(Shuffle(words, more, low), packed.view, rows_.Sum(to, I64(2 * j)));
    StoreWords(Shuffle(words, more, high), packed.view, rows_.Sum(to, I64(2 * j + w_)));
  }
}

void ProductTiles::PackSquareOfWords(const Factor& y, const Panel& packed, Value g, int64_t j) {
  Value from = rows_.Sum(y.base, rows_.Mul(g, I64(OfGroup())));
  auto column = [&](int64_t c) {
    return WordsAlong(y, rows_.Sum(from, rows_.Mul(I64(j + c), y.line)), schedule_.words == 1 ? w_ : 4);
  };
  auto place = [&](int64_t s) {
    return rows_.Sum(rows_.Sum(packed.base, rows_.Mul(rows_.Sum(g, I64(s)), packed.stride)), I64(j * schedule_.words));
  };
  if (schedule_.words == 2) {
    Value a = column(0), c = column(1);
    StoreWords(Shuffle(a, c, kFirst), packed.view, place(0));
    StoreWords(Shuffle(a, c, kSecond), packed.view, place(1));
    return;
  }
  SmallVector<Value> square;
  for (int64_t c = 0; c < w_; ++c) square.push_back(column(c));
  square = Transpose(std::move(square));
  for (int64_t s = 0; s < w_; ++s) StoreWords(square[static_cast<size_t>(s)], packed.view, place(s));
}

void ProductTiles::PackWordsOneByOne(const Factor& y, const Panel& packed, Value g0, Value g1, Value length,
                                     Value columns) {
  rows_.For(g0, g1, I64(1), {}, [&](Value g, ValueRange) {
    Value k = rows_.Mul(g, I64(OfGroup()));
    Value to = rows_.Sum(packed.base, rows_.Mul(g, packed.stride));
    auto store = [&](Value j, llvm::function_ref<Value(int64_t)> word) {
      for (int64_t w = 0; w < schedule_.words; ++w)
        StoreWords(word(w), packed.view, rows_.Sum(rows_.Sum(to, rows_.Mul(j, I64(schedule_.words))), I64(w)));
      return SmallVector<Value>();
    };
    rows_.For(I64(0), columns, I64(1), {}, [&](Value j, ValueRange) {
      Value from = rows_.Sum(y.base, rows_.Mul(j, y.line));
      return store(j, [&](int64_t w) { return WordAt(y, from, rows_.Sum(k, I64(2 * w)), length); });
    });
    rows_.For(columns, I64(schedule_.nr), I64(1), {},
              [&](Value j, ValueRange) { return store(j, [&](int64_t) { return Words(Zero(1), Zero(1)); }); });
    return SmallVector<Value>();
  });
}

SmallVector<Value> ProductTiles::TileOfPairs(const Factor& x, const Panel& panel, Value length, Value i, Value rows,
                                             ArrayRef<Value> start) {
  const int64_t vectors = schedule_.nr / w_, columns = schedule_.nr / 2;
  const auto pairs = static_cast<size_t>(schedule_.mr / 2), in_row = static_cast<size_t>(vectors);
  SmallVector<Value> line, sums;
  Value first = Div(i, I64(2)), last = Div(Sub(rows, I64(1)), I64(2));
  for (size_t p = 0; p < pairs; ++p) {
    Value row = p == 0 ? first : rows_.Sum(first, Min(I64(static_cast<int64_t>(p)), last));
    line.push_back(rows_.Sum(x.base, rows_.Mul(row, rows_.Mul(x.line, I64(2)))));
    for (size_t v = 0; v < in_row; ++v) {
      Value upper = start[2 * p * in_row + v], lower = start[(2 * p + 1) * in_row + v];
      sums.push_back(Shuffle(upper, lower, kFirst));
      sums.push_back(Shuffle(upper, lower, kSecond));
    }
  }
  auto step = [&](Value g, SmallVector<Value>& next) {
    Value at = rows_.Sum(panel.base, rows_.Mul(g, panel.stride)), along = rows_.Mul(g, I64(4));
    SmallVector<Value> right;
    for (int64_t c = 0; c < columns; ++c) right.push_back(LoadWords(panel.view, rows_.Sum(at, I64(4 * c)), 4));
    for (size_t p = 0; p < pairs; ++p) {
      Value left = LoadWords(x.view, rows_.Sum(line[p], along), 4);
      for (size_t c = 0; c < right.size(); ++c) {
        Value& sum = next[p * right.size() + c];
        sum = tile::MultiplyWordsOp::create(b(), loc(), sum.getType(), left, right[c], sum, b().getUnitAttr());
      }
    }
  };
  auto steps = [&](int64_t count) {
    return [&, count](Value g, ValueRange carried) {
      SmallVector<Value> next(carried);
      for (int64_t s = 0; s < count; ++s) step(rows_.Sum(g, I64(s)), next);
      return next;
    };
  };
  Value all = CeilDiv(length, OfGroup()), whole = rows_.Mul(Div(all, I64(2)), I64(2));
  sums = rows_.For(I64(0), whole, I64(2), sums, steps(2));
  sums = rows_.For(whole, all, I64(1), sums, steps(1));
  SmallVector<Value> tile;
  for (size_t p = 0; p < pairs; ++p)
    for (ArrayRef<int32_t> row : {ArrayRef<int32_t>(kFirst), ArrayRef<int32_t>(kSecond)})
      for (size_t v = 0; v < in_row; ++v)
        tile.push_back(Shuffle(sums[2 * (p * in_row + v)], sums[2 * (p * in_row + v) + 1], row));
  return tile;
}

}  // namespace tessera::compiler
