#include "interp/stream.h"

#include "interp/anchor.h"

namespace tessera::interp {

const PlainStep Waiting::kNone;

namespace internal {

std::atomic<StreamHook*> g_stream_hook{nullptr};
std::atomic<bool> g_streams_on{true};
std::atomic<FunctionHook*> g_function_hook{nullptr};

void StreamHolder::Retire() {
  t_stream = nullptr;
  rt::internal::t_owner = nullptr;
  StreamHook* hook = CurrentStreamHook();
  if (stream != nullptr && hook != nullptr) hook->OnThreadEnd(*stream);
  stream = nullptr;
}

Stream* StreamOfThread() {
  if (const auto* holder = rt::PerThread<StreamHolder>::Peek(); holder != nullptr && holder->asked)
    return holder->stream;
  StartTiers();
  StreamHook* hook = CurrentStreamHook();
  StreamHolder* holder = rt::PerThread<StreamHolder>::Get();
  if (hook == nullptr || holder == nullptr) return nullptr;
  holder->stream = t_stream = hook->NewStream();
  rt::internal::t_owner = t_stream != nullptr ? &t_stream->owner : nullptr;
  holder->asked = true;
  return holder->stream;
}

}  // namespace internal

HotEntry& Stream::SecondEntryOf(uint64_t key) {
  HotEntry &first = FirstEntryOf(key), &second = entries[IndexOf(key) ^ 1];
  return second.tag == TagOf(key) || (first.tag != 0 && second.tag == 0) ? second : first;
}

void SetFunctionHook(FunctionHook* hook) { internal::g_function_hook.store(hook, std::memory_order_release); }
void SwitchStreams(bool on) { internal::g_streams_on.store(on, std::memory_order_relaxed); }
void SetStreamHook(StreamHook* hook) { internal::g_stream_hook.store(hook, std::memory_order_release); }

}  // namespace tessera::interp
