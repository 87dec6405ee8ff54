#include "runner/parent/record/best_validation.h"

#include <cmath>
#include <string_view>

namespace runner {
namespace {

constexpr std::string_view kValidated = "validation/";

}  // namespace

std::optional<Monitor> monitor_of(const Value& options) {
  const Value *name = options.find("monitor"), *least = options.find("minimum_improvement"),
              *keep = options.find("keep");
  if (!name || !name->text()) return std::nullopt;
  Monitor monitor{.metric = std::string(kValidated) + *name->text(), .is_smaller_better = *name->text() == "loss"};
  if (least) {
    if (const auto* number = std::get_if<double>(&least->data)) monitor.minimum_improvement = *number;
    if (const auto* whole = std::get_if<std::int64_t>(&least->data))
      monitor.minimum_improvement = static_cast<double>(*whole);
  }
  monitor.keeps_best = !keep || !keep->text() || *keep->text() != "last";
  return monitor;
}

void BestValidation::see(const std::string& name, double value, std::int64_t step) {
  if (!name.starts_with(kValidated)) return;
  if (step != last_step_) last_.clear();
  last_step_ = step;
  last_[name] = value;
  if (best_step_ == step) best_[name] = value;
  if (name != monitor_.metric || !std::isfinite(value)) return;
  const double improvement = monitor_.is_smaller_better ? best_value_ - value : value - best_value_;
  if (best_step_ && improvement <= monitor_.minimum_improvement) return;
  best_step_ = step;
  best_value_ = value;
  best_ = last_;
}

}  // namespace runner
