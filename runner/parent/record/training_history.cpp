#include "runner/parent/record/training_history.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runner/shared/value/json_number.h"

namespace runner {

using Json = nlohmann::ordered_json;

bool TrainingHistory::see(const NodeMetric& metric, double seconds) {
  if (metric.name == "train/epoch_loss") {
    epochs_.push_back({metric.step, metric.value});
  } else {
    // Validations of single steps are no epoch's.
    if (epochs_.empty() || epochs_.back().step != metric.step) return false;
    if (metric.name == "validation/loss") epochs_.back().validation_loss = metric.value;
    else if (metric.name == "validation/accuracy") epochs_.back().validation_accuracy = metric.value;
    else return false;
  }
  epochs_.back().seconds += seconds - until_;
  until_ = seconds;
  return true;
}

Json TrainingHistory::to_json() const {
  const auto list = [&](const auto& value_of) {
    Json values = Json::array();
    bool has_any = false;
    for (const Epoch& epoch : epochs_) {
      const std::optional<double> value = value_of(epoch);
      values.push_back(value ? number_json(*value) : Json(nullptr));
      has_any |= value.has_value();
    }
    return has_any ? values : Json::array();
  };
  return {{"train_losses", list([](const Epoch& epoch) { return std::optional(epoch.train_loss); })},
          {"val_losses", list([](const Epoch& epoch) { return epoch.validation_loss; })},
          {"val_accuracies", list([](const Epoch& epoch) { return epoch.validation_accuracy; })},
          {"epoch_times", list([](const Epoch& epoch) { return std::optional(epoch.seconds); })}};
}

}  // namespace runner
