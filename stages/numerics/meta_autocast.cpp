#include "stages/numerics/meta_autocast.h"

#include <atomic>

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace stages {
namespace {

MetaAutocast& meta_autocast_of_thread() {
  thread_local MetaAutocast autocast;
  return autocast;
}

std::atomic<void (*)()> forget_casts_of_kernels = nullptr;

}  // namespace

MetaAutocast meta_autocast() { return meta_autocast_of_thread(); }

void set_meta_autocast(const MetaAutocast& autocast) {
  if (autocast.half != meta_autocast().half) forget_meta_casts();
  meta_autocast_of_thread() = autocast;
  // Tensors do not have the key, so the thread gives it to all of them.
  c10::impl::tls_set_dispatch_key_excluded(kMetaAutocastKey, !autocast.enabled);
  c10::impl::tls_set_dispatch_key_included(kMetaAutocastKey, autocast.enabled);
}

void forget_meta_casts() {
  if (void (*const forget)() = forget_casts_of_kernels) forget();
}

void set_meta_cast_keeper(void (*forget)()) { forget_casts_of_kernels = forget; }

}  // namespace stages
