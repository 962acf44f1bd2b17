#include "tiers/compiler/target/loader.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectFileInterface.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Support/MemoryBuffer.h"
#include "tiers/compiler/target/contain.h"
#include "tiers/compiler/target/repair.h"

namespace tessera::compiler {
namespace {

namespace orc = llvm::orc;

struct External {
  const char* name;
  void* address;
};

template <typename R, typename... A>
void* AddressOf(R (*function)(A...)) {
  return reinterpret_cast<void*>(function);
}

#ifdef __x86_64__
/// __truncdfhf2, which LLVM calls where it takes the sign of an f64 for an f16 (tanh of a mean): the processor has no
/// such instruction. An f16 is returned in the low half of where a float is.
float HalfOf(double x) {
  llvm::APFloat half(x);
  bool is_inexact;
  half.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &is_inexact);
  return llvm::bit_cast<float>(static_cast<uint32_t>(half.bitcastToAPInt().getZExtValue()));
}
#endif

std::vector<External> Externals() {
  using Memory1 = void* (*)(void*, const void*, size_t);
  std::vector<External> all = {
      {"memcpy", AddressOf(static_cast<Memory1>(std::memcpy))},
      {"memmove", AddressOf(static_cast<Memory1>(std::memmove))},
      {"memset", AddressOf(static_cast<void* (*)(void*, int, size_t)>(std::memset))},
      {"memcmp", AddressOf(static_cast<int (*)(const void*, const void*, size_t)>(std::memcmp))},
  };
#ifdef __x86_64__
  using F = float (*)(float);
  using D = double (*)(double);
  const External rounding[] = {
      {"floorf", AddressOf(static_cast<F>(::floorf))},
      {"floor", AddressOf(static_cast<D>(::floor))},
      {"ceilf", AddressOf(static_cast<F>(::ceilf))},
      {"ceil", AddressOf(static_cast<D>(::ceil))},
      {"truncf", AddressOf(static_cast<F>(::truncf))},
      {"trunc", AddressOf(static_cast<D>(::trunc))},
      {"rintf", AddressOf(static_cast<F>(::rintf))},
      {"rint", AddressOf(static_cast<D>(::rint))},
      {"fmaf", AddressOf(static_cast<float (*)(float, float, float)>(::fmaf))},
      {"fma", AddressOf(static_cast<double (*)(double, double, double)>(::fma))},
      {"__truncdfhf2", AddressOf(HalfOf)},
  };
  all.insert(all.end(), std::begin(rounding), std::end(rounding));
#endif
  for (const TsrRepair* r = tsr_repair_table; r->name != nullptr; ++r) all.push_back({r->name, r->address});
  return all;
}

/// A thread that LLVM gave up on keeps its lock for ever; whoever comes after must not wait for it.
class Lock {
 public:
  explicit Lock(std::timed_mutex& mutex) : mutex_(mutex) {
    while (CompilerLost() == nullptr) {
      if (mutex_.try_lock_for(std::chrono::milliseconds(20))) {
        held_ = true;
        return;
      }
    }
  }
  ~Lock() {
    if (held_) mutex_.unlock();
  }
  bool held() const { return held_; }

 private:
  std::timed_mutex& mutex_;
  bool held_ = false;
};

llvm::Error Lost() { return llvm::createStringError(std::string(CompilerLost())); }

struct Object {
  orc::JITDylib* dylib;
  std::map<std::string, void*, std::less<>> symbols;
};

}  // namespace

struct Loader::State {
  /// Held by whoever calls into ORC.
  std::timed_mutex session_mutex;
  std::unique_ptr<orc::ExecutionSession> session;
  std::unique_ptr<orc::ObjectLinkingLayer> layer;
  orc::JITDylib* externals = nullptr;
  std::string reported;

  /// Guards what follows; held for moments only, never inside ORC.
  mutable std::mutex objects_mutex;
  std::unordered_map<Handle, Object> objects;
  Handle next = 1;
};

Loader::Loader(std::unique_ptr<State> state) : state_(std::move(state)) {}

Loader::~Loader() {
  const Lock lock(state_->session_mutex);
  if (!lock.held()) {
    // Somebody is parked in there: leave everything as it is.
    state_.release();
    return;
  }
  llvm::consumeError(state_->session->endSession());
}

llvm::Expected<std::unique_ptr<Loader>> Loader::Create() {
  ContainFatalErrors();
  llvm::Expected<std::unique_ptr<orc::SelfExecutorProcessControl>> control =
      orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>());
  if (!control) return control.takeError();
  auto state = std::make_unique<State>();
  state->session = std::make_unique<orc::ExecutionSession>(std::move(*control));
  State* s = state.get();
  state->session->setErrorReporter([s](llvm::Error e) {
    const std::string text = llvm::toString(std::move(e));
    s->reported += (s->reported.empty() ? "" : "; ") + text;
  });
  state->layer = std::make_unique<orc::ObjectLinkingLayer>(*state->session);
  state->externals = &state->session->createBareJITDylib("externals");
  orc::SymbolMap symbols;
  for (const External& e : Externals()) {
    symbols[state->session->intern(e.name)] = {orc::ExecutorAddr::fromPtr(e.address), llvm::JITSymbolFlags::Exported};
  }
  std::unique_ptr<Loader> loader(new Loader(std::move(state)));
  if (llvm::Error e = s->externals->define(orc::absoluteSymbols(std::move(symbols)))) return e;
  return loader;
}

llvm::Expected<Loader*> Loader::OfProcess() {
  static std::mutex mutex;
  static Loader* loader = nullptr;
  const std::lock_guard lock(mutex);
  if (loader == nullptr) {
    llvm::Expected<std::unique_ptr<Loader>> made = Create();
    if (!made) return made.takeError();
    loader = made->release();
  }
  return loader;
}

llvm::Expected<Loader::Handle> Loader::Load(std::string_view object) {
  State& s = *state_;
  const Lock lock(s.session_mutex);
  if (!lock.held()) return Lost();
  Handle handle;
  {
    const std::lock_guard objects_lock(s.objects_mutex);
    handle = s.next++;
  }
  const std::string name = "object" + std::to_string(handle);
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), name);
  llvm::Expected<orc::MaterializationUnit::Interface> interface =
      orc::getObjectFileInterface(*s.session, buffer->getMemBufferRef());
  if (!interface) return interface.takeError();

  // A library of its own: names may come again, and removing it frees everything.
  orc::JITDylib& dylib = s.session->createBareJITDylib(name);
  dylib.addToLinkOrder(*s.externals);
  s.reported.clear();
  orc::SymbolLookupSet wanted;
  for (const auto& [symbol, flags] : interface->SymbolFlags) {
    if (flags.isExported()) wanted.add(symbol);
  }
  llvm::Error failed = s.layer->add(dylib, std::move(buffer), std::move(*interface));
  Object entry{&dylib, {}};
  if (!failed) {
    llvm::Expected<orc::SymbolMap> found =
        s.session->lookup({{&dylib, orc::JITDylibLookupFlags::MatchExportedSymbolsOnly}}, std::move(wanted));
    if (found) {
      for (const auto& [symbol, definition] : *found) {
        entry.symbols.emplace((*symbol).str(), definition.getAddress().toPtr<void*>());
      }
    } else {
      failed = found.takeError();
    }
  }
  if (failed) {
    // ORC's own error names the symbols that did not come; the report says why.
    std::string text = llvm::toString(std::move(failed));
    if (!s.reported.empty()) text = s.reported + "; " + text;
    llvm::consumeError(s.session->removeJITDylib(dylib));
    return llvm::createStringError(text);
  }
  const std::lock_guard objects_lock(s.objects_mutex);
  s.objects.emplace(handle, std::move(entry));
  return handle;
}

llvm::Expected<void*> Loader::Lookup(Handle handle, std::string_view symbol) const {
  const std::lock_guard lock(state_->objects_mutex);
  const auto object = state_->objects.find(handle);
  if (object == state_->objects.end()) return llvm::createStringError("no such object is loaded");
  const auto found = object->second.symbols.find(symbol);
  if (found == object->second.symbols.end()) {
    return llvm::createStringError("the object does not define " + std::string(symbol));
  }
  return found->second;
}

llvm::Error Loader::Unload(Handle handle) {
  State& s = *state_;
  const Lock lock(s.session_mutex);
  if (!lock.held()) return Lost();
  orc::JITDylib* dylib;
  {
    const std::lock_guard objects_lock(s.objects_mutex);
    const auto object = s.objects.find(handle);
    if (object == s.objects.end()) return llvm::createStringError("no such object is loaded");
    dylib = object->second.dylib;
    s.objects.erase(object);
  }
  llvm::Error removed = s.session->removeJITDylib(*dylib);
  s.session->getSymbolStringPool()->clearDeadEntries();
  return removed;
}

size_t Loader::loaded_objects() const {
  const std::lock_guard lock(state_->objects_mutex);
  return state_->objects.size();
}

}  // namespace tessera::compiler
