#include "stages/train/step_error.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"

namespace stages {
namespace {

/// "'a.jpg', 'b.jpg', 'c.jpg' and 5 more".
std::string names(const Dataset& dataset, std::span<const std::int64_t> indices) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names;
  for (const std::int64_t index : indices) names.push_back(dataset.sample_name(index));
  return runner::listed(names, kShown, "'");
}

}  // namespace

void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset) {
  const std::optional<std::int64_t> part = numbers.first_broken_part();
  const std::optional<double> norm = numbers.gradient_norm();
  if (!part && (!norm || std::isfinite(*norm))) return;

  std::string message = part ? "the loss" : "the gradient";
  message += " is not finite at step " + std::to_string(place.step) + ", in epoch " + std::to_string(place.epoch);
  std::span<const std::int64_t> culprits = place.indices;
  const std::int64_t count = parts(place.plan, place.units);
  if (part && count > 1) {
    message += ", micro-batch " + std::to_string(*part + 1) + " of " + std::to_string(count);
    if (static_cast<std::int64_t>(culprits.size()) == place.units) {
      const std::int64_t begin = *part * place.plan.micro_batch;
      culprits = culprits.subspan(static_cast<std::size_t>(begin),
                                  static_cast<std::size_t>(std::min(place.plan.micro_batch, place.units - begin)));
    }
  }
  if (!culprits.empty()) message += ", on " + names(dataset, culprits);
  throw runner::StageError(runner::ErrorCode::kLossNotFinite, message)
      .at("/optimizer")
      .with_help("lower learning_rate, set gradient_clip_norm, or look at these samples");
}

std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset) {
  std::ostringstream line;
  line.precision(3);
  line << "step " << place.step << ", in epoch " << place.epoch << ": " << what << " is " << number;
  if (usual) line << ", where " << *usual << " is usual";
  if (!place.indices.empty()) line << ", on " << names(dataset, place.indices);
  return line.str();
}

void refuse_endless_overflow(const StepPlace& place, double scale) {
  std::ostringstream shown;
  shown << scale;
  throw runner::StageError(runner::ErrorCode::kLossNotFinite,
                           "the gradients overflow fp16 at step after step, up to step " + std::to_string(place.step) +
                               ", though the loss is scaled by " + shown.str() + " only")
      .at("/optimizer")
      .with_help("lower learning_rate, or set precision: bf16, which has the range of fp32");
}

void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch) {
  const std::optional<BadUnit> bad = step.find_bad_unit(batch);
  if (!bad) return;
  const auto unit = static_cast<std::size_t>(bad->unit);
  const bool named = !batch.grouped() && unit < batch.indices.size();
  const std::string where = named ? "'" + dataset.sample_name(batch.indices[unit]) + "': " : "";
  throw runner::StageError(bad->code, where + bad->message);
}

}  // namespace stages
