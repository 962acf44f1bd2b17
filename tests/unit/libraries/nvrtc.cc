// Stands in for NVRTC beside cuda_driver.cc, with which the real one does not work: compiles nothing, and refuses a
// source in which "fault" stands.
#include <nvrtc.h>

#include <cstring>
#include <string>

namespace {

constexpr char kLog[] = "kernel.cu(1): error: a fault\n", kCode[] = "\177ELF";

struct Program {
  std::string source, name;
};
Program* Of(nvrtcProgram p) { return reinterpret_cast<Program*>(p); }

}  // namespace

extern "C" {

const char* nvrtcGetErrorString(nvrtcResult) { return "an error"; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram* p, const char* source, const char*, int, const char* const*,
                               const char* const*) {
  *p = reinterpret_cast<nvrtcProgram>(new Program{source, ""});
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* p) {
  delete Of(*p);
  *p = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcAddNameExpression(nvrtcProgram p, const char* name) {
  Of(p)->name = name;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int, const char* const*) {
  return Of(p)->source.find("fault") == std::string::npos ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* bytes) {
  *bytes = sizeof kLog;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  std::memcpy(log, kLog, sizeof kLog);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetLoweredName(nvrtcProgram p, const char*, const char** lowered) {
  *lowered = Of(p)->name.c_str();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t* bytes) {
  *bytes = sizeof kCode;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char* code) {
  std::memcpy(code, kCode, sizeof kCode);
  return NVRTC_SUCCESS;
}

}  // extern "C"
