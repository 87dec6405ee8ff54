#include "stages/evaluate/label_curves.h"

#include <algorithm>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "stages/artifact/label_ranking.h"
#include "stages/evaluate/classification_curves.h"

namespace stages {
namespace {

/// Returns the labels for which curves are written, most frequent first.
std::vector<std::size_t> most_frequent_labels(const std::vector<LabelQuality>& labels) {
  std::vector<std::size_t> frequent;
  for (std::size_t label = 0; label < labels.size(); ++label)
    if (labels[label].is_present && labels[label].support > 0) frequent.push_back(label);
  std::ranges::stable_sort(frequent, std::greater{},
                           [&](std::size_t label) { return labels[label].support; });
  frequent.resize(std::min(frequent.size(), kMostCurves));
  return frequent;
}

nlohmann::ordered_json share_or_null(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}

}  // namespace

nlohmann::ordered_json label_curves(const at::Tensor& logits, const at::Tensor& labels,
                                    const MultiLabelMetrics& metrics,
                                    const std::vector<std::string>& names) {
  using Json = nlohmann::ordered_json;
  const std::int64_t samples = logits.size(0), width = logits.size(1);
  const auto* const logit = logits.const_data_ptr<float>();
  const auto* const has = labels.const_data_ptr<std::uint8_t>();
  Json roc = Json::array(), precision_recall = Json::array();
  for (const std::size_t label : most_frequent_labels(metrics.of_label)) {
    std::vector<ScoredLabel> scored;
    std::vector<Detected> detected;
    scored.reserve(static_cast<std::size_t>(samples));
    detected.reserve(static_cast<std::size_t>(samples));
    for (std::int64_t row = 0; row < samples; ++row) {
      const std::int64_t place = row * width + static_cast<std::int64_t>(label);
      scored.push_back({static_cast<double>(logit[place]), has[place] != 0});
      detected.push_back({scored.back().score, scored.back().is_positive});
    }
    if (const auto curve = roc_curve(std::move(detected))) {
      Json one = {{"class", names[label]}};
      one.update(to_json(*curve));
      roc.push_back(std::move(one));
    }
    const LabelQuality& quality = metrics.of_label[label];
    const auto curve = precision_recall_curve(scored);
    precision_recall.push_back({{"class", names[label]},
                                {"support", quality.support},
                                {"average_precision", share_or_null(quality.average_precision)},
                                {"recall", thinned(curve->recall, kMostPoints)},
                                {"precision", thinned(curve->precision, kMostPoints)}});
  }
  return {{"labels", std::ranges::count(metrics.of_label, true, &LabelQuality::is_present)},
          {"roc",
           {{"auc_macro", share_or_null(metrics.macro_area)},
            {"macro", nullptr},
            {"micro", nullptr},
            {"classes", std::move(roc)}}},
          {"precision_recall",
           {{"mean_average_precision", share_or_null(metrics.mean_average_precision)},
            {"classes", std::move(precision_recall)}}},
          {"calibration", nullptr}};
}

}  // namespace stages
