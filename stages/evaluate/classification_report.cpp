#include "stages/evaluate/classification_report.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runner/shared/text/decimal.h"
#include "runner/shared/text/printable.h"

namespace stages {
namespace {

using runner::decimal;

std::string percent(double share) { return decimal(100 * share, 1); }

/// Characters of UTF-8 text: every byte but those that continue one.
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0) != 0x80; }));
}

std::string right_aligned(std::string_view text, std::size_t width) {
  const std::size_t length = characters(text);
  return std::string(length < width ? width - length : 0, ' ') + std::string(text);
}

constexpr std::size_t kColumn = 10;

std::string row(std::string_view label, std::size_t width, const std::array<std::string, 4>& cells) {
  std::string text = right_aligned(label, width) + " ";
  for (const std::string& cell : cells) text += right_aligned(cell, kColumn);
  return text + "\n";
}

std::string row(std::string_view label, std::size_t width, const ClassQuality& quality, std::int64_t support) {
  return row(
      label, width,
      {decimal(quality.precision, 2), decimal(quality.recall, 2), decimal(quality.f1, 2), std::to_string(support)});
}

nlohmann::ordered_json json_of(const ClassQuality& quality) {
  return {{"precision", quality.precision}, {"recall", quality.recall}, {"f1", quality.f1}};
}

}  // namespace

std::string report_text(const ClassificationMetrics& metrics, const std::vector<std::string>& classes) {
  constexpr std::string_view kWeighted = "weighted avg";
  std::vector<std::string> names;
  std::size_t width = kWeighted.size();
  for (const std::string& name : classes) {
    names.push_back(runner::printable(name));
    width = std::max(width, characters(names.back()));
  }
  const std::int64_t samples = metrics.confusion.samples();
  std::string text = row("", width, {"precision", "recall", "f1-score", "support"}) + "\n";
  for (std::size_t label = 0; label < names.size(); ++label) {
    text +=
        row(names[label], width, metrics.of_class[label], metrics.confusion.support(static_cast<std::int64_t>(label)));
  }
  text += "\n" + row("accuracy", width, {"", "", decimal(metrics.top1, 2), std::to_string(samples)});
  text += row("macro avg", width, metrics.macro, samples);
  text += row(kWeighted, width, metrics.weighted, samples);
  return text;
}

nlohmann::ordered_json to_json(const ConfusionMatrix& confusion) {
  if (confusion.classes() > kLargestMatrix) return nullptr;
  auto rows = nlohmann::ordered_json::array();
  for (std::int64_t truth = 0; truth < confusion.classes(); ++truth) {
    auto cells = nlohmann::ordered_json::array();
    for (std::int64_t predicted = 0; predicted < confusion.classes(); ++predicted) {
      cells.push_back(confusion.count(truth, predicted));
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

nlohmann::ordered_json to_json(const ClassificationMetrics& metrics, const std::vector<std::string>& classes) {
  nlohmann::ordered_json json;
  json["samples"] = metrics.confusion.samples();
  json["classes"] = metrics.confusion.classes();
  json["top1"] = metrics.top1;
  json["top1_interval"] = {
      {"confidence", 0.95}, {"low", metrics.top1_interval.low}, {"high", metrics.top1_interval.high}};
  for (const auto& [k, share] : metrics.top_k) json["top" + std::to_string(k)] = share;
  json["mean_per_class"] = metrics.mean_per_class;
  json["log_loss"] = metrics.log_loss;
  json["chance"] = metrics.chance;
  json["macro"] = json_of(metrics.macro);
  json["weighted"] = json_of(metrics.weighted);
  json["per_class"] = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < classes.size(); ++label) {
    nlohmann::ordered_json one = {{"class", classes[label]}};
    one.update(json_of(metrics.of_class[label]));
    one["support"] = metrics.confusion.support(static_cast<std::int64_t>(label));
    json["per_class"].push_back(std::move(one));
  }
  json["confusion_matrix"] = to_json(metrics.confusion);
  return json;
}

std::string headline(const ClassificationMetrics& metrics) {
  return "top-1 " + percent(metrics.top1) + " % (95 % interval " + percent(metrics.top1_interval.low) + "–" +
         percent(metrics.top1_interval.high) + " %), mean per class " + percent(metrics.mean_per_class) +
         " %, chance " + percent(metrics.chance) + " %, " + std::to_string(metrics.confusion.samples()) + " images";
}

}  // namespace stages
