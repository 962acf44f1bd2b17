/* The C API from C: tensors, ops, functions, buffers, options, statistics and errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/c_api.h>

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "%s:%d: %s failed (%s)\n", __FILE__, __LINE__, #condition, tsr_error()); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)
#define CHECK_ERROR(code, part, call)                                                                \
  do {                                                                                               \
    CHECK((call) == (code));                                                                         \
    if (strstr(tsr_error(), part) == NULL) {                                                         \
      fprintf(stderr, "%s:%d: '%s' does not contain '%s'\n", __FILE__, __LINE__, tsr_error(), part); \
      exit(1);                                                                                       \
    }                                                                                                \
  } while (0)

static tsr_tensor* Floats(int32_t rank, const int64_t* dims, const float* values, size_t n) {
  tsr_tensor* x = NULL;
  CHECK(tsr_tensor_new(TSR_F32, rank, dims, values, n * sizeof(float), &x) == TSR_OK);
  return x;
}

static tsr_operand Of(tsr_tensor* x) {
  tsr_operand o = TSR_INIT(tsr_operand);
  o.kind = TSR_TENSOR;
  o.tensor = x;
  return o;
}

static void Tensors(void) {
  const int64_t dims[] = {2, 3};
  const float values[] = {1, 2, 3, 4, 5, 6};
  tsr_tensor* x = Floats(2, dims, values, 6);
  tsr_tensor_info info = TSR_INIT(tsr_tensor_info);
  CHECK(tsr_tensor_get_info(x, &info) == TSR_OK);
  CHECK(info.dtype == TSR_F32 && info.rank == 2 && info.dims[1] == 3 && info.strides[0] == 3 && info.elements == 6);
  CHECK(strcmp(info.device, "cpu") == 0);
  float back[6] = {0};
  CHECK(tsr_tensor_read(x, back, sizeof(back)) == TSR_OK);
  CHECK(memcmp(back, values, sizeof(values)) == 0);
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "24 bytes, not 8", tsr_tensor_read(x, back, 8));

  char text[8];
  size_t needed = 0;
  CHECK(tsr_tensor_text(x, text, sizeof(text), &needed) == TSR_OK);
  CHECK(strlen(text) == 7 && needed > 8);

  /* An older caller, whose struct ends after `rank`, gets what fits and nothing is written behind it. */
  struct {
    size_t size;
    int32_t dtype, rank;
    char guard[16];
  } old = {16, -1, -1, "unchanged"};
  CHECK(tsr_tensor_get_info(x, (tsr_tensor_info*)&old) == TSR_OK);
  CHECK(old.rank == 2 && strcmp(old.guard, "unchanged") == 0);

  tsr_tensor* more = tsr_tensor_retain(x);
  tsr_tensor_release(x);
  CHECK(tsr_tensor_read(more, back, sizeof(back)) == TSR_OK);
  tsr_tensor_release(more);
  tsr_tensor_release(NULL);

  tsr_tensor* bad = NULL;
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "rank 9", tsr_tensor_new(TSR_F32, 9, dims, values, 24, &bad));
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "do not fill", tsr_tensor_new(TSR_F32, 2, dims, values, 8, &bad));
}

static void Ops(void) {
  const int64_t dims[] = {2, 2};
  const float values[] = {1, -2, 3, -4};
  tsr_tensor* x = Floats(2, dims, values, 4);
  tsr_operand operands[2] = {Of(x), TSR_INIT(tsr_operand)};
  operands[1].kind = TSR_FLOATING;
  operands[1].floating = 0.5;
  tsr_tensor* y = NULL;
  size_t n = 1;
  CHECK(tsr_op_run("mul", operands, 2, NULL, 0, &y, &n) == TSR_OK);
  CHECK(n == 1);
  float back[4];
  CHECK(tsr_tensor_read(y, back, sizeof(back)) == TSR_OK);
  CHECK(back[3] == -2.0f);

  const int64_t axes[] = {1};
  tsr_attr attrs[2] = {TSR_INIT(tsr_attr), TSR_INIT(tsr_attr)};
  attrs[0].name = "axes";
  attrs[0].kind = TSR_ATTR_INTS;
  attrs[0].ints = axes;
  attrs[0].num_ints = 1;
  attrs[1].name = "keepdims";
  attrs[1].kind = TSR_ATTR_BOOL;
  attrs[1].integer = 1;
  tsr_tensor* s = NULL;
  n = 1;
  CHECK(tsr_op_run("sum", operands, 1, attrs, 2, &s, &n) == TSR_OK);
  tsr_tensor_info info = TSR_INIT(tsr_tensor_info);
  CHECK(tsr_tensor_get_info(s, &info) == TSR_OK);
  CHECK(info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 1);

  tsr_tensor* many[2];
  n = 1;
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "2 results and room for 1", tsr_op_run("sort", operands, 1, NULL, 0, many, &n));
  n = 2;
  CHECK(tsr_op_run("sort", operands, 1, NULL, 0, many, &n) == TSR_OK);
  tsr_tensor_release(many[0]);
  tsr_tensor_release(many[1]);

  n = 1;
  CHECK_ERROR(TSR_NOT_FOUND, "did you mean matmul?", tsr_op_run("matmull", operands, 2, NULL, 0, &y, &n));
  attrs[1].name = "keepdim";
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "did you mean keepdims?", tsr_op_run("sum", operands, 1, attrs, 2, &y, &n));
  CHECK_ERROR(TSR_UNSUPPORTED, "cannot be run by itself", tsr_op_run("while", operands, 1, NULL, 0, &y, &n));
  operands[0].size = 0;
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "TSR_INIT", tsr_op_run("neg", operands, 1, NULL, 0, &y, &n));

  size_t ops = tsr_op_count();
  CHECK(ops > 100);
  tsr_op_info op = TSR_INIT(tsr_op_info);
  CHECK(tsr_op_get_info(0, &op) == TSR_OK && strlen(op.name) > 0);
  CHECK_ERROR(TSR_OUT_OF_RANGE, "there is no op", tsr_op_get_info(ops, &op));
  tsr_tensor_release(x);
  tsr_tensor_release(y);
  tsr_tensor_release(s);
}

static void Functions(void) {
  const char* text =
      "buffer @calls : tensor<i64>\n"
      "func @f(%x: tensor<N x f32>) -> (tensor<N x f32>, tensor<f32>) {\n"
      "  buffer_add 1 {buffer = \"calls\"}\n"
      "  %y = square %x\n"
      "  %s = sum %y\n"
      "  return %y, %s\n"
      "}\n";
  tsr_module* module = NULL;
  CHECK(tsr_module_parse(text, strlen(text), "f.gir", &module) == TSR_OK);
  const int64_t dims[] = {3};
  const float values[] = {1, 2, 3};
  tsr_tensor* x = Floats(1, dims, values, 3);
  tsr_tensor* results[2];
  size_t n = 2;
  CHECK(tsr_module_call(module, "f", &x, 1, results, &n) == TSR_OK);
  float s = 0;
  CHECK(n == 2 && tsr_tensor_read(results[1], &s, sizeof(s)) == TSR_OK && s == 14.0f);
  tsr_tensor* calls = NULL;
  CHECK(tsr_module_get_buffer(module, "calls", &calls) == TSR_OK);
  int64_t count = 0;
  CHECK(tsr_tensor_read(calls, &count, sizeof(count)) == TSR_OK && count == 1);
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "the buffer is i64[]", tsr_module_set_buffer(module, "calls", x));
  CHECK_ERROR(TSR_NOT_FOUND, "there is no function @g", tsr_module_call(module, "g", &x, 1, results, &n));
  tsr_tensor_release(results[0]);
  tsr_tensor_release(results[1]);
  tsr_tensor_release(calls);
  tsr_tensor_release(x);

  size_t needed = 0;
  CHECK(tsr_module_text(module, NULL, 0, &needed) == TSR_OK && needed > 100);
  tsr_module_release(module);
  tsr_module* bad = NULL;
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "bad.gir:1:1", tsr_module_parse("funk", 4, "bad.gir", &bad));
}

static void Derivatives(void) {
  const char* text =
      "func @f(%x: tensor<N x f32>, %w: tensor<N x f32>) -> tensor<f32> {\n"
      "  %p = mul %x, %w\n"
      "  %q = square %p\n"
      "  %y = sum %q\n"
      "  return %y\n"
      "}\n";
  tsr_module* module = NULL;
  CHECK(tsr_module_parse(text, strlen(text), NULL, &module) == TSR_OK);
  const int64_t dims[] = {2};
  const float xs[] = {1, 2}, ws[] = {3, -1}, three = 3;
  tsr_tensor* args[3] = {Floats(1, dims, xs, 2), Floats(1, dims, ws, 2), Floats(0, NULL, &three, 1)};
  const int32_t both[] = {0, 1}, one = 1, none = 2;
  const char* const names[] = {"f.grad", "f.value_and_grad", "f.vjp"};
  for (int kind = TSR_GRAD; kind <= TSR_VJP; ++kind) {
    tsr_module* made = NULL;
    CHECK(tsr_module_differentiate(module, "f", (tsr_derivative)kind, both, 2, &made) == TSR_OK);
    tsr_tensor* results[3];
    size_t n = 3;
    CHECK(tsr_module_call(made, names[kind], args, kind == TSR_VJP ? 3 : 2, results, &n) == TSR_OK);
    CHECK(n == (kind == TSR_VALUE_AND_GRAD ? 3u : 2u));
    /* 2 x w^2 and 2 w x^2, by the vjp three times that. */
    const float times = kind == TSR_VJP ? 3 : 1;
    float dx[2], dw[2];
    CHECK(tsr_tensor_read(results[n - 2], dx, sizeof(dx)) == TSR_OK && dx[0] == times * 18 && dx[1] == times * 4);
    CHECK(tsr_tensor_read(results[n - 1], dw, sizeof(dw)) == TSR_OK && dw[0] == times * 6 && dw[1] == times * -8);
    while (n > 0) tsr_tensor_release(results[--n]);
    tsr_module_release(made);
  }
  tsr_module *made = NULL, *again = NULL;
  /* The derivative of a derivative: a scalar is needed where the kind is not vjp. */
  CHECK(tsr_module_differentiate(module, "f", TSR_GRAD, &one, 1, &made) == TSR_OK);
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "must be a floating scalar",
              tsr_module_differentiate(made, "f.grad", TSR_GRAD, &one, 1, &again));
  CHECK(tsr_module_differentiate(made, "f.grad", TSR_VJP, &one, 1, &again) == TSR_OK);
  tsr_module_release(again);
  tsr_module_release(made);
  CHECK_ERROR(TSR_NOT_FOUND, "there is no function @g",
              tsr_module_differentiate(module, "g", TSR_GRAD, &one, 1, &made));
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "there is no parameter 2",
              tsr_module_differentiate(module, "f", TSR_GRAD, &none, 1, &made));
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "wrt is empty", tsr_module_differentiate(module, "f", TSR_GRAD, NULL, 0, &made));
  CHECK_ERROR(TSR_INVALID_ARGUMENT, "there is no derivative of kind 3",
              tsr_module_differentiate(module, "f", (tsr_derivative)3, &one, 1, &made));
  for (int i = 0; i < 3; ++i) tsr_tensor_release(args[i]);
  tsr_module_release(module);
}

static void TheRuntime(void) {
  char value[32];
  CHECK(tsr_set_option("parallel_grain", "4096") == TSR_OK);
  CHECK(tsr_get_option("parallel_grain", value, sizeof(value), NULL) == TSR_OK && strcmp(value, "4096") == 0);
  CHECK_ERROR(TSR_NOT_FOUND, "parallel_grain", tsr_set_option("parallel_grian", "1"));
  CHECK_ERROR(TSR_NOT_FOUND, "CUDA", tsr_set_device("cuda:7"));
  tsr_statistics statistics = TSR_INIT(tsr_statistics);
  CHECK(tsr_get_statistics(&statistics) == TSR_OK);
  CHECK(statistics.ops_executed > 0 && statistics.functions_called > 0);
  CHECK(statistics.bytes_in_use == 0);
}

int main(void) {
  CHECK(strlen(tsr_version()) > 0);
  Tensors();
  Ops();
  Functions();
  Derivatives();
  TheRuntime();
  puts("c_api: 4 passed, 0 failed");
  return 0;
}
