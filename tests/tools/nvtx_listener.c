// A tool that listens to NVTX, as Nsight Systems does: writes each range to the file $NVTX_LISTENER_FILE.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* out;

static nvtxDomainHandle_t Create(const char* name) {
  fprintf(out, "domain %s\n", name);
  return (nvtxDomainHandle_t)out;
}
static int Push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  (void)domain;
  fprintf(out, "push %lld %s\n", (long long)event->payload.llValue, event->message.ascii);
  fflush(out);
  return 0;
}
static int Pop(nvtxDomainHandle_t domain) {
  (void)domain;
  fprintf(out, "pop\n");
  fflush(out);
  return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const char* path = getenv("NVTX_LISTENER_FILE");
  const NvtxExportTableCallbacks* callbacks = (const NvtxExportTableCallbacks*)tables(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned int size = 0;
  out = path != NULL ? fopen(path, "w") : NULL;
  if (out == NULL || callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
      size <= NVTX_CBID_CORE2_DomainCreateA)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)Create;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)Push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)Pop;
  return 1;
}
