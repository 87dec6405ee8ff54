#include "stages/precision.h"

#include <ATen/autocast_mode.h>

#include <cassert>
#include <stdexcept>

namespace stages {
namespace {

bool is_on(c10::DeviceType type) {
  return at::autocast::is_autocast_available(type) && at::autocast::is_autocast_enabled(type);
}

at::ScalarType half_of(c10::DeviceType type) {
  return at::autocast::is_autocast_available(type) ? at::autocast::get_autocast_dtype(type) : at::kFloat;
}

/// Casts in one format must not be found by operations in another: the cache knows them by their weights alone.
void set_half(c10::DeviceType type, at::ScalarType half) {
  if (at::autocast::get_autocast_dtype(type) == half) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(type, half);
}

}  // namespace

Precision precision_from(const std::string& name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "fp16") return Precision::kFp16;
  throw std::invalid_argument("no precision is called " + name);
}

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
  at::autocast::set_autocast_enabled(device.type(), precision != Precision::kFp32);
  at::autocast::increment_nesting();
}

ScopedPrecision::~ScopedPrecision() {
  if (!is_change_) return;
  set_half(device_.type(), half_before_);
  at::autocast::set_autocast_enabled(device_.type(), before_ != Precision::kFp32);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace stages
