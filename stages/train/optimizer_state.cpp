#include "stages/train/optimizer_state.h"

namespace stages {
namespace {

using State = ParameterState;

constexpr StatePart kMomentum{"momentum", &State::momentum}, kMean{"mean", &State::mean},
    kSquare{"square", &State::square}, kMaximum{"maximum", &State::maximum},
    kRowMeans{"row", &State::row}, kColumnMeans{"column", &State::column}, kAge{"age", &State::age};

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

std::vector<StatePart> state_parts(const OptimizerOptions& rule, const at::Tensor& parameter,
                                   bool is_matrix) {
  return std::visit(PartsOfRule{parameter, is_matrix}, rule);
}

std::vector<std::int64_t> sizes_of(const StatePart& part, const at::Tensor& parameter) {
  if (part.is_age()) return {};
  std::vector<std::int64_t> sizes = parameter.sizes().vec();
  if (part.tensor == &State::row) sizes.back() = 1;
  if (part.tensor == &State::column) sizes[sizes.size() - 2] = 1;
  return sizes;
}

at::ScalarType type_of(const StatePart& part, const at::Tensor& parameter) {
  return part.is_age() ? at::kFloat : parameter.scalar_type();
}

}  // namespace stages
