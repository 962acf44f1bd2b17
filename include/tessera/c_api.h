/* Tessera for C, and for every language that can call C.
 *
 * Functions return a code; tsr_error() has the message of this thread's last failure. Handles are opaque and counted:
 * what a function hands out, the caller releases. Structs begin with their size in bytes, which the caller sets
 * (TSR_INIT does); a library that knows more members than the caller leaves the unknown ones alone, one that knows
 * fewer ignores them. In arrays of structs all elements have the size of the first. Any function may be called from
 * any thread. */
#ifndef TESSERA_C_API_H_
#define TESSERA_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_C_API __attribute__((visibility("default")))
/* tsr_operand x = TSR_INIT(tsr_operand); */
#ifdef __cplusplus
#define TSR_INIT(type) \
  type { sizeof(type) }
#else
#define TSR_INIT(type) {.size = sizeof(type)}
#endif

/* "0.1.0" */
TSR_C_API const char* tsr_version(void);

/* ---- errors */
typedef enum tsr_code {
  TSR_OK = 0,
  TSR_INVALID_ARGUMENT = 1,   /* a wrong shape, dtype, attribute or text */
  TSR_NOT_FOUND = 2,          /* a file, op, function, buffer or option that is not there */
  TSR_OUT_OF_RANGE = 3,       /* an index outside a tensor */
  TSR_RESOURCE_EXHAUSTED = 4, /* no memory, or a limit reached */
  TSR_UNSUPPORTED = 5,        /* a combination listed as unsupported */
  TSR_DATA_LOSS = 6,          /* a damaged file */
  TSR_INTERNAL = 7,           /* a fault of Tessera */
  TSR_CANCELLED = 8           /* the user interrupted it */
} tsr_code;

/* Message of the last call on this thread that failed; "" when none did. Good until the next call on this thread. */
TSR_C_API const char* tsr_error(void);

/* ---- element types, in the order of tessera/dtypes.def */
typedef enum tsr_dtype {
  TSR_F64 = 0,
  TSR_F32 = 1,
  TSR_F16 = 2,
  TSR_BF16 = 3,
  TSR_F8E4M3 = 4,
  TSR_F8E5M2 = 5,
  TSR_I64 = 6,
  TSR_I32 = 7,
  TSR_I8 = 8,
  TSR_U8 = 9,
  TSR_BOOL = 10
} tsr_dtype;

/* ---- tensors */
#define TSR_MAX_RANK 8
typedef struct tsr_tensor tsr_tensor;

typedef struct tsr_tensor_info {
  size_t size;
  int32_t dtype; /* tsr_dtype */
  int32_t rank;
  int64_t dims[TSR_MAX_RANK];
  int64_t strides[TSR_MAX_RANK]; /* in elements */
  int64_t elements;
  const char* device;
} tsr_tensor_info;

/* A tensor on the default device with a copy of `data`: `bytes` bytes, row-major. */
TSR_C_API tsr_code tsr_tensor_new(tsr_dtype dtype, int32_t rank, const int64_t* dims, const void* data, size_t bytes,
                                  tsr_tensor** out);
TSR_C_API tsr_tensor* tsr_tensor_retain(tsr_tensor* x);
/* Null is allowed. */
TSR_C_API void tsr_tensor_release(tsr_tensor* x);
TSR_C_API tsr_code tsr_tensor_get_info(const tsr_tensor* x, tsr_tensor_info* info);
/* Copies the elements out, row-major. `bytes` must be elements times element size. */
TSR_C_API tsr_code tsr_tensor_read(const tsr_tensor* x, void* data, size_t bytes);
/* Text into `text`, cut to `capacity` with its end 0; *needed gets the whole length with that 0. Either may be null. */
TSR_C_API tsr_code tsr_tensor_text(const tsr_tensor* x, char* text, size_t capacity, size_t* needed);
TSR_C_API tsr_code tsr_tensor_save_npy(const tsr_tensor* x, const char* path);
TSR_C_API tsr_code tsr_tensor_load_npy(const char* path, tsr_tensor** out);

/* ---- ops: every row of the op table by its name */
typedef enum tsr_operand_kind {
  TSR_NONE = 0,
  TSR_TENSOR = 1,
  TSR_BOOLEAN = 2,
  TSR_INTEGER = 3,
  TSR_FLOATING = 4
} tsr_operand_kind;

typedef struct tsr_operand {
  size_t size;
  int32_t kind; /* tsr_operand_kind; TSR_NONE leaves an optional operand out */
  tsr_tensor* tensor;
  int64_t integer; /* also TSR_BOOLEAN */
  double floating;
} tsr_operand;

typedef enum tsr_attr_kind {
  TSR_ATTR_BOOL = 0,
  TSR_ATTR_INT = 1,
  TSR_ATTR_FLOAT = 2,
  TSR_ATTR_DTYPE = 3,
  TSR_ATTR_INTS = 4,
  TSR_ATTR_STR = 5,
  TSR_ATTR_TENSOR = 6
} tsr_attr_kind;

typedef struct tsr_attr {
  size_t size;
  const char* name;
  int32_t kind;    /* tsr_attr_kind */
  int64_t integer; /* bool, int and dtype */
  double floating;
  const int64_t* ints;
  size_t num_ints;
  const char* str;
  tsr_tensor* tensor;
} tsr_attr;

/* Runs an op. *num_results is the room in `results` before, their number after. On failure no result is handed out. */
TSR_C_API tsr_code tsr_op_run(const char* op, const tsr_operand* operands, size_t num_operands, const tsr_attr* attrs,
                              size_t num_attrs, tsr_tensor** results, size_t* num_results);

typedef struct tsr_op_info {
  size_t size;
  const char* name;
  const char* summary;
  const char* impl;  /* ew, kernel, view, host or control */
  const char* bound; /* exact, ulp2, ulp4, accum or dot */
  const char* rule;  /* dtype rule: promote, pfloat, compare, accum, bool, index, attr or custom */
  uint32_t dtypes;   /* a bit for each tsr_dtype that the data operands may have; 0 where there are none */
  int32_t num_operands;
} tsr_op_info;

TSR_C_API size_t tsr_op_count(void);
TSR_C_API tsr_code tsr_op_get_info(size_t index, tsr_op_info* info);

/* ---- Graph IR */
typedef struct tsr_module tsr_module;
/* `file` is for messages and may be null. */
TSR_C_API tsr_code tsr_module_parse(const char* text, size_t length, const char* file, tsr_module** out);
TSR_C_API void tsr_module_release(tsr_module* module);
TSR_C_API tsr_code tsr_module_call(tsr_module* module, const char* function, tsr_tensor* const* args, size_t num_args,
                                   tsr_tensor** results, size_t* num_results);
/* A new module with a derivative of `function` with respect to its parameters `wrt`, numbers in rising order. Its name
   is that of the function and the kind: "f.grad" is from f's arguments to the gradient of its first result, a floating
   scalar; "f.value_and_grad" gives all of f's results before those; "f.vjp" takes f's arguments and then a gradient for
   each of its floating results. Its buffers are its own and begin with what those of `module` hold. */
typedef enum tsr_derivative { TSR_GRAD = 0, TSR_VALUE_AND_GRAD = 1, TSR_VJP = 2 } tsr_derivative;
TSR_C_API tsr_code tsr_module_differentiate(tsr_module* module, const char* function, tsr_derivative kind,
                                            const int32_t* wrt, size_t num_wrt, tsr_module** out);
TSR_C_API tsr_code tsr_module_text(tsr_module* module, char* text, size_t capacity, size_t* needed);
TSR_C_API tsr_code tsr_module_get_buffer(tsr_module* module, const char* name, tsr_tensor** out);
TSR_C_API tsr_code tsr_module_set_buffer(tsr_module* module, const char* name, const tsr_tensor* value);

/* ---- the runtime */
TSR_C_API tsr_code tsr_set_option(const char* name, const char* value);
TSR_C_API tsr_code tsr_get_option(const char* name, char* value, size_t capacity, size_t* needed);
TSR_C_API tsr_code tsr_set_device(const char* name);

typedef struct tsr_statistics {
  size_t size;
  int64_t bytes_in_use;
  int64_t bytes_cached;
  int64_t peak_bytes;
  int64_t allocations;
  int64_t ops_executed;
  int64_t functions_called;
  int64_t instructions_run;
  int64_t version_runs; /* runs of versions, each iteration of a loop counting as one */
  int64_t version_ops;  /* steps that ran in them */
  int64_t codes_made;   /* versions with generated code */
  int64_t deopts;
} tsr_statistics;

/* Records what happens from now on to a file that `tessera trace` reads (docs/trace-inspection.md). A process has one
 * recording at a time. */
TSR_C_API tsr_code tsr_trace_start(const char* path);
TSR_C_API tsr_code tsr_trace_stop(void);
/* Writes the last seconds to a file of that kind: as many as the option trace_keep says, which must be set. */
TSR_C_API tsr_code tsr_trace_dump(const char* path);

/* Memory of the default device, and counters since the process began. */
TSR_C_API tsr_code tsr_get_statistics(tsr_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_C_API_H_ */
