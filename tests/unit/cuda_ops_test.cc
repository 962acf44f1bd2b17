// Every op on a CUDA device but attention against the same op on the cpu. Element-wise ops are one source, so they must
// give the same bits.
#include <cmath>

#include "cuda_ops_testing.h"

namespace tessera {
namespace {

using ir::Op;
using rt::Ref;
using rt::TensorImpl;

class CudaOps : public CudaOpsTesting {};

TEST_F(CudaOps, Elementwise) {
  for (const ir::OpInfo& op : ir::AllOps()) {
    // gelu_tanh_grad errs by units of the gradient: GradientOfGelu.
    if (op.impl != ir::Impl::ew || op.op == Op::k_gelu_tanh_grad) continue;
    const size_t n = op.operands.size();
    for (DType dtype : kAll) {
      if (!ir::Allows(op.dtypes, dtype)) continue;
      // gelu has another formula on a GPU: within 4 units of the true value there, and 3 here.
      const double units = op.op == Op::k_gelu && dtype != DType::f64 ? 7 : 0;
      for (int how = 0; how < 4; ++how) {
        Inputs in;
        for (size_t k = 0; k < n; ++k) {
          const bool condition = op.operands[k].role == ir::Role::boolean;
          // As it lies, transposed, flipped, and the second operand one row of the first.
          const std::vector<int64_t> dims =
              how == 3 && k == 1 ? std::vector<int64_t>{37} : std::vector<int64_t>{29, 37};
          in.push_back(Strided(Random(condition ? DType::boolean : dtype, dims, 3, true), how % 3));
        }
        Compare(op.op, in, {}, units);
      }
      Inputs one, none;
      for (size_t k = 0; k < n; ++k) {
        const DType t = op.operands[k].role == ir::Role::boolean ? DType::boolean : dtype;
        one.push_back(Random(t, {}));
        none.push_back(Random(t, {0, 3}));
      }
      Compare(op.op, one, {}, units);
      Compare(op.op, none, {});
    }
  }
  EXPECT_GT(compared_, 2000);
}

TEST_F(CudaOps, Broadcasts) {
  // Rows and columns of another operand, in packs and where dims, strides or addresses allow none.
  const auto part = [&](DType dtype, int64_t first) {  // [30, 64] of [30, 128], from a column on
    return Run1(Op::k_slice, {Random(dtype, {30, 128})}, {ir::Ints{0, first}, ir::Ints{30, first + 64}});
  };
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i32, DType::f8e5m2}) {
    for (Op op : {Op::k_add, Op::k_sub, Op::k_mul, Op::k_maximum, Op::k_lt}) {
      Compare(op, {Random(dtype, {30, 64}, 1, true), Random(dtype, {64})}, {});
      Compare(op, {Random(dtype, {64}), Random(dtype, {30, 64})}, {});
      Compare(op, {Random(dtype, {30, 64}), Random(dtype, {30, 1})}, {});
      Compare(op, {Random(dtype, {30, 1}), Random(dtype, {1, 64})}, {});
      Compare(op, {Random(dtype, {3, 1, 5, 64}), Random(dtype, {7, 1, 64})}, {});
      Compare(op, {Random(dtype, {30, 61}), Random(dtype, {61})}, {});
      Compare(op, {Random(dtype, {30, 4}), Random(dtype, {4})}, {});
      for (int64_t first : {0, 8, 3, 4, 16}) Compare(op, {part(dtype, first), Random(dtype, {30, 64})}, {});
      Compare(op, {Strided(Random(dtype, {32, 64}), 1), Random(dtype, {64})}, {});
      Compare(op, {Random(dtype, {64}), Random(dtype, {})}, {});
    }
    Compare(Op::k_clamp, {Random(dtype, {30, 64}, 3), Random(dtype, {64}), Random(dtype, {30, 1})}, {});
    Compare(Op::k_add, {Random(dtype, {3000, 768}), Random(dtype, {768})}, {});
  }
}

TEST_F(CudaOps, MixedDTypes) {
  for (DType a : kAll)
    for (DType b : kAll) {
      if (a == DType::boolean && b == DType::boolean) continue;
      for (Op op : {Op::k_add, Op::k_lt, Op::k_maximum}) Compare(op, {Random(a, {5, 17}), Random(b, {17})}, {});
    }
}

TEST_F(CudaOps, CastAndCopy) {
  for (DType from : kAll)
    for (DType to : kAll)
      for (int how = 0; how < 3; ++how) {
        Compare(Op::k_cast, {Strided(Random(from, {7, 33, 19}, 50, true), how)}, {to});
        Compare(Op::k_cast, {Strided(Random(from, {7, 32, 20}, 50, true), how)}, {to});  // in packs
      }
  for (DType t : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
    Compare(Op::k_copy, {Strided(Random(t, {70, 133}), 1)}, {});
    Compare(Op::k_copy, {Strided(Random(t, {3, 200, 65}), 1)}, {});
    Compare(Op::k_copy, {Strided(Random(t, {1000}), 2)}, {});
  }
}

TEST_F(CudaOps, Reductions) {
  const std::vector<std::vector<int64_t>> shapes = {{},        {1},         {5},        {1000},     {7, 1300},
                                                    {1300, 7}, {3, 40, 50}, {64, 4096}, {700, 260}, {2, 100000},
                                                    {300000},  {0, 4},      {4, 0}};
  for (DType dtype : kAll) {
    for (Op op :
         {Op::k_sum, Op::k_prod, Op::k_mean, Op::k_var, Op::k_max, Op::k_min, Op::k_any, Op::k_all, Op::k_logsumexp}) {
      for (const auto& dims : shapes) {
        int64_t count = 1;
        for (int64_t d : dims) count *= d;
        if (op == Op::k_prod && count > 2000) continue;
        for (int axes = 0; axes < 3; ++axes) {
          ir::Ints list;
          if (axes == 1) {
            if (dims.empty()) continue;
            list.push_back(-1);
          }
          if (axes == 2) {
            if (dims.size() < 2) continue;
            list.push_back(0);
          }
          for (int how = 0; how < 2; ++how) {
            const double size = static_cast<double>(std::max<int64_t>(count, 1));
            // Narrow results are rounded once; sums of f32 and f64 err by some units of the sum of absolutes.
            const bool exact = op == Op::k_max || op == Op::k_min || op == Op::k_any || op == Op::k_all;
            const double scale = op == Op::k_sum ? size : op == Op::k_prod ? 1 : 4;
            Compare(op, {Strided(Random(dtype, dims), how)}, {list}, exact ? 0 : op == Op::k_prod ? 64 : 8, scale);
          }
        }
      }
    }
    for (Op op : {Op::k_argmax, Op::k_argmin})
      for (const auto& dims : shapes) {
        if (dims.empty() || dims[0] == 0 || dims.back() == 0) continue;
        Compare(op, {Random(dtype, dims, 1, true)}, {int64_t{-1}});
        Compare(op, {Strided(Random(dtype, dims), 1)}, {int64_t{0}, true});
      }
    for (const auto& dims : shapes) {
      if (dims.empty()) continue;
      for (int flags = 0; flags < 4; ++flags) {
        Compare(Op::k_cumsum, {Strided(Random(dtype, dims), flags % 2)}, {int64_t{-1}, flags % 2 == 1, flags >= 2}, 16,
                300);
        Compare(Op::k_cumsum, {Random(dtype, dims)}, {int64_t{0}, flags % 2 == 1, flags >= 2}, 16, 300);
      }
    }
  }
}

TEST_F(CudaOps, SumsOfColumns) {
  // Widths that packs meet and do not, one chunk and many, several reduced dims, and rows that are part of longer ones.
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::i32, DType::u8}) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{33, 8},
                                             {64, 16},
                                             {257, 24},
                                             {1000, 768},
                                             {1000, 772},
                                             {1001, 770},
                                             {4099, 520},
                                             {70001, 16},
                                             {3, 700, 264},
                                             {40, 3, 64, 8}}) {
      ir::Ints axes;
      int64_t rows = 1;
      for (size_t d = 0; d + 1 < dims.size(); ++d) {
        axes.push_back(static_cast<int64_t>(d));
        rows *= dims[d];
      }
      const double scale = dtype == DType::f32 ? static_cast<double>(rows) : 1;
      const auto x = Random(dtype, dims);
      Compare(Op::k_sum, {x}, {axes}, 1, scale);
      Compare(Op::k_mean, {x}, {axes}, 1, 1);
      Compare(Op::k_max, {x}, {axes});
      Compare(Op::k_min, {x}, {axes});
      ir::Ints first(dims.size(), 0), stop(dims.begin(), dims.end());
      stop.back() = dims.back() / 2;
      Compare(Op::k_sum, {Run1(Op::k_slice, {x}, {first, stop})}, {axes}, 1, scale);
      if (dims.size() == 4) Compare(Op::k_sum, {x}, {ir::Ints{0, 2}}, 1, scale);
    }
  }
}

TEST_F(CudaOps, RowsOfNeuralNetworks) {
  for (DType dtype : kFloats) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1},
                                             {7},
                                             {5, 33},
                                             {64, 1024},
                                             {3, 5, 1000},
                                             {2, 20000},
                                             {2, 70001},
                                             {4, 300, 5},
                                             {0, 7}}) {
      const int64_t n = dims.back();
      for (int how = 0; how < 2; ++how) {
        for (int64_t axis : {int64_t{-1}, int64_t{0}}) {
          Compare(Op::k_softmax, {Strided(Random(dtype, dims, 2), how)}, {axis}, 8, 1);
          Compare(Op::k_log_softmax, {Strided(Random(dtype, dims, 2), how)}, {axis}, 8, 10);
        }
        const auto x = Strided(Random(dtype, dims, 2), how);
        Compare(Op::k_layer_norm, {x, Random(dtype, {n}), Random(dtype, {n})}, {}, 16, 4);
        Compare(Op::k_layer_norm, {x}, {}, 16, 4);
        Compare(Op::k_rms_norm, {x, Random(dtype, {n})}, {}, 16, 4);
      }
      if (dims.size() >= 2) {
        const int64_t c = dims[1];
        Ref<TensorImpl> var = Run1(Op::k_square, {Random(dtype, {c})}, {});
        Compare(Op::k_batch_norm,
                {Random(dtype, dims), Random(dtype, {c}), var, Random(dtype, {c}), Random(dtype, {c})}, {}, 32, 400);
        Ref<TensorImpl> targets = Make(DType::i64, std::vector<int64_t>(dims.begin(), dims.end() - 1));
        for (int64_t i = 0; i < targets->size(); ++i) targets->as<int64_t>()[i] = i % 5 == 0 ? -100 : i % n;
        Compare(Op::k_cross_entropy, {Random(dtype, dims, 2), targets}, {}, 8, 10);
        Compare(Op::k_cross_entropy_grad,
                {Random(dtype, dims, 2), targets, Random(dtype, {dims.begin(), dims.end() - 1})}, {}, 16, 1);
      }
    }
    Compare(Op::k_layer_norm, {Random(dtype, {3, 4, 50}), Random(dtype, {4, 50})}, {int64_t{2}}, 16, 4);
    for (bool interleaved : {false, true})
      Compare(Op::k_rotary, {Strided(Random(dtype, {2, 3, 17, 64}), 1), Ids({17}, 1000)}, {10000.0, interleaved}, 8,
              dtype == DType::f64 ? 1000 : 2);  // angles are up to 1000
  }
}

TEST_F(CudaOps, CrossEntropyOfManyClasses) {
  // Rows of a warp, of a block and of clusters, that fit in shared memory and do not, that begin at 16 bytes and do
  // not, with ends that no access meets; peaks and rows of special values. Every probability is compared relative to
  // itself.
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const double small = dtype == DType::f16 ? 0x1p-14 : 1e-30, units = dtype == DType::f32 ? 256 : 2;
    for (int64_t n : {256, 520, 1024, 2047, 2048, 2056, 5000, 8192, 16384, 16392, 50257, 50304, 60000, 65536, 100000,
                      131071, 131072, 300000}) {
      Ref<TensorImpl> targets = Make(DType::i64, {3, 4});
      for (int64_t i = 0; i < 12; ++i) targets->as<int64_t>()[i] = i == 5 ? -100 : i * 997 % n;
      targets->as<int64_t>()[0] = n - 1;
      const auto x = Random(dtype, {3, 4, n}, 3), g = Random(dtype, {3, 4});
      Compare(Op::k_cross_entropy, {x, targets}, {}, units, 1);
      Compare(Op::k_cross_entropy_grad, {x, targets, g}, {}, units, small);
      const auto part = Run1(Op::k_slice, {Random(dtype, {3, 4, n + 8}, 3)}, {ir::Ints{0, 0, 0}, ir::Ints{3, 4, n}});
      Compare(Op::k_cross_entropy, {part, targets}, {}, units, 1);
      Compare(Op::k_cross_entropy_grad, {part, targets, g}, {}, units, small);
      // -inf alone first, one finite number among them, +inf, NaN.
      Ref<TensorImpl> odd = Make(DType::f64, {4, n});
      for (int64_t i = 0; i < 4 * n; ++i) odd->as<double>()[i] = i / n < 2 ? -INFINITY : 1;
      odd->as<double>()[n + n / 2] = 3;
      odd->as<double>()[2 * n + 7] = INFINITY;
      odd->as<double>()[3 * n + 7] = NAN;
      Ref<TensorImpl> middle = Make(DType::i64, {4});
      for (int64_t i = 0; i < 4; ++i) middle->as<int64_t>()[i] = n / 2;
      const auto specials = *interp::Cast(*odd, rt::Cpu(), dtype);
      Compare(Op::k_cross_entropy, {specials, middle}, {}, units, 1);
      Compare(Op::k_cross_entropy_grad, {specials, middle, Random(dtype, {4})}, {}, units, small);
    }
  }
}

TEST_F(CudaOps, CrossEntropyOfManyRows) {
  // A warp for each row or a part of one, which has a row that does not count beside others, and more rows than a
  // device has threads for at a time.
  for (DType dtype : {DType::bf16, DType::f32}) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{4101, 1000},
                                  {4101, 1536},
                                  {4101, 4096},
                                  {17003, 512},
                                  {17003, 1000},
                                  {17003, 1024}}) {
      Ref<TensorImpl> targets = Make(DType::i64, {rows});
      for (int64_t i = 0; i < rows; ++i) targets->as<int64_t>()[i] = i % 7 == 3 ? -100 : i * 31 % n;
      const auto x = Random(dtype, {rows, n}, 3);
      const double units = dtype == DType::f32 ? 256 : 2;
      Compare(Op::k_cross_entropy, {x, targets}, {}, units, 1);
      Compare(Op::k_cross_entropy_grad, {x, targets, Random(dtype, {rows})}, {}, units, 1e-30);
    }
  }
}

TEST_F(CudaOps, GradientOfGelu) {
  for (DType dtype : kAll) {
    // Integers are computed with in f32, and are larger.
    const double units = IsNarrowFloat(dtype) ? 2 : 16;
    const double scale = IsNarrowFloat(dtype) ? 0.02 : IsFloat(dtype) ? 1 : 128;
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {7}, {33, 65}, {3, 64, 40}, {1000, 768}, {0, 3}})
      for (int how = 0; how < 3; ++how)
        Compare(Op::k_gelu_tanh_grad, {Strided(Random(dtype, dims, 3), how), Strided(Random(dtype, dims), how)}, {},
                units, scale);
    Compare(Op::k_gelu_tanh_grad, {Random(dtype, {5, 40}, 3, true), Random(dtype, {5, 40})}, {}, units, scale);
    Compare(Op::k_gelu_tanh_grad, {Random(dtype, {5, 40}, 3), Random(dtype, {40})}, {}, units, scale);
  }
}

TEST_F(CudaOps, NormGradients) {
  // Rows of a warp, of several, and too long for registers; ends that packs do not meet; more rows than groups at once.
  const auto grads = [&](DType dtype, const std::vector<int64_t>& dims, int64_t last, int how, double rows) {
    const std::vector<int64_t> tail(dims.end() - last, dims.end());
    const auto x = Strided(Random(dtype, dims, 2), how), g = Strided(Random(dtype, dims), how == 0 ? 0 : 2);
    // Both round narrow results once; sums over rows may cancel.
    const bool narrow = IsNarrowFloat(dtype);
    const double units = narrow ? 2 : 64, scale = (narrow ? 0.05 : 4) * std::sqrt(rows);
    Compare(Op::k_layer_norm_grad, {x, g, Random(dtype, tail)}, {last, 1e-5}, units, scale);
    Compare(Op::k_layer_norm_grad, {x, g}, {last, 1e-3}, units, scale);
    Compare(Op::k_rms_norm_grad, {x, g, Random(dtype, tail)}, {last, 1e-6}, units, scale);
  };
  for (DType dtype : kFloats) {
    for (int how = 0; how < 2; ++how) {
      for (int64_t n : {1, 7, 33, 256, 257, 500, 512, 760, 768, 769, 1000, 1024, 3000, 4096})
        grads(dtype, {3, 5, n}, 1, how, 15);
      grads(dtype, {9, 4, 50}, 2, how, 9);
    }
    grads(dtype, {2, 8192}, 1, 0, 2);
    grads(dtype, {3, 8193}, 1, 0, 3);
    grads(dtype, {0, 7}, 1, 0, 1);
    grads(dtype, {7}, 1, 0, 1);
  }
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (int64_t n : {72, 100, 300, 768, 1536}) grads(dtype, {5003, n}, 1, 0, 5003);
    grads(dtype, {200001, 8}, 1, 0, 200001);
  }
}

TEST_F(CudaOps, Products) {
  for (DType dtype : kAll) {
    if (dtype == DType::boolean) continue;
    for (int how = 0; how < 4; ++how) {
      for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 1, 1},
                                    {5, 7, 3},
                                    {33, 64, 17},
                                    {64, 128, 96},
                                    {130, 257, 65},
                                    {16, 0, 8},
                                    {0, 3, 4}}) {
        const auto a = how % 2 ? Random(dtype, {k, m}) : Random(dtype, {m, k});
        const auto b = how / 2 ? Random(dtype, {n, k}) : Random(dtype, {k, n});
        Compare(Op::k_matmul, {a, b}, {how % 2 == 1, how / 2 == 1}, 8 + static_cast<double>(k) / 2, std::sqrt(k + 1.0));
      }
    }
    Compare(Op::k_matmul, {Random(dtype, {2, 3, 9, 16}), Random(dtype, {3, 16, 5})}, {}, 16, 4);
    Compare(Op::k_matmul, {Random(dtype, {2, 1, 9, 16}), Random(dtype, {3, 16, 5})}, {}, 16, 4);
    Compare(Op::k_matmul, {Strided(Random(dtype, {4, 9, 16}), 2), Strided(Random(dtype, {4, 16, 5}), 2)}, {}, 16, 4);
    // Of f8, whose own products need multiples of 16 and may overflow.
    Compare(Op::k_matmul, {Random(dtype, {32, 64}), Random(dtype, {48, 64})}, {false, true}, 16, 8);
    Compare(Op::k_matmul, {Random(dtype, {3, 32, 64}), Random(dtype, {3, 64, 16})}, {}, 16, 8);
    if (IsNarrowFloat(dtype) && SizeOf(dtype) == 1) {
      Compare(Op::k_matmul, {Random(dtype, {32, 64}, 100), Random(dtype, {48, 64}, 100)}, {false, true}, 2, 1000);
      Compare(Op::k_matmul, {Random(dtype, {16, 32}, 1, true), Random(dtype, {16, 32})}, {false, true}, 16, 8);
    }
    Compare(Op::k_matmul, {Random(dtype, {16}), Random(dtype, {16, 5})}, {}, 16, 4);
    Compare(Op::k_matmul, {Random(dtype, {4, 9, 16}), Random(dtype, {16})}, {}, 16, 4);
    Compare(Op::k_dot_general, {Random(dtype, {3, 4, 5, 6}), Random(dtype, {6, 3, 4, 7})},
            {ir::Ints{3, 1}, ir::Ints{0, 2}, ir::Ints{0}, ir::Ints{1}}, 32, 6);
  }
}

TEST_F(CudaOps, ConvAndPools) {
  for (DType dtype : kFloats) {
    const auto w = [&](std::vector<int64_t> dims) { return Random(dtype, std::move(dims), 0.3); };
    Compare(Op::k_conv, {Random(dtype, {2, 4, 30}), w({6, 4, 5}), w({6})}, {}, 64, 2);
    Compare(Op::k_conv, {Random(dtype, {2, 6, 17, 19}), w({8, 3, 3, 3}), w({8})},
            {ir::Ints{2, 1}, ir::Ints{1, 1}, ir::Ints{1, 2}, int64_t{2}}, 64, 2);
    Compare(Op::k_conv, {Strided(Random(dtype, {1, 3, 8, 9, 10}), 1), w({5, 3, 2, 3, 2})}, {}, 64, 2);
    Compare(Op::k_conv, {Random(dtype, {3, 64, 28, 28}), w({96, 64, 3, 3})}, {ir::Ints{}, ir::Ints{1, 1}}, 300, 8);
    for (Op op : {Op::k_max_pool, Op::k_avg_pool}) {
      Compare(op, {Random(dtype, {2, 3, 17, 19})}, {ir::Ints{3, 2}, ir::Ints{2, 2}, ir::Ints{1, 1}},
              op == Op::k_max_pool ? 0 : 4, 1);
      Compare(op, {Strided(Random(dtype, {2, 3, 40}), 2)}, {ir::Ints{4}}, op == Op::k_max_pool ? 0 : 4, 1);
    }
  }
}

TEST_F(CudaOps, Indexing) {
  for (DType dtype : kAll) {
    // Several units of 16 bytes for each thread, and some that do not begin at a multiple of them.
    const auto shifted = Run1(Op::k_slice, {Random(dtype, {100001})}, {ir::Ints{1}, ir::Ints{100001}});
    Compare(Op::k_concat, {Random(dtype, {40000}), shifted, Random(dtype, {64})}, {int64_t{0}});
    // Rows that a warp copies 2 KiB at a time, an index outside among them.
    Compare(Op::k_take, {Random(dtype, {9, 4096}), Ids({2, 7}, 9)}, {int64_t{0}});
    Compare(Op::k_take, {Random(dtype, {3, 9, 2048}), Ids({5}, 9)}, {int64_t{1}});
    for (int how = 0; how < 2; ++how) {
      const auto x = Strided(Random(dtype, {11, 13, 17}), how);
      for (int64_t axis : {0, 1, 2}) {
        Compare(Op::k_take, {x, Ids({4, 5}, x->dims[axis])}, {axis});
        std::vector<int64_t> dims(x->dims, x->dims + 3);
        dims[static_cast<size_t>(axis)] = 6;
        const auto ids = Ids(dims, x->dims[axis]);
        Compare(Op::k_take_along_axis, {x, ids}, {axis});
        for (const char* mode : {"set", "add", "max", "min"}) {
          if (dtype == DType::boolean && std::strcmp(mode, "add") == 0) continue;
          Compare(Op::k_put_along_axis, {x, ids, Random(dtype, dims)}, {axis, std::string(mode)});
        }
      }
      Ref<TensorImpl> pairs = Ids({40, 2}, 11);
      Compare(Op::k_gather, {x, pairs}, {});
      for (const char* mode : {"set", "add", "max", "min"}) {
        if (dtype == DType::boolean && std::strcmp(mode, "add") == 0) continue;
        Compare(Op::k_scatter, {x, pairs, Random(dtype, {40, 17})}, {std::string(mode)});
        Compare(Op::k_scatter, {Random(dtype, {5}), Ids({3000, 1}, 5), Random(dtype, {3000})}, {std::string(mode)});
      }
      Compare(Op::k_embedding, {Strided(Random(dtype, {50, 64}), how), Ids({3, 7}, 50)}, {});
      Compare(Op::k_update_slice, {x, Random(dtype, {3, 2, 17})}, {ir::Ints{1, 4, 0}, ir::Ints{2, 3, 1}});
      Compare(Op::k_concat, {x, Random(dtype, {11, 2, 17}), Strided(Random(dtype, {11, 5, 17}), 1)}, {int64_t{1}});
      Compare(Op::k_stack, {x, x}, {int64_t{-1}});
      // Heads of attention: rows of 16 bytes and more that are not in order, beside others that are.
      const auto heads = [&](int64_t n, int64_t row) {
        return Run1(Op::k_transpose, {Random(dtype, {2, n, 5, row})}, {ir::Ints{0, 2, 1, 3}});
      };
      for (const int64_t row : {16, 24, 6})
        for (const int64_t axis : {1, 2, 3})
          Compare(Op::k_concat, {heads(3, row), Random(dtype, {2, 5, 3, row}), heads(3, row)}, {axis});
      Compare(Op::k_pad, {x}, {ir::Ints{1, -2, 0}, ir::Ints{0, 3, 2}, 1.0});
      Compare(Op::k_tril, {x}, {int64_t{1}});
      Compare(Op::k_triu, {x}, {int64_t{-2}});
    }
  }
  Compare(Op::k_one_hot, {Ids({5, 6}, 9)}, {int64_t{7}, DType::bf16});
}

TEST_F(CudaOps, CopiesOfTransposedMatrices) {
  for (DType dtype : kAll)
    // Whole tiles, parts of them, and sides that words of several elements do not divide.
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{64, 128}, {130, 68}, {72, 66}, {33, 70}, {70, 33}, {8, 8}, {3, 132, 260}, {2, 31, 65}})
      for (const int64_t from : {0, 1}) {
        // From the second element on: rows begin beside a word.
        const auto x = Random(dtype, dims, 2);
        ir::Ints start(dims.size(), 0), stop(dims.begin(), dims.end()), step(dims.size(), 1);
        start.back() = from;
        const auto part = Run1(Op::k_slice, {x}, {start, stop, step});
        ir::Ints perm;
        for (size_t i = 0; i < dims.size(); ++i) perm.push_back(static_cast<int64_t>(i));
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        Compare(Op::k_copy, {Run1(Op::k_transpose, {part}, {perm})}, {});
      }
}

TEST_F(CudaOps, SortAndTopk) {
  for (DType dtype : kAll) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{1},
                                             {37},
                                             {9, 100},
                                             {100, 9},
                                             {3, 257},
                                             {2, 1024},
                                             {1025, 3},
                                             {3, 2049},
                                             {2, 4096},
                                             {4097},
                                             {3, 5000},
                                             {8192},
                                             {8193},
                                             {70000},
                                             {0, 5}}) {
      for (bool flag : {false, true}) {
        for (int64_t axis : {int64_t{0}, int64_t{-1}}) {
          const auto x = Random(dtype, dims, 1, true);
          Compare(Op::k_sort, {x}, {axis, flag});
          const int64_t along = axis == 0 ? dims[0] : dims.back();
          Compare(Op::k_topk, {Strided(x, 2)}, {std::min<int64_t>(along, 7), axis, flag});
        }
      }
    }
  }
}

TEST_F(CudaOps, MadeTensors) {
  const auto number = [&](int64_t v) {
    Ref<TensorImpl> x = Make(DType::i64, {});
    *x->as<int64_t>() = v;
    return x;
  };
  for (DType t : kAll) {
    Compare(Op::k_full, {Random(DType::f32, {})}, {ir::Ints{3, 50}, t});
    if (t != DType::boolean) Compare(Op::k_iota, {number(-3), number(2)}, {ir::Ints{4, 70}, int64_t{1}, t});
    if (IsFloat(t)) {
      Compare(Op::k_random_uniform, {number(77), number(1000)}, {ir::Ints{33, 301}, -2.0, 3.0, t});
      Compare(Op::k_random_normal, {number(77), number(7)}, {ir::Ints{33, 301}, 1.0, 2.0, t});
    } else if (t != DType::boolean) {
      Compare(Op::k_random_int, {number(5), number(0)}, {ir::Ints{33, 301}, int64_t{3}, int64_t{100}, t});
    }
  }
  for (DType t : {DType::f32, DType::bf16})
    for (const char* format : {"f4e2m1", "f6e2m3", "f6e3m2"}) {
      const auto x = Random(t, {6, 96}, 4, true);
      Compare(Op::k_quantize, {x}, {std::string(format)});
      auto q = RunOn(rt::Cpu(), Op::k_quantize, {x}, {std::string(format)});
      if (q.ok()) Compare(Op::k_dequantize, {(*q)[0], (*q)[1]}, {std::string(format), int64_t{32}, t});
    }
}

TEST_F(CudaOps, AnIndexOutOfRangeIsAnErrorOfTheNextRead) {
  Ref<TensorImpl> ids = Make(DType::i64, {3});
  ids->as<int64_t>()[0] = 1, ids->as<int64_t>()[1] = 9, ids->as<int64_t>()[2] = 0;
  const auto x = ToCuda(Random(DType::f32, {5, 4}));
  auto y = RunOn(*cuda_, Op::k_take, {x, ToCuda(ids)}, {int64_t{0}});
  ASSERT_TRUE(y.ok()) << y.status();
  const auto read = interp::OnHost(*(*y)[0]);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(read.status().message().find("take"), std::string::npos) << read.status();
  EXPECT_NE(read.status().message().find("9"), std::string::npos) << read.status();
  // Said once; the device goes on.
  EXPECT_TRUE(interp::OnHost(*x).ok());
}

}  // namespace
}  // namespace tessera
