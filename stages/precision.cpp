#include "stages/precision.h"

#include <ATen/autocast_mode.h>

#include <stdexcept>

namespace stages {

Precision precision_from(const std::string& name) {
  if (name == "fp32") return Precision::kFp32;
  if (name == "bf16") return Precision::kBf16;
  if (name == "fp16") return Precision::kFp16;
  throw std::invalid_argument("no precision is called " + name);
}

ScopedPrecision::ScopedPrecision(Precision precision, c10::Device device)
    : active_(precision != Precision::kFp32), type_(device.type()) {
  if (!active_) return;
  at::autocast::set_autocast_dtype(type_, precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_enabled(type_, true);
}

ScopedPrecision::~ScopedPrecision() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(type_, false);
  at::autocast::clear_cache();
}

}  // namespace stages
