#include "stages/evaluate/evaluation_results.h"

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include "stages/evaluate/class_scores.h"
#include "stages/evaluate/classification_report.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

Json row(const ClassQuality& quality, std::int64_t support) {
  return {{"precision", quality.precision},
          {"recall", quality.recall},
          {"f1-score", quality.f1},
          {"support", static_cast<double>(support)}};
}

}  // namespace

Json report_dict(const ClassificationMetrics& metrics, const std::vector<std::string>& classes) {
  Json report = Json::object();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    report[classes[label]] = row(metrics.of_class[label], metrics.confusion.support(static_cast<std::int64_t>(label)));
  }
  report["accuracy"] = metrics.top1;
  report["macro avg"] = row(metrics.macro, metrics.confusion.samples());
  report["weighted avg"] = row(metrics.weighted, metrics.confusion.samples());
  return report;
}

std::string evaluation_results(const ClassifiedSamples& samples, const ClassificationMetrics& metrics,
                               const std::vector<std::string>& classes) {
  Json predictions = Json::array(), labels = Json::array();
  for (std::int64_t i = 0; i < samples.logits.size(0); ++i) {
    predictions.push_back(samples.predicted.empty() ? class_scores(samples.logits, i).predicted()
                                                    : samples.predicted[static_cast<std::size_t>(i)]);
    labels.push_back(samples.labels[i].item<std::int64_t>());
  }
  const Json fields = {{"test_loss", metrics.log_loss},
                       {"test_accuracy", metrics.top1},
                       {"predictions", std::move(predictions)},
                       {"labels", std::move(labels)},
                       {"confusion_matrix", to_json(metrics.confusion)},
                       {"classification_report", report_dict(metrics, classes)}};
  std::string text;
  for (const auto& [name, value] : fields.items()) {
    text += (text.empty() ? "{\n  " : ",\n  ") + Json(name).dump() + ": " +
            value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + "\n}\n";
}

}  // namespace stages
