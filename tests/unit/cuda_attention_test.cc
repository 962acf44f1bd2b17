// Attention and its gradient on a CUDA device against the cpu: what decides between the kernels, and their edges.
#include <bit>

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
    for (int64_t d : {64, 128}) {
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
      // Scores that grow against the order of keys, so that sums are scaled anew.
      const auto k =
          Run1(Op::k_concat, {Random(dtype, {1, 1, 180, d}, 8), Random(dtype, {1, 1, 320, d}, 0.01)}, {int64_t{2}});
      const Inputs in = {Random(dtype, {1, 1, queries, d}), k, Random(dtype, {1, 1, 500, d}),
                         Random(dtype, {1, 1, queries, d}, 0.3), Random(dtype, {1, 1, queries, d})};
      Compare(Op::k_attention_grad, in, {false, 0.0}, 16, 16);
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

}  // namespace
}  // namespace tessera
