#include "stages/train/rule_scratch.h"

#include <torch/types.h>

namespace stages {
namespace {

constexpr int kWide = 3 + StepScalars::kFree, kRooms = 2;

std::vector<BlockPart> scalars() {
  std::vector<BlockPart> parts;
  for (int i = 0; i < kWide + kRooms; ++i) parts.push_back({{}, at::kDouble});
  for (int i = 0; i < kRooms + 1; ++i) parts.push_back({{}, at::kFloat});
  for (int i = 0; i < 2; ++i) parts.push_back({{}, at::kBool});
  return parts;
}

}  // namespace

std::int64_t StepScalars::bytes() { return bytes_of(scalars()); }

StepScalars::StepScalars(const at::Tensor& block, const at::Tensor* skip) {
  const std::vector<at::Tensor> all = parts_within(block, scalars());
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
  // In a dry run, `skip` has no value: steps count as not skipped.
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
