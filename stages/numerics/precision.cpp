#include "stages/numerics/precision.h"

#include <ATen/autocast_mode.h>

#include <cassert>

#include "stages/numerics/meta_autocast.h"

namespace stages {
namespace {

// Torch has no autocast of the Meta device; a dry run's is in stages/plan/.

bool is_on(c10::DeviceType type) {
  if (type == at::kMeta) return meta_autocast().enabled;
  return at::autocast::is_autocast_available(type) && at::autocast::is_autocast_enabled(type);
}

at::ScalarType half_of(c10::DeviceType type) {
  if (type == at::kMeta) return meta_autocast().half;
  return at::autocast::is_autocast_available(type) ? at::autocast::get_autocast_dtype(type) : at::kFloat;
}

/// Casts in one format must not be found by operations in another: the cache knows them by their weights alone.
void set_half(c10::DeviceType type, at::ScalarType half) {
  if (type == at::kMeta) return set_meta_autocast({.enabled = meta_autocast().enabled, .half = half});
  if (at::autocast::get_autocast_dtype(type) == half) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(type, half);
}

void set_on(c10::DeviceType type, bool is_on) {
  if (type == at::kMeta) set_meta_autocast({.enabled = is_on, .half = meta_autocast().half});
  else at::autocast::set_autocast_enabled(type, is_on);
}

/// Torch counts the scopes of all devices of a thread together.
void forget_casts() {
  at::autocast::clear_cache();
  forget_meta_casts();
}

}  // namespace

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return "fp32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
  }
  assert(false);
  return "";
}

at::ScalarType scalar_type(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return at::kFloat;
    case Precision::kBf16:
      return at::kBFloat16;
    case Precision::kFp16:
      return at::kHalf;
  }
  assert(false);
  return at::kFloat;
}

Precision current_precision(c10::Device device) {
  if (!is_on(device.type())) return Precision::kFp32;
  return half_of(device.type()) == at::kBFloat16 ? Precision::kBf16 : Precision::kFp16;
}

ScopedPrecision::ScopedPrecision(Precision precision, c10::Device device)
    : device_(device),
      before_(current_precision(device)),
      half_before_(half_of(device.type())),
      is_change_(precision != before_) {
  if (!is_change_) return;
  if (precision != Precision::kFp32) set_half(device.type(), scalar_type(precision));
  set_on(device.type(), precision != Precision::kFp32);
  at::autocast::increment_nesting();
}

ScopedPrecision::~ScopedPrecision() {
  if (!is_change_) return;
  set_half(device_.type(), half_before_);
  set_on(device_.type(), before_ != Precision::kFp32);
  if (at::autocast::decrement_nesting() == 0) forget_casts();
}

}  // namespace stages
