#include "stages/train/rule_scratch.h"

#include <torch/types.h>

namespace stages {
namespace {

constexpr std::int64_t kScratchAlignment = 64;  // in bytes; no kernel uses wider vectors

std::int64_t bytes_of_part(const ScratchPart& part) {
  std::int64_t elements = 1;
  for (const std::int64_t size : part.sizes) elements *= size;
  const auto bytes = elements * static_cast<std::int64_t>(c10::elementSize(part.type));
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace

ScratchPart scratch_like(const at::Tensor& parameter) {
  ScratchPart part{parameter.sizes().vec(), parameter.scalar_type()};
  if (parameter.is_non_overlapping_and_dense()) part.strides = parameter.strides().vec();
  return part;
}

std::int64_t scratch_bytes(const std::vector<ScratchPart>& parts) {
  std::int64_t bytes = 0;
  for (const ScratchPart& part : parts) bytes += bytes_of_part(part);
  return bytes;
}

std::vector<at::Tensor> scratch_within(const at::Tensor& block,
                                       const std::vector<ScratchPart>& parts) {
  std::vector<at::Tensor> tensors;
  std::int64_t offset = 0;
  for (const ScratchPart& part : parts) {
    const std::int64_t bytes = bytes_of_part(part);
    const at::Tensor typed = block.narrow(0, offset, bytes).view(part.type);
    std::vector<std::int64_t> strides = part.strides;
    for (std::int64_t i = static_cast<std::int64_t>(part.sizes.size()) - 1, step = 1;
         part.strides.empty() && i >= 0; --i) {
      strides.insert(strides.begin(), step);
      step *= part.sizes[static_cast<std::size_t>(i)];
    }
    tensors.push_back(typed.as_strided(part.sizes, strides));
    offset += bytes;
  }
  return tensors;
}

namespace {

constexpr int kWide = 3 + StepScalars::kFree, kRooms = 2;

std::vector<ScratchPart> scalars() {
  std::vector<ScratchPart> parts;
  for (int i = 0; i < kWide + kRooms; ++i) parts.push_back({{}, at::kDouble});
  for (int i = 0; i < kRooms + 1; ++i) parts.push_back({{}, at::kFloat});
  for (int i = 0; i < 2; ++i) parts.push_back({{}, at::kBool});
  return parts;
}

}  // namespace

std::int64_t StepScalars::bytes() { return scratch_bytes(scalars()); }

StepScalars::StepScalars(const at::Tensor& block, const at::Tensor* skip) {
  const std::vector<at::Tensor> all = scratch_within(block, scalars());
  auto next = all.begin();
  const auto take = [&](int count) {
    const auto first = next;
    next += count;
    return std::vector<at::Tensor>(first, next);
  };
  wide_ = take(kWide);
  doubles_ = take(kRooms);
  narrow_ = take(kRooms);
  keep_float_ = *next++;
  truth_ = *next++;
  wide_[0].fill_(1);
  // In a dry run, `skip` has no value: steps count as done.
  if (skip && !skip->is_meta()) {
    wide_[1].copy_(*skip);
    wide_[0].sub_(wide_[1]);
    skipped_ = *next;
    skipped_.copy_(wide_[1]);
  }
  keep_float_.copy_(wide_[0]);
}

at::Tensor StepScalars::room(at::ScalarType type, int index) const {
  const auto i = static_cast<std::size_t>(index);
  return type == at::kDouble ? doubles_[i] : narrow_[i];
}

void StepScalars::multiply(const at::Tensor& scalar, double number) const {
  wide_[1].fill_(number);
  scalar.mul_(wide_[1]);
}

at::Tensor StepScalars::own(at::ScalarType type, const at::Tensor& scalar) const {
  return room(type, 0).copy_(scalar);
}

at::Tensor StepScalars::kept(at::ScalarType type, double number) const {
  wide_[2].copy_(keep());
  multiply(wide_[2], number);
  return own(type, wide_[2]);
}

at::Tensor StepScalars::changed(at::ScalarType type, double change) const {
  wide_[2].copy_(keep());
  multiply(wide_[2], change);
  wide_[1].fill_(1);
  wide_[2].add_(wide_[1]);
  return own(type, wide_[2]);
}

at::Tensor StepScalars::number(at::ScalarType type, double number) const {
  return room(type, 0).fill_(number);
}

}  // namespace stages
