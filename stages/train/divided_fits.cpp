#include "stages/train/divided_fits.h"

#include <cstddef>

#include <torch/types.h>

#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

/// The values of a fit that ranks exchange. float64 can represent any number of steps.
enum FitColumn : std::size_t { kAccuracy, kSteps, kLargestGradient, kLoss, kFitColumns };

}  // namespace

std::vector<MeasuredFit> divided_fits(const std::vector<double>& strengths, RankGroup* group,
                                      const std::function<MeasuredFit(double strength)>& fit) {
  const std::size_t ranks = group ? static_cast<std::size_t>(group->size()) : 1,
                    own = group ? static_cast<std::size_t>(group->rank()) : 0;
  std::vector<MeasuredFit> fits(strengths.size());
  for (std::size_t i = own; i < strengths.size(); i += ranks) fits[i] = fit(strengths[i]);
  if (!group) return fits;
  at::Tensor table;
  group->together([&] {
    table = torch::zeros({std::ssize(strengths), std::int64_t{kFitColumns}}, at::kDouble);
  });
  auto* const numbers = table.mutable_data_ptr<double>();
  for (std::size_t i = own; i < strengths.size(); i += ranks) {
    double* const row = numbers + i * kFitColumns;
    row[kAccuracy] = fits[i].accuracy;
    row[kSteps] = static_cast<double>(fits[i].steps);
    row[kLargestGradient] = fits[i].largest_gradient;
    row[kLoss] = fits[i].loss;
  }
  group->sum(table);  // exact: only one rank adds something other than 0
  for (std::size_t i = 0; i < strengths.size(); ++i) {
    const double* const row = numbers + i * kFitColumns;
    fits[i] = {.strength = strengths[i],
               .accuracy = row[kAccuracy],
               .steps = static_cast<std::int64_t>(row[kSteps]),
               .largest_gradient = row[kLargestGradient],
               .loss = row[kLoss]};
  }
  return fits;
}

}  // namespace stages
