// Attention and its gradient on a CUDA device against the cpu: what decides between the kernels, and their edges.
#include <bit>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "cuda_ops_testing.h"

namespace tessera {
namespace {

using ir::Op;
using rt::Ref;
using rt::TensorImpl;

class CudaAttention : public CudaOpsTesting {};

TEST_F(CudaAttention, Forward) {
  for (DType dtype : kFloats) {
    // Narrow floats are rounded at the end, weights among them on the way. Of wide ones both sides are off.
    const double units = dtype == DType::f64 || dtype == DType::f32 ? 2 * 64 : 2;
    for (int64_t d : {8, 40, 64, 128, 200}) {
      for (bool causal : {false, true}) {
        Compare(Op::k_attention,
                {Random(dtype, {2, 4, 33, d}), Random(dtype, {2, 2, 65, d}), Random(dtype, {2, 2, 65, d})},
                {causal, 0.0}, units, 2);
      }
    }
    Ref<TensorImpl> keep = Random(DType::boolean, {33, 65});
    for (int64_t i = 0; i < 65; ++i) keep->as<bool>()[i] = false;
    const Inputs in = {Random(dtype, {2, 4, 33, 64}), Strided(Random(dtype, {2, 4, 65, 64}), 1),
                       Random(dtype, {2, 4, 65, 64})};
    Compare(Op::k_attention, {in[0], in[1], in[2], keep}, {}, units, 2);
    Compare(Op::k_attention, {in[0], in[1], in[2], Random(dtype, {4, 33, 65})}, {false, 0.2}, units, 2);
    // Several tiles of queries and keys, of which the last are not whole; heads that lie between one another; more keys
    // than queries; values that are narrower than keys.
    const Inputs far = {Strided(Random(dtype, {2, 3, 200, 64}), 1), Strided(Random(dtype, {2, 3, 333, 64}), 1),
                        Random(dtype, {2, 3, 333, 24})};
    for (bool causal : {false, true}) Compare(Op::k_attention, far, {causal, 0.0}, units, 2);
    Compare(Op::k_attention, {far[0], far[1], far[2], Random(DType::boolean, {3, 200, 333})}, {true, 0.1}, units, 2);
    // The same on tensor cores: rows are runs of memory, without gaps or with other heads between them.
    for (bool causal : {false, true}) {
      const Inputs near = {Random(dtype, {2, 3, 200, 64}), Random(dtype, {2, 3, 333, 64}),
                           Random(dtype, {2, 3, 333, 24})};
      Compare(Op::k_attention, near, {causal, 0.0}, units, 2);
      Compare(Op::k_attention, {near[0], near[1], near[2], Random(DType::boolean, {3, 200, 333})}, {causal, 0.1}, units,
              2);
      Inputs between;
      for (int64_t s : {515, 600, 600})
        between.push_back(Run1(Op::k_transpose, {Random(dtype, {1, s, 2, 64}, 2)}, {ir::Ints{0, 2, 1, 3}}));
      Compare(Op::k_attention, between, {causal, 0.0}, units, 2);
    }
  }
}

// What decides between the kernels of sm_90, and what is an edge in the one that copies by pieces.
TEST_F(CudaAttention, ByPieces) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (int64_t d : {64, 128}) {
      const auto compare = [&](const Inputs& in) {
        for (bool causal : {false, true}) Compare(Op::k_attention, in, {causal, 0.0}, 2, 2);
      };
      const auto simple = [&](std::vector<int64_t> q, std::vector<int64_t> k) {
        compare({Random(dtype, q), Random(dtype, k), Random(dtype, k)});
      };
      // More parts than blocks run at a time, with heads that share keys.
      simple({5, 32, 129, d}, {5, 8, 140, d});
      // So many queries that blocks have other shapes.
      simple({1, 2, 2050, d}, {1, 1, 300, d});
      simple({1, 1, 2048, d}, {1, 1, 2048 + 95, d});
      // Whole parts that see no key, and queries that see one after a tile of which they see none.
      simple({1, 4, 700, d}, {1, 1, 77, d});
      // Such parts behind others of the same block.
      simple({2, 24, 700, d}, {2, 8, 77, d});
      for (int64_t more : {95, 127, 191, 255}) simple({1, 2, 200, d}, {1, 2, 200 + more, d});
      // One tile, exactly so; one key.
      simple({1, 2, 192, d}, {1, 2, 96, d});
      simple({1, 2, 128, d}, {1, 2, 128, d});
      simple({2, 1, 65, d}, {2, 1, 1, d});
      // Scores that grow by more than weights can, against the order of keys, and some that are no numbers.
      Inputs grows = {Random(dtype, {1, 2, 300, d}), {}, Random(dtype, {1, 2, 500, d})};
      for (bool special : {false, true}) {
        const auto last = Random(dtype, {1, 2, 20, d}, 1, special);
        grows[1] = Run1(Op::k_concat, {Random(dtype, {1, 2, 180, d}, 40), Random(dtype, {1, 2, 300, d}, 0.01), last},
                        {int64_t{2}});
        Compare(Op::k_attention, grows, {false, 0.0}, 2, 2);
      }
      // Queries, keys and values inside of one tensor, some columns of which belong to none.
      const auto packed = Random(dtype, {2, 150, 3, 4, d + 8});
      Inputs inside;
      for (int64_t i = 0; i < 3; ++i) {
        const auto part =
            Run1(Op::k_slice, {packed}, {ir::Ints{i, 8}, ir::Ints{i + 1, d + 8}, ir::Ints{}, ir::Ints{2, 4}});
        inside.push_back(Run1(Op::k_transpose, {Run1(Op::k_squeeze, {part}, {ir::Ints{2}})}, {ir::Ints{0, 2, 1, 3}}));
      }
      compare(inside);
      // Of these there are no maps: a batch that is repeated, and heads in three dims apart from each other.
      const auto repeated = Run1(Op::k_broadcast, {Random(dtype, {1, 2, 150, d})}, {ir::Ints{3, 2, 150, d}});
      compare({Random(dtype, {3, 2, 150, d}), repeated, repeated});
      const auto apart = [&](int64_t rows) {
        return Run1(Op::k_transpose, {Random(dtype, {2, rows, 3, 2, d})}, {ir::Ints{3, 0, 2, 1, 4}});
      };
      compare({apart(100), apart(150), apart(150)});
    }
  }
}

// Heads of other columns than blocks have, of more than 128, and of values that differ in that from keys.
TEST_F(CudaAttention, ByWidePieces) {
  const std::pair<int64_t, int64_t> columns[] = {{80, 80},   {96, 96},   {160, 160}, {192, 192}, {256, 256},
                                                 {192, 128}, {256, 136}, {64, 200},  {128, 184}, {8, 256}};
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [d, value_d] : columns) {
      const auto compare = [&](int64_t b, int64_t heads, int64_t kv, int64_t queries, int64_t keys) {
        const Inputs in = {Random(dtype, {b, heads, queries, d}), Random(dtype, {b, kv, keys, d}),
                           Random(dtype, {b, kv, keys, value_d})};
        for (bool causal : {false, true}) Compare(Op::k_attention, in, {causal, 0.0}, 2, 2);
      };
      // More parts than blocks run at a time, with heads that share keys.
      compare(3, 24, 8, 129, 140);
      // Parts that see no key, before and between others that do.
      compare(2, 24, 4, 300, 77);
      // Many tiles; the last one is not whole.
      compare(1, 2, 1, 515, 1111);
      // One tile of any of the sizes, exactly so, and one key more; one key.
      for (int64_t keys : {64, 80, 128}) {
        compare(1, 2, 2, 128, keys);
        compare(1, 1, 1, 65, keys + 1);
      }
      compare(2, 1, 1, 65, 1);
      // Scores that grow by more than weights can, against the order of keys.
      const auto k =
          Run1(Op::k_concat, {Random(dtype, {1, 2, 180, d}, 40), Random(dtype, {1, 2, 320, d}, 0.01)}, {int64_t{2}});
      Compare(Op::k_attention, {Random(dtype, {1, 2, 300, d}), k, Random(dtype, {1, 2, 500, value_d})}, {false, 0.0}, 2,
              2);
      // Heads side by side.
      const auto lay = [&](int64_t h, int64_t rows, int64_t cols) {
        return Run1(Op::k_transpose, {Random(dtype, {2, rows, h, cols})}, {ir::Ints{0, 2, 1, 3}});
      };
      Compare(Op::k_attention, {lay(4, 200, d), lay(2, 333, d), lay(2, 333, value_d)}, {true, 0.1}, 2, 2);
    }
  }
}

TEST_F(CudaAttention, MasksByPieces) {
  // Added numbers, of which some are -inf, and some rows are nothing else.
  const auto added = [&](DType dtype, std::vector<int64_t> dims) {
    const int64_t keys = dims.back();
    Ref<TensorImpl> wide = Make(DType::f64, std::move(dims));
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < wide->size(); ++i) {
      const double x = normal(rng_);
      const bool is_hidden = i % 5 == 2 || (wide->size() > keys && i / keys % 17 == 3);
      wide->as<double>()[i] = is_hidden ? -INFINITY : i % 11 == 1 ? -1e4 : x;
    }
    return *interp::Cast(*wide, rt::Cpu(), dtype);
  };
  // Some of each row, some rows as a whole, and some as far as `most` keys go.
  const auto kept = [&](std::vector<int64_t> dims, int64_t most) {
    const int64_t keys = dims.back();
    Ref<TensorImpl> keep = Make(DType::boolean, std::move(dims));
    for (int64_t i = 0; i < keep->size(); ++i) {
      const int64_t row = i / keys;
      keep->as<bool>()[i] = rng_() % 4 != 0 && row % 13 != 5 && (row % 3 != 0 || i % keys < most);
    }
    return keep;
  };
  const std::pair<int64_t, int64_t> columns[] = {{64, 64},   {80, 80},   {128, 128}, {128, 40},
                                                 {192, 192}, {256, 256}, {64, 160}};
  for (DType dtype : {DType::f16, DType::bf16}) {
    const DType other = dtype == DType::f16 ? DType::bf16 : DType::f16;
    for (const auto& [d, value_d] : columns) {
      const auto compare = [&](int64_t kv, int64_t queries, int64_t keys, const Ref<TensorImpl>& mask) {
        const Inputs in = {Random(dtype, {3, 2, queries, d}), Random(dtype, {3, kv, keys, d}),
                           Random(dtype, {3, kv, keys, value_d}), mask};
        for (bool causal : {false, true}) Compare(Op::k_attention, in, {causal, 0.0}, 2, 2);
      };
      // For all heads, for each, and for each of a batch; as many keys as queries, more and fewer, and one tile.
      for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{200, 200}, {129, 334}, {300, 78}}) {
        compare(1, queries, keys, kept({queries, keys}, 20));
        compare(2, queries, keys, kept({3, 2, queries, keys}, 60));
        compare(2, queries, keys, kept({2, 1, keys}, keys));
        for (DType of : {dtype, DType::f32, other}) {
          compare(1, queries, keys, added(of, {1, 1, queries, keys}));
          compare(2, queries, keys, added(of, {2, queries, keys}));
          compare(2, queries, keys, added(of, {3, 1, 1, keys}));
        }
      }
      // Keys up to a length, of one part of the batch none.
      Ref<TensorImpl> lengths = Make(DType::boolean, {3, 1, 1, 610});
      for (int64_t i = 0; i < lengths->size(); ++i)
        lengths->as<bool>()[i] = i % 610 < std::vector<int64_t>{7, 0, 444}[static_cast<size_t>(i / 610)];
      compare(1, 140, 610, lengths);
      // More parts than blocks run at a time.
      const Inputs many = {Random(dtype, {5, 16, 130, d}), Random(dtype, {5, 8, 140, d}),
                           Random(dtype, {5, 8, 140, value_d}), added(dtype, {130, 140})};
      Compare(Op::k_attention, many, {false, 0.0}, 2, 2);
      // Rows that are farther apart than they are long; elements that are not neighbours; rows of an odd length.
      const auto part = [&](const Ref<TensorImpl>& x, int64_t from, int64_t keys) {
        return Run1(Op::k_slice, {x}, {ir::Ints{from}, ir::Ints{from + keys}, ir::Ints{}, ir::Ints{1}});
      };
      compare(2, 150, 200, part(added(dtype, {150, 240}), 6, 200));
      compare(2, 150, 200, part(added(DType::f32, {150, 240}), 3, 200));
      compare(2, 150, 200, part(kept({150, 240}, 60), 10, 200));
      compare(2, 150, 199, part(kept({150, 240}, 60), 10, 199));
      compare(2, 150, 200, Strided(added(dtype, {2, 150, 200}), 1));
      compare(2, 150, 200, Strided(kept({150, 200}, 30), 1));
      compare(2, 150, 333, added(dtype, {2, 150, 333}));
      compare(2, 150, 333, kept({150, 333}, 100));
    }
  }
}

TEST_F(CudaAttention, OfFewQueries) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const auto compare = [&](int64_t heads, int64_t kv, int64_t queries, int64_t keys, int64_t d, int64_t columns) {
      const Inputs in = {Random(dtype, {2, heads, queries, d}), Random(dtype, {2, kv, keys, d}),
                         Random(dtype, {2, kv, keys, columns})};
      for (bool causal : {false, true}) Compare(Op::k_attention, in, {causal, 0.0}, 2, 2);
    };
    for (int64_t d : {8, 40, 64, 96, 128}) {
      compare(3, 3, 1, 1, d, d);      // one key
      compare(8, 2, 1, 16, d, d);     // one step, and heads that share keys
      compare(8, 2, 3, 250, d, d);    // the last step is not whole
      compare(4, 1, 8, 1000, d, 64);  // two tiles of rows, several stretches, values of other columns
      compare(4, 2, 1, 5003, d, d);
    }
    compare(40, 1, 1, 300, 128, 128);  // rows of which the last tile has few
    compare(2, 2, 8, 3, 64, 64);       // some queries see no key
    // Keys as a cache has them: room for more, heads beside each other.
    const auto cache = Random(dtype, {2, 700, 3, 128});
    const auto part = Run1(Op::k_slice, {cache}, {ir::Ints{0}, ir::Ints{601}, ir::Ints{}, ir::Ints{1}});
    const auto keys = Run1(Op::k_transpose, {part}, {ir::Ints{0, 2, 1, 3}});
    Compare(Op::k_attention, {Random(dtype, {2, 6, 1, 128}), keys, keys}, {true, 0.1}, 2, 2);
    // Scores that grow by more than weights can, and some that are no numbers.
    for (bool special : {false, true}) {
      const auto k = Run1(Op::k_concat,
                          {Random(dtype, {1, 2, 180, 64}, 40), Random(dtype, {1, 2, 600, 64}, 0.01),
                           Random(dtype, {1, 2, 20, 64}, 1, special)},
                          {int64_t{2}});
      Compare(Op::k_attention, {Random(dtype, {1, 4, 2, 64}), k, Random(dtype, {1, 2, 800, 64})}, {false, 0.0}, 2, 2);
    }
  }
}

TEST_F(CudaAttention, LooksAddressesUp) {
  for (DType dtype : {DType::f16, DType::bf16})
    for (const int64_t queries : {200, 2}) {
      const Inputs in = {Random(dtype, {2, 3, queries, 64}), Random(dtype, {2, 3, 150, 64}),
                         Random(dtype, {2, 3, 150, 64})};
      const auto want = Run1(Op::k_attention, in, {});
      for (size_t which = 0; which < 3; ++which) {
        Inputs there;
        for (const auto& x : in) there.push_back(ToCuda(x));
        Ref<rt::Storage> slot = *rt::Storage::Make(*cuda_, sizeof(uint64_t));
        const auto address = std::bit_cast<uint64_t>(there[which]->data);
        ASSERT_TRUE(cuda_->CopyFromHost(slot->data(), &address, sizeof address).ok());
        // The highest bit says that the address is that of a slot.
        there[which]->data = std::bit_cast<void*>(std::bit_cast<uint64_t>(slot->data()) | uint64_t{1} << 63);
        auto got = RunOn(*cuda_, Op::k_attention, there, {});
        ASSERT_TRUE(got.ok()) << got.status();
        auto host = interp::OnHost(*(*got)[0]);
        ASSERT_TRUE(host.ok()) << host.status();
        Same(*want, **host, 2, 2);
      }
    }
}

// So many queries that gradients are copied by pieces, too.
TEST_F(CudaAttention, GradientByPieces) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (int64_t d : {64, 128, 160, 192, 256}) {
      const int64_t queries = d == 64 ? 2048 : 768;
      const auto compare = [&](int64_t more_queries, int64_t keys, int64_t heads, int64_t columns, bool causal) {
        const int64_t s = queries + more_queries;
        // Heads side by side, as they come from one product.
        const auto lay = [&](int64_t h, int64_t rows, int64_t cols, double scale) {
          return Run1(Op::k_transpose, {Random(dtype, {1, rows, h, cols}, scale)}, {ir::Ints{0, 2, 1, 3}});
        };
        const Inputs in = {lay(heads, s, d, 1), lay(1, keys, d, 1), lay(1, keys, columns, 1),
                           lay(heads, s, columns, 0.3), lay(heads, s, columns, 1)};
        Compare(Op::k_attention_grad, in, {causal, 0.0}, 8, 4);
      };
      // Tiles and blocks that are just whole, and not; keys that no query sees; queries that see none; heads that
      // share.
      compare(0, 384, 1, d, false);
      compare(0, 384, 1, d, true);
      compare(33, 333, 2, 40, true);
      compare(1, queries + 200, 1, d, true);
      // Values of more columns than keys.
      compare(50, 130, 2, 200, true);
      compare(0, 97, 1, 256, false);
      // Scores that grow against the order of keys, so that sums are scaled anew.
      const auto k =
          Run1(Op::k_concat, {Random(dtype, {1, 1, 180, d}, 8), Random(dtype, {1, 1, 320, d}, 0.01)}, {int64_t{2}});
      const Inputs in = {Random(dtype, {1, 1, queries, d}), k, Random(dtype, {1, 1, 500, d}),
                         Random(dtype, {1, 1, queries, d}, 0.3), Random(dtype, {1, 1, queries, d})};
      Compare(Op::k_attention_grad, in, {false, 0.0}, 16, 16);
    }
  }
}

TEST_F(CudaAttention, GradientOfWideHeads) {
  const std::pair<int64_t, int64_t> columns[] = {{136, 136}, {160, 160}, {192, 192}, {256, 256},
                                                 {256, 40},  {64, 256},  {192, 128}, {200, 240}};
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (const auto& [d, value_d] : columns) {
      const auto compare = [&](int64_t heads, int64_t kv, int64_t queries, int64_t keys, bool causal,
                               const Ref<TensorImpl>& mask = {}) {
        // Heads side by side, as they come from one product.
        const auto lay = [&](int64_t h, int64_t rows, int64_t cols, double scale) {
          return Run1(Op::k_transpose, {Random(dtype, {2, rows, h, cols}, scale)}, {ir::Ints{0, 2, 1, 3}});
        };
        Inputs in = {lay(heads, queries, d, 1), lay(kv, keys, d, 1), lay(kv, keys, value_d, 1),
                     lay(heads, queries, value_d, 0.3), lay(heads, queries, value_d, 1)};
        if (mask) in.push_back(mask);
        Compare(Op::k_attention_grad, in, {causal, 0.0}, 8, 4);
      };
      for (bool causal : {false, true}) {
        compare(4, 2, 33, 65, causal);
        compare(2, 2, 128, 64, causal);
        compare(4, 1, 200, 333, causal);
        compare(2, 1, 333, 150, causal);
        Ref<TensorImpl> keep = Random(DType::boolean, {4, 97, 131});
        for (int64_t i = 0; i < 131; ++i) keep->as<bool>()[i] = false;
        compare(4, 2, 97, 131, causal, keep);
        compare(4, 4, 97, 131, causal, Random(dtype, {97, 131}));
      }
    }
  }
}

TEST_F(CudaAttention, Gradient) {
  for (DType dtype : kFloats) {
    // On tensor cores weights and their gradients are rounded on the way, and what is added up may cancel.
    const bool narrow = dtype != DType::f64 && dtype != DType::f32;
    const double units = narrow ? 8 : 256;
    const auto grads = [&](std::vector<int64_t> q, std::vector<int64_t> k, int64_t columns, std::vector<ir::Attr> attrs,
                           Ref<TensorImpl> mask = {}) {
      std::vector<int64_t> v = k, y = q;
      v.back() = y.back() = columns;
      // Rows without gaps, rows of all heads side by side (as they come from one product), and columns of a row apart.
      for (int how = 0; how < 3; ++how) {
        const auto lay = [&](const std::vector<int64_t>& dims, double scale) {
          if (how != 1) return Strided(Random(dtype, dims, scale), how / 2);
          const auto x = Random(dtype, {dims[0], dims[2], dims[1], dims[3]}, scale);
          return Run1(Op::k_transpose, {x}, {ir::Ints{0, 2, 1, 3}});
        };
        Inputs in = {lay(q, 1), lay(k, 1), lay(v, 1), lay(y, 0.3), lay(y, 1)};
        if (mask) in.push_back(mask);
        Compare(Op::k_attention_grad, in, attrs, units, 4);
      }
    };
    for (int64_t d : {8, 40, 64, 128, 200})
      for (bool causal : {false, true}) grads({2, 4, 33, d}, {2, 2, 65, d}, d, {causal, 0.0});
    Ref<TensorImpl> keep = Random(DType::boolean, {33, 65});
    for (int64_t i = 0; i < 65; ++i) keep->as<bool>()[i] = false;
    grads({2, 4, 33, 64}, {2, 4, 65, 64}, 64, {}, keep);
    grads({2, 4, 33, 128}, {2, 4, 65, 128}, 128, {false, 0.2}, Random(dtype, {4, 33, 65}));
    // Several blocks of queries and keys, of which the last are not whole; more keys than queries and fewer; values
    // that are narrower than keys.
    for (bool causal : {false, true}) {
      grads({2, 3, 200, 64}, {2, 3, 333, 64}, 24, {causal, 0.0});
      grads({1, 4, 333, 128}, {1, 2, 150, 128}, 128, {causal, 0.0});
    }
    grads({2, 3, 200, 64}, {2, 3, 333, 64}, 64, {true, 0.1}, Random(DType::boolean, {3, 200, 333}));
    grads({1, 2, 515, 64}, {1, 1, 515, 64}, 64, {true, 0.0});
  }
}

// Windows: of one key, within a tile, of whole tiles and not, over several parts, and just not of all keys.
TEST_F(CudaAttention, Window) {
  for (DType dtype : kFloats) {
    const double units = dtype == DType::f64 || dtype == DType::f32 ? 2 * 64 : 2;
    const bool by_pieces = dtype == DType::f16 || dtype == DType::bf16;
    for (int64_t d : {40, 64, 128, 192, 256}) {
      const auto compare = [&](int64_t b, int64_t heads, int64_t kv, int64_t queries, int64_t keys, int64_t window) {
        const Inputs in = {Random(dtype, {b, heads, queries, d}), Random(dtype, {b, kv, keys, d}),
                           Random(dtype, {b, kv, keys, d})};
        Compare(Op::k_attention, in, {true, 0.0, window}, units, 2);
      };
      for (int64_t window : {1, 17, 64, 100, 128, 200, 332, 1000}) {
        compare(1, 2, 1, 200, 333, window);
        compare(1, 2, 2, 333, 150, window);
      }
      // Few queries, of which the first may see no key.
      for (int64_t window : {1, 30, 700}) {
        compare(2, 4, 2, 1, 901, window);
        compare(2, 4, 1, 7, 901, window);
        compare(1, 2, 2, 8, 5, window);
      }
      if (!by_pieces) continue;
      // More parts than blocks run at a time, and among them some that see no key.
      compare(3, 24, 8, 300, 310, 70);
      compare(2, 24, 8, 700, 177, 33);
      // Many tiles, of which each part sees few.
      for (int64_t window : {1, 100, 513}) compare(1, 2, 1, 2050, 2200, window);
      // Of these there are no maps.
      const auto repeated = Run1(Op::k_broadcast, {Random(dtype, {1, 2, 450, d})}, {ir::Ints{3, 2, 450, d}});
      for (int64_t window : {20, 150})
        Compare(Op::k_attention, {Random(dtype, {3, 2, 400, d}), repeated, repeated}, {true, 0.0, window}, units, 2);
      // Scores that grow by more than weights can, against the order of keys, within a window and beyond it.
      const auto k =
          Run1(Op::k_concat, {Random(dtype, {1, 2, 180, d}, 40), Random(dtype, {1, 2, 320, d}, 0.01)}, {int64_t{2}});
      for (int64_t window : {90, 250})
        Compare(Op::k_attention, {Random(dtype, {1, 2, 300, d}), k, Random(dtype, {1, 2, 500, d})}, {true, 0.0, window},
                2, 2);
    }
  }
}

TEST_F(CudaAttention, WindowWithMask) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (int64_t d : {64, 128, 192, 256}) {
      for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{{300, 300}, {129, 434}, {300, 78}}) {
        for (int64_t window : {1, 50, 130, 290}) {
          const auto compare = [&](const Ref<TensorImpl>& mask) {
            const Inputs in = {Random(dtype, {2, 2, queries, d}), Random(dtype, {2, 1, keys, d}),
                               Random(dtype, {2, 1, keys, d}), mask};
            Compare(Op::k_attention, in, {true, 0.0, window}, dtype == DType::f32 ? 2 * 64 : 2, 2);
          };
          // Rows and stretches of keys that the mask hides as a whole: a window may leave nothing else.
          Ref<TensorImpl> keep = Random(DType::boolean, {2, queries, keys});
          for (int64_t i = 0; i < keep->size(); ++i)
            if (i / keys % 13 == 5 || i % keys / 100 == 1) keep->as<bool>()[i] = false;
          compare(keep);
          compare(Random(dtype, {queries, keys}));
          compare(Random(DType::f32, {2, 1, 1, keys}));
        }
      }
    }
  }
}

TEST_F(CudaAttention, GradientUnderAWindow) {
  for (DType dtype : kFloats) {
    const bool narrow = dtype != DType::f64 && dtype != DType::f32;
    const bool by_pieces = dtype == DType::f16 || dtype == DType::bf16;
    for (int64_t d : {40, 64, 128, 192, 256}) {
      const auto compare = [&](int64_t heads, int64_t kv, int64_t queries, int64_t keys, int64_t window,
                               const Ref<TensorImpl>& mask = {}) {
        Inputs in = {Random(dtype, {1, heads, queries, d}), Random(dtype, {1, kv, keys, d}),
                     Random(dtype, {1, kv, keys, d}), Random(dtype, {1, heads, queries, d}, 0.3),
                     Random(dtype, {1, heads, queries, d})};
        if (mask) in.push_back(mask);
        Compare(Op::k_attention_grad, in, {true, 0.0, window}, narrow ? 8 : 256, 4);
      };
      for (int64_t window : {1, 17, 64, 100, 149, 1000}) {
        compare(2, 1, 200, 333, window);
        compare(2, 2, 333, 150, window);
      }
      for (int64_t window : {1, 60}) {
        compare(2, 1, 150, 233, window, Random(DType::boolean, {2, 150, 233}));
        compare(2, 1, 150, 233, window, Random(dtype, {150, 233}));
      }
      if (!by_pieces) continue;
      // So many queries that gradients are copied by pieces; keys that no query sees, and queries that see none.
      const int64_t queries = d <= 64 ? 2048 : 768;
      for (int64_t window : {1, 50, 128, 400}) {
        compare(2, 1, queries, queries, window);
        compare(1, 1, queries + 33, queries + 250, window);
        compare(2, 2, queries + 50, 500, window);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
