#include "stages/evaluate/multi_label_metrics.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/text/join.h"
#include "runner/shared/text/printable.h"
#include "stages/artifact/label_ranking.h"
#include "stages/evaluate/classification_curves.h"

namespace stages {
namespace {

/// Counts of predictions for one label, or for all labels.
struct FoundCounts {
  std::int64_t right = 0;  ///< samples with the label that are predicted to have it
  std::int64_t predicted = 0, support = 0;

  ClassQuality quality() const {
    const auto ratio = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
    const auto hits = static_cast<double>(right);
    return {.precision = ratio(hits, static_cast<double>(predicted)),
            .recall = ratio(hits, static_cast<double>(support)),
            .f1 = ratio(2 * hits, static_cast<double>(predicted + support))};
  }
};

std::optional<double> mean_of(const std::vector<LabelQuality>& labels,
                              std::optional<double> LabelQuality::*member) {
  double sum = 0, count = 0;
  for (const LabelQuality& label : labels) {
    if (!(label.*member)) continue;
    sum += *(label.*member);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

void rank_label(std::vector<ScoredLabel>& samples, LabelQuality& quality) {
  quality.average_precision = average_precision(samples);
  std::vector<Detected> detected;
  detected.reserve(samples.size());
  for (const ScoredLabel& sample : samples) detected.push_back({sample.score, sample.is_positive});
  if (const auto curve = roc_curve(std::move(detected))) quality.area = curve->area;
}

std::string share_text(const std::optional<double>& share) {
  if (!share) return "–";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", 100 * *share);
  return text;
}

}  // namespace

bool is_predicted(double logit, double threshold) { return label_probability(logit) >= threshold; }

MultiLabelMetrics multi_label_metrics(const at::Tensor& logits, const at::Tensor& labels,
                                      const std::vector<double>& thresholds,
                                      const std::vector<bool>& present) {
  const std::int64_t samples = logits.size(0), width = logits.size(1);
  const auto* const logit = logits.const_data_ptr<float>();
  const auto* const label_of = labels.const_data_ptr<std::uint8_t>();
  MultiLabelMetrics metrics{.samples = samples};
  FoundCounts all;
  std::vector<bool> is_exact(static_cast<std::size_t>(samples), true);
  std::int64_t wrong = 0, counted = 0;
  for (std::int64_t label = 0; label < width; ++label) {
    const auto index = static_cast<std::size_t>(label);
    LabelQuality& quality = metrics.of_label.emplace_back();
    quality.threshold = thresholds[index];
    quality.is_present = present.empty() || present[index];
    if (!quality.is_present) continue;
    FoundCounts found;
    std::vector<ScoredLabel> scored;
    scored.reserve(static_cast<std::size_t>(samples));
    for (std::int64_t row = 0; row < samples; ++row) {
      const auto score = static_cast<double>(logit[row * width + label]);
      const bool has = label_of[row * width + label] != 0,
                 predicted = is_predicted(score, quality.threshold);
      scored.push_back({score, has});
      found.support += has ? 1 : 0;
      found.predicted += predicted ? 1 : 0;
      found.right += has && predicted ? 1 : 0;
      if (has == predicted) continue;
      ++wrong;
      is_exact[static_cast<std::size_t>(row)] = false;
    }
    rank_label(scored, quality);
    quality.found = found.quality();
    quality.support = found.support;
    all.right += found.right;
    all.predicted += found.predicted;
    all.support += found.support;
    metrics.macro.precision += quality.found.precision;
    metrics.macro.recall += quality.found.recall;
    metrics.macro.f1 += quality.found.f1;
    ++counted;
  }
  const auto known = static_cast<double>(counted), rows = static_cast<double>(samples);
  for (double* sum : {&metrics.macro.precision, &metrics.macro.recall, &metrics.macro.f1})
    *sum /= known;
  metrics.mean_average_precision = mean_of(metrics.of_label, &LabelQuality::average_precision);
  metrics.macro_area = mean_of(metrics.of_label, &LabelQuality::area);
  metrics.micro = all.quality();
  metrics.hamming_loss = static_cast<double>(wrong) / (known * rows);
  metrics.subset_accuracy = static_cast<double>(std::ranges::count(is_exact, true)) / rows;
  return metrics;
}

std::int64_t multi_label_metric_bytes(std::int64_t samples) {
  // Two lists of scores, and a curve with two rates for each of them.
  return samples *
         static_cast<std::int64_t>(sizeof(ScoredLabel) + sizeof(Detected) + 2 * sizeof(double));
}

std::vector<std::pair<std::string, double>> summary(const MultiLabelMetrics& metrics) {
  std::vector<std::pair<std::string, double>> values;
  if (metrics.mean_average_precision)
    values.emplace_back("mean_average_precision", *metrics.mean_average_precision);
  if (metrics.macro_area) values.emplace_back("auc_macro", *metrics.macro_area);
  for (const auto& [prefix, quality] :
       {std::pair("micro_", metrics.micro), std::pair("macro_", metrics.macro)}) {
    values.emplace_back(std::string(prefix) + "precision", quality.precision);
    values.emplace_back(std::string(prefix) + "recall", quality.recall);
    values.emplace_back(std::string(prefix) + "f1", quality.f1);
  }
  values.emplace_back("hamming_loss", metrics.hamming_loss);
  values.emplace_back("subset_accuracy", metrics.subset_accuracy);
  values.emplace_back("samples", static_cast<double>(metrics.samples));
  return values;
}

nlohmann::ordered_json to_json(const MultiLabelMetrics& metrics,
                               const std::vector<std::string>& labels) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : summary(metrics)) json[name] = value;
  json["samples"] = metrics.samples;
  json["per_label"] = nlohmann::ordered_json::array();
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const LabelQuality& one = metrics.of_label[label];
    if (!one.is_present) continue;
    json["per_label"].push_back({{"label", labels[label]},
                                 {"average_precision", number(one.average_precision)},
                                 {"auc", number(one.area)},
                                 {"threshold", one.threshold},
                                 {"precision", one.found.precision},
                                 {"recall", one.found.recall},
                                 {"f1", one.found.f1},
                                 {"support", one.support}});
  }
  return json;
}

std::string report_text(const MultiLabelMetrics& metrics, const std::vector<std::string>& labels) {
  std::vector<std::vector<std::string>> rows = {
      {"label", "average precision", "AUC", "threshold", "precision", "recall", "F1", "samples"}};
  for (std::size_t label = 0; label < labels.size(); ++label) {
    const LabelQuality& one = metrics.of_label[label];
    if (!one.is_present) continue;
    rows.push_back({runner::printable(labels[label]), share_text(one.average_precision),
                    share_text(one.area), share_text(one.threshold),
                    share_text(one.found.precision), share_text(one.found.recall),
                    share_text(one.found.f1), std::to_string(one.support)});
  }
  rows.push_back({"mean", share_text(metrics.mean_average_precision),
                  share_text(metrics.macro_area), "", share_text(metrics.macro.precision),
                  share_text(metrics.macro.recall), share_text(metrics.macro.f1),
                  std::to_string(metrics.samples)});
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      const std::string gap(width - row[column].size(), ' ');
      text += column == 0 ? row[column] + gap : "  " + gap + row[column];
    }
    text += "\n";
  }
  return text + "All values are percentages, except the numbers of samples.\n";
}

std::string headline(const MultiLabelMetrics& metrics) {
  return "mean average precision " + share_text(metrics.mean_average_precision) + "%, macro F1 " +
         share_text(metrics.macro.f1) + "%, micro F1 " + share_text(metrics.micro.f1) +
         "%, hamming loss " + share_text(metrics.hamming_loss) + "%, exactly right " +
         share_text(metrics.subset_accuracy) + "%, " + std::to_string(metrics.samples) + " samples";
}

std::string joined_labels(const std::vector<std::string>& labels) {
  return runner::join(labels, "|");
}

}  // namespace stages
