#include "stages/artifact/targets.h"

#include <algorithm>
#include <cmath>

#include <torch/types.h>

#include "stages/tensor/batch.h"

namespace stages {
namespace {

/// Returns a tensor of shape (1, targets), with one value per target, on the device of `like`.
at::Tensor row_of(const std::vector<double>& numbers, const at::Tensor& like) {
  return send_to(like.device(), torch::tensor(numbers, torch::kDouble)).unsqueeze(0);
}

/// The values of one target for all samples; neighboring samples are `stride` elements apart.
struct TargetColumn {
  const double *predictions, *targets;
  std::int64_t samples, stride;
};

TargetErrors errors_of(const TargetColumn& column, std::span<const std::int32_t> times) {
  double count = 0, absolute = 0, squared = 0, sum = 0, spread = 0;
  std::optional<double> first;
  bool varies = false;
  const auto for_samples = [&](const auto& use) {
    for (std::int64_t i = 0; i < column.samples; ++i) {
      const double weight = times.empty() ? 1 : times[static_cast<std::size_t>(i)];
      if (weight > 0)
        use(weight, column.targets[i * column.stride], column.predictions[i * column.stride]);
    }
  };
  for_samples([&](double weight, double target, double prediction) {
    const double error = target - prediction;
    count += weight;
    absolute += weight * std::abs(error);
    squared += weight * error * error;
    sum += weight * target;
    varies = varies || target != first.value_or(target);
    if (!first) first = target;
  });
  const double mean = sum / count;
  for_samples([&](double weight, double target, double) {
    spread += weight * (target - mean) * (target - mean);
  });
  TargetErrors errors{.mae = absolute / count, .rmse = std::sqrt(squared / count), .r2 = {}};
  if (varies) errors.r2 = 1 - squared / spread;
  return errors;
}

}  // namespace

bool has_targets(const std::vector<TensorSpec>& tensors, std::int64_t names) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find(tensors, name, &TensorSpec::name);
  };
  const auto target = find(kTarget);
  return names > 0 && target != tensors.end() && target->shape == std::vector{names} &&
         at::isFloatingType(target->dtype) && find("label") == tensors.end();
}

bool has_targets(const DatasetDescription& data) {
  return has_targets(data.tensors, static_cast<std::int64_t>(data.classes.size()));
}

at::Tensor known_targets(const Dataset& data) {
  const auto* known = dynamic_cast<const KnownTargets*>(&data);
  return known ? known->targets() : at::Tensor();
}

TrainedTargets target_statistics(const at::Tensor& targets) {
  const at::Tensor mean = targets.mean(0);
  // The mean of equal values can differ from them in the last bit.
  const at::Tensor varies = (targets != targets.slice(0, 0, 1)).any(0);
  const at::Tensor deviation = (targets - mean).square().mean(0).sqrt() * varies;
  TrainedTargets trained;
  for (std::int64_t target = 0; target < targets.size(1); ++target) {
    trained.mean.push_back(mean[target].item<double>());
    trained.standard_deviation.push_back(deviation[target].item<double>());
  }
  return trained;
}

at::Tensor in_output_unit(const at::Tensor& targets, const TrainedTargets& trained) {
  if (!trained.are_standardized) return targets;
  return (targets - row_of(trained.mean, targets)) / row_of(trained.standard_deviation, targets);
}

at::Tensor in_target_unit(const at::Tensor& outputs, const TrainedTargets& trained) {
  const at::Tensor exact = outputs.to(at::kDouble);
  if (!trained.are_standardized) return exact;
  return exact * row_of(trained.standard_deviation, exact) + row_of(trained.mean, exact);
}

std::vector<TargetErrors> target_errors(const at::Tensor& predictions, const at::Tensor& targets,
                                        std::span<const std::int32_t> times) {
  const at::Tensor predicted = predictions.contiguous(), truth = targets.contiguous();
  std::vector<TargetErrors> all;
  for (std::int64_t target = 0; target < targets.size(1); ++target) {
    all.push_back(
        errors_of({predicted.const_data_ptr<double>() + target,
                   truth.const_data_ptr<double>() + target, targets.size(0), targets.size(1)},
                  times));
  }
  return all;
}

TargetErrors mean_errors(const std::vector<TargetErrors>& of_targets) {
  TargetErrors mean;
  double explained = 0;
  std::int64_t defined = 0;
  for (const TargetErrors& one : of_targets) {
    mean.mae += one.mae / static_cast<double>(of_targets.size());
    mean.rmse += one.rmse / static_cast<double>(of_targets.size());
    explained += one.r2.value_or(0);
    defined += one.r2 ? 1 : 0;
  }
  if (defined > 0) mean.r2 = explained / static_cast<double>(defined);
  return mean;
}

}  // namespace stages
