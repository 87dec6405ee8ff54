#include "stages/train/regression_loss.h"

#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"

namespace stages {
namespace {

RegressionLoss read_huber(runner::ConfigReader& reader) {
  HuberLoss loss;
  reader.read("delta", loss.delta);
  return loss;
}

RegressionLoss read_smooth_l1(runner::ConfigReader& reader) {
  SmoothL1Loss loss;
  reader.read("beta", loss.beta);
  return loss;
}

/// Returns the Huber loss of absolute errors. torch's huber_loss and smooth_l1_loss cannot be
/// planned: their gradients have no kernels for Meta tensors.
at::Tensor huber_losses(const at::Tensor& errors, double delta) {
  const at::Tensor square = errors.clamp_max(delta);
  return square * (errors - square / 2);
}

at::Tensor losses_of_targets(const at::Tensor& outputs, const at::Tensor& targets,
                             const RegressionLoss& loss) {
  if (std::holds_alternative<SquaredError>(loss))
    return torch::mse_loss(outputs, targets, at::Reduction::None);
  const at::Tensor errors = (outputs - targets).abs();
  if (const auto* huber = std::get_if<HuberLoss>(&loss)) return huber_losses(errors, huber->delta);
  const auto* const smooth = std::get_if<SmoothL1Loss>(&loss);
  return smooth && smooth->beta > 0 ? huber_losses(errors, smooth->beta) / smooth->beta : errors;
}

}  // namespace

RegressionLoss read_regression_loss(runner::ConfigReader& reader) {
  using Read = RegressionLoss (*)(runner::ConfigReader&);
  runner::ConfigReader& loss = reader.section("loss");
  const auto read = runner::choice<Read>(
      loss, "kind",
      {{"mse", [](runner::ConfigReader&) -> RegressionLoss { return SquaredError{}; }},
       {"l1", [](runner::ConfigReader&) -> RegressionLoss { return AbsoluteError{}; }},
       {"huber", read_huber},
       {"smooth_l1", read_smooth_l1}});
  return read ? read(loss) : RegressionLoss{};
}

std::string name_of(const RegressionLoss& loss) {
  if (std::holds_alternative<SquaredError>(loss)) return "mse";
  if (std::holds_alternative<AbsoluteError>(loss)) return "l1";
  return std::holds_alternative<HuberLoss>(loss) ? "huber" : "smooth_l1";
}

std::string structure_of(const RegressionLoss& loss) {
  const auto* const smooth = std::get_if<SmoothL1Loss>(&loss);
  return name_of(loss) + (smooth && smooth->beta == 0 ? " without square" : "");
}

at::Tensor regression_loss_sum(const at::Tensor& outputs, const at::Tensor& targets,
                               const RegressionLoss& loss) {
  const at::Tensor exact = outputs.to(at::promote_types(outputs.scalar_type(), at::kFloat));
  return losses_of_targets(exact, targets.to(exact.scalar_type()), loss).mean(1).sum();
}

}  // namespace stages
