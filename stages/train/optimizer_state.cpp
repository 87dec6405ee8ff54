#include "stages/train/optimizer_state.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "stages/train/block_quantizer.h"

namespace stages {
namespace {

using State = ParameterState;

constexpr StatePart kMomentum{"momentum", &State::momentum}, kMean{"mean", &State::mean},
    kSquare{"square", &State::square}, kMaximum{"maximum", &State::maximum},
    kRowMeans{"row", &State::row}, kColumnMeans{"column", &State::column},
    kAge{"age", &State::age, StateForm::kAge};

constexpr QuantizedMoment kQuantizedMoments[] = {
    {&State::momentum, &State::momentum_absmax, "momentum_absmax", /*is_signed=*/true},
    {&State::mean, &State::mean_absmax, "mean_absmax", /*is_signed=*/true},
    {&State::square, &State::square_absmax, "square_absmax", /*is_signed=*/false}};

const QuantizedMoment& quantized_moment(const StatePart& part) {
  const auto* const found =
      std::ranges::find(kQuantizedMoments, part.tensor, &QuantizedMoment::moment);
  assert(found != std::end(kQuantizedMoments));
  return *found;
}

/// Returns the parts for one parameter under each rule.
struct PartsOfRule {
  const at::Tensor& parameter;
  bool is_matrix;

  std::vector<StatePart> operator()(const SgdOptions& rule) const {
    return rule.momentum == 0 ? std::vector<StatePart>{} : std::vector{kMomentum};
  }
  std::vector<StatePart> operator()(const AdamOptions& rule) const {
    return rule.amsgrad ? std::vector{kMean, kSquare, kMaximum, kAge}
                        : std::vector{kMean, kSquare, kAge};
  }
  std::vector<StatePart> operator()(const LionOptions&) const { return {kMean}; }
  std::vector<StatePart> operator()(const LambOptions&) const { return {kMean, kSquare, kAge}; }
  std::vector<StatePart> operator()(const AdafactorOptions&) const {
    return parameter.dim() > 1 ? std::vector{kRowMeans, kColumnMeans, kAge}
                               : std::vector{kSquare, kAge};
  }
  std::vector<StatePart> operator()(const MuonOptions&) const {
    return is_matrix ? std::vector{kMomentum} : std::vector{kMean, kSquare, kAge};
  }
};

}  // namespace

bool is_quantized(const OptimizerOptions& rule, const at::Tensor& parameter) {
  return state_bits(rule) == 8 && parameter.numel() >= kSmallestQuantized &&
         parameter.is_non_overlapping_and_dense();
}

std::vector<StatePart> state_parts(const OptimizerOptions& rule, const at::Tensor& parameter,
                                   bool is_matrix) {
  std::vector<StatePart> parts = std::visit(PartsOfRule{parameter, is_matrix}, rule);
  if (!is_quantized(rule, parameter)) return parts;
  std::vector<StatePart> stored;
  for (const StatePart& part : parts) {
    if (part.is_age()) {
      stored.push_back(part);
      continue;
    }
    const QuantizedMoment& moment = quantized_moment(part);
    stored.push_back({part.name, part.tensor, StateForm::kCodes});
    stored.push_back({moment.absmax_name, moment.absmax, StateForm::kAbsmax});
  }
  return stored;
}

std::vector<QuantizedMoment> quantized_moments(const std::vector<StatePart>& parts) {
  std::vector<QuantizedMoment> moments;
  for (const StatePart& part : parts) {
    if (part.form == StateForm::kCodes) moments.push_back(quantized_moment(part));
  }
  return moments;
}

BlockPart memory_of(const StatePart& part, const at::Tensor& parameter) {
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  switch (part.form) {
    case StateForm::kAge:
      return {{}, at::kFloat};
    case StateForm::kAbsmax:
      return {{quantized_blocks(parameter.numel())}, at::kFloat};
    case StateForm::kCodes:
      return {sizes, at::kByte};
    case StateForm::kMoment:
      break;
  }
  if (part.tensor != &State::row && part.tensor != &State::column) return part_like(parameter);
  sizes[sizes.size() - (part.tensor == &State::row ? 1 : 2)] = 1;
  return {sizes, parameter.scalar_type()};
}

}  // namespace stages
