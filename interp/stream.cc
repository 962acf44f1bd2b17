#include "interp/stream.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "interp/anchor.h"

namespace tessera::interp {

const PlainStep Waiting::kNone;
const Stream::Link Stream::kNoLink{kNoKey, 0, nullptr};

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

HotEntry* Stream::FindEntry(EagerCall& call) {
  const bool follows = num_links_ > 0 && expected_ == &links_[num_links_];
  call.path = NextPath(call.site, call.op);
  if (--until_decay <= 0) [[unlikely]]
    CurrentStreamHook()->OnDecay(*this);
  HotEntry* entry = &EntryOf(call.path);
  if (entry->tag != TagOf(call.path)) {
    CurrentStreamHook()->OnMiss(*this, *entry, call);
    nobodys_.countdown = std::numeric_limits<int32_t>::max();
    return &nobodys_;
  }
  // With bits left out it is no path; and somebody may want to be asked at each op.
  if (call.path == path_ && path_mask == ~uint64_t{0} && until_decay > 1) FindLink(call, entry, follows);
  return entry;
}

void Stream::FindLink(const EagerCall& call, HotEntry* entry, bool follows) {
  uint16_t& place = link_of_[PlaceOf(path_) % (kLinks / 4)];
  if (place < num_links_ && links_[place].path == path_ && links_[place].entry != nullptr) {
    expected_ = counted_ = &links_[place + 1];
    return;
  }
  if (num_links_ + 2 > kLinks) num_links_ = 0;
  // The one behind the last stays where it is.
  if (num_links_ > 0 && !follows) ++num_links_;
  place = static_cast<uint16_t>(num_links_);
  links_[num_links_++] = {KeyOf(call.site, call.op), path_, entry};
  links_[num_links_] = kNoLink;
  expected_ = counted_ = &links_[num_links_];
}

HotEntry& Stream::EntryAt(uint64_t place) {
  uint16_t& entry = entry_of_[place];
  if (entry == 0) {
    entries_.all[num_entries_] = {};
    entry = static_cast<uint16_t>(++num_entries_);
  }
  return entries_.all[entry - 1];
}

HotEntry& Stream::EntryOf(uint64_t key) {
  HotEntry& first = EntryAt(PlaceOf(key));
  if (first.tag == TagOf(key) || first.tag == 0) return first;
  HotEntry& second = EntryAt(PlaceOf(key) ^ 1);
  return second.tag == TagOf(key) || second.tag == 0 ? second : first;
}

void Stream::ForgetEntries() {
  ForgetTrail();
  num_entries_ = 0;
  std::fill(std::begin(entry_of_), std::end(entry_of_), uint16_t{0});
}

void SetFunctionHook(FunctionHook* hook) { internal::g_function_hook.store(hook, std::memory_order_release); }
void SwitchStreams(bool on) { internal::g_streams_on.store(on, std::memory_order_relaxed); }
void SetStreamHook(StreamHook* hook) { internal::g_stream_hook.store(hook, std::memory_order_release); }

}  // namespace tessera::interp
