/* Recorded traces from C: a part of a run goes to a file, and what cannot be is said. */
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

static void RunOps(void) {
  const int64_t dims[] = {4};
  const float values[] = {1, 2, 3, 4};
  tsr_tensor* x = NULL;
  CHECK(tsr_tensor_new(TSR_F32, 1, dims, values, sizeof(values), &x) == TSR_OK);
  for (int i = 0; i < 10; ++i) {
    tsr_operand operand = TSR_INIT(tsr_operand);
    operand.kind = TSR_TENSOR;
    operand.tensor = x;
    tsr_tensor* y = NULL;
    size_t n = 1;
    CHECK(tsr_op_run("tanh", &operand, 1, NULL, 0, &y, &n) == TSR_OK);
    tsr_tensor_release(y);
  }
  tsr_tensor_release(x);
}

/* The bytes of a trace, or 0. */
static long TraceBytes(const char* path) {
  char magic[9] = {0};
  FILE* file = fopen(path, "rb");
  if (file == NULL) return 0;
  const size_t n = fread(magic, 1, 8, file);
  fseek(file, 0, SEEK_END);
  const long bytes = ftell(file);
  fclose(file);
  return n == 8 && strcmp(magic, "TSRTRACE") == 0 ? bytes : 0;
}

int main(void) {
  const char* folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
  char path[512], dump[512];
  snprintf(path, sizeof(path), "%s/c_api_trace_%p", folder, (void*)path);
  snprintf(dump, sizeof(dump), "%s.dump", path);

  /* It is read at first use. */
  CHECK(tsr_set_option("trace_keep", "30") == TSR_OK);
  CHECK(tsr_trace_start(NULL) == TSR_INVALID_ARGUMENT && tsr_trace_dump(NULL) == TSR_INVALID_ARGUMENT);
  CHECK(tsr_trace_start("/no/such/folder/x.trace") != TSR_OK && strstr(tsr_error(), "/no/such/folder") != NULL);
  CHECK(tsr_trace_stop() != TSR_OK && strstr(tsr_error(), "no recording is open") != NULL);

  CHECK(tsr_trace_start(path) == TSR_OK);
  CHECK(tsr_trace_start(dump) != TSR_OK && strstr(tsr_error(), "is open") != NULL);
  RunOps();
  CHECK(tsr_trace_stop() == TSR_OK);
  CHECK(TraceBytes(path) > 500);

  /* Once more, over the file of the first. */
  CHECK(tsr_trace_start(path) == TSR_OK);
  CHECK(tsr_trace_stop() == TSR_OK);
  CHECK(TraceBytes(path) > 100);
  RunOps();
  CHECK(tsr_trace_dump(dump) == TSR_OK);
  CHECK(TraceBytes(dump) > 500);
  remove(path);
  remove(dump);
  puts("c_api: recorded");
  return 0;
}
